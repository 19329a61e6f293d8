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

const PARSED: Record<string, number> = { s: 1000, m: MINUTE, min: MINUTE, h: HOUR, d: DAY };

/** Parses `24h`, `90 min`, `7d` and `0`; null if it is no time. */
export function parseTime(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(text.trim());
  const [, figure = '', name = ''] = match ?? [];
  if (!match) return null;
  const unit = name === '' && Number(figure) === 0 ? 1 : PARSED[name.toLowerCase()];
  return unit === undefined ? null : Math.round(Number(figure) * unit);
}

/** The shortest text that a command accepts for a time. */
export function commandTime(milliseconds: number): string {
  for (const [unit, name] of [
    [DAY, 'd'],
    [HOUR, 'h'],
    [MINUTE, 'min'],
  ] as const) {
    if (milliseconds >= unit && milliseconds % unit === 0) return `${milliseconds / unit}${name}`;
  }
  return `${Math.round(milliseconds / 1000)}s`;
}
