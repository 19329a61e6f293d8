/** Pods and their volumes, and the link between two arrays. */

import { check, logIn, reader, scripted, watched } from './kit.mjs';

const shown = (page, words) => page.getByText(words).first().waitFor();
const GIB = 2 ** 30;

/** A pod by mouse: made, filled, moved into and out of, limited, cloned, renamed, destroyed, recovered, eradicated. */
export async function pods(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  const form = (name) => page.getByRole('dialog', { name });
  const submit = (name, verb) => form(name).getByRole('button', { name: verb, exact: true }).click();
  const pod = async (name) => (await client('GET', `/pods?names=${name}`)).items[0];
  await logIn(page, array, '/console/pods');
  await shown(page, 'A pod is a container of volumes');
  await page.getByRole('button', { name: 'New pod' }).first().click();
  await form('New pod').getByLabel('Name').fill('dc1');
  await form('New pod').getByLabel('Quota (optional)').fill('2TB');
  await shown(page, 'Did you mean 2TiB?');
  await form('New pod').getByLabel('Quota (optional)').fill('2TiB');
  await shown(page, 'ibid pod create dc1 --quota 2TiB');
  await submit('New pod', 'New pod');
  await shown(page, 'dc1 created.');
  await page.getByRole('link', { name: 'dc1', exact: true }).click();
  await shown(page, 'A connected array can have the pod as well.');
  await page.getByRole('button', { name: 'New volume' }).click();
  await form('New volume').getByLabel('Name').fill('db');
  await form('New volume').getByLabel('Size').fill('3TiB');
  await submit('New volume', 'New volume');
  await form('New volume').getByRole('alert').getByText('Quota limit reached').waitFor();
  await form('New volume').getByLabel('Size').fill('1TiB');
  await shown(page, 'ibid volume create dc1::db --size 1TiB');
  await submit('New volume', 'New volume');
  await shown(page, 'dc1::db created.');
  await shown(page, /50\s% of it in use/);

  await client('POST', '/volumes?names=loose', { provisioned: GIB });
  await page.getByRole('button', { name: 'Move volumes in' }).click();
  await form('Move volumes to dc1').getByRole('combobox', { name: 'Volumes' }).fill('loose');
  await page.getByRole('option', { name: 'loose' }).click();
  // The choices stay open while the field has the focus.
  await page.keyboard.press('Tab');
  await shown(page, 'ibid volume move loose dc1');
  await submit('Move volumes to dc1', 'Move');
  await shown(page, 'loose moved to dc1.');
  const row = page.getByRole('listitem').filter({ hasText: 'dc1::loose' });
  await row.waitFor();
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await row.waitFor({ state: 'detached' });
  await client('PATCH', '/volumes?names=loose', { pod: { name: 'dc1' } });
  await row.getByRole('button', { name: 'Move out' }).click();
  await shown(page, 'dc1::loose moved out of the pod.');

  await page.getByRole('button', { name: 'Quota' }).click();
  await form('Quota of dc1').getByLabel('Quota (optional)').fill('512GiB');
  await shown(page, 'This is less than its volumes have.');
  await shown(page, 'ibid pod set dc1 --quota 512GiB --ignore-usage');
  await submit('Quota of dc1', 'Save');
  await shown(page, 'The volumes exceed the quota');
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await page.getByText('The volumes exceed the quota').waitFor({ state: 'detached' });
  check((await pod('dc1')).quota_limit === 2 ** 41, 'the undo did not set the quota');

  await page.getByRole('button', { name: 'Clone' }).click();
  await form('Clone dc1').getByLabel('New name').fill('test');
  await submit('Clone dc1', 'Clone');
  await shown(page, 'test is a copy of dc1.');
  await page.goto(`${array.url}/console/pods/test`);
  await shown(page, 'Cloned from');
  await page.getByRole('button', { name: 'Rename' }).click();
  await form('Rename test').getByLabel('New name').fill('copy');
  await submit('Rename test', 'Rename');
  await page.waitForURL(/pods\/copy/);
  await page.getByRole('link', { name: 'copy::db' }).click();
  await page.waitForURL(/volumes\/copy%3A%3Adb/);
  await page.getByRole('dialog', { name: 'copy::db' }).getByRole('link', { name: 'copy' }).waitFor();
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await form('Rename copy::db').getByLabel('New name').fill('log');
  await shown(page, 'ibid volume rename copy::db copy::log');
  await submit('Rename copy::db', 'Rename');
  await page.waitForURL(/volumes\/copy%3A%3Alog/);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Move' }).click();
  await form('Move copy::log').getByRole('combobox', { name: 'Move to' }).click();
  await page.getByRole('option', { name: 'no pod' }).click();
  await shown(page, 'copy::log becomes log.');
  await submit('Move copy::log', 'Move');
  await page.waitForURL(/volumes\/log/);
  await page.getByRole('dialog', { name: 'log' }).getByRole('tab', { name: 'Summary' }).waitFor();
  await page.goto(`${array.url}/console/volumes?f=${encodeURIComponent("pod = 'dc1'")}`);
  await shown(page, '1 volume matches');
  await page.getByRole('link', { name: 'dc1::db' }).waitFor();

  await page.goto(`${array.url}/console/pods/dc1`);
  await page.getByRole('button', { name: 'Destroy', exact: true }).click();
  await shown(page, 'dc1 destroyed.');
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await shown(page, 'Undone.');
  const [back] = (await client('GET', '/volumes?names=dc1::db')).items;
  check(!back.destroyed, 'the volumes of the pod were not recovered');
  await page.goto(`${array.url}/console/pods/dc1`);
  await page.getByRole('button', { name: 'Destroy', exact: true }).click();
  await page.getByRole('button', { name: 'Destroyed', exact: true }).click();
  await page.getByRole('link', { name: 'dc1', exact: true }).click();
  await shown(page, 'Destroyed with its volumes.');
  await page.getByRole('button', { name: 'Recover' }).click();
  await shown(page, 'dc1 recovered.');
  await page.getByRole('button', { name: 'Destroy', exact: true }).click();
  await page.waitForURL(/\/pods$/);
  await page.goto(`${array.url}/console/pods/dc1`);
  await page.getByRole('button', { name: 'Eradicate' }).click();
  const eradicate = form('Eradicate dc1').getByRole('button', { name: 'Eradicate' });
  check(await eradicate.isDisabled(), 'eradicating does not ask for the name');
  await form('Eradicate dc1').getByLabel('Type dc1 to confirm').fill('dc1');
  await eradicate.click();
  await shown(page, 'There is no such pod.');
  const left = (await client('GET', "/volumes?filter=name='dc1::*'")).items;
  check(left.length === 0, 'volumes of the pod are left');
  check(faults.length === 0, faults.join('\n'));
  await context.close();
  return 'made, quota, moved in and out, cloned, renamed, destroyed, recovered, eradicated';
}

