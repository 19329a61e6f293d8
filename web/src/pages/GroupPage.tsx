/** One protection group: its schedule, its volumes, and its snapshots with what each would restore. */

import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { serverNow } from '../api/client';
import { useGroupSnapshots, useMembers, useProtectionGroups, useSnapshotsOf } from '../api/queries';
import type { GroupSnapshot, Member, ProtectionGroup } from '../api/types';
import { keptSnapshots, nextRun } from '../format/schedule';
import { absolute, duration, since } from '../format/time';
import { size } from '../format/units';
import * as groups from '../groupActions';
import { restorable } from '../groupActions';
import { Card, ErrorNote, Head, Loading, Name } from '../parts/common';
import { May, useMay } from '../parts/May';
import { open, perform } from '../parts/request';
import { momentsOf, Timeline } from '../parts/Timeline';
import { text } from '../text';

/** Snapshots in the document. */
const MOST = 100;

export function GroupPage() {
  const { name } = useParams({ from: '/protection/$name' });
  const all = useProtectionGroups();
  if (!all.data) return all.error ? <ErrorNote error={all.error} /> : <Loading />;
  const group = all.data.find((group) => group.name.toLowerCase() === name.toLowerCase());
  if (!group) {
    return (
      <div className="card center">
        <h1>{text.group.gone}</h1>
        <Link className="btn" to="/protection">
          {text.group.back}
        </Link>
      </div>
    );
  }
  return <Details group={group} />;
}

function Details({ group }: { group: ProtectionGroup }) {
  const members = useMembers({ group: group.name });
  const snapshots = useGroupSnapshots();
  const own = (snapshots.data ?? []).filter(({ source }) => source.name === group.name);
  return (
    <>
      <Head
        kicker={text.group.kicker}
        title={<Name>{group.name}</Name>}
        sub={`${text.volumes.summary(group.volume_count)} · ${text.group.size(size(group.space.total_provisioned))}`}
      >
        <May>
          <Actions group={group} />
        </May>
      </Head>
      {group.destroyed && (
        <p className="note warn gap">{text.group.destroyed(duration(group.time_remaining ?? 0))}</p>
      )}
      <ErrorNote error={members.error ?? snapshots.error} />
      <div className="grid">
        <Plan group={group} latest={own.find(({ destroyed }) => !destroyed)?.created} />
        <Volumes group={group} members={members.data ?? []} />
        <Snapshots group={group} members={members.data ?? []} snapshots={own} />
      </div>
    </>
  );
}

function Actions({ group }: { group: ProtectionGroup }) {
  const navigate = useNavigate();
  const { name } = group;
  if (group.destroyed) {
    return (
      <div className="acts">
        <button
          type="button"
          className="btn primary"
          onClick={() => perform(() => groups.setGroupDestroyed(name, false))}
        >
          {text.verbs.recover}
        </button>
        <button type="button" className="btn danger" onClick={() => open({ kind: 'eradicateGroup', name })}>
          {text.verbs.eradicate}
        </button>
      </div>
    );
  }
  const destroy = async () => {
    if (await perform(() => groups.setGroupDestroyed(name, true))) await navigate({ to: '/protection' });
  };
  return (
    <div className="acts">
      <button
        type="button"
        className="btn primary"
        disabled={group.volume_count === 0}
        title={group.volume_count === 0 ? text.errors.hint.group_has_no_members : undefined}
        onClick={() => open({ kind: 'groupSnapshot', group: name })}
      >
        {text.verbs.snapshot}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'addVolumes', group: name })}>
        {text.verbs.addVolumes}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'plan', group })}>
        {text.verbs.plan}
      </button>
      <button
        type="button"
        className="btn"
        onClick={() => open({ kind: 'rename', of: 'protectionGroup', name })}
      >
        {text.verbs.rename}
      </button>
      <button type="button" className="btn danger" onClick={destroy}>
        {text.verbs.destroy}
      </button>
    </div>
  );
}

