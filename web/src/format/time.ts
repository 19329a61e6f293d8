/** Times: relative within a day, with the date otherwise, in the time zone of the browser. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NO_BREAK = '\u00a0';

/** A length of time in at most two units, such as 23 h 48 min. */
export function duration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${seconds}${NO_BREAK}s`;
  const parts: [number, string][] = [
    [DAY, 'd'],
    [HOUR, 'h'],
    [MINUTE, 'min'],
  ];
  const first = parts.findIndex(([unit]) => milliseconds >= unit);
  const [unit, name] = parts[first] ?? [MINUTE, 'min'];
  const whole = Math.floor(milliseconds / unit);
  const next = parts[first + 1];
  const rest = next ? Math.floor((milliseconds - whole * unit) / next[0]) : 0;
  return `${whole}${NO_BREAK}${name}${next && rest > 0 ? ` ${rest}${NO_BREAK}${next[1]}` : ''}`;
}

export function absolute(milliseconds: number): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' }).format(milliseconds);
}

export function day(milliseconds: number): string {
  return new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' }).format(milliseconds);
}

export function clock(milliseconds: number): string {
  return new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' }).format(milliseconds);
}

/** The time since an event, or its date if that was more than a day ago. */
export function since(milliseconds: number, now: number): string {
  const passed = now - milliseconds;
  return passed >= 0 && passed < DAY ? duration(passed) : absolute(milliseconds);
}

export function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
