/** Types of the REST interface. `npm run types` writes this file from docs/openapi.json. */

/**
 * An access token, which is sent as `Authorization: Bearer TOKEN` (RFC 8693 2.2.1).
 */
export interface AccessToken {
  /**
   * The token.
   */
  access_token: string;
  /**
   * Seconds until it expires.
   */
  expires_in: number;
  /**
   * `urn:ietf:params:oauth:token-type:access_token`.
   */
  issued_token_type: string;
  /**
   * `Bearer`.
   */
  token_type: string;
}

/**
 * An administrator.
 */
export interface Admin {
  /**
   * The API token; the token itself is shown as `****`.
   */
  api_token: ApiToken;
  /**
   * Always true: there are no directory services.
   */
  is_local: boolean;
  /**
   * Always false: administrators have no passwords that could be guessed.
   */
  locked: boolean;
  /**
   * Always null.
   */
  lockout_remaining: number | null;
  /**
   * Name.
   */
  name: string;
  /**
   * Always null.
   */
  password: string | null;
  /**
   * Always null.
   */
  public_key: string | null;
  /**
   * `readonly`, `ops_admin`, `storage_admin` or `array_admin`.
   */
  role: Reference;
}

/**
 * A new API token of an administrator. Only the answer that creates it shows the token.
 */
export interface AdminApiToken {
  /**
   * The administrator.
   */
  admin: Reference;
  /**
   * The token.
   */
  api_token: ApiToken;
  /**
   * Name of the administrator.
   */
  name: string;
}

/**
 * A change of an administrator.
 */
export interface AdminPatch {
  /**
   * New role.
   */
  role?: ReferenceInput | null;
}

/**
 * Request to create an administrator.
 */
export interface AdminPost {
  /**
   * Role; `readonly` if absent.
   */
  role?: ReferenceInput | null;
}

/**
 * Rules for logins.
 */
export interface AdminSettings {
  /**
   * Milliseconds for which further guesses from an address are refused.
   */
  lockout_duration: number;
  /**
   * Failed logins from an address within that time before guesses are refused.
   */
  max_login_attempts: number;
  /**
   * Always 0: there are no passwords.
   */
  min_password_length: number;
  /**
   * Always false.
   */
  single_sign_on_enabled: boolean;
}

/**
 * A condition that needs an administrator.
 */
export interface Alert {
  /**
   * Measured value, if there is one.
   */
  actual: string | null;
  /**
   * `array`.
   */
  category: string;
  /**
   * Time of closing, in milliseconds since 1970.
   */
  closed: number | null;
  /**
   * Kind of alert.
   */
  code: number;
  /**
   * Name of the affected object.
   */
  component_name: string;
  /**
   * `array`, `volume`, `storage`, `host` or `pod`.
   */
  component_type: string;
  /**
   * Time of opening, in milliseconds since 1970.
   */
  created: number;
  /**
   * Recommended action.
   */
  description: string;
  /**
   * Expected value, if there is one.
   */
  expected: string | null;
  /**
   * True while the alert is open.
   */
  flagged: boolean;
  /**
   * Number of the alert, as text.
   */
  id: string;
  /**
   * The same as `summary`.
   */
  issue: string;
  /**
   * Always null.
   */
  knowledge_base_url: string | null;
  /**
   * The same as `id`; clients select alerts by it.
   */
  name: string;
  /**
   * Time of the first delivery to a destination, in milliseconds since 1970; null if there was
   * none.
   */
  notified: number | null;
  /**
   * `info`, `warning` or `critical`.
   */
  severity: string;
  /**
   * `open` or `closed`.
   */
  state: string;
  /**
   * The condition, in one line.
   */
  summary: string;
  /**
   * Time of the last change, in milliseconds since 1970.
   */
  updated: number;
}

/**
 * A mail address that gets alerts.
 */
export interface AlertWatcher {
  /**
   * State of the delivery. (Ibid extension.)
   */
  delivery: DeliveryStatus;
  /**
   * False if it gets nothing at present.
   */
  enabled: boolean;
  /**
   * `info`, `warning` or `critical`: the lowest severity that is sent.
   */
  minimum_notification_severity: string;
  /**
   * The mail address.
   */
  name: string;
}

/**
 * Request to add or change a mail address. Missing fields stay as they are.
 */
export interface AlertWatcherPatch {
  /**
   * Whether it gets alerts.
   */
  enabled?: boolean | null;
  /**
   * The lowest severity that is sent.
   */
  minimum_notification_severity?: string | null;
}

/**
 * A web hook: an address that gets alerts as JSON. (Ibid extension.)
 */
export interface AlertWebHook {
  /**
   * The only authorities that are trusted, in PEM; null for the public ones.
   */
  ca_certificate: string | null;
  /**
   * State of the delivery.
   */
  delivery: DeliveryStatus;
  /**
   * False if it gets nothing at present.
   */
  enabled: boolean;
  /**
   * `info`, `warning` or `critical`: the lowest severity that is sent.
   */
  minimum_notification_severity: string;
  /**
   * Name.
   */
  name: string;
  /**
   * Key of the signatures; shown only by the answer that creates it, otherwise `****`.
   */
  secret: string;
  /**
   * Where alerts are sent, with `https`.
   */
  url: string;
}

/**
 * Request to add or change a web hook. Missing fields stay as they are.
 */
export interface AlertWebHookPatch {
  /**
   * The only authorities that are trusted, in PEM; empty for the public ones.
   */
  ca_certificate?: string | null;
  /**
   * Whether it gets alerts.
   */
  enabled?: boolean | null;
  /**
   * The lowest severity that is sent.
   */
  minimum_notification_severity?: string | null;
  /**
   * New name.
   */
  name?: string | null;
  /**
   * Key of the signatures: `whsec_` and base64 of 24 to 64 bytes.
   */
  secret?: string | null;
  /**
   * Where alerts are sent.
   */
  url?: string | null;
}

/**
 * A program that exchanges signed ID tokens for access tokens.
 */
export interface ApiClient {
  /**
   * Lifetime of its access tokens, in milliseconds.
   */
  access_token_ttl_in_ms: number;
  /**
   * True if it may exchange tokens.
   */
  enabled: boolean;
  /**
   * Unique id: the audience (`aud`) of its ID tokens.
   */
  id: string;
  /**
   * The issuer (`iss`) of its ID tokens.
   */
  issuer: string;
  /**
   * Id of the public key: `kid` in the header of its ID tokens.
   */
  key_id: string;
  /**
   * The highest role of its access tokens: `readonly`, `ops_admin`, `storage_admin` or
   * `array_admin`.
   */
  max_role: string;
  /**
   * Name.
   */
  name: string;
  /**
   * RSA public key in PEM form.
   */
  public_key: string;
}

/**
 * A change of an API client.
 */
export interface ApiClientPatch {
  /**
   * True enables the client; false disables it and ends its access tokens.
   */
  enabled?: boolean | null;
}

/**
 * Request to create an API client. It is disabled at first.
 */
export interface ApiClientPost {
  /**
   * Lifetime of its access tokens, 1 second to 30 days in milliseconds; one day if absent.
   */
  access_token_ttl_in_ms?: number | null;
  /**
   * The issuer of its ID tokens; the name of the client if absent.
   */
  issuer?: string | null;
  /**
   * The highest role of its access tokens.
   */
  max_role?: string;
  /**
   * RSA public key in PEM form, 2048 to 8192 bits.
   */
  public_key?: string;
}

/**
 * One error.
 */
export interface ApiError {
  /**
   * The cause, for programs. (Ibid extension.)
   */
  code: ErrorCode;
  /**
   * The name of the object.
   */
  context: string | null;
  /**
   * The cause, for people.
   */
  message: string;
}

/**
 * An API token.
 */
export interface ApiToken {
  /**
   * Time of creation, in milliseconds since 1970.
   */
  created_at: number;
  /**
   * Time from which it is not valid, in milliseconds since 1970; null if it does not expire.
   */
  expires_at: number | null;
  /**
   * The token, or `****`.
   */
  token: string;
}

/**
 * Supported API versions, ascending.
 */
export interface ApiVersions {
  /**
   * Versions such as `2.26`.
   */
  version: string[];
}

/**
 * The array.
 */
export interface Array {
  /**
   * Time of the answer, in milliseconds since 1970.
   */
  as_of: number;
  /**
   * Always empty: there is no login prompt.
   */
  banner: string;
  /**
   * Bytes that reduced data and metadata may take. The drive has more: a reserve for metadata
   * and for the cleaner.
   */
  capacity: number;
  /**
   * Always false: there is no console.
   */
  console_lock_enabled: boolean;
  /**
   * Bytes written to the drive. (Ibid extension.)
   */
  drive_writes: DriveWrites;
  /**
   * Encryption of stored data.
   */
  encryption: Encryption;
  /**
   * How long destroyed objects can be recovered.
   */
  eradication_config: EradicationConfig;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Milliseconds without a call after which a session ends.
   */
  idle_timeout: number;
  /**
   * Name.
   */
  name: string;
  /**
   * Always empty: the operating system keeps the clock.
   */
  ntp_servers: string[];
  /**
   * Always null.
   */
  ntp_symmetric_key: string | null;
  /**
   * `Ibid`.
   */
  os: string;
  /**
   * 1.0: no data is being rebuilt.
   */
  parity: number;
  /**
   * Version of the program. (Ibid extension.)
   */
  program_version: string;
  /**
   * Data compressed again while hosts wrote little. (Ibid extension.)
   */
  recompression: Recompression;
  /**
   * When and how fast all stored data is verified. (Ibid extension.)
   */
  scrub_config: ScrubConfig;
  /**
   * Milliseconds that hosts should wait for a command.
   */
  scsi_timeout: number;
  /**
   * Space usage.
   */
  space: Space;
  /**
   * `ok`, `degraded` (a critical alert is open), `read-only` (started with --salvage) or
   * `stopped` (after a drive error; reads only).
   * (Ibid extension.)
   */
  status: string;
  /**
   * Percentage of the capacity at which hosts are warned; null for never. (Ibid extension.)
   */
  threshold_percent: number | null;
  /**
   * `UTC`: the time zone of the log.
   */
  time_zone: string;
  /**
   * Version of the dialect, see [`crate::DIALECT_VERSION`].
   */
  version: string;
}

/**
 * A connection to another array.
 */
