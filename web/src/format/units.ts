/** Numbers as text: binary units with binary names, three significant digits. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const NO_BREAK = '\u00a0';
const THIN = '\u202f';
export const NONE = '–';

function significant(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** Splits a size into its figure and its unit. */
export function sizeParts(bytes: number): [string, string] {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const figure = unit === 0 ? String(value) : significant(value);
  return [figure, UNITS[unit] ?? ''];
}

/** A measured size. Unknown is not zero. */
export function size(bytes: number | null | undefined): string {
  return bytes === null || bytes === undefined ? NONE : sizeParts(bytes).join(NO_BREAK);
}

/** A size that a person chose: without zeros after the point. */
export function chosenSize(bytes: number): string {
  return size(bytes)
    .replace(/(\.\d*?)0+(?=\u00a0)/, '$1')
    .replace(/\.(?=\u00a0)/, '');
}

/** All digits, and the decimal unit, which drive vendors use. */
export function exactSize(bytes: number): string {
  const decimal = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < decimal.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const short = unit === 0 ? '' : ` = ${significant(value)}${NO_BREAK}${decimal[unit]}`;
  return `${count(bytes)}${NO_BREAK}bytes${short}`;
}

/** A ratio such as 3.8:1. */
export function ratio(value: number): string {
  return `${value.toFixed(value < 100 ? 1 : 0)}:1`;
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return NONE;
  const value = (100 * part) / whole;
  return `${value > 0 && value < 1 ? '<1' : Math.floor(value)}${NO_BREAK}%`;
}

export type ParsedSize =
  | { bytes: number }
  | { error: 'empty' | 'unreadable' | 'decimal'; suggestion?: string };

/** Parses `1T`, `1TiB` and `1.5 tib`. Refuses `1TB`, because TB is decimal. */
export function parseSize(text: string): ParsedSize {
  const trimmed = text.trim();
  if (trimmed === '') return { error: 'empty' };
  const match = /^(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b|b)?$/i.exec(trimmed);
  if (!match) return { error: 'unreadable' };
  const [, figure = '', letter = '', ending = ''] = match;
  if (letter !== '' && ending.toLowerCase() === 'b') {
    return { error: 'decimal', suggestion: `${figure}${letter.toUpperCase()}iB` };
  }
  const power = letter === '' ? 0 : 'kmgtp'.indexOf(letter.toLowerCase()) + 1;
  return { bytes: Math.round(Number(figure) * 1024 ** power) };
}

/** The shortest text that a command accepts for a size. */
export function commandSize(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && value % 1024 === 0 && unit < 5) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? String(value) : `${value}${UNITS[unit]}`;
}
