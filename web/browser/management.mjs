import { check, logIn, scripted, watched } from './kit.mjs';

const shown = (page, words) => page.getByText(words).first().waitFor();

/** A protection group: made, snapshot, restored and undone, schedule, destroyed and recovered. */
export async function protectionGroups(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  await logIn(page, array, '/console/protection');
  await page.getByRole('button', { name: 'New group' }).click();
  const create = page.getByRole('dialog', { name: 'New protection group' });
  await create.getByLabel('Name').fill('gold');
  await create.getByRole('combobox', { name: 'Volumes' }).fill('vm-');
  for (const name of ['vm-1', 'vm-2']) await create.getByRole('option', { name }).click();
  await create.getByLabel('Every').fill('1min');
  await shown(create, 'Write a time from 5min to 400d.');
  await create.getByLabel('Every').fill('1d');
  await create.getByLabel('At (UTC, optional)').fill('02:30');
  await shown(create, 'Every day at 02:30 UTC; keeps all for 1');
  await create.getByRole('button', { name: 'New group' }).click();
  await shown(page, 'gold created.');
  await page.getByRole('link', { name: 'gold' }).click();
  await page.getByRole('button', { name: 'Snapshot' }).click();
  const snapshot = page.getByRole('dialog', { name: 'Snapshot of gold' });
  await snapshot.getByLabel('Suffix (optional)').fill('before');
  await snapshot.getByRole('button', { name: 'Snapshot' }).click();
  await shown(page, '1 snapshot created: gold.before.');
  await shown(page, 'restores all 2 volumes');
  const row = page.getByRole('listitem').filter({ hasText: 'before' });
  await row.getByRole('button', { name: 'Restore' }).click();
  await page
    .getByRole('dialog', { name: 'Restore from gold.before' })
    .getByRole('button', { name: 'Restore' })
    .click();
  await shown(page, '2 volumes have the content of gold.before');
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await shown(page, 'Undone.');
  await page.getByRole('button', { name: 'Schedule' }).click();
  const plan = page.getByRole('dialog', { name: 'Schedule of gold' });
  await plan.getByLabel('Every').fill('1h');
  await plan.getByLabel('Then keep of each day').fill('0');
  await plan.getByRole('button', { name: 'Save' }).click();
  await shown(page, 'gold changed.');
  await shown(page, 'Every hour; keeps all for 1');
  const [{ snapshot_schedule, source_retention }] = (await client('GET', '/protection-groups?names=gold'))
    .items;
  check(
    snapshot_schedule.frequency === 3_600_000 &&
      snapshot_schedule.at === null &&
      source_retention.per_day === 0,
    JSON.stringify({ snapshot_schedule, source_retention }),
  );
  await page
    .getByRole('listitem')
    .filter({ hasText: 'vm-2' })
    .getByRole('button', { name: 'Remove' })
    .click();
  await shown(page, 'vm-2 removed from gold.');
  await shown(page, 'restores all 1 volume');
  await row.getByRole('button', { name: 'Destroy' }).click();
  await shown(page, 'gold.before destroyed.');
  await row.getByRole('button', { name: 'Recover' }).click();
  await shown(page, 'gold.before recovered.');
  await page.getByRole('button', { name: 'Destroy', exact: true }).first().click();
  await shown(page, 'gold destroyed.');
  await page.getByRole('link', { name: 'gold' }).click();
  await page.getByRole('button', { name: 'Recover' }).first().click();
  await shown(page, 'gold recovered.');
  check(faults.length === 0, faults.join('\n'));
  return 'made, snapshot, restored and undone, schedule, a volume removed, destroyed, recovered';
}

