// Drives the browser, for the tests and for the screenshots.
import { chromium } from "playwright-core";
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Where Debian, Fedora and macOS put the browser; PLIMSOLL_BROWSER names another. */
const PLACES = [process.env.PLIMSOLL_BROWSER, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];

// A browser that asks for nothing by itself: every request that is seen is then the page's.
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export function browserPath() {
  return PLACES.find((place) => place && existsSync(place));
}

/** A browser, to be closed by the caller. */
export async function launch() {
  return chromium.launch({ executablePath: browserPath(), args: FLAGS });
}

/**
 * Opens a page and waits for its picture. What the browser complained of is in `complaints`, every request in `requests`.
 */
export async function open(browser, file, { width = 1280, height = 720, theme = "light", link = "", scripts = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, javaScriptEnabled: scripts });
  const page = await context.newPage();
  const complaints = [];
  const requests = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  await page.addInitScript(() => {
    window.shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.shift += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  const begin = performance.now();
  await page.goto(pathToFileURL(file).href + link);
  const until = (word) => page.waitForFunction((word) => document.documentElement.dataset[word], word, { timeout: 300_000 });
  if (scripts) await until("ready");
  const readyMs = performance.now() - begin;
  // What is told of single tasks is read after the first picture.
  if (scripts) await until("whole");
  return { page, complaints, requests, readyMs, wholeMs: performance.now() - begin, close: () => context.close() };
}

/** Room for the rows' names, of one run and of two, for the minimap and the axis, and at the right, as crates/report/page/layout.js has them. */
export const [GUTTER, WIDE_GUTTER, TOP, RIGHT] = [136, 184, 62, 10];

/** The window and the task of the address, once the page has written them there. */
export async function linkOf(page) {
  await page.waitForTimeout(350);
  const link = new URLSearchParams(new URL(page.url()).hash.slice(1));
  const [from, to] = (link.get("t") ?? "0,0").split(",").map(Number);
  return { from, to, task: link.get("task") };
}

/** Times between animation frames, in ms, over five seconds of wheel and drag in the swimlane. */
export async function frameTimes(page, ms = 5000) {
  const box = await page.locator("#stage").boundingBox();
  await page.evaluate(() => {
    window.frames_ = [];
    let last = performance.now();
    const tick = (now) => {
      if (!window.frames_) return;
      window.frames_.push(now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const until = performance.now() + ms;
  const [x, y] = [box.x + box.width * 0.6, box.y + Math.min(250, box.height / 2)];
  for (let turn = 0; performance.now() < until; turn++) {
    await page.mouse.move(x, y);
    for (let notch = 0; notch < 12; notch++) {
      await page.mouse.wheel(0, turn % 2 ? 120 : -120);
      await page.waitForTimeout(16);
    }
    await page.mouse.down();
    for (let part = 0; part < 20; part++) {
      await page.mouse.move(x + (turn % 2 ? 8 : -8) * part, y);
      await page.waitForTimeout(16);
    }
    await page.mouse.up();
  }
  const times = await page.evaluate(() => {
    const frames = window.frames_;
    window.frames_ = null;
    return frames;
  });
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.floor(times.length * share)] ?? 0;
  return { frames: times.length, p50: at(0.5), p95: at(0.95), max: times[times.length - 1] ?? 0 };
}
