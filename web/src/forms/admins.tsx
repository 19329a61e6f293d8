/** Forms of administrators and their API tokens. */

import { Select } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import * as access from '../accessActions';
import { accessCommands } from '../accessActions';
import { refresh } from '../api/queries';
import { asRole, ROLES, type Role } from '../api/roles';
import type { Admin } from '../api/types';
import { parseTime } from '../format/time';
import { Code, ErrorNote } from '../parts/common';
import { open } from '../parts/request';
import { text } from '../text';
import { Field, Form } from './Form';

function RoleSelect({ value, onChange }: { value: Role; onChange: (role: Role) => void }) {
  return (
    <Select
      label={text.forms.role}
      description={text.settings.roles[value]}
      value={value}
      onChange={(role) => onChange(asRole(role) ?? value)}
      data={[...ROLES]}
      allowDeselect={false}
      comboboxProps={{ withinPortal: false }}
    />
  );
}

export function AdminForm() {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('readonly');
  return (
    <Form
      note={text.forms.adminNote}
      verb={text.verbs.newAdmin}
      command={accessCommands.createAdmin(name || 'NAME', role)}
      isReady={name !== ''}
      run={() => access.createAdmin(name, role)}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.adminHint} first />
      <RoleSelect value={role} onChange={setRole} />
    </Form>
  );
}

export function RoleForm({ admin }: { admin: Admin }) {
  const present = asRole(admin.role.name) ?? 'readonly';
  const [role, setRole] = useState<Role>(present);
  return (
    <Form
      note={text.forms.roleNote}
      verb={text.verbs.save}
      command={accessCommands.setRole(admin.name, role)}
      isReady={role !== present}
      run={() => access.setRole(admin, role)}
    >
      <RoleSelect value={role} onChange={setRole} />
    </Form>
  );
}

export function DeleteAdminForm({ name }: { name: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.deleteAdminNote}
      verb={text.verbs.deleteAdmin}
      command={accessCommands.deleteAdmin(name)}
      isReady={typed === name}
      isDanger
      run={() => access.deleteAdmin(name)}
    >
      <Field label={text.forms.typeName(name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}

export function RemoveTokenForm({ name }: { name: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.removeTokenNote}
      verb={text.verbs.removeToken}
      command={`DELETE /api/2.26/admins/api-tokens?names=${name}`}
      isReady={typed === name}
      isDanger
      run={() => access.removeToken(name)}
    >
      <Field label={text.forms.typeName(name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}

type TokenProps = { admin: string; hasToken: boolean; isOwn: boolean };

/**
 * Makes a token and shows it once. The name is typed only if a token is replaced. After the own token is
 * replaced, nothing is read before the dialog is closed, so that the login does not cover the new token.
 */
export function TokenForm({ admin, hasToken, isOwn }: TokenProps) {
  const [typed, setTyped] = useState('');
  const [valid, setValid] = useState('');
  const [token, setToken] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const time = valid.trim() === '' ? null : parseTime(valid);
  const isReady = (!hasToken || typed === admin) && (valid.trim() === '' || (time ?? 0) > 0);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReady) return;
    setError(null);
    await access.newToken(admin, time).then(setToken, setError);
    if (!isOwn) await refresh();
  };
  if (token !== null) {
    return (
      <div className="form">
        <p>{isOwn ? text.settings.tokenMade : text.settings.tokenMadeFor(admin)}</p>
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
      <p className="soft">
        {!hasToken ? text.settings.tokenFirst : isOwn ? text.settings.tokenNote : text.settings.tokenReplaced}
      </p>
      <Field
        label={text.forms.valid}
        value={valid}
        onChange={setValid}
        hint={text.forms.validHint}
        error={valid.trim() !== '' && !time ? text.settings.unreadable : null}
        first={!hasToken}
      />
      {hasToken && <Field label={text.forms.typeName(admin)} value={typed} onChange={setTyped} first />}
      <Code>{accessCommands.newToken(admin, time)}</Code>
      <ErrorNote error={error} />
      <div className="acts">
        <button type="button" className="btn" onClick={() => open(null)}>
          {text.common.cancel}
        </button>
        <button type="submit" className={`btn primary${hasToken ? ' danger' : ''}`} disabled={!isReady}>
          {text.settings.newToken}
        </button>
      </div>
    </form>
  );
}
