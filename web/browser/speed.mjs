/**
 * Measures the console against its budgets, on an array of its own. Prints one JSON object a line for each measure.
 *
 *   IBID_DATA=DIR IBID_PID=PID CHROMIUM=PATH node browser/speed.mjs LOADS SCROLL_SECONDS IDLE_SECONDS
 */

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { arrayOf, launch, logIn, scripted, watched } from './kit.mjs';

const [LOADS, SCROLL_SECONDS, IDLE_SECONDS] = process.argv.slice(2).map(Number);
const ASSETS = new URL('../../array/console/assets/assets/', import.meta.url).pathname;
/** Pixels per second while scrolling: about 90 rows. */
const PACE = 4000;
/** After the figures are shown, tasks that keep the page busy are waited for this long (ms). */
const SETTLE_MS = 2000;
/** Clock ticks per second of /proc. */
const TICKS = 100;

const print = (measure) => process.stdout.write(`${JSON.stringify(measure)}\n`);

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

/** Median, 99th percentile and largest of some figures. */
function spread(figures) {
  const sorted = figures.toSorted((a, b) => a - b);
  return { p50: at(sorted, 0.5), p99: at(sorted, 0.99), most: sorted.at(-1) };
}

/** All files of the console as they are sent: compressed, and fonts as they are. */
function bundle() {
  const names = readdirSync(ASSETS);
  const sent = names.filter((name) => !/\.(br|gz)$/.test(name));
  const bytes = sent.map(
    (name) => statSync(join(ASSETS, names.includes(`${name}.br`) ? `${name}.br` : name)).size,
  );
  return bytes.reduce((sum, size) => sum + size, 0);
}

/** Notes when the figures are shown, and the tasks that keep the page busy for 50 ms or longer. */
function note() {
  window.busyUntil = 0;
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries())
      window.busyUntil = Math.max(window.busyUntil, startTime + duration);
  }).observe({ type: 'longtask', buffered: true });
  const look = () => {
    if (document.querySelector('.flow .value')) window.shownAt = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}

/** Milliseconds until the first page shows its figures and is not busy, in a browser that has nothing but a session. */
async function coldLoad(browser, array, storageState) {
  const { context } = await watched(browser, array, { storageState });
  await context.addInitScript(note);
  const page = await context.newPage();
  await page.goto(`${array.url}/console/`);
  await page.waitForFunction(() => window.shownAt !== undefined);
  await page.waitForTimeout(SETTLE_MS);
  const [shown, busy] = await page.evaluate(() => [window.shownAt, window.busyUntil]);
  await context.close();
  return Math.max(shown, busy);
}

/** Milliseconds between the frames while the list of volumes is scrolled without a pause. */
async function scrolled(page) {
  const session = await page.context().newCDPSession(page);
  const box = await page.locator('.row-scroll').boundingBox();
  await page.evaluate(() => {
    window.frames = [];
    const frame = (time) => {
      window.frames.push(time);
      window.frame = requestAnimationFrame(frame);
    };
    window.frame = requestAnimationFrame(frame);
  });
  await session.send('Input.synthesizeScrollGesture', {
    x: box.x + box.width / 2,
    y: box.y + box.height / 2,
    yDistance: -PACE * SCROLL_SECONDS,
    speed: PACE,
    gestureSourceType: 'mouse',
    preventFling: true,
  });
  const times = await page.evaluate(() => {
    cancelAnimationFrame(window.frame);
    return window.frames;
  });
  return times.slice(1).map((time, index) => time - times[index]);
}

/** Processor time of the array in seconds. */
function processorTime(pid) {
  const [, , ...fields] = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/\(.*\)/, '')
    .split(/\s+/);
  // `utime` and `stime` are the fields 14 and 15; the name was removed.
  return (Number(fields[10]) + Number(fields[11])) / TICKS;
}

/** Share of a processor that the array uses while nothing happens. */
async function idle(page, pid) {
  await page.waitForTimeout(5000);
  const before = processorTime(pid);
  await page.waitForTimeout(IDLE_SECONDS * 1000);
  return (processorTime(pid) - before) / IDLE_SECONDS;
}

const array = arrayOf(process.env);
const browser = await launch(process.env);
print({ name: 'bundle', bytes: bundle() });

const { context } = await watched(browser, array);
const page = await context.newPage();
await logIn(page, array);
const client = await scripted(array, context);
const storageState = await context.storageState();
const loads = [];
for (let turn = 0; turn < LOADS; turn += 1) loads.push(await coldLoad(browser, array, storageState));
print({ name: 'load', ...spread(loads) });

for (let thousand = 0; thousand < 10; thousand += 1) {
  const names = Array.from({ length: 1000 }, (_, n) => `v${String(thousand * 1000 + n).padStart(5, '0')}`);
  await client('POST', `/volumes?names=${names.join(',')}`, { provisioned: 2 ** 36 });
}
await page.goto(`${array.url}/console/volumes`);
await page.getByText(/10\s000 volumes/).waitFor();
const frames = await scrolled(page);
const seconds = frames.reduce((sum, frame) => sum + frame, 0) / 1000;
print({ name: 'scroll', rate: frames.length / seconds, frames: frames.length, ...spread(frames) });

await page.goto(`${array.url}/console/`);
await page.locator('.flow .value').first().waitFor();
const open = await idle(page, array.pid);
await page.goto('about:blank');
print({ name: 'idle', open, closed: await idle(page, array.pid) });
await browser.close();
