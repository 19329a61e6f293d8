/** Schedules and retention of protection groups: times of day, and how many snapshots are kept. */

import type { ProtectionGroup } from '../api/types';

export type Schedule = ProtectionGroup['snapshot_schedule'];
export type Retention = ProtectionGroup['source_retention'];

const MINUTE = 60_000;
export const DAY = 86_400_000;
/** Limits of the array for the time between two snapshots. */
export const SHORTEST = 5 * MINUTE;
export const LONGEST = 400 * DAY;

/** A time of day such as 02:30. */
export function timeOfDay(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / MINUTE) % 1440;
  const two = (figure: number) => String(figure).padStart(2, '0');
  return `${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/** Parses a time of day such as `2:30`; null if it is none. */
export function parseTimeOfDay(text: string): number | null {
  const [, hours = '', minutes = ''] = /^(\d{1,2}):(\d{2})$/.exec(text.trim()) ?? [];
  if (hours === '' || Number(hours) > 23 || Number(minutes) > 59) return null;
  return (Number(hours) * 60 + Number(minutes)) * MINUTE;
}

/** Whether the interval may have a time of day. */
export function isWholeDays(frequency: number): boolean {
  return frequency > 0 && frequency % DAY === 0;
}

/** How many snapshots a group has once it has run for the whole of its retention. */
export function keptSnapshots(frequency: number, { all_for_sec, per_day, days }: Retention): number {
  if (frequency <= 0) return 0;
  const all = Math.floor((all_for_sec * 1000) / frequency) + 1;
  const aDay = Math.min(per_day, DAY / frequency);
  return all + Math.floor(aDay * days);
}

/** When the next snapshot is due; null if the schedule is off or nothing is known of the last one. */
export function nextRun(schedule: Schedule, latest: number | undefined, now: number): number | null {
  if (!schedule.enabled || latest === undefined || schedule.frequency <= 0) return null;
  const passed = Math.max(0, Math.floor((now - latest) / schedule.frequency));
  return latest + (passed + 1) * schedule.frequency;
}
