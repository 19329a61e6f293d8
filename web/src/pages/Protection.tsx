/** Volumes and their snapshots over time: to which times each can go back, and which volumes have none. */

import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { serverNow } from '../api/client';
import { RANGES, type Range } from '../api/history';
import { useAllSnapshots, useLargestVolumes } from '../api/queries';
import type { Snapshot } from '../api/types';
import { absolute, since } from '../format/time';
import { ErrorNote, Head, Loading, Name } from '../parts/common';
import { Icon } from '../parts/Icon';
import { Timeline } from '../parts/Timeline';
import { text } from '../text';

/** Volumes in the document. A filter finds the others. */
const MOST = 100;
const SPANS: Range[] = ['24h', '7d', '30d', '1y'];
const DEFAULT: Range = '7d';

type Protected = { name: string; snapshots: Snapshot[]; present: number; latest: number };

/** Snapshots by volume, the latest protected first. */
export function byVolume(snapshots: Snapshot[]): Protected[] {
  const groups = new Map<string, Snapshot[]>();
  for (const snapshot of snapshots) {
    const name = snapshot.source.name ?? '';
    const group = groups.get(name);
    if (group) group.push(snapshot);
    else groups.set(name, [snapshot]);
  }
  return [...groups]
    .map(([name, snapshots]) => {
      const present = snapshots.filter(({ destroyed }) => !destroyed);
      const latest = Math.max(0, ...present.map(({ created }) => created));
      return { name, snapshots, present: present.length, latest };
    })
    .toSorted((a, b) => b.latest - a.latest);
}

export function Protection() {
  const search = useSearch({ from: '/protection' });
  const navigate = useNavigate({ from: '/protection' });
  const snapshots = useAllSnapshots();
  const volumes = useLargestVolumes();
  const [typed, setTyped] = useState('');
  const rows = useMemo(() => byVolume(snapshots.data ?? []), [snapshots.data]);
  if (!snapshots.data) return snapshots.error ? <ErrorNote error={snapshots.error} /> : <Loading />;
  const range = search.range ?? DEFAULT;
  const now = serverNow();
  const span: [number, number] = [now - RANGES[range].length, now];
  const covered = rows.filter(({ present }) => present > 0).length;
  const total = volumes.data?.total_item_count ?? covered;
  const matches = rows.filter(({ name }) => name.toLowerCase().includes(typed.trim().toLowerCase()));
  return (
    <>
      <Head
        kicker={text.protection.kicker}
        title={text.protection.title}
        sub={text.protection.summary(snapshots.data.length, covered, Math.max(0, total - covered))}
      >
        <fieldset className="segments ranges">
          <legend className="vh">{text.charts.range}</legend>
          {SPANS.map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={one === range}
              onClick={() => navigate({ to: '.', search: { range: one }, replace: true })}
            >
              {text.charts.ranges[one]}
            </button>
          ))}
        </fieldset>
      </Head>
      {rows.length === 0 ? (
        <div className="card center">
          <p>{text.protection.empty}</p>
          <Link className="btn" to="/volumes">
            {text.protection.toVolumes}
          </Link>
        </div>
      ) : (
        <>
          <div className="filter">
            <Icon name="search" />
            <input
              type="search"
              aria-label={text.volumes.filter}
              placeholder={text.volumes.filter}
              value={typed}
              onChange={(event) => setTyped(event.currentTarget.value)}
            />
            <kbd>/</kbd>
          </div>
          <section className="card" aria-label={text.protection.title}>
            <p className="axis soft" aria-hidden="true">
              <span>{absolute(span[0])}</span>
              <span>{text.protection.now}</span>
            </p>
            <ul className="items protected">
              {matches.slice(0, MOST).map((row) => (
                <Row key={row.name} row={row} span={span} now={now} />
              ))}
            </ul>
            {matches.length === 0 && <p className="soft">{text.volumes.noMatch}</p>}
            {matches.length > MOST && <p className="rule">{text.common.more(matches.length - MOST)}</p>}
          </section>
        </>
      )}
    </>
  );
}

function Row({ row, span, now }: { row: Protected; span: [number, number]; now: number }) {
  const last = row.latest > 0 ? text.common.ago(since(row.latest, now)) : text.common.none;
  const summary = text.protection.row(row.present, last);
  const moments = row.snapshots.map(({ id, created, suffix, destroyed }) => ({
    key: id,
    time: created,
    label: suffix,
    isFaint: destroyed,
  }));
  return (
    <li>
      <span>
        <Link to="/volumes/$name" params={{ name: row.name }} search={{ tab: 'snapshots' }}>
          <Name>{row.name}</Name>
        </Link>
        <small>{summary}</small>
      </span>
      <Timeline moments={moments} span={span} label={`${row.name}: ${summary}`} />
    </li>
  );
}
