/** One host: its sessions by port, performance, volumes, offloads, and what to do if a path is lost. */

import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import * as access from '../accessActions';
import * as actions from '../actions';
import { commands } from '../actions';
import { serverNow } from '../api/client';
import { DEFAULT_RANGE } from '../api/history';
import { useActive, useConnections, useEndedSessions } from '../api/queries';
import type { Host, Session } from '../api/types';
import { latency, rate } from '../format/rates';
import { absolute, since } from '../format/time';
import { Card, Code, ErrorNote, Head, Loading, Name } from '../parts/common';
import { May } from '../parts/May';
import { ByReference } from '../parts/Offloads';
import { PerformanceCharts, RangeChoice } from '../parts/PerformanceCharts';
import { open, perform } from '../parts/request';
import { text } from '../text';
import { HEALTH_STYLE, Path, remark, usePaths } from './Hosts';
import type { Paths } from './paths';
import { loginAgain } from './recipes';
import { Pair } from './VolumeDrawer';

const MOST_ENDED = 8;

export function HostPage() {
  const { name } = useParams({ from: '/hosts/$name' });
  const search = useSearch({ from: '/hosts/$name' });
  const navigate = useNavigate({ from: '/hosts/$name' });
  const { rows, ports, sessions, error } = usePaths();
  if (!rows) return error ? <ErrorNote error={error} /> : <Loading />;
  const row = rows.find(({ host }) => host.name.toLowerCase() === name.toLowerCase());
  if (!row) {
    return (
      <div className="card center">
        <h1>{text.host.gone}</h1>
        <Link className="btn" to="/hosts">
          {text.host.back}
        </Link>
      </div>
    );
  }
  const { host, paths } = row;
  const range = search.range ?? DEFAULT_RANGE;
  const remove = async () => {
    if (await perform(() => access.deleteHost(host))) await navigate({ to: '/hosts' });
  };
  return (
    <>
      <Head
        kicker={text.host.kicker}
        title={<Name>{host.name}</Name>}
        sub={`${text.volumes.summary(host.connection_count)} · ${remark(paths)}`}
      >
        <May>
          <div className="acts">
            <button
              type="button"
              className="btn"
              onClick={() => open({ kind: 'attach', to: { host: host.name } })}
            >
              {text.verbs.attach}
            </button>
            <button type="button" className="btn" onClick={() => open({ kind: 'editHost', host })}>
              {text.verbs.edit}
            </button>
            <button
              type="button"
              className="btn"
              onClick={() => open({ kind: 'rename', of: 'host', name: host.name })}
            >
              {text.verbs.rename}
            </button>
            <button
              type="button"
              className="btn danger"
              disabled={host.connection_count > 0}
              title={host.connection_count > 0 ? text.errors.hint.host_connected : undefined}
              onClick={remove}
            >
              {text.verbs.deleteHost}
            </button>
          </div>
        </May>
      </Head>
      <div className="grid">
        <div className="c7 stack">
          <Card
            title={text.host.paths}
            note={text.hosts.of(paths.connected, paths.used)}
            end={<span className={`chip ${HEALTH_STYLE[paths.health]}`}>{remark(paths)}</span>}
          >
            {(paths.health === 'lost' || paths.health === 'out') && (
              <NextStep host={host} paths={paths} target={ports[0]?.iqn ?? ''} />
            )}
            <Ports
              paths={paths}
              names={ports.map((port) => [port.name, port.portal])}
              sessions={sessions.filter((session) => session.host.name === host.name)}
            />
          </Card>
          <Ended host={host.name} />
        </div>
        <div className="c5 stack">
          <Identity host={host} />
          <Card title={text.offloads.title} note={text.offloads.note}>
            <ByReference of={{ host: host.name }} />
          </Card>
        </div>
        <div>
          <div className="bar-head">
            <h2>{text.host.performance}</h2>
            <RangeChoice
              range={range}
              choose={(range) => navigate({ to: '.', search: { range }, replace: true })}
            />
          </div>
          <PerformanceCharts subject={{ kind: 'hosts', name: host.name }} range={range} />
        </div>
        <Volumes host={host.name} />
      </div>
    </>
  );
}

function NextStep({ host, paths, target }: { host: Host; paths: Paths; target: string }) {
  const { system, commands: lines } = loginAgain(host.iqns[0] ?? '', target);
  return (
    <div className={`note ${paths.health === 'lost' ? 'bad' : 'warn'}`}>
      <p>{paths.health === 'lost' ? text.host.lost : text.host.out}</p>
      <p>{text.host.loginAgain(system)}</p>
      <Code>{lines}</Code>
    </div>
  );
}

type PortsProps = { paths: Paths; names: [name: string, portal: string | null][]; sessions: Session[] };

