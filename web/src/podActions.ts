/** Changes of pods and of the volumes in them: each with its call, its command and its undo. */

import { allInBatches, type Done, word } from './actions';
import { call } from './api/client';
import type { Items, Pod, Volume } from './api/types';
import { commandSize } from './format/units';
import { text } from './text';

const quotaOption = (quota: number | null) => (quota === null ? '' : ` --quota ${commandSize(quota)}`);

/** Volumes in a command that moves each of them. */
const MOST_LINES = 8;

export const podCommands = {
  create: (name: string, quota: number | null) => `ibid pod create ${word(name)}${quotaOption(quota)}`,
  clone: (source: string, name: string, quota: number | null) =>
    `ibid pod clone ${word(source)} ${word(name)}${quotaOption(quota)}`,
  rename: (name: string, to: string) => `ibid pod rename ${word(name)} ${word(to)}`,
  quota: (name: string, quota: number | null, isBelow: boolean) =>
    `ibid pod set ${word(name)} --quota ${quota === null ? 'none' : commandSize(quota)}${isBelow ? ' --ignore-usage' : ''}`,
  destroy: (name: string) => `ibid pod destroy ${word(name)} --contents`,
  recover: (name: string) => `ibid pod recover ${word(name)}`,
  eradicate: (name: string) => `ibid pod eradicate ${word(name)} --contents`,
  /** `pod` is null to move volumes out. */
  move: (volumes: string[], pod: string | null) => {
    const lines = volumes
      .slice(0, MOST_LINES)
      .map((name) => `ibid volume move ${word(name)} ${pod === null ? '--out' : word(pod)}`);
    return volumes.length > MOST_LINES ? [...lines, '…'].join('\n') : lines.join('\n');
  },
};

const patch = (name: string, body: unknown, params = {}) =>
  call<Items<Pod>>('PATCH', '/pods', { names: name, ...params }, body);
const destroyCall = (name: string) => patch(name, { destroyed: true }, { destroy_contents: true });

export async function createPod(name: string, quota: number | null): Promise<Done> {
  await call('POST', '/pods', { names: name }, { quota_limit: quota ?? undefined });
  return { message: text.done.created(name), undo: () => patch(name, { destroyed: true }) };
}

export async function clonePod(source: string, name: string, quota: number | null): Promise<Done> {
  await call('POST', '/pods', { names: name }, { source: { name: source }, quota_limit: quota ?? undefined });
  return { message: text.done.cloned(source, name), undo: () => destroyCall(name) };
}

export async function renamePod(name: string, to: string): Promise<Done> {
  await patch(name, { name: to });
  return { message: text.done.renamed(name, to), undo: () => patch(to, { name }) };
}

/** An empty text removes the quota. One below the sizes of the volumes is allowed in words only. */
const setQuotaCall = (name: string, quota: number | null, isBelow: boolean) =>
  patch(name, { quota_limit: quota ?? '', ignore_usage: isBelow || undefined });

/** Whether the volumes of a pod exceed a quota. */
export const isBelowUsage = (pod: Pod, quota: number | null) =>
  quota !== null && quota < (pod.space.used_provisioned ?? 0);

export async function setQuota(pod: Pod, quota: number | null): Promise<Done> {
  await setQuotaCall(pod.name, quota, isBelowUsage(pod, quota));
  const undo = () => setQuotaCall(pod.name, pod.quota_limit, true);
  return { message: text.done.changed(pod.name), undo };
}

/** Destroys a pod with its volumes. */
export async function destroyPod(name: string): Promise<Done> {
  await destroyCall(name);
  return { message: text.done.destroyed([name]), undo: () => patch(name, { destroyed: false }) };
}

/** Recovers a pod and the volumes that were destroyed with it. */
export async function recoverPod(name: string): Promise<Done> {
  await patch(name, { destroyed: false });
  return { message: text.done.recovered([name]), undo: () => destroyCall(name) };
}

export async function eradicatePod(name: string): Promise<Done> {
  await call('DELETE', '/pods', { names: name, eradicate_contents: true });
  return { message: text.done.eradicated(name) };
}

/** Where a volume is: in a pod, in a volume group, or in neither. */
export type Place = { pod: string } | { volume_group: string };
const OUT: Place = { pod: '' };

/** Splits the name of a volume into that of its container with the separator, and its own. */
export function nameParts(name: string): [container: string, own: string] {
  const [, container = '', own = name] = /^([^:]*::|[^/]*\/)?(.*)$/.exec(name) ?? [];
  return [container, own];
}

/** The place that the name of a volume states. */
export function placeOf(name: string): Place {
  const [container] = nameParts(name);
  if (container.endsWith('::')) return { pod: container.slice(0, -2) };
  return container === '' ? OUT : { volume_group: container.slice(0, -1) };
}

const moveCall = (names: string, place: Place) => {
  const body = 'pod' in place ? { pod: { name: place.pod } } : { volume_group: { name: place.volume_group } };
  return call<Items<Volume>>('PATCH', '/volumes', { names }, body);
};

/** Moves volumes into a pod, or out of theirs if `pod` is null. The undo moves each to its former place. */
export async function move(volumes: string[], pod: string | null): Promise<Done & { names: string[] }> {
  const moved = new Map<string, string>();
  const each = async (names: string) => {
    const { items } = await moveCall(names, pod === null ? OUT : { pod });
    // The answer has the order of the names in the call.
    for (const [at, name] of names.split(',').entries()) moved.set(name, items[at]?.name ?? name);
  };
  const back = async (done: string[]) => {
    for (const container of new Set(done.map((name) => nameParts(name)[0]))) {
      const names = done.filter((name) => nameParts(name)[0] === container);
      await moveCall(names.map((name) => moved.get(name) ?? name).join(','), placeOf(names[0] ?? ''));
    }
  };
  const done = await allInBatches(volumes, each, (done) => text.done.moved(done, pod), back);
  return { ...done, names: [...moved.values()] };
}
