/** A pod on two arrays, from the pages of both. */

import { mkdirSync } from 'node:fs';
import { AXE, look, WIDTHS } from './appearance.mjs';
import { check, logIn, reader, scripted, watched } from './kit.mjs';

const POD = 'dc1';
const PATH = `/console/pods/${POD}`;
/** Arrays that lose or find each other take seconds. A machine may be busy. */
const SLOW = { timeout: 60_000 };

const shown = (page, words) => page.getByText(words).first().waitFor();
const later = (page, words) => page.getByText(words, { exact: true }).first().waitFor(SLOW);
const button = (page, name) => page.getByRole('button', { name, exact: true });
const dialog = (page, name) => page.getByRole('dialog', { name });

/** Opens a dialog by its button. */
async function opened(page, verb, title) {
  await button(page, verb).click();
  const form = dialog(page, title);
  await form.waitFor();
  return form;
}

/** Submits a dialog that shows this command. */
async function submit(form, verb, command) {
  await form.getByText(command, { exact: true }).waitFor();
  await form.getByRole('button', { name: verb, exact: true }).click();
  await form.waitFor({ state: 'hidden' });
}

/** The pod comes to beta, slowly at first. */
async function stretched(page, array) {
  await shown(page, 'Its data is on alpha only.');
  let limit = await opened(page, 'Resync limit', `Resync limit of ${POD}`);
  const field = 'Bytes per second (optional)';
  await limit.getByLabel(field).fill('1KiB');
  await shown(limit, 'A limit is from 1 MiB to 1 TiB.');
  check(await limit.getByRole('button', { name: 'Save' }).isDisabled(), 'a limit of 1 KiB is offered');
  await limit.getByLabel(field).fill('4MiB');
  await submit(limit, 'Save', `ibid pod set ${POD} --resync-limit 4MiB`);
  await shown(page, `${POD} changed.`);

  const form = await opened(page, 'Stretch', `Stretch ${POD} to another array`);
  await shown(form, 'Without a mediator');
  await form.getByLabel('Mediator (optional)').fill(array.mediator);
  await form.getByText('Without a mediator').waitFor({ state: 'detached' });
  await submit(form, 'Stretch', `ibid pod stretch ${POD} beta --mediator ${array.mediator}`);
  await shown(page, `${POD} is being brought to beta.`);
  await later(page, 'receives what it lacks');
  await shown(page, 'coming into step');
  await shown(page, /has arrived, .* to go.*at most 4.00\sMiB\/s/);
  limit = await opened(page, 'Resync limit', `Resync limit of ${POD}`);
  await limit.getByLabel(field).fill('');
  await submit(limit, 'Save', `ibid pod set ${POD} --resync-limit none`);
  await later(page, 'in step');
  await later(page, 'the mediator decides');
  await shown(page, 'this array, orders changes');
  await shown(page, 'serves the same volumes');
  await shown(page, 'both arrays are in step');
}

/** Actions that the array would refuse are off. The list shows both arrays. */
async function offered(page, array) {
  for (const name of ['Destroy', 'Clone', 'Move volumes in']) {
    check(await button(page, name).isDisabled(), `${name} is offered`);
  }
  const why = await button(page, 'Destroy').getAttribute('title');
  check(why === 'It is on two arrays. Remove it from beta before it is destroyed.', `why: ${why}`);
  await page.goto(`${array.url}/console/pods`);
  await shown(page, '1 pod, 1 on two arrays.');
  const row = page.getByRole('row').filter({ hasText: POD });
  await row.getByText('alpha, beta').waitFor();
  const states = (await row.locator('.of-array').allTextContents()).map((text) => text.trim());
  check(states.join() === 'alpha online,beta online', `states: ${states}`);
  await row.getByRole('link', { name: POD }).click();
  await later(page, 'in step');
}

/** Preferred array and mediator, each changed and undone. */
async function settings(page, client) {
  const pod = async () => (await client('GET', `/pods?names=${POD}`)).items[0];
  const undo = async () => {
    await page.getByRole('button', { name: 'Undo' }).last().click();
    await shown(page, 'Undone.');
    await page.getByText('Undone.').waitFor({ state: 'detached' });
  };
  const form = await opened(page, 'Prefer an array', `Preferred array of ${POD}`);
  check(
    await form.getByRole('button', { name: 'Save' }).isDisabled(),
    'the preferred array is offered again',
  );
  await form.getByRole('combobox', { name: 'Array' }).click();
  await form.getByRole('option', { name: 'beta' }).click();
  await submit(form, 'Save', `ibid pod prefer ${POD} beta`);
  await shown(page, `${POD} prefers beta.`);
  check((await pod()).failover_preferences[0].name === 'beta', 'beta is not preferred');
  await undo();
  check((await pod()).failover_preferences[0].name === 'alpha', 'the undo did not prefer alpha');

  const mediator = await opened(page, 'Mediator', `Mediator of ${POD}`);
  await mediator.getByLabel('Mediator (optional)').fill('');
  await shown(mediator, 'Without a mediator');
  await submit(mediator, 'Save', `ibid pod mediator ${POD} none`);
  await shown(page, `${POD} has no mediator any more.`);
  check((await pod()).mediator === 'purestorage', 'the mediator is still set');
  await undo();
  await later(page, 'the mediator decides');
  await later(page, 'answers');
}

