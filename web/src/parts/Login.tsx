/** Login: a page at first, a dialog over the page when a session ends. */

import { Modal, PasswordInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ApiError, call, logIn } from '../api/client';
import { asRole, type Role } from '../api/roles';
import { noteAnswer, noteSelf } from '../api/session';
import type { Admin, Items } from '../api/types';
import { text } from '../text';
import { ErrorNote } from './common';

function Fields() {
  const [token, setToken] = useState('');
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const client = useQueryClient();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const name = await logIn(token.trim());
      const role = name === null ? null : await roleOf(name);
      noteSelf(name === null ? null : { name, role });
      noteAnswer();
      await client.resetQueries();
    } catch (error) {
      setError(explained(error));
    }
    setBusy(false);
  };
  return (
    <>
      <PasswordInput
        label={text.login.token}
        description={text.login.tokenHelp}
        value={token}
        onChange={(event) => setToken(event.currentTarget.value)}
        autoComplete="current-password"
        name="token"
        data-autofocus
        autoFocus
      />
      <ErrorNote error={error} />
      <button type="submit" className="btn primary" disabled={token === '' || isBusy} onClick={submit}>
        {text.login.submit}
      </button>
    </>
  );
}

/** The role decides what the pages offer, so it is read before them. */
async function roleOf(name: string): Promise<Role | null> {
  const admins = await call<Items<Admin>>('GET', '/admins', { names: name }).catch(() => null);
  return asRole(admins?.items[0]?.role.name);
}

function explained(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  if (error.status === 401) return new Error(text.login.wrong);
  return error.status === 429 ? new Error(text.login.tooMany) : error;
}

export function LoginPage() {
  return (
    <main className="login">
      <form onSubmit={(event) => event.preventDefault()} className="card">
        <p className="mark">
          {text.product}
          <b>.</b>
        </p>
        <h1>{text.login.title(text.login.thisArray)}</h1>
        <Fields />
      </form>
    </main>
  );
}

export function LoginDialog({ array }: { array: string }) {
  return (
    <Modal
      opened
      onClose={() => undefined}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      title={text.login.title(array)}
      centered
      zIndex={350}
    >
      <form className="form" onSubmit={(event) => event.preventDefault()}>
        <p className="soft">{text.login.ended}</p>
        <Fields />
      </form>
    </Modal>
  );
}