export interface ArrayConnection {
  /**
   * SHA-256 of the certificate of the other array. (This and the next are Ibid extensions.)
   */
  certificate: string;
  /**
   * The clock of the other array minus that of this one, in milliseconds.
   */
  clock_ahead: number | null;
  /**
   * Always `encrypted`.
   */
  encryption: string;
  /**
   * Id of the other array.
   */
  id: string;
  /**
   * The address that this array connects to; null if the other array connects.
   */
  management_address: string | null;
  /**
   * Name of the other array.
   */
  name: string;
  /**
   * Operating system of the other array.
   */
  os: string;
  /**
   * Why there is no session.
   */
  problem: string | null;
  /**
   * Bytes received since the start, before encryption.
   */
  received_bytes: number;
  /**
   * The other array.
   */
  remote: Reference;
  /**
   * Address of the other array in the present session.
   */
  replication_addresses: string[];
  /**
   * Always `ip`.
   */
  replication_transport: string;
  /**
   * The last round trips; null without a session.
   */
  rtt: RoundTrips | null;
  /**
   * Bytes sent since the start, before encryption.
   */
  sent_bytes: number;
  /**
   * Sessions since the start.
   */
  sessions: number;
  /**
   * The simulated distance; null if none is simulated.
   */
  simulated_distance: SimulatedDistance | null;
  /**
   * Start of the session or of its absence, in milliseconds since 1970.
   */
  since: number;
  /**
   * `connected`; `partially_connected` without the data connection; `connecting` without a
   * session.
   */
  status: "connected" | "partially_connected" | "connecting";
  /**
   * True if the distance simulator limits the rate.
   */
  throttled: boolean;
  /**
   * Always `sync-replication`.
   */
  type: string;
  /**
   * Version of the other array's program; null if it was not seen since the start.
   */
  version: string | null;
}

/**
 * A connection key.
 */
export interface ArrayConnectionKey {
  /**
   * Address of this array's link, to which the other array connects; null without a key. (Ibid
   * extension.)
   */
  address: string | null;
  /**
   * The key; empty if there is none, or if the role of the caller may not see it.
   */
  connection_key: string;
  /**
   * In milliseconds since 1970; 0 without a key.
   */
  created: number;
  /**
   * In milliseconds since 1970; 0 without a key.
   */
  expires: number;
}

/**
 * A change of a connection.
 */
export interface ArrayConnectionPatch {
  /**
   * New address of the other array's link.
   */
  management_address?: string | null;
  /**
   * The simulated distance. (Ibid extension.)
   */
  simulated_distance?: SimulatedDistancePatch | null;
}

/**
 * One TCP connection of a link.
 */
export interface ArrayConnectionPath {
  /**
   * Always `encrypted`.
   */
  encryption: string;
  /**
   * Id of the other array.
   */
  id: string;
  /**
   * Own address.
   */
  local_address: string | null;
  /**
   * Own port.
   */
  local_port: string | null;
  /**
   * Name of the other array.
   */
  name: string;
  /**
   * Address of the other array.
   */
  remote_address: string | null;
  /**
   * Port of the other array.
   */
  remote_port: string | null;
  /**
   * Always `ip`.
   */
  replication_transport: string;
  /**
   * As that of the connection.
   */
  status: string;
}

/**
 * Request to connect to another array.
 */
export interface ArrayConnectionPost {
  /**
   * The connection key of the other array.
   */
  connection_key?: string;
  /**
   * `encrypted`.
   */
  encryption?: string | null;
  /**
   * Address of the other array's link: HOST, HOST:PORT or [IPv6]:PORT. The default port is 8117.
   */
  management_address?: string;
  /**
   * Address to use instead, at most one.
   */
  replication_addresses?: string[] | null;
  /**
   * `ip`.
   */
  replication_transport?: string | null;
  /**
   * `sync-replication`.
   */
  type?: string | null;
}

/**
 * The result of a link test.
 */
export interface ArrayConnectionTest {
  /**
   * Heartbeats sent in this session.
   */
  heartbeats: number;
  /**
   * A distance is simulated on this side.
   */
  is_simulated: boolean;
  /**
   * Name of the other array.
   */
  name: string;
  /**
   * Rate from the other array.
   */
  received_bytes_per_second: number;
  /**
   * Round trips before the test.
   */
  rtt: RoundTrips;
  /**
   * Round trips while data was sent.
   */
  rtt_under_load: RoundTrips;
  /**
   * Rate to the other array.
   */
  sent_bytes_per_second: number;
  /**
   * Heartbeats of this session without an answer.
   */
  unanswered: number;
}

/**
 * Request for a link test.
 */
export interface ArrayConnectionTestPost {
  /**
   * Time for each direction in milliseconds, 100 to 10000; 1000 if absent.
   */
  duration?: number | null;
}

/**
 * A change of the array. Missing fields stay as they are.
 */
export interface ArrayPatch {
  /**
   * Larger size of the drive in bytes. A file is extended; a device must have this size already.
   * (Ibid extension.)
   */
  capacity?: number | null;
  /**
   * How long destroyed objects can be recovered.
   */
  eradication_config?: EradicationPatch | null;
  /**
   * New name.
   */
  name?: string | null;
  /**
   * When and how fast all stored data is verified. (Ibid extension.)
   */
  scrub_config?: ScrubConfigPatch | null;
  /**
   * Percentage of the capacity at which hosts are warned; 0 for never. (Ibid extension.)
   */
  threshold_percent?: number | null;
}

/**
 * Space usage of the array.
 */
export interface ArraySpace {
  /**
   * Bytes that reduced data and metadata may take. The drive has more: a reserve for metadata
   * and for the cleaner.
   */
  capacity: number;
  /**
   * Bytes written to the drive. (Ibid extension.)
   */
  drive_writes: DriveWrites;
  /**
   * Unique id of the array.
   */
  id: string;
  /**
   * Name of the array.
   */
  name: string;
  /**
   * 1.0: no data is being rebuilt.
   */
  parity: number;
  /**
   * Space usage.
   */
  space: Space;
  /**
   * Time of the measurement, in milliseconds since 1970.
   */
  time: number;
}

/**
 * An entry of the audit trail: a change that an administrator made.
 */
export interface Audit {
  /**
   * Parameters and body of the call, without secrets, shortened.
   */
  arguments: string;
  /**
   * Path of the call.
   */
  command: string;
  /**
   * Number.
   */
  id: string;
  /**
   * Address that the call came from; IPv6 addresses as their network of 64 bits.
   */
  location: string;
  /**
   * Number with leading zeros.
   */
  name: string;
  /**
   * The array that got the call.
   */
  origin: Reference;
  /**
   * HTTP method.
   */
  subcommand: string;
  /**
   * Time in milliseconds since 1970.
   */
  time: number;
  /**
   * Name of the administrator.
   */
  user: string;
  /**
   * `REST`.
   */
  user_interface: string;
}

/**
 * A new limit.
 */
export type BytesLimit = number | string;

/**
 * CHAP settings of a host, for both directions.
 */
export interface Chap {
  /**
   * Secret of the host.
   */
  host_password: string | null;
  /**
   * User name of the host.
   */
  host_user: string | null;
  /**
   * Secret of the array (mutual CHAP).
   */
  target_password: string | null;
  /**
   * User name of the array (mutual CHAP).
   */
  target_user: string | null;
}

/**
 * CHAP settings of a host, for both directions.
 */
export interface ChapInput {
  /**
   * Secret of the host.
   */
  host_password?: string | null;
  /**
   * User name of the host.
   */
  host_user?: string | null;
  /**
   * Secret of the array (mutual CHAP).
   */
  target_password?: string | null;
  /**
   * User name of the array (mutual CHAP).
   */
  target_user?: string | null;
}

/**
 * A volume's connection to a host.
 */
export interface Connection {
  /**
   * The host; null for a host group without hosts.
   */
  host: Reference;
  /**
   * Host group, if the connection belongs to one.
   */
  host_group: Reference;
  /**
   * LUN of the volume at the host.
   */
  lun: number;
  /**
   * NVMe namespace; always null.
   */
  nsid: number | null;
  /**
   * Protocol endpoint; always null.
   */
  protocol_endpoint: Reference;
  /**
   * The volume or snapshot.
   */
  volume: Reference;
}

/**
 * Performance of one volume at one host. (Ibid extension.)
 */
export interface ConnectionPerformance {
  /**
   * Always 0.
   */
  bytes_per_mirrored_write: number;
  /**
   * Mean size of reads and writes.
   */
  bytes_per_op: number;
  /**
   * Mean size of reads.
   */
  bytes_per_read: number;
  /**
   * Mean size of writes.
   */
  bytes_per_write: number;
  /**
   * The host.
   */
  host: Reference;
  /**
   * Unique id.
   */
  id: string | null;
  /**
   * Bytes received by the array.
   */
  input_per_sec: number;
  /**
   * Always 0: contained in the service time.
   */
  local_queue_usec_per_op: number;
  /**
   * Always 0.
   */
  mirrored_write_bytes_per_sec: number;
  /**
   * Always 0.
   */
  mirrored_writes_per_sec: number;
  /**
   * Name.
   */
  name: string;
  /**
   * Other commands, with EXTENDED COPY, WRITE SAME and UNMAP.
   */
  others_per_sec: number;
  /**
   * Bytes sent by the array.
   */
  output_per_sec: number;
  /**
   * Always 0.
   */
  qos_rate_limit_usec_per_mirrored_write_op: number;
  /**
   * The part of the latency of reads for which QoS limits held them back.
   */
  qos_rate_limit_usec_per_read_op: number;
  /**
   * The part of the latency of writes for which QoS limits held them back.
   */
  qos_rate_limit_usec_per_write_op: number;
  /**
   * Mean number of commands in progress, rounded up.
   */
  queue_depth: number;
  /**
   * Always 0.
   */
  queue_usec_per_mirrored_write_op: number;
  /**
   * Always 0: contained in the service time.
   */
  queue_usec_per_read_op: number;
  /**
   * Always 0: contained in the service time.
   */
  queue_usec_per_write_op: number;
  /**
   * Bytes read.
   */
  read_bytes_per_sec: number;
  /**
   * Reads.
   */
  reads_per_sec: number;
  /**
   * Always 0.
   */
  san_usec_per_mirrored_write_op: number;
  /**
   * Always 0: the transfer over the network is not measured.
   */
  san_usec_per_read_op: number;
  /**
   * Always 0: the transfer over the network is not measured.
   */
  san_usec_per_write_op: number;
  /**
   * Always 0.
   */
  service_usec_per_mirrored_write_op: number;
  /**
   * Always 0.
   */
  service_usec_per_mirrored_write_op_cache_reduction: number;
  /**
   * The part of the latency of reads in the array.
   */
  service_usec_per_read_op: number;
  /**
   * Always 0: not measured.
   */
  service_usec_per_read_op_cache_reduction: number;
  /**
   * The part of the latency of writes in the array.
   */
  service_usec_per_write_op: number;
  /**
   * Always 0: not measured.
   */
  service_usec_per_write_op_cache_reduction: number;
  /**
   * End of the interval, in milliseconds since 1970.
   */
  time: number;
  /**
   * Median latency of reads. (Ibid extension.)
   */
  usec_p50_per_read_op: number;
  /**
   * Median latency of writes. (Ibid extension.)
   */
  usec_p50_per_write_op: number;
  /**
   * 99th percentile of the latency of reads. (Ibid extension.)
   */
  usec_p99_per_read_op: number;
  /**
   * 99th percentile of the latency of writes. (Ibid extension.)
   */
  usec_p99_per_write_op: number;
  /**
   * Always 0.
   */
  usec_per_mirrored_write_op: number;
  /**
   * Mean latency of other commands.
   */
  usec_per_other_op: number;
  /**
   * Mean latency of reads.
   */
  usec_per_read_op: number;
  /**
   * Mean latency of writes.
   */
  usec_per_write_op: number;
  /**
   * The volume or snapshot.
   */
  volume: Reference;
  /**
   * Bytes written.
   */
  write_bytes_per_sec: number;
  /**
   * Writes, with COMPARE AND WRITE.
   */
  writes_per_sec: number;
}

