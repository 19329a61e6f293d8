//! Performance figures, offload counters and iSCSI sessions.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// Performance of an object in one interval. Rates are per second, latencies in microseconds from
/// the receipt of a command to its answer. The array does not mirror writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Performance {
    /// Unique id.
    pub id: Option<String>,
    /// Name.
    pub name: String,
    /// End of the interval, in milliseconds since 1970.
    pub time: u64,
    /// Mean size of reads and writes.
    pub bytes_per_op: u64,
    /// Mean size of reads.
    pub bytes_per_read: u64,
    /// Mean size of writes.
    pub bytes_per_write: u64,
    /// Always 0.
    pub bytes_per_mirrored_write: u64,
    /// Bytes received by the array.
    pub input_per_sec: u64,
    /// Bytes sent by the array.
    pub output_per_sec: u64,
    /// Reads.
    pub reads_per_sec: u64,
    /// Writes, with COMPARE AND WRITE.
    pub writes_per_sec: u64,
    /// Always 0.
    pub mirrored_writes_per_sec: u64,
    /// Other commands, with EXTENDED COPY, WRITE SAME and UNMAP.
    pub others_per_sec: u64,
    /// Bytes read.
    pub read_bytes_per_sec: u64,
    /// Bytes written.
    pub write_bytes_per_sec: u64,
    /// Always 0.
    pub mirrored_write_bytes_per_sec: u64,
    /// Mean number of commands in progress, rounded up.
    pub queue_depth: u64,
    /// Mean latency of reads.
    pub usec_per_read_op: u64,
    /// Mean latency of writes.
    pub usec_per_write_op: u64,
    /// Always 0.
    pub usec_per_mirrored_write_op: u64,
    /// Mean latency of other commands.
    pub usec_per_other_op: u64,
    /// The part of the latency of reads in the array.
    pub service_usec_per_read_op: u64,
    /// The part of the latency of writes in the array.
    pub service_usec_per_write_op: u64,
    /// Always 0.
    pub service_usec_per_mirrored_write_op: u64,
    /// Always 0: not measured.
    pub service_usec_per_read_op_cache_reduction: f64,
    /// Always 0: not measured.
    pub service_usec_per_write_op_cache_reduction: f64,
    /// Always 0.
    pub service_usec_per_mirrored_write_op_cache_reduction: f64,
    /// The part of the latency of reads for which QoS limits held them back.
    pub qos_rate_limit_usec_per_read_op: u64,
    /// The part of the latency of writes for which QoS limits held them back.
    pub qos_rate_limit_usec_per_write_op: u64,
    /// Always 0.
    pub qos_rate_limit_usec_per_mirrored_write_op: u64,
    /// Always 0: contained in the service time.
    pub queue_usec_per_read_op: u64,
    /// Always 0: contained in the service time.
    pub queue_usec_per_write_op: u64,
    /// Always 0.
    pub queue_usec_per_mirrored_write_op: u64,
    /// Always 0: contained in the service time.
    pub local_queue_usec_per_op: u64,
    /// Always 0: the transfer over the network is not measured.
    pub san_usec_per_read_op: u64,
    /// Always 0: the transfer over the network is not measured.
    pub san_usec_per_write_op: u64,
    /// Always 0.
    pub san_usec_per_mirrored_write_op: u64,
    /// Median latency of reads. (Ibid extension.)
    pub usec_p50_per_read_op: u64,
    /// 99th percentile of the latency of reads. (Ibid extension.)
    pub usec_p99_per_read_op: u64,
    /// Median latency of writes. (Ibid extension.)
    pub usec_p50_per_write_op: u64,
    /// 99th percentile of the latency of writes. (Ibid extension.)
    pub usec_p99_per_write_op: u64,
}

/// Performance of one volume at one host. (Ibid extension.)
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionPerformance {
    /// The host.
    pub host: Reference,
    /// The volume or snapshot.
    pub volume: Reference,
    /// The figures; `name` is `HOST/VOLUME`.
    #[serde(flatten)]
    pub performance: Performance,
}

/// Commands of one class since the start of the array. (Ibid extension.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffloadPerformance {
    /// Name of the volume.
    pub name: String,
    /// The volume or snapshot.
    pub volume: Reference,
    /// The host; null if the initiator belongs to none any more.
    pub host: Reference,
    /// Initiator name.
    pub initiator: String,
    /// Class of the commands.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["compare_and_write", "extended_copy", "unmap", "write_same"]))
    )]
    pub primitive: String,
    /// Commands answered.
    pub commands: u64,
    /// Commands answered with a status other than GOOD.
    pub errors: u64,
    /// Bytes of the volume that commands with status GOOD covered.
    pub bytes: u64,
    /// Mean latency in microseconds.
    pub usec_per_op: u64,
}

/// An iSCSI session. (Ibid extension.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IscsiSession {
    /// Initiator name.
    pub initiator: String,
    /// The host of the initiator.
    pub host: Reference,
    /// Initiator session id, 12 hexadecimal digits.
    pub isid: String,
    /// Target session handle.
    pub tsih: u16,
    /// Address of the initiator.
    pub initiator_portal: String,
    /// Address to which it is connected.
    pub target_portal: String,
    /// Time of the login, in milliseconds since 1970.
    pub since: u64,
    /// True if CHAP authenticated the initiator.
    pub authenticated: bool,
    /// Negotiated values, by their keys of RFC 7143.
    pub parameters: std::collections::BTreeMap<String, String>,
    /// Time of the end, in milliseconds since 1970; null while it exists.
    pub ended: Option<u64>,
    /// Why it ended; null while it exists.
    pub reason: Option<String>,
}

/// Refused logins of one initiator from one address. (Ibid extension.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedLogin {
    /// Initiator name, as the initiator sent it.
    pub initiator: String,
    /// Address of the initiator.
    pub initiator_portal: String,
    /// Number of attempts.
    pub count: u64,
    /// Time of the last one, in milliseconds since 1970.
    pub time: u64,
    /// Why it was refused.
    pub reason: String,
}
