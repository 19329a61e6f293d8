//! The one list of commands. Parsing, the check of reserved bits and REPORT SUPPORTED OPERATION
//! CODES use it.

use super::command::Command;
use super::decode as d;
use crate::be::{bit_number, low_u16};
use crate::sense::Sense;

/// Command timeouts (SPC-4 6.35.4), in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// NOMINAL COMMAND PROCESSING TIMEOUT: after this time a host may query the state of the
    /// command.
    pub nominal: u32,
    /// RECOMMENDED COMMAND TIMEOUT: after this time a host should start recovery.
    pub recommended: u32,
}

/// For commands served from memory.
const MEMORY: Timeouts = Timeouts { nominal: 1, recommended: 10 };
/// For commands that wait once for the drives, after a full queue of others.
const MEDIUM: Timeouts = Timeouts { nominal: 1, recommended: 30 };
/// For commands that wait until all acknowledged writes are on stable storage.
const FLUSH: Timeouts = Timeouts { nominal: 5, recommended: 60 };
/// For commands that change the map of many blocks.
const MAP: Timeouts = Timeouts { nominal: 5, recommended: 60 };

/// One command: its codes, the bits of its CDB that are used, and its decoder.
#[derive(Debug)]
pub struct CommandDefinition {
    /// The standard's name.
    pub name: &'static str,
    /// OPERATION CODE.
    pub opcode: u8,
    /// SERVICE ACTION, if the operation code has service actions: the low five bits of byte 1.
    pub service_action: Option<u8>,
    /// The bits that are used, byte by byte; all others must be zero. As long as the CDB.
    pub usage: &'static [u8],
    /// Timeouts reported to hosts.
    pub timeouts: Timeouts,
    /// The bits that must be zero, with the CDB as a big-endian number.
    reserved: u128,
    decode: Decode,
}

type Decode = fn(&[u8; 16]) -> Result<Command, Sense>;

impl CommandDefinition {
    /// Returns the length of the CDB in bytes.
    pub fn cdb_length(&self) -> usize {
        self.usage.len()
    }

    /// Refuses a bit that is reserved or requests an unsupported feature, with a pointer to it
    /// (SPC-4 4.3.3).
    #[inline]
    fn check_reserved(&self, cdb: &[u8; 16]) -> Result<(), Sense> {
        let set = u128::from_be_bytes(*cdb) & self.reserved;
        if set == 0 {
            return Ok(());
        }
        let from_left = set.leading_zeros();
        Err(Sense::invalid_cdb_field(low_u16(from_left / 8), Some(bit_number(7 - from_left % 8))))
    }

    /// Parses a CDB of this command.
    #[inline]
    pub(super) fn parse(&self, cdb: &[u8; 16]) -> Result<Command, Sense> {
        self.check_reserved(cdb)?;
        (self.decode)(cdb)
    }
}

/// Returns the bits outside `usage`, except those of the operation code and of bytes after a short
/// CDB.
const fn reserved_bits(usage: &[u8]) -> u128 {
    let mut reserved = 0;
    let mut byte = 1;
    while byte < usage.len() {
        reserved |= (!usage[byte] as u128) << (8 * (15 - byte));
        byte += 1;
    }
    reserved
}

/// Defines a command whose operation code has no service actions; `usage[0]` is the operation code.
const fn plain(name: &'static str, usage: &'static [u8], timeouts: Timeouts, decode: Decode) -> CommandDefinition {
    let reserved = reserved_bits(usage);
    CommandDefinition { name, opcode: usage[0], service_action: None, usage, timeouts, reserved, decode }
}

/// Defines a command with a service action; the low five bits of `usage[1]` must be set.
const fn action(
    name: &'static str,
    service_action: u8,
    usage: &'static [u8],
    timeouts: Timeouts,
    decode: Decode,
) -> CommandDefinition {
    assert!(usage[1] & 0x1f == 0x1f && service_action <= 0x1f);
    let reserved = reserved_bits(usage);
    CommandDefinition {
        name,
        opcode: usage[0],
        service_action: Some(service_action),
        usage,
        timeouts,
        reserved,
        decode,
    }
}