/**
 * Request to connect.
 */
export interface ConnectionPost {
  /**
   * LUN to use; the default is the lowest free LUN from 1.
   */
  lun?: number | null;
}

/**
 * The protection groups that new volumes join. The array has none.
 */
export interface ContainerDefaultProtection {
  /**
   * Always empty.
   */
  default_protections: Reference[];
  /**
   * Unique id of the array or pod.
   */
  id: string;
  /**
   * Name of the array or pod.
   */
  name: string;
  /**
   * `array` or `pod`.
   */
  type: string;
}

/**
 * A controller. The array has one.
 */
export interface Controller {
  /**
   * `primary`.
   */
  mode: string;
  /**
   * Start of the program, in milliseconds since 1970.
   */
  mode_since: number;
  /**
   * Model of the array.
   */
  model: string;
  /**
   * `CT0`.
   */
  name: string;
  /**
   * `ready`.
   */
  status: string;
  /**
   * `array_controller`.
   */
  type: string;
  /**
   * Version of the dialect, see [`crate::DIALECT_VERSION`].
   */
  version: string;
}

/**
 * Encryption of the data of volumes.
 */
export interface DataAtRest {
  /**
   * AES-256-XTS; empty if data is stored as it is.
   */
  algorithm: string;
  /**
   * True if the array was created with a passphrase.
   */
  enabled: boolean;
}

/**
 * State of the delivery to one destination since the array started. (Ibid extension.)
 */
export interface DeliveryStatus {
  /**
   * Number of notices that were dropped, after too many attempts or because too many waited.
   */
  dropped: number;
  /**
   * Time of the last attempt, in milliseconds since 1970; null if there was none.
   */
  last_attempt: number | null;
  /**
   * Cause of the failure of the last attempt; null if it succeeded.
   */
  last_error: string | null;
  /**
   * Time of the last success, in milliseconds since 1970; null if there was none.
   */
  last_success: number | null;
  /**
   * Number of notices that wait.
   */
  waiting: number;
}

/**
 * A drive. The array has one: its file or block device.
 */
export interface Drive {
  /**
   * Capacity in bytes.
   */
  capacity: number;
  /**
   * Cause of a failure, else empty.
   */
  details: string;
  /**
   * `CT0.DRV0`.
   */
  name: string;
  /**
   * Always null: the operating system knows it.
   */
  protocol: string | null;
  /**
   * `healthy` or `failed`.
   */
  status: string;
  /**
   * `virtual`: a file or any block device.
   */
  type: string;
}

/**
 * Bytes written to the drive since the array was started, by kind. Both copies of metadata count.
 */
export interface DriveWrites {
  /**
   * Blocks of hosts, after reduction.
   */
  data: number;
  /**
   * Pages of the slot directory.
   */
  directory: number;
  /**
   * Data that hosts have written, before reduction; no part of `total`.
   */
  host: number;
  /**
   * Pages of the block map above the leaves.
   */
  interior_pages: number;
  /**
   * Leaves of the block map.
   */
  leaves: number;
  /**
   * The log.
   */
  log: number;
  /**
   * Manifests.
   */
  manifest: number;
  /**
   * Blocks that the cleaner moved.
   */
  moved: number;
  /**
   * Changed entries of leaves and of pages of the slot table, in place of whole pages.
   */
  patches: number;
  /**
   * Pages of the slot table.
   */
  slot_pages: number;
  /**
   * Summaries of segments.
   */
  summaries: number;
  /**
   * Copies of the superblock.
   */
  superblock: number;
  /**
   * All bytes written to the drive.
   */
  total: number;
}

/**
 * Encryption of stored data.
 */
export interface Encryption {
  /**
   * The data of volumes.
   */
  data_at_rest: DataAtRest;
  /**
   * Empty: there is no encryption module.
   */
  module_version: string;
}

/**
 * How long destroyed objects can be recovered, in milliseconds.
 */
export interface EradicationConfig {
  /**
   * Delay for objects that no policy protects.
   */
  disabled_delay: number;
  /**
   * Delay for objects that a policy protects.
   */
  enabled_delay: number;
  /**
   * Delay for all objects.
   */
  eradication_delay: number;
  /**
   * `all-enabled`: administrators may eradicate before the delay is over.
   */
  manual_eradication: string;
}

/**
 * A change of the eradication delay. The array has one delay, so the fields that are given must
 * agree.
 */
export interface EradicationPatch {
  /**
   * Another name of the delay.
   */
  disabled_delay?: number | null;
  /**
   * Another name of the delay.
   */
  enabled_delay?: number | null;
  /**
   * Delay in milliseconds, from one second to 30 days.
   */
  eradication_delay?: number | null;
}

/**
 * The body of an error answer.
 */
export interface ErrorBody {
  /**
   * One entry for each object that caused an error.
   */
  errors: ApiError[];
}

/**
 * The cause of an error. Codes keep their meaning; clients treat an unknown code as `unspecified`.
 */
export type ErrorCode =
  | "invalid_request"
  | "invalid_parameter"
  | "invalid_filter"
  | "invalid_sort"
  | "invalid_name"
  | "invalid_size"
  | "invalid_setting"
  | "invalid_iqn"
  | "invalid_lun"
  | "invalid_chap"
  | "host_user_missing"
  | "host_password_missing"
  | "target_user_missing"
  | "target_password_missing"
  | "unsupported"
  | "array_not_found"
  | "volume_not_found"
  | "snapshot_not_found"
  | "host_not_found"
  | "connection_not_found"
  | "admin_not_found"
  | "api_client_not_found"
  | "protection_group_not_found"
  | "group_snapshot_not_found"
  | "host_group_not_found"
  | "volume_group_not_found"
  | "pod_not_found"
  | "policy_not_found"
  | "policy_exists"
  | "member_not_found"
  | "tag_not_found"
  | "array_connection_not_found"
  | "array_connection_exists"
  | "array_connection_failed"
  | "alert_not_found"
  | "destination_not_found"
  | "destination_exists"
  | "part_not_found"
  | "iqn_not_found"
  | "volume_exists"
  | "snapshot_exists"
  | "host_exists"
  | "protection_group_exists"
  | "group_snapshot_exists"
  | "group_has_no_members"
  | "in_group_snapshot"
  | "host_group_exists"
  | "volume_group_exists"
  | "volume_group_destroyed"
  | "volume_group_not_destroyed"
  | "pod_exists"
  | "pod_destroyed"
  | "pod_not_destroyed"
  | "pod_not_empty"
  | "pod_not_stretched"
  | "pod_stretched"
  | "pod_refused"
  | "force_required"
  | "quota_exceeded"
  | "quota_below_usage"
  | "other_group"
  | "already_member"
  | "group_has_members"
  | "host_group_connected"
  | "shared_connection"
  | "connection_exists"
  | "volume_destroyed"
  | "snapshot_destroyed"
  | "volume_not_destroyed"
  | "snapshot_not_destroyed"
  | "volume_connected"
  | "snapshot_connected"
  | "host_connected"
  | "copy_to_itself"
  | "would_truncate"
  | "iqn_in_use"
  | "lun_in_use"
  | "limit_reached"
  | "cannot_shrink"
  | "cannot_grow"
  | "out_of_space"
  | "read_only"
  | "unauthorized"
  | "forbidden"
  | "not_allowed"
  | "admin_exists"
  | "api_client_exists"
  | "path_not_found"
  | "method_not_allowed"
  | "body_too_large"
  | "body_timeout"
  | "too_many_logins"
  | "internal"
  | "unspecified";

/**
 * The address of a network interface.
 */
export interface Eth {
  /**
   * IP address.
   */
  address: string;
  /**
   * Always null: the operating system has the gateway.
   */
  gateway: string | null;
  /**
   * Always null.
   */
  mac_address: string | null;
  /**
   * Always null.
   */
  mtu: number | null;
  /**
   * Always null.
   */
  netmask: string | null;
  /**
   * Always empty.
   */
  subinterfaces: Reference[];
  /**
   * Always null.
   */
  subnet: Reference;
  /**
   * `physical`.
   */
  subtype: string;
  /**
   * Always null.
   */
  vlan: number | null;
}

/**
 * The Fibre Channel settings of a network interface.
 */
export interface Fc {
  /**
   * Always null.
   */
  wwn: string | null;
}

/**
 * Whether administrators may eradicate a group before its delay is over.
 */
export interface GroupEradication {
  /**
   * `enabled`.
   */
  manual_eradication: string;
}

/**
 * A hardware component. The array has one, the controller. Figures that a program cannot know are
 * null.
 */
export interface Hardware {
  /**
   * Always null.
   */
  details: string | null;
  /**
   * Always false: there is no light.
   */
  identify_enabled: boolean;
  /**
   * Number of the component.
   */
  index: number;
  /**
   * Model of the array.
   */
  model: string;
  /**
   * `CT0`.
   */
  name: string;
  /**
   * Unique id of the array.
   */
  serial: string;
  /**
   * Always null.
   */
  slot: number | null;
  /**
   * Always null.
   */
  speed: number | null;
  /**
   * `ok`.
   */
  status: string;
  /**
   * Always null.
   */
  temperature: number | null;
  /**
   * `controller`.
   */
  type: string;
  /**
   * Always null.
   */
  voltage: number | null;
}

/**
 * A host.
 */
export interface Host {
  /**
   * CHAP settings; secrets are shown as `****`.
   */
  chap: Chap;
  /**
   * Number of connected volumes and snapshots.
   */
  connection_count: number;
  /**
   * Host group, if it is in one.
   */
  host_group: Reference;
  /**
   * iSCSI initiator names.
   */
  iqns: string[];
  /**
   * Always true: hosts of other arrays are not listed.
   */
  is_local: boolean;
  /**
   * Name.
   */
  name: string;
  /**
   * NVMe initiator names; always empty.
   */
  nqns: string[];
  /**
   * Kind of host, if set.
   */
  personality: string | null;
  /**
   * State of its paths; always null.
   */
  port_connectivity: PortConnectivity;
  /**
   * Arrays whose paths the host prefers for volumes of pods on two arrays; empty for all alike.
   */
  preferred_arrays: Reference[];
  /**
   * Space usage of its volumes.
   */
  space: Space;
  /**
   * `any`: the host may use any network.
   */
  vlan: string;
  /**
   * Fibre Channel initiator names; always empty.
   */
  wwns: string[];
}

