import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { check, EVENTS, logIn, scripted, watched } from './kit.mjs';

/** The longest names that the array admits, without a place to break. */
const LONGEST = 'W'.repeat(63);
const LONGEST_IQN = `iqn.2026-11.org.example:${'w'.repeat(199)}`;
/** Objects with figures. */
const PLAIN = 'look';
const PLAIN_IQN = 'iqn.2026-11.org.ibid:look';
const PAGES = [
  '',
  'volumes',
  `volumes/${PLAIN}`,
  `volumes/${PLAIN}?tab=performance`,
  `volumes/${PLAIN}?tab=snapshots`,
  `volumes/${encodeURIComponent(`${LONGEST}::${LONGEST}`)}`,
  'protection',
  `protection/${LONGEST}`,
  'host-groups',
  `host-groups/${LONGEST}`,
  'hosts',
  `hosts/${PLAIN}`,
  `hosts/${LONGEST}`,
  'pods',
  `pods/${PLAIN}`,
  `pods/${LONGEST}`,
  'array-connections',
  `performance?names=${PLAIN},${LONGEST}`,
  'array',
  'alerts',
  'activity',
  'settings',
  'lab',
  'first-run',
];
/** Dialogs at the narrowest width: the page, and the button that opens it. */
const DIALOGS = [
  ['protection', 'New group'],
  ['hosts', 'Add host'],
  ['pods', 'New pod'],
  [`pods/${LONGEST}`, 'Quota'],
  [`pods/${LONGEST}`, 'Mediator'],
  [`pods/${PLAIN}`, 'Stretch'],
  ['array-connections', 'Connect an array'],
  ['', 'Search, or run a command'],
];
export const WIDTHS = [390, 768, 1280, 1920];
const AXE_WIDTHS = [390, 1280];
const THEMES = ['light', 'dark'];
export const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8');
/** Violations of these kinds fail the check. */
const GRAVE = ['serious', 'critical'];

/** Bytes that the browser may load for all pages. */
const BUDGET = 600 * 1024;

/** Compressed bytes of the scripts and styles of the first page. */
const FIRST_BUDGET = 260 * 1024;

/** The first page in a browser that has nothing stored but the session: bytes, and the time until it shows the state. */
export async function firstLoad(browser, array) {
  const { context } = await watched(browser, array);
  await logIn(await context.newPage(), array);
  const storageState = await context.storageState();
  const { context: cold, faults } = await watched(browser, array, { storageState });
  const page = await cold.newPage();
  await page.goto(`${array.url}/console/`);
  await page.getByText('Provisioned').waitFor();
  const [bytes, milliseconds] = await page.evaluate(() => {
    const files = performance.getEntriesByType('resource').filter(({ name }) => /\.(js|css)$/.test(name));
    return [files.reduce((sum, file) => sum + file.encodedBodySize, 0), performance.now()];
  });
  check(bytes > 0 && bytes < FIRST_BUDGET, `scripts and styles of the first page: ${bytes} bytes`);
  check(faults.length === 0, faults.join('\n'));
  return `${Math.round(bytes / 1024)} KiB of scripts and styles, shown after ${Math.round(milliseconds)} ms`;
}