/** Pods by keyboard alone, and what an administrator who may only read is offered. */
export async function podsByKeyboard(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  await client('POST', '/pods?names=keys', {});
  const page = await context.newPage();
  await logIn(page, array);
  const press = async (...all) => {
    for (const key of all) await page.keyboard.press(key);
  };
  const run = async (typed, option) => {
    await press('Control+k');
    await page.locator('[role=combobox]:focus').waitFor();
    await page.keyboard.type(typed);
    await page.getByRole('option', { name: option, selected: true }).waitFor();
    await press('Enter');
  };
  const field = (name) => page.getByRole('dialog', { name }).locator('input:focus').waitFor();
  await press('g', 'd');
  await page.getByRole('heading', { name: 'Pods', exact: true }).waitFor();
  await press('/');
  await page.locator('.filter input:focus').waitFor();
  await page.keyboard.type('keys');
  await shown(page, '1 pod matches');
  await page.locator('.filter input').blur();
  await press('j', 'Enter');
  await page.waitForURL(/pods\/keys/);
  await run('new volume keys', /^New volume: keys/);
  await field('New volume');
  await page.keyboard.type('a');
  await press('Enter');
  await shown(page, 'keys::a created.');
  await run('quota', /^Quota: keys/);
  await field('Quota of keys');
  await page.keyboard.type('4TiB');
  await press('Enter');
  await shown(page, 'keys changed.');
  await run('clone', /^Clone: keys/);
  await field('Clone keys');
  await page.keyboard.type('keys-2');
  await press('Enter');
  await shown(page, 'keys-2 is a copy of keys.');
  await run('open keys-2', /^Open keys-2(?!:)/);
  await page.waitForURL(/pods\/keys-2/);
  await run('destroy', /^Destroy: keys-2/);
  await shown(page, 'keys-2 destroyed.');
  await press('z');
  await shown(page, 'Undone.');
  await run('open keys::a', /^Open keys::a/);
  await page.waitForURL(/volumes\/keys%3A%3Aa/);
  await page.getByRole('dialog', { name: 'keys::a' }).getByRole('tab', { name: 'Summary' }).waitFor();
  await press('Escape');
  await page.getByRole('dialog', { name: 'keys::a' }).waitFor({ state: 'hidden' });
  await press('g', 'n');
  await page.getByRole('heading', { name: 'Connected arrays' }).waitFor();

  const other = await reader(browser, array, client, 'pod-reader');
  await other.page.goto(`${array.url}/console/pods/keys`);
  await other.page.getByRole('link', { name: 'keys::a' }).waitFor();
  // Until the page knows the role, it offers everything.
  await other.page.getByRole('link', { name: 'read-only' }).waitFor();
  const offered = /New|Move|Clone|Quota|Rename|Destroy|Stretch|Resync|Connect an|key/;
  const main = other.page.locator('main');
  check((await main.getByRole('button', { name: offered }).count()) === 0, 'a change of a pod is offered');
  await other.page.goto(`${array.url}/console/array-connections`);
  await other.page.getByRole('heading', { name: 'Connected arrays' }).waitFor();
  await other.page.getByRole('link', { name: 'read-only' }).waitFor();
  check((await main.getByRole('button', { name: offered }).count()) === 0, 'a connection is offered');
  const all = [...faults, ...other.faults];
  check(all.length === 0, all.join('\n'));
  await other.context.close();
  await client('DELETE', '/admins?names=pod-reader');
  await context.close();
  return 'opened, filled, limited, cloned, destroyed, undone; read-only: no change offered';
}

