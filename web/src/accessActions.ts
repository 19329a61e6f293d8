/** Changes of hosts, host groups and administrators: each with its call, its command and its undo. */

import { callText, type Done, some, word } from './actions';
import { call } from './api/client';
import type { Role } from './api/roles';
import type { Admin, Host, Items } from './api/types';
import { commandTime } from './format/time';
import { text } from './text';

/** What a form of a host sets. `null` leaves CHAP as it is, an empty user turns it off. */
export type HostValues = {
  iqns: string[];
  personality: string;
  chap: Chap | null;
};
export type Chap = { host_user: string; host_password: string; target_user: string; target_password: string };

/** The personalities that the array knows. */
export const PERSONALITIES = ['aix', 'esxi', 'hitachi-vsp', 'hpux', 'oracle-vm-server', 'solaris', 'vms'];

/** Initiators in a text field: separated by spaces, commas or lines, each once. */
export function initiators(typed: string): string[] {
  return [...new Set(typed.split(/[\s,]+/).filter((iqn) => iqn !== ''))];
}

/** The part of CHAP that goes to the array: the secrets only if they were typed. */
export function chapBody(chap: Chap) {
  const { host_user, host_password, target_user, target_password } = chap;
  return {
    host_user,
    host_password: host_password === '' ? undefined : host_password,
    target_user,
    target_password: target_password === '' ? undefined : target_password,
  };
}

const body = ({ iqns, personality, chap }: HostValues) => ({
  iqns,
  personality,
  chap: chap === null ? undefined : chapBody(chap),
});

/** Options of `ibid host create` and `set`. Secrets are read from files, so that none is in a command. */
function hostOptions({ iqns, personality, chap }: HostValues, isNew: boolean): string {
  const options = iqns.map((iqn) => `--iqn ${word(iqn)}`);
  if (!isNew || personality !== '') options.push(`--personality ${word(personality) || "''"}`);
  if (chap !== null) {
    options.push(`--chap-user ${word(chap.host_user)}`);
    if (chap.host_password !== '') options.push('--chap-secret-file FILE');
    if (!isNew || chap.target_user !== '') options.push(`--target-user ${word(chap.target_user)}`);
    if (chap.target_password !== '') options.push('--target-secret-file FILE');
  }
  return options.join(' ');
}

export const accessCommands = {
  createHost: (name: string, values: HostValues) =>
    `ibid host create ${word(name)} ${hostOptions(values, true)}`,
  setHost: (name: string, values: HostValues) => `ibid host set ${word(name)} ${hostOptions(values, false)}`,
  renameHost: (name: string, to: string) => `ibid host rename ${word(name)} ${word(to)}`,
  createHostGroup: (name: string) => callText('POST', '/host-groups', { names: name }),
  renameHostGroup: (name: string, to: string) =>
    callText('PATCH', '/host-groups', { names: name }, { name: to }),
  addHosts: (group: string, hosts: string[]) =>
    callText('POST', '/host-groups/hosts', { group_names: group, member_names: hosts.join(',') }),
  createAdmin: (name: string, role: Role) => `ibid admin create ${word(name)} --role ${role}`,
  setRole: (name: string, role: Role) => `ibid admin role ${word(name)} ${role}`,
  newToken: (name: string, valid: number | null) =>
    `ibid admin token ${word(name)}${valid === null ? '' : ` --valid ${commandTime(valid)}`}`,
  deleteAdmin: (name: string) => `ibid admin delete ${some([name])}`,
};

const remove = (names: string) => call('DELETE', '/hosts', { names });

export async function createHost(name: string, values: HostValues): Promise<Done> {
  const { personality, ...rest } = body(values);
  const chosen = personality === '' ? rest : { ...rest, personality };
  await call('POST', '/hosts', { names: name }, chosen);
  return { message: text.done.created(name), undo: () => remove(name) };
}

/** Changes a host. Its undo cannot set CHAP again, because the old secrets are not known here. */
export async function changeHost(host: Host, values: HostValues): Promise<Done> {
  const params = { names: host.name };
  await call('PATCH', '/hosts', params, body(values));
  const before = { iqns: host.iqns, personality: host.personality ?? '' };
  const undo = () => call('PATCH', '/hosts', params, before);
  return { message: text.done.changed(host.name), undo: values.chap === null ? undo : undefined };
}