/**
 * A host group.
 */
export interface HostGroup {
  /**
   * Number of connected volumes and snapshots.
   */
  connection_count: number;
  /**
   * Number of hosts.
   */
  host_count: number;
  /**
   * Always true: groups of other arrays are not listed.
   */
  is_local: boolean;
  /**
   * Name.
   */
  name: string;
  /**
   * Space usage of its volumes.
   */
  space: Space;
}

/**
 * A change of a host group. Missing fields stay as they are.
 */
export interface HostGroupPatch {
  /**
   * New name.
   */
  name?: string | null;
}

/**
 * A change of a host. Missing fields stay as they are.
 */
export interface HostPatch {
  /**
   * iSCSI initiator names to add.
   */
  add_iqns?: string[] | null;
  /**
   * CHAP settings. An empty user name turns its direction off.
   */
  chap?: ChapInput | null;
  /**
   * Host group to join by its name; an empty name leaves the present one.
   */
  host_group?: ReferenceInput | null;
  /**
   * New list of iSCSI initiator names.
   */
  iqns?: string[] | null;
  /**
   * New name.
   */
  name?: string | null;
  /**
   * NVMe initiator names; not supported.
   */
  nqns?: string[] | null;
  /**
   * Kind of host; empty for none.
   */
  personality?: string | null;
  /**
   * New preferred arrays: this array and connected arrays, by name or id. Empty for none.
   */
  preferred_arrays?: ReferenceInput[] | null;
  /**
   * iSCSI initiator names to remove.
   */
  remove_iqns?: string[] | null;
  /**
   * Fibre Channel initiator names; not supported.
   */
  wwns?: string[] | null;
}

/**
 * Request to create a host.
 */
export interface HostPost {
  /**
   * CHAP settings.
   */
  chap?: ChapInput | null;
  /**
   * iSCSI initiator names.
   */
  iqns?: string[] | null;
  /**
   * NVMe initiator names; not supported.
   */
  nqns?: string[] | null;
  /**
   * Kind of host.
   */
  personality?: string | null;
  /**
   * Preferred arrays: this array and connected arrays, by name or id.
   */
  preferred_arrays?: ReferenceInput[] | null;
  /**
   * Fibre Channel initiator names; not supported.
   */
  wwns?: string[] | null;
}

/**
 * An iSCSI session. (Ibid extension.)
 */
export interface IscsiSession {
  /**
   * True if CHAP authenticated the initiator.
   */
  authenticated: boolean;
  /**
   * Time of the end, in milliseconds since 1970; null while it exists.
   */
  ended: number | null;
  /**
   * The host of the initiator.
   */
  host: Reference;
  /**
   * Initiator name.
   */
  initiator: string;
  /**
   * Address of the initiator.
   */
  initiator_portal: string;
  /**
   * Initiator session id, 12 hexadecimal digits.
   */
  isid: string;
  /**
   * Negotiated values, by their keys of RFC 7143.
   */
  parameters: {
    [k: string]: string;
  };
  /**
   * Why it ended; null while it exists.
   */
  reason: string | null;
  /**
   * Time of the login, in milliseconds since 1970.
   */
  since: number;
  /**
   * Address to which it is connected.
   */
  target_portal: string;
  /**
   * Target session handle.
   */
  tsih: number;
}

/**
 * Membership in a group.
 */
export interface Member {
  /**
   * The group.
   */
  group: Reference;
  /**
   * The member.
   */
  member: Reference;
}

/**
 * Space usage of an object without an id.
 */
export interface NamedSpace {
  /**
   * Name.
   */
  name: string;
  /**
   * Space usage.
   */
  space: Space;
  /**
   * Time of the answer, in milliseconds since 1970.
   */
  time: number;
}

/**
 * A network interface. The array lists one per portal.
 */
export interface NetworkInterface {
  /**
   * Always true.
   */
  enabled: boolean;
  /**
   * Address.
   */
  eth: Eth;
  /**
   * Fibre Channel settings; always null.
   */
  fc: Fc;
  /**
   * `eth`.
   */
  interface_type: string;
  /**
   * Name such as `ct0.eth0`.
   */
  name: string;
  /**
   * Services on the interface: `iscsi`.
   */
  services: string[];
  /**
   * Speed in bits per second; 0 if unknown.
   */
  speed: number;
}

/**
 * Commands of one class since the start of the array. (Ibid extension.)
 */
export interface OffloadPerformance {
  /**
   * Bytes of the volume that commands with status GOOD covered.
   */
  bytes: number;
  /**
   * Commands answered.
   */
  commands: number;
  /**
   * Commands answered with a status other than GOOD.
   */
  errors: number;
  /**
   * The host; null if the initiator belongs to none any more.
   */
  host: Reference;
  /**
   * Initiator name.
   */
  initiator: string;
  /**
   * Name of the volume.
   */
  name: string;
  /**
   * Class of the commands.
   */
  primitive: "compare_and_write" | "extended_copy" | "unmap" | "write_same";
  /**
   * Mean latency in microseconds.
   */
  usec_per_op: number;
  /**
   * The volume or snapshot.
   */
  volume: Reference;
}

/**
 * Performance of an object in one interval. Rates are per second, latencies in microseconds from
 * the receipt of a command to its answer. The array does not mirror writes.
 */
export interface Performance {
  /**
   * Always 0.
   */
  bytes_per_mirrored_write: number;
  /**
   * Mean size of reads and writes.
   */
  bytes_per_op: number;
  /**
   * Mean size of reads.
   */
  bytes_per_read: number;
  /**
   * Mean size of writes.
   */
  bytes_per_write: number;
  /**
   * Unique id.
   */
  id: string | null;
  /**
   * Bytes received by the array.
   */
  input_per_sec: number;
  /**
   * Always 0: contained in the service time.
   */
  local_queue_usec_per_op: number;
  /**
   * Always 0.
   */
  mirrored_write_bytes_per_sec: number;
  /**
   * Always 0.
   */
  mirrored_writes_per_sec: number;
  /**
   * Name.
   */
  name: string;
  /**
   * Other commands, with EXTENDED COPY, WRITE SAME and UNMAP.
   */
  others_per_sec: number;
  /**
   * Bytes sent by the array.
   */
  output_per_sec: number;
  /**
   * Always 0.
   */
  qos_rate_limit_usec_per_mirrored_write_op: number;
  /**
   * The part of the latency of reads for which QoS limits held them back.
   */
  qos_rate_limit_usec_per_read_op: number;
  /**
   * The part of the latency of writes for which QoS limits held them back.
   */
  qos_rate_limit_usec_per_write_op: number;
  /**
   * Mean number of commands in progress, rounded up.
   */
  queue_depth: number;
  /**
   * Always 0.
   */
  queue_usec_per_mirrored_write_op: number;
  /**
   * Always 0: contained in the service time.
   */
  queue_usec_per_read_op: number;
  /**
   * Always 0: contained in the service time.
   */
  queue_usec_per_write_op: number;
  /**
   * Bytes read.
   */
  read_bytes_per_sec: number;
  /**
   * Reads.
   */
  reads_per_sec: number;
  /**
   * Always 0.
   */
  san_usec_per_mirrored_write_op: number;
  /**
   * Always 0: the transfer over the network is not measured.
   */
  san_usec_per_read_op: number;
  /**
   * Always 0: the transfer over the network is not measured.
   */
  san_usec_per_write_op: number;
  /**
   * Always 0.
   */
  service_usec_per_mirrored_write_op: number;
  /**
   * Always 0.
   */
  service_usec_per_mirrored_write_op_cache_reduction: number;
  /**
   * The part of the latency of reads in the array.
   */
  service_usec_per_read_op: number;
  /**
   * Always 0: not measured.
   */
  service_usec_per_read_op_cache_reduction: number;
  /**
   * The part of the latency of writes in the array.
   */
  service_usec_per_write_op: number;
  /**
   * Always 0: not measured.
   */
  service_usec_per_write_op_cache_reduction: number;
  /**
   * End of the interval, in milliseconds since 1970.
   */
  time: number;
  /**
   * Median latency of reads. (Ibid extension.)
   */
  usec_p50_per_read_op: number;
  /**
   * Median latency of writes. (Ibid extension.)
   */
  usec_p50_per_write_op: number;
  /**
   * 99th percentile of the latency of reads. (Ibid extension.)
   */
  usec_p99_per_read_op: number;
  /**
   * 99th percentile of the latency of writes. (Ibid extension.)
   */
  usec_p99_per_write_op: number;
  /**
   * Always 0.
   */
  usec_per_mirrored_write_op: number;
  /**
   * Mean latency of other commands.
   */
  usec_per_other_op: number;
  /**
   * Mean latency of reads.
   */
  usec_per_read_op: number;
  /**
   * Mean latency of writes.
   */
  usec_per_write_op: number;
  /**
   * Bytes written.
   */
  write_bytes_per_sec: number;
  /**
   * Writes, with COMPARE AND WRITE.
   */
  writes_per_sec: number;
}

/**
 * A pod. The names of its volumes are `POD::VOLUME`.
 */
export interface Pod {
  /**
   * Number of arrays that have the pod: 1 or 2.
   */
  array_count: number;
  /**
   * These arrays.
   */
  arrays: PodArrayStatus[];
  /**
   * Time of creation, in milliseconds since 1970. (Ibid extension.)
   */
  created: number;
  /**
   * True if it is destroyed and waits for eradication.
   */
  destroyed: boolean;
  /**
   * Whether the pod can be eradicated before its time.
   */
  eradication_config: PodEradication;
  /**
   * The preferred array of a pod on two arrays; otherwise empty.
   */
  failover_preferences: Reference[];
  /**
   * Bytes stored for its volumes and snapshots; 0 before they are counted for the first time.
   */
  footprint: number;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Always 0: pods are not linked.
   */
  link_source_count: number;
  /**
   * Always 0: pods are not linked.
   */
  link_target_count: number;
  /**
   * Address of the mediator; `purestorage`, the dialect's name of the default, if there is none.
   */
  mediator: string;
  /**
   * Always null.
   */
  mediator_version: string | null;
  /**
   * Name.
   */
  name: string;
  /**
   * `promoted`: hosts can write.
   */
  promotion_status: string;
  /**
   * Maximum total size of its volumes in bytes; null for no limit.
   */
  quota_limit: number | null;
  /**
   * `promoted`.
   */
  requested_promotion_state: string;
  /**
   * Most bytes of data a second that bring the other array into step; null for no limit. (Ibid
   * extension.)
   */
  resync_limit: number | null;
  /**
   * Source of the clone, if it is one.
   */
  source: Reference;
  /**
   * Space usage of its volumes.
   */
  space: Space;
  /**
   * Milliseconds until eradication, if it is destroyed.
   */
  time_remaining: number | null;
  /**
   * Number of volumes that are not destroyed. (Ibid extension.)
   */
  volume_count: number;
}

