/** All hosts, their initiators, and the volumes that each sees. */

import { Modal } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import * as actions from '../actions';
import { useConnections, useHosts } from '../api/queries';
import type { Host } from '../api/types';
import { ErrorNote, Head, Loading, Name, Size } from '../parts/common';
import { open, perform } from '../parts/dialogs';
import { Icon } from '../parts/Icon';
import { text } from '../text';

/** Hosts in the document. A filter finds the others. */
const MOST = 300;
const MOST_INITIATORS = 2;

export function Hosts() {
  const hosts = useHosts();
  const [typed, setTyped] = useState('');
  const [shown, setShown] = useState<Host | null>(null);
  if (!hosts.data) return hosts.error ? <ErrorNote error={hosts.error} /> : <Loading />;
  const wanted = typed.trim().toLowerCase();
  const matches = hosts.data.filter((host) =>
    `${host.name} ${host.iqns.join(' ')}`.toLowerCase().includes(wanted),
  );
  return (
    <>
      <Head kicker={text.hosts.kicker} title={text.hosts.title} sub={text.hosts.summary(hosts.data.length)}>
        <div className="acts">
          <button type="button" className="btn primary" onClick={() => open({ kind: 'host' })}>
            <Icon name="plus" />
            {text.hosts.add}
          </button>
        </div>
      </Head>
      {hosts.data.length === 0 ? (
        <p className="card center">{text.hosts.empty}</p>
      ) : (
        <>
          <div className="filter">
            <Icon name="search" />
            <input
              type="search"
              aria-label={text.hosts.filter}
              placeholder={text.hosts.filter}
              value={typed}
              onChange={(event) => setTyped(event.currentTarget.value)}
            />
            <kbd>/</kbd>
          </div>
          <section className="card">
            {matches.length === 0 && <p className="soft">{text.hosts.noMatch}</p>}
            <ul className="items hosts">
              {matches.slice(0, MOST).map((host) => (
                <HostRow key={host.name} host={host} show={() => setShown(host)} />
              ))}
            </ul>
          </section>
        </>
      )}
      <Modal
        opened={shown !== null}
        onClose={() => setShown(null)}
        title={shown && text.hosts.volumesOf(shown.name)}
        centered
      >
        {shown && <HostVolumes host={shown.name} />}
      </Modal>
    </>
  );
}

function HostRow({ host, show }: { host: Host; show: () => void }) {
  const { chap } = host;
  const chapState = !chap.host_user ? 'none' : chap.target_user ? 'mutual' : 'one';
  const more = host.iqns.length - MOST_INITIATORS;
  return (
    <li>
      <span>
        <b>
          <Name>{host.name}</Name>
        </b>
        {host.iqns.slice(0, MOST_INITIATORS).map((iqn) => (
          <small key={iqn} className="mono">
            {iqn === '*' ? text.hosts.any : <Name>{iqn}</Name>}
          </small>
        ))}
        {more > 0 && <small>{text.common.more(more)}</small>}
      </span>
      {chapState !== 'none' && (
        <span className="chip">
          {text.hosts.columns.chap} {text.hosts.chap[chapState]}
        </span>
      )}
      <span className="soft">
        <Size bytes={host.space.virtual} />
      </span>
      <span className="acts">
        <button type="button" className="btn small" onClick={show}>
          {text.hosts.columns.volumes} {host.connection_count}
        </button>
        <button
          type="button"
          className="btn small danger"
          disabled={host.connection_count > 0}
          title={host.connection_count > 0 ? text.errors.hint.host_connected : undefined}
          onClick={() => perform(() => actions.deleteHost(host))}
        >
          {text.verbs.deleteHost}
        </button>
      </span>
    </li>
  );
}

function HostVolumes({ host }: { host: string }) {
  const connections = useConnections({ host });
  if (!connections.data) return connections.error ? <ErrorNote error={connections.error} /> : <Loading />;
  if (connections.data.length === 0) return <p className="soft">{text.hosts.noVolumes}</p>;
  return (
    <ul className="items">
      {connections.data.map(({ volume, lun }) => (
        <li key={volume.name}>
          <span>
            <Link to="/volumes/$name" params={{ name: volume.name?.split('.')[0] ?? '' }}>
              <Name>{volume.name}</Name>
            </Link>
            <small>{text.volume.lun(lun)}</small>
          </span>
          <button
            type="button"
            className="btn small"
            onClick={() => perform(() => actions.disconnect(host, volume.name ?? '', lun))}
          >
            {text.verbs.disconnect}
          </button>
        </li>
      ))}
    </ul>
  );
}
