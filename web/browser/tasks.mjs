import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, logIn, scripted, watched } from './kit.mjs';

const shown = (page, words) => page.getByText(words).first().waitFor();

/** The three steps of the first page, up to the login of a host. */
export async function firstRun(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array);
  await page.getByRole('link', { name: 'Start here' }).click();
  await page.getByRole('button', { name: 'Make volume' }).click();
  await shown(page, 'ds-01 exists.');
  await page.getByLabel('Initiator name (IQN)').fill('iqn.2004-10.com.ubuntu:01:web-01');
  await page.getByRole('button', { name: 'Add and connect' }).click();
  await shown(page, 'web-01 sees ds-01.');
  const commands = await page.locator('.code pre').allInnerTexts();
  check(
    commands.some((command) => command.includes('iscsiadm -m discovery -t sendtargets -p 127.0.0.1:')),
    'addresses',
  );
  for (const system of ['ESXi', 'Windows', 'Proxmox']) {
    await page.getByRole('button', { name: system }).click();
    await shown(page, '127.0.0.1');
  }
  check(faults.length === 0, faults.join('\n'));
  return 'a volume, a host, a connection, commands for four systems';
}

/** The three steps for a Linux host. Its commands are kept for the host, as the page prints them. */
export async function linuxCommands(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array);
  await page.getByRole('link', { name: 'Start here' }).click();
  await page.getByLabel('Size').fill('16GiB');
  await page.getByRole('button', { name: 'Make volume' }).click();
  await shown(page, 'ds-01 exists.');
  await page.getByLabel('Initiator name (IQN)').fill('iqn.2026-11.test:linux');
  await page.getByRole('button', { name: 'Add and connect' }).click();
  await shown(page, 'web-01 sees ds-01.');
  await shown(page, 'Waiting for the first write of a host.');
  const [, find, , log_in, after] = await page.locator('.code pre').allInnerTexts();
  mkdirSync(array.out, { recursive: true });
  writeFileSync(join(array.out, 'commands.json'), JSON.stringify({ find, log_in, after }));
  check(faults.length === 0, faults.join('\n'));
  return 'a volume, a host, a connection by the page alone';
}

/** The page notices the first write, and the host its session. */
export async function firstWrite(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array, '/console/first-run');
  await shown(page, /written\. The disk works\./);
  await page.goto(`${array.url}/console/activity?kind=session`);
  await page.getByRole('link', { name: 'web-01' }).first().waitFor();
  check(faults.length === 0, faults.join('\n'));
  return 'the page says that the disk works; the session is in the activity';
}

/** Create, connect, snapshot, clone, restore, undo, destroy, recover. */
export async function volumes(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  await logIn(page, array, '/console/volumes');
  await page.getByRole('button', { name: 'New volume' }).click();
  const create = page.getByRole('dialog', { name: 'New volume' });
  await create.getByLabel('Name').fill('vm-1');
  await create.getByLabel('Size').fill('1TB');
  await shown(page, 'Did you mean 1TiB?');
  await create.getByLabel('Size').fill('64GiB');
  await shown(page, 'ibid volume create vm-1 --size 64GiB');
  await create.getByRole('button', { name: 'New volume' }).click();
  await shown(page, 'vm-1 created.');
  await page.getByRole('link', { name: 'vm-1', exact: true }).click();
  const drawer = page.getByRole('dialog', { name: 'vm-1' });
  await drawer.getByRole('button', { name: 'Snapshot' }).click();
  const snapshot = page.getByRole('dialog', { name: 'Snapshot of vm-1' });
  await snapshot.getByLabel('Suffix (optional)').fill('before');
  await snapshot.getByRole('button', { name: 'Snapshot' }).click();
  await shown(page, '1 snapshot created: vm-1.before.');
  await drawer.getByRole('tab', { name: 'Snapshots' }).click();
  await drawer.getByRole('button', { name: 'Restore' }).click();
  await page
    .getByRole('dialog', { name: /Restore vm-1/ })
    .getByRole('button', { name: 'Restore' })
    .click();
  await shown(page, 'vm-1 has the content of vm-1.before.');
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await shown(page, 'Undone.');
  await drawer.getByRole('button', { name: 'Clone' }).first().click();
  const clone = page.getByRole('dialog', { name: /Clone vm-1/ });
  await clone.getByLabel('New name').fill('vm-2');
  await clone.getByRole('button', { name: 'Clone' }).click();
  await shown(page, 'vm-2 is a copy of vm-1.');
  await drawer.getByRole('button', { name: 'Connect' }).first().click();
  const connect = page.getByRole('dialog', { name: 'Connect vm-1' });
  await connect.getByRole('combobox', { name: 'Host' }).click();
  await page.getByRole('option', { name: 'web-01' }).click();
  await connect.getByRole('button', { name: 'Connect' }).click();
  await shown(page, 'vm-1 connected to web-01.');
  await drawer.getByRole('tab', { name: 'Connections' }).click();
  await drawer.getByRole('button', { name: 'Disconnect' }).click();
  await shown(page, 'vm-1 disconnected from web-01.');
  await drawer.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Destroy' }).click();
  await shown(page, 'vm-1 destroyed.');
  // Two clicks.
  await page.goto(`${array.url}/console/`);
  await page.getByRole('button', { name: 'Recover' }).first().click();
  await shown(page, 'vm-1 recovered.');
  const items = (await client('GET', '/volumes?names=vm-1,vm-2')).items;
  check(
    items.every((volume) => !volume.destroyed),
    'a volume is destroyed',
  );
  check(faults.length === 0, faults.join('\n'));
  return 'created, snapshot, restored and undone, cloned, connected, disconnected, destroyed, recovered';
}

