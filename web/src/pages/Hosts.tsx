/** All hosts and the ports over which they are logged in, problems first; and refused logins. */

import { Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { serverNow } from '../api/client';
import { useEndedSessions, useHosts, usePorts, useRefusedLogins, useSessions } from '../api/queries';
import type { Host, Port, RefusedLogin } from '../api/types';
import { since } from '../format/time';
import { Card, ErrorNote, Head, Loading, Name } from '../parts/common';
import { FilterField } from '../parts/filters';
import { Icon } from '../parts/Icon';
import { May } from '../parts/May';
import { open } from '../parts/request';
import { text } from '../text';
import { matrix, type PathState, type Paths } from './paths';

/** Hosts in the document. A filter finds the others. */
const MOST = 300;
const MOST_REFUSED = 20;

export const HEALTH_STYLE: Record<Paths['health'], string> = {
  good: 'good',
  lost: 'critical',
  unstable: 'warning',
  out: '',
  never: '',
  one: '',
};

export function usePaths() {
  const [hosts, ports, live, ended] = [useHosts(), usePorts(), useSessions(), useEndedSessions()];
  const rows = useMemo(
    () =>
      hosts.data &&
      ports.data &&
      live.data &&
      ended.data &&
      matrix(hosts.data, ports.data, live.data, ended.data, serverNow()),
    [hosts.data, ports.data, live.data, ended.data],
  );
  const error = hosts.error ?? ports.error ?? live.error ?? ended.error;
  return { rows, ports: ports.data ?? [], sessions: live.data ?? [], error };
}

export function Hosts() {
  const { rows, ports, sessions, error } = usePaths();
  const [typed, setTyped] = useState('');
  if (!rows) return error ? <ErrorNote error={error} /> : <Loading />;
  const wanted = typed.trim().toLowerCase();
  const matches = rows.filter(({ host }) =>
    `${host.name} ${host.iqns.join(' ')}`.toLowerCase().includes(wanted),
  );
  const troubled = rows.filter(({ paths }) => paths.health === 'lost' || paths.health === 'unstable').length;
  return (
    <>
      <Head
        kicker={text.hosts.kicker}
        title={text.hosts.title}
        sub={text.hosts.summary(rows.length, sessions.length, troubled)}
      >
        <div className="acts">
          <HostViews />
          <May>
            <button type="button" className="btn primary" onClick={() => open({ kind: 'host' })}>
              <Icon name="plus" />
              {text.hosts.add}
            </button>
          </May>
        </div>
      </Head>
      {rows.length === 0 ? (
        <p className="card center">{text.hosts.empty}</p>
      ) : (
        <>
          <FilterField label={text.hosts.filter} value={typed} change={setTyped} />
          {matches.length === 0 && <p className="card center">{text.hosts.noMatch}</p>}
          {matches.length > 0 && <Matrix rows={matches.slice(0, MOST)} ports={ports} />}
          {matches.length > MOST && <p className="center">{text.common.more(matches.length - MOST)}</p>}
        </>
      )}
      <Refused />
    </>
  );
}

/** Hosts by paths, or by group. */
export function HostViews() {
  return (
    <nav className="segments" aria-label={text.hosts.views}>
      <Link to="/hosts">{text.hosts.paths}</Link>
      <Link to="/host-groups">{text.hosts.groups}</Link>
    </nav>
  );
}

type Row = { host: Host; paths: Paths };

function Matrix({ rows, ports }: { rows: Row[]; ports: Port[] }) {
  return (
    <>
      <section className="card scroll-x" aria-label={text.hosts.matrix} tabIndex={0}>
        <table className="table matrix">
          <thead>
            <tr>
              <th>{text.hosts.columns.name}</th>
              <th className="right wide-only">{text.hosts.columns.volumes}</th>
              {ports.map((port) => (
                <th key={port.name} className="cell">
                  {port.name}
                  <small className="wide-only">{port.portal}</small>
                </th>
              ))}
              <th>{text.hosts.columns.paths}</th>
              <th className="wide-only">{text.hosts.columns.remark}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ host, paths }) => (
              <tr key={host.name}>
                <td>
                  <Link to="/hosts/$name" params={{ name: host.name }}>
                    <Name>{host.name}</Name>
                  </Link>
                  <small className="wide-only">
                    {host.iqns[0] === '*' ? text.hosts.any : <Name>{host.iqns[0] ?? ''}</Name>}
                    {host.iqns.length > 1 && `, ${text.common.more(host.iqns.length - 1)}`}
                  </small>
                </td>
                <td className="right wide-only">{host.connection_count}</td>
                {paths.cells.map((state, at) => (
                  <td key={ports[at]?.name} className="cell">
                    <Path state={state} />
                  </td>
                ))}
                <td>
                  <span className={`chip ${HEALTH_STYLE[paths.health]}`}>
                    {text.hosts.of(paths.connected, paths.used)}
                  </span>
                </td>
                <td className="wide-only">{remark(paths)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <ul className="legend">
        {(['connected', 'unstable', 'missing', 'none'] as const).map((state) => (
          <li key={state}>
            <Path state={state} isDecoration />
            {text.hosts.states[state]}
          </li>
        ))}
      </ul>
    </>
  );
}

/** A path by shape and word, not by colour only. */
export function Path({ state, isDecoration }: { state: PathState; isDecoration?: boolean }) {
  const label = text.hosts.states[state];
  return (
    <span className={`path ${state}`} title={label}>
      <span aria-hidden="true">{{ connected: '●', unstable: '◐', missing: '✕', none: '–' }[state]}</span>
      {!isDecoration && <span className="vh">{label}</span>}
    </span>
  );
}

export function remark({ health, cells, drops }: Paths): string {
  const lost = cells.filter((cell) => cell === 'missing').length;
  return text.hosts.remark[health](health === 'lost' ? lost : drops);
}

function Refused() {
  const refused = useRefusedLogins();
  if (!refused.data || refused.data.length === 0) return null;
  return (
    <Card className="gap" title={text.hosts.refused} note={text.hosts.refusedNote}>
      <ul className="items">
        {refused.data.slice(0, MOST_REFUSED).map((login) => (
          <RefusedRow key={`${login.initiator} ${login.initiator_portal}`} login={login} />
        ))}
      </ul>
    </Card>
  );
}

export function RefusedRow({ login }: { login: RefusedLogin }) {
  const { initiator, initiator_portal: from, count, time, reason } = login;
  return (
    <li>
      <span>
        <b className="mono">
          <Name>{initiator}</Name>
        </b>
        <small>{text.hosts.refusedBy(from, count, since(time, serverNow()))}</small>
        <small>
          <bdi>{reason}</bdi>
        </small>
      </span>
      <May>
        <button type="button" className="btn small" onClick={() => open({ kind: 'host', iqn: initiator })}>
          {text.hosts.addAsHost}
        </button>
      </May>
    </li>
  );
}
