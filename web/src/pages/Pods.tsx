/** All pods: volumes, sizes against quotas, and where each pod is. */

import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useEffect, useMemo, useState } from 'react';
import { usePods } from '../api/queries';
import type { Pod } from '../api/types';
import { OF_PODS, translate } from '../format/filter';
import { duration } from '../format/time';
import { chosenSize, percent, ratio } from '../format/units';
import { Bar, ErrorNote, Head, Loading, Name, Size } from '../parts/common';
import { DestroyedSwitch, FilterField } from '../parts/filters';
import { Icon } from '../parts/Icon';
import { May, useMay } from '../parts/May';
import { open } from '../parts/request';
import { isStretched } from '../stretchActions';
import { text } from '../text';

const { columns } = text.pods;
const FROM = '/pods';

export function Pods() {
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: FROM });
  const [typed, setTyped] = useState(search.f ?? '');
  const isDestroyed = search.destroyed === true;
  const filter = useMemo(() => translate(search.f ?? '', OF_PODS), [search.f]);
  const pods = usePods({ filter, sort: search.sort ?? 'name', destroyed: isDestroyed });
  useEffect(() => setTyped(search.f ?? ''), [search.f]);
  useEffect(() => {
    if (typed === (search.f ?? '')) return;
    const timer = setTimeout(() => {
      navigate({ to: '.', search: (old) => ({ ...old, f: typed || undefined }), replace: true });
    }, 200);
    return () => clearTimeout(timer);
  }, [typed, search.f, navigate]);
  const setDestroyed = (destroyed: boolean) =>
    navigate({ to: '.', search: (old) => ({ ...old, destroyed: destroyed || undefined }) });
  const n = pods.data?.length ?? 0;
  const summary = search.f ? text.pods.matching(n) : text.pods.summary(n);
  const stretched = (pods.data ?? []).filter(isStretched).length;
  return (
    <>
      <Head
        kicker={text.pods.kicker}
        title={text.pods.title}
        sub={pods.data && `${summary}${text.pods.stretched(stretched)}.`}
      >
        <div className="acts">
          <PodViews />
          <DestroyedSwitch isDestroyed={isDestroyed} change={setDestroyed} />
          <May>
            <button type="button" className="btn primary" onClick={() => open({ kind: 'pod' })}>
              <Icon name="plus" />
              {text.verbs.newPod}
            </button>
          </May>
        </div>
      </Head>
      <FilterField label={text.pods.filter} hint={text.pods.filterHint} value={typed} change={setTyped} />
      <ErrorNote error={pods.error} />
      {pods.isLoading && <Loading />}
      {pods.data?.length === 0 && !pods.error && (
        <Empty isFiltered={filter !== ''} isDestroyed={isDestroyed} clear={() => setTyped('')} />
      )}
      {n > 0 && <Table pods={pods.data ?? []} sort={search.sort ?? 'name'} isDestroyed={isDestroyed} />}
    </>
  );
}

/** Pods, or the arrays to which this one is connected. */
export function PodViews() {
  return (
    <nav className="segments" aria-label={text.pods.views}>
      <Link to="/pods">{text.nav.pods}</Link>
      <Link to="/array-connections">{text.nav.arrayConnections}</Link>
    </nav>
  );
}

type EmptyProps = { isFiltered: boolean; isDestroyed: boolean; clear: () => void };

function Empty({ isFiltered, isDestroyed, clear }: EmptyProps) {
  const isAllowed = useMay('storage_admin');
  if (isFiltered) {
    return (
      <div className="card center">
        <p>{text.pods.noMatch}</p>
        <button type="button" className="btn" onClick={clear}>
          {text.volumes.clear}
        </button>
      </div>
    );
  }
  return (
    <div className="card center">
      <p>{isDestroyed ? text.pods.emptyDestroyed : text.pods.empty}</p>
      {!isDestroyed && isAllowed && (
        <button type="button" className="btn primary" onClick={() => open({ kind: 'pod' })}>
          {text.verbs.newPod}
        </button>
      )}
    </div>
  );
}