/** A simulated distance is a permanent label. With it, the page is looked at. */
async function far(page, array, client) {
  const distance = (rtt_usec) => {
    const simulated_distance = { rtt_usec, jitter_usec: 0, bytes_per_second: 0, cut: 'none' };
    return client('PATCH', '/array-connections?names=beta', { simulated_distance });
  };
  await distance(20_000);
  await later(page, 'simulated distance');
  mkdirSync(array.out, { recursive: true });
  await page.evaluate(AXE);
  const found = [];
  await look(page, 'pod-on-two-arrays', array, found, WIDTHS);
  check(found.length === 0, found.join('\n'));
  await page.setViewportSize({ width: 1280, height: 900 });
  await distance(0);
  await page.getByText('simulated distance', { exact: true }).waitFor({ state: 'detached', ...SLOW });
}

/** Each array hands the pod over to the other one. */
async function handedOver(browser, page, array) {
  const away = await opened(page, 'Hand over', `Hand ${POD} over to beta`);
  await submit(away, 'Hand over', `ibid pod resign ${POD}`);
  await later(page, 'this array, serves the same volumes');
  const remove = button(page, 'Remove from the other array');
  check(await remove.isDisabled(), 'the array that follows offers to remove the other one');
  const why = await remove.getAttribute('title');
  check(why === 'beta orders the changes of the pod: do this there.', `why: ${why}`);
  const { context, faults } = await watched(browser, array.peer);
  const there = await context.newPage();
  await logIn(there, array.peer, PATH);
  await later(there, 'this array, orders changes');
  await later(there, 'in step');
  const back = await opened(there, 'Hand over', `Hand ${POD} over to alpha`);
  await submit(back, 'Hand over', `ibid pod resign ${POD}`);
  await later(page, 'this array, orders changes');
  await later(page, 'in step');
  await later(there, 'this array, serves the same volumes');
  await context.close();
  return faults;
}

/** The other array is silent: this one serves alone until it is back. */
async function alone(page, array) {
  process.kill(array.peer.pid, 'SIGSTOP');
  try {
    await later(page, 'on one array alone');
    await shown(page, 'this array, serves alone');
    await shown(page, 'does not serve');
    await shown(page, 'this array serves alone, without beta');
    await page.goto(`${array.url}/console/alerts`);
    await page.getByRole('link', { name: 'Show the pod' }).first().click(SLOW);
    await page.waitForURL(/pods\/dc1/);
  } finally {
    process.kill(array.peer.pid, 'SIGCONT');
  }
  await later(page, 'in step');
}

async function removed(page) {
  const form = await opened(page, 'Remove from the other array', `Remove ${POD} from beta`);
  check(
    await form.getByRole('button', { name: 'Remove' }).isDisabled(),
    'removing does not ask for the name',
  );
  await form.getByLabel(`Type ${POD} to confirm`).fill(POD);
  await submit(form, 'Remove', `ibid pod unstretch ${POD} beta`);
  await shown(page, `${POD} is being removed from beta.`);
  await page.getByText('Its data is on alpha only.').waitFor(SLOW);
}

/**
 * A pod of `array`, with content, comes to `peer` and leaves it: limit, progress, preference,
 * mediator, distance, both hand it over, one is silent, one is removed. The arrays are connected,
 * and their mediator allows both.
 */
export async function stretchedPod(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  await logIn(page, array, PATH);
  await stretched(page, array);
  await offered(page, array);
  await settings(page, client);
  const other = await reader(browser, array, client, 'stretch-reader');
  await other.page.goto(array.url + PATH);
  await later(other.page, 'in step');
  await other.page.getByRole('link', { name: 'read-only' }).waitFor();
  const changes = /Prefer|Mediator|Resync|Hand over|Remove|Destroy/;
  const main = other.page.locator('main');
  check((await main.getByRole('button', { name: changes }).count()) === 0, 'a change is offered');
  await other.context.close();
  await far(page, array, client);
  const there = await handedOver(browser, page, array);
  await alone(page, array);
  await removed(page);
  const all = [...faults, ...other.faults, ...there];
  check(all.length === 0, all.join('\n'));
  await context.close();
  return 'limited, stretched, preferred, mediator, simulated distance, handed over twice, alone, removed';
}
