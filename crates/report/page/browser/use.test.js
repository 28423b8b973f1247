// The page as people use it, in a real browser: mouse, keys, filters, saving. PLIMSOLL names the command that makes the runs.
import test from "node:test";
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GUTTER, RIGHT, TOP, launch, linkOf, open } from "./drive.js";

const command = process.env.PLIMSOLL ?? "plimsoll";
const work = mkdtempSync(join(tmpdir(), "plimsoll-use-"));
const run = (...words) => execFileSync(command, words, { cwd: work, encoding: "utf8", maxBuffer: 1 << 28 });
const json = (...words) => JSON.parse(run(...words, "--json"));
/** Virtual time: the same figures wherever it runs. */
const made = (name, program) => {
  run("run", program, "--arch", "a2a3", "--engine", "virtual", "--profile", "--report", "--out", join(work, name));
  return join(work, name);
};
let good, browser;

test.before(async () => {
  good = made("good", "decode-layer");
  browser = await launch();
});
test.after(async () => {
  await browser?.close();
  rmSync(work, { recursive: true });
});

const page = () => join(good, "report.html");

/** The stage, with the pointer's place by a share of the time in sight. */
async function stageOf(page) {
  await page.locator("#stage").scrollIntoViewIfNeeded();
  const box = await page.locator("#stage").boundingBox();
  const across = box.width - GUTTER - RIGHT;
  return { x: (share) => box.x + GUTTER + share * across, y: (down) => box.y + down, across };
}

/** A duration as the page prints it, in ns. */
function nsOf(text) {
  const [, value, unit] = /(-?[\d.]+) (ns|µs|ms|s)/.exec(text);
  return Number(value) * { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }[unit];
}

const isNear = (value, wanted, words) => assert.ok(Math.abs(value - wanted) <= Math.abs(wanted) * 0.006 + 1, `${words}: ${value}, wanted ${wanted}`);

