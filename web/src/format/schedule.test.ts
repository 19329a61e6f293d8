import { describe, expect, it } from 'vitest';
import { DAY, isWholeDays, keptSnapshots, nextRun, parseTimeOfDay, timeOfDay } from './schedule';

const HOUR = 3_600_000;

describe('times of day', () => {
  it('are parsed and printed', () => {
    expect(['2:30', '02:30', '23:59', '0:00'].map(parseTimeOfDay)).toEqual([
      2.5 * HOUR,
      2.5 * HOUR,
      DAY - 60_000,
      0,
    ]);
    expect(['24:00', '2:60', '2', '', '-1:00', '2:3'].map(parseTimeOfDay)).toEqual(Array(6).fill(null));
    expect([0, 2.5 * HOUR, DAY - 1].map(timeOfDay)).toEqual(['00:00', '02:30', '23:59']);
  });
  it('need an interval of whole days', () => {
    expect([DAY, 7 * DAY, HOUR, 1.5 * DAY, 0].map(isWholeDays)).toEqual([true, true, false, false, false]);
  });
});

describe('retention', () => {
  const retention = { all_for_sec: 86_400, per_day: 4, days: 7 };
  it('keeps all of a time and some of each day after it', () => {
    expect(keptSnapshots(HOUR, retention)).toBe(25 + 28);
    expect(keptSnapshots(HOUR, { ...retention, per_day: 0 })).toBe(25);
  });
  it('keeps no more of a day than are taken', () => {
    expect(keptSnapshots(DAY, retention)).toBe(2 + 7);
    expect(keptSnapshots(7 * DAY, retention)).toBe(1 + 1);
    expect(keptSnapshots(0, retention)).toBe(0);
  });
});

describe('the next run', () => {
  const schedule = { enabled: true, frequency: HOUR, at: null };
  it('is a whole number of intervals after the last one', () => {
    expect(nextRun(schedule, 1000, 2000)).toBe(1000 + HOUR);
    expect(nextRun(schedule, 1000, 1000 + 2.5 * HOUR)).toBe(1000 + 3 * HOUR);
  });
  it('is unknown if the schedule is off or nothing ran', () => {
    expect(nextRun({ ...schedule, enabled: false }, 1000, 2000)).toBeNull();
    expect(nextRun(schedule, undefined, 2000)).toBeNull();
  });
});
