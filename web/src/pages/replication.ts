/** A pod on two arrays in words. */

import type { PodReplication, PodReplicationArray } from '../api/types';
import { bandwidth } from '../format/rates';
import { duration } from '../format/time';
import { percent, size } from '../format/units';
import { text } from '../text';

const { replication: words } = text;

/** The class of a chip. Only what is not normal has a colour. */
export type Tone = '' | 'warning' | 'critical';

const TONES: Record<PodReplication['state'], Tone> = {
  sync: '',
  leaving: '',
  resync: 'warning',
  target: 'warning',
  solo: 'warning',
  lost: 'warning',
  paused: 'critical',
  hurt: 'critical',
  diverged: 'critical',
};

/** How a state is shown. An array of a later version may have others. */
export const toneOf = (state: string): Tone =>
  (TONES as Record<string, Tone | undefined>)[state] ?? 'warning';

export const stateOf = (state: string): string =>
  (words.states as Record<string, string | undefined>)[state] ?? state;

/** What an array does for the pod, given the other array. */
export function roleOf(array: PodReplicationArray, other: PodReplicationArray | undefined): string {
  const { roles } = words;
  switch (array.status) {
    case 'online':
      if (other?.status === 'online') return array.is_sequencer ? roles.orders : roles.follows;
      return other?.status === 'resyncing' ? roles.orders : roles.alone;
    case 'resyncing':
      return roles.receives;
    case 'offline':
      return roles.off;
    default:
      // An array knows that it does not serve itself; of the other one, it knows nothing.
      return array.is_this ? roles.off : roles.unknown;
  }
}

/** Which array may continue without the other, and whether that is in force. */
export function tieRuleOf({ tie_rule, only, is_tie_rule_in_force }: PodReplication): string {
  const rule = tie_rule === 'mediator' ? words.mediatorDecides : words.onlyContinues(only ?? '');
  return is_tie_rule_in_force ? rule : words.notInForce(rule);
}

/** The part of the content that has arrived, while one array receives content. */
export const arrivedOf = ({ arrays }: PodReplication): number | null =>
  arrays.find(({ progress }) => progress !== null)?.progress ?? null;

/** Whether one array receives content. */
export const isReceiving = (pod: PodReplication) =>
  pod.state === 'resync' || pod.state === 'target' || arrivedOf(pod) !== null;

/** How far the content is, and how fast it may come. Unknown figures are left out. */
export function progressOf(pod: PodReplication, limit: number | null): string {
  const arrived = arrivedOf(pod);
  const { behind_bytes: bytes, seconds_left: seconds } = pod;
  const parts = [
    arrived !== null && words.arrived(percent(arrived, 1)),
    bytes !== null && words.toGo(size(bytes)),
    seconds !== null && words.timeLeft(duration(Math.max(1, seconds) * 1000)),
    limit !== null && words.atMost(bandwidth(limit)),
  ].filter((part) => part !== false);
  return parts.length === 0 ? words.receiving : `${parts.join(', ')}.`;
}

const MOST_EVENTS = 10;

/** The latest events, newest first. */
export const latestEvents = ({ events }: PodReplication) => events.slice(-MOST_EVENTS).toReversed();