/** The same work without a mouse, from a new volume to its recovery. */
export async function keyboard(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array);
  const keys = async (...all) => {
    for (const key of all) await page.keyboard.press(key);
  };
  // A dialog takes the focus after it is shown, and keys before that are not for its field.
  const dialog = (name) => page.getByRole('dialog', { name }).locator('input:focus').waitFor();
  const run = async (typed, option) => {
    await keys('Control+k');
    await page.locator('[role=combobox]:focus').waitFor();
    await page.keyboard.type(typed);
    await page.getByRole('option', { name: option, selected: true }).waitFor();
    await keys('Enter');
  };
  await run('volumes', /^Volumes/);
  await page.getByRole('heading', { name: 'Volumes', exact: true }).waitFor();
  await keys('n');
  await dialog('New volume');
  await page.keyboard.type('key-1');
  await keys('Enter');
  await shown(page, 'key-1 created.');
  await keys('z');
  await shown(page, 'Undone.');
  await keys('/');
  await page.locator('.filter input:focus').waitFor();
  await page.keyboard.type('vm-');
  await shown(page, '2 volumes match');
  await page.locator('.filter input').blur();
  await keys('j', 'Space');
  await shown(page, '1 selected');
  await keys('Enter');
  await page.getByRole('dialog', { name: 'vm-1' }).waitFor();
  await run('connect', /^Connect: vm-1/);
  await page.getByRole('dialog', { name: 'Connect vm-1' }).getByRole('combobox').focus();
  await page.keyboard.type('web-01');
  await page.getByRole('option', { name: 'web-01' }).waitFor();
  await keys('ArrowDown', 'Enter', 'Enter');
  await shown(page, 'vm-1 connected to web-01.');
  await run('snapshot', /^Snapshot: vm-1/);
  await dialog('Snapshot of vm-1');
  await page.keyboard.type('keys');
  await keys('Enter');
  await shown(page, 'vm-1.keys.');
  await run('clone', /^Clone: vm-1/);
  await dialog('Clone vm-1');
  await page.keyboard.type('key-2');
  await keys('Enter');
  await shown(page, 'key-2 is a copy of vm-1.');
  await run('restore keys', /^Restore keys: vm-1/);
  await page.getByRole('dialog', { name: 'Restore vm-1' }).waitFor();
  await page.getByRole('dialog', { name: 'Restore vm-1' }).getByRole('button', { name: 'Restore' }).focus();
  await keys('Enter');
  await shown(page, 'vm-1 has the content of vm-1.keys.');
  await run('disconnect', /^Disconnect web-01: vm-1/);
  await shown(page, 'vm-1 disconnected from web-01.');
  await run('limits', /^Limits: vm-1/);
  await dialog('Limits of vm-1');
  await page.keyboard.type('200MiB');
  await keys('Enter');
  await shown(page, 'Limits of vm-1 changed.');
  await run('destroy', /^Destroy: vm-1/);
  await shown(page, 'vm-1 destroyed.');
  await run('recover', /^Recover: vm-1/);
  await shown(page, 'vm-1 recovered.');
  await run('open key-2', /^Open key-2/);
  await page.getByRole('dialog', { name: 'key-2' }).waitFor();
  await run('destroy', /^Destroy: key-2/);
  await shown(page, 'key-2 destroyed.');
  await keys('Escape');
  await page.getByRole('dialog', { name: 'key-2' }).waitFor({ state: 'hidden' });
  await keys('g', 'h');
  await page.getByRole('heading', { name: 'Hosts' }).waitFor();
  await page.getByRole('link', { name: 'web-01' }).waitFor();
  await keys('j', 'Enter');
  await page.waitForURL(/hosts\/web-01/);
  await keys('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  check(faults.length === 0, faults.join('\n'));
  return 'palette, create, undo, filter, select, open, connect, snapshot, clone, restore, limits, destroy, recover';
}