/** Finds elements that scroll sideways, and texts and controls that are cut or cover each other. */
function misplaced() {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth)
    found.push(`the page is ${root.scrollWidth - root.clientWidth} px too wide`);
  const name = (element) =>
    `${element.tagName.toLowerCase()}.${element.className} "${element.textContent.slice(0, 30)}"`;
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  for (const element of document.querySelectorAll('main *, header.top *, [role=dialog] *')) {
    const style = getComputedStyle(element);
    if (!isShown(element) || style.textOverflow === 'ellipsis' || element.closest('.vh, svg, input'))
      continue;
    // Wide tables scroll within their frame, by keys too.
    if (element.matches('.scroll-x[tabindex]')) continue;
    const isCut = element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0;
    if (isCut && style.overflowX !== 'visible' && style.display !== 'inline')
      found.push(`cut: ${name(element)}`);
  }
  const within = document.querySelector('[role=dialog]') ?? document;
  const controls = [
    ...within.querySelectorAll('main button, main a, header.top button, [role=dialog] button'),
  ];
  const boxes = controls.filter(isShown).map((element) => [element, element.getBoundingClientRect()]);
  for (const [at, [one, a]] of boxes.entries()) {
    for (const [other, b] of boxes.slice(at + 1)) {
      const isNested = one.contains(other) || other.contains(one);
      const isScrolled = one.closest('.row-scroll') || other.closest('.row-scroll');
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      const isFixed = one.closest('header.top') !== other.closest('header.top');
      if (width > 1 && height > 1 && !isNested && !isScrolled && !isFixed)
        found.push(`${name(one)} covers ${name(other)}`);
    }
  }
  return found;
}

/** Waits until a change of the width has been drawn: charts follow it a frame later. */
function drawn() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}

const shortened = (path) => path.replaceAll(LONGEST, 'longest');

/** Faults of a page that is loaded, at all widths and in both themes. Keeps pictures. */
export async function look(page, path, array, found, widths) {
  let minor = 0;
  for (const theme of THEMES) {
    await page.emulateMedia({ colorScheme: theme });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate(drawn);
      const where = `/${shortened(path)} at ${width} px, ${theme}`;
      for (const fault of await page.evaluate(misplaced)) found.push(`${where}: ${fault}`);
      const name = shortened(path).replaceAll(/\W/g, '-') || 'overview';
      await page.screenshot({ path: join(array.out, `${name}-${width}-${theme}.png`) });
      if (!AXE_WIDTHS.includes(width)) continue;
      const violations = await page.evaluate(() => window.axe.run().then((result) => result.violations));
      const isGrave = ({ impact }) => GRAVE.includes(impact);
      minor += violations.filter((violation) => !isGrave(violation)).length;
      for (const { id, impact, nodes } of violations.filter(isGrave)) {
        found.push(`${where}: ${impact} ${id} ${nodes[0].target.join(' ')}`);
      }
    }
  }
  return minor;
}

