//! PERSISTENT RESERVE OUT parameter lists (SPC-4 6.16.3, 6.16.4).

use super::nexus::{NexusId, parse_transport_id};
use super::types::OutAction;
use crate::be::{get_u16, get_u32, get_u64, put, to_u32};
use crate::sense::Sense;

/// Length of the basic list, and of the fixed part of the list of REGISTER AND MOVE.
const LIST_BYTES: usize = 24;
/// SPEC_I_PT, ALL_TG_PT and APTPL, byte 20 of the basic list.
const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;
/// UNREG, byte 17 of the list of REGISTER AND MOVE, which also contains APTPL.
const UNREG: u8 = 0x02;

/// The basic parameter list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutParameters {
    /// RESERVATION KEY: the key of the sending nexus.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY.
    pub service_key: u64,
    /// APTPL: registrations survive a power loss.
    pub persist: bool,
    /// ALL_TG_PT: register at every target port.
    pub all_target_ports: bool,
    /// SPEC_I_PT: the names of further initiator ports to register.
    pub initiator_ports: Option<Vec<Vec<u8>>>,
}

/// The parameter list of REGISTER AND MOVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveParameters {
    /// RESERVATION KEY: the key of the sending nexus.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: the key for the new holder.
    pub service_key: u64,
    /// UNREG: removes the sender's registration.
    pub unregister: bool,
    /// APTPL: registrations survive a power loss.
    pub persist: bool,
    /// The nexus that becomes the holder.
    pub new_holder: NexusId,
}

impl OutParameters {
    /// Parses the list of any action except REGISTER AND MOVE.
    pub fn parse(action: OutAction, list: &[u8]) -> Result<Self, Sense> {
        let Some((fixed, rest)) = list.split_at_checked(LIST_BYTES) else {
            return Err(Sense::parameter_list_length());
        };
        // APTPL and ALL_TG_PT apply to the two REGISTERs only, and are ignored otherwise (SPC-4
        // table 244).
        let registers = matches!(action, OutAction::Register | OutAction::RegisterAndIgnoreExistingKey);
        let flags = if registers { fixed[20] } else { fixed[20] & SPEC_I_PT };
        // SPEC_I_PT applies to REGISTER only; otherwise it is an error (SPC-4 6.16.3).
        let initiator_ports = if flags & SPEC_I_PT == 0 {
            if !rest.is_empty() {
                return Err(Sense::parameter_list_length());
            }
            None
        } else if action == OutAction::Register {
            Some(parse_initiator_ports(list)?)
        } else {
            return Err(Sense::invalid_parameter(20, Some(3)));
        };
        Ok(Self {
            key: get_u64(fixed, 0),
            service_key: get_u64(fixed, 8),
            persist: flags & APTPL != 0,
            all_target_ports: flags & ALL_TG_PT != 0,
            initiator_ports,
        })
    }

    /// Encodes the list. Initiator ports are omitted: our initiator registers only itself.
    pub fn to_bytes(&self) -> [u8; LIST_BYTES] {
        let mut out = [0; LIST_BYTES];
        put(&mut out, 0, self.key.to_be_bytes());
        put(&mut out, 8, self.service_key.to_be_bytes());
        out[20] = if self.persist { APTPL } else { 0 } | if self.all_target_ports { ALL_TG_PT } else { 0 };
        out
    }
}

/// Parses the TransportIDs after the basic list (SPC-4 6.16.3).
fn parse_initiator_ports(list: &[u8]) -> Result<Vec<Vec<u8>>, Sense> {
    const FIRST_AT: usize = LIST_BYTES + 4;
    let header = list.get(..FIRST_AT).ok_or(Sense::parameter_list_length())?;
    if get_u32(header, LIST_BYTES) as usize != list.len() - FIRST_AT {
        return Err(Sense::parameter_list_length());
    }
    let mut names = Vec::new();
    let mut at = FIRST_AT;
    while at < list.len() {
        let (name, next) = parse_transport_id(list, at)?;
        names.push(name.to_vec());
        at = next;
    }
    Ok(names)
}

