/** What the console reads, and how often without live updates. Nothing is read while the tab is hidden. */

import { QueryCache, QueryClient, useQuery } from '@tanstack/react-query';
import { quoted } from '../format/filter';
import { ApiError, call, type Params } from './client';
import { pace } from './live';
import { noteAnswer, noteFailure } from './session';
import type { Items, Lists } from './types';

export const LIST_MS = 10_000;
const DETAIL_MS = 5_000;
const SLOW_MS = 30_000;
/** Volumes per request of the list. */
export const WINDOW = 200;

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onSuccess: noteAnswer, onError: noteFailure }),
  defaultOptions: {
    queries: {
      retry: (failures, error) => error instanceof ApiError && error.status === 0 && failures < 2,
      retryDelay: (attempt) => Math.min(30_000, 1000 * 2 ** attempt) * (0.75 + Math.random() / 2),
      staleTime: 1_000,
    },
  },
});

function list<P extends keyof Lists>(path: P, params: Params, interval: number, isEnabled = true) {
  return {
    queryKey: [path, params],
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      call<Items<Lists[P]>>('GET', path, params, undefined, {}, signal),
    refetchInterval: pace(path, interval),
    enabled: isEnabled,
  } as const;
}

export const useArray = () => useQuery({ ...list('/arrays', {}, LIST_MS), select: (data) => data.items[0] });

export const useOpenAlerts = () =>
  useQuery({
    ...list('/alerts', { filter: "state='open'" }, LIST_MS),
    select: (data) => data.items,
  });

export const useAlerts = () =>
  useQuery({ ...list('/alerts', { sort: 'created-' }, LIST_MS), select: (data) => data.items });

export type VolumeView = { filter: string; sort: string; destroyed: boolean };

export const volumeWindow = (view: VolumeView, index: number) => ({
  ...list(
    '/volumes',
    {
      filter: view.filter,
      // The array lists by name if no order is asked for, and needs to convert only the window.
      sort: view.sort === 'name' ? undefined : view.sort,
      destroyed: view.destroyed,
      offset: index * WINDOW,
      limit: WINDOW,
      total_item_count: true,
    },
    LIST_MS,
  ),
});

/** Pods of a view, all of them: an array has at most 500. */
export const usePods = ({ filter, sort, destroyed }: VolumeView) =>
  useQuery(whole('/pods', { filter, sort, destroyed }, LIST_MS));

/** All pods, destroyed ones too. */
export const useAllPods = (isEnabled = true) =>
  useQuery({ ...whole('/pods', {}, LIST_MS), enabled: isEnabled });

/** A pod on two arrays, as this array has it; nothing if it is on this array alone. */
export const usePodReplication = (pod: string) =>
  useQuery({
    ...list('/pods/replication', { names: pod }, DETAIL_MS),
    select: (data) => data.items[0] ?? null,
  });

/** Volumes of a pod, destroyed ones too. */
export const useVolumesOfPod = (pod: string) =>
  useQuery(whole('/volumes', { filter: `pod.name=${quoted(pod)}` }, LIST_MS));

export const useArrayConnections = (isEnabled = true) =>
  useQuery({ ...whole('/array-connections', {}, DETAIL_MS), enabled: isEnabled });

/** Names of all volumes of a view. */
export async function namesOf(view: VolumeView): Promise<string[]> {
  const params = {
    filter: view.filter,
    sort: view.sort === 'name' ? undefined : view.sort,
    destroyed: view.destroyed,
  };
  const { queryFn } = whole('/volumes', params, LIST_MS, MOST_SELECTED / 1000);
  const volumes = await queryFn({ signal: new AbortController().signal });
  return volumes.map(({ name }) => name);
}

export const useLargestVolumes = () =>
  useQuery({
    ...list(
      '/volumes',
      { destroyed: false, sort: 'space.total_physical-', limit: 6, total_item_count: true },
      LIST_MS,
    ),
  });

export const useDestroyedVolumes = () =>
  useQuery({
    ...list(
      '/volumes',
      { destroyed: true, sort: 'time_remaining', limit: 5, total_item_count: true },
      LIST_MS,
    ),
  });

export const useVolume = (name: string, isEnabled = true) =>
  useQuery({
    ...list('/volumes', { names: name }, DETAIL_MS, isEnabled),
    select: (data) => data.items[0],
  });

export const useSnapshots = (volume: string, isEnabled = true) =>
  useQuery({
    ...list('/volume-snapshots', { source_names: volume, sort: 'created-' }, DETAIL_MS, isEnabled),
    select: (data) => data.items,
  });

/** Snapshots of the volumes of a group that are not destroyed. */
export const useSnapshotsOf = (volumes: string[]) =>
  useQuery({
    ...whole('/volume-snapshots', { source_names: volumes.join(','), destroyed: false }, SLOW_MS),
    enabled: volumes.length > 0,
  });

/** Snapshots of all volumes, destroyed ones too. */
export const useAllSnapshots = () => useQuery(whole('/volume-snapshots', {}, SLOW_MS));

