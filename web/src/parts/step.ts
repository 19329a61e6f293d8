/** The next item of a list: the one beside the present item, or the first in the direction of the key. */
export function step<T>(items: T[], present: T | null, by: 1 | -1): T | undefined {
  const at = present === null ? -1 : items.indexOf(present);
  if (at < 0) return by > 0 ? items[0] : items.at(-1);
  return items[Math.max(0, Math.min(items.length - 1, at + by))];
}
