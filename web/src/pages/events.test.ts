import { expect, it } from 'vitest';
import type { Alert, Audit, RefusedLogin, Session } from '../api/types';
import { happenings } from './events';

it('joins alerts, sessions and refused logins, latest first', () => {
  const alert = { id: '1', created: 100, closed: 400, severity: 'critical', summary: 'full' } as Alert;
  const session = (since: number, ended: number | null, reason: string | null) =>
    ({
      host: { id: null, name: 'h' },
      initiator: 'iqn.x:y',
      isid: 'a',
      tsih: since,
      since,
      ended,
      reason,
    }) as unknown as Session;
  const refused = { initiator: 'iqn.x:z', time: 250, count: 3, reason: 'unknown' } as RefusedLogin;
  const audit = {
    id: '7',
    time: 350,
    user: 'admin',
    location: '192.0.2.1',
    subcommand: 'PATCH',
    command: 'volumes',
    arguments: 'names=a',
  } as Audit;
  const events = happenings(
    [audit],
    [alert],
    [session(200, null, null), session(50, 300, 'reset'), session(60, 70, 'logged out')],
    [refused],
  );
  expect(events.map(({ time, title, tone }) => [time, title, tone])).toEqual([
    [400, 'Alert closed', 'good'],
    [350, 'Changed', ''],
    [300, 'Session ended', 'warning'],
    [250, 'Login refused', 'warning'],
    [200, 'Logged in', ''],
    [100, 'Alert opened', 'critical'],
    [70, 'Logged out', ''],
    [60, 'Logged in', ''],
    [50, 'Logged in', ''],
  ]);
  expect(events[1]).toMatchObject({ what: 'PATCH volumes', detail: 'names=a · admin from 192.0.2.1' });
  expect(new Set(events.map(({ key }) => key)).size).toBe(events.length);
});
