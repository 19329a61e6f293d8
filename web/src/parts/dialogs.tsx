/** The dialogs of all actions. Each shows its command, and the answer of the array if it is refused. */

import { Autocomplete, Modal, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState, useSyncExternalStore } from 'react';
import * as actions from '../actions';
import { commands } from '../actions';
import { refresh, useHosts, volumeWindow } from '../api/queries';
import type { Volume } from '../api/types';
import { translate } from '../format/filter';
import { parseSize } from '../format/units';
import { text } from '../text';
import { Code, ErrorNote } from './common';
import { notify } from './notices';

export type Request =
  | { kind: 'create' }
  | { kind: 'host'; iqn?: string }
  | { kind: 'attach'; host: string }
  | { kind: 'token'; admin: string }
  | { kind: 'snapshot' | 'connect'; names: string[] }
  | { kind: 'clone'; source: string }
  | { kind: 'rename' | 'resize'; volume: Volume }
  | { kind: 'restore'; volume: string; from: string }
  | { kind: 'eradicate'; name: string };

/** Above the drawer of a volume. */
const LAYER = 300;

let request: Request | null = null;
const listeners = new Set<() => void>();

export function open(next: Request | null) {
  request = next;
  for (const listener of listeners) listener();
}

/** Runs an action that needs no dialog. A refusal is shown as a notice. Returns whether it was done. */
export async function perform(action: () => Promise<actions.Done>): Promise<boolean> {
  let isDone = false;
  try {
    notify(await action());
    isDone = true;
  } catch (error) {
    notify({ message: `${text.errors.title}. ${error instanceof Error ? error.message : error}` });
  }
  await refresh();
  return isDone;
}

export function Dialogs({ onRenamed }: { onRenamed: (name: string) => void }) {
  const current = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => request,
  );
  return (
    <Modal
      opened={current !== null}
      onClose={() => open(null)}
      title={current && titleOf(current)}
      centered
      size={520}
      zIndex={LAYER}
      closeButtonProps={{ 'aria-label': text.common.close }}
    >
      {current && <Body key={JSON.stringify(current)} request={current} onRenamed={onRenamed} />}
    </Modal>
  );
}

function titleOf(request: Request): string {
  switch (request.kind) {
    case 'create':
      return text.forms.createTitle;
    case 'host':
      return text.forms.hostTitle;
    case 'attach':
      return text.forms.attachTitle(request.host);
    case 'token':
      return text.settings.tokenTitle(request.admin);
    case 'snapshot':
      return text.forms.snapshotTitle(request.names);
    case 'connect':
      return text.forms.connectTitle(request.names);
    case 'clone':
      return text.forms.cloneTitle(request.source);
    case 'rename':
      return text.forms.renameTitle(request.volume.name);
    case 'resize':
      return text.forms.resizeTitle(request.volume.name);
    case 'restore':
      return text.forms.restoreTitle(request.volume, request.from);
    case 'eradicate':
      return text.forms.eradicateTitle(request.name);
  }
}

function Body({ request, onRenamed }: { request: Request; onRenamed: (name: string) => void }) {
  switch (request.kind) {
    case 'create':
      return <CreateForm />;
    case 'host':
      return <HostForm initiator={request.iqn ?? ''} />;
    case 'attach':
      return <AttachForm host={request.host} />;
    case 'token':
      return <TokenForm admin={request.admin} />;
    case 'snapshot':
      return <SnapshotForm names={request.names} />;
    case 'connect':
      return <ConnectForm names={request.names} />;
    case 'clone':
      return <CloneForm source={request.source} />;
    case 'rename':
      return <RenameForm volume={request.volume} onRenamed={onRenamed} />;
    case 'resize':
      return <ResizeForm volume={request.volume} />;
    case 'restore':
      return <RestoreForm volume={request.volume} from={request.from} />;
    case 'eradicate':
      return <EradicateForm name={request.name} />;
  }
}

type FormProps = {
  note?: ReactNode;
  verb: string;
  command: string;
  isReady: boolean;
  isDanger?: boolean;
  run: () => Promise<actions.Done>;
  children?: ReactNode;
};

