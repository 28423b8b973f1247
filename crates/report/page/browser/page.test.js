// The page in a real browser. PLIMSOLL names the command that makes the runs.
import test from "node:test";
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { frameTimes, launch, linkOf, open } from "./drive.js";

const command = process.env.PLIMSOLL ?? "plimsoll";
const work = mkdtempSync(join(tmpdir(), "plimsoll-page-"));
const run = (...words) => execFileSync(command, words, { cwd: work, encoding: "utf8", maxBuffer: 1 << 28 });
const json = (...words) => JSON.parse(run(...words, "--json"));
const good = join(work, "good");
const page = join(good, "report.html");
let browser;

test.before(async () => {
  run("run", "decode-layer", "--arch", "a2a3", "--engine", "virtual", "--profile", "--report", "--out", good);
  browser = await launch();
});
test.after(async () => {
  await browser?.close();
  rmSync(work, { recursive: true });
});

const exact = (locator) => locator.evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.v)));

test("the page opens without a complaint, a request or a shift", async () => {
  const seen = await open(browser, page);
  await seen.page.waitForTimeout(300);
  assert.deepStrictEqual(seen.complaints, []);
  assert.strictEqual(seen.requests.length, 1, seen.requests.join("\n"));
  assert.strictEqual(await seen.page.evaluate(() => window.shift), 0);
  console.log(`ready after ${seen.readyMs.toFixed(0)} ms`);
  await seen.close();
});

test("figures are those of the commands", async () => {
  const seen = await open(browser, page);
  const stats = json("stats", good);
  assert.deepStrictEqual(await exact(seen.page.locator("#makespan, #tasks, #utilisation")), [stats.makespan_ns, stats.tasks, stats.utilisation]);
  const rows = seen.page.locator("#function-table tbody tr");
  assert.strictEqual(await rows.count(), stats.functions.length);
  for (const [at, f] of stats.functions.entries()) {
    const figures = [f.count, f.exec_share, f.exec_total_ns, f.exec_avg_ns, f.exec_p50_ns, f.exec_p99_ns, f.exec_min_ns, f.exec_max_ns];
    assert.deepStrictEqual(await exact(rows.nth(at).locator("td.n")), figures, f.name);
  }
  const { parts } = json("critical-path", good);
  const order = ["kernel", "data_wait", "core_wait", "scheduling", "submit", "ring_wait", "recorder_wait", "front_gap"];
  assert.deepStrictEqual(await exact(seen.page.locator("#parts li")), order.map((name) => parts[name]).filter((ns) => ns > 0));
  const { rings } = json("size", good);
  const hulls = await seen.page.locator("figure").evaluateAll((all) => all.map((hull) => [Number(hull.dataset.peak), Number(hull.dataset.capacity)]));
  for (const [peak, capacity] of hulls) assert.ok(rings.some((row) => row.peak === peak && row.capacity === capacity), `${peak} of ${capacity}`);
  const scopes = json("scopes", good).scopes;
  const nested = await seen.page.locator("#scope-tree tbody tr").evaluateAll((rows) => rows.map((row) => [row.querySelector("button").title, Number(row.cells[1].dataset.v), Number(row.cells[3].dataset.v)]));
  const sum = (site, at) => nested.filter((row) => row[0] === site).reduce((all, row) => all + row[at], 0);
  for (const row of scopes) assert.deepStrictEqual([sum(row.site, 1), sum(row.site, 2)], [row.entered, row.tasks], row.site);
  const peaks = await exact(seen.page.locator("#scope-table td:nth-child(9)"));
  assert.deepStrictEqual(peaks, scopes.flatMap((row) => row.resources.map((resource) => resource.peak)));
  const timed = await seen.page.locator("#scope-tree tbody tr").evaluateAll((rows) => rows.map((row) => [row.querySelector("button").title, Number(row.cells[4].dataset.v), Number(row.cells[5].dataset.v)]));
  for (const row of scopes) {
    const [ns, share] = [1, 2].map((at) => timed.filter(([site]) => site === row.site).reduce((all, one) => all + one[at], 0));
    assert.ok(ns === row.duration_ns && Math.abs(share - row.share) < 1e-9, `${row.site}: ${ns} and ${share}, wanted ${row.duration_ns} and ${row.share}`);
  }
  const bySite = await seen.page.locator("#scope-table tbody tr").evaluateAll((rows) => rows.filter((row) => row.querySelector("button")).map((row) => [5, 6].map((at) => Number(row.cells[at].dataset.v))));
  assert.deepStrictEqual(bySite, scopes.map((row) => [row.duration_ns, row.share]));
  assert.deepStrictEqual(await exact(seen.page.locator("#path-table td:nth-child(3)")), json("critical-path", good).functions.map((f) => f.kernel_ns));
  assert.deepStrictEqual(await exact(seen.page.locator("#core-table td:nth-child(3)")), stats.cores.filter((core) => core.tasks > 0).map((core) => core.busy_ns));
  const { pools } = json("check", good).reconcile;
  const records = (await exact(seen.page.locator("#ledger-table td:nth-child(2)"))).reduce((all, one) => all + one, 0);
  assert.strictEqual(records, pools.reduce((all, pool) => all + pool.total, 0));
  await seen.close();
});

