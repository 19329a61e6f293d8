import { expect, it } from 'vitest';
import { bandwidth, latency, rate, roundUp } from '../format/rates';
import { busiest } from '../pages/busiest';
import { sumsOf } from '../parts/Offloads';
import { columnsOf, compared, joined, meanLatency } from './history';
import type { ConnectionPerformance, Offload, Performance } from './types';

const point = (time: number, more: Partial<Performance> = {}) =>
  ({ time, reads_per_sec: 0, usec_per_read_op: 0, ...more }) as Performance;
const plain = (text: string) => text.replaceAll(/[\u00a0\u202f]/g, ' ');

it('continues a history without repeating or keeping too much', () => {
  const older = [point(1000), point(2000), point(3000)];
  const newer = [point(3000), point(4000)];
  expect(joined(older, newer, 2000).map(({ time }) => time)).toEqual([2000, 3000, 4000]);
  expect(joined([], newer, 0)).toHaveLength(2);
});

it('draws no line where samples are missing', () => {
  const busy = { reads_per_sec: 5, usec_per_read_op: 300 };
  const columns = columnsOf([point(0, busy), point(2000, busy), point(60_000, busy), point(62_000)], 2000);
  expect(columns.times).toEqual([0, 2000, 2001, 60_000, 62_000]);
  expect(columns.reads).toEqual([5, 5, null, 5, 0]);
  // Without a command there is no latency; with very short ones it is 0.
  expect(columns.readLatency).toEqual([300, 300, null, 300, null]);
  expect(columnsOf([point(0, { reads_per_sec: 9 })], 2000).readLatency).toEqual([0]);
});

it('compares objects with different samples', () => {
  const busy = {
    ...{ reads_per_sec: 1, writes_per_sec: 3, usec_per_read_op: 100, usec_per_write_op: 500 },
    ...{ read_bytes_per_sec: 10, write_bytes_per_sec: 20 },
  };
  const { times, lines } = compared([[point(0, busy), point(2000, busy)], [point(2000, busy)], []], 2000);
  expect(times).toEqual([0, 2000]);
  expect(lines.map(({ rate }) => rate)).toEqual([
    [4, 4],
    [null, 4],
    [null, null],
  ]);
  expect(lines[0]).toMatchObject({ latency: [400, 400], bytes: [30, 30] });
  expect(meanLatency(point(0, { writes_per_sec: 0, usec_per_write_op: 0 }))).toBeNull();
});

it('accepts coarser intervals after finer ones', () => {
  const times = [2, 4, 6, 36, 66, 96].map((second) => point(second * 1000));
  expect(columnsOf(times, 30_000).times).toHaveLength(6);
});

it('sums volumes over their hosts', () => {
  const one = (volume: string, reads: number, usec: number, limited = 0) =>
    ({
      volume: { id: null, name: volume },
      reads_per_sec: reads,
      writes_per_sec: 0,
      read_bytes_per_sec: reads * 4096,
      write_bytes_per_sec: 0,
      usec_per_read_op: usec,
      usec_per_write_op: 0,
      qos_rate_limit_usec_per_read_op: limited,
      qos_rate_limit_usec_per_write_op: 0,
    }) as ConnectionPerformance;
  const found = busiest([one('a', 100, 200), one('b', 500, 900, 600), one('a', 300, 400), one('idle', 0, 0)]);
  expect(found).toEqual([
    { name: 'b', iops: 500, bytes: 500 * 4096, usec: 900, isLimited: true },
    { name: 'a', iops: 400, bytes: 400 * 4096, usec: 350, isLimited: false },
  ]);
});

it('sums offloads by kind, weighted by commands', () => {
  const one = (primitive: Offload['primitive'], commands: number, usec_per_op: number) =>
    ({ primitive, commands, errors: 1, bytes: 10 * commands, usec_per_op }) as Offload;
  const sums = sumsOf([one('unmap', 1, 100), one('unmap', 3, 500), one('extended_copy', 2, 50)]);
  expect(sums.unmap).toEqual({ commands: 4, errors: 2, bytes: 40, usec: 400 });
  expect(sums.extended_copy?.bytes).toBe(20);
  expect(sums.write_same).toBeUndefined();
});

it('prints rates and latencies with three digits', () => {
  expect([0, 940, 1000, 64_400, 2_500_000].map((n) => plain(rate(n)))).toEqual([
    '0',
    '940',
    '1.00 k',
    '64.4 k',
    '2.50 M',
  ]);
  expect([0, 87, 1000, 15_300, 2e6].map((n) => plain(latency(n)))).toEqual([
    '<1 µs',
    '87 µs',
    '1.00 ms',
    '15.3 ms',
    '2.00 s',
  ]);
  expect([plain(bandwidth(1.5 * 2 ** 30)), bandwidth(null), rate(null), latency(undefined)]).toEqual([
    '1.50 GiB/s',
    '–',
    '–',
    '–',
  ]);
});

it('ends axes at round figures', () => {
  expect([0, 87, 140, 4100].map((n) => roundUp(n, false, 100))).toEqual([100, 100, 200, 6000]);
  expect([0, 3 * 1024, 5 * 2 ** 20].map((n) => roundUp(n, true, 1024))).toEqual([1024, 4096, 8 * 2 ** 20]);
});