function Form({ note, verb, command, isReady, isDanger, run, children }: FormProps) {
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

export function sizeError(value: string): string | null {
  const parsed = parseSize(value);
  if ('bytes' in parsed || parsed.error === 'empty') return null;
  return parsed.suggestion ? text.forms.sizeDecimal(parsed.suggestion) : text.forms.sizeUnreadable;
}

function bytesOf(value: string): number {
  const parsed = parseSize(value);
  return 'bytes' in parsed ? parsed.bytes : 0;
}

type FieldProps = { label: string; value: string; onChange: (value: string) => void; hint?: string };

function Field({
  label,
  value,
  onChange,
  hint,
  error,
  first,
}: FieldProps & { error?: string | null; first?: boolean }) {
  return (
    <TextInput
      label={label}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      description={hint}
      error={error}
      data-autofocus={first || undefined}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

function HostSelect({ label, value, onChange }: FieldProps) {
  const hosts = useHosts();
  return (
    <Select
      label={label}
      value={value === '' ? null : value}
      onChange={(value) => onChange(value ?? '')}
      data={(hosts.data ?? []).map((host) => host.name)}
      placeholder={hosts.data?.length === 0 ? text.forms.noHosts : text.forms.nobody}
      searchable
      clearable
      limit={100}
      comboboxProps={{ withinPortal: false }}
    />
  );
}

function CreateForm() {
  const [name, setName] = useState('');
  const [size, setSize] = useState('1TiB');
  const [host, setHost] = useState('');
  const bytes = bytesOf(size);
  const run = async () => {
    const made = await actions.createVolume(name, bytes);
    if (host !== '') await actions.connect([host], [name]);
    const disconnect = () => actions.disconnect(host, name, 0);
    return host === '' ? made : { ...made, undo: () => disconnect().then(made.undo) };
  };
  const command = commands.createVolume(name || 'NAME', bytes);
  return (
    <Form
      note={text.forms.createNote}
      verb={text.verbs.create}
      command={host === '' ? command : `${command}\n${commands.connect(host, name || 'NAME')}`}
      isReady={name !== '' && bytes > 0}
      run={run}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <Field
        label={text.common.size}
        value={size}
        onChange={setSize}
        hint={text.forms.sizeHint}
        error={sizeError(size)}
      />
      <HostSelect label={text.forms.connectTo} value={host} onChange={setHost} />
    </Form>
  );
}

/** Makes a new token and shows it once. Until the dialog is closed, no call tells that the session has ended. */
function TokenForm({ admin }: { admin: string }) {
  const [typed, setTyped] = useState('');
  const [token, setToken] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (typed !== admin) return;
    setError(null);
    await actions.newToken(admin).then(setToken, setError);
  };
  if (token !== null) {
    return (
      <div className="form">
        <p>{text.settings.tokenMade}</p>
        <Code>{token}</Code>
        <div className="acts">
          <button type="button" className="btn primary" onClick={() => open(null)}>
            {text.settings.tokenDone}
          </button>
        </div>
      </div>
    );
  }
  return (
    <form className="form" onSubmit={submit}>
      <p className="soft">{text.settings.tokenNote}</p>
      <Field label={text.forms.typeName(admin)} value={typed} onChange={setTyped} first />
      <Code>{commands.newToken()}</Code>
      <ErrorNote error={error} />
      <div className="acts">
        <button type="button" className="btn" onClick={() => open(null)}>
          {text.common.cancel}
        </button>
        <button type="submit" className="btn primary danger" disabled={typed !== admin}>
          {text.settings.newToken}
        </button>
      </div>
    </form>
  );
}

function AttachForm({ host }: { host: string }) {
  const [typed, setTyped] = useState('');
  const found = useQuery(volumeWindow({ filter: translate(typed), sort: 'name', destroyed: false }, 0));
  const names = (found.data?.items ?? []).slice(0, 50).map((volume) => volume.name);
  return (
    <Form
      verb={text.verbs.connect}
      command={commands.connect(host, typed || 'VOLUME')}
      isReady={typed !== ''}
      run={() => actions.connect([host], [typed])}
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
    </Form>
  );
}

function HostForm({ initiator }: { initiator: string }) {
  const [name, setName] = useState('');
  const [iqn, setIqn] = useState(initiator);
  return (
    <Form
      note={text.forms.hostNote}
      verb={text.verbs.addHost}
      command={commands.createHost(name || 'NAME', iqn || 'IQN')}
      isReady={name !== '' && iqn !== ''}
      run={() => actions.createHost(name, iqn.trim())}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <Field label={text.forms.iqn} value={iqn} onChange={setIqn} hint={text.forms.iqnHint} />
    </Form>
  );
}

function SnapshotForm({ names }: { names: string[] }) {
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

function ConnectForm({ names }: { names: string[] }) {
  const [host, setHost] = useState('');
  return (
    <Form
      verb={text.verbs.connect}
      command={names
        .map((name) => commands.connect(host || 'HOST', name))
        .slice(0, 8)
        .join('\n')}
      isReady={host !== ''}
      run={() => actions.connect([host], names)}
    >
      <HostSelect label={text.common.host} value={host} onChange={setHost} />
    </Form>
  );
}

function CloneForm({ source }: { source: string }) {
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

function RenameForm({ volume, onRenamed }: { volume: Volume; onRenamed: (name: string) => void }) {
  const [name, setName] = useState(volume.name);
  const run = async () => {
    const done = await actions.rename(volume.name, name);
    onRenamed(name);
    return done;
  };
  return (
    <Form
      verb={text.verbs.rename}
      command={commands.rename(volume.name, name || 'NAME')}
      isReady={name !== '' && name !== volume.name}
      run={run}
    >
      <Field label={text.forms.newName} value={name} onChange={setName} hint={text.forms.nameHint} first />
    </Form>
  );
}

function ResizeForm({ volume }: { volume: Volume }) {
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

function RestoreForm({ volume, from }: { volume: string; from: string }) {
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

function EradicateForm({ name }: { name: string }) {
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
