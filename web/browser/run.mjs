/**
 * Checks of the console in a real browser, against a running array. Prints one JSON object a line for each check.
 *
 *   IBID_DATA=DIR IBID_PID=PID IBID_OUT=DIR IBID_HOST=PATH CHROMIUM=PATH node browser/run.mjs [CHECK...]
 */

import { appearance } from './appearance.mjs';
import { charts, paths, settings } from './insight.mjs';
import { arrayOf, launch } from './kit.mjs';
import { foreignOrigin, hostileNames, session, silence } from './protection.mjs';
import {
  firstRun,
  firstWrite,
  keyboard,
  linuxCommands,
  manyVolumes,
  twoBrowsers,
  volumes,
} from './tasks.mjs';

const CHECKS = {
  'login, cookie, end of a session': session,
  'first run': firstRun,
  'volumes by mouse': volumes,
  'volumes by keyboard': keyboard,
  'two browsers': twoBrowsers,
  'charts and offloads': charts,
  'paths of hosts': paths,
  settings,
  'pages of another origin': foreignOrigin,
  'hostile names': hostileNames,
  'layout and accessibility': appearance,
  '10 000 volumes': manyVolumes,
  'array without an answer': silence,
};

/** Checks that run only by their names, with a host between them. */
const NAMED = {
  'commands for a Linux host': linuxCommands,
  'after the first write': firstWrite,
};

const array = arrayOf(process.env);
const browser = await launch(process.env);
const wanted = process.argv.slice(2);
const all = Object.entries(CHECKS);
const chosen = [...all, ...Object.entries(NAMED)].filter(([name]) => wanted.includes(name));
for (const [name, run] of wanted.length > 0 ? chosen : all) {
  const begin = performance.now();
  let result = { status: 'pass', detail: '' };
  try {
    result.detail = (await run(browser, array)) ?? '';
  } catch (error) {
    result = { status: 'fail', detail: String(error?.message ?? error).slice(0, 2000) };
  }
  for (const context of browser.contexts()) await context.close();
  process.stdout.write(`${JSON.stringify({ name, ...result, secs: (performance.now() - begin) / 1000 })}\n`);
}
await browser.close();
