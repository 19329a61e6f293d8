/** Forms of pods: create, clone, quota, moves of volumes, eradicate. */

import { Select } from '@mantine/core';
import { useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { useAllPods, useVolumesOfPod } from '../api/queries';
import type { Pod } from '../api/types';
import { chosenSize, commandSize, parseSize } from '../format/units';
import * as pods from '../podActions';
import { nameParts, placeOf, podCommands } from '../podActions';
import { text } from '../text';
import { Field, Form, VolumesSelect } from './Form';
import { readQuota } from './quota';
import type { Renamed } from './Rename';

/** What is wrong with a typed quota. */
function quotaError(typed: string): string | null {
  const parsed = parseSize(typed);
  if ('error' in parsed && parsed.suggestion) return text.forms.sizeDecimal(parsed.suggestion);
  return readQuota(typed) === undefined ? text.forms.quotaUnreadable : null;
}

function QuotaField({ value, onChange, first }: QuotaProps) {
  return (
    <Field
      label={text.forms.quotaField}
      value={value}
      onChange={onChange}
      hint={text.forms.quotaHint}
      error={quotaError(value)}
      first={first}
    />
  );
}
type QuotaProps = { value: string; onChange: (value: string) => void; first?: boolean };

export function PodForm() {
  const [name, setName] = useState('');
  const [quota, setQuota] = useState('');
  const bytes = readQuota(quota);
  return (
    <Form
      note={text.forms.podNote}
      verb={text.verbs.newPod}
      command={podCommands.create(name || 'NAME', bytes ?? null)}
      isReady={name !== '' && bytes !== undefined}
      run={() => pods.createPod(name, bytes ?? null)}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <QuotaField value={quota} onChange={setQuota} />
    </Form>
  );
}

export function ClonePodForm({ source }: { source: string }) {
  const [name, setName] = useState('');
  const [quota, setQuota] = useState('');
  const bytes = readQuota(quota);
  return (
    <Form
      note={text.forms.clonePodNote}
      verb={text.verbs.clone}
      command={podCommands.clone(source, name || 'NAME', bytes ?? null)}
      isReady={name !== '' && bytes !== undefined}
      run={() => pods.clonePod(source, name, bytes ?? null)}
    >
      <Field label={text.forms.newName} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <QuotaField value={quota} onChange={setQuota} />
    </Form>
  );
}

export function QuotaForm({ pod }: { pod: Pod }) {
  const present = pod.quota_limit === null ? '' : commandSize(pod.quota_limit);
  const [quota, setQuota] = useState(present);
  const bytes = readQuota(quota);
  const isBelow = pods.isBelowUsage(pod, bytes ?? null);
  return (
    <Form
      note={text.forms.quotaNote(chosenSize(pod.space.used_provisioned ?? 0))}
      verb={text.verbs.save}
      command={podCommands.quota(pod.name, bytes ?? null, isBelow)}
      isReady={bytes !== undefined && bytes !== pod.quota_limit}
      run={() => pods.setQuota(pod, bytes ?? null)}
    >
      <QuotaField value={quota} onChange={setQuota} first />
      {isBelow && <p className="note warn">{text.forms.quotaBelow}</p>}
    </Form>
  );
}

/** Moves volumes that are chosen here into a pod. */
export function MoveInForm({ pod }: { pod: string }) {
  const [volumes, setVolumes] = useState<string[]>([]);
  const own = useVolumesOfPod(pod);
  return (
    <Form
      note={text.forms.moveNote}
      verb={text.verbs.move}
      command={podCommands.move(volumes.length > 0 ? volumes : ['VOLUME'], pod)}
      isReady={volumes.length > 0}
      run={() => pods.move(volumes, pod)}
    >
      <VolumesSelect
        label={text.volumes.title}
        value={volumes}
        onChange={setVolumes}
        without={(own.data ?? []).map(({ name }) => name)}
      />
    </Form>
  );
}

/** No pod, among the choices. */
const OUT = '';

/** Moves volumes that are chosen already into a pod, or out of theirs. */
export function MoveForm({ names, onRenamed }: { names: string[]; onRenamed: Renamed }) {
  const [to, setTo] = useState<string | null>(null);
  const { name: opened } = useParams({ strict: false });
  const all = useAllPods();
  const [first = ''] = names;
  const isIn = names.some((name) => 'pod' in placeOf(name) && nameParts(name)[0] !== '');
  const present = (all.data ?? []).filter((pod) => !pod.destroyed).map(({ name }) => name);
  const choices = present.map((name) => ({ value: name, label: name }));
  const pod = to === OUT ? null : to;
  const run = async () => {
    const done = await pods.move(names, pod);
    // The page of the volume follows its name.
    if (opened === first && names.length === 1) onRenamed('volume', done.names[0] ?? first);
    return done;
  };
  const own = nameParts(first)[1];
  return (
    <Form
      note={text.forms.moveNote}
      verb={text.verbs.move}
      command={podCommands.move(names, to === null ? 'POD' : pod)}
      isReady={to !== null}
      run={run}
    >
      <Select
        label={text.forms.moveTo}
        value={to}
        onChange={setTo}
        data={isIn ? [{ value: OUT, label: text.forms.noPod }, ...choices] : choices}
        placeholder={all.data && present.length === 0 ? text.pods.empty : undefined}
        searchable
        limit={100}
        comboboxProps={{ withinPortal: false }}
        data-autofocus
      />
      {to !== null && (
        <p className="note break">{text.forms.moves(first, pod === null ? own : `${pod}::${own}`)}</p>
      )}
    </Form>
  );
}

export function EradicatePodForm({ name }: { name: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.eradicatePodNote}
      verb={text.verbs.eradicate}
      command={podCommands.eradicate(name)}
      isReady={typed === name}
      isDanger
      run={() => pods.eradicatePod(name)}
    >
      <Field label={text.forms.typeName(name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}