/** A host with CHAP and two initiators, changed and renamed; a host group that sees a volume at a chosen LUN. */
export async function hosts(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  await logIn(page, array, '/console/hosts');
  await page.getByRole('button', { name: 'Add host' }).click();
  const add = page.getByRole('dialog', { name: 'Add host' });
  await add.getByLabel('Name', { exact: true }).fill('esx-1');
  await add.getByLabel('Initiator name (IQN)').fill('iqn.2026-11.test:a\niqn.2026-11.test:b');
  await add.getByRole('combobox', { name: 'Personality' }).click();
  await add.getByRole('option', { name: 'esxi' }).click();
  await add.getByLabel('Authenticate with CHAP').check();
  await add.getByLabel('User of the host').fill('esx');
  await add.getByLabel('Secret of the host').fill('short');
  check(await add.getByRole('button', { name: 'Add host' }).isDisabled(), 'a short secret is offered');
  await add.getByLabel('Secret of the host').fill('a-secret-of-the-host');
  const command = await add.locator('pre').textContent();
  check(command.includes('--chap-user esx') && !command.includes('a-secret'), command);
  await add.getByRole('button', { name: 'Add host' }).click();
  await shown(page, 'esx-1 created.');
  await page.getByRole('link', { name: 'esx-1' }).click();
  await page.getByRole('button', { name: 'Edit' }).click();
  const edit = page.getByRole('dialog', { name: 'Edit esx-1' });
  await edit.getByLabel('Initiator name (IQN)').fill('iqn.2026-11.test:a');
  await edit.getByRole('button', { name: 'Save' }).click();
  await shown(page, 'esx-1 changed.');
  await page.getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByLabel('New name').fill('esx-2');
  await page.keyboard.press('Enter');
  await page.waitForURL(/hosts\/esx-2/);
  const [host] = (await client('GET', '/hosts?names=esx-2')).items;
  const { host_user, host_password } = host.chap;
  check(
    host.iqns.length === 1 && host.personality === 'esxi' && host_user === 'esx' && host_password === '****',
    JSON.stringify(host),
  );
  await page.goto(`${array.url}/console/host-groups`);
  await page.getByRole('button', { name: 'New host group' }).click();
  const group = page.getByRole('dialog', { name: 'New host group' });
  await group.getByLabel('Name').fill('cluster');
  await group.getByRole('combobox', { name: 'Hosts' }).click();
  await group.getByRole('option', { name: 'esx-2' }).click();
  await group.getByRole('button', { name: 'New host group' }).click();
  await shown(page, 'cluster created.');
  await page.getByRole('link', { name: 'cluster' }).click();
  await page.getByRole('button', { name: 'Connect a volume' }).click();
  const attach = page.getByRole('dialog', { name: 'Connect a volume to cluster' });
  await attach.getByRole('combobox', { name: 'Volume' }).fill('vm-2');
  await attach.getByLabel('LUN (optional)').fill('7');
  await attach.getByRole('button', { name: 'Connect' }).click();
  await shown(page, 'vm-2 connected to cluster.');
  await shown(page, 'LUN 7');
  await page.getByRole('button', { name: 'Disconnect' }).click();
  await shown(page, 'vm-2 disconnected from cluster.');
  await page.getByRole('button', { name: 'Remove' }).click();
  await shown(page, 'esx-2 removed from cluster.');
  await page.getByRole('button', { name: 'Delete' }).click();
  await shown(page, 'cluster deleted.');
  check(faults.length === 0, faults.join('\n'));
  return 'two initiators, CHAP, personality, renamed; a group, a volume at LUN 7';
}

