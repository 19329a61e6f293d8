/** Administrators with their roles and tokens, and their open sessions. */

import { Menu } from '@mantine/core';
import { serverNow } from '../api/client';
import { useAdminSessions, useAdmins } from '../api/queries';
import { asRole } from '../api/roles';
import { useSession } from '../api/session';
import type { Admin } from '../api/types';
import { absolute, since } from '../format/time';
import { Card, ErrorNote, Name } from '../parts/common';
import { Icon } from '../parts/Icon';
import { May, useMay } from '../parts/May';
import { open } from '../parts/request';
import { text } from '../text';

/** The administrator that every array has. It keeps its role and a token. */
const FIRST = 'admin';
/** Sessions in the document. */
const MOST = 100;

export function Admins() {
  const admins = useAdmins();
  const { self } = useSession();
  return (
    <Card
      title={text.settings.admins}
      note={text.settings.adminsNote}
      end={
        <May need="array_admin">
          <button type="button" className="btn small" onClick={() => open({ kind: 'admin' })}>
            <Icon name="plus" />
            {text.verbs.newAdmin}
          </button>
        </May>
      }
    >
      <ErrorNote error={admins.error} />
      <ul className="items">
        {admins.data?.map((admin) => (
          <Row key={admin.name} admin={admin} isOwn={admin.name === (self?.name ?? FIRST)} />
        ))}
      </ul>
    </Card>
  );
}

/** The state of a token in words. */
export function tokenState({ created_at, expires_at }: Admin['api_token'], now: number): string {
  if (created_at === 0) return text.settings.noToken;
  const made = text.settings.tokenCreated(absolute(created_at));
  if (expires_at === null) return made;
  const isOver = expires_at <= now;
  const end = isOver ? text.settings.expired : text.settings.expires;
  return `${made}, ${end(absolute(expires_at))}`;
}

function Row({ admin, isOwn }: { admin: Admin; isOwn: boolean }) {
  const isAllowed = useMay('array_admin');
  const role = asRole(admin.role.name);
  const hasToken = admin.api_token.created_at > 0;
  const { name } = admin;
  return (
    <li>
      <span>
        <b>
          <Name>{name}</Name>
        </b>
        {isOwn && <span className="soft"> ({text.settings.self})</span>}
        <small>
          {admin.role.name}
          {role && `: ${text.settings.roles[role]}`}
        </small>
        <small>{tokenState(admin.api_token, serverNow())}</small>
      </span>
      {(isAllowed || isOwn) && (
        <span className="acts">
          <button
            type="button"
            className={`btn small${hasToken ? ' danger' : ''}`}
            onClick={() => open({ kind: 'token', admin: name, hasToken, isOwn })}
          >
            {text.settings.newToken}
          </button>
          {name !== FIRST && <More admin={admin} isAllowed={isAllowed} isOwn={isOwn} hasToken={hasToken} />}
        </span>
      )}
    </li>
  );
}

type MoreProps = { admin: Admin; isAllowed: boolean; isOwn: boolean; hasToken: boolean };

function More({ admin, isAllowed, isOwn, hasToken }: MoreProps) {
  const { name } = admin;
  return (
    <Menu position="bottom-end" withinPortal={false}>
      <Menu.Target>
        <button type="button" className="btn small" aria-label={text.settings.more(name)}>
          …
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        {isAllowed && <Menu.Item onClick={() => open({ kind: 'role', admin })}>{text.verbs.role}</Menu.Item>}
        <Menu.Item
          color="var(--bad)"
          disabled={!hasToken}
          onClick={() => open({ kind: 'removeToken', name })}
        >
          {text.verbs.removeToken}
        </Menu.Item>
        {isAllowed && !isOwn && (
          <Menu.Item color="var(--bad)" onClick={() => open({ kind: 'deleteAdmin', name })}>
            {text.verbs.deleteAdmin}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

export function AdminSessions() {
  const sessions = useAdminSessions();
  return (
    <Card className="c6" title={text.settings.sessions} note={text.settings.sessionsNote}>
      <ErrorNote error={sessions.error} />
      <section className="scroll-y" aria-label={text.settings.sessions} tabIndex={0}>
        <ul className="items">
          {sessions.data?.slice(0, MOST).map((session) => (
            <li key={session.name}>
              <span>
                <b>
                  <Name>{session.user}</Name>
                </b>
                <small title={absolute(session.start_time)}>
                  {text.settings.session(
                    session.location,
                    text.common.ago(since(session.start_time, serverNow())),
                  )}
                </small>
              </span>
            </li>
          ))}
        </ul>
      </section>
      {(sessions.data?.length ?? 0) > MOST && (
        <p className="rule">{text.common.more((sessions.data?.length ?? 0) - MOST)}</p>
      )}
    </Card>
  );
}
