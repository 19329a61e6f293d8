/** A link to another array in words. */

import type { Distance } from '../api/types';
import { bandwidth, latency } from '../format/rates';
import { duration } from '../format/time';
import { text } from '../text';

/** Clocks that differ by less than this are even: the time that a message takes is not known exactly (ms). */
const EVEN_MS = 50;

/** How far the clock of the other array is from that of this one. */
export function clockOf(ahead: number | null): string {
  if (ahead === null) return text.common.none;
  if (Math.abs(ahead) < EVEN_MS) return text.links.clockEven;
  const apart = Math.abs(ahead) < 1000 ? latency(Math.abs(ahead) * 1000) : duration(Math.abs(ahead));
  return ahead > 0 ? text.links.clockAhead(apart) : text.links.clockBehind(apart);
}

/** A simulated distance in words. */
export function simulated({ rtt_usec, jitter_usec, bytes_per_second, cut }: Distance): string {
  const words = text.links.simulatedParts;
  const parts = [
    rtt_usec > 0 && words.rtt(latency(rtt_usec)),
    jitter_usec > 0 && words.jitter(latency(jitter_usec)),
    bytes_per_second !== null && words.rate(bandwidth(bytes_per_second)),
    cut !== 'none' && words[cut],
  ].filter((part) => part !== false);
  return `${parts.join(', ')}.`;
}
