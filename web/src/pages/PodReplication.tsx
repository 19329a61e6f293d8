/** The arrays of a pod: where it is, what each array does for it, and what ends a disturbance. */

import { Link } from '@tanstack/react-router';
import { useArray, usePodReplication } from '../api/queries';
import type { Pod, PodReplication, PodReplicationArray } from '../api/types';
import { latency } from '../format/rates';
import { absolute } from '../format/time';
import { chosenSize, count } from '../format/units';
import { Bar, Card, ErrorNote, Loading, Name } from '../parts/common';
import { May } from '../parts/May';
import { open } from '../parts/request';
import * as stretched from '../stretchActions';
import { text } from '../text';
import { StateChip } from './Pods';
import {
  arrivedOf,
  isReceiving,
  latestEvents,
  progressOf,
  roleOf,
  stateOf,
  tieRuleOf,
  toneOf,
} from './replication';
import { Pair } from './VolumeDrawer';

const words = text.replication;

const toLinks = (
  <Link className="btn small" to="/array-connections">
    {text.nav.arrayConnections}
  </Link>
);

/** A pod on this array alone. It has no preferred array, and asks no mediator. */
export function OneArray({ pod }: { pod: Pod }) {
  const array = useArray();
  return (
    <Card className="c6" title={text.pod.arrays} end={toLinks}>
      <ul className="items">
        {pod.arrays.map(({ id, name, status }) => (
          <li key={id}>
            <span>
              <b>
                <Name>{name}</Name>
              </b>
              {id === array.data?.id && <small>{text.pod.thisArray}</small>}
            </span>
            {!pod.destroyed && <StateChip status={status} />}
          </li>
        ))}
      </ul>
      <dl className="pairs rule">
        <Pair label={text.pod.preferred}>{text.pod.notPreferred}</Pair>
        <Pair label={text.pod.mediator}>{text.pod.notAsked}</Pair>
        <Pair label={text.pod.resyncLimit}>{limitOf(pod)}</Pair>
      </dl>
      {!pod.destroyed && <p className="note break gap">{text.pod.onlyHere(pod.arrays[0]?.name ?? '')}</p>}
      {!pod.destroyed && (
        <May>
          <div className="acts rule">
            <Act verb={text.verbs.stretch} run={() => open({ kind: 'stretch', pod })} />
            <Act verb={text.verbs.resyncLimit} run={() => open({ kind: 'resyncLimit', pod })} />
          </div>
        </May>
      )}
    </Card>
  );
}

const limitOf = ({ resync_limit: limit }: Pod) =>
  limit === null ? text.pod.noResyncLimit : text.pod.perSecond(chosenSize(limit));

/** A pod on two arrays, as this one has it. */
export function TwoArrays({ pod }: { pod: Pod }) {
  const found = usePodReplication(pod.name);
  return (
    <Card title={text.pod.arrays} end={toLinks}>
      <ErrorNote error={found.error} />
      {found.isLoading && <Loading />}
      {found.data && <Shown pod={pod} replication={found.data} />}
      <May>
        <Actions pod={pod} replication={found.data ?? null} />
      </May>
    </Card>
  );
}

type ShownProps = { pod: Pod; replication: PodReplication };

function Shown({ pod, replication }: ShownProps) {
  const { state, since, explanation, arrays, waiting_commands: waiting } = replication;
  const [one, other] = arrays;
  return (
    <>
      <p className="after">
        <span className={`chip ${toneOf(state)}`}>{stateOf(state)}</span>{' '}
        <span className="soft">{words.since(absolute(since))}</span>
      </p>
      <p className="break after">
        <bdi>{explanation}</bdi>
      </p>
      <div className="array-link even">
        {one && <Node array={one} other={other} />}
        <Between replication={replication} />
        {other && <Node array={other} other={one} />}
      </div>
      {isReceiving(replication) && <Progress pod={pod} replication={replication} />}
      <dl className="pairs rule">
        <Pair label={words.tieRule}>{tieRuleOf(replication)}</Pair>
        <Pair label={text.pod.preferred}>
          <Name>{replication.preferred}</Name>
        </Pair>
        <Pair label={text.pod.mediator}>
          <Mediator replication={replication} />
        </Pair>
        <Pair label={text.pod.resyncLimit}>{limitOf(pod)}</Pair>
        {waiting > 0 && (
          <Pair label={words.waiting}>
            <span className="chip warning">{count(waiting)}</span>
          </Pair>
        )}
      </dl>
    </>
  );
}

