/** Forms of pods on two arrays: stretch, remove, prefer, mediator, resync limit, hand over. */

import { Select } from '@mantine/core';
import { useState } from 'react';
import { useArrayConnections } from '../api/queries';
import type { Pod } from '../api/types';
import { commandSize, parseSize } from '../format/units';
import * as stretched from '../stretchActions';
import { stretchCommands } from '../stretchActions';
import { text } from '../text';
import { Field, Form } from './Form';
import { readResyncLimit } from './quota';

export function StretchForm({ pod }: { pod: Pod }) {
  const links = useArrayConnections();
  const [chosen, setChosen] = useState<string | null>(null);
  const [typed, setTyped] = useState('');
  const choices = (links.data ?? []).map(({ name, status }) => {
    const isReachable = status === 'connected';
    return { value: name, label: isReachable ? name : text.forms.notReachable(name), disabled: !isReachable };
  });
  const reachable = choices.filter(({ disabled }) => !disabled);
  // Most arrays are connected to one other.
  const only = reachable.length === 1 ? (reachable[0]?.value ?? null) : null;
  const array = chosen ?? only;
  const mediator = typed.trim();
  const hasNone = links.data !== undefined && choices.length === 0;
  return (
    <Form
      note={text.forms.stretchNote(`ibid pod check ${pod.name} ${array ?? 'ARRAY'}`)}
      verb={text.verbs.stretch}
      command={stretchCommands.stretch(pod.name, array ?? 'ARRAY', mediator)}
      isReady={array !== null}
      run={() => stretched.stretch(pod.name, array ?? '', mediator)}
    >
      <Select
        label={text.forms.toArray}
        description={hasNone ? text.forms.noArraysHint : undefined}
        value={array}
        onChange={setChosen}
        data={choices}
        placeholder={hasNone ? text.forms.noArrays : undefined}
        allowDeselect={false}
        comboboxProps={{ withinPortal: false }}
        data-autofocus
      />
      <MediatorField value={typed} onChange={setTyped} />
    </Form>
  );
}

function MediatorField({ value, onChange, first }: MediatorProps) {
  return (
    <>
      <Field
        label={text.forms.mediatorField}
        value={value}
        onChange={onChange}
        hint={text.forms.mediatorHint}
        first={first}
      />
      {value.trim() === '' && <p className="note warn">{text.forms.withoutMediator}</p>}
    </>
  );
}
type MediatorProps = { value: string; onChange: (value: string) => void; first?: boolean };

/** The other array loses its content of the pod, so the name of the pod is asked for. */
export function UnstretchForm({ pod, array }: { pod: Pod; array: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.unstretchNote(array)}
      verb={text.verbs.remove}
      command={stretchCommands.unstretch(pod.name, array)}
      isReady={typed === pod.name}
      isDanger
      run={() => stretched.unstretch(pod.name, array)}
    >
      <Field label={text.forms.typeName(pod.name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}

export function PreferForm({ pod }: { pod: Pod }) {
  const present = stretched.preferredOf(pod);
  const [array, setArray] = useState<string | null>(present);
  return (
    <Form
      note={text.forms.preferNote}
      verb={text.verbs.save}
      command={stretchCommands.prefer(pod.name, array ?? present)}
      isReady={array !== null && array !== present}
      run={() => stretched.prefer(pod, array ?? present)}
    >
      <Select
        label={text.forms.preferField}
        value={array}
        onChange={setArray}
        data={pod.arrays.map(({ name }) => name)}
        allowDeselect={false}
        comboboxProps={{ withinPortal: false }}
        data-autofocus
      />
    </Form>
  );
}

export function MediatorForm({ pod }: { pod: Pod }) {
  const present = stretched.mediatorOf(pod);
  const [typed, setTyped] = useState(present);
  const address = typed.trim();
  return (
    <Form
      note={text.forms.mediatorNote}
      verb={text.verbs.save}
      command={stretchCommands.mediator(pod.name, address)}
      isReady={address !== present}
      run={() => stretched.setMediator(pod, address)}
    >
      <MediatorField value={typed} onChange={setTyped} first />
    </Form>
  );
}

/** What is wrong with a typed limit. */
function limitError(typed: string): string | null {
  const parsed = parseSize(typed);
  if ('error' in parsed && parsed.suggestion) return text.forms.sizeDecimal(parsed.suggestion);
  return readResyncLimit(typed) === undefined ? text.forms.resyncUnreadable : null;
}

export function ResyncLimitForm({ pod }: { pod: Pod }) {
  const [typed, setTyped] = useState(pod.resync_limit === null ? '' : commandSize(pod.resync_limit));
  const limit = readResyncLimit(typed);
  return (
    <Form
      note={text.forms.resyncNote}
      verb={text.verbs.save}
      command={stretchCommands.resyncLimit(pod.name, limit ?? null)}
      isReady={limit !== undefined && limit !== pod.resync_limit}
      run={() => stretched.setResyncLimit(pod, limit ?? null)}
    >
      <Field
        label={text.forms.resyncField}
        value={typed}
        onChange={setTyped}
        hint={text.forms.resyncHint}
        error={limitError(typed)}
        first
      />
    </Form>
  );
}

export function ResignForm({ pod, array }: { pod: Pod; array: string }) {
  return (
    <Form
      note={text.forms.resignNote(array)}
      verb={text.verbs.resign}
      command={stretchCommands.resign(pod.name)}
      isReady
      run={() => stretched.resign(pod.name, array)}
    />
  );
}