function Plan({ group, latest }: { group: ProtectionGroup; latest: number | undefined }) {
  const { snapshot_schedule: schedule, source_retention: retention } = group;
  const now = serverNow();
  const next = group.volume_count > 0 ? nextRun(schedule, latest, now) : null;
  return (
    <Card className="c6" title={text.group.plan}>
      <p>{text.protection.plan(schedule, retention)}</p>
      {schedule.enabled && (
        <p className="soft">{text.protection.kept(keptSnapshots(schedule.frequency, retention))}</p>
      )}
      {next !== null && !group.destroyed && (
        <p className="rule" title={absolute(next)}>
          {next - now < 60_000 ? text.protection.due : text.protection.next(duration(next - now))}
        </p>
      )}
    </Card>
  );
}

function Volumes({ group, members }: { group: ProtectionGroup; members: Member[] }) {
  const isAllowed = useMay('storage_admin') && !group.destroyed;
  return (
    <Card className="c6" title={text.group.volumes}>
      {group.volume_count === 0 && <p className="soft">{text.group.noVolumes}</p>}
      <section className="scroll-y" aria-label={text.group.volumes} tabIndex={0}>
        <ul className="items">
          {members.map(({ member }) => (
            <li key={member.name}>
              <span>
                <Link to="/volumes/$name" params={{ name: member.name ?? '' }} search={{ tab: 'snapshots' }}>
                  <Name>{member.name}</Name>
                </Link>
              </span>
              {isAllowed && (
                <button
                  type="button"
                  className="btn small"
                  onClick={() => perform(() => groups.removeVolume(group.name, member.name ?? ''))}
                >
                  {text.verbs.remove}
                </button>
              )}
            </li>
          ))}
        </ul>
      </section>
    </Card>
  );
}

type SnapshotsProps = { group: ProtectionGroup; members: Member[]; snapshots: GroupSnapshot[] };

function Snapshots({ group, members, snapshots }: SnapshotsProps) {
  const volumes = members.map(({ member }) => member.name ?? '');
  const taken = useSnapshotsOf(volumes);
  const isAllowed = useMay('storage_admin') && !group.destroyed;
  const now = serverNow();
  const oldest = snapshots.at(-1)?.created;
  return (
    <Card title={text.group.snapshots}>
      <ErrorNote error={taken.error} />
      {snapshots.length === 0 && <p className="soft">{text.group.noSnapshots}</p>}
      {oldest !== undefined && (
        <>
          <Timeline
            moments={momentsOf(snapshots)}
            span={[oldest, Math.max(now, oldest + 1)]}
            label={text.group.snapshots}
          />
          <p className="axis wide soft" aria-hidden="true">
            <span>{absolute(oldest)}</span>
            <span>{text.protection.now}</span>
          </p>
        </>
      )}
      <ul className="items">
        {snapshots.slice(0, MOST).map((snapshot) => {
          const back = restorable(snapshot.name, members, taken.data ?? []);
          const words =
            back.length > 0 ? text.group.restorable(back.length, volumes.length) : text.group.none;
          return (
            <li key={snapshot.id}>
              <span>
                <b>
                  <Name>{snapshot.suffix}</Name>
                </b>
                <small title={absolute(snapshot.created)}>
                  {text.common.ago(since(snapshot.created, now))}
                  {snapshot.destroyed
                    ? ` · ${text.volume.remaining(duration(snapshot.time_remaining ?? 0))}`
                    : taken.data && ` · ${words}`}
                </small>
              </span>
              {isAllowed && <SnapshotActions snapshot={snapshot} volumes={back} />}
            </li>
          );
        })}
      </ul>
      {snapshots.length > MOST && <p className="rule">{text.common.more(snapshots.length - MOST)}</p>}
    </Card>
  );
}

function SnapshotActions({ snapshot, volumes }: { snapshot: GroupSnapshot; volumes: string[] }) {
  const { name } = snapshot;
  if (snapshot.destroyed) {
    return (
      <button
        type="button"
        className="btn small"
        onClick={() => perform(() => groups.setSnapshotDestroyed(name, false))}
      >
        {text.verbs.recover}
      </button>
    );
  }
  return (
    <span className="acts">
      <button
        type="button"
        className="btn small"
        disabled={volumes.length === 0}
        onClick={() => open({ kind: 'restoreGroup', snapshot: name, volumes })}
      >
        {text.verbs.restore}
      </button>
      <button
        type="button"
        className="btn small danger"
        onClick={() => perform(() => groups.setSnapshotDestroyed(name, true))}
      >
        {text.verbs.destroy}
      </button>
    </span>
  );
}