impl MoveParameters {
    /// Parses the list of REGISTER AND MOVE (SPC-4 6.16.4).
    pub fn parse(list: &[u8]) -> Result<Self, Sense> {
        let fixed = list.get(..LIST_BYTES).ok_or(Sense::parameter_list_length())?;
        if get_u32(fixed, 20) as usize != list.len() - LIST_BYTES {
            return Err(Sense::parameter_list_length());
        }
        let (name, end) = parse_transport_id(list, LIST_BYTES)?;
        if end != list.len() {
            return Err(Sense::parameter_list_length());
        }
        Ok(Self {
            key: get_u64(fixed, 0),
            service_key: get_u64(fixed, 8),
            unregister: fixed[17] & UNREG != 0,
            persist: fixed[17] & APTPL != 0,
            new_holder: NexusId::of_port(name, get_u16(fixed, 18)),
        })
    }

    /// Encodes the list.
    pub fn to_bytes(&self) -> Vec<u8> {
        let transport_id = self.new_holder.transport_id();
        let mut out = vec![0; LIST_BYTES];
        put(&mut out, 0, self.key.to_be_bytes());
        put(&mut out, 8, self.service_key.to_be_bytes());
        out[17] = if self.unregister { UNREG } else { 0 } | if self.persist { APTPL } else { 0 };
        put(&mut out, 18, self.new_holder.target_port().to_be_bytes());
        put(&mut out, 20, to_u32(transport_id.len()).to_be_bytes());
        out.extend(transport_id);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(flags: u8) -> Vec<u8> {
        let mut list = OutParameters { key: 1, service_key: 2, ..OutParameters::default() }.to_bytes().to_vec();
        list[20] = flags;
        list
    }

    #[test]
    fn reservation_flags_apply_per_action() {
        let all = OutParameters::parse(OutAction::Register, &basic(ALL_TG_PT | APTPL));
        let expected =
            OutParameters { key: 1, service_key: 2, persist: true, all_target_ports: true, ..Default::default() };
        assert_eq!(all, Ok(expected.clone()));
        assert_eq!(expected.to_bytes().to_vec(), basic(ALL_TG_PT | APTPL));
        let ignored = OutParameters::parse(OutAction::Reserve, &basic(ALL_TG_PT | APTPL));
        assert_eq!(ignored, Ok(OutParameters { key: 1, service_key: 2, ..Default::default() }));
        for action in [OutAction::Reserve, OutAction::RegisterAndIgnoreExistingKey] {
            let refused = OutParameters::parse(action, &basic(SPEC_I_PT));
            assert_eq!(refused, Err(Sense::invalid_parameter(20, Some(3))));
        }
    }

    #[test]
    fn reservation_list_length_must_be_exact() {
        let list = basic(0);
        for length in 0..LIST_BYTES {
            let cut = OutParameters::parse(OutAction::Clear, &list[..length]);
            assert_eq!(cut, Err(Sense::parameter_list_length()));
        }
        let long = [list, vec![0]].concat();
        assert_eq!(OutParameters::parse(OutAction::Clear, &long), Err(Sense::parameter_list_length()));
    }

    #[test]
    fn initiator_port_names_parse() {
        let nexus = NexusId::new("iqn.a:b", [1; 6], 1);
        let id = nexus.transport_id();
        let length = to_u32(2 * id.len()).to_be_bytes();
        let list = [basic(SPEC_I_PT), length.to_vec(), id.clone(), id].concat();
        let parsed = OutParameters::parse(OutAction::Register, &list).unwrap();
        assert_eq!(parsed.initiator_ports, Some(vec![nexus.initiator_port().to_vec(); 2]));
        for length in LIST_BYTES..list.len() {
            let cut = OutParameters::parse(OutAction::Register, &list[..length]);
            assert_eq!(cut, Err(Sense::parameter_list_length()), "{length}");
        }
    }

    #[test]
    fn register_and_move_lists_round_trip() {
        let list = MoveParameters {
            key: 7,
            service_key: 8,
            unregister: true,
            persist: true,
            new_holder: NexusId::new("iqn.a:b", [2; 6], 513),
        };
        let bytes = list.to_bytes();
        assert_eq!(bytes[16..24], [0, 3, 2, 1, 0, 0, 0, 32]);
        assert_eq!(MoveParameters::parse(&bytes), Ok(list));
        for length in 0..bytes.len() {
            assert_eq!(MoveParameters::parse(&bytes[..length]), Err(Sense::parameter_list_length()), "{length}");
        }
    }
}
