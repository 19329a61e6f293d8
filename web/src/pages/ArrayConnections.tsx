/** The arrays to which this one is connected, and the link to each. */

import { useArray, useArrayConnections } from '../api/queries';
import type { ArrayConnection } from '../api/types';
import { latency } from '../format/rates';
import { absolute } from '../format/time';
import { count, size } from '../format/units';
import { ErrorNote, Head, Loading, Name } from '../parts/common';
import { Icon } from '../parts/Icon';
import { May, useMay } from '../parts/May';
import { open } from '../parts/request';
import { text } from '../text';
import { clockOf, simulated } from './links';
import { PodViews } from './Pods';
import { Pair } from './VolumeDrawer';

const TONES: Record<string, string> = {
  connected: 'good',
  partially_connected: 'warning',
  connecting: 'critical',
};

export function ArrayConnections() {
  const links = useArrayConnections();
  const n = links.data?.length ?? 0;
  return (
    <>
      <Head
        kicker={text.links.kicker}
        title={text.links.title}
        sub={links.data && n > 0 && `${text.links.summary(n)}. ${text.links.note}`}
      >
        <div className="acts">
          <PodViews />
          <May need="array_admin">
            <ConnectActions />
          </May>
        </div>
      </Head>
      <ErrorNote error={links.error} />
      {links.isLoading && <Loading />}
      {links.data?.length === 0 && <p className="card center">{text.links.empty}</p>}
      <div className="grid">
        {links.data?.map((link) => (
          <LinkCard key={link.id} link={link} />
        ))}
      </div>
    </>
  );
}

function ConnectActions() {
  return (
    <>
      <button type="button" className="btn" onClick={() => open({ kind: 'connectionKey' })}>
        {text.verbs.newKey}
      </button>
      <button type="button" className="btn primary" onClick={() => open({ kind: 'connectArray' })}>
        <Icon name="plus" />
        {text.verbs.connectArray}
      </button>
    </>
  );
}

function LinkCard({ link }: { link: ArrayConnection }) {
  const array = useArray();
  const { management_address: address, replication_addresses: remote } = link;
  const there =
    address !== null
      ? text.links.listens(address)
      : remote[0] !== undefined
        ? text.links.connects(remote[0])
        : text.links.connectsHere;
  return (
    <section className="card" aria-label={link.name}>
      <header>
        <h2>
          <Name>{link.name}</Name>
        </h2>
        <span className={`chip ${TONES[link.status] ?? ''}`}>
          {text.links.status[link.status] ?? link.status}
        </span>
        <span className="soft">{text.links.since(absolute(link.since))}</span>
      </header>
      {link.problem && (
        <p className="note bad break after">
          <bdi>{link.problem}</bdi>
        </p>
      )}
      <div className="array-link">
        <div className="node">
          <h3>
            <Name>{array.data?.name}</Name>
          </h3>
          <p className="soft">
            {text.links.thisArray}, {address !== null ? text.links.makes : text.links.accepts}
          </p>
        </div>
        <Wire link={link} />
        <div className="node">
          <h3>
            <Name>{link.name}</Name>
          </h3>
          <p className="soft">{there}</p>
          <dl className="pairs">
            <Pair label={text.links.version}>{link.version ?? text.common.none}</Pair>
            <Pair label={text.links.clock}>{clockOf(link.clock_ahead)}</Pair>
            <Pair label={text.links.sessions}>{count(link.sessions)}</Pair>
            <Pair label={text.links.certificate}>
              <span className="mono">{link.certificate}</span>
            </Pair>
          </dl>
        </div>
      </div>
      {link.simulated_distance && (
        <p className="note warn gap">
          <b>{text.links.simulated}</b> {simulated(link.simulated_distance)}
        </p>
      )}
      <LinkActions link={link} />
    </section>
  );
}

/** The line between the two arrays, with its length in time. */
function Wire({ link }: { link: ArrayConnection }) {
  const { rtt } = link;
  const broken = link.status === 'connecting' ? ' broken' : '';
  return (
    <div className={`between${broken}`}>
      <b>{rtt ? latency(rtt.median_usec) : text.common.none}</b>
      <span className="soft">{rtt ? text.links.roundTrip : text.links.noSession}</span>
      <span className="wire" aria-hidden="true" />
      {rtt && (
        <span className="soft">{text.links.between(latency(rtt.min_usec), latency(rtt.max_usec))}</span>
      )}
      <span className="soft">{text.links.traffic(size(link.sent_bytes), size(link.received_bytes))}</span>
    </div>
  );
}

function LinkActions({ link }: { link: ArrayConnection }) {
  const mayChange = useMay('array_admin');
  const { name, management_address: address } = link;
  return (
    <May need="ops_admin">
      <div className="acts rule">
        <button type="button" className="btn small" onClick={() => open({ kind: 'linkTest', name })}>
          {text.verbs.linkTest}
        </button>
        {mayChange && (
          <>
            <button type="button" className="btn small" onClick={() => open({ kind: 'distance', link })}>
              {text.verbs.distance}
            </button>
            {address !== null && (
              <button
                type="button"
                className="btn small"
                onClick={() => open({ kind: 'linkAddress', name, address })}
              >
                {text.verbs.address}
              </button>
            )}
            <button
              type="button"
              className="btn small danger"
              onClick={() => open({ kind: 'disconnectArray', name })}
            >
              {text.verbs.disconnect}
            </button>
          </>
        )}
      </div>
    </May>
  );
}
