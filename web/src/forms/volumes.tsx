/** Forms of volumes: create, connect, snapshot, clone, resize, restore, eradicate. */

import { Autocomplete, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import * as actions from '../actions';
import { commands, type Initiator } from '../actions';
import { useAllPods, volumeWindow } from '../api/queries';
import type { Volume } from '../api/types';
import { translate } from '../format/filter';
import { commandSize } from '../format/units';
import { sizeError } from '../parts/request';
import { text } from '../text';
import { bytesOf, Field, Form, InitiatorSelect } from './Form';
import { readLimits } from './limits';

export function CreateForm({ pod: first }: { pod: string | null }) {
  const [own, setName] = useState('');
  const [pod, setPod] = useState(first);
  const pods = useAllPods();
  const present = (pods.data ?? []).filter(({ destroyed }) => !destroyed);
  const name = pod === null || own === '' ? own : `${pod}::${own}`;
  const [size, setSize] = useState('1TiB');
  const [to, setTo] = useState<Initiator | null>(null);
  const bytes = bytesOf(size);
  const run = async () => {
    const made = await actions.createVolume(name, bytes);
    if (to === null) return made;
    const connected = await actions.connect(to, [name]);
    return { ...made, undo: () => Promise.resolve(connected.undo?.()).then(made.undo) };
  };
  const command = commands.createVolume(name || 'NAME', bytes);
  return (
    <Form
      note={text.forms.createNote}
      verb={text.verbs.create}
      command={to === null ? command : `${command}\n${commands.connect(to, name || 'NAME')}`}
      isReady={name !== '' && bytes > 0}
      run={run}
    >
      <Field label={text.common.name} value={own} onChange={setName} hint={text.forms.nameHint} first />
      <Field
        label={text.common.size}
        value={size}
        onChange={setSize}
        hint={text.forms.sizeHint}
        error={sizeError(size)}
      />
      {(present.length > 0 || pod !== null) && (
        <Select
          label={text.forms.inPod}
          value={pod}
          onChange={setPod}
          data={[...new Set([...present.map(({ name }) => name), ...(pod === null ? [] : [pod])])]}
          placeholder={text.forms.noPod}
          searchable
          clearable
          limit={100}
          comboboxProps={{ withinPortal: false }}
        />
      )}
      <InitiatorSelect label={text.forms.connectTo} value={to} onChange={setTo} />
    </Form>
  );
}

/** Connects a volume to a host or a host group that is known already. */
export function AttachForm({ to }: { to: Initiator }) {
  const [typed, setTyped] = useState('');
  const [lun, setLun] = useState('');
  const found = useQuery(volumeWindow({ filter: translate(typed), sort: 'name', destroyed: false }, 0));
  const names = (found.data?.items ?? []).slice(0, 50).map((volume) => volume.name);
  const unit = parseLun(lun);
  return (
    <Form
      verb={text.verbs.connect}
      command={commands.connect(to, typed || 'VOLUME', unit ?? undefined)}
      isReady={typed !== '' && unit !== null}
      run={() => actions.connect(to, [typed], unit ?? undefined)}
    >
      <Autocomplete
        label={text.forms.volume}
        value={typed}
        onChange={setTyped}
        data={names}
        filter={({ options }) => options}
        comboboxProps={{ withinPortal: false }}
        data-autofocus
      />
      <LunField value={lun} onChange={setLun} />
    </Form>
  );
}

/** A number of a unit; undefined if none was typed, null if it is none. */
function parseLun(typed: string): number | undefined | null {
  if (typed.trim() === '') return undefined;
  return /^\d{1,4}$/.test(typed.trim()) && Number(typed) <= 4095 ? Number(typed) : null;
}

function LunField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <Field
      label={text.forms.lun}
      value={value}
      onChange={onChange}
      hint={text.forms.lunHint}
      error={parseLun(value) === null ? text.forms.lunUnreadable : null}
    />
  );
}

export function SnapshotForm({ names }: { names: string[] }) {
  const [suffix, setSuffix] = useState('');
  return (
    <Form
      note={text.forms.snapshotNote}
      verb={text.verbs.snapshot}
      command={commands.snapshot(names, suffix)}
      isReady
      run={() => actions.snapshot(names, suffix)}
    >
      <Field
        label={text.forms.suffix}
        value={suffix}
        onChange={setSuffix}
        hint={text.forms.suffixHint}
        first
      />
    </Form>
  );
}

