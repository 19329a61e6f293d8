/** Measured values as text, as the lab's own page shows them. */

import type { Figure, Interval, Plot, Unit } from './report';

const NO_BREAK = '\u00a0';
const THIN = '\u202f';

/** A number with three significant digits and grouped thousands. */
export function number(value: number): string {
  const most = Math.abs(value);
  const digits = most >= 99.95 || most === 0 ? 0 : most >= 9.995 ? 1 : most >= 0.0995 ? 2 : 3;
  const [whole = '', part = ''] = value.toFixed(digits).split('.');
  const grouped = whole.replace('-', '').length < 5 ? whole : whole.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  const rest = part.replace(/0+$/, '');
  return rest === '' ? grouped : `${grouped}.${rest}`;
}

/** A duration in seconds. */
export function seconds(value: number): string {
  const most = Math.abs(value);
  if (most === 0) return `0${NO_BREAK}s`;
  if (most < 0.001) return `${number(value * 1e6)}${NO_BREAK}µs`;
  if (most < 1) return `${number(value * 1e3)}${NO_BREAK}ms`;
  if (most < 119.5) return `${number(value)}${NO_BREAK}s`;
  const whole = Math.round(value);
  return `${Math.trunc(whole / 60)}${NO_BREAK}min ${Math.abs(whole) % 60}${NO_BREAK}s`;
}

const SIGNS: Record<Unit, string> = {
  seconds: '',
  milliseconds: '',
  per_second: '/s',
  mib_per_second: 'MiB/s',
  mebibytes: 'MiB',
  count: '',
  times: '×',
  percent: '%',
};

export function withUnit(value: number, unit: Unit): string {
  if (unit === 'seconds') return seconds(value);
  if (unit === 'milliseconds') return seconds(value / 1000);
  if (unit === 'count') return number(value);
  if (unit === 'times') return `${number(value)}×`;
  const isLarge = (unit === 'mib_per_second' || unit === 'mebibytes') && Math.abs(value) >= 10_240;
  const sign = isLarge ? SIGNS[unit].replace('M', 'G') : SIGNS[unit];
  return `${number(isLarge ? value / 1024 : value)}${NO_BREAK}${sign}`;
}

/** A value without the digits that are noise. */
function rounded(value: number, halfWidth: number): number {
  if (!(Number.isFinite(halfWidth) && halfWidth > 0)) return value;
  const step = 10 ** Math.floor(Math.log10(halfWidth));
  return Math.round(value / step) * step;
}

const halfWidth = (interval: Interval | null) => (interval ? (interval.high - interval.low) / 2 : 0);

/** The measured value of a figure, with as many digits as its interval carries. */
export function measured({ measured, interval, unit }: Figure): string {
  return measured === null ? '–' : withUnit(rounded(measured, halfWidth(interval)), unit);
}

/** Both ends of an interval. */
export function ends(interval: Interval, unit: Unit): [low: string, high: string] {
  const end = (value: number) => withUnit(rounded(value, halfWidth(interval)), unit);
  return [end(interval.low), end(interval.high)];
}

export function goal(goal: NonNullable<Figure['goal']>, unit: Unit): string {
  return 'at_least' in goal ? `≥ ${withUnit(goal.at_least, unit)}` : `≤ ${withUnit(goal.at_most, unit)}`;
}

/** Whether a plot has anything to draw. */
export function isDrawn(plot: Plot): boolean {
  return plot.series.some(({ points }) => points.length > 0);
}
