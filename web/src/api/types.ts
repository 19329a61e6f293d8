/** The resources of the REST interface under the names that the console uses. `schema.ts` is generated from its description. */

export type {
  Admin,
  Alert,
  Array as ArrayInfo,
  ArrayConnection,
  ArrayConnectionKey as ConnectionKey,
  ArrayConnectionTest as LinkTest,
  Audit,
  Connection,
  ConnectionPerformance,
  Controller,
  Drive,
  Host,
  HostGroup,
  IscsiSession as Session,
  Lists,
  Member,
  OffloadPerformance as Offload,
  Performance,
  Pod,
  PodPatch,
  PodReplication,
  PodReplicationArray,
  Port,
  ProtectionGroup,
  ProtectionGroupSnapshot as GroupSnapshot,
  Reference,
  RefusedLogin,
  RoundTrips,
  Scrub,
  Session as AdminSession,
  SimulatedDistance as Distance,
  Space,
  Volume,
  VolumeSnapshot as Snapshot,
} from './schema';

/** A page of a list. */
export type Items<T> = {
  items: T[];
  continuation_token: string | null;
  more_items_remaining: boolean;
  total_item_count: number | null;
};
