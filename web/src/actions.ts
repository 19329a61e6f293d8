/** What the console can change: each action with its call, its command and, if there is one, its undo. */

import { address, call, type Method, type Params } from './api/client';
import type { ArrayInfo, Items, Snapshot, Volume } from './api/types';
import { chosenSize, commandSize } from './format/units';
import { text } from './text';

export type Done = { message: string; undo?: () => Promise<unknown> };
/** Names in one call. Each call is all or nothing. */
const BATCH = 500;

/** Calls in batches, up to the first that is refused. */
async function inBatches(
  names: string[],
  each: (names: string) => Promise<unknown>,
): Promise<{ done: string[]; error: unknown }> {
  for (let at = 0; at < names.length; at += BATCH) {
    try {
      await each(names.slice(at, at + BATCH).join(','));
    } catch (error) {
      return { done: names.slice(0, at), error };
    }
  }
  return { done: names, error: null };
}

/** Calls in batches. If one is refused, the message says what was done before it. */
export async function allInBatches(
  names: string[],
  each: (names: string) => Promise<unknown>,
  message: (names: string[]) => string,
  undo: (names: string[]) => Promise<unknown>,
): Promise<Done> {
  const { done, error } = await inBatches(names, each);
  if (error === null) return { message: message(names), undo: () => undo(names) };
  if (done.length === 0) throw error;
  const reason = error instanceof Error ? error.message : String(error);
  const rest = names.length - done.length;
  return { message: `${message(done)} ${text.done.partly(rest, reason)}`, undo: () => undo(done) };
}

