//! The operational parameters of a connection and its session (RFC 7143 13).

use crate::digest::Digests;

/// Commands that an initiator may have outstanding unless the target is configured otherwise.
pub(crate) const DEFAULT_COMMAND_WINDOW: u32 = 128;

/// The parameters that both ends agreed on, or that one end offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// HeaderDigest and DataDigest (RFC 7143 13.1).
    pub digests: Digests,
    /// MaxConnections (13.2).
    pub max_connections: u16,
    /// InitialR2T (13.10).
    pub initial_r2t: bool,
    /// ImmediateData (13.11).
    pub immediate_data: bool,
    /// Our MaxRecvDataSegmentLength in bytes (13.12): the longest data segment that we accept.
    pub max_receive_segment: u32,
    /// The peer's MaxRecvDataSegmentLength in bytes (13.12): the longest data segment that we send.
    pub max_send_segment: u32,
    /// MaxBurstLength (13.13).
    pub max_burst_length: u32,
    /// FirstBurstLength (13.14).
    pub first_burst_length: u32,
    /// DefaultTime2Wait, in seconds (13.15).
    pub time_to_wait: u16,
    /// DefaultTime2Retain, in seconds (13.16).
    pub time_to_retain: u16,
    /// MaxOutstandingR2T (13.17).
    pub max_outstanding_r2t: u16,
    /// DataPDUInOrder (13.18).
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder (13.19).
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel (13.20).
    pub error_recovery_level: u8,
    /// iSCSIProtocolLevel (RFC 7144 7.1.1): 1 is RFC 7143.
    pub protocol_level: u8,
}

impl Default for Parameters {
    /// The values that apply without negotiation: the defaults of RFC 7143 13.
    fn default() -> Self {
        Self {
            digests: Digests::default(),
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_receive_segment: 8192,
            max_send_segment: 8192,
            max_burst_length: 262_144,
            first_burst_length: 65_536,
            time_to_wait: 2,
            time_to_retain: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            protocol_level: 1,
        }
    }
}

impl Parameters {
    /// Returns the offer of this target: large bursts, eight outstanding R2Ts, data in order, one
    /// connection, error recovery level 0.
    pub fn offer_of_target() -> Self {
        Self {
            digests: Digests { header: true, data: true },
            initial_r2t: false,
            max_receive_segment: 262_144,
            max_burst_length: 1 << 20,
            first_burst_length: 262_144,
            max_outstanding_r2t: 8,
            time_to_retain: 0,
            ..Self::default()
        }
    }

    /// Returns how many bytes of a write may arrive without an R2T, immediate data included (RFC
    /// 7143 4.2.5.2).
    pub fn unsolicited_limit(&self) -> u32 {
        if self.initial_r2t && !self.immediate_data { 0 } else { self.first_burst_length }
    }
}