export function ConnectForm({ names }: { names: string[] }) {
  const [to, setTo] = useState<Initiator | null>(null);
  const [lun, setLun] = useState('');
  const unit = names.length === 1 ? parseLun(lun) : undefined;
  return (
    <Form
      verb={text.verbs.connect}
      command={names
        .map((name) => commands.connect(to ?? { host: 'HOST' }, name, unit ?? undefined))
        .slice(0, 8)
        .join('\n')}
      isReady={to !== null && unit !== null}
      run={() => actions.connect(to ?? { host: '' }, names, unit ?? undefined)}
    >
      <InitiatorSelect label={text.common.host} value={to} onChange={setTo} />
      {names.length === 1 && <LunField value={lun} onChange={setLun} />}
    </Form>
  );
}

export function CloneForm({ source }: { source: string }) {
  const [name, setName] = useState('');
  return (
    <Form
      note={text.forms.cloneNote}
      verb={text.verbs.clone}
      command={commands.copy(source, name || 'NAME', false)}
      isReady={name !== ''}
      run={() => actions.clone(source, name)}
    >
      <Field label={text.forms.newName} value={name} onChange={setName} hint={text.forms.nameHint} first />
    </Form>
  );
}

export function ResizeForm({ volume }: { volume: Volume }) {
  const [size, setSize] = useState('');
  const bytes = bytesOf(size);
  const isSmaller = bytes > 0 && bytes < volume.provisioned;
  return (
    <Form
      verb={text.verbs.resize}
      command={commands.resize(volume.name, bytes || volume.provisioned, isSmaller)}
      isReady={bytes > 0 && bytes !== volume.provisioned}
      isDanger={isSmaller}
      run={() => actions.resize(volume, bytes)}
    >
      <Field
        label={text.common.size}
        value={size}
        onChange={setSize}
        hint={text.forms.sizeHint}
        error={sizeError(size)}
        first
      />
      {isSmaller && <p className="note warn">{text.forms.shrinks}</p>}
    </Form>
  );
}

export function RestoreForm({ volume, from }: { volume: string; from: string }) {
  return (
    <Form
      note={text.forms.restoreNote(volume)}
      verb={text.verbs.restore}
      command={commands.copy(from, volume, true)}
      isReady
      run={() => actions.restore(volume, from)}
    />
  );
}

export function EradicateForm({ name }: { name: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.eradicateNote}
      verb={text.verbs.eradicate}
      command={commands.eradicate([name])}
      isReady={typed === name}
      isDanger
      run={() => actions.eradicate(name)}
    >
      <Field label={text.forms.typeName(name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}

/** Limits over all hosts of a volume, and the share written from which they are warned. Empty: none. */
export function LimitsForm({ volume }: { volume: Volume }) {
  const present = actions.limitsOf(volume);
  const isFree = {
    bandwidth: present.bandwidth >= actions.NO_BANDWIDTH_LIMIT,
    iops: present.iops >= actions.NO_IOPS_LIMIT,
  };
  const [bandwidth, setBandwidth] = useState(isFree.bandwidth ? '' : commandSize(present.bandwidth));
  const [iops, setIops] = useState(isFree.iops ? '' : String(present.iops));
  const [threshold, setThreshold] = useState(present.threshold === 0 ? '' : String(present.threshold));
  const limits = readLimits(bandwidth, iops, threshold);
  const { error } = limits;
  const part = (value: string, none: string) => (value.trim() === '' ? none : value.trim());
  const options = [
    `--bandwidth ${limits.bandwidth < actions.NO_BANDWIDTH_LIMIT ? commandSize(limits.bandwidth) : 'none'}`,
    `--iops ${part(iops, 'none')}`,
    `--threshold ${part(threshold, 'none')}`,
  ].join(' ');
  return (
    <Form
      note={text.forms.limitsNote}
      verb={text.verbs.setLimits}
      command={commands.limits(volume.name, options)}
      isReady={!error.bandwidth && !error.iops && !error.threshold}
      run={() => actions.setLimits(volume, limits)}
    >
      <Field
        label={text.forms.bandwidth}
        value={bandwidth}
        onChange={setBandwidth}
        hint={text.forms.bandwidthHint}
        error={error.bandwidth ? (sizeError(bandwidth) ?? text.forms.bandwidthHint) : null}
        first
      />
      <Field
        label={text.forms.iops}
        value={iops}
        onChange={setIops}
        hint={text.forms.iopsHint}
        error={error.iops ? text.forms.iopsHint : null}
      />
      <Field
        label={text.forms.warnAt}
        value={threshold}
        onChange={setThreshold}
        hint={text.forms.warnAtHint}
        error={error.threshold ? text.forms.warnAtHint : null}
      />
    </Form>
  );
}
