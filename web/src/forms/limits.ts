/** Limits of a volume as they are typed. */

import { type Limits, NO_BANDWIDTH_LIMIT, NO_IOPS_LIMIT } from '../actions';
import { parseSize } from '../format/units';

const LEAST_BANDWIDTH = 2 ** 20;
const LEAST_IOPS = 100;

type Read = Limits & { error: { bandwidth: boolean; iops: boolean; threshold: boolean } };

function whole(typed: string, least: number, most: number): number | null {
  const value = /^\d+$/.test(typed.trim()) ? Number(typed) : Number.NaN;
  return value >= least && value <= most ? value : null;
}

/** Reads the fields. An empty one removes its limit. */
export function readLimits(bandwidth: string, iops: string, threshold: string): Read {
  const size = parseSize(bandwidth);
  const bytes = 'bytes' in size ? size.bytes : size.error === 'empty' ? NO_BANDWIDTH_LIMIT : 0;
  const commands = iops.trim() === '' ? NO_IOPS_LIMIT : whole(iops, LEAST_IOPS, NO_IOPS_LIMIT);
  const percent = threshold.trim() === '' ? 0 : whole(threshold, 1, 100);
  return {
    bandwidth: bytes,
    iops: commands ?? NO_IOPS_LIMIT,
    threshold: percent ?? 0,
    error: {
      bandwidth: bytes < LEAST_BANDWIDTH || bytes > NO_BANDWIDTH_LIMIT,
      iops: commands === null,
      threshold: percent === null,
    },
  };
}
