/** One volume, beside the list: space, identity, snapshots, connections. */

import { Drawer, Menu, Tabs } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import * as actions from '../actions';
import { DEFAULT_RANGE } from '../api/history';
import { useArray, useConnections, useMembers, useSnapshots, useVolume } from '../api/queries';
import type { Snapshot, Volume } from '../api/types';
import { absolute, duration, since } from '../format/time';
import { chosenSize, exactSize, ratio, size } from '../format/units';
import { ErrorNote, Loading, Name, Size } from '../parts/common';
import { May, useMay } from '../parts/May';
import { ByReference } from '../parts/Offloads';
import { PerformanceCharts, RangeChoice } from '../parts/PerformanceCharts';
import { open, perform } from '../parts/request';
import { momentsOf, Timeline } from '../parts/Timeline';
import { text } from '../text';

export function VolumeDrawer() {
  const { name } = useParams({ from: '/volumes/$name' });
  const navigate = useNavigate();
  const volume = useVolume(name);
  const coversPage = useMediaQuery('(max-width: 640px)') ?? false;
  const close = () => navigate({ to: '/volumes', search: (old) => old });
  return (
    <Drawer
      opened
      onClose={close}
      position="right"
      size={600}
      title={<Name>{name}</Name>}
      classNames={{ title: 'drawer-title' }}
      closeButtonProps={{ 'aria-label': text.common.close }}
      transitionProps={{ duration: 120 }}
      withOverlay={coversPage}
      lockScroll={coversPage}
      trapFocus={coversPage}
      closeOnClickOutside={false}
    >
      {volume.data && <Details volume={volume.data} />}
      {!volume.data && volume.error && (
        <div className="form">
          <p>{text.volume.gone}</p>
          <ErrorNote error={volume.error} />
          <button type="button" className="btn" onClick={close}>
            {text.volume.backToList}
          </button>
        </div>
      )}
      {volume.isLoading && <Loading />}
    </Drawer>
  );
}

function Details({ volume }: { volume: Volume }) {
  const { tab } = useSearch({ from: '/volumes' });
  const navigate = useNavigate();
  const choose = (tab: string | null) =>
    navigate({ to: '.', search: (old) => ({ ...old, tab: tab ?? undefined }), replace: true });
  return (
    <>
      <p className="soft">
        {chosenSize(volume.provisioned)} · {text.volumes.row(volume.connection_count)}
      </p>
      {volume.destroyed && (
        <p className="note warn">{text.volume.remaining(duration(volume.time_remaining ?? 0))}</p>
      )}
      <May>
        <Actions volume={volume} />
      </May>
      <Tabs value={tab ?? 'summary'} onChange={choose} keepMounted={false} color="var(--mark)">
        <Tabs.List>
          <Tabs.Tab value="summary">{text.volume.tabs.summary}</Tabs.Tab>
          <Tabs.Tab value="performance">{text.volume.tabs.performance}</Tabs.Tab>
          <Tabs.Tab value="snapshots">{text.volume.tabs.snapshots}</Tabs.Tab>
          <Tabs.Tab value="connections">{text.volume.tabs.connections}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="summary">
          <Summary volume={volume} />
        </Tabs.Panel>
        <Tabs.Panel value="performance">
          <Performance volume={volume} />
        </Tabs.Panel>
        <Tabs.Panel value="snapshots">
          <Snapshots volume={volume} />
        </Tabs.Panel>
        <Tabs.Panel value="connections">
          <Connections volume={volume} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

function Actions({ volume }: { volume: Volume }) {
  const names = [volume.name];
  if (volume.destroyed) {
    return (
      <div className="acts drawer-acts">
        <button type="button" className="btn primary" onClick={() => perform(() => actions.recover(names))}>
          {text.verbs.recover}
        </button>
        <button
          type="button"
          className="btn danger"
          onClick={() => open({ kind: 'eradicate', name: volume.name })}
        >
          {text.verbs.eradicate}
        </button>
      </div>
    );
  }
  const isConnected = volume.connection_count > 0;
  return (
    <div className="acts drawer-acts">
      <button type="button" className="btn" onClick={() => open({ kind: 'snapshot', names })}>
        {text.verbs.snapshot}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'connect', names })}>
        {text.verbs.connect}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'clone', source: volume.name })}>
        {text.verbs.clone}
      </button>
      <Menu position="bottom-end" withinPortal={false}>
        <Menu.Target>
          <button type="button" className="btn" aria-label={text.volume.actions}>
            …
          </button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => open({ kind: 'rename', of: 'volume', name: volume.name })}>
            {text.verbs.rename}
          </Menu.Item>
          <Menu.Item onClick={() => open({ kind: 'resize', volume })}>{text.verbs.resize}</Menu.Item>
          <Menu.Item onClick={() => open({ kind: 'move', names })}>{text.verbs.move}</Menu.Item>
          <Menu.Item onClick={() => open({ kind: 'limits', volume })}>{text.verbs.limits}</Menu.Item>
          <Menu.Item onClick={() => open({ kind: 'protect', names })}>{text.verbs.protect}</Menu.Item>
          <Menu.Item
            color="var(--bad)"
            disabled={isConnected}
            title={isConnected ? text.volume.connected : undefined}
            onClick={() => perform(() => actions.destroy(names))}
          >
            {text.verbs.destroy}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}