function Ports({ paths, names, sessions }: PortsProps) {
  const now = serverNow();
  return (
    <>
      <ul className="ports">
        {names.map(([name, portal], at) => (
          <li key={name}>
            <Path state={paths.cells[at] ?? 'none'} />
            <span>
              {name} <small className="mono">{portal}</small>
            </span>
          </li>
        ))}
      </ul>
      {sessions.length === 0 ? (
        <p className="soft">{text.host.noSession}</p>
      ) : (
        <section className="scroll-x" aria-label={text.host.sessions} tabIndex={0}>
          <table className="table">
            <thead>
              <tr>
                <th>{text.host.port}</th>
                <th>{text.host.from}</th>
                <th>{text.host.since}</th>
                <th>{text.host.digests}</th>
                <th>{text.host.chap}</th>
              </tr>
            </thead>
            <tbody>
              {sessions.map((session) => (
                <tr key={`${session.isid} ${session.tsih}`}>
                  <td className="mono">{session.target_portal}</td>
                  <td className="mono">{session.initiator_portal}</td>
                  <td title={absolute(session.since)}>{since(session.since, now)}</td>
                  <td>{digests(session)}</td>
                  <td>{session.authenticated ? text.hosts.chap.one : text.hosts.chap.none}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

function digests({ parameters }: Session): string {
  const used = [
    parameters.HeaderDigest !== 'None' && text.host.header,
    parameters.DataDigest !== 'None' && text.host.data,
  ].filter((digest) => digest !== false);
  return used.join(', ') || text.host.noDigest;
}

function Ended({ host }: { host: string }) {
  const ended = useEndedSessions();
  const own = (ended.data ?? []).filter((session) => session.host.name === host).slice(0, MOST_ENDED);
  if (own.length === 0) return null;
  return (
    <Card title={text.host.ended} note={text.host.endedNote}>
      <ul className="items">
        {own.map((session) => (
          <li key={`${session.isid} ${session.tsih} ${session.ended}`}>
            <span>
              <bdi>{session.reason}</bdi>
              <small className="mono">
                {text.host.between(session.initiator_portal, session.target_portal)}
              </small>
            </span>
            <span className="soft" title={absolute(session.ended ?? 0)}>
              {text.common.ago(since(session.ended ?? 0, serverNow()))}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Identity({ host }: { host: Host }) {
  const { chap } = host;
  const chapState = !chap.host_user ? 'none' : chap.target_user ? 'mutual' : 'one';
  return (
    <Card title={text.volume.identity}>
      <dl className="pairs">
        {host.iqns.map((iqn) => (
          <Pair key={iqn} label={text.host.initiator}>
            <span className="mono">{iqn === '*' ? text.hosts.any : <Name>{iqn}</Name>}</span>
          </Pair>
        ))}
        <Pair label={text.hosts.columns.chap}>{text.hosts.chap[chapState]}</Pair>
        <Pair label={text.host.personality}>{host.personality ?? text.common.none}</Pair>
        {host.preferred_arrays.length > 0 && (
          <Pair label={text.host.preferred}>
            {host.preferred_arrays.map(({ id, name }) => name ?? id).join(', ')}
          </Pair>
        )}
        {host.host_group.name && (
          <Pair label={text.host.group}>
            <Link to="/host-groups/$name" params={{ name: host.host_group.name }}>
              <Name>{host.host_group.name}</Name>
            </Link>
          </Pair>
        )}
      </dl>
      <Code>{commands.showHost(host.name)}</Code>
    </Card>
  );
}

function Volumes({ host }: { host: string }) {
  const connections = useConnections({ host });
  const active = useActive();
  return (
    <Card title={text.hosts.volumesOf(host)}>
      {connections.error && <ErrorNote error={connections.error} />}
      {connections.data?.length === 0 && <p className="soft">{text.hosts.noVolumes}</p>}
      <ul className="items">
        {connections.data?.map(({ volume, lun, host_group }) => {
          const name = volume.name ?? '';
          const now = active.data?.find((one) => one.volume.name === name && one.host.name === host);
          const ops = now ? now.reads_per_sec + now.writes_per_sec : 0;
          const usec = now ? Math.max(now.usec_per_read_op, now.usec_per_write_op) : 0;
          return (
            <li key={name}>
              <span>
                <Link to="/volumes/$name" params={{ name: name.split('.')[0] ?? '' }}>
                  <Name>{name}</Name>
                </Link>
                <small>
                  {text.volume.lun(lun)}
                  {host_group.name && ` · ${text.hostGroup.shared(host_group.name)}`}
                </small>
              </span>
              <span className="soft">
                {ops > 0 ? text.host.busy(rate(ops), latency(usec)) : text.host.idle}
              </span>
              {!host_group.name && (
                <May>
                  <button
                    type="button"
                    className="btn small"
                    onClick={() => perform(() => actions.disconnect({ host }, name, lun))}
                  >
                    {text.verbs.disconnect}
                  </button>
                </May>
              )}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}
