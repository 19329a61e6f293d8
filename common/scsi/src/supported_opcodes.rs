//! REPORT SUPPORTED OPERATION CODES data (SPC-4 6.35), generated from the table of commands.

use crate::be::{to_u8, to_u32};
use crate::cdb::{COMMANDS, CommandDefinition, ReportOpcodes, ReportingOptions, Timeouts, commands_of};
use crate::sense::Sense;

/// CTDP of an all_commands descriptor: a timeouts descriptor follows.
const CTDP_ALL: u8 = 0x02;
/// SERVACTV: the service action is valid.
const SERVACTV: u8 = 0x01;
/// CTDP of one_command data.
const CTDP_ONE: u8 = 0x80;
/// SUPPORT 001b: not supported.
const NOT_SUPPORTED: u8 = 0x01;
/// SUPPORT 011b: supported as the standard specifies.
const SUPPORTED: u8 = 0x03;

/// Returns the parameter data of a request, before truncation to its allocation length. The logical
/// unit refuses the commands with the operation codes in `refused`.
pub fn supported_opcodes_data(request: &ReportOpcodes, refused: &[u8]) -> Result<Vec<u8>, Sense> {
    let commands = if refused.contains(&request.opcode) { &[] } else { commands_of(request.opcode) };
    let has_actions = commands.iter().any(|definition| definition.service_action.is_some());
    let by_action = || commands.iter().find(|d| d.service_action.map(u16::from) == Some(request.service_action));
    let found = match request.options {
        ReportingOptions::All => return Ok(all_commands(request.timeouts, refused)),
        // REPORTING OPTIONS contradicts the operation code: INVALID FIELD IN CDB (SPC-4 table 284).
        ReportingOptions::Opcode if has_actions => return Err(Sense::invalid_cdb_field(2, Some(2))),
        ReportingOptions::ServiceAction if !has_actions && !commands.is_empty() => {
            return Err(Sense::invalid_cdb_field(2, Some(2)));
        }
        ReportingOptions::Opcode => commands.first(),
        ReportingOptions::ServiceAction => by_action(),
        ReportingOptions::Either if has_actions => by_action(),
        ReportingOptions::Either if request.service_action == 0 => commands.first(),
        ReportingOptions::Either => None,
    };
    Ok(found.map_or_else(|| vec![0, NOT_SUPPORTED, 0, 0], |definition| one_command(definition, request.timeouts)))
}