/** What one browser changes, the other shows. */
export async function twoBrowsers(browser, array) {
  const [first, second] = [await watched(browser, array), await watched(browser, array)];
  const [one, two] = [await first.context.newPage(), await second.context.newPage()];
  await logIn(one, array, '/console/volumes');
  await logIn(two, array, '/console/volumes');
  await one.keyboard.press('n');
  const dialog = one.getByRole('dialog', { name: 'New volume' });
  await dialog.getByLabel('Name').fill('seen-by-both');
  await dialog.getByRole('button', { name: 'New volume' }).click();
  await two.getByRole('link', { name: 'seen-by-both' }).waitFor();
  return 'a new volume appears in the other';
}

/** Frames per second that the browser drew during an action, from its trace. */
async function framesWhile(browser, page, action) {
  await browser.startTracing(page, {
    categories: ['disabled-by-default-devtools.timeline.frame', 'devtools.timeline.frame'],
  });
  await action();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const times = traceEvents.filter(({ name }) => name === 'DrawFrame').map(({ ts }) => ts / 1e6);
  if (times.length < 2) return 0;
  return Math.round((times.length - 1) / (Math.max(...times) - Math.min(...times)));
}

/** The document keeps a small number of rows, from the first volume to the last. */
export async function manyVolumes(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  for (let thousand = 0; thousand < 10; thousand += 1) {
    const names = Array.from({ length: 1000 }, (_, n) => `x${String(thousand * 1000 + n).padStart(5, '0')}`);
    await client('POST', `/volumes?names=${names.join(',')}`, { provisioned: 2 ** 36 });
  }
  const page = await context.newPage();
  await logIn(page, array, '/console/volumes?sort=name');
  await page.getByText(/10\s0\d\d volumes/).waitFor();
  const list = page.locator('.row-scroll');
  let most = 0;
  for (const share of [0.25, 0.5, 0.75, 1]) {
    await list.evaluate((element, share) => {
      element.scrollTop = element.scrollHeight * share;
    }, share);
    const name = share === 1 ? 'x09999' : `x0${Math.round(share * 100)}`;
    await page
      .getByRole('link', { name: new RegExp(`^${name.slice(0, 3)}`) })
      .first()
      .waitFor();
    most = Math.max(most, await page.locator('.row').count());
  }
  await page.getByRole('link', { name: 'x09999' }).waitFor();
  const frames = await framesWhile(browser, page, async () => {
    await list.hover();
    for (let turn = 0; turn < 100; turn += 1) await page.mouse.wheel(0, -800);
  });
  check(most <= 60, `${most} rows in the document`);
  await page.getByLabel('Filter volumes').fill('x0500');
  await page.getByText('10 volumes match').waitFor();
  // The second batch of 500 has a connected volume, so it is refused as a whole.
  await client('POST', '/hosts?names=user', { iqns: ['iqn.2026-11.test:user'] });
  await client('POST', '/connections?host_names=user&volume_names=x00700', {});
  await page.getByLabel('Filter volumes').fill('x00');
  await page.getByText(/^1\s000 volumes match/).waitFor();
  await page.getByLabel('Select x00000').check();
  await page.getByRole('button', { name: /Select all 1\s000/ }).click();
  await page.getByText(/1\s000 selected/).waitFor();
  await page.getByRole('button', { name: 'Destroy', exact: true }).click();
  await page.getByText('500 volumes were left').waitFor();
  await page.getByText('500 volumes match').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText(/^1\s000 volumes match/).waitFor();
  check(faults.length === 0, faults.join('\n'));
  return `scrolled end to end with at most ${most} rows in the document, ${frames} frames/s`;
}
