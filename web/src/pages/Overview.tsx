/** The first page: is all data served, how full is the array, what needs a look. */

import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import * as actions from '../actions';
import { DEFAULT_RANGE } from '../api/history';
import {
  useActive,
  useArray,
  useDestroyedVolumes,
  useHosts,
  useLargestVolumes,
  useOpenAlerts,
} from '../api/queries';
import type { Alert, ArrayInfo } from '../api/types';
import { bandwidth, latency, rate } from '../format/rates';
import { duration, since } from '../format/time';
import { percent, ratio, size, sizeParts } from '../format/units';
import { Bar, Card, ErrorNote, Head, Loading, Name, Size } from '../parts/common';
import { Icon } from '../parts/Icon';
import { May } from '../parts/May';
import { ByReference } from '../parts/Offloads';
import { PerformanceCharts, RangeChoice } from '../parts/PerformanceCharts';
import { perform } from '../parts/request';
import { text } from '../text';
import { Remedy } from './Alerts';
import { busiest } from './busiest';
import { sentence } from './sentence';

const MOST_ALERTS = 5;

export function Overview() {
  const search = useSearch({ from: '/' });
  const navigate = useNavigate({ from: '/' });
  const array = useArray();
  const alerts = useOpenAlerts();
  const volumes = useLargestVolumes();
  const hosts = useHosts();
  if (!array.data) return array.error ? <ErrorNote error={array.error} /> : <Loading />;
  const counts = text.overview.counts(volumes.data?.total_item_count ?? 0, hosts.data?.length ?? 0);
  const isNew = volumes.data?.total_item_count === 0;
  const range = search.range ?? DEFAULT_RANGE;
  return (
    <>
      <Head
        kicker={text.overview.kicker(array.data.name)}
        title={sentence(array.data.status, alerts.data ?? [])}
        sub={volumes.data && hosts.data && counts}
      >
        {isNew ? (
          <Link className="btn primary" to="/first-run">
            {text.overview.first}
          </Link>
        ) : (
          <RangeChoice
            range={range}
            choose={(range) => navigate({ to: '.', search: { range }, replace: true })}
          />
        )}
      </Head>
      <Attention alerts={alerts.data ?? []} />
      <div className="grid">
        <div className="c7 stack">
          <Capacity array={array.data} />
          <Recoverable />
        </div>
        <Card className="c5" title={text.offloads.title} note={text.offloads.note}>
          <ByReference of={{}} />
        </Card>
        <div>
          <PerformanceCharts subject={{ kind: 'arrays' }} range={range} />
        </div>
        <Busiest />
        <Largest />
      </div>
    </>
  );
}

function Attention({ alerts }: { alerts: Alert[] }) {
  if (alerts.length === 0) return null;
  const worst = alerts.toSorted(
    (a, b) => Number(b.severity === 'critical') - Number(a.severity === 'critical'),
  );
  const now = Date.now();
  return (
    <ul className="attention">
      {worst.slice(0, MOST_ALERTS).map((alert) => (
        <li key={alert.id} className={alert.severity}>
          <Icon name={alert.severity === 'info' ? 'info' : 'warn'} />
          <p>
            <b>
              <bdi>{alert.summary}</bdi>
            </b>
            <small>
              {text.alerts.since(since(alert.created, now))} · {alert.description}
            </small>
          </p>
          <Remedy alert={alert} />
        </li>
      ))}
      {alerts.length > MOST_ALERTS && (
        <li>
          <Link to="/alerts">{text.common.more(alerts.length - MOST_ALERTS)}</Link>
        </li>
      )}
    </ul>
  );
}

function Figure({ bytes }: { bytes: number }) {
  const [figure, unit] = sizeParts(bytes);
  return (
    <span className="value">
      {figure} <small>{unit}</small>
    </span>
  );
}