function Node({ array, other }: { array: PodReplicationArray; other: PodReplicationArray | undefined }) {
  const role = roleOf(array, other);
  return (
    <div className="node">
      <h3>
        <Name>{array.name}</Name>
      </h3>
      <p className="soft">{array.is_this ? `${text.pod.thisArray}, ${role}` : role}</p>
      {array.frozen_at !== null && <p className="soft">{words.frozen(absolute(array.frozen_at))}</p>}
      <p className="gap">
        <StateChip status={array.status} />
      </p>
      {array.is_full && <p className="note warn gap">{words.full}</p>}
    </div>
  );
}

/** The line between the two arrays, with its length in time. */
function Between({ replication: { rtt_usec: rtt, is_distance_simulated } }: { replication: PodReplication }) {
  return (
    <div className={`between${rtt === null ? ' broken' : ''}`}>
      <b>{latency(rtt)}</b>
      <span className="soft">{rtt === null ? text.links.noSession : text.links.roundTrip}</span>
      <span className="wire" aria-hidden="true" />
      {is_distance_simulated && <span className="chip warning">{words.simulated}</span>}
    </div>
  );
}

function Progress({ pod, replication }: ShownProps) {
  const arrived = arrivedOf(replication);
  return (
    <div className="gap">
      {arrived !== null && <Bar part={arrived} whole={1} />}
      <p className="soft">{progressOf(replication, pod.resync_limit)}</p>
    </div>
  );
}

/** The mediator as this array sees it. */
function Mediator({ replication }: { replication: PodReplication }) {
  const { mediator, mediator_problem: problem, arrays } = replication;
  if (mediator === null) return words.noMediator;
  const status = arrays.find(({ is_this }) => is_this)?.mediator_status ?? 'unknown';
  const state = words.mediatorStates[status];
  return (
    <>
      <bdi>{mediator}</bdi>{' '}
      {state && <span className={`chip ${status === 'online' ? '' : 'warning'}`}>{state}</span>}
      {problem && (
        <p>
          <bdi>{problem}</bdi>
        </p>
      )}
    </>
  );
}

type ActProps = { verb: string; run: () => void; hint?: string | undefined; isDanger?: boolean };

/** A small button. The hint says why it is off. */
function Act({ verb, run, hint, isDanger }: ActProps) {
  return (
    <button
      type="button"
      className={`btn small${isDanger ? ' danger' : ''}`}
      disabled={hint !== undefined}
      title={hint}
      onClick={run}
    >
      {verb}
    </button>
  );
}

/** The array that orders the changes of a pod limits its resync, hands it over, and removes the other one. */
function Actions({ pod, replication }: { pod: Pod; replication: PodReplication | null }) {
  const { verbs } = text;
  const array = stretched.otherArray(pod);
  const other = replication?.arrays.find(({ is_this }) => !is_this);
  const isThere = other?.status === 'online' && other.is_sequencer;
  const hint = isThere ? words.orderedThere(array) : undefined;
  return (
    <div className="acts rule">
      <Act verb={verbs.prefer} run={() => open({ kind: 'prefer', pod })} />
      <Act verb={verbs.mediator} run={() => open({ kind: 'mediator', pod })} />
      <Act verb={verbs.resyncLimit} run={() => open({ kind: 'resyncLimit', pod })} hint={hint} />
      <Act verb={verbs.resign} run={() => open({ kind: 'resign', pod, array })} hint={hint} />
      <Act verb={verbs.unstretch} run={() => open({ kind: 'unstretch', pod, array })} hint={hint} isDanger />
    </div>
  );
}

/** The latest events of a pod on two arrays, newest first. */
export function Events({ pod }: { pod: Pod }) {
  const { data: replication } = usePodReplication(pod.name);
  const events = replication ? latestEvents(replication) : [];
  return (
    <Card className="c6" title={words.events} note={words.eventsNote}>
      {replication && events.length === 0 && <p className="soft">{words.noEvents}</p>}
      <ul className="items log">
        {events.map(({ time, event, message }) => (
          <li key={`${time}-${event}`}>
            <time dateTime={new Date(time).toISOString()}>{absolute(time)}</time>
            <span>
              <bdi>{message}</bdi>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
