/** Changes of connections to other arrays: each with its call, its command and, if there is one, its undo. */

import { callText, type Done, word } from './actions';
import { call } from './api/client';
import type { ArrayConnection, ConnectionKey, Distance, Items, LinkTest } from './api/types';
import { commandSize } from './format/units';
import { text } from './text';

const PATH = '/array-connections';
export const NO_DISTANCE: Distance = { rtt_usec: 0, jitter_usec: 0, bytes_per_second: null, cut: 'none' };
/** The directions that can be cut, as the array sees them. */
export const CUTS = ['none', 'in', 'out', 'both'] as const;

/** Parses `4ms`, `500us` and `0` to microseconds; null if it is no such time. */
export function parseMicros(typed: string): number | null {
  const [, figure = '', unit = ''] = /^(\d+(?:\.\d+)?)\s*(us|µs|ms)?$/i.exec(typed.trim()) ?? [];
  if (figure === '' || (unit === '' && Number(figure) !== 0)) return null;
  return Math.round(Number(figure) * (unit.toLowerCase() === 'ms' ? 1000 : 1));
}

/** The shortest text that a command accepts for a time in microseconds. */
export const commandMicros = (usec: number) => (usec % 1000 === 0 ? `${usec / 1000}ms` : `${usec}us`);

export const isNear = ({ rtt_usec, jitter_usec, bytes_per_second, cut }: Distance) =>
  rtt_usec === 0 && jitter_usec === 0 && bytes_per_second === null && cut === 'none';

export const linkCommands = {
  key: 'ibid array connection-key',
  /** The key is read from standard input, so that it is in no command. */
  connect: (address: string, name: string) =>
    `ibid array connect ${name === '' ? '' : `${word(name)} `}--address ${word(address)} --key -`,
  disconnect: (name: string) => `ibid array disconnect ${word(name)}`,
  test: (name: string) => `ibid array link-test ${word(name)}`,
  distance: (name: string, distance: Distance) => {
    if (isNear(distance)) return `ibid array distance ${word(name)} --off`;
    const { rtt_usec, jitter_usec, bytes_per_second, cut } = distance;
    const rate = bytes_per_second === null ? 'none' : commandSize(bytes_per_second);
    const times = `--rtt ${commandMicros(rtt_usec)} --jitter ${commandMicros(jitter_usec)}`;
    return `ibid array distance ${word(name)} ${times} --rate ${rate} --cut ${cut}`;
  },
};

/** Connects to another array. `expected` is the name that it must have, or empty. */
export async function connectArray(address: string, key: string, expected: string): Promise<Done> {
  const params = { names: expected === '' ? undefined : expected };
  const body = { management_address: address, connection_key: key.trim() };
  const { items } = await call<Items<ArrayConnection>>('POST', PATH, params, body);
  const name = items[0]?.name ?? address;
  return { message: text.done.arrayConnected(name), undo: () => disconnectCall(name) };
}

const disconnectCall = (name: string) => call('DELETE', PATH, { names: name });

/** Removes a connection. Another one needs a new key, so there is no undo. */
export async function disconnectArray(name: string): Promise<Done> {
  await disconnectCall(name);
  return { message: text.done.arrayDisconnected(name) };
}

/** Makes a key with which another array connects, in place of any other. */
export async function newConnectionKey(): Promise<ConnectionKey | undefined> {
  return (await call<Items<ConnectionKey>>('POST', `${PATH}/connection-key`)).items[0];
}

/** There is no command that changes the address. */
export const addressCall = (name: string, management_address: string) =>
  callText('PATCH', PATH, { names: name }, { management_address });

export async function setAddress(name: string, before: string, address: string): Promise<Done> {
  const patch = (management_address: string) => call('PATCH', PATH, { names: name }, { management_address });
  await patch(address);
  return { message: text.done.changed(name), undo: () => patch(before) };
}

export async function setDistance(link: ArrayConnection, distance: Distance): Promise<Done> {
  const patch = ({ bytes_per_second, ...rest }: Distance) =>
    call(
      'PATCH',
      PATH,
      { names: link.name },
      { simulated_distance: { ...rest, bytes_per_second: bytes_per_second ?? 0 } },
    );
  await patch(distance);
  return {
    message: text.done.distance(link.name, isNear(distance)),
    undo: () => patch(link.simulated_distance ?? NO_DISTANCE),
  };
}

/** Measures a link for one second in each direction. */
export async function testLink(name: string): Promise<LinkTest | undefined> {
  return (await call<Items<LinkTest>>('POST', `${PATH}/test`, { names: name }, {})).items[0];
}
