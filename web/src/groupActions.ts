/** Changes of protection groups and their snapshots. They have no command, so each shows its call. */

import { callText, type Done, overwriteWith, some } from './actions';
import { call } from './api/client';
import type { GroupSnapshot, Items, Member, ProtectionGroup } from './api/types';
import type { Retention, Schedule } from './format/schedule';
import { text } from './text';

export type Plan = { schedule: Schedule; retention: Retention };

/** The body of a plan. Without `at`, the array forgets the time of day if the interval is sent. */
export const planBody = ({ schedule, retention }: Plan) => ({
  snapshot_schedule: {
    enabled: schedule.enabled,
    frequency: schedule.frequency,
    at: schedule.at ?? undefined,
  },
  source_retention: retention,
});

export const planOf = (group: ProtectionGroup): Plan => ({
  schedule: group.snapshot_schedule,
  retention: group.source_retention,
});

export const groupCalls = {
  create: (name: string, plan: Plan) =>
    `${callText('POST', '/protection-groups', { names: name })}\n${groupCalls.plan(name, plan)}`,
  plan: (name: string, plan: Plan) =>
    callText('PATCH', '/protection-groups', { names: name }, planBody(plan)),
  rename: (name: string, to: string) =>
    callText('PATCH', '/protection-groups', { names: name }, { name: to }),
  addVolumes: (group: string, volumes: string[]) =>
    callText('POST', '/protection-groups/volumes', {
      group_names: group,
      member_names: some(volumes).replaceAll(' ', ','),
    }),
  snapshot: (group: string, suffix: string) =>
    callText('POST', '/protection-group-snapshots', { source_names: group }, suffix === '' ? {} : { suffix }),
  restore: (snapshot: string, volumes: string[]) =>
    volumes.map((volume) => `ibid volume copy ${snapshot}.${volume} ${volume} --overwrite`).join('\n'),
  eradicate: (name: string) => callText('DELETE', '/protection-groups', { names: name }),
};

const patch = (names: string, body: unknown) => call('PATCH', '/protection-groups', { names }, body);
const patchSnapshot = (names: string, destroyed: boolean) =>
  call('PATCH', '/protection-group-snapshots', { names }, { destroyed });
const members = (method: 'POST' | 'DELETE', group: string, volumes: string[]) =>
  call(method, '/protection-groups/volumes', { group_names: group, member_names: volumes.join(',') });

/** Makes a group with a plan and volumes. If the array refuses a part, the group is removed again. */
export async function createGroup(name: string, plan: Plan, volumes: string[]): Promise<Done> {
  await call('POST', '/protection-groups', { names: name });
  const remove = async () => {
    await patch(name, { destroyed: true });
    await call('DELETE', '/protection-groups', { names: name });
  };
  try {
    if (volumes.length > 0) await members('POST', name, volumes);
    await patch(name, planBody(plan));
  } catch (error) {
    await remove();
    throw error;
  }
  return { message: text.done.created(name), undo: () => patch(name, { destroyed: true }) };
}

export async function setPlan(group: ProtectionGroup, plan: Plan): Promise<Done> {
  await patch(group.name, planBody(plan));
  const undo = () => patch(group.name, planBody(planOf(group)));
  return { message: text.done.changed(group.name), undo };
}

export async function renameGroup(name: string, to: string): Promise<Done> {
  await patch(name, { name: to });
  return { message: text.done.renamed(name, to), undo: () => patch(to, { name }) };
}

export async function addVolumes(group: string, volumes: string[]): Promise<Done> {
  await members('POST', group, volumes);
  return { message: text.done.joined(volumes, group), undo: () => members('DELETE', group, volumes) };
}

export async function removeVolume(group: string, volume: string): Promise<Done> {
  await members('DELETE', group, [volume]);
  return { message: text.done.left(volume, group), undo: () => members('POST', group, [volume]) };
}

export async function setGroupDestroyed(name: string, destroyed: boolean): Promise<Done> {
  await patch(name, { destroyed });
  const message = destroyed ? text.done.destroyed([name]) : text.done.recovered([name]);
  return { message, undo: () => patch(name, { destroyed: !destroyed }) };
}

export async function eradicateGroup(name: string): Promise<Done> {
  await call('DELETE', '/protection-groups', { names: name });
  return { message: text.done.eradicated(name) };
}

export async function snapshotGroup(group: string, suffix: string): Promise<Done> {
  const body = suffix === '' ? {} : { suffix };
  const made = await call<Items<GroupSnapshot>>(
    'POST',
    '/protection-group-snapshots',
    { source_names: group },
    body,
  );
  const names = made.items.map((item) => item.name);
  return { message: text.done.snapshot(names), undo: () => patchSnapshot(names.join(','), true) };
}

export async function setSnapshotDestroyed(name: string, destroyed: boolean): Promise<Done> {
  await patchSnapshot(name, destroyed);
  const message = destroyed ? text.done.destroyed([name]) : text.done.recovered([name]);
  return { message, undo: () => patchSnapshot(name, !destroyed) };
}

/**
 * Sets volumes back to a snapshot of their group, one after the other. The undo sets back those that were
 * done, also if the array refuses one of them.
 */
export async function restoreGroup(snapshot: string, volumes: string[]): Promise<Done> {
  const done: string[] = [];
  const undos: NonNullable<Done['undo']>[] = [];
  let reason = '';
  for (const volume of volumes) {
    try {
      const undo = await overwriteWith(volume, `${snapshot}.${volume}`);
      done.push(volume);
      if (undo) undos.push(undo);
    } catch (error) {
      if (done.length === 0) throw error;
      reason = error instanceof Error ? error.message : String(error);
      break;
    }
  }
  const rest = volumes.length - done.length;
  const message = text.done.restoredGroup(done, snapshot);
  return {
    message: rest === 0 ? message : `${message} ${text.done.partly(rest, reason)}`,
    undo: async () => {
      for (const undo of undos) await undo();
    },
  };
}

/** The volumes of a group that a snapshot of it has: volumes may have joined or left since. */
export function restorable(snapshot: string, present: Member[], taken: { name: string }[]): string[] {
  const names = new Set(taken.map(({ name }) => name.toLowerCase()));
  return present
    .map(({ member }) => member.name ?? '')
    .filter((volume) => names.has(`${snapshot}.${volume}`.toLowerCase()));
}
