/** One pod: its space and quota, its arrays, its volumes and their performance. */

import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { DEFAULT_RANGE } from '../api/history';
import { useAllPods, useVolumesOfPod } from '../api/queries';
import type { Pod, Volume } from '../api/types';
import { quoted } from '../format/filter';
import { absolute, duration } from '../format/time';
import { chosenSize, percent, ratio, size } from '../format/units';
import { Bar, Card, ErrorNote, Head, Loading, Name, Size } from '../parts/common';
import { FilterField } from '../parts/filters';
import { Icon } from '../parts/Icon';
import { May } from '../parts/May';
import { PerformanceCharts, RangeChoice } from '../parts/PerformanceCharts';
import { open, perform } from '../parts/request';
import * as pods from '../podActions';
import { isStretched, otherArray } from '../stretchActions';
import { text } from '../text';
import { Events, OneArray, TwoArrays } from './PodReplication';
import { Pair } from './VolumeDrawer';

/** Volumes in the document. A filter finds the others. */
const MOST = 200;
const FROM = '/pods/$name';

export function PodPage() {
  const { name } = useParams({ from: FROM });
  const { range } = useSearch({ from: FROM });
  const navigate = useNavigate({ from: FROM });
  const all = useAllPods();
  const volumes = useVolumesOfPod(name);
  if (!all.data) return all.error ? <ErrorNote error={all.error} /> : <Loading />;
  const pod = all.data.find((pod) => pod.name.toLowerCase() === name.toLowerCase());
  if (!pod) {
    return (
      <div className="card center">
        <h1>{text.pod.gone}</h1>
        <Link className="btn" to="/pods">
          {text.pod.back}
        </Link>
      </div>
    );
  }
  const present = (volumes.data ?? []).filter((volume) => volume.destroyed === pod.destroyed);
  return (
    <>
      <Head
        kicker={text.pod.kicker}
        title={<Name>{pod.name}</Name>}
        sub={`${text.volumes.summary(present.length)} · ${text.pod.size(chosenSize(sum(present)))}`}
      >
        <May>
          <Actions pod={pod} isConnected={present.some((volume) => volume.connection_count > 0)} />
        </May>
      </Head>
      {pod.destroyed && (
        <p className="note warn after">{text.pod.destroyed(duration(pod.time_remaining ?? 0))}</p>
      )}
      <div className="grid">
        {isStretched(pod) && <TwoArrays pod={pod} />}
        <Space pod={pod} />
        {isStretched(pod) ? <Events pod={pod} /> : <OneArray pod={pod} />}
        <Volumes pod={pod} volumes={present} isLoading={volumes.isLoading} error={volumes.error} />
        {!pod.destroyed && (
          <Card
            title={text.pod.performance}
            end={
              <RangeChoice
                range={range ?? DEFAULT_RANGE}
                choose={(range) => navigate({ to: '.', search: { range }, replace: true })}
              />
            }
          >
            <PerformanceCharts subject={{ kind: 'pods', name: pod.name }} range={range ?? DEFAULT_RANGE} />
          </Card>
        )}
      </div>
    </>
  );
}

const sum = (volumes: Volume[]) => volumes.reduce((total, { provisioned }) => total + provisioned, 0);

/** Why a pod cannot be destroyed, if so. */
function whyKept(pod: Pod, isConnected: boolean): string | undefined {
  if (isStretched(pod)) return text.pod.stretchedDestroy(otherArray(pod));
  return isConnected ? text.pod.connected : undefined;
}