/// The commands, ordered by code.
///
/// Bits omitted on purpose: RDPROTECT, WRPROTECT and VRPROTECT (no protection information), ANCHOR
/// (ANC_SUP is 0), SP (no parameters are saved), NACA and the rest of CONTROL. FUA_NV, SYNC_NV,
/// RARC and GROUP NUMBER are accepted and ignored: there is no separate non-volatile cache, no
/// error recovery that could end early, and no grouping function (SBC-4 4.23).
#[rustfmt::skip]
pub static COMMANDS: &[CommandDefinition] = &[
    plain("TEST UNIT READY", &[0x00, 0, 0, 0, 0, 0], MEMORY, d::test_unit_ready),
    plain("REQUEST SENSE", &[0x03, 0x01, 0, 0, 0xff, 0], MEMORY, d::request_sense),
    plain("READ(6)", &[0x08, 0x1f, 0xff, 0xff, 0xff, 0], MEDIUM, d::read_6),
    plain("WRITE(6)", &[0x0a, 0x1f, 0xff, 0xff, 0xff, 0], MEDIUM, d::write_6),
    plain("INQUIRY", &[0x12, 0x01, 0xff, 0xff, 0xff, 0], MEMORY, d::inquiry),
    plain("MODE SELECT(6)", &[0x15, 0x10, 0, 0, 0xff, 0], MEMORY, d::mode_select_6),
    plain("RESERVE(6)", &[0x16, 0, 0, 0, 0, 0], MEMORY, d::reserve_6),
    plain("RELEASE(6)", &[0x17, 0, 0, 0, 0, 0], MEMORY, d::release_6),
    plain("MODE SENSE(6)", &[0x1a, 0x08, 0xff, 0xff, 0xff, 0], MEMORY, d::mode_sense_6),
    plain("START STOP UNIT", &[0x1b, 0x01, 0, 0x0f, 0xf7, 0], FLUSH, d::start_stop),
    plain("SEND DIAGNOSTIC", &[0x1d, 0x17, 0, 0, 0, 0], MEMORY, d::send_diagnostic),
    plain("PREVENT ALLOW MEDIUM REMOVAL", &[0x1e, 0, 0, 0, 0x03, 0], MEMORY, d::prevent_allow),
    plain("READ CAPACITY(10)", &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], MEMORY, d::read_capacity_10),
    plain("READ(10)", &[0x28, 0x1e, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], MEDIUM, d::read_10),
    plain("WRITE(10)", &[0x2a, 0x1a, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], MEDIUM, d::write_10),
    plain("WRITE AND VERIFY(10)", &[0x2e, 0x16, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], MEDIUM, d::write_and_verify_10),
    plain("VERIFY(10)", &[0x2f, 0x16, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], MEDIUM, d::verify_10),
    plain("PRE-FETCH(10)", &[0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], MEDIUM, d::pre_fetch_10),
    plain("SYNCHRONIZE CACHE(10)", &[0x35, 0x06, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], FLUSH, d::synchronize_cache_10),
    plain("READ DEFECT DATA(10)", &[0x37, 0, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::read_defect_data_10),
    plain("WRITE SAME(10)", &[0x41, 0x08, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], MAP, d::write_same_10),
    plain("UNMAP", &[0x42, 0, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0], MAP, d::unmap),
    plain("LOG SENSE", &[0x4d, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0], MEMORY, d::log_sense),
    plain("MODE SELECT(10)", &[0x55, 0x10, 0, 0, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::mode_select_10),
    plain("RESERVE(10)", &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], MEMORY, d::reserve_10),
    plain("RELEASE(10)", &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], MEMORY, d::release_10),
    plain("MODE SENSE(10)", &[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::mode_sense_10),
    action("PERSISTENT RESERVE IN, READ KEYS", 0x00, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::persistent_reserve_in),
    action("PERSISTENT RESERVE IN, READ RESERVATION", 0x01, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::persistent_reserve_in),
    action("PERSISTENT RESERVE IN, REPORT CAPABILITIES", 0x02, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::persistent_reserve_in),
    action("PERSISTENT RESERVE IN, READ FULL STATUS", 0x03, &[0x5e, 0x1f, 0, 0, 0, 0, 0, 0xff, 0xff, 0], MEMORY, d::persistent_reserve_in),
    action("PERSISTENT RESERVE OUT, REGISTER", 0x00, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, RESERVE", 0x01, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, RELEASE", 0x02, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, CLEAR", 0x03, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, PREEMPT", 0x04, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, PREEMPT AND ABORT", 0x05, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY", 0x06, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("PERSISTENT RESERVE OUT, REGISTER AND MOVE", 0x07, &[0x5f, 0x1f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], FLUSH, d::persistent_reserve_out),
    action("EXTENDED COPY(LID1)", 0x00, &[0x83, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MAP, d::extended_copy),
    action("RECEIVE COPY STATUS(LID1)", 0x00, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::receive_copy_results),
    action("RECEIVE COPY DATA(LID1)", 0x01, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::receive_copy_results),
    action("RECEIVE COPY OPERATING PARAMETERS", 0x03, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::receive_copy_results),
    action("RECEIVE COPY FAILURE DETAILS(LID1)", 0x04, &[0x84, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::receive_copy_results),
    plain("READ(16)", &[0x88, 0x1e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::read_16),
    plain("COMPARE AND WRITE", &[0x89, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0x3f, 0], MEDIUM, d::compare_and_write),
    plain("WRITE(16)", &[0x8a, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::write_16),
    plain("ORWRITE(16)", &[0x8b, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::or_write_16),
    plain("WRITE AND VERIFY(16)", &[0x8e, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::write_and_verify_16),
    plain("VERIFY(16)", &[0x8f, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::verify_16),
    plain("PRE-FETCH(16)", &[0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::pre_fetch_16),
    plain("SYNCHRONIZE CACHE(16)", &[0x91, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], FLUSH, d::synchronize_cache_16),
    plain("WRITE SAME(16)", &[0x93, 0x09, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MAP, d::write_same_16),
    plain("WRITE ATOMIC(16)", &[0x9c, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0x3f, 0], MEDIUM, d::write_atomic),
    action("READ CAPACITY(16)", 0x10, &[0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::read_capacity_16),
    action("GET LBA STATUS(16)", 0x12, &[0x9e, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0], MEDIUM, d::get_lba_status),
    plain("REPORT LUNS", &[0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::report_luns),
    action("REPORT TARGET PORT GROUPS", 0x0a, &[0xa3, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::report_target_port_groups),
    action("REPORT SUPPORTED OPERATION CODES", 0x0c, &[0xa3, 0x1f, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::report_opcodes),
    action("REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", 0x0d, &[0xa3, 0x1f, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::report_task_management),
    action("SET TARGET PORT GROUPS", 0x0a, &[0xa4, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], FLUSH, d::set_target_port_groups),
    plain("READ(12)", &[0xa8, 0x1e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::read_12),
    plain("WRITE(12)", &[0xaa, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::write_12),
    plain("WRITE AND VERIFY(12)", &[0xae, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::write_and_verify_12),
    plain("VERIFY(12)", &[0xaf, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], MEDIUM, d::verify_12),
    plain("READ DEFECT DATA(12)", &[0xb7, 0x1f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], MEMORY, d::read_defect_data_12),
];

/// In [`FIRST`]: no command has the operation code.
const ABSENT: u8 = u8::MAX;

/// The index in [`COMMANDS`] of the first command of each operation code.
static FIRST: [u8; 256] = first_of_each_code();

#[expect(clippy::cast_possible_truncation, reason = "fewer than 255 commands, as asserted")]
const fn first_of_each_code() -> [u8; 256] {
    assert!(COMMANDS.len() < ABSENT as usize);
    let mut first = [ABSENT; 256];
    let mut place = COMMANDS.len();
    while place > 0 {
        place -= 1;
        first[COMMANDS[place].opcode as usize] = place as u8;
    }
    first
}

/// Returns the commands of an operation code: none, one, or one per service action.
#[inline]
pub fn commands_of(opcode: u8) -> &'static [CommandDefinition] {
    let first = FIRST[usize::from(opcode)];
    if first == ABSENT {
        return &[];
    }
    let rest = &COMMANDS[usize::from(first)..];
    if rest[0].service_action.is_none() {
        return &rest[..1];
    }
    let count = rest.iter().take_while(|definition| definition.opcode == opcode).count();
    &rest[..count]
}

/// Returns the command of a CDB by its operation code and service action.
#[inline]
pub(super) fn find(cdb: &[u8; 16]) -> Option<&'static CommandDefinition> {
    match commands_of(cdb[0]) {
        [] => None,
        [only] if only.service_action.is_none() => Some(only),
        several => several.iter().find(|definition| definition.service_action == Some(cdb[1] & 0x1f)),
    }
}
