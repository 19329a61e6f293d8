//! VPD page 8Fh, Third-party Copy (SPC-4 7.8.17): the supported copy commands and their limits.

use crate::be::{put, to_u8, to_u16};
use crate::cdb::COMMANDS;
use crate::copy::OperatingParameters;

/// Operation codes of third-party copy commands.
const COPY_OPCODES: [u8; 2] = [0x83, 0x84];
/// Descriptor types (SPC-4 table 639): all that are mandatory for a copy manager for LID1.
const SUPPORTED_COMMANDS: u16 = 0x0001;
const PARAMETER_DATA: u16 = 0x0004;
const SUPPORTED_DESCRIPTORS: u16 = 0x0008;
const SUPPORTED_CSCD_IDS: u16 = 0x000c;
const GENERAL_COPY_OPERATIONS: u16 = 0x8001;

/// Returns the page without its header.
pub(super) fn body() -> Vec<u8> {
    let limits = OperatingParameters::ours();
    let mut out = Vec::new();
    append(&mut out, SUPPORTED_COMMANDS, supported_commands());
    append(&mut out, PARAMETER_DATA, parameter_data(&limits));
    append(&mut out, SUPPORTED_DESCRIPTORS, with_length_byte(&limits.descriptor_types));
    // No identifiers other than those of the list's own descriptors.
    append(&mut out, SUPPORTED_CSCD_IDS, vec![0, 0]);
    append(&mut out, GENERAL_COPY_OPERATIONS, general_operations(&limits));
    out
}

/// Appends a third-party copy descriptor, padded to a multiple of four.
fn append(out: &mut Vec<u8>, kind: u16, mut descriptor: Vec<u8>) {
    descriptor.resize(descriptor.len().next_multiple_of(4), 0);
    out.extend(kind.to_be_bytes());
    out.extend(to_u16(descriptor.len()).to_be_bytes());
    out.extend(descriptor);
}

fn with_length_byte(list: &[u8]) -> Vec<u8> {
    [&[to_u8(list.len())], list].concat()
}

/// Returns operation codes with their service actions, from the table of commands.
fn supported_commands() -> Vec<u8> {
    let mut list = Vec::new();
    for opcode in COPY_OPCODES {
        let commands = COMMANDS.iter().filter(|command| command.opcode == opcode);
        let actions: Vec<u8> = commands.filter_map(|command| command.service_action).collect();
        list.push(opcode);
        list.extend(with_length_byte(&actions));
    }
    with_length_byte(&list)
}

fn parameter_data(limits: &OperatingParameters) -> Vec<u8> {
    let mut out = vec![0; 28];
    put(&mut out, 4, limits.max_cscds.to_be_bytes());
    put(&mut out, 6, limits.max_segments.to_be_bytes());
    put(&mut out, 8, limits.max_descriptors_bytes.to_be_bytes());
    out
}

fn general_operations(limits: &OperatingParameters) -> Vec<u8> {
    let mut out = vec![0; 32];
    put(&mut out, 0, u32::from(limits.max_copies).to_be_bytes());
    put(&mut out, 4, u32::from(limits.max_copies).to_be_bytes());
    put(&mut out, 8, limits.max_segment_bytes.to_be_bytes());
    out[12] = limits.granularity_exponent;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        #[rustfmt::skip]
        let expected = [
            0x00, 0x01, 0, 12, 9, 0x83, 1, 0x00, 0x84, 4, 0x00, 0x01, 0x03, 0x04, 0, 0,
            0x00, 0x04, 0, 28, 0, 0, 0, 0, 0, 64, 0, 64, 0, 0, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0x00, 0x08, 0, 4, 2, 0x02, 0xe4, 0,
            0x00, 0x0c, 0, 4, 0, 0, 0, 0,
            0x80, 0x01, 0, 32, 0, 0, 0, 255, 0, 0, 0, 255, 0x01, 0xff, 0xfe, 0, 9, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(body(), expected);
    }
}