function Summary({ volume }: { volume: Volume }) {
  const array = useArray();
  const { space } = volume;
  const isCounted = space.unique !== null;
  const stored = space.total_physical ?? 0;
  const parts: [string, string, number][] = [
    ['unique', text.volume.onlyHere, space.unique ?? 0],
    ['shared', text.volume.sharedPart, space.shared ?? 0],
    ['snapshots', text.volume.snapshotsOnly, space.snapshots],
  ];
  const freed = (space.unique ?? 0) + space.snapshots;
  const delay = duration(array.data?.eradication_config.eradication_delay ?? 0);
  return (
    <div className="drawer-body">
      <section>
        <h3>{text.volume.space}</h3>
        {!isCounted && <p className="soft">{text.volume.notCounted}</p>}
        {isCounted && (
          <>
            <p>
              {text.volumes.writtenOf(size(space.virtual), chosenSize(volume.provisioned))}
              {space.virtual ? ` · ${ratio(space.data_reduction)}` : ''}
            </p>
            <div className="pool gap" aria-hidden="true">
              {parts.map(([kind, , bytes]) => (
                <i
                  key={kind}
                  className={kind}
                  style={{ width: `${stored > 0 ? (100 * bytes) / stored : 0}%` }}
                />
              ))}
            </div>
            <ul className="legend">
              {parts.map(([kind, label, bytes]) => (
                <li key={kind}>
                  <i className={kind} />
                  {label}{' '}
                  <b>
                    <Size bytes={bytes} />
                  </b>
                </li>
              ))}
            </ul>
            {!volume.destroyed && <p className="note gap">{text.volume.frees(size(freed), delay)}</p>}
          </>
        )}
      </section>
      <section>
        <h3>{text.volume.identity}</h3>
        <dl className="pairs">
          <Pair label={text.volume.naa}>
            <span className="mono">naa.624a9370{volume.serial.toLowerCase()}</span>
          </Pair>
          <Pair label={text.volume.serial}>
            <span className="mono">{volume.serial}</span>
          </Pair>
          <Pair label={text.common.size}>{exactSize(volume.provisioned)}</Pair>
          <Pair label={text.volume.created}>{absolute(volume.created)}</Pair>
          {volume.source.name && (
            <Pair label={text.volume.source}>
              <Name>{volume.source.name}</Name>
            </Pair>
          )}
          {volume.pod.name && (
            <Pair label={text.volume.pod}>
              <Link to="/pods/$name" params={{ name: volume.pod.name }}>
                <Name>{volume.pod.name}</Name>
              </Link>
            </Pair>
          )}
          {volume.volume_group.name && (
            <Pair label={text.volume.volumeGroup}>
              <Name>{volume.volume_group.name}</Name>
            </Pair>
          )}
          <Pair label={text.volume.limits}>{limits(volume)}</Pair>
          <Groups volume={volume} />
          {volume.threshold_percent !== null && (
            <Pair label={text.volume.threshold}>{`${volume.threshold_percent}\u00a0%`}</Pair>
          )}
        </dl>
      </section>
    </div>
  );
}

function Performance({ volume }: { volume: Volume }) {
  const { range } = useSearch({ from: '/volumes' });
  const navigate = useNavigate();
  return (
    <div className="drawer-body">
      <div>
        <RangeChoice
          range={range ?? DEFAULT_RANGE}
          choose={(range) => navigate({ to: '.', search: (old) => ({ ...old, range }), replace: true })}
        />
      </div>
      <div>
        <PerformanceCharts subject={{ kind: 'volumes', name: volume.name }} range={range ?? DEFAULT_RANGE} />
      </div>
      <section>
        <h3>{text.offloads.title}</h3>
        <ByReference of={{ volume: volume.name }} />
      </section>
    </div>
  );
}

