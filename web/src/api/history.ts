/** Performance over time: ranges, and points that are read once and then continued. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { call, type Params, serverNow } from './client';
import { pace } from './live';
import { queryClient } from './queries';
import type { Items, Performance } from './types';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Length, and the interval of the points that are asked for. */
export const RANGES = {
  '10m': { length: 10 * MINUTE, step: 2 * SECOND },
  '1h': { length: HOUR, step: 30 * SECOND },
  '24h': { length: DAY, step: 5 * MINUTE },
  '7d': { length: 7 * DAY, step: 2 * HOUR },
  '30d': { length: 30 * DAY, step: 2 * HOUR },
  '1y': { length: 365 * DAY, step: 2 * HOUR },
} as const;
export type Range = keyof typeof RANGES;
export const DEFAULT_RANGE: Range = '1h';

export const asRange = (value: unknown): Range | undefined =>
  typeof value === 'string' && value in RANGES ? (value as Range) : undefined;

/** Whose performance: the array, or one volume, host, port or pod. */
export type Subject = { kind: 'arrays' } | { kind: 'volumes' | 'hosts' | 'ports' | 'pods'; name: string };

const LIVE_MS = 5 * SECOND;
/** Pages of one answer. More points than that are not kept by the array. */
const MOST_PAGES = 8;

const path = (subject: Subject) => `/${subject.kind}/performance`;
const named = (subject: Subject): Params => (subject.kind === 'arrays' ? {} : { names: subject.name });

async function read(subject: Subject, start: number, step: number, signal: AbortSignal) {
  const points: Performance[] = [];
  let token: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const params = {
      ...named(subject),
      start_time: Math.max(0, Math.round(start)),
      resolution: step,
      continuation_token: token,
    };
    const answer = await call<Items<Performance>>('GET', path(subject), params, undefined, {}, signal);
    points.push(...answer.items);
    token = answer.continuation_token ?? undefined;
    if (!answer.more_items_remaining || token === undefined) break;
  }
  return points;
}

/** Joins what is known with newer points, without those before `start`. */
export function joined(older: Performance[], newer: Performance[], start: number): Performance[] {
  const last = older.at(-1)?.time ?? Number.NEGATIVE_INFINITY;
  return [...older, ...newer.filter((point) => point.time > last)].filter((point) => point.time >= start);
}

/** The points of a range. Each call reads only those since the last one. */
export function historyOf(subject: Subject, range: Range) {
  const { length, step } = RANGES[range];
  const queryKey = ['/history', subject, range] as const;
  return queryOptions({
    queryKey,
    queryFn: async ({ signal }) => {
      const start = serverNow() - length;
      const older = queryClient.getQueryData<Performance[]>(queryKey) ?? [];
      const from = Math.max(start, (older.at(-1)?.time ?? 0) + 1);
      return joined(older, await read(subject, from, step, signal), start);
    },
    refetchInterval: Math.max(LIVE_MS, Math.min(step, MINUTE)),
    staleTime: LIVE_MS,
    structuralSharing: false,
  });
}

export const useHistory = (subject: Subject, range: Range) => useQuery(historyOf(subject, range));

/** The last two seconds. */
export const useLatest = (subject: Subject) =>
  useQuery({
    queryKey: [path(subject), named(subject)],
    queryFn: ({ signal }) =>
      call<Items<Performance>>('GET', path(subject), named(subject), undefined, {}, signal),
    refetchInterval: pace(path(subject), LIVE_MS),
    select: (data) => data.items[0],
  });

type Cells = (number | null)[];
export type Columns = {
  times: number[];
  readLatency: Cells;
  writeLatency: Cells;
  read99: Cells;
  write99: Cells;
  reads: Cells;
  writes: Cells;
  others: Cells;
  readBytes: Cells;
  writeBytes: Cells;
};

/** Without a command in its interval, a latency is unknown, not zero. */
export const known = (usec: number, perSecond: number) => (usec > 0 || perSecond > 0 ? usec : null);

const CELLS: Record<Exclude<keyof Columns, 'times'>, (point: Performance) => number | null> = {
  readLatency: (point) => known(point.usec_per_read_op, point.reads_per_sec),
  writeLatency: (point) => known(point.usec_per_write_op, point.writes_per_sec),
  read99: (point) => known(point.usec_p99_per_read_op, point.reads_per_sec),
  write99: (point) => known(point.usec_p99_per_write_op, point.writes_per_sec),
  reads: (point) => point.reads_per_sec,
  writes: (point) => point.writes_per_sec,
  others: (point) => point.others_per_sec,
  readBytes: (point) => point.read_bytes_per_sec,
  writeBytes: (point) => point.write_bytes_per_sec,
};

/**
 * Points as columns. Where samples are missing, there is an empty row, so that no line is drawn across. The intervals are `step`
 * or coarser, and finer at first, when the array has run for a short time only.
 */
export function columnsOf(points: Performance[], step: number): Columns {
  const rows: [time: number, point: Performance | null][] = [];
  let usual = Number.POSITIVE_INFINITY;
  for (const point of points) {
    const before = rows.at(-1);
    if (before) {
      const passed = point.time - before[0];
      if (passed > 3 * Math.max(step, usual)) rows.push([before[0] + 1, null]);
      else usual = passed;
    }
    rows.push([point.time, point]);
  }
  const column = (cell: (point: Performance) => number | null): Cells =>
    rows.map(([, point]) => (point === null ? null : cell(point)));
  const cells = Object.entries(CELLS).map(([name, cell]) => [name, column(cell)]);
  return { times: rows.map(([time]) => time), ...Object.fromEntries(cells) } as Columns;
}

/** Figures of one object over time: reads and writes together. */
export type Line = { latency: Cells; rate: Cells; bytes: Cells };

/** The mean latency of reads and writes; unknown without a command. */
export function meanLatency(point: Performance): number | null {
  const { reads_per_sec: reads, writes_per_sec: writes } = point;
  const time = reads * point.usec_per_read_op + writes * point.usec_per_write_op;
  if (reads + writes > 0) return time / (reads + writes);
  return known(Math.max(point.usec_per_read_op, point.usec_per_write_op), 0);
}

/** Several objects on one axis of time. An object without a sample at a time has a gap there. */
export function compared(objects: Performance[][], step: number): { times: number[]; lines: Line[] } {
  const columns = objects.map((points) => ({
    points: new Map(points.map((point) => [point.time, point])),
    // The empty rows of gaps.
    times: columnsOf(points, step).times,
  }));
  const times = [...new Set(columns.flatMap((column) => column.times))].toSorted((a, b) => a - b);
  const lines = columns.map(({ points }) => {
    const column = (cell: (point: Performance) => number | null): Cells =>
      times.map((time) => {
        const point = points.get(time);
        return point ? cell(point) : null;
      });
    return {
      latency: column(meanLatency),
      rate: column((point) => point.reads_per_sec + point.writes_per_sec),
      bytes: column((point) => point.read_bytes_per_sec + point.write_bytes_per_sec),
    };
  });
  return { times, lines };
}