/** Quotes a word of a command, so that a shell takes it as one word. */
export function word(value: string): string {
  return /^[\w.:@%+=/-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}

/** A call in words, for what has no command: method, address and body. */
export function callText(method: Method, path: string, params: Params, body?: unknown): string {
  const line = `${method} ${decodeURIComponent(address(path, params))}`;
  return body === undefined ? line : `${line}\n${JSON.stringify(body)}`;
}

/** Names in a command that is shown; of many, the first ones. */
const SHOWN = 20;
export const some = (names: string[]) =>
  `${names.slice(0, SHOWN).map(word).join(' ')}${names.length > SHOWN ? ' …' : ''}`;

export const commands = {
  createVolume: (name: string, bytes: number) =>
    `ibid volume create ${word(name)} --size ${commandSize(bytes)}`,
  connect: (to: Initiator, volume: string, lun?: number) =>
    'host' in to
      ? `ibid host connect ${word(to.host)} ${word(volume)}${lun === undefined ? '' : ` --lun ${lun}`}`
      : callText(
          'POST',
          '/connections',
          { host_group_names: to.hostGroup, volume_names: volume },
          lun === undefined ? {} : { lun },
        ),
  disconnect: (host: string, volume: string) => `ibid host disconnect ${word(host)} ${word(volume)}`,
  destroy: (names: string[]) => `ibid volume destroy ${names.map(word).join(' ')}`,
  recover: (names: string[]) => `ibid volume recover ${names.map(word).join(' ')}`,
  eradicate: (names: string[]) => `ibid volume eradicate ${names.map(word).join(' ')}`,
  snapshot: (names: string[], suffix: string) =>
    `ibid snap create ${some(names)}${suffix === '' ? '' : ` --suffix ${word(suffix)}`}`,
  rename: (name: string, to: string) => `ibid volume rename ${word(name)} ${word(to)}`,
  resize: (name: string, bytes: number, isSmaller: boolean) =>
    `ibid volume resize ${word(name)} --size ${commandSize(bytes)}${isSmaller ? ' --truncate' : ''}`,
  copy: (source: string, name: string, isOver: boolean) =>
    `ibid volume copy ${word(source)} ${word(name)}${isOver ? ' --overwrite' : ''}`,
  showHost: (name: string) => `ibid host show ${word(name)}\nibid host paths ${word(name)}`,
  setArray: (options: string) => `ibid array set ${options}`,
  grow: (bytes: number) => `ibid array grow --capacity ${commandSize(bytes)}`,
  limits: (name: string, options: string) => `ibid volume set ${word(name)} ${options}`,
};

export async function createVolume(name: string, bytes: number): Promise<Done> {
  await call('POST', '/volumes', { names: name }, { provisioned: bytes });
  return { message: text.done.created(name), undo: () => destroyCall([name]) };
}

const setDestroyed = (destroyed: boolean) => (names: string) =>
  call('PATCH', '/volumes', { names }, { destroyed });

export async function every(names: string[], each: (names: string) => Promise<unknown>) {
  const { error } = await inBatches(names, each);
  if (error !== null) throw error;
}
const destroyCall = (names: string[]) => every(names, setDestroyed(true));
const recoverCall = (names: string[]) => every(names, setDestroyed(false));

export const destroy = (names: string[]) =>
  allInBatches(names, setDestroyed(true), text.done.destroyed, recoverCall);

export const recover = (names: string[]) =>
  allInBatches(names, setDestroyed(false), text.done.recovered, destroyCall);

export async function eradicate(name: string): Promise<Done> {
  await call('DELETE', '/volumes', { names: name });
  return { message: text.done.eradicated(name) };
}

/** A host or a host group, to which volumes are connected. */
export type Initiator = { host: string } | { hostGroup: string };

const initiatorParams = (to: Initiator) =>
  'host' in to ? { host_names: to.host } : { host_group_names: to.hostGroup };

/** Connects volumes. A number of the unit can be chosen for one volume only. */
export async function connect(to: Initiator, volumes: string[], lun?: number): Promise<Done> {
  const ends = initiatorParams(to);
  const make = (volume_names: string) => call('POST', '/connections', { ...ends, volume_names }, { lun });
  const remove = (volume_names: string) => call('DELETE', '/connections', { ...ends, volume_names });
  const message = (done: string[]) => text.done.connected(done, ['host' in to ? to.host : to.hostGroup]);
  return allInBatches(volumes, make, message, (done) => every(done, remove));
}

export async function disconnect(from: Initiator, volume: string, lun: number): Promise<Done> {
  const pair = { ...initiatorParams(from), volume_names: volume };
  await call('DELETE', '/connections', pair);
  return {
    message: text.done.disconnected(volume, 'host' in from ? from.host : from.hostGroup),
    undo: () => call('POST', '/connections', pair, { lun }),
  };
}

export async function snapshot(volumes: string[], suffix: string): Promise<Done> {
  const body = suffix === '' ? {} : { suffix };
  const made = await call<Items<Snapshot>>(
    'POST',
    '/volume-snapshots',
    { source_names: volumes.join(',') },
    body,
  );
  const names = made.items.map((item) => item.name);
  return { message: text.done.snapshot(names), undo: () => destroySnapshots(names.join(',')) };
}

const destroySnapshots = (names: string) =>
  call('PATCH', '/volume-snapshots', { names }, { destroyed: true });
export const recoverSnapshots = (names: string) =>
  call('PATCH', '/volume-snapshots', { names }, { destroyed: false });

export async function destroySnapshot(name: string): Promise<Done> {
  await destroySnapshots(name);
  return { message: text.done.destroyed([name]), undo: () => recoverSnapshots(name) };
}

export async function recoverSnapshot(name: string): Promise<Done> {
  await recoverSnapshots(name);
  return { message: text.done.recovered([name]), undo: () => destroySnapshots(name) };
}

export async function clone(source: string, name: string): Promise<Done> {
  await call('POST', '/volumes', { names: name }, { source: { name: source } });
  return { message: text.done.cloned(source, name), undo: () => destroyCall([name]) };
}

const overwrite = (volume: string, source: string) =>
  call('POST', '/volumes', { names: volume, overwrite: true }, { source: { name: source } });

/**
 * Overwrites a volume with a snapshot. The array keeps the old content as a destroyed snapshot. Returns
 * the undo, if that snapshot is found.
 */
export async function overwriteWith(volume: string, from: string): Promise<Done['undo']> {
  const kept = () =>
    call<Items<Snapshot>>('GET', '/volume-snapshots', { source_names: volume, destroyed: true });
  const before = new Set((await kept()).items.map((item) => item.name));
  await overwrite(volume, from);
  const old = (await kept()).items.find((item) => item.suffix.startsWith('undo-') && !before.has(item.name));
  if (!old) return undefined;
  return async () => {
    await recoverSnapshots(old.name);
    await overwrite(volume, old.name);
  };
}

export async function restore(volume: string, from: string): Promise<Done> {
  return { message: text.done.restored(volume, from), undo: await overwriteWith(volume, from) };
}

export async function rename(name: string, to: string): Promise<Done> {
  await call('PATCH', '/volumes', { names: name }, { name: to });
  return {
    message: text.done.renamed(name, to),
    undo: () => call('PATCH', '/volumes', { names: to }, { name }),
  };
}

export async function resize(volume: Volume, bytes: number): Promise<Done> {
  const isSmaller = bytes < volume.provisioned;
  const params = { names: volume.name, truncate: isSmaller ? true : undefined };
  await call('PATCH', '/volumes', params, { provisioned: bytes });
  return { message: text.done.resized(volume.name, bytes) };
}

/** The highest values, which mean that there is no limit. */
export const NO_BANDWIDTH_LIMIT = 2 ** 39;
export const NO_IOPS_LIMIT = 100_000_000;

export type Limits = { bandwidth: number; iops: number; threshold: number };

export function limitsOf({ qos, threshold_percent }: Volume): Limits {
  return {
    bandwidth: qos.bandwidth_limit ?? NO_BANDWIDTH_LIMIT,
    iops: qos.iops_limit ?? NO_IOPS_LIMIT,
    threshold: threshold_percent ?? 0,
  };
}

/** Sets the limits of a volume, and the share written from which its hosts are warned. */
export async function setLimits(volume: Volume, limits: Limits): Promise<Done> {
  const patch = ({ bandwidth, iops, threshold }: Limits) =>
    call(
      'PATCH',
      '/volumes',
      { names: volume.name },
      { qos: { bandwidth_limit: bandwidth, iops_limit: iops }, threshold_percent: threshold },
    );
  await patch(limits);
  return { message: text.done.limits(volume.name), undo: () => patch(limitsOf(volume)) };
}

export async function startScrub(): Promise<Done> {
  await call('POST', '/arrays/scrub', {}, {});
  return { message: text.done.scrub };
}

/** A change of settings, in the form of the interface. */
export type ArrayChange = {
  name?: string;
  eradication_config?: { eradication_delay: number };
  threshold_percent?: number;
  scrub_config?: { interval: number; bytes_per_second: number };
};

/** Changes settings of the array. Its undo sets the values of `before` again. */
export async function changeArray(before: ArrayInfo, change: ArrayChange, what: string): Promise<Done> {
  const old: ArrayChange = {};
  if (change.name !== undefined) old.name = before.name;
  if (change.eradication_config) {
    old.eradication_config = { eradication_delay: before.eradication_config.eradication_delay };
  }
  if (change.threshold_percent !== undefined) old.threshold_percent = before.threshold_percent ?? 0;
  if (change.scrub_config) {
    const { interval, bytes_per_second } = before.scrub_config;
    old.scrub_config = { interval: interval ?? 0, bytes_per_second };
  }
  await call('PATCH', '/arrays', {}, change);
  return { message: text.done.changed(what), undo: () => call('PATCH', '/arrays', {}, old) };
}

export async function grow(capacity: number): Promise<Done> {
  await call('PATCH', '/arrays', {}, { capacity });
  return { message: text.done.grown(chosenSize(capacity)) };
}