test("a task is found, shown, and told why it started only then", async () => {
  const { path } = json("critical-path", good);
  const { task } = path[Math.floor(path.length / 2)];
  const why = json("critical-path", good, "--task", task);
  const seen = await open(browser, page);
  await seen.page.fill("#find", task);
  assert.match(await seen.page.textContent("#task h4"), new RegExp(`${why.func} · ${task}`));
  const told = await exact(seen.page.locator("#why .num"));
  const wanted = why.causes.map((cause) => cause.ns).filter((ns) => ns > 0);
  assert.deepStrictEqual(told.toSorted((a, b) => a - b), wanted.toSorted((a, b) => a - b));
  const producers = await seen.page.locator("#neighbours .near > div:first-child .link").allTextContents();
  assert.deepStrictEqual(producers.map((text) => text.split(" ").at(-1)).toSorted(), why.producers.map((one) => one.task).toSorted());
  // The window moved to the task, and the address says so.
  const link = await linkOf(seen.page);
  assert.strictEqual(link.task, task);
  assert.ok(link.to - link.from < json("stats", good).makespan_ns / 2, "zoomed");
  const other = await open(browser, page, { link: new URL(seen.page.url()).hash });
  assert.match(await other.page.textContent("#task h4"), new RegExp(task), "the deep link opens the task");
  assert.deepStrictEqual([...seen.complaints, ...other.complaints], []);
  await seen.close();
  await other.close();
});

test("the panel divides a wait as the command does, for every task of the path and between rounds", async () => {
  const rounds = join(work, "waits");
  run("run", "matmul", "--profile", "--rounds", "3", "--report", "--out", rounds);
  for (const [dir, tasks] of [[good, json("critical-path", good).path.map((hop) => hop.task).slice(0, 3)], [rounds, ["r1t0", "r1t0@1", "r1t0@2"]]]) {
    const seen = await open(browser, join(dir, "report.html"));
    for (const task of tasks) {
      await seen.page.fill("#find", task);
      const wanted = json("critical-path", dir, "--task", task).causes.map((cause) => cause.ns).filter((ns) => ns > 0);
      assert.deepStrictEqual((await exact(seen.page.locator("#why .num"))).toSorted((a, b) => a - b), wanted.toSorted((a, b) => a - b), task);
    }
    await seen.close();
  }
});