/** An administrator who may only read is offered no change; a higher role is followed at once. */
export async function administrators(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array, '/console/settings');
  await page.getByRole('button', { name: 'New administrator' }).click();
  const create = page.getByRole('dialog', { name: 'New administrator' });
  await create.getByLabel('Name').fill('vera');
  await create.getByRole('button', { name: 'New administrator' }).click();
  await shown(page, 'vera created.');
  const row = page.getByRole('listitem').filter({ hasText: 'vera' }).filter({ hasText: 'no token' });
  await row.getByRole('button', { name: 'New token' }).click();
  const make = page.getByRole('dialog', { name: 'New API token for vera' });
  await make.getByLabel('Valid for (optional)').fill('90d');
  await shown(make, 'ibid admin token vera --valid 90d');
  await make.getByRole('button', { name: 'New token' }).click();
  await shown(make, 'pass it to vera');
  const token = (await make.locator('pre').textContent()).trim();
  await make.getByRole('button', { name: 'I have copied it' }).click();
  await shown(page, 'valid until');

  const other = await watched(browser, array);
  const reader = await other.context.newPage();
  await logIn(reader, { ...array, token }, '/console/volumes');
  await reader.getByRole('link', { name: 'read-only' }).waitFor();
  await reader.getByRole('link', { name: 'vm-1', exact: true }).click();
  await reader.getByRole('tab', { name: 'Summary' }).waitFor();
  check(
    (await reader.getByRole('button', { name: /New volume|Snapshot|Connect/ }).count()) === 0,
    'a change is offered',
  );
  check((await reader.getByLabel('Select vm-1').count()) === 0, 'a selection is offered');
  await reader.keyboard.press('Escape');
  await reader.getByRole('dialog').waitFor({ state: 'hidden' });
  await reader.keyboard.press('n');
  await reader.keyboard.press('Control+k');
  await reader.getByRole('combobox').fill('new');
  await reader.getByRole('option', { name: 'New API token' }).waitFor();
  check((await reader.getByRole('option').count()) === 1, 'the palette offers more than the own token');
  await reader.keyboard.press('Escape');
  await reader.goto(`${array.url}/console/settings`);
  await shown(reader, 'Your role is readonly');
  check((await reader.getByRole('button', { name: 'Save' }).count()) === 0, 'settings can be saved');
  check(
    (await reader.getByRole('button', { name: 'New token' }).count()) === 1,
    'tokens of others are offered',
  );

  const present = page.getByRole('listitem').filter({ hasText: 'valid until' });
  await present.getByRole('button', { name: 'More actions for vera' }).click();
  await page.getByRole('menuitem', { name: 'Role' }).click();
  const role = page.getByRole('dialog', { name: 'Role of vera' });
  await role.getByRole('combobox', { name: 'Role' }).click();
  await role.getByRole('option', { name: 'storage_admin' }).click();
  await role.getByRole('button', { name: 'Save' }).click();
  await shown(page, 'vera has the role storage_admin.');
  await reader.keyboard.press('r');
  await reader.getByRole('link', { name: 'storage', exact: true }).waitFor();
  await reader.goto(`${array.url}/console/volumes`);
  await reader.getByRole('button', { name: 'New volume' }).waitFor();
  await present.getByRole('button', { name: 'More actions for vera' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  const remove = page.getByRole('dialog', { name: 'Delete vera' });
  await remove.getByLabel('Type vera to confirm').fill('vera');
  await remove.getByRole('button', { name: 'Delete' }).click();
  await shown(page, 'vera deleted.');
  await reader.keyboard.press('r');
  await shown(reader, 'Your session has ended.');
  const all = [...faults, ...other.faults];
  check(all.length === 0, all.join('\n'));
  return 'made with a token, offered nothing but reading, role changed at once, deleted';
}

/** Answers of the array that are rare: stopped, full, failing, slow. They are given by the browser. */
export async function states(browser, array) {
  const { context } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array, '/console/volumes');
  const change = (path, edit) =>
    page.route(`**/api/2.26/${path}*`, async (route) => {
      const answer = await route.fetch();
      const body = await answer.json();
      // An error has no items and stays as it is.
      if (body.items) edit(body);
      await route.fulfill({ response: answer, json: body });
    });
  await change('arrays', ({ items: [first] }) => {
    if (first) first.status = 'stopped';
  });
  await page.keyboard.press('r');
  await page.getByRole('alert').getByText('The array has stopped serving writes.').waitFor();
  await page.getByRole('alert').getByRole('link', { name: 'Alerts' }).click();
  await page.goto(`${array.url}/console/`);
  await page.getByRole('heading', { name: 'The array has stopped serving writes.' }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  const full = {
    ...{ id: '1', name: '1', actual: null, expected: null, closed: null, code: 12, component_name: 'ibid' },
    ...{ component_type: 'array', created: Date.now(), description: 'Grow it.', severity: 'critical' },
    ...{ state: 'open', summary: 'host writes are refused' },
  };
  await change('alerts', (body) => {
    body.items = [full];
  });
  await page.goto(`${array.url}/console/hosts`);
  await page.getByRole('alert').getByText('host writes are refused').waitFor();
  await page.goto(`${array.url}/console/`);
  await page.getByRole('link', { name: 'Show destroyed volumes' }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  const errors = [{ code: 'unspecified', context: 'ibid', message: 'the catalog is damaged' }];
  await page.route('**/api/2.26/protection-groups*', (route) =>
    route.fulfill({ status: 500, json: { errors } }),
  );
  await page.goto(`${array.url}/console/protection`);
  await page.getByRole('alert').getByText('the catalog is damaged').waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  await page.route('**/api/2.26/hosts*', async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(`${array.url}/console/hosts`);
  await page.getByText('Loading').waitFor();
  release();
  await page.getByRole('heading', { name: 'Hosts', exact: true }).waitFor();
  return 'stopped, full, an error of the array, loading';
}
