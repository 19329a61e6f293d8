/** Protection groups and volumes over time: to which times each can go back, and which volumes have none. */

import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { serverNow } from '../api/client';
import { RANGES, type Range } from '../api/history';
import { useAllSnapshots, useGroupSnapshots, useLargestVolumes, useProtectionGroups } from '../api/queries';
import type { GroupSnapshot, ProtectionGroup, Snapshot } from '../api/types';
import { absolute, duration, since } from '../format/time';
import { Card, ErrorNote, Head, Loading, Name } from '../parts/common';
import { FilterField } from '../parts/filters';
import { Icon } from '../parts/Icon';
import { May } from '../parts/May';
import { open } from '../parts/request';
import { momentsOf, Timeline } from '../parts/Timeline';
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
  const groups = useProtectionGroups();
  const ofGroups = useGroupSnapshots();
  const [typed, setTyped] = useState('');
  const rows = useMemo(() => byVolume(snapshots.data ?? []), [snapshots.data]);
  if (!snapshots.data) return snapshots.error ? <ErrorNote error={snapshots.error} /> : <Loading />;
  const range = search.range ?? DEFAULT;
  const now = serverNow();
  const span: [number, number] = [now - RANGES[range].length, now];
  const covered = rows.filter(({ present }) => present > 0).length;
  const total = volumes.data?.total_item_count ?? covered;
  const wanted = typed.trim().toLowerCase();
  const matches = rows.filter(({ name }) => name.toLowerCase().includes(wanted));
  const shown = (groups.data ?? []).filter(({ name }) => name.toLowerCase().includes(wanted));
  const isEmpty = rows.length === 0 && groups.data?.length === 0;
  return (
    <>
      <Head
        kicker={text.protection.kicker}
        title={text.protection.title}
        sub={text.protection.summary(snapshots.data.length, covered, Math.max(0, total - covered))}
      >
        <div className="acts">
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
          <May>
            <button
              type="button"
              className="btn primary"
              onClick={() => open({ kind: 'protectionGroup', names: [] })}
            >
              <Icon name="plus" />
              {text.verbs.newGroup}
            </button>
          </May>
        </div>
      </Head>
      {!isEmpty && <FilterField label={text.protection.filter} value={typed} change={setTyped} />}
      <ErrorNote error={groups.error ?? ofGroups.error} />
      <div className="grid">
        {(shown.length > 0 || wanted === '') && (
          <Card title={text.protection.groups} note={text.protection.groupsNote}>
            {groups.data?.length === 0 && <p className="soft">{text.protection.noGroups}</p>}
            {shown.length > 0 && <Axis from={span[0]} />}
            <ul className="items protected">
              {shown.map((group) => (
                <GroupRow
                  key={group.id}
                  group={group}
                  snapshots={(ofGroups.data ?? []).filter(({ source }) => source.name === group.name)}
                  span={span}
                  now={now}
                />
              ))}
            </ul>
          </Card>
        )}
        {(matches.length > 0 || wanted === '') && (
          <Card title={text.protection.volumes}>
            {rows.length === 0 && (
              <>
                <p className="soft">{text.protection.empty}</p>
                <p className="rule">
                  <Link className="btn" to="/volumes">
                    {text.protection.toVolumes}
                  </Link>
                </p>
              </>
            )}
            {matches.length > 0 && <Axis from={span[0]} />}
            <ul className="items protected">
              {matches.slice(0, MOST).map((row) => (
                <Row key={row.name} row={row} span={span} now={now} />
              ))}
            </ul>
            {matches.length > MOST && <p className="rule">{text.common.more(matches.length - MOST)}</p>}
          </Card>
        )}
      </div>
      {matches.length === 0 && shown.length === 0 && wanted !== '' && (
        <p className="card center">{text.protection.noMatch}</p>
      )}
    </>
  );
}

function Axis({ from }: { from: number }) {
  return (
    <p className="axis soft" aria-hidden="true">
      <span>{absolute(from)}</span>
      <span>{text.protection.now}</span>
    </p>
  );
}

type GroupRowProps = {
  group: ProtectionGroup;
  snapshots: GroupSnapshot[];
  span: [number, number];
  now: number;
};

function GroupRow({ group, snapshots, span, now }: GroupRowProps) {
  const present = snapshots.filter(({ destroyed }) => !destroyed);
  const latest = present[0] ? text.common.ago(since(present[0].created, now)) : text.common.none;
  const summary = text.protection.groupRow(group.volume_count, present.length, latest);
  return (
    <li>
      <span>
        <Link to="/protection/$name" params={{ name: group.name }}>
          <Name>{group.name}</Name>
        </Link>
        <small>{summary}</small>
        <small>
          {group.destroyed
            ? text.group.destroyed(duration(group.time_remaining ?? 0))
            : text.protection.plan(group.snapshot_schedule, group.source_retention)}
        </small>
      </span>
      <Timeline moments={momentsOf(snapshots)} span={span} label={`${group.name}: ${summary}`} />
    </li>
  );
}

function Row({ row, span, now }: { row: Protected; span: [number, number]; now: number }) {
  const last = row.latest > 0 ? text.common.ago(since(row.latest, now)) : text.common.none;
  const summary = text.protection.row(row.present, last);
  return (
    <li>
      <span>
        <Link to="/volumes/$name" params={{ name: row.name }} search={{ tab: 'snapshots' }}>
          <Name>{row.name}</Name>
        </Link>
        <small>{summary}</small>
      </span>
      <Timeline moments={momentsOf(row.snapshots)} span={span} label={`${row.name}: ${summary}`} />
    </li>
  );
}
