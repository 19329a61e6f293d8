import { expect, it } from 'vitest';
import type { Host, Port, Session } from '../api/types';
import { matrix, pathsOf } from './paths';

const ports = ['192.0.2.10:3260', '0.0.0.0:3261'].map((portal, at) => ({ name: `p${at}`, portal }) as Port);
const NOW = 10_000_000;
const session = (portal: string, host = 'a', ended?: number, reason = 'no answer') =>
  ({
    host: { id: null, name: host },
    target_portal: portal,
    ended: ended ?? null,
    reason: ended ? reason : null,
  }) as Session;

it('finds connected, missing and unused paths', () => {
  const first = session('192.0.2.10:3260');
  expect(pathsOf(ports, [first], [], NOW)).toEqual({
    cells: ['connected', 'none'],
    connected: 1,
    used: 1,
    drops: 0,
    health: 'one',
  });
  const both = pathsOf(ports, [first, session('198.51.100.7:3261')], [], NOW);
  expect([both.cells, both.health]).toEqual([['connected', 'connected'], 'good']);
  const lost = pathsOf(ports, [first], [session('198.51.100.7:3261', 'a', NOW - 5)], NOW);
  expect([lost.cells, lost.health, lost.used]).toEqual([['connected', 'missing'], 'lost', 2]);
  expect(pathsOf(ports, [], [], NOW).health).toBe('never');
});

it('takes a logout for intended, after a loss too', () => {
  const out = [session('192.0.2.10:3260', 'a', 5), session('192.0.2.10:3260', 'a', 9, 'logged out')];
  expect(pathsOf(ports, [], out, NOW).health).toBe('out');
});

it('calls a path unstable that was lost twice within an hour', () => {
  const port = '192.0.2.10:3260';
  const drops = [session(port, 'a', NOW - 10), session(port, 'a', NOW - 20)];
  const paths = pathsOf(ports, [session(port)], drops, NOW);
  expect([paths.cells[0], paths.health, paths.drops]).toEqual(['unstable', 'unstable', 2]);
  expect(pathsOf(ports, [session(port)], [...drops.slice(1), session(port, 'a', 1)], NOW).health).toBe('one');
});

it('lists hosts with problems first', () => {
  const hosts = ['good', 'lost'].map((name) => ({ name }) as Host);
  const live = [session('192.0.2.10:3260', 'good'), session('192.0.2.10:3261', 'good')];
  const rows = matrix(hosts, ports, live, [session('192.0.2.10:3260', 'lost', NOW - 1)], NOW);
  expect(rows.map(({ host }) => host.name)).toEqual(['lost', 'good']);
});
