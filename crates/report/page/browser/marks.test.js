// What the page marks, draws and captures, in a real browser. PLIMSOLL names the command that makes the runs.
import test from "node:test";
import assert from "node:assert";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GUTTER, RIGHT, TOP, WIDE_GUTTER, launch, linkOf, open } from "./drive.js";

const command = process.env.PLIMSOLL ?? "plimsoll";
const work = mkdtempSync(join(tmpdir(), "plimsoll-marks-"));
const run = (...words) => execFileSync(command, words, { cwd: work, encoding: "utf8", maxBuffer: 1 << 28 });
const json = (...words) => JSON.parse(run(...words, "--json"));
const virtual = ["--arch", "a2a3", "--engine", "virtual", "--profile"];
const exact = (locator) => locator.evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.v)));
let good, browser;

/** A run and its page; those that go wrong on purpose exit with 1. */
function made(name, ...words) {
  const dir = join(work, name);
  try {
    run("run", ...words, "--report", "--out", dir);
  } catch (error) {
    if (error.status !== 1) throw error;
  }
  return dir;
}

test.before(async () => {
  good = made("good", "decode-layer", ...virtual);
  browser = await launch();
});
test.after(async () => {
  await browser?.close();
  rmSync(work, { recursive: true });
});

/** The page of a run or file, in sight from its swimlane on. */
async function opened(file, options) {
  const seen = await open(browser, file, options);
  await seen.page.locator("#stage").scrollIntoViewIfNeeded();
  const box = await seen.page.locator("#stage").boundingBox();
  const across = box.width - GUTTER - RIGHT;
  return { ...seen, tab: seen.page, box, x: (share) => box.x + GUTTER + share * across };
}

/** How many pixels of the swimlane have each of some colours of the page's style, or one that is so much darker. */
const pixels = (tab, ...wanted) =>
  tab.evaluate(async (wanted) => {
    // What was done last is drawn in the next frame.
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    const probe = document.body.appendChild(document.createElement("i"));
    const colours = wanted.map(([name, dark = 1]) => {
      probe.style.color = `var(${name})`;
      const [red, green, blue] = getComputedStyle(probe).color.match(/\d+/g).map((part) => Math.round(Number(part) * dark));
      return (blue << 16) | (green << 8) | red;
    });
    probe.remove();
    const canvas = document.getElementById("lanes");
    const picture = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    const many = new Map(colours.map((colour) => [colour, 0]));
    for (const pixel of picture) if (many.has(pixel & 0xffffff)) many.set(pixel & 0xffffff, many.get(pixel & 0xffffff) + 1);
    return colours.map((colour) => many.get(colour));
  }, wanted);

/** What the tip says, from the top of the swimlane to its end. */
async function tips({ tab, box, x }, share) {
  const told = [];
  for (let y = TOP + 2; y < box.height; y += 2) {
    await tab.mouse.move(x(share), box.y + y);
    const words = await tab.evaluate(() => (document.getElementById("tip").hidden ? "" : document.getElementById("tip").textContent));
    if (words && words !== told.at(-1)?.words) told.push({ y, words });
  }
  return told;
}

