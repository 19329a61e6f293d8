/** Settings of the array, saved one by one, and its administrators. */

import { TextInput } from '@mantine/core';
import { type FormEvent, type ReactNode, useState } from 'react';
import * as actions from '../actions';
import { commands, word } from '../actions';
import { refresh, useArray, useDestroyedSpace } from '../api/queries';
import { useSession } from '../api/session';
import type { ArrayInfo } from '../api/types';
import { commandTime, parseTime } from '../format/time';
import { chosenSize, commandSize, parseSize, size } from '../format/units';
import { Card, Code, ErrorNote, Head, Loading } from '../parts/common';
import { useMay } from '../parts/May';
import { notify } from '../parts/notices';
import { sizeError } from '../parts/request';
import { text } from '../text';
import { AdminSessions, Admins } from './Admins';

export function Settings() {
  const array = useArray();
  const isAllowed = useMay('array_admin');
  const { self } = useSession();
  if (!array.data) return array.error ? <ErrorNote error={array.error} /> : <Loading />;
  return (
    <>
      <Head
        kicker={text.settings.kicker}
        title={text.settings.title}
        sub={isAllowed ? text.settings.sub : text.settings.readOnly(self?.role ?? '')}
      />
      <div className="grid">
        <Delay array={array.data} />
        <Threshold array={array.data} />
        <Scrub array={array.data} />
        <ArrayName array={array.data} />
        {isAllowed && <Capacity array={array.data} />}
        <AdminSessions />
        <Admins />
      </div>
    </>
  );
}

type SettingProps = {
  title: string;
  note?: string;
  effect?: string;
  verb?: string;
  command: string;
  isReady: boolean;
  run: () => Promise<actions.Done>;
  children: ReactNode;
};

/** One group of settings with its command. A refusal is shown in the group. */
function Setting({ title, note, effect, verb, command, isReady, run, children }: SettingProps) {
  const [error, setError] = useState<unknown>(null);
  const isAllowed = useMay('array_admin');
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReady) return;
    setError(null);
    try {
      notify(await run());
    } catch (error) {
      setError(error);
    }
    await refresh();
  };
  return (
    <Card className="c6" title={title} note={note}>
      <form className="setting" onSubmit={submit}>
        <fieldset className="fields plain" disabled={!isAllowed}>
          {children}
          {isAllowed && (
            <button type="submit" className="btn primary" disabled={!isReady}>
              {verb ?? text.settings.save}
            </button>
          )}
        </fieldset>
        {effect && <p className="soft">{effect}</p>}
        {isAllowed && <Code>{command}</Code>}
        <ErrorNote error={error} />
      </form>
    </Card>
  );
}

type FieldProps = {
  label: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
  error?: string | null;
};

