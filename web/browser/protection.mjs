import { check, foreignPage, logIn, scripted, watched } from './kit.mjs';

/** Login with a wrong and the right token, the cookie, and a session that ends while a form is open. */
export async function session(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  const redirected = await page.goto(array.url);
  check(redirected.url() === `${array.url}/console/`, `/ led to ${redirected.url()}`);
  await page.getByLabel('API token', { exact: true }).fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('This token is not valid.').waitFor();
  await logIn(page, array);
  const cookies = await context.cookies();
  const cookie = cookies.find((cookie) => cookie.name === '__Host-ibid');
  check(cookies.length === 1 && cookie, `cookies: ${cookies.map((cookie) => cookie.name)}`);
  check(
    cookie.httpOnly && cookie.secure && cookie.sameSite === 'Strict' && cookie.path === '/',
    'cookie attributes',
  );
  const stored = await page.evaluate(() =>
    JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]),
  );
  check(!stored.includes(array.token) && !stored.includes(cookie.value), 'a token is readable by scripts');

  await page.keyboard.press('n');
  const dialog = page.getByRole('dialog', { name: 'New volume' });
  await dialog.getByLabel('Name').fill('kept-text');
  await context.clearCookies();
  await dialog.getByRole('button', { name: 'New volume' }).click();
  await page.getByText('Your session has ended.').waitFor();
  await page.getByLabel('API token', { exact: true }).fill(array.token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Your session has ended.').waitFor({ state: 'hidden' });
  check((await dialog.getByLabel('Name').inputValue()) === 'kept-text', 'the text of the form is lost');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  check((await context.cookies()).length === 0, 'logout left the cookie');
  check(faults.length === 0, faults.join('\n'));
  return 'refused, admitted, logged in again over a form, logged out';
}

/** A page on another port: its calls, forms and frames reach nothing, with the administrator logged in. */
export async function foreignOrigin(browser, array) {
  const { context } = await watched(browser, array);
  const client = await scripted(array, context);
  await client('POST', '/volumes?names=target', { provisioned: 1 << 30 });
  await logIn(await context.newPage(), array);
  const volume = `${array.url}/api/2.26/volumes?names=target`;
  const form = `${array.url}/api/2.26/volume-snapshots?source_names=target`;
  const foreign = await foreignPage(
    array,
    `<iframe id="frame" src="${array.url}/console/"></iframe>
     <form method="post" action="${form}" target="result"><input name="a" value="b"></form>
     <iframe name="result"></iframe>`,
  );
  const page = await context.newPage();
  await page.goto(foreign.url);
  const outcomes = await page.evaluate(async (volume) => {
    const attempt = async (init) => {
      const answer = await fetch(volume, { credentials: 'include', ...init }).catch(() => undefined);
      return answer ? `${answer.type} ${answer.status}` : 'blocked';
    };
    return [
      await attempt({}),
      await attempt({ mode: 'no-cors' }),
      await attempt({ method: 'PATCH', body: '{"destroyed":true}', headers: { 'x-ibid-console': '1' } }),
      await attempt({ method: 'POST', mode: 'no-cors', body: '{}' }),
    ];
  }, volume);
  check(
    outcomes.every((outcome) => outcome === 'blocked' || outcome === 'opaque 0'),
    `calls of another origin: ${outcomes}`,
  );
  const posted = page.waitForResponse((answer) => answer.url().startsWith(form));
  await page.evaluate(() => document.forms[0].submit());
  check((await posted).status() === 403, `a form of another origin got ${(await posted).status()}`);
  const framed = page
    .frames()
    .find((frame) => frame.url().startsWith(array.url) && frame.url().endsWith('/console/'));
  check(!framed || (await framed.locator('#root').count()) === 0, 'the console was framed');
  const items = (await client('GET', '/volume-snapshots?source_names=target')).items;
  const [{ destroyed }] = (await client('GET', '/volumes?names=target')).items;
  check(items.length === 0 && !destroyed, 'another origin changed the array');
  foreign.close();
  return `fetch, form, frame: ${outcomes.join(', ')}, 403, not shown`;
}

/** Markup and direction marks in addresses, filters and names stay text. */
export async function hostileNames(browser, array) {
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  page.on('dialog', () => faults.push('a script of a name ran'));
  await logIn(page, array);
  const markup = '<img src=x onerror=alert(1)>\u202e"\'';
  await page.goto(`${array.url}/console/volumes/${encodeURIComponent(markup)}`);
  await page.getByText('This volume does not exist any more.').waitFor();
  await page.goto(`${array.url}/console/volumes?f=${encodeURIComponent(JSON.stringify(markup))}`);
  await page.getByRole('alert').first().waitFor();
  await page.goto(`${array.url}/console/hosts`);
  await page.getByRole('button', { name: 'Add host' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add host' });
  await dialog.getByLabel('Name', { exact: true }).fill(markup);
  await dialog.getByLabel('Initiator name (IQN)').fill(`iqn.2026-11.org.example:${markup}`);
  await dialog.getByRole('button', { name: 'Add host' }).click();
  await dialog.getByRole('alert').waitFor();
  check((await page.locator('img').count()) === 0, 'markup of a name became an element');
  check(faults.length === 0, faults.join('\n'));
  return 'in the address, the filter and a form: text only';
}

/** The array stops: the console says so, and keeps the last figures. */
export async function silence(browser, array) {
  const { context } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, array);
  await page.getByText('Provisioned').waitFor();
  process.kill(array.pid, 'SIGKILL');
  await page.keyboard.press('r');
  await page.getByText('The array has not answered since').waitFor();
  check(await page.getByText('Provisioned').isVisible(), 'the last figures are gone');
  return 'said since when, with the last figures';
}