export const useConnections = (
  of: { volume?: string; host?: string; hostGroup?: string },
  isEnabled = true,
) =>
  useQuery({
    ...list(
      '/connections',
      { volume_names: of.volume, host_names: of.host, host_group_names: of.hostGroup },
      DETAIL_MS,
      isEnabled,
    ),
    select: (data) => data.items,
  });

/** All pages of a list, up to this many. */
const MOST_PAGES = 10;
/** Volumes that a selection may have: as many as an array may have. */
const MOST_SELECTED = 20_000;

function whole<P extends keyof Lists>(path: P, params: Params, interval: number, pages = MOST_PAGES) {
  return {
    queryKey: [path, params, 'all'],
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const items: Lists[P][] = [];
      let token: string | undefined;
      for (let page = 0; page < pages; page += 1) {
        const query = { ...params, continuation_token: token };
        const answer = await call<Items<Lists[P]>>('GET', path, query, undefined, {}, signal);
        items.push(...answer.items);
        token = answer.continuation_token ?? undefined;
        if (!answer.more_items_remaining || token === undefined) break;
      }
      return items;
    },
    refetchInterval: pace(path, interval),
  } as const;
}

export const useHosts = () => useQuery(whole('/hosts', {}, LIST_MS));

export const useHostGroups = (isEnabled = true) =>
  useQuery({ ...whole('/host-groups', {}, LIST_MS), enabled: isEnabled });

/** Protection groups, destroyed ones too. */
export const useProtectionGroups = () => useQuery(whole('/protection-groups', {}, LIST_MS));

/** Snapshots of protection groups, destroyed ones too, latest first. */
export const useGroupSnapshots = () =>
  useQuery({
    ...whole('/protection-group-snapshots', {}, LIST_MS),
    select: (snapshots) => snapshots.toSorted((a, b) => b.created - a.created),
  });

/** The volumes of a protection group, or the protection groups of a volume. */
export const useMembers = (of: { group?: string; volume?: string }) =>
  useQuery(
    whole('/protection-groups/volumes', { group_names: of.group, member_names: of.volume }, DETAIL_MS),
  );

export const useSessions = () => useQuery(whole('/iscsi-sessions', {}, LIST_MS));

/** Sessions that ended, latest first. */
export const useEndedSessions = () =>
  useQuery(whole('/iscsi-sessions', { ended: true, sort: 'ended-' }, SLOW_MS));

/** The latest changes by administrators. */
export const useAudits = () =>
  useQuery({
    ...list('/audits', { sort: 'name-', limit: 200 }, LIST_MS),
    select: (data) => data.items,
  });

export const useRefusedLogins = () =>
  useQuery({
    ...list('/iscsi-sessions/refused', { sort: 'time-' }, LIST_MS),
    select: (data) => data.items,
  });

export const usePorts = () => useQuery({ ...list('/ports', {}, SLOW_MS), select: (data) => data.items });

export const usePortPerformance = () =>
  useQuery({
    ...list('/ports/performance', {}, DETAIL_MS),
    select: (data) => data.items,
  });

export const useDrives = () => useQuery({ ...list('/drives', {}, SLOW_MS), select: (data) => data.items });

export const useAdmins = () => useQuery({ ...list('/admins', {}, SLOW_MS), select: (data) => data.items });

/** Open sessions of administrators, latest first. */
export const useAdminSessions = () =>
  useQuery({
    ...list('/sessions', {}, SLOW_MS),
    select: (data) => data.items.toSorted((a, b) => b.start_time - a.start_time),
  });

/** Space that destroyed volumes hold. */
export const useDestroyedSpace = () =>
  useQuery({
    ...whole('/volumes', { destroyed: true }, SLOW_MS),
    select: (volumes) => volumes.reduce((sum, volume) => sum + (volume.space.total_physical ?? 0), 0),
  });

export const useControllers = () =>
  useQuery({ ...list('/controllers', {}, SLOW_MS), select: (data) => data.items });

export const useScrub = () =>
  useQuery({ ...list('/arrays/scrub', {}, DETAIL_MS), select: (data) => data.items[0] });

/** The hosts and volumes that were active in the last two seconds. */
export const useActive = () =>
  useQuery({
    ...list('/connections/performance', {}, DETAIL_MS),
    select: (data) => data.items,
  });

/** Offloads since the start of the array, of a volume, of a host, or of all. */
export const useOffloads = (of: { volume?: string; host?: string } = {}) =>
  useQuery({
    ...list('/offloads/performance', {}, LIST_MS),
    select: (data) =>
      data.items.filter(
        (item) =>
          (of.volume === undefined || item.volume.name === of.volume) &&
          (of.host === undefined || item.host.name === of.host),
      ),
  });

/** Marks the lists that show something of a path as out of date. Only visible ones are read at once. */
export function markOutOfDate(paths: ReadonlySet<string> | null) {
  return paths === null
    ? refresh()
    : queryClient.invalidateQueries({ predicate: ({ queryKey: [path] }) => paths.has(String(path)) });
}

/** Marks everything as out of date, after a change. */
export function refresh() {
  return queryClient.invalidateQueries();
}
