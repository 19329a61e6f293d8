/** Server-sent events: from bytes to messages. */

export type Message = { id: string; event: string; data: string };

/** Reads the messages of a stream. A comment, such as a heartbeat, is a message without an event. */
export class MessageReader {
  #text = '';
  readonly #decoder = new TextDecoder();

  read(bytes: Uint8Array): Message[] {
    this.#text += this.#decoder.decode(bytes, { stream: true });
    const parts = this.#text.split('\n\n');
    this.#text = parts.pop() ?? '';
    return parts.map(parsed);
  }
}

function parsed(part: string): Message {
  const lines = part.split('\n');
  const field = (name: string) =>
    lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
  return { id: field('id'), event: field('event'), data: field('data') };
}

/** The kinds that a message names. */
export function kindsOf(data: string): string[] {
  try {
    const { kinds } = JSON.parse(data) as { kinds?: unknown };
    return Array.isArray(kinds) ? kinds.filter((kind) => typeof kind === 'string') : [];
  } catch {
    return [];
  }
}

const PERFORMANCE = [
  '/arrays/performance',
  '/connections/performance',
  '/hosts/performance',
  '/offloads/performance',
  '/pods/performance',
  '/ports/performance',
  '/volumes/performance',
];

/** The lists that show something of each kind. */
const PATHS: Record<string, readonly string[]> = {
  admins: ['/admins'],
  alerts: ['/alerts'],
  arrays: ['/arrays'],
  audits: ['/audits'],
  connections: ['/connections', '/volumes', '/hosts', '/host-groups'],
  'host-groups': ['/host-groups', '/hosts', '/connections'],
  hosts: ['/hosts', '/host-groups', '/connections', '/iscsi-sessions'],
  'iscsi-sessions': ['/iscsi-sessions', '/iscsi-sessions/refused', '/hosts'],
  performance: PERFORMANCE,
  pods: [
    '/pods',
    '/pods/replication',
    '/volumes',
    '/volume-snapshots',
    '/connections',
    '/protection-groups/volumes',
  ],
  'protection-group-snapshots': ['/protection-group-snapshots', '/protection-groups'],
  'protection-groups': ['/protection-groups', '/protection-groups/volumes', '/protection-group-snapshots'],
  sessions: ['/sessions'],
  space: ['/arrays', '/pods', '/volumes', '/volume-snapshots', '/protection-group-snapshots'],
  'volume-groups': ['/volumes', '/volume-snapshots', '/connections'],
  'volume-snapshots': ['/volume-snapshots', '/volumes'],
  volumes: [
    '/volumes',
    '/volume-snapshots',
    '/connections',
    '/pods',
    '/protection-groups',
    '/protection-groups/volumes',
  ],
};

const COVERED = new Set(Object.values(PATHS).flat());
/** Lists with figures that change without a report, such as round trips. */
const PARTLY_COVERED = new Set(['/pods/replication']);

/** Whether the stream reports every change of a list. */
export const isCovered = (path: string) => COVERED.has(path) && !PARTLY_COVERED.has(path);

/** Minimum time between two readings because of a kind (ms). Others are read at once. */
const PAUSES: Record<string, number> = { performance: 5_000, space: 10_000 };

/** Kinds that wait to be read, so that figures that change all the time are read at intervals. */
export class Waiting {
  readonly #kinds = new Set<string>();
  readonly #read = new Map<string, number>();

  add(kinds: string[]) {
    for (const kind of kinds) this.#kinds.add(kind);
  }

  /** Takes the lists that are to be read now, and the time until the next ones are (ms). */
  take(now: number): { paths: Set<string>; next: number | null } {
    const paths = new Set<string>();
    let next: number | null = null;
    for (const kind of this.#kinds) {
      const pause = (this.#read.get(kind) ?? Number.NEGATIVE_INFINITY) + (PAUSES[kind] ?? 0) - now;
      if (pause > 0) {
        next = Math.min(next ?? pause, pause);
        continue;
      }
      this.#kinds.delete(kind);
      this.#read.set(kind, now);
      for (const path of PATHS[kind] ?? []) paths.add(path);
    }
    return { paths, next };
  }
}
