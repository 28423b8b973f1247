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

const views = [
  ["good", make("good", "cholesky", "--profile"), {}],
  ["good-dark", join(work, "good", "report.html"), { theme: "dark", find: "r2t40" }],
  ["a2a3", make("a2a3", "decode-layer", "--arch", "a2a3", "--profile"), { width: 1440, height: 1000, find: "r3t268" }],
  ["a2a3-dark", join(work, "a2a3", "report.html"), { width: 1440, height: 1000, theme: "dark" }],
  ["a2a3-4k", join(work, "a2a3", "report.html"), { width: 3840, height: 2160 }],
  ["dead", make("dead", "fault-scope-deadlock", "--profile"), {}],
  ["rounds", make("rounds", "matmul", "--profile", "--prebuilt", "--rounds", "3"), {}],
  ["million", make("million", "wavefront", "--set", "rows=1000", "--set", "cols=1000", "--set", "tile=1", "--dep-gen"), {}],
];
if (reference) {
  const page = join(work, "reference.html");
  execFileSync(command, ["report", reference, "--output", page], { stdio: "ignore" });
  views.push(["reference", page, {}]);
}

const browser = await launch();
for (const [name, file, { find, ...options }] of views) {
  const { page, close, readyMs } = await open(browser, file, options);
  if (find) await page.fill("#find", find);
  await page.waitForTimeout(200);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  console.log(`${join(folder, name)}.png (ready after ${readyMs.toFixed(0)} ms)`);
  await close();
}
await browser.close();
rmSync(work, { recursive: true });
