// Pictures of the main views: node screenshots.js FOLDER, with PLIMSOLL naming the command that makes the runs.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, open } from "./drive.js";

const [folder, reference] = process.argv.slice(2);
const command = process.env.PLIMSOLL ?? "plimsoll";
const work = mkdtempSync(join(tmpdir(), "plimsoll-pictures-"));
mkdirSync(folder, { recursive: true });

/** Runs that go wrong on purpose exit with 1, and leave their page. */
function make(name, ...words) {
  const dir = join(work, name);
  try {
    execFileSync(command, ["run", ...words, "--report", "--out", dir], { stdio: "ignore" });
  } catch (error) {
    if (error.status !== 1) throw error;
  }
  return join(dir, "report.html");
}

/** A page of files that are there. */
function report(name, ...words) {
  const page = join(work, `${name}.html`);
  execFileSync(command, ["report", ...words, "--output", page], { stdio: "ignore" });
  return page;
}

const virtual = ["--arch", "a2a3", "--engine", "virtual", "--profile"];
const wavefront = (side) => ["wavefront", "--set", `rows=${side}`, "--set", `cols=${side}`, "--set", "tile=1", "--dep-gen"];
const good = make("good", "cholesky", "--profile");
const a2a3 = make("a2a3", "decode-layer", ...virtual);
const dead = make("dead", "fault-scope-deadlock", "--profile");
make("wide", "decode-layer", ...virtual, "--set", "tile=64");
const views = [
  ["good", good, {}],
  ["good-dark", good, { theme: "dark", find: "r2t40" }],
  ["a2a3", a2a3, { width: 1440, height: 1000, find: "r3t268", wide: true }],
  ["a2a3-dark", a2a3, { width: 1440, height: 1000, theme: "dark" }],
  ["a2a3-4k", a2a3, { width: 3840, height: 2160, find: "r3t268", wide: true }],
  ["a2a3-narrow", a2a3, { width: 800, height: 1000 }],
  ["scopes", a2a3, { at: "#scopes" }],
  ["functions-dark", a2a3, { at: "#functions", theme: "dark" }],
  ["dependencies", make("sliding", "sliding", ...virtual), { find: "r1t24", at: "#dependencies" }],
  ["emulated", make("emulated", "decode-layer", "--arch", "a2a3", "--profile"), {}],
  ["dead", dead, {}],
  ["dead-dark", dead, { theme: "dark" }],
  ["hung", make("hung", "vector", ...virtual, "--costs", '{"default": "never"}'), {}],
  ["rounds", make("rounds", "matmul", "--profile", "--rounds", "3"), {}],
  ["reference", report("reference", reference ?? join(import.meta.dirname, "../../../trace/tests/fixtures/l2_swimlane")), {}],
  ["compare", report("compare", join(work, "a2a3"), join(work, "wide")), { width: 1440, height: 1000 }],
  ["hung-timeline", join(work, "hung", "report.html"), { at: "#timeline" }],
  ["million", make("million", ...wavefront(1000)), {}],
];

const browser = await launch();
for (const [name, file, { find, at, wide, ...options }] of views) {
  const { page, close, readyMs } = await open(browser, file, options);
  if (find) await page.fill("#find", find);
  // The surroundings of the task, too.
  if (wide) for (let press = 0; press < 5; press++) await page.locator("#stage").press("s");
  await page.evaluate(() => {
    document.activeElement?.blur();
    scrollTo(0, 0);
  });
  if (at) await page.locator(at).evaluate((section) => section.scrollIntoView());
  await page.waitForTimeout(200);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  console.log(`${join(folder, name)}.png (ready after ${readyMs.toFixed(0)} ms)`);
  await close();
}
await browser.close();
rmSync(work, { recursive: true });