test("keys, theme and filter", async () => {
  const seen = await open(browser, page);
  const picture = () => seen.page.locator("#lanes").evaluate((canvas) => canvas.toDataURL());
  const light = await picture();
  await seen.page.click("#theme");
  await seen.page.waitForTimeout(100);
  assert.notStrictEqual(await picture(), light, "dark is another picture");
  await seen.page.focus("#stage");
  await seen.page.keyboard.press("?");
  assert.ok(await seen.page.locator("dialog").isVisible());
  await seen.page.keyboard.press("Escape");
  const before = await picture();
  await seen.page.locator("#function-table button.name").first().click();
  await seen.page.waitForTimeout(100);
  assert.match(await seen.page.textContent("#found"), /found/);
  assert.notStrictEqual(await picture(), before, "others are faded");
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("a name that looks like markup stays text", async () => {
  const evil = join(work, "evil");
  cpSync(good, evil, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(evil, "run.json"), "utf8"));
  const name = "<img src=x onerror=alert(1)></script><!--";
  manifest.program = name;
  for (const kernel of manifest.kernels) kernel.name = name;
  writeFileSync(join(evil, "run.json"), JSON.stringify(manifest));
  run("report", evil);
  const seen = await open(browser, join(evil, "report.html"));
  assert.strictEqual(await seen.page.locator("img").count(), 0);
  assert.strictEqual(await seen.page.textContent("h1"), name);
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("the verdict and the tables read without scripts", async () => {
  const seen = await open(browser, page, { scripts: false });
  assert.match(await seen.page.textContent("h2"), /Bound by/);
  assert.ok((await seen.page.locator("#function-table tbody tr").count()) > 0);
  assert.ok(!(await seen.page.locator("#stage").isVisible()), "no empty frame is left");
  assert.ok(await seen.page.locator("#timeline p.note").isVisible(), "why there is no swimlane is said");
  await seen.close();
});

test("a dead run is explained first", async () => {
  const dead = join(work, "dead");
  assert.throws(() => run("run", "fault-scope-deadlock", "--profile", "--report", "--out", dead));
  const seen = await open(browser, join(dead, "report.html"));
  assert.match(await seen.page.textContent("h2"), /ScopeDeadlock/);
  assert.match(await seen.page.textContent("#hang"), /task window.*16384 of 16384/);
  assert.match(await seen.page.textContent("#overview .try"), /--ring-task-window/);
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("the same run gives the same bytes", () => {
  const first = readFileSync(page);
  for (const spelled of [good, "good", "./good/"]) {
    run("report", spelled);
    assert.ok(first.equals(readFileSync(page)), spelled);
  }
});

test("shares of a run on threads are those of the command, too", async () => {
  const dir = join(work, "threads");
  run("run", "decode-layer", "--profile", "--report", "--out", dir);
  const seen = await open(browser, join(dir, "report.html"));
  const shares = await seen.page.locator("#scope-table tbody tr").evaluateAll((rows) => rows.filter((row) => row.querySelector("button")).map((row) => Number(row.cells[6].dataset.v)));
  assert.deepStrictEqual(shares, json("scopes", dir).scopes.map((row) => row.share));
  await seen.close();
});

test("the page of the reference's files, and of several rounds", async () => {
  const fixtures = join(import.meta.dirname, "../../../trace/tests/fixtures");
  for (const name of ["l2_swimlane", "stale_rows"]) {
    const file = join(work, `${name}.html`);
    run("report", join(fixtures, name), "--output", file);
    const seen = await open(browser, file);
    const stats = json("stats", join(fixtures, name));
    assert.deepStrictEqual(await exact(seen.page.locator("#tasks")), [stats.tasks]);
    assert.strictEqual(await seen.page.locator("#function-table tbody tr").count(), stats.functions.length);
    assert.deepStrictEqual(seen.complaints, []);
    await seen.close();
  }
  const rounds = join(work, "rounds");
  run("run", "matmul", "--profile", "--rounds", "3", "--report", "--out", rounds);
  const seen = await open(browser, join(rounds, "report.html"));
  await seen.page.fill("#find", "r1t5@2");
  assert.match(await seen.page.textContent("#task h4"), /gemm · r1t5@2/);
  assert.match(await seen.page.textContent("#task"), /matmul\.rs/, "the scope that it was submitted in");
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});

test("a million tasks fit 20 MB and move without a complaint; times are printed", async () => {
  const million = join(work, "million");
  run("run", "wavefront", "--set", "rows=1000", "--set", "cols=1000", "--set", "tile=1", "--swimlane=1", "--dep-gen", "--out", million);
  const begin = performance.now();
  const { bytes, left_out } = json("report", million);
  const made = performance.now() - begin;
  assert.ok(bytes <= 20e6, `${bytes} bytes`);
  assert.deepStrictEqual(left_out, []);
  const seen = await open(browser, join(million, "report.html"));
  const { frames, p50, p95, max } = await frameTimes(seen.page, 5000);
  console.log(`a million tasks: ${(bytes / 1e6).toFixed(1)} MB made in ${made.toFixed(0)} ms, first picture after ${seen.readyMs.toFixed(0)} ms, frames ${frames}, p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms, max ${max.toFixed(1)} ms`);
  assert.deepStrictEqual(seen.complaints, []);
  await seen.close();
});
