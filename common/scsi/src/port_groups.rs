//! Target port groups: REPORT TARGET PORT GROUPS data and SET TARGET PORT GROUPS lists (SPC-4 5.15,
//! 6.37, 6.45).

use crate::be::{get_u16, to_u8, to_u16, to_u32};
use crate::sense::Sense;

/// PREF: the group is preferred.
const PREF: u8 = 0x80;
/// The extended header's RETURN DATA FORMAT.
const EXTENDED_FORMAT: u8 = 0x10;
const LIST_HEADER_BYTES: usize = 4;
const SET_DESCRIPTOR_BYTES: usize = 4;

/// ASYMMETRIC ACCESS STATE (SPC-4 table 306).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessState {
    /// The preferred path to the logical unit.
    ActiveOptimized = 0x0,
    /// A usable path with lower performance.
    ActiveNonOptimized = 0x1,
    /// Only management commands.
    Standby = 0x2,
    /// Fewer commands than in standby.
    Unavailable = 0x3,
    /// Between two states.
    Transitioning = 0xf,
}

impl AccessState {
    /// Returns the state in the low four bits of a byte.
    pub fn from_nibble(byte: u8) -> Option<Self> {
        Some(match byte & 0x0f {
            0x0 => Self::ActiveOptimized,
            0x1 => Self::ActiveNonOptimized,
            0x2 => Self::Standby,
            0x3 => Self::Unavailable,
            0xf => Self::Transitioning,
            _ => return None,
        })
    }
}

/// STATUS CODE: the cause of a group's state (SPC-4 table 308).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateCause {
    /// No cause is reported.
    #[default]
    NotReported = 0x00,
    /// Set by SET TARGET PORT GROUPS.
    ByHost = 0x01,
    /// Set by the array.
    ByArray = 0x02,
}

/// One target port group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortGroup {
    /// TARGET PORT GROUP.
    pub id: u16,
    /// ASYMMETRIC ACCESS STATE.
    pub state: AccessState,
    /// PREF: hosts should prefer this group among others of equal state.
    pub preferred: bool,
    /// T_SUP, U_SUP, S_SUP and so on: the states that the group can have.
    pub supported: u8,
    /// STATUS CODE.
    pub cause: StateCause,
    /// RELATIVE TARGET PORT IDENTIFIERs of its ports.
    pub ports: Vec<u16>,
}

impl PortGroup {
    /// Active/optimized, active/non-optimized, standby, unavailable and transitioning.
    pub const ALL_STATES: u8 = 0x8f;
    /// Active/optimized, active/non-optimized, unavailable and transitioning.
    pub const ACTIVE_OR_NOT: u8 = 0x8b;
}

/// Encodes REPORT TARGET PORT GROUPS data, before truncation to the allocation length.
/// `transition_seconds` is the IMPLICIT TRANSITION TIME of the extended header; `None` omits that
/// header.
pub fn port_groups_data(groups: &[PortGroup], transition_seconds: Option<u8>) -> Vec<u8> {
    let mut out = vec![0; LIST_HEADER_BYTES];
    if let Some(seconds) = transition_seconds {
        out.extend([EXTENDED_FORMAT, seconds, 0, 0]);
    }
    for group in groups {
        let [high, low] = group.id.to_be_bytes();
        let preferred = if group.preferred { PREF } else { 0 };
        out.extend([preferred | group.state as u8, group.supported, high, low]);
        out.extend([0, group.cause as u8, 0, to_u8(group.ports.len())]);
        for port in &group.ports {
            let [high, low] = port.to_be_bytes();
            out.extend([0, 0, high, low]);
        }
    }
    let length = to_u32(out.len() - LIST_HEADER_BYTES);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Decodes REPORT TARGET PORT GROUPS data without the extended header; `None` if cut inside a group
/// or with an unknown state.
pub fn parse_port_groups(bytes: &[u8]) -> Option<Vec<PortGroup>> {
    let mut rest = bytes.get(LIST_HEADER_BYTES..)?;
    let mut groups = Vec::new();
    while !rest.is_empty() {
        let (header, next) = rest.split_at_checked(8)?;
        let (ports, next) = next.split_at_checked(4 * usize::from(header[7]))?;
        rest = next;
        groups.push(PortGroup {
            id: get_u16(header, 2),
            state: AccessState::from_nibble(header[0])?,
            preferred: header[0] & PREF != 0,
            supported: header[1],
            cause: match header[5] {
                0x01 => StateCause::ByHost,
                0x02 => StateCause::ByArray,
                _ => StateCause::NotReported,
            },
            ports: ports.chunks(4).map(|port| get_u16(port, 2)).collect(),
        });
    }
    Some(groups)
}

/// Parses a SET TARGET PORT GROUPS list of groups with their requested states. A request for
/// Transitioning is refused.
pub fn parse_set_port_groups(list: &[u8]) -> Result<Vec<(u16, AccessState)>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let rest = list.get(LIST_HEADER_BYTES..).ok_or(Sense::parameter_list_length())?;
    let (descriptors, partial) = rest.as_chunks::<SET_DESCRIPTOR_BYTES>();
    if !partial.is_empty() {
        return Err(Sense::parameter_list_length());
    }
    let parse = |(place, descriptor): (usize, &[u8; SET_DESCRIPTOR_BYTES])| {
        let at = to_u16(LIST_HEADER_BYTES + place * SET_DESCRIPTOR_BYTES);
        match AccessState::from_nibble(descriptor[0]) {
            Some(state) if state != AccessState::Transitioning => Ok((get_u16(descriptor, 2), state)),
            _ => Err(Sense::invalid_parameter(at, Some(3))),
        }
    };
    descriptors.iter().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> PortGroup {
        PortGroup {
            id: 1,
            state: AccessState::ActiveOptimized,
            preferred: true,
            supported: PortGroup::ALL_STATES,
            cause: StateCause::ByArray,
            ports: vec![1, 2],
        }
    }

    #[test]
    fn golden_report() {
        let data = port_groups_data(&[group()], None);
        assert_eq!(data, [0, 0, 0, 16, 0x80, 0x8f, 0, 1, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(parse_port_groups(&data), Some(vec![group()]));
        assert_eq!(parse_port_groups(&data[..19]), None);
        assert_eq!(port_groups_data(&[], Some(30)), [0, 0, 0, 4, 0x10, 30, 0, 0]);
        let gone = PortGroup {
            state: AccessState::Unavailable,
            preferred: false,
            supported: PortGroup::ACTIVE_OR_NOT,
            ..group()
        };
        assert_eq!(port_groups_data(std::slice::from_ref(&gone), None)[4..8], [0x03, 0x8b, 0, 1]);
        assert_eq!(parse_port_groups(&port_groups_data(&[group(), gone.clone()], None)), Some(vec![group(), gone]));
    }

    #[test]
    fn set_lists() {
        assert_eq!(parse_set_port_groups(&[]), Ok(vec![]));
        let wanted = parse_set_port_groups(&[0, 0, 0, 0, 0x01, 0, 0, 7]);
        assert_eq!(wanted, Ok(vec![(7, AccessState::ActiveNonOptimized)]));
        assert_eq!(parse_set_port_groups(&[0, 0, 0]), Err(Sense::parameter_list_length()));
        assert_eq!(parse_set_port_groups(&[0, 0, 0, 0, 1]), Err(Sense::parameter_list_length()));
        for state in [0x0f, 0x04] {
            let refused = parse_set_port_groups(&[0, 0, 0, 0, 0, 0, 0, 1, state, 0, 0, 1]);
            assert_eq!(refused, Err(Sense::invalid_parameter(8, Some(3))));
        }
    }
}