/** Looks at some pages in a browser of its own. Notes the sizes of the files of the console as they were sent. */
async function tour(browser, array, pages, found, sizes) {
  const { context, faults } = await watched(browser, array);
  // With an open stream, the network is never idle.
  await context.route(EVENTS, (route) => route.abort());
  const page = await context.newPage();
  const reading = [];
  page.on('requestfinished', (request) => {
    const path = new URL(request.url()).pathname;
    if (!path.startsWith('/console/assets/')) return;
    // A file from the cache of the browser has no size, or less.
    const note = (size) => sizes.set(path, Math.max(size, sizes.get(path) ?? 0));
    reading.push(request.sizes().then(({ responseBodySize }) => note(responseBodySize)));
  });
  await logIn(page, array);
  let minor = 0;
  for (const [path, button] of pages) {
    await page.goto(`${array.url}/console/${path}`);
    await page.locator('main h1').waitFor();
    if (path.startsWith('volumes/')) await page.getByRole('tab', { name: 'Summary' }).waitFor();
    await page.waitForLoadState('networkidle');
    // Through the debugger, because the policy of the page refuses the script itself.
    await page.evaluate(AXE);
    if (button === undefined) {
      minor += await look(page, path, array, found, WIDTHS);
      continue;
    }
    await page.getByRole('button', { name: button }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    const more = dialog.getByLabel('Authenticate with CHAP');
    if ((await more.count()) > 0) await more.check();
    minor += await look(page, `${path} ${button}`, array, found, WIDTHS.slice(0, 1));
  }
  // Files that the last page still loads when it is closed are those of other pages, loaded ahead.
  await Promise.allSettled(reading);
  found.push(...faults);
  await context.close();
  return minor;
}

/** A volume with figures and a snapshot, a host that has used it, and a pod with a quota. */
async function plainObjects(client, array) {
  await client('POST', `/volumes?names=${PLAIN}`, { provisioned: 2 ** 32 });
  await client('POST', `/volume-snapshots?source_names=${PLAIN}`, { suffix: 'before' });
  await client('POST', `/hosts?names=${PLAIN}`, { iqns: [PLAIN_IQN] });
  await client('POST', `/connections?host_names=${PLAIN}&volume_names=${PLAIN}`, { lun: 9 });
  const work = ['--secs', '1', '--warm', '0', '--qd', '1', '--span', '16M', '--size', '64K'];
  for (const op of ['write', 'read']) {
    await array.host('bench', `${array.portals[0]}/9`, '--initiator', PLAIN_IQN, '--op', op, ...work);
  }
  await client('POST', `/pods?names=${PLAIN}`, { quota_limit: 2 ** 36 });
  const names = ['a', 'b', 'c'].map((own) => `${PLAIN}::${own}`);
  await client('POST', `/volumes?names=${names}`, { provisioned: 2 ** 34 });
}

/** One object of each kind with the longest name. */
async function longestObjects(client) {
  await client('POST', `/volumes?names=${LONGEST}`, { provisioned: 2 ** 50 });
  await client('POST', `/hosts?names=${LONGEST}`, { iqns: [LONGEST_IQN] });
  await client('POST', `/connections?host_names=${LONGEST}&volume_names=${LONGEST}`, {});
  await client('POST', `/protection-groups?names=${LONGEST}`);
  await client('POST', `/protection-groups/volumes?group_names=${LONGEST}&member_names=${LONGEST}`);
  await client('POST', `/protection-group-snapshots?source_names=${LONGEST}`, { suffix: LONGEST });
  await client('POST', `/host-groups?names=${LONGEST}`);
  await client('POST', `/host-groups/hosts?group_names=${LONGEST}&member_names=${LONGEST}`);
  await client('POST', `/admins?names=${LONGEST.toLowerCase()}`, {});
  await client('POST', `/pods?names=${LONGEST}`, {});
  await client('POST', `/volumes?names=${LONGEST}::${LONGEST}`, { provisioned: 2 ** 50 });
  await client('PATCH', `/pods?names=${LONGEST}`, { quota_limit: 2 ** 49, ignore_usage: true });
}

/** A connection to the other array, which has the longest name, over a simulated distance. */
async function connectPeer(client, array, context) {
  const peer = await scripted(array.peer, context);
  await peer('PATCH', '/arrays', { name: LONGEST });
  const [{ connection_key, address }] = (await peer('POST', '/array-connections/connection-key')).items;
  await client('POST', '/array-connections', { connection_key, management_address: address });
  const simulated_distance = { rtt_usec: 4000, jitter_usec: 500, bytes_per_second: 2 ** 30 };
  await client('PATCH', `/array-connections?names=${LONGEST}`, { simulated_distance });
}

/** Asks until the array answers with an object in the wanted state. */
async function until(client, path, isSo) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const [found] = (await client('GET', path)).items;
    if (found && isSo(found)) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`not as wanted: ${path}`);
}

/** Brings the pod with the longest name to the other array. */
async function stretchLongest(client) {
  await until(client, `/array-connections?names=${LONGEST}`, ({ status }) => status === 'connected');
  await client('POST', `/pods/arrays?group_names=${LONGEST}&member_names=${LONGEST}`);
  await until(client, `/pods/replication?names=${LONGEST}`, ({ state }) => state === 'sync');
}

/**
 * Every page in both themes: at four widths nothing is cut, covered or too wide; at two, axe-core finds nothing grave. The files
 * of all pages are within the budget.
 */