/**
 * The state of a pod on an array.
 */
export interface PodArrayStatus {
  /**
   * Time of the array's content in milliseconds since 1970, if it has no newer one.
   */
  frozen_at: number | null;
  /**
   * Id of the array.
   */
  id: string;
  /**
   * The mediator as the array sees it: `online`, `unreachable`, or `unknown` without one.
   */
  mediator_status: string;
  /**
   * The array, in the form of later versions of the dialect.
   */
  member: TypedReference;
  /**
   * Name of the array.
   */
  name: string;
  /**
   * True if only this array may continue without the other.
   */
  pre_elected: boolean;
  /**
   * The part of the content that the array has received, 0 to 1, while it receives content.
   */
  progress: number | null;
  /**
   * `online`; `resyncing` while it receives content; `offline` if it does not serve; `unknown`.
   */
  status: string;
}

/**
 * The result of one comparison of the two arrays of a pod.
 */
export interface PodCheck {
  /**
   * The finding, and what to do.
   */
  message: string;
  /**
   * The topic with the number of the line.
   */
  name: string;
  /**
   * The result.
   */
  status: "ok" | "warning" | "error";
  /**
   * The topic, one word. Programs accept unknown ones.
   */
  topic: string;
}

/**
 * A range that differs.
 */
export interface PodDifference {
  /**
   * The difference: the contents differ, or an array cannot read its own.
   */
  kind: "content" | "unreadable_here" | "unreadable_there";
  /**
   * Length in bytes.
   */
  length: number;
  /**
   * First byte.
   */
  offset: number;
  /**
   * Name of the volume or snapshot.
   */
  volume: string;
}

/**
 * Whether pods can be eradicated before their time.
 */
export interface PodEradication {
  /**
   * `all-enabled`.
   */
  manual_eradication: string;
}

/**
 * The hand-over of a pod to the other array.
 */
export interface PodHandOver {
  /**
   * The result, in words.
   */
  message: string;
  /**
   * Name of the pod.
   */
  name: string;
  /**
   * The result.
   */
  status: "handed_over" | "not_needed" | "refused";
}

/**
 * A change of a pod. Missing fields stay as they are.
 */
export interface PodPatch {
  /**
   * True destroys the pod, false recovers it and the volumes that were destroyed with it.
   */
  destroyed?: boolean | null;
  /**
   * The array to prefer, of a pod on two arrays: exactly one. An empty list changes nothing for
   * other pods.
   */
  failover_preferences?: ReferenceInput[] | null;
  /**
   * True allows a quota below the present usage.
   */
  ignore_usage?: boolean | null;
  /**
   * Address of the mediator of a pod on two arrays, `HOST` or `HOST:PORT`; `purestorage` or an
   * empty text for none.
   */
  mediator?: string | null;
  /**
   * New name. The names of the volumes follow.
   */
  name?: string | null;
  /**
   * Maximum total size of its volumes in bytes; an empty text removes it.
   */
  quota_limit?: BytesLimit | null;
  /**
   * Only `promoted`, which changes nothing.
   */
  requested_promotion_state?: string | null;
  /**
   * Most bytes of data a second that bring the other array into step, 1 MiB to 1 TiB; an empty
   * text for no limit. Changes hold at once. (Ibid extension.)
   */
  resync_limit?: BytesLimit | null;
}

/**
 * Request to create a pod.
 */
export interface PodPost {
  /**
   * Only an empty list.
   */
  failover_preferences?: ReferenceInput[] | null;
  /**
   * Maximum total size of its volumes in bytes.
   */
  quota_limit?: number | null;
  /**
   * Pod to clone, with its volumes.
   */
  source?: ReferenceInput | null;
}

/**
 * A pod on two arrays, as this array has it. (Ibid extension.)
 */
export interface PodReplication {
  /**
   * Both arrays, this one first.
   */
  arrays: PodReplicationArray[];
  /**
   * Bytes that the other array lacks; null if this array does not count them.
   */
  behind_bytes: number | null;
  /**
   * Bytes that copies from outside have brought into the pod by way of this array, since its
   * start.
   */
  copied_bytes: number;
  /**
   * Those of them that have crossed the link, because the other array did not have them.
   */
  crossed_bytes: number;
  /**
   * Recent events, the newest last.
   */
  events: PodReplicationEvent[];
  /**
   * State, cause and next step, in sentences.
   */
  explanation: string;
  /**
   * Unique id of the pod on this array.
   */
  id: string;
  /**
   * True if the distance to the other array is simulated.
   */
  is_distance_simulated: boolean;
  /**
   * True if both arrays are known to have the tie rule.
   */
  is_tie_rule_in_force: boolean;
  /**
   * Address of the mediator; null if the pod has none.
   */
  mediator: string | null;
  /**
   * Why the mediator does not answer this array.
   */
  mediator_problem: string | null;
  /**
   * Name of the pod.
   */
  name: string;
  /**
   * Name of the only array that may continue, if the tie rule is `only`.
   */
  only: string | null;
  /**
   * Name of the preferred array.
   */
  preferred: string;
  /**
   * Why the other array does not take part.
   */
  refusal: string | null;
  /**
   * Bytes that the array which follows has lent for records, and that none has used.
   */
  room_bytes: number | null;
  /**
   * Round trip to the other array in microseconds; null without a session.
   */
  rtt_usec: number | null;
  /**
   * Seconds until it has them, at the present pace; null if this array does not know.
   */
  seconds_left: number | null;
  /**
   * Begin of the state, in milliseconds since 1970.
   */
  since: number;
  /**
   * State on this array.
   */
  state: "sync" | "paused" | "solo" | "resync" | "target" | "lost" | "hurt" | "diverged" | "leaving";
  /**
   * Decides which array may continue without the other: `mediator`, or `only` one array.
   */
  tie_rule: "mediator" | "only";
  /**
   * Records that the other array has not reported as durable; null if no stream runs.
   */
  unheard_records: number | null;
  /**
   * Mean time from the order of a record to its durability at this array, in microseconds; null
   * if none was ordered in the last seconds.
   */
  usec_until_durable: number | null;
  /**
   * The same, to the report of the other array.
   */
  usec_until_reported: number | null;
  /**
   * Commands of hosts that wait for the pod.
   */
  waiting_commands: number;
  /**
   * The event that the pod waits for; null in full service.
   */
  waits_for: PodReplicationWait | null;
}

/**
 * One of the two arrays of a pod.
 */
export interface PodReplicationArray {
  /**
   * As in `arrays` of the pod.
   */
  frozen_at: number | null;
  /**
   * Id of the array.
   */
  id: string;
  /**
   * True if the array is out of step, and has too little free space to return.
   */
  is_full: boolean;
  /**
   * True if the array orders changes.
   */
  is_sequencer: boolean;
  /**
   * True for the array that answers the call.
   */
  is_this: boolean;
  /**
   * As in `arrays` of the pod.
   */
  mediator_status: string;
  /**
   * Name of the array.
   */
  name: string;
  /**
   * As in `arrays` of the pod.
   */
  progress: number | null;
  /**
   * As in `arrays` of the pod.
   */
  status: string;
}

/**
 * An event in the life of a pod on two arrays.
 */
export interface PodReplicationEvent {
  /**
   * The kind of event, in snake case. Programs accept unknown ones.
   */
  event: string;
  /**
   * The event, in words.
   */
  message: string;
  /**
   * In milliseconds since 1970.
   */
  time: number;
}

/**
 * An event that a pod waits for.
 */
export interface PodReplicationWait {
  /**
   * The end of the wait, in words.
   */
  ends: string;
  /**
   * The kind of event, in snake case. Programs accept unknown ones.
   */
  event: string;
  /**
   * The event, in words.
   */
  message: string;
  /**
   * Begin of the wait, in milliseconds since 1970.
   */
  since: number;
}

/**
 * The last comparison of the content of a pod on both arrays.
 */
export interface PodVerification {
  /**
   * Bytes of volumes and snapshots that were compared, with holes.
   */
  compared_bytes: number;
  /**
   * At most 1000 ranges that differ.
   */
  differences: PodDifference[];
  /**
   * Bytes that differ, listed or not. Those of a comparison before count until one has compared
   * everything.
   */
  different_bytes: number;
  /**
   * End, in milliseconds since 1970; null while it runs.
   */
  ended: number | null;
  /**
   * State and result, in sentences.
   */
  explanation: string;
  /**
   * When the first difference was found, in milliseconds since 1970; null if there is none.
   */
  found: number | null;
  /**
   * Unique id of the pod on this array.
   */
  id: string;
  /**
   * Name of the pod.
   */
  name: string;
  /**
   * Begin, in milliseconds since 1970.
   */
  started: number;
  /**
   * State.
   */
  state: "running" | "waiting" | "complete" | "stopped" | "ended";
  /**
   * Bytes of volumes and snapshots to compare.
   */
  total_bytes: number;
}

/**
 * A policy.
 */
export interface Policy {
  /**
   * Always false: a policy is deleted at once.
   */
  destroyed: boolean;
  /**
   * Whether it takes snapshots.
   */
  enabled: boolean;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Name.
   */
  name: string;
  /**
   * Pod; always null.
   */
  pod: Reference;
  /**
   * `snapshot`.
   */
  policy_type: string;
  /**
   * Always null.
   */
  time_remaining: number | null;
}

/**
 * An object to which a policy applies.
 */
export interface PolicyMember {
  /**
   * True if the object is destroyed.
   */
  destroyed: boolean;
  /**
   * Whether the policy takes snapshots.
   */
  enabled: boolean;
  /**
   * The object: `volumes` or `volume-groups`.
   */
  member: TypedReference;
  /**
   * The policy.
   */
  policy: TypedReference;
  /**
   * Always null.
   */
  time_remaining: number | null;
}

/**
 * One object of a request.
 */
export interface PolicyMemberEntry {
  /**
   * The object, by name. The type is `volumes` (also if it is missing) or `volume-groups`.
   */
  member: TypedReferenceInput;
}

/**
 * Request to apply a policy to objects.
 */
export interface PolicyMemberPost {
  /**
   * The objects.
   */
  members?: PolicyMemberEntry[];
}

/**
 * A change of a policy, or the settings of a new one. Missing fields stay as they are.
 */
export interface PolicyPatch {
  /**
   * Whether it takes snapshots. A new policy does.
   */
  enabled?: boolean | null;
  /**
   * New name.
   */
  name?: string | null;
}

/**
 * A rule of a snapshot policy.
 */