/// Encodes all_commands data (SPC-4 6.35.2).
fn all_commands(with_timeouts: bool, refused: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    for definition in COMMANDS.iter().filter(|definition| !refused.contains(&definition.opcode)) {
        let flags =
            if with_timeouts { CTDP_ALL } else { 0 } | if definition.service_action.is_some() { SERVACTV } else { 0 };
        out.extend([definition.opcode, 0, 0, definition.service_action.unwrap_or(0), 0, flags, 0]);
        out.push(to_u8(definition.cdb_length()));
        if with_timeouts {
            append_timeouts(definition.timeouts, &mut out);
        }
    }
    let length = to_u32(out.len() - 4);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Encodes one_command data (SPC-4 6.35.3). CDB USAGE DATA contains the operation code and the
/// service action.
fn one_command(definition: &CommandDefinition, with_timeouts: bool) -> Vec<u8> {
    let mut out = vec![0, SUPPORTED | if with_timeouts { CTDP_ONE } else { 0 }, 0, to_u8(definition.cdb_length())];
    out.extend(definition.usage);
    if let Some(action) = definition.service_action {
        out[5] = (out[5] & 0xe0) | action;
    }
    if with_timeouts {
        append_timeouts(definition.timeouts, &mut out);
    }
    out
}

/// Appends a command timeouts descriptor of 12 bytes (SPC-4 6.35.4).
fn append_timeouts(timeouts: Timeouts, out: &mut Vec<u8>) {
    out.extend([0, 0x0a, 0, 0]);
    out.extend(timeouts.nominal.to_be_bytes());
    out.extend(timeouts.recommended.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(options: ReportingOptions, opcode: u8, service_action: u16, timeouts: bool) -> ReportOpcodes {
        ReportOpcodes { timeouts, options, opcode, service_action, allocation: u32::MAX }
    }

    #[test]
    fn golden_one_command() {
        assert_eq!(
            supported_opcodes_data(&request(ReportingOptions::Opcode, 0x28, 0, true), &[]),
            Ok(vec![
                0, 0x83, 0, 10, 0x28, 0x1e, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0, // usage
                0, 0x0a, 0, 0, 0, 0, 0, 1, 0, 0, 0, 30, // timeouts
            ])
        );
        assert_eq!(
            supported_opcodes_data(&request(ReportingOptions::ServiceAction, 0xa3, 0x0c, false), &[]),
            Ok(vec![0, 0x03, 0, 12, 0xa3, 0x0c, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0])
        );
    }

    #[test]
    fn commands_are_listed_once_and_found_by_each_option() {
        for timeouts in [false, true] {
            let size = if timeouts { 20 } else { 8 };
            let all = supported_opcodes_data(&request(ReportingOptions::All, 0, 0, timeouts), &[]).unwrap();
            assert_eq!(all.len(), 4 + size * COMMANDS.len());
            assert_eq!(all[..4], to_u32(all.len() - 4).to_be_bytes());
            for descriptor in all[4..].chunks(size) {
                let (opcode, action) = (descriptor[0], u16::from(descriptor[3]));
                let with_action = descriptor[5] & SERVACTV != 0;
                let (fits, contradicts) = if with_action {
                    (ReportingOptions::ServiceAction, ReportingOptions::Opcode)
                } else {
                    (ReportingOptions::Opcode, ReportingOptions::ServiceAction)
                };
                assert_eq!(descriptor[5] & CTDP_ALL != 0, timeouts);
                assert_eq!(
                    supported_opcodes_data(&request(contradicts, opcode, action, timeouts), &[]),
                    Err(Sense::invalid_cdb_field(2, Some(2)))
                );
                for options in [fits, ReportingOptions::Either] {
                    let one = supported_opcodes_data(&request(options, opcode, action, timeouts), &[]).unwrap();
                    assert_eq!(one[1] & 0x07, SUPPORTED);
                    assert_eq!((one[3], one[4]), (descriptor[7], opcode));
                }
            }
        }
    }

    #[test]
    fn unknown_commands_are_reported_as_not_supported() {
        let absent = Ok(vec![0, NOT_SUPPORTED, 0, 0]);
        assert_eq!(supported_opcodes_data(&request(ReportingOptions::Opcode, 0xff, 0, true), &[]), absent);
        assert_eq!(supported_opcodes_data(&request(ReportingOptions::ServiceAction, 0xff, 0, false), &[]), absent);
        assert_eq!(supported_opcodes_data(&request(ReportingOptions::ServiceAction, 0x9e, 0x11, false), &[]), absent);
        assert_eq!(supported_opcodes_data(&request(ReportingOptions::Either, 0x28, 1, false), &[]), absent);
    }

    #[test]
    fn refused_commands_are_not_reported() {
        let all = |refused: &[u8]| {
            let data = supported_opcodes_data(&request(ReportingOptions::All, 0, 0, false), refused).unwrap();
            data[4..].chunks(8).map(|descriptor| descriptor[0]).collect::<Vec<_>>()
        };
        let (complete, reduced) = (all(&[]), all(&[0x16, 0x5f]));
        assert!(complete.contains(&0x16) && complete.contains(&0x5f));
        assert_eq!(reduced, complete.into_iter().filter(|code| ![0x16, 0x5f].contains(code)).collect::<Vec<_>>());
        let absent = Ok(vec![0, NOT_SUPPORTED, 0, 0]);
        for (options, code) in [
            (ReportingOptions::Opcode, 0x16),
            (ReportingOptions::ServiceAction, 0x5f),
            (ReportingOptions::Either, 0x5f),
        ] {
            assert_eq!(supported_opcodes_data(&request(options, code, 0, true), &[0x16, 0x5f]), absent);
        }
    }
}