export async function appearance(browser, array) {
  mkdirSync(array.out, { recursive: true });
  const { context } = await watched(browser, array);
  const client = await scripted(array, context);
  await plainObjects(client, array);
  await longestObjects(client);
  await connectPeer(client, array, context);
  await stretchLongest(client);
  const [found, sizes] = [[], new Map()];
  const views = [...PAGES.map((path) => [path]), ...DIALOGS];
  const half = (rest) => views.filter((_, at) => at % 2 === rest);
  const tours = [0, 1].map((rest) => tour(browser, array, half(rest), found, sizes));
  const [even, odd] = await Promise.all(tours);
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  if (!(total > 0 && total < BUDGET)) found.push(`all pages load ${total} bytes`);
  check(found.length === 0, found.join('\n'));
  const kib = Math.round(total / 1024);
  return `${PAGES.length} pages, ${DIALOGS.length} dialogs, ${WIDTHS.length} widths, ${THEMES.length} themes, ${kib} KiB; axe-core: ${even + odd} minor or moderate`;
}

const SAMPLE = new URL('../../docs/lab-data/ibid-small.json', import.meta.url);

/** A report of the lab from a file, a wrong one, and one that is dropped. Nothing is sent. */
export async function labReport(browser, array) {
  mkdirSync(array.out, { recursive: true });
  const { context, faults } = await watched(browser, array);
  await context.route(EVENTS, (route) => route.abort());
  const page = await context.newPage();
  await logIn(page, array, '/console/lab');
  const content = readFileSync(SAMPLE, 'utf8');
  const sent = [];
  page.on('request', (request) => sent.push(request.postData() ?? ''));
  const choose = async (name, text) => {
    const waiting = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Open a report' }).click();
    await (await waiting).setFiles({ name, mimeType: 'application/json', buffer: Buffer.from(text) });
  };
  const changed = JSON.parse(content);
  delete changed.machine.cpus;
  await choose('changed.json', JSON.stringify(changed));
  await page.getByRole('alert').getByText('machine.cpus is missing').waitFor();
  await choose('cut.json', content.slice(0, 5000));
  await page.getByRole('alert').getByText('cut.json is not shown. It is not JSON').waitFor();
  await choose('report.json', content);
  await page.getByRole('heading', { name: 'Report of IBID Volume 0001' }).waitFor();
  check((await page.getByRole('alert').count()) === 0, 'the fault of the file before is still shown');
  const { outcomes } = JSON.parse(content);
  const shown = await page.locator('.experiment h2').allInnerTexts();
  check(shown.join() === outcomes.map(({ id, title }) => `${id} ${title}`).join(), `experiments: ${shown}`);
  const drawn = await page.locator('.lab-plot canvas').count();
  const wanted = outcomes.flatMap(({ findings, published }) => [
    ...findings.plots,
    ...published.plots,
  ]).length;
  check(drawn === wanted, `${drawn} of ${wanted} plots`);
  await page
    .getByRole('img', { name: /^Duration: XCOPY off [\d.]+\Ws, XCOPY on [\d.]+\W/ })
    .first()
    .waitFor();
  await page.evaluate(AXE);
  const found = [];
  await look(page, 'lab-report', array, found, WIDTHS);
  check(found.length === 0, found.join('\n'));
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.getByRole('link', { name: 'Volumes', exact: true }).first().click();
  await page.getByRole('heading', { name: 'Volumes' }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { name: 'Report of IBID Volume 0001' }).waitFor();
  const transfer = await page.evaluateHandle(() => {
    const dropped = new DataTransfer();
    dropped.items.add(new File(['{}'], 'other.json'));
    return dropped;
  });
  await page.dispatchEvent('.lab-drop', 'drop', { dataTransfer: transfer });
  await page.getByRole('alert').getByText('not a report of the lab').waitFor();
  check(!sent.some((body) => body.includes('outcomes')), 'the report was sent');
  check(faults.length === 0, faults.join('\n'));
  await context.close();
  return `${shown.length} experiments, ${drawn} plots`;
}