function Actions({ pod, isConnected }: { pod: Pod; isConnected: boolean }) {
  const navigate = useNavigate();
  const { name } = pod;
  if (pod.destroyed) {
    return (
      <div className="acts">
        <button type="button" className="btn primary" onClick={() => perform(() => pods.recoverPod(name))}>
          {text.verbs.recover}
        </button>
        <button type="button" className="btn danger" onClick={() => open({ kind: 'eradicatePod', name })}>
          {text.verbs.eradicate}
        </button>
      </div>
    );
  }
  const isOnTwo = isStretched(pod);
  const destroy = async () => {
    if (await perform(() => pods.destroyPod(name))) await navigate({ to: '/pods' });
  };
  return (
    <div className="acts">
      <button type="button" className="btn primary" onClick={() => open({ kind: 'create', pod: name })}>
        <Icon name="plus" />
        {text.verbs.create}
      </button>
      <button
        type="button"
        className="btn"
        disabled={isOnTwo}
        title={isOnTwo ? text.pod.stretchedMove : undefined}
        onClick={() => open({ kind: 'moveIn', pod: name })}
      >
        {text.verbs.moveIn}
      </button>
      <button
        type="button"
        className="btn"
        disabled={isOnTwo}
        title={isOnTwo ? text.pod.stretchedClone : undefined}
        onClick={() => open({ kind: 'clonePod', source: name })}
      >
        {text.verbs.clone}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'quota', pod })}>
        {text.verbs.quota}
      </button>
      <button type="button" className="btn" onClick={() => open({ kind: 'rename', of: 'pod', name })}>
        {text.verbs.rename}
      </button>
      <button
        type="button"
        className="btn danger"
        disabled={isOnTwo || isConnected}
        title={whyKept(pod, isConnected)}
        onClick={destroy}
      >
        {text.verbs.destroy}
      </button>
    </div>
  );
}

function Space({ pod }: { pod: Pod }) {
  const { space, quota_limit: quota } = pod;
  const used = space.used_provisioned ?? 0;
  return (
    <Card className="c6" title={text.pod.space}>
      {quota !== null && (
        <div className="after">
          <Bar part={used} whole={quota} className={used > quota ? 'over' : ''} />
          {used > quota && <p className="note warn gap">{text.pod.overQuota}</p>}
        </div>
      )}
      <dl className="pairs">
        <Pair label={text.pod.used}>{chosenSize(used)}</Pair>
        <Pair label={text.pod.quota}>
          {quota === null
            ? text.pod.noQuota
            : `${chosenSize(quota)}, ${text.pods.quotaUsed(percent(used, quota))}`}
        </Pair>
        <Pair label={text.pod.written}>
          <Size bytes={space.virtual} />
        </Pair>
        <Pair label={text.pod.stored}>
          <Size bytes={space.total_physical} />
          {(space.virtual ?? 0) > 0 && ` · ${ratio(space.data_reduction)}`}
        </Pair>
        <Pair label={text.pod.created}>{absolute(pod.created)}</Pair>
        {pod.source.name && (
          <Pair label={text.pod.source}>
            <Link to="/pods/$name" params={{ name: pod.source.name }}>
              <Name>{pod.source.name}</Name>
            </Link>
          </Pair>
        )}
      </dl>
    </Card>
  );
}

type VolumesProps = { pod: Pod; volumes: Volume[]; isLoading: boolean; error: unknown };

function Volumes({ pod, volumes, isLoading, error }: VolumesProps) {
  const [typed, setTyped] = useState('');
  const wanted = typed.trim().toLowerCase();
  const matches = volumes.filter(({ name }) => name.toLowerCase().includes(wanted));
  return (
    <Card
      title={text.pod.volumes}
      end={
        <Link
          className="btn small"
          to="/volumes"
          search={{ f: `pod = ${quoted(pod.name)}`, destroyed: pod.destroyed || undefined }}
        >
          {text.pod.inVolumes}
        </Link>
      }
    >
      <ErrorNote error={error} />
      {isLoading && <Loading />}
      {!isLoading && volumes.length === 0 && <p className="soft">{text.pod.noVolumes}</p>}
      {volumes.length > 0 && <FilterField label={text.pod.filter} value={typed} change={setTyped} />}
      {volumes.length > 0 && matches.length === 0 && <p className="soft">{text.volumes.noMatch}</p>}
      <ul className="items">
        {matches.slice(0, MOST).map((volume) => (
          <li key={volume.id}>
            <span>
              <Link
                to="/volumes/$name"
                params={{ name: volume.name }}
                search={{ destroyed: volume.destroyed || undefined }}
              >
                <Name>{volume.name}</Name>
              </Link>
              <small>
                {text.pod.volume(
                  chosenSize(volume.provisioned),
                  size(volume.space.total_physical),
                  volume.connection_count,
                )}
              </small>
            </span>
            {!pod.destroyed && !isStretched(pod) && (
              <May>
                <button
                  type="button"
                  className="btn small"
                  onClick={() => perform(() => pods.move([volume.name], null))}
                >
                  {text.verbs.moveOut}
                </button>
              </May>
            )}
          </li>
        ))}
      </ul>
      {matches.length > MOST && <p className="rule">{text.common.more(matches.length - MOST)}</p>}
    </Card>
  );
}
