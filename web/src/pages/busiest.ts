import type { ConnectionPerformance } from '../api/types';

export type Busy = { name: string; iops: number; bytes: number; usec: number | null; isLimited: boolean };
export const MOST_BUSY = 6;
/** A limit counts if commands waited for it for this share of their time. */
const LIMITED = 0.2;

/** The volumes, or the hosts, with most operations per second. */
export function busiest(
  active: ConnectionPerformance[],
  by: 'volume' | 'host' = 'volume',
  most = MOST_BUSY,
): Busy[] {
  const sums = new Map<string, { iops: number; bytes: number; time: number; limited: number }>();
  for (const one of active) {
    const name = one[by].name ?? '';
    const sum = sums.get(name) ?? { iops: 0, bytes: 0, time: 0, limited: 0 };
    const { reads_per_sec: reads, writes_per_sec: writes } = one;
    sum.iops += reads + writes;
    sum.bytes += one.read_bytes_per_sec + one.write_bytes_per_sec;
    sum.time += reads * one.usec_per_read_op + writes * one.usec_per_write_op;
    sum.limited +=
      reads * one.qos_rate_limit_usec_per_read_op + writes * one.qos_rate_limit_usec_per_write_op;
    sums.set(name, sum);
  }
  return [...sums]
    .filter(([, { iops }]) => iops > 0)
    .map(([name, { iops, bytes, time, limited }]) => ({
      name,
      iops,
      bytes,
      usec: time / iops,
      isLimited: limited > LIMITED * time,
    }))
    .toSorted((a, b) => b.iops - a.iops)
    .slice(0, most);
}
