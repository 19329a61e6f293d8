/** Live updates, and lists read at intervals while the stream is cut. */

import { connect, createServer } from 'node:net';
import { check, EVENTS, logIn, scripted, watched } from './kit.mjs';

/** A list is read every 10 seconds without the stream. */
const POLL_MS = 10_000;

/** A way to the array that can be cut. */
function wire(array) {
  const { hostname, port } = new URL(array.url);
  const sockets = new Set();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve({ url: `https://127.0.0.1:${server.address().port}`, cut, close: () => server.close() }),
    );
  });
}

/** A change by another client is shown at once; without the stream it is shown with the next poll. */
export async function live(browser, array) {
  const way = await wire(array);
  const through = { ...array, url: way.url };
  const { context, faults } = await watched(browser, through);
  const client = await scripted(array, context);
  const page = await context.newPage();
  const opened = page.waitForResponse(EVENTS);
  await logIn(page, through, '/console/volumes?filter=live-*');
  const status = page.locator('header [role=status]');
  check((await opened).status() === 200, 'no stream');
  await page.waitForLoadState();
  // How long a new volume takes to be shown.
  const shown = async (name) => {
    const begin = performance.now();
    await client('POST', `/volumes?names=${name}`, { provisioned: 2 ** 30 });
    await page.getByRole('row', { name: new RegExp(name) }).waitFor();
    return performance.now() - begin;
  };
  const times = [];
  for (const name of ['live-1', 'live-2', 'live-3']) times.push(await shown(name));
  check(Math.max(...times) < POLL_MS / 2, `shown after ${times.map(Math.round)} ms`);
  check((await status.textContent()) === 'live', await status.textContent());

  await context.route(EVENTS, (route) => route.abort());
  way.cut();
  await status.getByText('every 10 s').waitFor();
  const polled = await shown('live-4');
  check(polled < 2 * POLL_MS, `shown after ${Math.round(polled)} ms without the stream`);

  await context.unroute(EVENTS);
  // What changed without a stream is known when there is one again.
  const resumed = await page.waitForRequest(EVENTS, { timeout: 60_000 });
  check(/^\d+-\d+$/.test((await resumed.allHeaders())['last-event-id']), 'the stream does not continue');
  await status.getByText('live').waitFor();
  times.push(await shown('live-5'));
  check(times.at(-1) < POLL_MS / 2, `shown after ${Math.round(times.at(-1))} ms`);

  // A list without a change is not read. Other checks change other lists at the same time.
  let reads = 0;
  page.on('request', (request) => {
    reads += new URL(request.url()).pathname.endsWith('/alerts') ? 1 : 0;
  });
  await page.waitForTimeout(POLL_MS + 1000);
  check(reads === 0, `alerts were read ${reads} times without a change`);
  const names = 'live-1,live-2,live-3,live-4,live-5';
  await client('PATCH', `/volumes?names=${names}`, { destroyed: true });
  await client('DELETE', `/volumes?names=${names}`);
  await context.close();
  way.close();
  check(faults.length === 0, faults.join('\n'));
  return `shown after ${Math.round(Math.max(...times))} ms, by polls after ${Math.round(polled)} ms`;
}
