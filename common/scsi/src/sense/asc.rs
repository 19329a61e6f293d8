//! Additional sense codes by the standard's names (SPC-4 table F.2). Only codes that this project
//! sends or checks.

/// Additional sense code (high byte) and qualifier (low byte).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Asc(pub u16);

impl Asc {
    /// ADDITIONAL SENSE CODE.
    pub const fn code(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub const fn qualifier(self) -> u8 {
        self.0.to_be_bytes()[1]
    }

    /// Returns the standard's name, if the table has the code.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(asc, _)| *asc == self).map(|(_, name)| *name)
    }
}

impl std::fmt::Debug for Asc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Asc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x}/{:02x}", self.code(), self.qualifier())?;
        self.name().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

/// One list gives both the constant and its name in words.
macro_rules! codes {
    ($($constant:ident = $code:literal, $name:literal;)*) => {
        $(#[doc = concat!("`", stringify!($code), "`: ", $name, ".")] pub const $constant: Asc = Asc($code);)*
        const NAMES: &[(Asc, &str)] = &[$(($constant, $name)),*];
    };
}

codes! {
    NO_ADDITIONAL_SENSE_INFORMATION = 0x0000, "no additional sense information";
    OPERATION_IN_PROGRESS = 0x0016, "operation in progress";
    LOGICAL_UNIT_NOT_READY_CAUSE_NOT_REPORTABLE = 0x0400, "logical unit not ready, cause not reportable";
    LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY = 0x0401, "logical unit is in process of becoming ready";
    LOGICAL_UNIT_NOT_READY_INITIALIZING_COMMAND_REQUIRED = 0x0402, "logical unit not ready, initializing command required";
    LOGICAL_UNIT_NOT_READY_MANUAL_INTERVENTION_REQUIRED = 0x0403, "logical unit not ready, manual intervention required";
    LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION = 0x040a, "logical unit not accessible, asymmetric access state transition";
    LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE = 0x040b, "logical unit not accessible, target port in standby state";
    LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE = 0x040c, "logical unit not accessible, target port in unavailable state";
    LOGICAL_UNIT_COMMUNICATION_FAILURE = 0x0800, "logical unit communication failure";
    WRITE_ERROR = 0x0c00, "write error";
    UNEXPECTED_UNSOLICITED_DATA = 0x0c0c, "write error - unexpected unsolicited data";
    NOT_ENOUGH_UNSOLICITED_DATA = 0x0c0d, "write error - not enough unsolicited data";
    THIRD_PARTY_DEVICE_FAILURE = 0x0d01, "third party device failure";
    COPY_TARGET_DEVICE_NOT_REACHABLE = 0x0d02, "copy target device not reachable";
    INCORRECT_COPY_TARGET_DEVICE_TYPE = 0x0d03, "incorrect copy target device type";
    COPY_TARGET_DEVICE_DATA_UNDERRUN = 0x0d04, "copy target device data underrun";
    COPY_TARGET_DEVICE_DATA_OVERRUN = 0x0d05, "copy target device data overrun";
    INVALID_INFORMATION_UNIT = 0x0e00, "invalid information unit";
    INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT = 0x0e03, "invalid field in command information unit";
    UNRECOVERED_READ_ERROR = 0x1100, "unrecovered read error";
    PARAMETER_LIST_LENGTH_ERROR = 0x1a00, "parameter list length error";
    SYNCHRONOUS_DATA_TRANSFER_ERROR = 0x1b00, "synchronous data transfer error";
    MISCOMPARE_DURING_VERIFY_OPERATION = 0x1d00, "miscompare during verify operation";
    INVALID_COMMAND_OPERATION_CODE = 0x2000, "invalid command operation code";
    LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE = 0x2100, "logical block address out of range";
    INVALID_FIELD_IN_CDB = 0x2400, "invalid field in CDB";
    LOGICAL_UNIT_NOT_SUPPORTED = 0x2500, "logical unit not supported";
    INVALID_FIELD_IN_PARAMETER_LIST = 0x2600, "invalid field in parameter list";
    PARAMETER_NOT_SUPPORTED = 0x2601, "parameter not supported";
    PARAMETER_VALUE_INVALID = 0x2602, "parameter value invalid";
    INVALID_RELEASE_OF_PERSISTENT_RESERVATION = 0x2604, "invalid release of persistent reservation";
    TOO_MANY_TARGET_DESCRIPTORS = 0x2606, "too many target descriptors";
    UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE = 0x2607, "unsupported target descriptor type code";
    TOO_MANY_SEGMENT_DESCRIPTORS = 0x2608, "too many segment descriptors";
    UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE = 0x2609, "unsupported segment descriptor type code";
    UNEXPECTED_INEXACT_SEGMENT = 0x260a, "unexpected inexact segment";
    INLINE_DATA_LENGTH_EXCEEDED = 0x260b, "inline data length exceeded";
    INVALID_OPERATION_FOR_COPY_SOURCE_OR_DESTINATION = 0x260c, "invalid operation for copy source or destination";
    COPY_SEGMENT_GRANULARITY_VIOLATION = 0x260d, "copy segment granularity violation";
    WRITE_PROTECTED = 0x2700, "write protected";
    LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED = 0x2702, "logical unit software write protected";
    SPACE_ALLOCATION_FAILED_WRITE_PROTECT = 0x2707, "space allocation failed write protect";
    NOT_READY_TO_READY_CHANGE = 0x2800, "not ready to ready change, medium may have changed";
    POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED = 0x2900, "power on, reset, or bus device reset occurred";
    POWER_ON_OCCURRED = 0x2901, "power on occurred";
    BUS_DEVICE_RESET_FUNCTION_OCCURRED = 0x2903, "bus device reset function occurred";
    DEVICE_INTERNAL_RESET = 0x2904, "device internal reset";
    I_T_NEXUS_LOSS_OCCURRED = 0x2907, "I_T nexus loss occurred";
    MODE_PARAMETERS_CHANGED = 0x2a01, "mode parameters changed";
    RESERVATIONS_PREEMPTED = 0x2a03, "reservations preempted";
    RESERVATIONS_RELEASED = 0x2a04, "reservations released";
    REGISTRATIONS_PREEMPTED = 0x2a05, "registrations preempted";
    ASYMMETRIC_ACCESS_STATE_CHANGED = 0x2a06, "asymmetric access state changed";
    CAPACITY_DATA_HAS_CHANGED = 0x2a09, "capacity data has changed";
    COMMANDS_CLEARED_BY_ANOTHER_INITIATOR = 0x2f00, "commands cleared by another initiator";
    THIN_PROVISIONING_SOFT_THRESHOLD_REACHED = 0x3807, "thin provisioning soft threshold reached";
    SAVING_PARAMETERS_NOT_SUPPORTED = 0x3900, "saving parameters not supported";
    MEDIUM_NOT_PRESENT = 0x3a00, "medium not present";
    TARGET_OPERATING_CONDITIONS_HAVE_CHANGED = 0x3f00, "target operating conditions have changed";
    INQUIRY_DATA_HAS_CHANGED = 0x3f03, "inquiry data has changed";
    REPORTED_LUNS_DATA_HAS_CHANGED = 0x3f0e, "reported LUNs data has changed";
    INTERNAL_TARGET_FAILURE = 0x4400, "internal target failure";
    PROTOCOL_SERVICE_CRC_ERROR = 0x4705, "protocol service CRC error";
    INITIATOR_DETECTED_ERROR_MESSAGE_RECEIVED = 0x4800, "initiator detected error message received";
    DATA_PHASE_ERROR = 0x4b00, "data phase error";
    MEDIUM_REMOVAL_PREVENTED = 0x5302, "medium removal prevented";
    INSUFFICIENT_RESERVATION_RESOURCES = 0x5502, "insufficient reservation resources";
    INSUFFICIENT_RESOURCES = 0x5503, "insufficient resources";
    INSUFFICIENT_REGISTRATION_RESOURCES = 0x5504, "insufficient registration resources";
}