export async function renameHost(name: string, to: string): Promise<Done> {
  await call('PATCH', '/hosts', { names: name }, { name: to });
  const undo = () => call('PATCH', '/hosts', { names: to }, { name });
  return { message: text.done.renamed(name, to), undo };
}

/** Deletes a host. One with CHAP cannot be made again, because its secrets are not known here. */
export async function deleteHost(host: Host): Promise<Done> {
  await remove(host.name);
  const values = {
    iqns: host.iqns,
    personality: host.personality ?? undefined,
    preferred_arrays: host.preferred_arrays.filter(({ name }) => name !== null),
  };
  const hasSecret = host.chap.host_user !== null || host.chap.target_user !== null;
  const undo = () => call('POST', '/hosts', { names: host.name }, values);
  return { message: text.done.deleted(host.name), undo: hasSecret ? undefined : undo };
}

export async function createHostGroup(name: string, hosts: string[]): Promise<Done> {
  await call('POST', '/host-groups', { names: name });
  const removeGroup = () => call('DELETE', '/host-groups', { names: name });
  if (hosts.length === 0) return { message: text.done.created(name), undo: removeGroup };
  const joined = await addHosts(name, hosts).catch(async (error: unknown) => {
    await removeGroup();
    throw error;
  });
  return { message: text.done.created(name), undo: () => Promise.resolve(joined.undo?.()).then(removeGroup) };
}

export async function renameHostGroup(name: string, to: string): Promise<Done> {
  await call('PATCH', '/host-groups', { names: name }, { name: to });
  const undo = () => call('PATCH', '/host-groups', { names: to }, { name });
  return { message: text.done.renamed(name, to), undo };
}

export async function deleteHostGroup(name: string): Promise<Done> {
  await call('DELETE', '/host-groups', { names: name });
  return {
    message: text.done.deleted(name),
    undo: () => call('POST', '/host-groups', { names: name }),
  };
}

const hostMembers = (method: 'POST' | 'DELETE', group: string, hosts: string[]) =>
  call(method, '/host-groups/hosts', { group_names: group, member_names: hosts.join(',') });

export async function addHosts(group: string, hosts: string[]): Promise<Done> {
  await hostMembers('POST', group, hosts);
  return { message: text.done.joined(hosts, group), undo: () => hostMembers('DELETE', group, hosts) };
}

export async function removeHost(group: string, host: string): Promise<Done> {
  await hostMembers('DELETE', group, [host]);
  return { message: text.done.left(host, group), undo: () => hostMembers('POST', group, [host]) };
}

export async function createAdmin(name: string, role: Role): Promise<Done> {
  await call('POST', '/admins', { names: name }, { role: { name: role } });
  return {
    message: text.done.created(name),
    undo: () => call('DELETE', '/admins', { names: name }),
  };
}

const patchRole = (name: string, role: string) =>
  call('PATCH', '/admins', { names: name }, { role: { name: role } });

export async function setRole(admin: Admin, role: Role): Promise<Done> {
  await patchRole(admin.name, role);
  const before = admin.role.name ?? 'readonly';
  return { message: text.done.role(admin.name, role), undo: () => patchRole(admin.name, before) };
}

export async function deleteAdmin(name: string): Promise<Done> {
  await call('DELETE', '/admins', { names: name });
  return { message: text.done.deleted(name) };
}

export async function removeToken(name: string): Promise<Done> {
  await call('DELETE', '/admins/api-tokens', { names: name });
  return { message: text.done.tokenRemoved(name) };
}

/** Replaces the API token of an administrator, which ends its sessions. Returns the new one. */
export async function newToken(admin: string, valid: number | null): Promise<string> {
  const params = { names: admin, timeout: valid ?? undefined };
  const made = await call<Items<Admin>>('POST', '/admins/api-tokens', params, {});
  return made.items[0]?.api_token.token ?? '';
}
