/** Forms of hosts and host groups. */

import { PasswordInput, Select, Textarea } from '@mantine/core';
import { useState } from 'react';
import * as access from '../accessActions';
import { accessCommands, type HostValues, initiators, PERSONALITIES } from '../accessActions';
import type { Host } from '../api/types';
import { text } from '../text';
import { Field, Form, HostsSelect } from './Form';

const NO_CHAP: access.Chap = { host_user: '', host_password: '', target_user: '', target_password: '' };

export function HostForm({ initiator }: { initiator: string }) {
  const [name, setName] = useState('');
  const [values, setValues] = useState<Typed>({ iqns: initiator, personality: '', chap: null });
  const read = { ...values, iqns: initiators(values.iqns) };
  const shown = { ...read, iqns: read.iqns.length > 0 ? read.iqns : ['IQN'] };
  return (
    <Form
      note={text.forms.hostNote}
      verb={text.verbs.addHost}
      command={accessCommands.createHost(name || 'NAME', shown)}
      isReady={name !== '' && read.iqns.length > 0 && isComplete(values.chap, false)}
      run={() => access.createHost(name, read)}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <HostFields values={values} onChange={setValues} hasSecret={false} />
    </Form>
  );
}

/** Changes initiators, personality and CHAP. The array never returns a secret, so a new one is typed. */
export function EditHostForm({ host }: { host: Host }) {
  const [values, setValues] = useState<Typed>({
    iqns: host.iqns.join('\n'),
    personality: host.personality ?? '',
    chap: null,
  });
  const read = { ...values, iqns: initiators(values.iqns) };
  const hasSecret = host.chap.host_user !== null && host.chap.host_user === values.chap?.host_user;
  return (
    <Form
      note={text.forms.editHostNote}
      verb={text.verbs.save}
      command={accessCommands.setHost(host.name, read)}
      isReady={isComplete(values.chap, hasSecret)}
      run={() => access.changeHost(host, read)}
    >
      <HostFields
        values={values}
        onChange={setValues}
        hasSecret={hasSecret}
        present={{
          ...NO_CHAP,
          host_user: host.chap.host_user ?? '',
          target_user: host.chap.target_user ?? '',
        }}
      />
    </Form>
  );
}

type Typed = Omit<HostValues, 'iqns'> & { iqns: string };

/** A user without a secret, or a secret without a user, is refused by the array. */
function isComplete(chap: access.Chap | null, hasSecret: boolean): boolean {
  if (chap === null) return true;
  const isPair = (user: string, secret: string) => (user === '' ? secret === '' : secret.length >= 12);
  if (chap.host_user === '' && chap.target_user !== '') return false;
  return (
    (hasSecret && chap.host_password === '') ||
    (isPair(chap.host_user, chap.host_password) && isPair(chap.target_user, chap.target_password))
  );
}

type FieldsProps = {
  values: Typed;
  onChange: (values: Typed) => void;
  hasSecret: boolean;
  present?: access.Chap;
};

function HostFields({ values, onChange, hasSecret, present = NO_CHAP }: FieldsProps) {
  const set = (change: Partial<Typed>) => onChange({ ...values, ...change });
  return (
    <>
      <Textarea
        label={text.forms.iqn}
        description={text.forms.iqnHint}
        value={values.iqns}
        onChange={(event) => set({ iqns: event.currentTarget.value })}
        autosize
        minRows={1}
        maxRows={6}
        spellCheck={false}
      />
      <Select
        label={text.forms.personality}
        description={text.forms.personalityHint}
        value={values.personality}
        onChange={(personality) => set({ personality: personality ?? '' })}
        data={[{ value: '', label: text.forms.noPersonality }, ...PERSONALITIES]}
        allowDeselect={false}
        comboboxProps={{ withinPortal: false }}
      />
      <label className="check">
        <input
          type="checkbox"
          checked={values.chap !== null}
          onChange={(event) => set({ chap: event.currentTarget.checked ? present : null })}
        />
        {present.host_user === '' ? text.forms.setChap : text.forms.changeChap}
      </label>
      {values.chap !== null && (
        <ChapFields chap={values.chap} onChange={(chap) => set({ chap })} hasSecret={hasSecret} />
      )}
    </>
  );
}

type ChapProps = { chap: access.Chap; onChange: (chap: access.Chap) => void; hasSecret: boolean };

function ChapFields({ chap, onChange, hasSecret }: ChapProps) {
  const secret = (key: 'host_password' | 'target_password', label: string) => (
    <PasswordInput
      label={label}
      description={hasSecret ? text.forms.secretKept : text.forms.secretHint}
      value={chap[key]}
      onChange={(event) => onChange({ ...chap, [key]: event.currentTarget.value })}
      autoComplete="new-password"
    />
  );
  return (
    <fieldset className="form group">
      <legend>{text.forms.chapTitle}</legend>
      <Field
        label={text.forms.hostUser}
        value={chap.host_user}
        onChange={(host_user) => onChange({ ...chap, host_user })}
        hint={text.forms.hostUserHint}
      />
      {secret('host_password', text.forms.hostSecret)}
      <Field
        label={text.forms.targetUser}
        value={chap.target_user}
        onChange={(target_user) => onChange({ ...chap, target_user })}
        hint={text.forms.targetUserHint}
      />
      {chap.target_user !== '' && secret('target_password', text.forms.targetSecret)}
    </fieldset>
  );
}

export function HostGroupForm() {
  const [name, setName] = useState('');
  const [hosts, setHosts] = useState<string[]>([]);
  const lines = [accessCommands.createHostGroup(name || 'NAME')];
  if (hosts.length > 0) lines.push(accessCommands.addHosts(name || 'NAME', hosts));
  return (
    <Form
      note={text.forms.hostGroupNote}
      verb={text.verbs.newHostGroup}
      command={lines.join('\n')}
      isReady={name !== ''}
      run={() => access.createHostGroup(name, hosts)}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <HostsSelect label={text.forms.hosts} value={hosts} onChange={setHosts} hint={text.forms.oneGroup} />
    </Form>
  );
}

export function AddHostsForm({ group }: { group: string }) {
  const [hosts, setHosts] = useState<string[]>([]);
  return (
    <Form
      note={text.forms.addHostsNote}
      verb={text.verbs.addHosts}
      command={accessCommands.addHosts(group, hosts.length > 0 ? hosts : ['HOST'])}
      isReady={hosts.length > 0}
      run={() => access.addHosts(group, hosts)}
    >
      <HostsSelect label={text.forms.hosts} value={hosts} onChange={setHosts} hint={text.forms.oneGroup} />
    </Form>
  );
}
