import { describe, expect, it } from 'vitest';
import type { PodReplication, PodReplicationArray } from '../api/types';
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

const plain = (text: string) => text.replaceAll('\u00a0', ' ');
const GIB = 2 ** 30;

const array = (status: string, more: Partial<PodReplicationArray> = {}): PodReplicationArray => ({
  id: status,
  name: 'alpha',
  frozen_at: null,
  is_full: false,
  is_sequencer: false,
  is_this: false,
  mediator_status: 'unknown',
  progress: null,
  status,
  ...more,
});
const pod = (more: Partial<PodReplication>) => ({ arrays: [], ...more }) as unknown as PodReplication;

describe('states', () => {
  it('have words, and a colour only if they are not normal', () => {
    const shown = ['sync', 'resync', 'solo', 'paused'].map((state) => [stateOf(state), toneOf(state)]);
    expect(shown).toEqual([
      ['in step', ''],
      ['coming into step', 'warning'],
      ['on one array alone', 'warning'],
      ['paused', 'critical'],
    ]);
  });
  it('of a later version stay as they are', () => {
    expect([stateOf('folded'), toneOf('folded')]).toEqual(['folded', 'warning']);
  });
});

describe('roles', () => {
  const role = (one: PodReplicationArray, other: PodReplicationArray) => roleOf(one, other);
  it('say which of two arrays orders changes', () => {
    const [one, other] = [array('online', { is_sequencer: true }), array('online')];
    expect([role(one, other), role(other, one)]).toEqual(['orders changes', 'serves the same volumes']);
  });
  it('say which array lacks content', () => {
    const [one, other] = [array('online', { is_sequencer: true }), array('resyncing')];
    expect([role(one, other), role(other, one)]).toEqual(['orders changes', 'receives what it lacks']);
  });
  it('say that one array serves alone', () => {
    const [one, other] = [array('online', { is_sequencer: true }), array('offline')];
    expect([role(one, other), role(other, one)]).toEqual(['serves alone', 'does not serve']);
  });
  it('do not claim what is not known', () => {
    const [one, other] = [array('unknown', { is_this: true }), array('unknown', { is_sequencer: true })];
    expect([role(one, other), role(other, one)]).toEqual(['does not serve', 'not known whether it serves']);
  });
});

it('says which array may continue', () => {
  const rule = (more: Partial<PodReplication>) => tieRuleOf(pod(more));
  expect(rule({ tie_rule: 'mediator', only: null, is_tie_rule_in_force: true })).toBe('the mediator decides');
  expect(rule({ tie_rule: 'only', only: 'beta', is_tie_rule_in_force: true })).toBe('only beta may continue');
  expect(rule({ tie_rule: 'only', only: 'beta', is_tie_rule_in_force: false })).toBe(
    'only beta may continue, not yet in force on both arrays',
  );
});

describe('progress', () => {
  const arrays = [array('online'), array('resyncing', { progress: 0.629 })];
  it('has what the array knows', () => {
    const all = pod({ state: 'resync', arrays, behind_bytes: 11 * GIB, seconds_left: 125 });
    expect(plain(progressOf(all, 100 * 2 ** 20))).toBe(
      '62 % has arrived, 11.0 GiB to go, about 2 min left, at most 100 MiB/s.',
    );
    const unknown = pod({ state: 'target', arrays: [], behind_bytes: null, seconds_left: null });
    expect(progressOf(unknown, null)).toBe('Content arrives.');
    expect([arrivedOf(all), arrivedOf(unknown)]).toEqual([0.629, null]);
  });
  it('is shown while content arrives', () => {
    expect(isReceiving(pod({ state: 'resync', arrays }))).toBe(true);
    expect(isReceiving(pod({ state: 'target' }))).toBe(true);
    expect(isReceiving(pod({ state: 'sync' }))).toBe(false);
  });
});

it('shows the newest of many events first', () => {
  const events = Array.from({ length: 12 }, (_, time) => ({ time, event: 'in_step', message: 'in step' }));
  const shown = latestEvents(pod({ events })).map(({ time }) => time);
  expect(shown).toEqual([11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
});
