//! The operational keys of RFC 7143 13 and their negotiation rules.

use crate::parameters::Parameters;

/// Names of keys that no rule negotiates.
pub(crate) mod name {
    pub(crate) const AUTH_METHOD: &str = "AuthMethod";
    pub(crate) const INITIATOR_ALIAS: &str = "InitiatorAlias";
    pub(crate) const INITIATOR_NAME: &str = "InitiatorName";
    pub(crate) const MAX_RECV_DATA_SEGMENT_LENGTH: &str = "MaxRecvDataSegmentLength";
    pub(crate) const SEND_TARGETS: &str = "SendTargets";
    pub(crate) const SESSION_TYPE: &str = "SessionType";
    pub(crate) const TARGET_ADDRESS: &str = "TargetAddress";
    pub(crate) const TARGET_ALIAS: &str = "TargetAlias";
    pub(crate) const TARGET_NAME: &str = "TargetName";
    pub(crate) const TARGET_PORTAL_GROUP_TAG: &str = "TargetPortalGroupTag";
}

/// Keys that both ends negotiate or declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Key {
    HeaderDigest,
    DataDigest,
    MaxConnections,
    InitialR2T,
    ImmediateData,
    MaxRecvDataSegmentLength,
    MaxBurstLength,
    FirstBurstLength,
    DefaultTime2Wait,
    DefaultTime2Retain,
    MaxOutstandingR2T,
    DataPduInOrder,
    DataSequenceInOrder,
    ErrorRecoveryLevel,
    ProtocolLevel,
    TaskReporting,
}

/// How two values combine (RFC 7143 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The first value of the list that the other end supports.
    List,
    /// Yes if both values are Yes.
    And,
    /// Yes if either value is Yes.
    Or,
    /// The smaller number; both must be in this range.
    Min(u32, u32),
    /// The greater number; both must be in this range.
    Max(u32, u32),
    /// Not negotiated: each end declares its own value, which must be in this range.
    Declared(u32, u32),
}

/// Every key with its name, its rule, and whether it is irrelevant in a discovery session.
pub(super) const TABLE: [(Key, &str, Rule, bool); 16] = [
    (Key::HeaderDigest, "HeaderDigest", Rule::List, false),
    (Key::DataDigest, "DataDigest", Rule::List, false),
    (Key::MaxConnections, "MaxConnections", Rule::Min(1, 65_535), true),
    (Key::InitialR2T, "InitialR2T", Rule::Or, true),
    (Key::ImmediateData, "ImmediateData", Rule::And, true),
    (Key::MaxRecvDataSegmentLength, name::MAX_RECV_DATA_SEGMENT_LENGTH, Rule::Declared(512, LARGEST_SEGMENT), false),
    (Key::MaxBurstLength, "MaxBurstLength", Rule::Min(512, LARGEST_SEGMENT), true),
    (Key::FirstBurstLength, "FirstBurstLength", Rule::Min(512, LARGEST_SEGMENT), true),
    (Key::DefaultTime2Wait, "DefaultTime2Wait", Rule::Max(0, 3600), false),
    (Key::DefaultTime2Retain, "DefaultTime2Retain", Rule::Min(0, 3600), false),
    (Key::MaxOutstandingR2T, "MaxOutstandingR2T", Rule::Min(1, 65_535), true),
    (Key::DataPduInOrder, "DataPDUInOrder", Rule::Or, true),
    (Key::DataSequenceInOrder, "DataSequenceInOrder", Rule::Or, true),
    (Key::ErrorRecoveryLevel, "ErrorRecoveryLevel", Rule::Min(0, 2), false),
    (Key::ProtocolLevel, "iSCSIProtocolLevel", Rule::Min(0, 31), false),
    (Key::TaskReporting, "TaskReporting", Rule::List, false),
];

/// 2**24 - 1: the largest DataSegmentLength.
const LARGEST_SEGMENT: u32 = (1 << 24) - 1;

impl Key {
    pub(super) fn row(self) -> &'static (Key, &'static str, Rule, bool) {
        &TABLE[self as usize]
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the values that a list key offers, the preferred one first.
    pub(super) fn list(self, parameters: &Parameters) -> &'static [&'static str] {
        let digest = match self {
            Self::HeaderDigest => parameters.digests.header,
            Self::DataDigest => parameters.digests.data,
            _ => return &["RFC3720"],
        };
        if digest { &["CRC32C", "None"] } else { &["None"] }
    }

    pub(super) fn set_list(self, parameters: &mut Parameters, value: &str) {
        match self {
            Self::HeaderDigest => parameters.digests.header = value == "CRC32C",
            Self::DataDigest => parameters.digests.data = value == "CRC32C",
            _ => {}
        }
    }

    /// Returns the value as a number; Yes is 1.
    pub(super) fn number(self, p: &Parameters) -> u32 {
        match self {
            Self::MaxConnections => p.max_connections.into(),
            Self::InitialR2T => p.initial_r2t.into(),
            Self::ImmediateData => p.immediate_data.into(),
            Self::MaxRecvDataSegmentLength => p.max_receive_segment,
            Self::MaxBurstLength => p.max_burst_length,
            Self::FirstBurstLength => p.first_burst_length,
            Self::DefaultTime2Wait => p.time_to_wait.into(),
            Self::DefaultTime2Retain => p.time_to_retain.into(),
            Self::MaxOutstandingR2T => p.max_outstanding_r2t.into(),
            Self::DataPduInOrder => p.data_pdu_in_order.into(),
            Self::DataSequenceInOrder => p.data_sequence_in_order.into(),
            Self::ErrorRecoveryLevel => p.error_recovery_level.into(),
            Self::ProtocolLevel => p.protocol_level.into(),
            Self::HeaderDigest | Self::DataDigest | Self::TaskReporting => 0,
        }
    }

    /// Stores a number that the rule of the key has range-checked.
    pub(super) fn set_number(self, p: &mut Parameters, value: u32) {
        let short = u16::try_from(value).unwrap_or(u16::MAX);
        let byte = u8::try_from(value).unwrap_or(u8::MAX);
        match self {
            Self::MaxConnections => p.max_connections = short,
            Self::InitialR2T => p.initial_r2t = value != 0,
            Self::ImmediateData => p.immediate_data = value != 0,
            // The *peer* declares what we may send.
            Self::MaxRecvDataSegmentLength => p.max_send_segment = value,
            Self::MaxBurstLength => p.max_burst_length = value,
            Self::FirstBurstLength => p.first_burst_length = value,
            Self::DefaultTime2Wait => p.time_to_wait = short,
            Self::DefaultTime2Retain => p.time_to_retain = short,
            Self::MaxOutstandingR2T => p.max_outstanding_r2t = short,
            Self::DataPduInOrder => p.data_pdu_in_order = value != 0,
            Self::DataSequenceInOrder => p.data_sequence_in_order = value != 0,
            Self::ErrorRecoveryLevel => p.error_recovery_level = byte,
            Self::ProtocolLevel => p.protocol_level = byte,
            Self::HeaderDigest | Self::DataDigest | Self::TaskReporting => {}
        }
    }
}
