/** What all forms share: the frame with the command and the refusal, and fields. */

import { MultiSelect, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import type * as actions from '../actions';
import type { Initiator } from '../actions';
import { refresh, useHostGroups, useHosts, volumeWindow } from '../api/queries';
import { translate } from '../format/filter';
import { parseSize } from '../format/units';
import { Code, ErrorNote } from '../parts/common';
import { notify } from '../parts/notices';
import { open } from '../parts/request';
import { text } from '../text';

type FormProps = {
  note?: ReactNode;
  verb: string;
  command: string;
  isReady: boolean;
  isDanger?: boolean;
  run: () => Promise<actions.Done>;
  children?: ReactNode;
};

export function Form({ note, verb, command, isReady, isDanger, run, children }: FormProps) {
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReady || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      notify(await run());
      open(null);
    } catch (error) {
      setError(error);
    }
    setBusy(false);
    await refresh();
  };
  return (
    <form className="form" onSubmit={submit}>
      {note && <p className="soft break">{note}</p>}
      {children}
      <Code>{command}</Code>
      <ErrorNote error={error} />
      <div className="acts">
        <button type="button" className="btn" onClick={() => open(null)}>
          {text.common.cancel}
        </button>
        <button
          type="submit"
          className={`btn primary${isDanger ? ' danger' : ''}`}
          disabled={!isReady || isBusy}
        >
          {verb}
        </button>
      </div>
    </form>
  );
}
export function bytesOf(value: string): number {
  const parsed = parseSize(value);
  return 'bytes' in parsed ? parsed.bytes : 0;
}

export type FieldProps = { label: string; value: string; onChange: (value: string) => void; hint?: string };

export function Field({
  label,
  value,
  onChange,
  hint,
  error,
  first,
  disabled,
}: FieldProps & { error?: string | null; first?: boolean; disabled?: boolean }) {
  return (
    <TextInput
      label={label}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      description={hint}
      error={error}
      data-autofocus={first || undefined}
      disabled={disabled}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

/** Chooses a host or a host group, to which volumes are connected. */
export function InitiatorSelect({ label, value, onChange }: InitiatorProps) {
  const [hosts, groups] = [useHosts(), useHostGroups()];
  const options = (kind: 'host' | 'group', names: string[]) =>
    names.map((name) => ({ value: `${kind}:${name}`, label: name }));
  const ofHosts = options(
    'host',
    (hosts.data ?? []).map(({ name }) => name),
  );
  const ofGroups = options(
    'group',
    (groups.data ?? []).map(({ name }) => name),
  );
  const grouped = [
    { group: text.forms.hosts, items: ofHosts },
    { group: text.forms.hostGroups, items: ofGroups },
  ];
  const choose = (value: string | null) => {
    const name = value?.slice(value.indexOf(':') + 1) ?? '';
    if (value === null) onChange(null);
    else onChange(value.startsWith('group:') ? { hostGroup: name } : { host: name });
  };
  return (
    <Select
      label={label}
      value={value === null ? null : 'host' in value ? `host:${value.host}` : `group:${value.hostGroup}`}
      onChange={choose}
      data={ofGroups.length > 0 ? grouped : ofHosts}
      placeholder={ofHosts.length + ofGroups.length === 0 ? text.forms.noHosts : text.forms.nobody}
      searchable
      clearable
      limit={100}
      comboboxProps={{ withinPortal: false }}
    />
  );
}
type InitiatorProps = {
  label: string;
  value: Initiator | null;
  onChange: (value: Initiator | null) => void;
};

type NamesProps = {
  label: string;
  value: string[];
  onChange: (value: string[]) => void;
  hint?: string;
  most?: number;
};

/** Chooses hosts: all, or those without a group, because a host is in one group at most. */
export function HostsSelect({
  label,
  value,
  onChange,
  hint,
  most,
  areAll,
}: NamesProps & { areAll?: boolean }) {
  const hosts = useHosts();
  const free = (hosts.data ?? []).filter((host) => areAll || host.host_group.name === null);
  return (
    <MultiSelect
      label={label}
      description={hint}
      value={value}
      onChange={onChange}
      data={free.map(({ name }) => name)}
      searchable
      limit={100}
      maxValues={most}
      nothingFoundMessage={areAll ? text.hosts.noMatch : text.forms.noHostFree}
      comboboxProps={{ withinPortal: false }}
      hidePickedOptions
    />
  );
}

/** Chooses volumes. The array finds them by a part of their names. */
export function VolumesSelect({
  label,
  value,
  onChange,
  hint,
  most,
  without,
}: NamesProps & { without: string[] }) {
  const [typed, setTyped] = useState('');
  const found = useQuery(volumeWindow({ filter: translate(typed), sort: 'name', destroyed: false }, 0));
  const names = (found.data?.items ?? []).map(({ name }) => name);
  const offered = names.filter((name) => !without.includes(name)).slice(0, 50);
  return (
    <MultiSelect
      label={label}
      description={hint}
      value={value}
      onChange={onChange}
      data={[...new Set([...value, ...offered])]}
      searchable
      searchValue={typed}
      onSearchChange={setTyped}
      maxValues={most}
      nothingFoundMessage={text.volumes.noMatch}
      comboboxProps={{ withinPortal: false }}
      hidePickedOptions
    />
  );
}
