/** The resources of the REST interface that the console uses. `array/api` defines every field. */

export type Reference = { id: string | null; name: string | null };

export type Items<T> = {
  items: T[];
  continuation_token: string | null;
  more_items_remaining: boolean;
  total_item_count: number | null;
};

export type Space = {
  as_of: number | null;
  data_reduction: number;
  shared: number | null;
  snapshots: number;
  system: number | null;
  total_physical: number | null;
  total_provisioned: number;
  unique: number | null;
  /** Of a pod: what counts towards its quota. */
  used_provisioned: number | null;
  virtual: number | null;
};

export type ArrayInfo = {
  id: string;
  name: string;
  capacity: number;
  eradication_config: { eradication_delay: number };
  os: string;
  program_version: string;
  space: Space;
  status: string;
  scrub_config: { interval: number | null; bytes_per_second: number };
  threshold_percent: number | null;
  version: string;
};

export type Volume = {
  id: string;
  name: string;
  connection_count: number;
  created: number;
  destroyed: boolean;
  pod: Reference;
  provisioned: number;
  qos: { bandwidth_limit: number | null; iops_limit: number | null };
  serial: string;
  source: Reference;
  space: Space;
  threshold_percent: number | null;
  time_remaining: number | null;
  volume_group: Reference;
};

export type Snapshot = {
  id: string;
  name: string;
  created: number;
  destroyed: boolean;
  provisioned: number;
  source: Reference;
  suffix: string;
  time_remaining: number | null;
};

export type Connection = { host: Reference; host_group: Reference; volume: Reference; lun: number };

export type Host = {
  name: string;
  chap: { host_user: string | null; target_user: string | null };
  connection_count: number;
  host_group: Reference;
  iqns: string[];
  personality: string | null;
  space: Space;
};

export type HostGroup = { name: string; connection_count: number; host_count: number; space: Space };

export type ProtectionGroup = {
  id: string;
  name: string;
  destroyed: boolean;
  /** `frequency` and `at`, a time of day in UTC, are in milliseconds. */
  snapshot_schedule: { at: number | null; enabled: boolean; frequency: number };
  source_retention: { all_for_sec: number; days: number; per_day: number };
  space: Space;
  time_remaining: number | null;
  volume_count: number;
};

export type GroupSnapshot = {
  id: string;
  name: string;
  created: number;
  destroyed: boolean;
  source: Reference;
  suffix: string;
  time_remaining: number | null;
};

/** A pod on its arrays: one so far. */
export type Pod = {
  id: string;
  name: string;
  arrays: { id: string; name: string; mediator_status: string; pre_elected: boolean; status: string }[];
  created: number;
  destroyed: boolean;
  failover_preferences: Reference[];
  quota_limit: number | null;
  source: Reference;
  space: Space;
  time_remaining: number | null;
  volume_count: number;
};

export type RoundTrips = { min_usec: number; median_usec: number; max_usec: number };

export type Distance = {
  rtt_usec: number;
  jitter_usec: number;
  bytes_per_second: number | null;
  cut: string;
};

/** A connection to another array. `management_address` is null if the other array makes it. */
export type ArrayConnection = {
  id: string;
  name: string;
  certificate: string;
  clock_ahead: number | null;
  management_address: string | null;
  problem: string | null;
  received_bytes: number;
  replication_addresses: string[];
  rtt: RoundTrips | null;
  sent_bytes: number;
  sessions: number;
  simulated_distance: Distance | null;
  since: number;
  status: string;
  version: string | null;
};

export type ConnectionKey = {
  address: string | null;
  connection_key: string;
  created: number;
  expires: number;
};

export type LinkTest = {
  name: string;
  heartbeats: number;
  is_simulated: boolean;
  received_bytes_per_second: number;
  rtt: RoundTrips;
  rtt_under_load: RoundTrips;
  sent_bytes_per_second: number;
  unanswered: number;
};

export type Member = { group: Reference; member: Reference };

export type Alert = {
  id: string;
  name: string;
  actual: string | null;
  expected: string | null;
  closed: number | null;
  code: number;
  component_name: string;
  component_type: string;
  created: number;
  description: string;
  severity: string;
  state: string;
  summary: string;
};

export type Scrub = {
  running: boolean;
  checked: number;
  used: number;
  damage: string[];
  last: number | null;
  next: number | null;
};

export type Port = { name: string; iqn: string | null; portal: string | null };
export type Controller = { name: string; mode: string; model: string; status: string; version: string };

/** Rates per second and latencies in microseconds, over the interval that ends at `time`. */
export type Performance = {
  name: string;
  time: number;
  reads_per_sec: number;
  writes_per_sec: number;
  others_per_sec: number;
  read_bytes_per_sec: number;
  write_bytes_per_sec: number;
  usec_per_read_op: number;
  usec_per_write_op: number;
  usec_p99_per_read_op: number;
  usec_p99_per_write_op: number;
  qos_rate_limit_usec_per_read_op: number;
  qos_rate_limit_usec_per_write_op: number;
  queue_depth: number;
};

export type ConnectionPerformance = Performance & { host: Reference; volume: Reference };

/** Commands of one kind since the start of the array. */
export type Offload = {
  volume: Reference;
  host: Reference;
  initiator: string;
  primitive: 'compare_and_write' | 'extended_copy' | 'write_same' | 'unmap';
  commands: number;
  errors: number;
  bytes: number;
  usec_per_op: number;
};

export type Session = {
  initiator: string;
  host: Reference;
  isid: string;
  tsih: number;
  initiator_portal: string;
  target_portal: string;
  since: number;
  authenticated: boolean;
  parameters: Record<string, string>;
  ended: number | null;
  reason: string | null;
};

export type RefusedLogin = {
  initiator: string;
  initiator_portal: string;
  count: number;
  time: number;
  reason: string;
};

export type Drive = { name: string; capacity: number; details: string; status: string; type: string };

export type Admin = {
  name: string;
  /** `created_at` is 0 without a token. */
  api_token: { created_at: number; expires_at: number | null; token: string };
  role: Reference;
};

/** A session of an administrator. */
export type AdminSession = { name: string; location: string; start_time: number; user: string };

/** A change by an administrator. */
export type Audit = {
  id: string;
  time: number;
  user: string;
  /** Address that the call came from. */
  location: string;
  /** Method and path of the call. */
  subcommand: string;
  command: string;
  arguments: string;
};
