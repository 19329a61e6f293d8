/** The filters of lists: short forms that people type, in the grammar of the interface. */

const OF_VOLUMES: Fields = {
  pod: 'pod.name',
  size: 'provisioned',
  written: 'space.virtual',
  stored: 'space.total_physical',
  reduction: 'space.data_reduction',
  snapshots: 'space.snapshots',
  hosts: 'connection_count',
};
/** The fields of pods. */
export const OF_PODS: Fields = {
  quota: 'quota_limit',
  size: 'space.used_provisioned',
  stored: 'space.total_physical',
  volumes: 'volume_count',
  written: 'space.virtual',
};
type Fields = Record<string, string>;
const UNITS = 'kmgtp';
const TOKEN = /'[^']*'|[A-Za-z_][\w.]*|\d+(?:\.\d+)?(?:[kmgtp](?:i?b)?)?\b|[<>!=]=?|[()*,]|\S/gi;

/** Returns the filter in the grammar of the interface; '' for no filter. */
export function translate(text: string, fields = OF_VOLUMES): string {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  if (/^[\w.*:/-]+(\s+[\w.*:/-]+)*$/.test(trimmed) && !/\b(and|or|not)\b/i.test(trimmed)) {
    return trimmed
      .split(/\s+/)
      .map((word) => `name='${word.includes('*') ? word : `*${word}*`}'`)
      .join(' and ');
  }
  return (trimmed.match(TOKEN) ?? []).map((word) => token(word, fields)).join(' ');
}

function token(text: string, fields: Fields): string {
  const field = fields[text.toLowerCase()];
  if (field) return field;
  const number = /^(\d+(?:\.\d+)?)([kmgtp])(?:i?b)?$/i.exec(text);
  if (!number) return text;
  const power = UNITS.indexOf((number[2] ?? '').toLowerCase()) + 1;
  return String(Math.round(Number(number[1]) * 1024 ** power));
}

/** Quotes a name for a filter. */
export function quoted(name: string): string {
  return `'${name.replaceAll("'", '')}'`;
}
