import { check, logIn, scripted, watched } from './kit.mjs';

const LOAD = ['--warm', '0', '--qd', '1', '--span', '64M'];

/** Figures, pointer, ranges and the table of the charts; copies by reference. */
export async function charts(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  await logIn(page, array, '/console/hosts');
  await client('POST', '/volumes?names=busy', { provisioned: 2 ** 32 });
  const unit = (portal) => `${portal}/1`;
  await page.getByRole('button', { name: 'Add host' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add host' });
  await dialog.getByLabel('Initiator name (IQN)').fill('iqn.2026-11.org.ibid:host');
  await dialog.getByLabel('Name', { exact: true }).fill('loader');
  await dialog.getByRole('button', { name: 'Add host' }).click();
  await page.getByText('loader created.').waitFor();
  await page.getByRole('link', { name: 'loader' }).click();
  await page.getByRole('button', { name: 'Connect a volume' }).click();
  await page.getByRole('combobox', { name: 'Volume' }).fill('busy');
  await page.getByRole('dialog').getByRole('button', { name: 'Connect' }).click();
  await page.getByText('busy connected to loader.').waitFor();
  const bench = (...options) =>
    array.host('bench', unit(array.portals[0]), '--secs', '1', ...LOAD, ...options);
  for (const op of ['write', 'read', 'unmap']) await bench('--op', op, '--size', '64K');
  await bench('--op', 'xcopy', '--size', '4M');
  await page.goto(`${array.url}/console/`);
  await page.getByRole('button', { name: '10 min' }).click();
  await page.waitForURL(/range=10m/);
  const latency = page.getByRole('img', { name: /^Latency: read / });
  await page.getByRole('img', { name: /^Operations: .* at most [1-9]/ }).waitFor();
  await page.getByText('copied by reference.').waitFor();
  const rows = await page.locator('.offloads th').allInnerTexts();
  check(rows.join().includes('XCOPY') && rows.join().includes('UNMAP'), `offloads: ${rows}`);
  // The pointer at the end of the chart, where the last figures are.
  const note = page.locator('.chart header .soft').first();
  check((await note.textContent()).includes('percentile'), await note.textContent());
  const plot = latency.locator('.u-over');
  const { width } = await plot.boundingBox();
  await plot.hover({ position: { x: width - 3, y: 40 } });
  await page.waitForFunction(
    () => !document.querySelector('.chart header .soft').textContent.includes('percentile'),
  );
  const pointed = await page.locator('.chart header .soft').allInnerTexts();
  check(new Set(pointed).size === 1, `the charts point at different times: ${pointed}`);
  await page.getByRole('button', { name: 'Show as table' }).click();
  await page.getByRole('region', { name: 'Figures as a table' }).getByRole('row').nth(1).waitFor();
  // Without a choice the page shows the objects that are busy now; a comma chooses none.
  await page.goto(`${array.url}/console/performance?range=10m&names=,`);
  await page.getByRole('combobox', { name: 'Compared' }).fill('busy');
  await page.getByRole('option', { name: 'busy' }).click();
  await page.waitForURL(/names=busy/);
  await page.getByRole('img', { name: /^Operations: busy / }).waitFor();
  await page.getByRole('button', { name: 'Hosts' }).click();
  await page.waitForURL(/of=hosts/);
  await page.goto(`${array.url}/console/performance?of=hosts&range=10m&names=,`);
  await page.getByRole('combobox', { name: 'Compared' }).fill('loader');
  await page.getByRole('option', { name: 'loader' }).click();
  await page.getByRole('img', { name: /^Operations: loader / }).waitFor();
  await page.goto(`${array.url}/console/volumes/busy?tab=performance&range=1h`);
  await page.getByRole('dialog').getByText('copied by reference.').waitFor();
  check(faults.length === 0, faults.join('\n'));
  return `${rows.length} kinds of offloads, one pointer over ${pointed.length} charts`;
}

/** A host on two ports loses one: the matrix, its page and the activity say so, with the commands to repair it. */
export async function paths(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array, '/console/hosts');
  const loads = array.portals.map((portal) =>
    array.load('bench', `${portal}/1`, '--op', 'read', '--secs', '120', '--size', '4K', ...LOAD),
  );
  const row = page.getByRole('row', { name: /loader/ });
  const until = async (words) => {
    for (let tries = 0; tries < 60 && (await row.getByText(words).count()) === 0; tries += 1) {
      await page.keyboard.press('r');
      await page.waitForTimeout(250);
    }
    await row.getByText(words).waitFor();
  };
  await until('2 of 2');
  loads[1].kill('SIGKILL');
  await until('1 path is lost');
  await row.getByText('1 of 2').waitFor();
  await row.getByRole('link').click();
  await page.getByText('A session ended without a logout').waitFor();
  await page.getByText('iscsiadm -m node -T iqn.').waitFor();
  loads[0].kill('SIGKILL');
  await page.goto(`${array.url}/console/activity?kind=session`);
  await page.getByText('Session ended').first().waitFor();
  check(faults.length === 0, faults.join('\n'));
  return 'two paths, one lost, the commands to repair it, both in the activity';
}

/** A setting changed and undone, one refused by the array, and a new token, which ends the session. */
export async function settings(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array, '/console/settings');
  const delay = page.getByLabel('Delay', { exact: true });
  await delay.fill('7d');
  await page.getByText('ibid array set --eradication-delay 7d').waitFor();
  await delay.press('Enter');
  await page.getByText('Eradication delay changed.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('ibid array set --eradication-delay 1d').waitFor();
  await delay.fill('99d');
  await delay.press('Enter');
  await page.getByRole('alert').waitFor();
  await page.getByRole('button', { name: 'New token' }).click();
  const dialog = page.getByRole('dialog', { name: 'New API token for admin' });
  await dialog.getByLabel('Type admin to confirm').fill('admin');
  await dialog.getByRole('button', { name: 'New token' }).click();
  await dialog.getByText('Copy the token now.').waitFor();
  array.token = (await dialog.locator('pre').textContent()).trim();
  await page.getByText('Your session has ended.').waitFor();
  await page.getByLabel('API token', { exact: true }).fill(array.token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Your session has ended.').waitFor({ state: 'hidden' });
  check(await dialog.locator('pre').isVisible(), 'the new token is not shown any more');
  check(faults.length === 0, faults.join('\n'));
  return 'changed, undone, refused; the new token is valid';
}