export function Pair({ label, children }: { label: string; children: ReactNode }) {
  return (
    <>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** The protection groups of a volume. */
function Groups({ volume }: { volume: Volume }) {
  const members = useMembers({ volume: volume.name });
  if (!members.data) return null;
  return (
    <Pair label={text.forms.group}>
      {members.data.length === 0 && text.volume.noLimit}
      {members.data.map(({ group }) => (
        <Link key={group.name} className="in-list" to="/protection/$name" params={{ name: group.name ?? '' }}>
          <Name>{group.name}</Name>
        </Link>
      ))}
    </Pair>
  );
}

function limits(volume: Volume): string {
  const { bandwidth, iops } = actions.limitsOf(volume);
  const parts = [
    bandwidth < actions.NO_BANDWIDTH_LIMIT && text.volume.bandwidth(size(bandwidth)),
    iops < actions.NO_IOPS_LIMIT && text.volume.iops(iops),
  ].filter((part) => part !== false);
  return parts.length > 0 ? parts.join(', ') : text.volume.noLimit;
}

/** Snapshots `GROUP.SUFFIX.VOLUME` are destroyed and recovered with those of their group only. */
function isOfGroup({ name }: Snapshot): boolean {
  return name.split('.').length > 2;
}

function Snapshots({ volume }: { volume: Volume }) {
  const snapshots = useSnapshots(volume.name);
  const isAllowed = useMay('storage_admin');
  if (!snapshots.data) return snapshots.error ? <ErrorNote error={snapshots.error} /> : <Loading />;
  const now = Date.now();
  const oldest = snapshots.data.at(-1)?.created;
  return (
    <div className="drawer-body">
      {snapshots.data.length === 0 && <p className="soft">{text.volume.noSnapshots}</p>}
      {oldest !== undefined && (
        <div>
          <Timeline
            moments={momentsOf(snapshots.data)}
            span={[oldest, Math.max(now, oldest + 1)]}
            label={text.volume.tabs.snapshots}
          />
          <p className="axis soft" aria-hidden="true">
            <span>{absolute(oldest)}</span>
            <span>{text.protection.now}</span>
          </p>
        </div>
      )}
      <ul className="items">
        {snapshots.data.map((snapshot) => (
          <li key={snapshot.id}>
            <span>
              <b>
                <Name>{snapshot.suffix}</Name>
              </b>
              <small title={absolute(snapshot.created)}>
                {since(snapshot.created, now)}
                {snapshot.destroyed && ` · ${text.volume.remaining(duration(snapshot.time_remaining ?? 0))}`}
              </small>
            </span>
            {isAllowed && !snapshot.destroyed && !volume.destroyed && (
              <span className="acts">
                <button
                  type="button"
                  className="btn small"
                  onClick={() => open({ kind: 'restore', volume: volume.name, from: snapshot.name })}
                >
                  {text.verbs.restore}
                </button>
                <button
                  type="button"
                  className="btn small"
                  onClick={() => open({ kind: 'clone', source: snapshot.name })}
                >
                  {text.verbs.clone}
                </button>
                {!isOfGroup(snapshot) && (
                  <button
                    type="button"
                    className="btn small danger"
                    onClick={() => perform(() => actions.destroySnapshot(snapshot.name))}
                  >
                    {text.verbs.destroy}
                  </button>
                )}
              </span>
            )}
            {isAllowed && snapshot.destroyed && !volume.destroyed && !isOfGroup(snapshot) && (
              <button
                type="button"
                className="btn small"
                onClick={() => perform(() => actions.recoverSnapshot(snapshot.name))}
              >
                {text.verbs.recover}
              </button>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Connections({ volume }: { volume: Volume }) {
  const connections = useConnections({ volume: volume.name });
  if (!connections.data) return connections.error ? <ErrorNote error={connections.error} /> : <Loading />;
  return (
    <div className="drawer-body">
      {connections.data.length === 0 && <p className="soft">{text.volume.noConnections}</p>}
      <ul className="items">
        {connections.data.map(({ host, host_group, lun }) => (
          <li key={`${host.name} ${host_group.name}`}>
            <span>
              <b>
                <Name>{host.name ?? host_group.name}</Name>
              </b>
              <small>
                {text.volume.lun(lun)}
                {host_group.name && ` · ${text.hostGroup.shared(host_group.name)}`}
              </small>
            </span>
            {!host_group.name && (
              <May>
                <button
                  type="button"
                  className="btn small"
                  onClick={() =>
                    perform(() => actions.disconnect({ host: host.name ?? '' }, volume.name, lun))
                  }
                >
                  {text.verbs.disconnect}
                </button>
              </May>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}