function Capacity({ array }: { array: ArrayInfo }) {
  const space = array.space;
  const [provisioned, written] = [space.total_provisioned, space.virtual ?? 0];
  const stored = (space.unique ?? 0) + (space.shared ?? 0);
  const used = space.total_physical ?? 0;
  const parts: [string, string, number][] = [
    ['unique', text.overview.unique, space.unique ?? 0],
    ['shared', text.overview.shared, space.shared ?? 0],
    ['snapshots', text.overview.snapshots, space.snapshots],
    ['system', text.overview.system, space.system ?? 0],
  ];
  const free = Math.max(0, array.capacity - used);
  const age = space.as_of ? Date.now() - space.as_of : 0;
  return (
    <Card
      title={text.overview.capacity}
      note={text.overview.capacityNote}
      end={age > 120_000 && <span className="soft">{text.common.counted(duration(age))}</span>}
    >
      <ul className="flow">
        <li>
          <span className="key">{text.overview.provisioned}</span>
          <Figure bytes={provisioned} />
          <span className="ratio" />
          <Bar part={1} whole={provisioned > 0 ? 1 : 0} />
        </li>
        <li>
          <span className="key">{text.overview.written}</span>
          <Figure bytes={written} />
          <span className="ratio plain">
            {written > 0 && text.overview.thin(ratio(provisioned / written))}
          </span>
          <Bar part={written} whole={provisioned} />
        </li>
        <li>
          <span className="key">{text.overview.stored}</span>
          <Figure bytes={stored} />
          <span className="ratio">{written > 0 && text.overview.reduction(ratio(space.data_reduction))}</span>
          <Bar part={stored} whole={provisioned} className="by-reference" />
        </li>
      </ul>
      <div
        className="pool"
        role="img"
        aria-label={`${text.overview.pool}: ${parts.map(([, label, bytes]) => `${label} ${size(bytes)}`).join(', ')}`}
      >
        {parts.map(([kind, , bytes]) => (
          <i key={kind} className={kind} style={{ width: `${(100 * bytes) / array.capacity}%` }} />
        ))}
      </div>
      <ul className="legend">
        {[...parts, ['free', text.overview.free, free] as const].map(([kind, label, bytes]) => (
          <li key={kind}>
            <i className={kind} />
            {label}{' '}
            <b>
              <Size bytes={bytes} />
            </b>
          </li>
        ))}
      </ul>
      <p className="rule">
        {text.overview.inUse(size(used), size(array.capacity), percent(used, array.capacity))}
      </p>
    </Card>
  );
}

function Busiest() {
  const active = useActive();
  const volumes = busiest(active.data ?? []);
  return (
    <Card className="c7" title={text.overview.busiest} note={text.overview.busiestNote}>
      {volumes.length === 0 && <p className="soft">{text.overview.idle}</p>}
      {volumes.length > 0 && (
        <div className="scroll-x">
          <table className="table">
            <thead>
              <tr>
                <th>{text.volumes.columns.name}</th>
                <th className="right">{text.overview.iops}</th>
                <th className="right">{text.overview.bandwidth}</th>
                <th className="right">{text.overview.latency}</th>
                <th>{text.overview.limitedBy}</th>
              </tr>
            </thead>
            <tbody>
              {volumes.map((volume) => (
                <tr key={volume.name}>
                  <td>
                    <Link
                      to="/volumes/$name"
                      params={{ name: volume.name.split('.')[0] ?? '' }}
                      search={{ tab: 'performance' }}
                    >
                      <Name>{volume.name}</Name>
                    </Link>
                  </td>
                  <td className="right">{rate(volume.iops)}</td>
                  <td className="right">{bandwidth(volume.bytes)}</td>
                  <td className="right">{latency(volume.usec)}</td>
                  <td>
                    {volume.isLimited ? (
                      <span className="chip warning">{text.overview.ownLimit}</span>
                    ) : (
                      <span className="soft">{text.overview.nothing}</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Largest() {
  const volumes = useLargestVolumes();
  return (
    <Card
      className="c5"
      title={text.overview.largest}
      note={text.overview.largestNote}
      end={<Link to="/volumes">{text.common.show}</Link>}
    >
      {volumes.data?.items.length === 0 ? (
        <p className="soft">{text.overview.noVolumes}</p>
      ) : (
        <table className="table">
          <thead>
            <tr>
              <th>{text.volumes.columns.name}</th>
              <th className="right">{text.volumes.columns.written}</th>
              <th className="right">{text.volumes.columns.stored}</th>
            </tr>
          </thead>
          <tbody>
            {volumes.data?.items.map((volume) => (
              <tr key={volume.id}>
                <td>
                  <Link to="/volumes/$name" params={{ name: volume.name }}>
                    <Name>{volume.name}</Name>
                  </Link>
                </td>
                <td className="right">
                  <Size bytes={volume.space.virtual} />
                </td>
                <td className="right">
                  <Size bytes={volume.space.total_physical} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Recoverable() {
  const volumes = useDestroyedVolumes();
  const more = (volumes.data?.total_item_count ?? 0) - (volumes.data?.items.length ?? 0);
  return (
    <Card
      title={text.overview.recoverable}
      note={text.overview.recoverableNote}
      end={
        <Link to="/volumes" search={{ destroyed: true }}>
          {more > 0 ? text.common.more(more) : text.common.show}
        </Link>
      }
    >
      {volumes.data?.items.length === 0 && <p className="soft">{text.overview.nothingDestroyed}</p>}
      <ul className="items">
        {volumes.data?.items.map((volume) => (
          <li key={volume.id}>
            <span>
              <b>
                <Name>{volume.name}</Name>
              </b>
              <small>{text.volume.remaining(duration(volume.time_remaining ?? 0))}</small>
            </span>
            <Size bytes={volume.space.total_physical} />
            <May>
              <button
                type="button"
                className="btn small"
                onClick={() => perform(() => actions.recover([volume.name]))}
              >
                {text.verbs.recover}
              </button>
            </May>
          </li>
        ))}
      </ul>
    </Card>
  );
}