export interface PolicyRuleSnapshot {
  /**
   * Time of day (UTC) in milliseconds, if the interval is whole days.
   */
  at: number | null;
  /**
   * First part of the suffix of its snapshots.
   */
  client_name: string;
  /**
   * Always false.
   */
  destroyed: boolean;
  /**
   * Milliseconds between two snapshots.
   */
  every: number;
  /**
   * Milliseconds for which a snapshot is kept.
   */
  keep_for: number;
  /**
   * Name, given by the array.
   */
  name: string;
  /**
   * The policy.
   */
  policy: TypedReference;
  /**
   * Always null: suffixes are numbered.
   */
  suffix: string | null;
  /**
   * Always null.
   */
  time_remaining: number | null;
}

/**
 * One rule of a request.
 */
export interface PolicyRuleSnapshotEntry {
  /**
   * Time of day (UTC) in milliseconds, if the interval is whole days.
   */
  at?: number | null;
  /**
   * First part of the suffix of its snapshots; the default is the name of the policy.
   */
  client_name?: string | null;
  /**
   * Milliseconds between two snapshots: 5 minutes to 400 days.
   */
  every: number;
  /**
   * Milliseconds for which a snapshot is kept: the interval to 4000 days.
   */
  keep_for: number;
  /**
   * Only null: the array numbers the snapshots.
   */
  suffix?: string | null;
}

/**
 * Request to add rules to a policy.
 */
export interface PolicyRuleSnapshotPost {
  /**
   * The rules.
   */
  rules?: PolicyRuleSnapshotEntry[];
}

/**
 * A port through which hosts reach the array.
 */
export interface Port {
  /**
   * Port that took over; always null.
   */
  failover: string | null;
  /**
   * iSCSI name of the array's target.
   */
  iqn: string | null;
  /**
   * Name such as `CT0.ETH0`.
   */
  name: string;
  /**
   * NVMe name; always null.
   */
  nqn: string | null;
  /**
   * iSCSI portal: address and TCP port.
   */
  portal: string | null;
  /**
   * Fibre Channel name; always null.
   */
  wwn: string | null;
}

/**
 * State of the paths of a host.
 */
export interface PortConnectivity {
  /**
   * Description.
   */
  details: string | null;
  /**
   * State.
   */
  status: string | null;
}

/**
 * Change of a volume's priority.
 */
export interface PriorityAdjustment {
  /**
   * `+`.
   */
  priority_adjustment_operator: string;
  /**
   * Always 0.
   */
  priority_adjustment_value: number;
}

/**
 * A protection group.
 */
export interface ProtectionGroup {
  /**
   * True if it is destroyed and waits for eradication.
   */
  destroyed: boolean;
  /**
   * Whether administrators may eradicate early.
   */
  eradication_config: GroupEradication;
  /**
   * Always 0: members are volumes.
   */
  host_count: number;
  /**
   * Always 0: members are volumes.
   */
  host_group_count: number;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Always true: groups of other arrays are not listed.
   */
  is_local: boolean;
  /**
   * Name.
   */
  name: string;
  /**
   * Always null: protection groups are not in pods.
   */
  pod: Reference;
  /**
   * Replication; it never runs.
   */
  replication_schedule: ReplicationSchedule;
  /**
   * `unlocked`.
   */
  retention_lock: string;
  /**
   * When snapshots are taken.
   */
  snapshot_schedule: SnapshotSchedule;
  /**
   * The array.
   */
  source: Reference;
  /**
   * How long snapshots are kept.
   */
  source_retention: Retention;
  /**
   * Space usage of its volumes.
   */
  space: Space;
  /**
   * Always 0: there is no replication.
   */
  target_count: number;
  /**
   * Retention on other arrays; always 0.
   */
  target_retention: Retention;
  /**
   * Milliseconds until eradication, if it is destroyed.
   */
  time_remaining: number | null;
  /**
   * Number of volumes.
   */
  volume_count: number;
}

/**
 * A change of a protection group. Missing fields stay as they are.
 */
export interface ProtectionGroupPatch {
  /**
   * True destroys the group with its snapshots, false recovers them.
   */
  destroyed?: boolean | null;
  /**
   * New name.
   */
  name?: string | null;
  /**
   * When snapshots are taken.
   */
  snapshot_schedule?: SnapshotSchedulePatch | null;
  /**
   * How long they are kept.
   */
  source_retention?: RetentionPatch | null;
}

/**
 * A snapshot of a protection group.
 */
export interface ProtectionGroupSnapshot {
  /**
   * Time of creation, in milliseconds since 1970.
   */
  created: number;
  /**
   * True if it is destroyed and waits for eradication.
   */
  destroyed: boolean;
  /**
   * Whether administrators may eradicate early.
   */
  eradication_config: GroupEradication;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Name, `GROUP.SUFFIX`. The snapshots of the volumes are `GROUP.SUFFIX.VOLUME`.
   */
  name: string;
  /**
   * Always null: protection groups are not in pods.
   */
  pod: Reference;
  /**
   * The protection group.
   */
  source: Reference;
  /**
   * Space usage; only the size is measured.
   */
  space: Space;
  /**
   * Last part of the name.
   */
  suffix: string;
  /**
   * Milliseconds until eradication, if it is destroyed.
   */
  time_remaining: number | null;
}

/**
 * A change of a protection group's snapshot.
 */
export interface ProtectionGroupSnapshotPatch {
  /**
   * True destroys the snapshot with those of its volumes, false recovers them.
   */
  destroyed?: boolean | null;
}

/**
 * Request to take snapshots of protection groups.
 */
export interface ProtectionGroupSnapshotPost {
  /**
   * Last part of their names; the default is the next number of the group.
   */
  suffix?: string | null;
}

/**
 * QoS limits of a volume, or of all volumes of a group together; null if there is no limit. In a
 * request, the highest value (512 GiB per second, 100 million operations per second) removes a
 * limit, and null leaves it as it is.
 */
export interface Qos {
  /**
   * Bytes per second.
   */
  bandwidth_limit: number | null;
  /**
   * Operations per second.
   */
  iops_limit: number | null;
}

/**
 * QoS limits of a volume, or of all volumes of a group together; null if there is no limit. In a
 * request, the highest value (512 GiB per second, 100 million operations per second) removes a
 * limit, and null leaves it as it is.
 */
export interface QosInput {
  /**
   * Bytes per second.
   */
  bandwidth_limit?: number | null;
  /**
   * Operations per second.
   */
  iops_limit?: number | null;
}

/**
 * Data that was compressed again while hosts wrote little, since the array was started.
 */
export interface Recompression {
  /**
   * Space that it takes since.
   */
  after: number;
  /**
   * Space that it took before.
   */
  before: number;
}

/**
 * A reference to another object. Both fields are null if there is none, because clients read
 * `name` without checking.
 */
export interface Reference {
  /**
   * Unique id.
   */
  id: string | null;
  /**
   * Name.
   */
  name: string | null;
}

/**
 * A reference to another object. Both fields are null if there is none, because clients read
 * `name` without checking.
 */
export interface ReferenceInput {
  /**
   * Unique id.
   */
  id?: string | null;
  /**
   * Name.
   */
  name?: string | null;
}

/**
 * Refused logins of one initiator from one address. (Ibid extension.)
 */
export interface RefusedLogin {
  /**
   * Number of attempts.
   */
  count: number;
  /**
   * Initiator name, as the initiator sent it.
   */
  initiator: string;
  /**
   * Address of the initiator.
   */
  initiator_portal: string;
  /**
   * Why it was refused.
   */
  reason: string;
  /**
   * Time of the last one, in milliseconds since 1970.
   */
  time: number;
}

/**
 * A schedule of replication, which the array does not have.
 */
export interface ReplicationSchedule {
  /**
   * Always null.
   */
  at: number | null;
  /**
   * Time of day without replication; always null.
   */
  blackout: TimeWindow;
  /**
   * Always false.
   */
  enabled: boolean;
  /**
   * Always 0.
   */
  frequency: number;
}

/**
 * How long snapshots are kept.
 */
export interface Retention {
  /**
   * Seconds for which all snapshots are kept.
   */
  all_for_sec: number;
  /**
   * Days for which `per_day` snapshots of each day are kept afterwards.
   */
  days: number;
  /**
   * Snapshots that are kept of each day.
   */
  per_day: number;
}

/**
 * A change of a retention. Missing fields stay as they are.
 */
export interface RetentionPatch {
  /**
   * Seconds for which all snapshots are kept.
   */
  all_for_sec?: number | null;
  /**
   * Days for which `per_day` snapshots of each day are kept afterwards.
   */
  days?: number | null;
  /**
   * Snapshots that are kept of each day.
   */
  per_day?: number | null;
}

/**
 * Figures of round trips.
 */
export interface RoundTrips {
  /**
   * The longest, in microseconds.
   */
  max_usec: number;
  /**
   * The median, in microseconds.
   */
  median_usec: number;
  /**
   * The shortest, in microseconds.
   */
  min_usec: number;
}

/**
 * Progress and result of scrubs. (Ibid extension.)
 */
export interface Scrub {
  /**
   * Since when the last scrub waits for its audit of counts, in milliseconds since 1970; null if
   * it does not. The array repeats the audit by itself.
   */
  audit_postponed: number | null;
  /**
   * Bytes verified by the running scrub or the last one.
   */
  checked: number;
  /**
   * Number of scrubs completed since the array started.
   */
  completed: number;
  /**
   * Known damage, newest last.
   */
  damage: string[];
  /**
   * End of the last scrub, in milliseconds since 1970; null if there was none.
   */
  last: number | null;
  /**
   * Time at which the next scrub is due, in milliseconds since 1970; null without a schedule.
   */
  next: number | null;
  /**
   * True while a scrub is running.
   */
  running: boolean;
  /**
   * Bytes in use, which a scrub verifies.
   */
  used: number;
}

/**
 * Schedule of scrubs.
 */
export interface ScrubConfig {
  /**
   * Maximum bytes verified per second.
   */
  bytes_per_second: number;
  /**
   * Milliseconds from the end of a scrub to the next one; null for no schedule.
   */
  interval: number | null;
}

/**
 * A change of the schedule of scrubs.
 */
export interface ScrubConfigPatch {
  /**
   * Maximum bytes verified per second, 1 MiB or more.
   */
  bytes_per_second?: number | null;
  /**
   * Milliseconds from the end of a scrub to the next one, 1 hour to 366 days; 0 for no schedule.
   */
  interval?: number | null;
}

/**
 * Request to start a scrub.
 */
export interface ScrubPost {
  /**
   * Bytes to verify per second; the default is the setting of the array.
   */
  bytes_per_second?: number | null;
}

/**
 * A session of an administrator.
 */
export interface Session {
  /**
   * Always null: sessions that have ended are not listed.
   */
  end_time: number | null;
  /**
   * Always null.
   */
  event: string | null;
  /**
   * Always null.
   */
  event_count: number | null;
  /**
   * Address of the login.
   */
  location: string;
  /**
   * `API token`.
   */
  method: string;
  /**
   * Position in the list, oldest first.
   */
  name: string;
  /**
   * Time of the login in milliseconds since 1970.
   */
  start_time: number;
  /**
   * Name of the administrator.
   */
  user: string;
  /**
   * `REST`.
   */
  user_interface: string;
}

