/** Rates and latencies as text: three significant digits. */

import { NONE, sizeParts } from './units';

const NO_BREAK = '\u00a0';

function significant(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** Operations per second, such as 940 or 64.4 k. */
export function rate(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined) return NONE;
  if (perSecond < 1000) return String(Math.round(perSecond));
  const [value, unit] = perSecond < 999_500 ? [perSecond / 1e3, 'k'] : [perSecond / 1e6, 'M'];
  return `${significant(value)}${NO_BREAK}${unit}`;
}

/** A latency: microseconds below 1 ms, milliseconds below 1 s. */
export function latency(usec: number | null | undefined): string {
  if (usec === null || usec === undefined) return NONE;
  if (usec < 0.5) return `<1${NO_BREAK}µs`;
  if (usec < 999.5) return `${Math.round(usec)}${NO_BREAK}µs`;
  const [value, unit] = usec < 999_500 ? [usec / 1e3, 'ms'] : [usec / 1e6, 's'];
  return `${significant(value)}${NO_BREAK}${unit}`;
}

/** Bytes per second, such as 1.29 GiB/s. */
export function bandwidth(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined) return NONE;
  return `${sizeParts(perSecond).join(NO_BREAK)}/s`;
}

/** A round figure for the end of an axis: at least `most` and `least`. */
export function roundUp(figure: number, isBinary: boolean, least: number): number {
  const most = Math.max(figure, least);
  if (isBinary) {
    const power = 1024 ** Math.floor(Math.log2(most) / 10);
    return power * 2 ** Math.ceil(Math.log2(most / power));
  }
  const power = 10 ** Math.floor(Math.log10(most));
  return power * ([1, 2, 4, 6, 8, 10].find((step) => step * power >= most * (1 - 1e-9)) ?? 10);
}
