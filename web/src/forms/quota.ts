/** Limits of a pod as they are typed. */

import { parseSize } from '../format/units';

/** Reads a size within its limits: `null` is none, `undefined` cannot be read. */
function within(typed: string, least: number, most: number): number | null | undefined {
  const parsed = parseSize(typed);
  if ('error' in parsed) return parsed.error === 'empty' ? null : undefined;
  return parsed.bytes >= least && parsed.bytes <= most ? parsed.bytes : undefined;
}

/** The sizes of all volumes together. */
export const readQuota = (typed: string) => within(typed, 2 ** 20, 2 ** 52);

/** Bytes a second that bring the other array into step. */
export const readResyncLimit = (typed: string) => within(typed, 2 ** 20, 2 ** 40);