/**
 * A simulated distance.
 */
export interface SimulatedDistance {
  /**
   * Limit of each direction; null if unlimited.
   */
  bytes_per_second: number | null;
  /**
   * The directions that are cut, as this array sees them.
   */
  cut: "none" | "in" | "out" | "both";
  /**
   * A random part of each round trip, at most, in microseconds.
   */
  jitter_usec: number;
  /**
   * Added to each round trip, in microseconds.
   */
  rtt_usec: number;
}

/**
 * A change of a simulated distance.
 */
export interface SimulatedDistancePatch {
  /**
   * Limit of each direction; 0 for none.
   */
  bytes_per_second?: number | null;
  /**
   * `none`, `in`, `out` or `both`.
   */
  cut?: string | null;
  /**
   * A random part of each round trip, at most, in microseconds.
   */
  jitter_usec?: number | null;
  /**
   * Added to each round trip, in microseconds.
   */
  rtt_usec?: number | null;
}

/**
 * The mail server. The array has one.
 */
export interface SmtpServer {
  /**
   * First line of every mail.
   */
  body_prefix: string | null;
  /**
   * The only authorities that are trusted, in PEM; null for the public ones. (Ibid extension.)
   */
  ca_certificate: string | null;
  /**
   * `starttls`, `tls` (an Ibid extension: TLS from the first byte), or null.
   */
  encryption_mode: string | null;
  /**
   * `smtp`.
   */
  name: string;
  /**
   * Password, shown as `****`.
   */
  password: string | null;
  /**
   * The server, `HOST` or `HOST:PORT`.
   */
  relay_host: string | null;
  /**
   * Domain of the sender.
   */
  sender_domain: string | null;
  /**
   * Local part of the sender; the array's name if null.
   */
  sender_username: string | null;
  /**
   * First words of every subject.
   */
  subject_prefix: string | null;
  /**
   * User name at the server.
   */
  user_name: string | null;
}

/**
 * A change of the mail server. Missing fields stay as they are; an empty text removes a setting.
 */
export interface SmtpServerPatch {
  /**
   * First line of every mail.
   */
  body_prefix?: string | null;
  /**
   * The only authorities that are trusted, in PEM.
   */
  ca_certificate?: string | null;
  /**
   * `starttls` or `tls`.
   */
  encryption_mode?: string | null;
  /**
   * Password.
   */
  password?: string | null;
  /**
   * The server, `HOST` or `HOST:PORT`.
   */
  relay_host?: string | null;
  /**
   * Domain of the sender.
   */
  sender_domain?: string | null;
  /**
   * Local part of the sender.
   */
  sender_username?: string | null;
  /**
   * First words of every subject.
   */
  subject_prefix?: string | null;
  /**
   * User name at the server.
   */
  user_name?: string | null;
}

/**
 * When snapshots are taken.
 */
export interface SnapshotSchedule {
  /**
   * Time of day (UTC) in milliseconds, if the frequency is whole days.
   */
  at: number | null;
  /**
   * Whether it runs.
   */
  enabled: boolean;
  /**
   * Milliseconds between two snapshots: 5 minutes to 400 days.
   */
  frequency: number;
}

/**
 * A change of a schedule. Missing fields stay as they are.
 */
export interface SnapshotSchedulePatch {
  /**
   * Time of day (UTC) in milliseconds, if the frequency is whole days.
   */
  at?: number | null;
  /**
   * Whether it runs.
   */
  enabled?: boolean | null;
  /**
   * Milliseconds between two snapshots: 5 minutes to 400 days.
   */
  frequency?: number | null;
}

/**
 * An SNMP manager, which gets traps.
 */
export interface SnmpManager {
  /**
   * State of the delivery. (Ibid extension.)
   */
  delivery: DeliveryStatus;
  /**
   * `HOST` or `HOST:PORT`.
   */
  host: string;
  /**
   * Name.
   */
  name: string;
  /**
   * `trap`.
   */
  notification: string;
  /**
   * Settings of SNMP v2c.
   */
  v2c: SnmpV2c;
  /**
   * Settings of SNMP v3.
   */
  v3: SnmpV3;
  /**
   * `v2c`.
   */
  version: string;
}

/**
 * Request to add or change an SNMP manager. Missing fields stay as they are.
 */
export interface SnmpManagerPatch {
  /**
   * `HOST` or `HOST:PORT`.
   */
  host?: string | null;
  /**
   * New name.
   */
  name?: string | null;
  /**
   * Only `trap` is supported.
   */
  notification?: string | null;
  /**
   * Settings of SNMP v2c.
   */
  v2c?: SnmpV2cInput | null;
  /**
   * Only `v2c` is supported.
   */
  version?: string | null;
}

/**
 * Settings of SNMP v2c.
 */
export interface SnmpV2c {
  /**
   * Community, shown as `****`.
   */
  community: string | null;
}

/**
 * Settings of SNMP v2c.
 */
export interface SnmpV2cInput {
  /**
   * Community, shown as `****`.
   */
  community?: string | null;
}

/**
 * Settings of SNMP v3; always null.
 */
export interface SnmpV3 {
  /**
   * Always null.
   */
  auth_passphrase: string | null;
  /**
   * Always null.
   */
  auth_protocol: string | null;
  /**
   * Always null.
   */
  privacy_passphrase: string | null;
  /**
   * Always null.
   */
  privacy_protocol: string | null;
  /**
   * Always null.
   */
  user: string | null;
}

/**
 * Space usage of an object, in bytes. Figures that are not measured are null.
 */
export interface Space {
  /**
   * Time of the count of `unique`, `shared` and `snapshots`, and of a volume's ratios, in
   * milliseconds since 1970. Null before the first count. (Ibid extension.)
   */
  as_of: number | null;
  /**
   * Bytes written by hosts per byte stored (`unique` and `shared`); 1 if not measured.
   */
  data_reduction: number;
  /**
   * Always null: only containers have a footprint.
   */
  footprint: number | null;
  /**
   * Space used by replication.
   */
  replication: number;
  /**
   * Always null, as in the dialect.
   */
  replication_effective: number | null;
  /**
   * Data shared by several volumes. For a volume, its portion of the shared data.
   */
  shared: number | null;
  /**
   * Always null, as in the dialect.
   */
  shared_effective: number | null;
  /**
   * Data referenced only by snapshots.
   */
  snapshots: number;
  /**
   * Always null, as in the dialect.
   */
  snapshots_effective: number | null;
  /**
   * Metadata of the array; null for other objects.
   */
  system: number | null;
  /**
   * Fraction of the provisioned bytes that is not written, 0 to 1.
   */
  thin_provisioning: number;
  /**
   * Always null, as in the dialect.
   */
  total_effective: number | null;
  /**
   * All stored bytes.
   */
  total_physical: number | null;
  /**
   * Size that hosts see.
   */
  total_provisioned: number;
  /**
   * Provisioned bytes per byte stored (`unique` and `shared`); 1 if not measured.
   */
  total_reduction: number;
  /**
   * The same as `total_physical`.
   */
  total_used: number | null;
  /**
   * Data referenced only by this object.
   */
  unique: number | null;
  /**
   * Always null, as in the dialect.
   */
  unique_effective: number | null;
  /**
   * The same as `total_provisioned`; for a pod, without its destroyed volumes, which do not
   * count towards its quota.
   */
  used_provisioned: number | null;
  /**
   * Bytes that hosts wrote and did not unmap.
   */
  virtual: number | null;
}

/**
 * A subscription. The array has one, for itself.
 */
export interface Subscription {
  /**
   * Unique id of the array.
   */
  id: string;
  /**
   * `Ibid`.
   */
  service: string;
}

/**
 * Remote support. There is none.
 */
export interface Support {
  /**
   * Always false: the array sends nothing anywhere.
   */
  phonehome_enabled: boolean;
  /**
   * Always empty.
   */
  proxy: string;
  /**
   * Always false.
   */
  remote_assist_active: boolean;
  /**
   * Always null.
   */
  remote_assist_expires: number | null;
  /**
   * Always null.
   */
  remote_assist_opened: number | null;
  /**
   * Always empty.
   */
  remote_assist_paths: Reference[];
  /**
   * `disconnected`.
   */
  remote_assist_status: string;
}

/**
 * A syslog server.
 */
export interface SyslogServer {
  /**
   * State of the delivery. (Ibid extension.)
   */
  delivery: DeliveryStatus;
  /**
   * Name.
   */
  name: string;
  /**
   * `management`: alerts.
   */
  services: string[];
  /**
   * `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`.
   */
  uri: string;
}

/**
 * Request to add or change a syslog server. Missing fields stay as they are.
 */
export interface SyslogServerPatch {
  /**
   * New name.
   */
  name?: string | null;
  /**
   * Only `management` is supported.
   */
  services?: string[] | null;
  /**
   * Protocol, host and port.
   */
  uri?: string | null;
}

/**
 * Settings of all syslog servers.
 */
export interface SyslogServerSettings {
  /**
   * The only authorities that are trusted for `tls`, in PEM; null for the public ones.
   */
  ca_certificate: string | null;
  /**
   * The lowest severity that is sent: `debug`, `info`, `notice` or `warning`.
   */
  logging_severity: string;
  /**
   * `syslog`.
   */
  name: string;
  /**
   * Always false.
   */
  tls_audit_enabled: boolean;
}

/**
 * A change of these settings. Missing fields stay as they are.
 */
export interface SyslogServerSettingsPatch {
  /**
   * The only authorities that are trusted, in PEM; empty for the public ones.
   */
  ca_certificate?: string | null;
  /**
   * The lowest severity that is sent.
   */
  logging_severity?: string | null;
  /**
   * Only false is supported.
   */
  tls_audit_enabled?: boolean | null;
}

/**
 * A tag.
 */
export interface Tag {
  /**
   * Whether copies of the object get the tag.
   */
  copyable: boolean;
  /**
   * Key within the namespace.
   */
  key: string;
  /**
   * Namespace.
   */
  namespace: string;
  /**
   * The object.
   */
  resource: Reference;
  /**
   * Value.
   */
  value: string;
}

/**
 * Request to add a tag.
 */
export interface TagPut {
  /**
   * Whether copies of the object get the tag; the default is true.
   */
  copyable?: boolean | null;
  /**
   * Key within the namespace.
   */
  key: string;
  /**
   * Namespace; the default is `default`.
   */
  namespace?: string | null;
  /**
   * Accepted only if it is the object of the call.
   */
  resource?: ReferenceInput | null;
  /**
   * Value.
   */
  value: string;
}

/**
 * The result of a test message to one destination.
 */