/** Field in the array, label, and class of the column. */
const SORTABLE: [field: string, label: string, className: string][] = [
  ['name', columns.name, ''],
  ['volume_count', columns.volumes, 'right wide-only'],
  ['space.used_provisioned', columns.size, 'right wide-only'],
  ['quota_limit', columns.quota, 'wide-only'],
  ['space.total_physical', columns.stored, 'right'],
];

type TableProps = { pods: Pod[]; sort: string; isDestroyed: boolean };

function Table({ pods, sort, isDestroyed }: TableProps) {
  const navigate = useNavigate({ from: FROM });
  const isDown = sort.endsWith('-');
  const sorted = sort.replace(/-$/, '');
  const choose = (field: string) => {
    const down = field === sorted ? !isDown : field !== 'name';
    navigate({ to: '.', search: (old) => ({ ...old, sort: `${field}${down ? '-' : ''}` }) });
  };
  return (
    <section className="card scroll-x" aria-label={text.pods.title} tabIndex={0}>
      <table className="table pods">
        <thead>
          <tr>
            {SORTABLE.map(([field, label, className]) => (
              <th
                key={field}
                className={className}
                aria-sort={field === sorted ? (isDown ? 'descending' : 'ascending') : undefined}
              >
                <button type="button" className="sort" onClick={() => choose(field)}>
                  {label}
                  {field === sorted && <span aria-hidden="true">{isDown ? ' ↓' : ' ↑'}</span>}
                </button>
              </th>
            ))}
            <th className="wide-only">{columns.arrays}</th>
            <th>{isDestroyed ? text.volumes.columns.remaining : columns.state}</th>
          </tr>
        </thead>
        <tbody>
          {pods.map((pod) => (
            <Row key={pod.id} pod={pod} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Row({ pod }: { pod: Pod }) {
  const used = pod.space.used_provisioned ?? 0;
  const { quota_limit: quota, space } = pod;
  return (
    <tr>
      <td>
        <Link to="/pods/$name" params={{ name: pod.name }}>
          <Name>{pod.name}</Name>
        </Link>
        <small className="small-only">{text.pods.row(pod.volume_count, chosenSize(used))}</small>
      </td>
      <td className="right wide-only">{pod.volume_count}</td>
      <td className="right wide-only">{chosenSize(used)}</td>
      <td className="wide-only quota">
        <Quota quota={quota} used={used} />
      </td>
      <td className="right">
        <Size bytes={space.total_physical} />
        {(space.virtual ?? 0) > 0 && <small className="wide-only">{ratio(space.data_reduction)}</small>}
      </td>
      <td className="wide-only break">
        <Name>{pod.arrays.map(({ name }) => name).join(', ')}</Name>
      </td>
      <td className={isStretched(pod) ? 'break' : 'nowrap'}>
        {pod.destroyed ? (
          <span className="soft">{duration(pod.time_remaining ?? 0)}</span>
        ) : (
          <State pod={pod} />
        )}
      </td>
    </tr>
  );
}

/** The quota of a pod, and how much of it its volumes have. */
function Quota({ quota, used }: { quota: number | null; used: number }) {
  if (quota === null) return <span className="soft">{text.pod.noQuota}</span>;
  return (
    <>
      {chosenSize(quota)}
      <Bar part={used} whole={quota} className={used > quota ? 'over' : ''} />
      <span className="vh">{text.pods.quotaUsed(percent(used, quota))}</span>
    </>
  );
}

/** The state of a pod on each of its arrays, with the names of two. */
function State({ pod }: { pod: Pod }) {
  return pod.arrays.map(({ id, name, status }) => (
    <span key={id} className="of-array">
      {isStretched(pod) && <Name>{name}</Name>} <StateChip status={status} />
    </span>
  ));
}

/** The state of a pod on an array, in the words of the array. Only what is not normal has a colour. */
export function StateChip({ status }: { status: string }) {
  return <span className={`chip ${status === 'online' ? '' : 'warning'}`}>{status}</span>;
}
