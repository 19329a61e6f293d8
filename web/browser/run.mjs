/**
 * Checks of the console in a real browser, against a running array. Prints one JSON object a line for each check.
 *
 *   IBID_DATA=DIR IBID_PEER=DIR IBID_PID=PID IBID_PEER_PID=PID IBID_MEDIATOR=ADDRESS IBID_OUT=DIR IBID_HOST=PATH CHROMIUM=PATH \
 *     node browser/run.mjs [CHECK...]
 */

import { appearance, firstLoad, labReport } from './appearance.mjs';
import { charts, paths, settings } from './insight.mjs';
import { arrayOf, launch } from './kit.mjs';
import { live } from './live.mjs';
import { administrators, hosts, protectionGroups, states } from './management.mjs';
import { links, pods, podsByKeyboard } from './pods.mjs';
import { foreignOrigin, hostileNames, session, silence } from './protection.mjs';
import { stretchedPod } from './stretched.mjs';
import {
  firstRun,
  firstWrite,
  keyboard,
  linuxCommands,
  manyVolumes,
  twoBrowsers,
  volumes,
} from './tasks.mjs';

/** One batch after the other. The checks of a batch run at the same time, so they change different objects. */
const BATCHES = [
  { 'login, cookie, end of a session': session },
  { 'first run': firstRun },
  { 'volumes by mouse': volumes },
  { 'volumes by keyboard': keyboard },
  { 'two browsers': twoBrowsers, 'first load': firstLoad },
  {
    'protection groups': protectionGroups,
    'hosts and host groups': hosts,
    'administrators and roles': administrators,
    'rare states': states,
    'live updates': live,
  },
  { 'pods by mouse': pods, 'connected arrays': links },
  { 'charts and offloads': charts, 'pods by keyboard': podsByKeyboard },
  { 'paths of hosts': paths, 'a report of the lab': labReport },
  { settings },
  { 'pages of another origin': foreignOrigin, 'hostile names': hostileNames },
  { 'layout and accessibility': appearance },
  { '10 000 volumes': manyVolumes },
  { 'array without an answer': silence },
];

/** Checks that run only by their names: with a host between them, or with arrays of their own. */
const NAMED = {
  'commands for a Linux host': linuxCommands,
  'after the first write': firstWrite,
  'a pod on two arrays': stretchedPod,
};

const array = arrayOf(process.env);
const browser = await launch(process.env);
const wanted = process.argv.slice(2);

async function runCheck([name, run]) {
  const begin = performance.now();
  let result = { status: 'pass', detail: '' };
  try {
    result.detail = (await run(browser, array)) ?? '';
  } catch (error) {
    result = { status: 'fail', detail: String(error?.message ?? error).slice(0, 2000) };
  }
  process.stdout.write(`${JSON.stringify({ name, ...result, secs: (performance.now() - begin) / 1000 })}\n`);
}

for (const batch of wanted.length > 0 ? [...BATCHES, NAMED] : BATCHES) {
  const chosen = Object.entries(batch).filter(([name]) => wanted.length === 0 || wanted.includes(name));
  await Promise.all(chosen.map(runCheck));
  for (const context of browser.contexts()) await context.close();
}
await browser.close();