test("captured values are those of the dump", async () => {
  const dir = made("captured", "vector", "--set", "n=2048", "--dump-args=2", "--dep-gen");
  const { args } = json("args", dir);
  const { task } = args.find((row) => row.kind === "tensor" && row.captured);
  const own = args.filter((row) => row.task === task);
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  await tab.fill("#find", task);
  const shown = await tab.locator("#captured tr").evaluateAll((rows) => rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent]));
  const stage = (row) => `${row.index} ${row.stage === "after_completion" ? "after" : "before"}`;
  assert.deepStrictEqual(shown.map(([name]) => name).toSorted(), own.map(stage).toSorted());
  for (const row of own.filter((row) => row.kind === "tensor")) {
    const [, words] = shown.find(([name]) => name === stage(row));
    const figures = [row.stats.min, row.stats.max, row.stats.mean].map((value) => String(Number(value.toPrecision(4))));
    for (const figure of figures) assert.ok(words.includes(figure), `${stage(row)}: ${words} lacks ${figure}`);
  }
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("a task's counters are those that were read", async () => {
  const dir = made("counted", "vector", "--set", "n=2048", "--pmu=rusage");
  const { counters } = json("stats", dir);
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  await tab.fill("#find", "r1t0");
  const names = await tab.locator(".counters td:first-child").allTextContents();
  assert.ok(names.length > 0 && names.every((name) => counters.names.includes(name)), `${names} of ${counters.names}`);
  assert.ok((await exact(tab.locator(".counters td.n"))).every((value) => Number.isFinite(value)));
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("counters lie under the axis, as the reader chooses them", async () => {
  const dir = made("curves", "vector", ...virtual, "--pmu");
  const { counters } = json("stats", dir);
  const seen = await opened(join(dir, "report.html"), { height: 1400 });
  const { tab } = seen;
  const words = (name) => name.replaceAll("_", " ");
  const curves = async () => new Set((await tips(seen, 0.5)).map(({ words }) => words.split(":")[0]));
  const names = [...(counters.has_cycles ? ["cycles"] : []), ...counters.names].map(words);
  const listed = await tab.locator("#by-counter option").allTextContents();
  assert.ok(names.every((name) => listed.includes(name)), `${listed} of ${names}`);
  await tab.selectOption("#by-counter", { label: "all counters" });
  const all = await curves();
  assert.ok(names.every((name) => all.has(name)), `${[...all]}`);
  await tab.selectOption("#by-counter", "");
  assert.ok(![...(await curves())].some((name) => names.includes(name)), "folded away");
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("the path is lit on rows as low as two pixels", async () => {
  const { tab, close } = await opened(join(good, "report.html"));
  const lit = async () => (await pixels(tab, ["--lit"]))[0];
  const on = await lit();
  await tab.click("#path");
  const off = await lit();
  assert.ok(on > off, `${on} lit pixels, ${off} without the path`);
  await close();
});

test("files of dependencies or counters alone have tasks to select", async () => {
  const dir = join(work, "deps");
  mkdirSync(dir);
  const tasks = [[1, 0], [2, 1]].map(([task_id, kernel]) => ({ task_id, kernel_ids: [kernel, -1, -1] }));
  writeFileSync(join(dir, "deps.json"), JSON.stringify({ tasks, edges: [{ pred: 1, succ: 2 }] }));
  const page = join(work, "deps.html");
  run("report", dir, "--output", page);
  const { tab, complaints, close } = await opened(page);
  const [first, second] = json("deps", dir).edges.flatMap((edge) => [edge.pred, edge.succ]);
  await tab.fill("#find", first);
  assert.match(await tab.textContent("#task"), /No time of it was recorded/);
  await tab.locator("#neighbours .link").click();
  assert.match(await tab.textContent("#task h4"), new RegExp(`${second}$`));
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("the wait-for chain of a run that hung is drawn, and its tasks are found", async () => {
  const dir = made("hung", "fault-hang", "--profile", "--op-timeout", "500ms");
  const told = json("explain", dir);
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  assert.ok(told.chain.length > 1);
  assert.strictEqual(await tab.locator("#hang li").count(), told.chain.length);
  assert.match(await tab.locator("#hang li.blocker").textContent(), new RegExp(told.blocker.task));
  await tab.locator(`#hang li.blocker button[data-task="${told.blocker.task}"]`).click();
  assert.match(await tab.textContent("#task h4"), new RegExp(`${told.blocker.task}$`));
  const { edges } = json("deps", dir);
  const neighbours = async (side) => (await tab.locator(`#neighbours .near > div:nth-child(${side}) .link`).allTextContents()).map((text) => text.split(" ").at(-1)).toSorted();
  const isBlockers = async (task) => {
    assert.deepStrictEqual(await neighbours(1), edges.filter((edge) => edge.succ === task).map((edge) => edge.pred).toSorted(), `${task} waited for`);
    assert.deepStrictEqual(await neighbours(2), edges.filter((edge) => edge.pred === task).map((edge) => edge.succ).toSorted(), `${task} waited for by`);
  };
  await isBlockers(told.blocker.task);
  assert.match(await tab.textContent("#task"), /still running/);
  const idle = told.chain.find((link) => link.task && link.task !== told.blocker.task);
  await tab.locator(`#hang button[data-task="${idle.task}"]`).first().click();
  assert.match(await tab.textContent("#task h4"), new RegExp(`${idle.task}$`));
  assert.match(await tab.textContent("#task"), /It did not run/);
  await isBlockers(idle.task);
  await tab.fill("#find", told.blocker.task);
  assert.doesNotMatch(await tab.textContent("#task"), /recovered/, "no record tells of what had not ended");
  const [meta] = JSON.parse(await tab.textContent("#meta"));
  const pools = json("check", dir).reconcile.pools.filter(({ kind }) => kind === "aicore_task");
  const recovered = pools.reduce((sum, pool) => sum + pool.recovered, 0);
  const marked = meta.cores.reduce((sum, lane) => sum + lane.recovered, 0);
  assert.ok(recovered > 0);
  assert.strictEqual(marked, recovered + meta.open.length, "every recovered record, and what had not ended beside them");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("a task on several cores is told from its first start to its last end", async () => {
  const dir = made("spmd", "spmd", ...virtual);
  const [first, ...others] = json("critical-path", dir).path;
  const hop = [first, ...others].find((hop) => hop.cores.length > 1);
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  await tab.fill("#find", hop.task);
  const [, length, unit] = /→ [\d.]+ [^ ]+ · ([\d.]+) (ns|µs|ms)/.exec(await tab.textContent("#task p"));
  const told = Number(length) * { ns: 1, µs: 1e3, ms: 1e6 }[unit];
  assert.ok(Math.abs(told - (hop.end_ns - hop.start_ns)) < 0.01 * told, `${told} of ${hop.start_ns} to ${hop.end_ns}`);
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("tasks that a predicate kept from running are neighbours of those that ran", async () => {
  const dir = made("predicated", "spmd", ...virtual);
  const { edges } = json("deps", dir);
  const ran = new Set(JSON.parse(readFileSync(join(dir, "chip_swimlane_records.json"), "utf8")).aicore_tasks.map((row) => Number(row[1])));
  const word = (task) => Number((BigInt(/r(\d+)/.exec(task)[1]) << 32n) | BigInt(/t(\d+)/.exec(task)[1]));
  const edge = edges.find(({ pred, succ }) => !ran.has(word(pred)) && ran.has(word(succ)));
  assert.ok(edge, "a task ran behind one that did not");
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  await tab.fill("#find", edge.succ);
  const producers = await tab.locator("#neighbours .near > div:first-child .link").allTextContents();
  assert.deepStrictEqual(producers.map((text) => text.split(" ").at(-1)).toSorted(), edges.filter(({ succ }) => succ === edge.succ).map(({ pred }) => pred).toSorted());
  await tab.locator("#neighbours .link").filter({ hasText: new RegExp(`${edge.pred}$`) }).first().click();
  assert.match(await tab.textContent("#task"), /It did not run/);
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("a kernel that never ends in virtual time is open on its lane", async () => {
  const dir = made("never", "vector", "--engine", "virtual", "--arch", "a2a3", "--profile", "--costs", '{"default": "never"}');
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  assert.strictEqual(await tab.locator("#parts").count(), 0, "nothing ended, so no time is divided");
  await tab.fill("#find", json("explain", dir).blocker.task);
  assert.match(await tab.textContent("#task"), /still running/);
  const striped = await pixels(tab, ...Array.from({ length: 9 }, (_, at) => [`--k${at}`, 0.55]));
  assert.ok(striped.some((many) => many > 0), "open slices are striped");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("what had not ended and what was recovered is marked", async () => {
  const dir = join(work, "killed");
  const child = spawn(command, ["run", "fault-hang", "--profile", "--stall-timeout", "off", "--region-dir", work, "--out", dir], { stdio: "ignore" });
  const ended = new Promise((done) => child.on("exit", done));
  // The run lives until it is killed: what ran by then is told by its region.
  for (let turn = 0; ; turn++) {
    assert.ok(turn < 600 && child.exitCode === null, "it hangs within a minute");
    await new Promise((done) => setTimeout(done, 100));
    if (!existsSync(join(dir, "run.json"))) continue;
    if ((json("explain", "--live", dir).blocker ?? {}).task) break;
  }
  child.kill("SIGKILL");
  await ended;
  await unrecovered(dir);
  const recovered = json("recover", dir).reconcile.pools.reduce((sum, pool) => sum + pool.recovered, 0);
  assert.ok(recovered > 0);
  run("report", dir);
  const { blocker } = json("explain", dir);
  const { tab, complaints, close } = await opened(join(dir, "report.html"));
  assert.match(await tab.textContent("h2"), /killed/);
  const [underlined, ...striped] = await pixels(tab, ["--warn"], ...Array.from({ length: 9 }, (_, at) => [`--k${at}`, 0.55]));
  assert.ok(underlined > 0, "recovered records are underlined");
  assert.ok(striped.some((many) => many > 0), "what had not ended has dark stripes");
  await tab.fill("#find", blocker.task);
  assert.match(await tab.textContent("#task"), /still running/);
  const advice = await tab.textContent("#overview .try");
  assert.ok(!advice.includes("Get the last records out"), `they are out: ${advice}`);
  assert.deepStrictEqual(complaints, []);
  await close();
});

/** The page of a run whose records are still in its region says what `explain` says, and shows what ran. */
async function unrecovered(dir) {
  const page = join(work, "unrecovered.html");
  run("report", dir, "--output", page);
  const told = json("explain", dir);
  const { tab, complaints, close } = await opened(page);
  assert.match(await tab.textContent("h2"), /killed/);
  assert.strictEqual(await tab.locator("#hang li").count(), told.chain.length);
  const said = await tab.textContent("#overview");
  assert.ok(told.chain.length > 1 && !said.includes("status board is gone") && said.includes("--isolate"), said);
  assert.doesNotMatch(await tab.textContent("header"), /running/);
  const kernels = await pixels(tab, ...Array.from({ length: 9 }, (_, at) => [`--k${at}`]));
  assert.ok(kernels.some((many) => many > 0), "what ran is drawn");
  assert.deepStrictEqual(complaints, []);
  await close();
}

test("times of waiting for the recorder are hatched", async () => {
  const dir = join(work, "gaps");
  mkdirSync(dir);
  const phase = (kind, start, end, loop) => ({ kind, start_cycles: start, end_cycles: end, loop_iter: loop, tasks_processed: 1, pop_hit: 1, pop_miss: 0 });
  const file = (kind) => ({
    chip_swimlane_level: 3,
    metadata: { clock_freq_hz: 1e9, num_cores: 1, core_types: ["aiv"], core_to_thread: [0] },
    aicore_tasks: [[0, 0, 1, 1000, 2000, 1], [0, 1, 2, 6000, 7000, 1]],
    aicpu_tasks: [[0, 1, 900, 2100], [0, 2, 5900, 7100]],
    aicpu_scheduler_phases: [[phase("dispatch", 800, 900, 1), phase(kind, 2500, 5500, 2), phase("complete", 7100, 7200, 3)]],
  });
  const hatched = [];
  for (const kind of ["recorder_wait", "idle"]) {
    writeFileSync(join(dir, "chip_swimlane_records.json"), JSON.stringify(file(kind)));
    const page = join(work, `${kind}.html`);
    run("report", dir, "--output", page);
    const { tab, complaints, close } = await opened(page);
    hatched.push(...(await pixels(tab, ["--bad"])));
    assert.deepStrictEqual(complaints, []);
    await close();
  }
  assert.ok(hatched[0] > 100 && hatched[1] === 0, `${hatched}`);
});

test("cores fold by class, and curves lie under the same axis", async () => {
  const seen = await opened(join(good, "report.html"), { height: 1000 });
  const { tab } = seen;
  const lanes = async () => new Set((await tips(seen, 0.5)).map(({ words }) => words.split("\n")[2]).filter(Boolean));
  assert.strictEqual(await tab.getAttribute("#fold", "aria-pressed"), "true");
  const folded = await lanes();
  const curve = (await tips(seen, 0.5)).find(({ words }) => / of [\d.,]+/.test(words) && /task window|heap|dependency pool|tensormap/.test(words));
  assert.ok(curve, "a curve is under the pointer");
  await tab.click("#fold");
  assert.strictEqual(await tab.getAttribute("#fold", "aria-pressed"), "false");
  const unfolded = await lanes();
  assert.ok(folded.size > unfolded.size, `${folded.size} lanes are in sight folded, ${unfolded.size} unfolded`);
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("between rounds nothing is known of what rings held", async () => {
  const dir = made("rounds", "paged-attention", "--profile", "--rounds", "3");
  const seen = await opened(join(dir, "report.html"), { height: 1600 });
  const { tab } = seen;
  const [saved] = await Promise.all([tab.waitForEvent("download"), tab.click("#chrome")]);
  const { traceEvents } = JSON.parse(readFileSync(await saved.path(), "utf8"));
  const { pid, tid } = traceEvents.find((event) => event.ph === "M" && event.args.name === "scopes, depth 0");
  const [first, second] = traceEvents.filter((event) => event.ph === "X" && event.pid === pid && event.tid === tid);
  const known = async (from, to) => {
    await tab.evaluate((hash) => (location.hash = hash), `#t=${from * 1000},${to * 1000}`);
    await tab.waitForTimeout(150);
    const told = (await tips(seen, 0.5)).filter(({ words }) => /The row is as high as the peak/.test(words));
    assert.ok(told.length > 0);
    return told.filter(({ words }) => !/not known/.test(words)).length;
  };
  assert.strictEqual(await known(first.ts + first.dur, second.ts), 0);
  assert.ok((await known(second.ts, second.ts + second.dur)) > 0, "the next round tells it again");
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("what waiting for the recorder was for is told apart where arguments were copied", async () => {
  const dir = made("copied", "decode-layer", "--profile", "--dump-args=2");
  const { tab, close } = await opened(join(dir, "report.html"));
  const ns = ([, value, unit]) => Number(value) * { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }[unit];
  const [whole, buffers, copying] = [...(await tab.textContent("#cost")).matchAll(/([\d.]+) (ns|µs|ms|s)\b/g)].map(ns);
  const { pools } = json("check", dir).reconcile;
  const waited = pools.reduce((sum, pool) => sum + pool.wait_ns, 0);
  assert.ok(Math.abs(buffers - waited) <= 0.01 * waited + 1 && copying > 0 && Math.abs(whole - buffers - copying) <= 0.02 * whole + 2, `${whole} = ${buffers} + ${copying}, pools ${waited}`);
  assert.match(await tab.textContent("#cost"), /for buffers, .* copying arguments/);
  const [told] = await exact(tab.locator("#recorder"));
  assert.ok(Math.abs(told - whole) <= 0.01 * whole + 1, "the same figure in the verdict's facts");
  await close();
});

test("the minimap moves the window, and touchpads pan and pinch", async () => {
  const { tab, box, x, complaints, close } = await opened(join(good, "report.html"));
  await tab.focus("#stage");
  for (let press = 0; press < 6; press++) await tab.keyboard.press("w");
  const whole = json("stats", good).makespan_ns;
  for (const share of [0.25, 0.75]) {
    await tab.mouse.click(x(share), box.y + 18);
    const { from, to } = await linkOf(tab);
    const middle = (from + to) / 2;
    assert.ok(Math.abs(middle - share * whole) < 0.05 * whole, `${middle} of ${whole} at ${share}`);
  }
  const before = await linkOf(tab);
  await tab.mouse.move(x(0.5), box.y + 150);
  await tab.mouse.wheel(-80, 0);
  const panned = await linkOf(tab);
  assert.ok(panned.from < before.from && Math.abs(panned.to - panned.from - (before.to - before.from)) < 2, "two fingers across pan");
  await tab.keyboard.down("Control");
  await tab.mouse.wheel(0, -40);
  await tab.keyboard.up("Control");
  const pinched = await linkOf(tab);
  assert.ok(pinched.to - pinched.from < (panned.to - panned.from) * 0.8, "a pinch zooms");
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("distributions of functions are drawn, p50 before p99", async () => {
  const { tab, close } = await opened(join(good, "report.html"));
  const rows = await tab.locator("#function-table tbody tr").evaluateAll((all) =>
    all.map((row) => [row.querySelector(".spread .bars").getAttribute("d"), row.querySelector(".spread .mid").getAttribute("d")]),
  );
  assert.strictEqual(rows.length, json("stats", good).functions.length);
  for (const [bars, marks] of rows) {
    assert.match(bars, /^M[\d.]+ 20v-/);
    const [p50, p99] = [...marks.matchAll(/M([\d.]+) /g)].map((found) => Number(found[1]));
    assert.ok(p50 <= p99, marks);
  }
  await close();
});

test("two runs are compared on one axis with the diff", async () => {
  const other = made("other", "decode-layer", ...virtual, "--set", "tile=64");
  const page = join(work, "compare.html");
  run("report", good, other, "--output", page);
  const diff = json("diff", good, other);
  const host = made("host", "vector", "--set", "n=2048");
  const facts = [[good, host], [host, good]].map((pair) => json("report", ...pair, "--output", join(work, "facts.html")).virtual);
  assert.deepStrictEqual(facts, [false, true], "the answer's facts are those of the later run");
  const { tab, complaints, close, ...rest } = await opened(page, { height: 1600 });
  assert.deepStrictEqual(await exact(tab.locator("#verdict-diff")), [diff.makespan.change_ns]);
  for (const name of ["good", "other"]) assert.ok((await tab.textContent("#runs")).includes(name), "the runs are named");
  assert.ok(await tab.locator("#diff-functions").isVisible(), "the diff is open");
  const changes = await exact(tab.locator("#diff-functions td:nth-child(4)"));
  assert.deepStrictEqual(changes, diff.functions.slice(0, changes.length).map((change) => change.change_ns));
  const told = new Set();
  const isOfBoth = (lane) => told.has(`now: ${lane}`) && told.has(`before: ${lane}`);
  const cores = Array.from({ length: 24 }, (_, core) => `aic core ${core}`);
  for (let share = 0.05; share < 0.4 && !cores.some(isOfBoth); share += 0.05) {
    for (const { words } of await tips({ tab, ...rest }, share)) told.add(words.split("\n")[2]);
  }
  assert.ok(cores.some(isOfBoth), "a core has a lane of each run, and the tip says of which");
  assert.ok(isOfBoth("orchestrator"), "and so has the orchestrator");
  const cut = await tab.evaluate((room) => {
    const context = document.createElement("canvas").getContext("2d");
    context.font = "11px system-ui, sans-serif";
    const names = ["orchestrator helps", "worker 12 schedules", "scopes, depth 12", "r1 dependency pool"].map((name) => `before: ${name}`);
    return names.filter((name) => context.measureText(name).width > room);
  }, WIDE_GUTTER - 20);
  assert.deepStrictEqual(cut, [], "names of rows have room");
  const [saved] = await Promise.all([tab.waitForEvent("download"), tab.click("#chrome")]);
  const { traceEvents } = JSON.parse(readFileSync(await saved.path(), "utf8"));
  const kernels = (process) => {
    const { pid } = traceEvents.find((event) => event.name === "process_name" && event.args.name.startsWith(process));
    return traceEvents.filter((event) => event.ph === "X" && event.pid === pid).length;
  };
  assert.deepStrictEqual([kernels("cores"), kernels("before: cores")], [other, good].map((dir) => json("stats", dir).executions));
  assert.deepStrictEqual(complaints, []);
  await close();
});

test("the page says in its order what was left out of a run that is too large for it", () => {
  // Many scheduler records per task: the budget follows the tasks.
  const dir = made("large", "wavefront", "--set", "rows=120", "--set", "cols=120", "--set", "tile=1", "--profile");
  const { left_out } = json("report", dir);
  const order = ["arguments", "counters", "scheduler records", "edges off the critical path"];
  assert.deepStrictEqual(left_out, order.filter((part) => left_out.includes(part)));
  const text = readFileSync(join(dir, "report.html"), "utf8");
  assert.strictEqual(text.includes("To keep the page small it is without"), left_out.length > 0);
});
