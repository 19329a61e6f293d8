import { check, logIn, scripted, watched } from './kit.mjs';

/** A volume with commands of all kinds, by an initiator that any host's name admits. */
async function makeBusy(array, client) {
  await client('POST', '/volumes?names=busy', { provisioned: 2 ** 32 });
  await client('POST', '/hosts?names=any', { iqns: ['*'] });
  const [{ lun }] = (await client('POST', '/connections?host_names=any&volume_names=busy', {})).items;
  const unit = `${array.portals[0]}/${lun}`;
  const bench = (...options) =>
    array.host('bench', unit, '--secs', '1', '--warm', '0', '--qd', '1', '--span', '64M', ...options);
  for (const op of ['write', 'read', 'unmap']) await bench('--op', op, '--size', '64K');
  await bench('--op', 'xcopy', '--size', '4M');
}

/** Figures, pointer, ranges and the table of the charts; copies by reference; the busiest volume. */
export async function charts(browser, array) {
  const { context, faults } = await watched(browser, array);
  const client = await scripted(array, context);
  const page = await context.newPage();
  await logIn(page, array);
  await makeBusy(array, client);
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
  await page.goto(`${array.url}/console/volumes/busy?tab=performance&range=1h`);
  await page.getByRole('dialog').getByText('copied by reference.').waitFor();
  check(faults.length === 0, faults.join('\n'));
  return `${rows.length} kinds of offloads, one pointer over ${pointed.length} charts`;
}