/** Two arrays: a key from one, the connection from the other, a test, a distance, and the end. */
export async function links(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  const form = (name) => page.getByRole('dialog', { name });
  await logIn(page, array, '/console/array-connections');
  await shown(page, 'Two arrays connect with a key.');
  await page.getByRole('button', { name: 'Connection key' }).click();
  await form('Connection key').getByRole('button', { name: 'Make a key' }).click();
  await form('Connection key').getByRole('alert').getByText('start it with --link').waitFor();
  await page.keyboard.press('Escape');

  const far = await watched(browser, array.peer);
  const there = await far.context.newPage();
  await logIn(there, array.peer, '/console/array-connections');
  await there.getByRole('button', { name: 'Connection key' }).click();
  const make = there.getByRole('dialog', { name: 'Connection key' });
  await make.getByRole('button', { name: 'Make a key' }).click();
  await make.getByText('for one attempt. Then').waitFor();
  const [key, command] = await make.locator('pre').allInnerTexts();
  const address = /--address (\S+) --key -$/.exec(command)?.[1];
  check(address && !command.includes(key), `command: ${command}`);

  await page.getByRole('button', { name: 'Connect an array' }).click();
  const connect = form('Connect an array');
  await connect.getByLabel('Address of the other array').fill(address);
  await connect.getByLabel('Connection key', { exact: true }).fill(`${key.slice(0, -1)}?`);
  const submit = connect.getByRole('button', { name: 'Connect', exact: true });
  await submit.click();
  await connect.getByRole('alert').waitFor();
  await connect.getByLabel('Connection key', { exact: true }).fill(key);
  check(!(await connect.locator('pre').textContent()).includes(key), 'the key is in the command');
  await submit.click();
  await shown(page, 'Connected to beta.');
  const card = page.getByRole('region', { name: 'beta' });
  await card.getByText('connected', { exact: true }).waitFor();
  await card.getByText('round trip').waitFor();
  await there.keyboard.press('Escape');
  await there.getByText('accepts the link').waitFor();

  await card.getByRole('button', { name: 'Link test' }).click();
  await form('Link test with beta').getByRole('button', { name: 'Run the test' }).click();
  const sent = form('Link test with beta').getByText(/B\/s$/).first();
  await sent.waitFor();
  const rate = await sent.textContent();
  await form('Link test with beta').locator('.acts').getByRole('button', { name: 'Close' }).click();

  await card.getByRole('button', { name: 'Distance' }).click();
  await form('Distance to beta').getByLabel('Added to each round trip').fill('600ms');
  await shown(page, 'Both together are at most 500');
  await form('Distance to beta').getByLabel('Added to each round trip').fill('40ms');
  await shown(page, 'ibid array distance beta --rtt 40ms --jitter 0ms --rate none --cut none');
  await form('Distance to beta').getByRole('button', { name: 'Save' }).click();
  await card.getByText(/40.0\sms added to each round trip/).waitFor();
  await card
    .locator('.between b')
    .filter({ hasText: /^([4-9]\d|\d{3})(\.\d)?\sms/ })
    .waitFor();
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await card.getByText('Simulated distance').waitFor({ state: 'detached' });
  const [link] = (await client('GET', '/array-connections')).items;
  check(link.simulated_distance === null, 'the undo left a distance');

  // By keyboard, with the name of the other array.
  await page.keyboard.press('Control+k');
  await page.locator('[role=combobox]:focus').waitFor();
  await page.keyboard.type('disconnect beta');
  await page.getByRole('option', { name: /^Disconnect: beta/, selected: true }).waitFor();
  await page.keyboard.press('Enter');
  await form('Disconnect from beta').locator('input:focus').waitFor();
  await page.keyboard.type('beta');
  await page.keyboard.press('Enter');
  await shown(page, 'Disconnected from beta.');
  await shown(page, 'Two arrays connect with a key.');
  await there.getByText('Two arrays connect with a key.').waitFor();
  const all = [...faults, ...far.faults];
  check(all.length === 0, all.join('\n'));
  await far.context.close();
  await context.close();
  return `a key from one page, connected from the other, ${rate} to it, 40 ms simulated and undone, disconnected`;
}