test("two markers measure the time between them", async () => {
  const { page: tab, complaints, close } = await open(browser, page());
  const stage = await stageOf(tab);
  await tab.focus("#stage");
  await tab.keyboard.press("w");
  const { from, to } = await linkOf(tab);
  for (const share of [0.25, 0.75]) {
    await tab.mouse.move(Math.round(stage.x(share)), stage.y(100));
    await tab.keyboard.press("m");
  }
  const told = await tab.textContent("#status");
  assert.match(told, /between the markers/);
  const wanted = ((Math.round(stage.x(0.75)) - Math.round(stage.x(0.25))) / stage.across) * (to - from);
  isNear(nsOf(told), wanted, "between the markers");
  await tab.keyboard.press("Escape");
  assert.match(await tab.textContent("#status"), /all keys/, "the line is free again");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("zooms lead back and forward, by keys, wheel and axis", async () => {
  const { page: tab, close } = await open(browser, page());
  const stage = await stageOf(tab);
  await tab.focus("#stage");
  await tab.keyboard.press("d");
  const windows = [await linkOf(tab)];
  await tab.keyboard.press("w");
  windows.push(await linkOf(tab));
  // A drag along the axis zooms to it.
  await tab.mouse.move(stage.x(0.4), stage.y(TOP - 12));
  await tab.mouse.down();
  await tab.mouse.move(stage.x(0.6), stage.y(TOP - 10), { steps: 4 });
  await tab.mouse.up();
  windows.push(await linkOf(tab));
  const spans = windows.map(({ from, to }) => to - from);
  isNear(spans[1], spans[0] * 0.7, "W zooms in");
  isNear(spans[2] / spans[1], 0.2, "the axis");
  for (const at of [1, 0]) {
    await tab.keyboard.press("[");
    assert.deepStrictEqual(await linkOf(tab), windows[at]);
  }
  for (const at of [1, 2]) {
    await tab.keyboard.press("]");
    assert.deepStrictEqual(await linkOf(tab), windows[at]);
  }
  await tab.mouse.move(stage.x(0.5), stage.y(120));
  await tab.mouse.wheel(0, -200);
  const wheel = await linkOf(tab);
  assert.ok(wheel.to - wheel.from < spans[2], "the wheel zooms in");
  await tab.mouse.click(stage.x(0.5), stage.y(TOP + 2));
  await tab.keyboard.press("[");
  assert.deepStrictEqual(await linkOf(tab), windows[2], "a turn of the wheel is a step back, a click is none");
  await tab.keyboard.press("]");
  assert.deepStrictEqual(await linkOf(tab), wheel);
  await tab.keyboard.press("f");
  const all = await linkOf(tab);
  assert.ok(all.to - all.from >= json("stats", good).makespan_ns, "F fits everything");
  await close();
});

test("a deep link shows the row of its task, and one without an end shows the whole run", async () => {
  const { path, makespan_ns } = json("critical-path", good);
  // Cores of both classes, some of which lie below the first window where cores are not folded.
  for (const { task } of [path[0], path[Math.floor(path.length / 2)], path.at(-1)]) {
    const { page: tab, close } = await open(browser, page(), { link: `#t=0,${makespan_ns}&task=${task}` });
    await tab.click("#fold");
    await tab.evaluate(([task, to]) => (location.hash = `#t=0,${to}&task=${task}`), [task, makespan_ns + 10]);
    await tab.waitForTimeout(150);
    const sight = await tab.evaluate(() => {
      const { width, height } = document.getElementById("over");
      const pixels = new Uint32Array(document.getElementById("over").getContext("2d").getImageData(0, 0, width, height).data.buffer);
      return pixels.some((pixel) => pixel === 0xff111111);
    });
    assert.ok(sight, `the frame of ${task} is in sight`);
    await close();
  }
  const { page: tab, close, complaints } = await open(browser, page(), { link: "#t=-Infinity,Infinity" });
  const { from, to } = await (async () => {
    await tab.focus("#stage");
    await tab.keyboard.press("p");
    await tab.keyboard.press("w");
    return linkOf(tab);
  })();
  assert.ok(Number.isFinite(to - from) && to > from, `${from} to ${to}`);
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("markers need no pointer, and the time between them is beside them", async () => {
  const { page: tab, close } = await open(browser, page());
  const { path } = json("critical-path", good);
  const { task, start_ns, end_ns } = path[Math.floor(path.length / 2)];
  await tab.fill("#find", task);
  await tab.focus("#stage");
  await tab.keyboard.press("m");
  await tab.keyboard.press("m");
  isNear(nsOf(await tab.textContent("#status")), end_ns - start_ns, "the selected slice");
  const inSight = await tab.evaluate(() => document.getElementById("status").getBoundingClientRect().bottom <= innerHeight);
  assert.ok(inSight, "what is said is in the first window");
  await close();
});

test("what was said of a search ends with it", async () => {
  const { page: tab, close } = await open(browser, page());
  await tab.fill("#find", "softmax");
  assert.match(await tab.textContent("#status"), /executions pass/);
  await tab.fill("#find", "");
  assert.match(await tab.textContent("#status"), /all keys/);
  await close();
});

/** Saves the window and gives its events. */
async function savedEvents(tab) {
  const [saved] = await Promise.all([tab.waitForEvent("download"), tab.click("#chrome")]);
  return { name: saved.suggestedFilename(), ...JSON.parse(readFileSync(await saved.path(), "utf8")) };
}

test("the window is saved as Chrome JSON and as a picture", async () => {
  const { page: tab, complaints, close } = await open(browser, page());
  const stats = json("stats", good);
  const all = await savedEvents(tab);
  assert.strictEqual(all.name, "decode-layer-window.json");
  assert.match(all.otherData.time, /virtual/, "what was saved says that nothing was measured");
  const slices = all.traceEvents.filter((event) => event.ph === "X");
  const kernels = slices.filter((event) => event.pid === 2);
  assert.strictEqual(kernels.length, stats.executions);
  isNear(kernels.reduce((sum, event) => sum + event.dur * 1000, 0), stats.exec_ns, "time in kernels");
  await tab.focus("#stage");
  for (let press = 0; press < 6; press++) await tab.keyboard.press("w");
  const { from, to } = await linkOf(tab);
  const some = (await savedEvents(tab)).traceEvents.filter((event) => event.ph === "X");
  assert.ok(some.length < slices.length && some.length > 0);
  assert.ok(some.every((event) => event.ts * 1000 < to && (event.ts + event.dur) * 1000 > from), "all of them lie in the window");
  const [picture] = await Promise.all([tab.waitForEvent("download"), tab.click("#png")]);
  const bytes = readFileSync(await picture.path());
  assert.strictEqual(bytes.subarray(1, 4).toString(), "PNG");
  const box = await tab.locator("#stage").boundingBox();
  assert.strictEqual(bytes.readUInt32BE(16), Math.round(box.width));
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("a box tells the totals of what it holds", async () => {
  const { page: tab, close } = await open(browser, page());
  const stage = await stageOf(tab);
  const { traceEvents } = await savedEvents(tab);
  const lane = traceEvents.find((event) => event.ph === "M" && event.args.name === "orchestrator");
  const submits = traceEvents.filter((event) => event.ph === "X" && event.pid === lane.pid && event.tid === lane.tid);
  await tab.keyboard.down("Shift");
  await tab.mouse.move(stage.x(0) + 1, stage.y(TOP + 8));
  await tab.mouse.down();
  await tab.mouse.move(stage.x(1) - 1, stage.y(TOP + 18), { steps: 4 });
  await tab.mouse.up();
  await tab.keyboard.up("Shift");
  const told = await tab.textContent("#status");
  assert.match(told, new RegExp(`: ${submits.length} submits and phases of the orchestrator, `));
  const [, busy, longest] = /orchestrator, (.*) in them, at most (.*) in one$/.exec(told);
  isNear(nsOf(busy), submits.reduce((sum, event) => sum + event.dur * 1000, 0), "in them");
  isNear(nsOf(longest), Math.max(...submits.map((event) => event.dur * 1000)), "the longest");
  await close();
});

test("search finds names and tasks, and goes from one to the next", async () => {
  const { page: tab, complaints, close } = await open(browser, page());
  const softmax = json("stats", good).functions.find((f) => f.name === "softmax");
  await tab.fill("#find", "SOFTM");
  assert.strictEqual(await tab.textContent("#found"), `${softmax.count} found`);
  await tab.press("#find", "Enter");
  const first = await tab.textContent("#task h4");
  assert.match(first, /^softmax · /);
  await tab.press("#find", "Enter");
  assert.notStrictEqual(await tab.textContent("#task h4"), first);
  await tab.fill("#find", "r3t999999");
  assert.strictEqual(await tab.textContent("#found"), "did not run");
  await tab.fill("#find", "no such thing");
  assert.strictEqual(await tab.textContent("#found"), "nothing found");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("filters by function, scope and ring hold together", async () => {
  const { page: tab, close } = await open(browser, page());
  const found = async () => Number((await tab.textContent("#found")).replaceAll(",", "").split(" ")[0]);
  const stats = json("stats", good);
  for (const f of stats.functions.slice(0, 3)) {
    await tab.selectOption("#by-function", { label: f.name });
    assert.strictEqual(await found(), f.count, f.name);
  }
  await tab.selectOption("#by-function", "");
  const { tasks } = JSON.parse(readFileSync(join(good, "deps.json"), "utf8"));
  const ofRing = (ring) => tasks.filter((task) => BigInt(task.task_id) >> 32n === BigInt(ring) && task.kernel_ids.some((kernel) => kernel >= 0)).length;
  await tab.selectOption("#by-ring", "1");
  assert.strictEqual(await found(), ofRing(1));
  await tab.click("#show-all");
  assert.strictEqual(await tab.textContent("#found"), "");
  // A click into the nested view shows the scope's tasks at its time.
  const leaf = json("scopes", good).scopes.filter((row) => row.tasks > 0).sort((a, b) => b.depth - a.depth || a.tasks - b.tasks)[0];
  const row = tab.locator("#scope-tree tbody tr").filter({ has: tab.locator(`button[title="${leaf.site}"]`) }).first();
  await row.locator("button").click();
  assert.strictEqual(await found(), leaf.tasks, leaf.site);
  const first = await linkOf(tab);
  assert.ok(first.to - first.from < stats.makespan_ns / 2, "its time is in sight");
  await row.locator("button").click();
  assert.ok((await linkOf(tab)).from > first.from, "the next click goes to its next time");
  await close();
});

test("a task's arguments are those that were recorded", async () => {
  const { page: tab, close } = await open(browser, page());
  const { tasks } = JSON.parse(readFileSync(join(good, "deps.json"), "utf8"));
  const modes = { INPUT: "input", OUTPUT: "output", INOUT: "inout", OUTPUT_EXISTING: "output_existing", NO_DEP: "no_dep", SCALAR: "scalar" };
  for (const task of [tasks[0], tasks[Math.floor(tasks.length / 2)], tasks[tasks.length - 1]]) {
    const id = BigInt(task.task_id);
    await tab.fill("#find", `r${id >> 32n}t${id & 0xffffffffn}`);
    const rows = await tab.locator("#arguments tr").evaluateAll((all) => all.map((row) => [row.cells[0].textContent, row.querySelector("code").textContent.split(",")[0]]));
    assert.deepStrictEqual(rows, task.args.map((arg) => [modes[arg.type], `f32[${arg.shape.join("×")}]`]));
  }
  assert.strictEqual(await tab.locator("#in-use").count(), 0);
  assert.match(await tab.textContent("#task"), /Not known: the last sample/, "the last task starts when all scopes have closed");
  await tab.fill("#find", json("critical-path", good).path[0].task);
  assert.ok((await tab.locator("#in-use tr").count()) > 0, "and what rings held");
  await close();
});

test("dependencies that data does not need are marked", async () => {
  const dir = made("sliding", "sliding");
  const [pair] = json("deps", dir).false_dependencies;
  const { page: tab, complaints, close } = await open(browser, join(dir, "report.html"));
  await tab.locator(`#false-table button[data-task="${pair.succ}"]`).first().click();
  assert.match(await tab.textContent("#task h4"), new RegExp(`${pair.succ}$`));
  const item = tab.locator("#neighbours li").filter({ hasText: new RegExp(`${pair.pred} `) });
  assert.match(await item.textContent(), /false: another buffer would remove it \(write after read\)/);
  assert.ok((await tab.locator(".neighbourhood .edge.false").count()) > 0, "and drawn");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("what was left out is told, and dependencies along the critical path stay", async () => {
  const text = readFileSync(page(), "utf8");
  const left = text
    .replaceAll(/<script type="text\/plain" id="(arg|tensor|count|curve|agent|span|wait|core\.(dispatch|finish)|node|edge)[^]*?<\/script>\n/g, "")
    .replace('"left_out":[]', '"left_out":["arguments","counters","scheduler records","edges off the critical path"]');
  const file = join(work, "small.html");
  writeFileSync(file, left);
  const { page: tab, complaints, close } = await open(browser, file);
  const { path } = json("critical-path", good);
  const { edges } = json("deps", good);
  const hop = path.find((hop, at) => at > 0 && edges.some((edge) => edge.succ === hop.task && edge.pred === path[at - 1].task));
  await tab.fill("#find", hop.task);
  assert.match(await tab.textContent("#neighbours"), /only dependencies along the critical path/);
  assert.match(await tab.textContent("#neighbours .near > div:first-child"), new RegExp(`${hop.pred} `));
  assert.match(await tab.textContent("#task"), /Left out to keep the page small/);
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("light and dark, by key, button and system", async () => {
  for (const theme of ["light", "dark"]) {
    const { page: tab, close } = await open(browser, page(), { theme });
    const ground = () => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [light, dark] = ["rgb(246, 247, 249)", "rgb(16, 22, 29)"];
    const [own, other] = theme === "light" ? [light, dark] : [dark, light];
    assert.strictEqual(await ground(), own, "the system's");
    await tab.focus("#stage");
    await tab.keyboard.press("t");
    assert.strictEqual(await ground(), other);
    await tab.click("#theme");
    assert.strictEqual(await ground(), own);
    await close();
  }
});

test("every key of the list does something, and none while a text is typed", async () => {
  const { page: tab, complaints, close } = await open(browser, page());
  await tab.focus("#stage");
  await tab.keyboard.press("?");
  const listed = await tab.locator("dialog tr").evaluateAll((rows) => rows.map((row) => row.querySelector("kbd").textContent));
  assert.ok(listed.length >= 17);
  await tab.keyboard.press("?");
  const picture = () => tab.evaluate(() => ["lanes", "over"].map((id) => document.getElementById(id).toDataURL()).join() + document.documentElement.dataset.theme);
  const stage = await stageOf(tab);
  await tab.mouse.move(stage.x(0.5), stage.y(150));
  for (const key of ["w", "s", "w", "d", "a", "ArrowDown", "ArrowUp", "[", "]", "m", "Escape", "p", "c", "t", "f"]) {
    const before = await picture();
    await tab.keyboard.press(key);
    await tab.waitForTimeout(60);
    assert.notStrictEqual(await picture(), before, key);
  }
  await tab.keyboard.press("/");
  assert.ok(await tab.evaluate(() => document.activeElement?.id === "find"));
  const { from } = await linkOf(tab);
  await tab.keyboard.type("wsd");
  assert.strictEqual((await linkOf(tab)).from, from, "letters are the search's");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("figures of open tables are in sight in a narrow window and in print", async () => {
  for (const media of ["screen", "print"]) {
    const { page: tab, close } = await open(browser, page(), { width: 720, height: 900 });
    await tab.emulateMedia({ media });
    const cut = await tab.locator(".scroll").evaluateAll((all) => all.filter((one) => !one.closest("details:not([open])") && one.scrollWidth > one.clientWidth + 1).map((one) => one.firstChild.id));
    assert.deepStrictEqual(cut, [], media);
    assert.strictEqual(await tab.locator("#status").isVisible(), media === "screen", "keys are of no use on paper");
    await close();
  }
});

test("the page fits small and very large windows", async () => {
  for (const [width, height] of [[1280, 720], [3840, 2160], [800, 900]]) {
    const { page: tab, complaints, close } = await open(browser, page(), { width, height });
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width} × ${height}`);
    assert.strictEqual(await tab.evaluate(() => window.shift), 0);
    assert.deepStrictEqual(complaints, []);
    await close();
  }
});
