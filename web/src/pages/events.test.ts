import { expect, it } from 'vitest';
import type { Alert, RefusedLogin, Session } from '../api/types';
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
  const events = happenings(
    [alert],
    [session(200, null, null), session(50, 300, 'reset'), session(60, 70, 'logged out')],
    [refused],
  );
  expect(events.map(({ time, title, tone }) => [time, title, tone])).toEqual([
    [400, 'Alert closed', 'good'],
    [300, 'Session ended', 'warning'],
    [250, 'Login refused', 'warning'],
    [200, 'Logged in', ''],
    [100, 'Alert opened', 'critical'],
    [70, 'Logged out', ''],
    [60, 'Logged in', ''],
    [50, 'Logged in', ''],
  ]);
  expect(new Set(events.map(({ key }) => key)).size).toBe(events.length);
});
