/** The quota of a pod as it is typed. */

import { parseSize } from '../format/units';

const LEAST_QUOTA = 2 ** 20;
const MOST_QUOTA = 2 ** 52;

/** A quota as it is typed: `null` is none, `undefined` cannot be read. */
export function readQuota(typed: string): number | null | undefined {
  const parsed = parseSize(typed);
  if ('error' in parsed) return parsed.error === 'empty' ? null : undefined;
  return parsed.bytes >= LEAST_QUOTA && parsed.bytes <= MOST_QUOTA ? parsed.bytes : undefined;
}