export interface TestResult {
  /**
   * Always null.
   */
  component_address: string | null;
  /**
   * Name of the array.
   */
  component_name: string;
  /**
   * Kind of the test, in words.
   */
  description: string;
  /**
   * Address of the destination.
   */
  destination: string;
  /**
   * Whether the destination gets alerts.
   */
  enabled: boolean;
  /**
   * The destination.
   */
  resource: Reference;
  /**
   * Cause of the failure; empty if the test succeeded.
   */
  result_details: string;
  /**
   * Whether the message was sent.
   */
  success: boolean;
  /**
   * `mail`, `syslog`, `snmp` or `web_hook`.
   */
  test_type: string;
}

/**
 * A part of a day.
 */
export interface TimeWindow {
  /**
   * End in milliseconds since midnight; always null.
   */
  end: number | null;
  /**
   * Start in milliseconds since midnight; always null.
   */
  start: number | null;
}

/**
 * A refusal to issue an access token (RFC 6749 5.2).
 */
export interface TokenError {
  /**
   * `invalid_request`, `unsupported_grant_type` or `invalid_grant`.
   */
  error: string;
  /**
   * The reason.
   */
  error_description: string;
}

/**
 * A reference to an object of one of several types.
 */
export interface TypedReference {
  /**
   * Unique id.
   */
  id: string | null;
  /**
   * Name.
   */
  name: string | null;
  /**
   * Type, such as `volumes`.
   */
  resource_type: string | null;
}

/**
 * A reference to an object of one of several types.
 */
export interface TypedReferenceInput {
  /**
   * Unique id.
   */
  id?: string | null;
  /**
   * Name.
   */
  name?: string | null;
  /**
   * Type, such as `volumes`.
   */
  resource_type?: string | null;
}

/**
 * A volume.
 */
export interface Volume {
  /**
   * Number of hosts that it is connected to.
   */
  connection_count: number;
  /**
   * Time of creation, in milliseconds since 1970.
   */
  created: number;
  /**
   * True if it is destroyed and waits for eradication.
   */
  destroyed: boolean;
  /**
   * `none`: hosts do not encrypt for the array.
   */
  host_encryption_key_status: string;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Name.
   */
  name: string;
  /**
   * Pod, if it is in one.
   */
  pod: Reference;
  /**
   * Always 0: all volumes are served equally.
   */
  priority: number;
  /**
   * Always `+` 0.
   */
  priority_adjustment: PriorityAdjustment;
  /**
   * `promoted`: hosts can write.
   */
  promotion_status: string;
  /**
   * Size in bytes.
   */
  provisioned: number;
  /**
   * QoS limits.
   */
  qos: Qos;
  /**
   * `promoted`.
   */
  requested_promotion_state: string;
  /**
   * Serial number: 24 hexadecimal digits, never reused.
   */
  serial: string;
  /**
   * Source of the copy, if it is one.
   */
  source: Reference;
  /**
   * Space usage.
   */
  space: Space;
  /**
   * `regular`.
   */
  subtype: string;
  /**
   * Percentage of the size at which hosts are warned; null for never. (Ibid extension.)
   */
  threshold_percent: number | null;
  /**
   * Milliseconds until eradication, if it is destroyed.
   */
  time_remaining: number | null;
  /**
   * Volume group, if it is in one.
   */
  volume_group: Reference;
}

/**
 * A volume group. The names of its volumes are `GROUP/VOLUME`.
 */
export interface VolumeGroup {
  /**
   * Time of creation, in milliseconds since 1970. (Ibid extension.)
   */
  created: number;
  /**
   * True if it is destroyed and waits for eradication.
   */
  destroyed: boolean;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Name.
   */
  name: string;
  /**
   * Always null: volume groups are not in pods.
   */
  pod: Reference;
  /**
   * Always `+` 0.
   */
  priority_adjustment: PriorityAdjustment;
  /**
   * QoS limits of all volumes together. The limits of each volume apply as well.
   */
  qos: Qos;
  /**
   * Space usage of its volumes.
   */
  space: Space;
  /**
   * Milliseconds until eradication, if it is destroyed.
   */
  time_remaining: number | null;
  /**
   * Number of volumes that are not destroyed.
   */
  volume_count: number;
}

/**
 * A change of a volume group, or the settings of a new one. Missing fields stay as they are.
 */
export interface VolumeGroupPatch {
  /**
   * True destroys the group with its volumes, false recovers them.
   */
  destroyed?: boolean | null;
  /**
   * New name. The names of the volumes follow.
   */
  name?: string | null;
  /**
   * Only `+` 0, which changes nothing.
   */
  priority_adjustment?: PriorityAdjustment | null;
  /**
   * QoS limits of all volumes together.
   */
  qos?: QosInput | null;
}

/**
 * A change of a volume. Missing fields stay as they are.
 */
export interface VolumePatch {
  /**
   * True destroys the volume, false recovers it.
   */
  destroyed?: boolean | null;
  /**
   * New name, with or without the volume group or pod, which stays.
   */
  name?: string | null;
  /**
   * Pod to move to, by name; an empty name moves the volume out of its pod.
   */
  pod?: ReferenceInput | null;
  /**
   * New size in bytes.
   */
  provisioned?: number | null;
  /**
   * New QoS limits.
   */
  qos?: QosInput | null;
  /**
   * Percentage of the size at which hosts are warned; 0 for never. (Ibid extension.)
   */
  threshold_percent?: number | null;
  /**
   * Volume group to move to, by name; an empty name moves the volume out of its group.
   */
  volume_group?: ReferenceInput | null;
}

/**
 * Request to create a volume.
 */
export interface VolumePost {
  /**
   * Size in bytes. A copy has the size of its source.
   */
  provisioned?: number | null;
  /**
   * QoS limits.
   */
  qos?: QosInput | null;
  /**
   * Volume or snapshot to copy.
   */
  source?: ReferenceInput | null;
  /**
   * `regular`.
   */
  subtype?: string | null;
}

/**
 * A snapshot of a volume.
 */
export interface VolumeSnapshot {
  /**
   * Number of hosts that it is connected to, read-only. (Ibid extension.)
   */
  connection_count: number;
  /**
   * Time of creation, in milliseconds since 1970.
   */
  created: number;
  /**
   * True if it is destroyed and waits for eradication.
   */
  destroyed: boolean;
  /**
   * Time at which a policy destroys it, in milliseconds since 1970. (Ibid extension.)
   */
  expires: number | null;
  /**
   * Unique id.
   */
  id: string;
  /**
   * Name, `VOLUME.SUFFIX`.
   */
  name: string;
  /**
   * Pod of the volume, if it is in one.
   */
  pod: Reference;
  /**
   * Size of the volume at the time of the snapshot, in bytes.
   */
  provisioned: number;
  /**
   * Serial number: 24 hexadecimal digits, never reused.
   */
  serial: string;
  /**
   * The volume.
   */
  source: Reference;
  /**
   * Space usage.
   */
  space: Space;
  /**
   * Last part of the name.
   */
  suffix: string;
  /**
   * Milliseconds until eradication, if it is destroyed.
   */
  time_remaining: number | null;
  /**
   * Volume group of the volume, if it is in one.
   */
  volume_group: Reference;
}

/**
 * A change of a snapshot. Missing fields stay as they are.
 */
export interface VolumeSnapshotPatch {
  /**
   * True destroys the snapshot, false recovers it.
   */
  destroyed?: boolean | null;
  /**
   * New suffix, alone or as `VOLUME.SUFFIX`.
   */
  name?: string | null;
}

/**
 * Request to create snapshots.
 */
export interface VolumeSnapshotPost {
  /**
   * Last part of their names; the default is the next number of the array.
   */
  suffix?: string | null;
}

/**
 * Space usage of a volume.
 */
export interface VolumeSpace {
  /**
   * Unique id.
   */
  id: string;
  /**
   * Name.
   */
  name: string;
  /**
   * Space usage.
   */
  space: Space;
  /**
   * Time of the answer, in milliseconds since 1970.
   */
  time: number;
}

/** Items of lists, by the path of the list. */
export interface Lists {
  '/admins': Admin;
  '/admins/api-tokens': AdminApiToken;
  '/admins/settings': AdminSettings;
  '/alert-watchers': AlertWatcher;
  '/alert-watchers/test': TestResult;
  '/alert-webhooks': AlertWebHook;
  '/alert-webhooks/test': TestResult;
  '/alerts': Alert;
  '/api-clients': ApiClient;
  '/array-connections': ArrayConnection;
  '/array-connections/connection-key': ArrayConnectionKey;
  '/array-connections/path': ArrayConnectionPath;
  '/arrays': Array;
  '/arrays/performance': Performance;
  '/arrays/scrub': Scrub;
  '/arrays/space': ArraySpace;
  '/audits': Audit;
  '/connections': Connection;
  '/connections/performance': ConnectionPerformance;
  '/container-default-protections': ContainerDefaultProtection;
  '/controllers': Controller;
  '/drives': Drive;
  '/hardware': Hardware;
  '/host-groups': HostGroup;
  '/host-groups/hosts': Member;
  '/host-groups/space': NamedSpace;
  '/hosts': Host;
  '/hosts/host-groups': Member;
  '/hosts/performance': Performance;
  '/hosts/space': NamedSpace;
  '/iscsi-sessions': IscsiSession;
  '/iscsi-sessions/refused': RefusedLogin;
  '/network-interfaces': NetworkInterface;
  '/offloads/performance': OffloadPerformance;
  '/pods': Pod;
  '/pods/arrays': Member;
  '/pods/check': PodCheck;
  '/pods/evacuate': PodHandOver;
  '/pods/performance': Performance;
  '/pods/replication': PodReplication;
  '/pods/space': NamedSpace;
  '/pods/verify': PodVerification;
  '/policies': Policy;
  '/policies/members': PolicyMember;
  '/policies/snapshot': Policy;
  '/policies/snapshot/members': PolicyMember;
  '/policies/snapshot/rules': PolicyRuleSnapshot;
  '/ports': Port;
  '/ports/performance': Performance;
  '/protection-group-snapshots': ProtectionGroupSnapshot;
  '/protection-groups': ProtectionGroup;
  '/protection-groups/volumes': Member;
  '/sessions': Session;
  '/smtp-servers': SmtpServer;
  '/snmp-managers': SnmpManager;
  '/snmp-managers/test': TestResult;
  '/subscriptions': Subscription;
  '/support': Support;
  '/syslog-servers': SyslogServer;
  '/syslog-servers/settings': SyslogServerSettings;
  '/syslog-servers/test': TestResult;
  '/volume-groups': VolumeGroup;
  '/volume-groups/performance': Performance;
  '/volume-groups/space': NamedSpace;
  '/volume-groups/volumes': Member;
  '/volume-snapshots': VolumeSnapshot;
  '/volumes': Volume;
  '/volumes/performance': Performance;
  '/volumes/protection-groups': Member;
  '/volumes/space': VolumeSpace;
  '/volumes/tags': Tag;
  '/volumes/volume-groups': Member;
}