function Field({ label, hint, value, onChange, error }: FieldProps) {
  return (
    <TextInput
      label={label}
      description={hint}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={error}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

/** The typed text, or the present value while there is none, so that changes by others show. */
function useTyped(present: string) {
  const [typed, setTyped] = useState<string | null>(null);
  return { value: typed ?? present, setTyped, clear: () => setTyped(null) };
}

function Delay({ array }: { array: ArrayInfo }) {
  const present = array.eradication_config.eradication_delay;
  const kept = useDestroyedSpace();
  const typed = useTyped(commandTime(present));
  const delay = parseTime(typed.value);
  const run = async () => {
    const change = { eradication_config: { eradication_delay: delay ?? present } };
    const done = await actions.changeArray(array, change, text.settings.delay);
    typed.clear();
    return done;
  };
  return (
    <Setting
      title={text.settings.delay}
      note={text.settings.delayNote}
      effect={kept.data === undefined ? undefined : text.settings.delayEffect(size(kept.data))}
      command={commands.setArray(`--eradication-delay ${commandTime(delay ?? present)}`)}
      isReady={delay !== null && delay > 0 && delay !== present}
      run={run}
    >
      <Field
        label={text.settings.delayField}
        hint={text.settings.delayHint}
        value={typed.value}
        onChange={typed.setTyped}
        error={delay === null ? text.settings.unreadable : null}
      />
    </Setting>
  );
}

function Threshold({ array }: { array: ArrayInfo }) {
  const present = array.threshold_percent ?? 0;
  const typed = useTyped(String(present));
  const percent = /^\d{1,3}$/.test(typed.value.trim()) ? Number(typed.value) : null;
  const isValid = percent !== null && percent <= 100;
  const run = async () => {
    const change = { threshold_percent: percent ?? 0 };
    const done = await actions.changeArray(array, change, text.settings.threshold);
    typed.clear();
    return done;
  };
  return (
    <Setting
      title={text.settings.threshold}
      note={text.settings.thresholdNote}
      command={commands.setArray(`--threshold ${percent ? percent : 'none'}`)}
      isReady={isValid && percent !== present}
      run={run}
    >
      <Field
        label={text.settings.thresholdField}
        hint={text.settings.thresholdHint}
        value={typed.value}
        onChange={typed.setTyped}
        error={isValid ? null : text.settings.notPercent}
      />
    </Setting>
  );
}

function Scrub({ array }: { array: ArrayInfo }) {
  const { interval, bytes_per_second } = array.scrub_config;
  const every = useTyped(interval === null ? '0' : commandTime(interval));
  const pace = useTyped(commandSize(bytes_per_second));
  const milliseconds = parseTime(every.value);
  const parsed = parseSize(pace.value);
  const bytes = 'bytes' in parsed ? parsed.bytes : 0;
  const isChanged = milliseconds !== (interval ?? 0) || bytes !== bytes_per_second;
  const run = async () => {
    const scrub_config = { interval: milliseconds ?? 0, bytes_per_second: bytes };
    const done = await actions.changeArray(array, { scrub_config }, text.settings.scrub);
    every.clear();
    pace.clear();
    return done;
  };
  const options = `--scrub-interval ${milliseconds ? commandTime(milliseconds) : 'none'} --scrub-pace ${commandSize(bytes)}`;
  return (
    <Setting
      title={text.settings.scrub}
      note={text.settings.scrubNote}
      command={commands.setArray(options)}
      isReady={milliseconds !== null && bytes > 0 && isChanged}
      run={run}
    >
      <Field
        label={text.settings.interval}
        hint={text.settings.intervalHint}
        value={every.value}
        onChange={every.setTyped}
        error={milliseconds === null ? text.settings.unreadable : null}
      />
      <Field
        label={text.settings.pace}
        hint={text.settings.paceHint}
        value={pace.value}
        onChange={pace.setTyped}
        error={sizeError(pace.value)}
      />
    </Setting>
  );
}

function ArrayName({ array }: { array: ArrayInfo }) {
  const typed = useTyped(array.name);
  const run = async () => {
    const done = await actions.changeArray(array, { name: typed.value.trim() }, text.settings.name);
    typed.clear();
    return done;
  };
  return (
    <Setting
      title={text.settings.array}
      command={commands.setArray(`--name ${word(typed.value.trim() || 'NAME')}`)}
      isReady={typed.value.trim() !== '' && typed.value.trim() !== array.name}
      run={run}
    >
      <Field
        label={text.settings.name}
        hint={text.settings.nameHint}
        value={typed.value}
        onChange={typed.setTyped}
      />
    </Setting>
  );
}

function Capacity({ array }: { array: ArrayInfo }) {
  const typed = useTyped('');
  const parsed = parseSize(typed.value);
  const bytes = 'bytes' in parsed ? parsed.bytes : 0;
  const run = async () => {
    const done = await actions.grow(bytes);
    typed.clear();
    return done;
  };
  return (
    <Setting
      title={text.settings.capacity}
      note={text.settings.capacityNote}
      verb={text.settings.grow}
      command={bytes > 0 ? commands.grow(bytes) : 'ibid array grow --capacity SIZE'}
      isReady={bytes > array.capacity}
      run={run}
    >
      <Field
        label={text.settings.capacityField}
        hint={text.settings.capacityHint(chosenSize(array.capacity))}
        value={typed.value}
        onChange={typed.setTyped}
        error={sizeError(typed.value)}
      />
    </Setting>
  );
}
