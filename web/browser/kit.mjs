/** What the checks of the console share: the browser, the array, and the pages of another origin. */

import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

export const PATIENCE = 20_000;
/** The stream of changes. */
export const EVENTS = /\/api\/2\.26\/events$/;

/** What the console needs to log in to an array. */
function accessTo(directory) {
  const { url, iqn, iscsi } = JSON.parse(readFileSync(join(directory, 'endpoints.json'), 'utf8'));
  return { url, iqn, iscsi, directory, token: readFileSync(join(directory, 'admin-token'), 'utf8').trim() };
}

/**
 * The array that the caller has started: its address, its directory, and a folder for pictures; another array, `peer`, which
 * listens for connections; and the address of a mediator, if there is one.
 */
export function arrayOf(environment) {
  const { url, iqn, iscsi, directory, token } = accessTo(environment.IBID_DATA);
  const peer = environment.IBID_PEER && {
    ...accessTo(environment.IBID_PEER),
    pid: Number(environment.IBID_PEER_PID),
  };
  const portals = iscsi.map((portal) => `iscsi://${portal}/${iqn}`);
  const host = (...options) => promisify(execFile)(environment.IBID_HOST, options);
  const load = (...options) => spawn(environment.IBID_HOST, options, { stdio: 'ignore' });
  const [out, pid] = [environment.IBID_OUT, Number(environment.IBID_PID)];
  return { url, token, directory, portals, host, load, out, pid, peer, mediator: environment.IBID_MEDIATOR };
}

export function launch(environment) {
  // A container has no user namespaces for the browser's own sandbox.
  return chromium.launch({ executablePath: environment.CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
}

/** A client of the interface, with the token in a header. */
export async function scripted(array, context) {
  const root = `${array.url}/api/2.26`;
  const answer = await context.request.post(`${root}/login`, { headers: { 'api-token': array.token } });
  const headers = { 'x-auth-token': answer.headers()['x-auth-token'] };
  return async (method, path, data) => {
    const answer = await context.request.fetch(root + path, { method, headers, data });
    const text = await answer.text();
    if (!answer.ok()) throw new Error(`${method} ${path}: ${answer.status()} ${text}`);
    return text === '' ? {} : JSON.parse(text);
  };
}

/** A context whose pages report violations of the policy, requests elsewhere, and failures of scripts. */
export async function watched(browser, array, options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  const faults = [];
  await context.exposeFunction('reportFault', (fault) => faults.push(fault));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      window.reportFault(`policy: ${event.violatedDirective} ${event.blockedURI} on ${location.pathname}`);
    });
  });
  context.on('page', (page) => {
    page.setDefaultTimeout(PATIENCE);
    page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
    page.on('request', (request) => {
      const address = request.url();
      if (!address.startsWith(`${array.url}/`) && !address.startsWith('data:'))
        faults.push(`request: ${address}`);
    });
  });
  return { context, faults };
}

export async function logIn(page, array, path = '/console/') {
  await page.goto(array.url + path);
  await page.getByLabel('API token', { exact: true }).fill(array.token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('main h1').waitFor();
}

/** A page of a new administrator who may only read. */
export async function reader(browser, array, client, name) {
  await client('POST', `/admins?names=${name}`, { role: { name: 'readonly' } });
  const [made] = (await client('POST', `/admins/api-tokens?names=${name}`, {})).items;
  const { context, faults } = await watched(browser, array);
  const page = await context.newPage();
  await logIn(page, { ...array, token: made.api_token.token });
  return { context, faults, page };
}

/** A page on another port of the same host, so that cookies of the same site apply to its requests. */
export function foreignPage(array, html) {
  const file = (name) => readFileSync(join(array.directory, name));
  const certificate = { cert: file('certificate.pem'), key: file('certificate.key') };
  const server = createServer(certificate, (_, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(html);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve({ url: `https://127.0.0.1:${server.address().port}/`, close: () => server.close() }),
    );
  });
}

export function check(condition, message) {
  if (!condition) throw new Error(message);
}
