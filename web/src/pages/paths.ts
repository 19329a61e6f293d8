/** Which host is logged in over which port, and what has changed. */

import type { Host, Port, Session } from '../api/types';

export type PathState = 'connected' | 'unstable' | 'missing' | 'none';
export type Paths = {
  cells: PathState[];
  connected: number;
  /** Ports over which the host is or was logged in. */
  used: number;
  drops: number;
  health: 'good' | 'unstable' | 'lost' | 'out' | 'never' | 'one';
};

const HOUR = 3_600_000;
/** Ends within an hour that make a path unstable. */
const DROPS = 2;
const LOGGED_OUT = 'logged out';
const ORDER: Paths['health'][] = ['lost', 'unstable', 'out', 'never', 'one', 'good'];

/** A port that listens on all addresses is known by its number only. */
export function isAt(session: Session, { portal }: Port): boolean {
  if (portal === null || session.target_portal === portal) return portal !== null;
  const isAny = portal.startsWith('0.0.0.0:') || portal.startsWith('[::]:');
  return isAny && session.target_portal.split(':').at(-1) === portal.split(':').at(-1);
}

/** The paths of a host, from its sessions: those that exist and those that ended. */
export function pathsOf(ports: Port[], live: Session[], ended: Session[], now: number): Paths {
  let drops = 0;
  const cells = ports.map((port): PathState => {
    const ends = ended.filter((session) => isAt(session, port));
    const failed = ends.filter(
      (session) => session.reason !== LOGGED_OUT && now - (session.ended ?? 0) < HOUR,
    ).length;
    drops += failed;
    if (live.some((session) => isAt(session, port))) return failed >= DROPS ? 'unstable' : 'connected';
    const last = ends.reduce<Session | null>(
      (last, session) => ((session.ended ?? 0) > (last?.ended ?? 0) ? session : last),
      null,
    );
    return last !== null && last.reason !== LOGGED_OUT ? 'missing' : 'none';
  });
  const connected = cells.filter((cell) => cell === 'connected' || cell === 'unstable').length;
  const missing = cells.filter((cell) => cell === 'missing').length;
  return { cells, connected, used: connected + missing, drops, health: healthOf(cells, connected, ended) };
}

function healthOf(cells: PathState[], connected: number, ended: Session[]): Paths['health'] {
  if (cells.includes('missing')) return 'lost';
  if (cells.includes('unstable')) return 'unstable';
  if (connected === 0) return ended.length > 0 ? 'out' : 'never';
  return connected === 1 && cells.length > 1 ? 'one' : 'good';
}

/** Hosts with their paths, problems first. */
export function matrix(hosts: Host[], ports: Port[], live: Session[], ended: Session[], now: number) {
  const byHost = (sessions: Session[]) => {
    const groups = new Map<string | null, Session[]>();
    for (const session of sessions) {
      const group = groups.get(session.host.name);
      if (group) group.push(session);
      else groups.set(session.host.name, [session]);
    }
    return groups;
  };
  const [liveOf, endedOf] = [byHost(live), byHost(ended)];
  return hosts
    .map((host) => {
      const [present, past] = [liveOf.get(host.name) ?? [], endedOf.get(host.name) ?? []];
      return { host, paths: pathsOf(ports, present, past, now) };
    })
    .toSorted((a, b) => ORDER.indexOf(a.paths.health) - ORDER.indexOf(b.paths.health));
}
