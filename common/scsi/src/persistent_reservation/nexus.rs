//! I_T nexuses, and TransportIDs, which identify their initiator ports (SPC-4 7.6.4.6, RFC 7143
//! 4.4.1).

use crate::be::{get_u16, to_u16};
use crate::sense::Sense;

/// FORMAT CODE 01b and PROTOCOL IDENTIFIER of an iSCSI initiator port TransportID.
const INITIATOR_PORT: u8 = 0x45;
const HEADER_BYTES: usize = 4;
/// The longest SCSI port name: an iSCSI name of 223 bytes, `,i,0x` and twelve digits.
const MAX_NAME_BYTES: usize = 240;
/// The smallest ADDITIONAL LENGTH (SPC-4 table 528).
const MIN_ADDITIONAL_BYTES: usize = 20;

/// An initiator port together with the target port it uses. A registration belongs to a nexus and
/// outlives its sessions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId {
    initiator_port: Vec<u8>,
    target_port: u16,
}

impl NexusId {
    /// Returns the nexus of a session: the initiator's iSCSI name and ISID, and the relative target
    /// port identifier.
    pub fn new(initiator_name: &str, isid: [u8; 6], target_port: u16) -> Self {
        let digits: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::of_port(format!("{initiator_name},i,0x{digits}").as_bytes(), target_port)
    }

    /// Returns the nexus of a SCSI initiator port name (`iqn…,i,0x<ISID>`). Names are
    /// case-insensitive like iSCSI names (RFC 7143 4.2.7.1). A name over the maximum length is
    /// truncated.
    pub fn of_port(initiator_port: &[u8], target_port: u16) -> Self {
        let name = &initiator_port[..initiator_port.len().min(MAX_NAME_BYTES)];
        Self { initiator_port: name.to_ascii_lowercase(), target_port }
    }

    /// Returns the same initiator port at another target port.
    pub fn at_target_port(&self, target_port: u16) -> Self {
        Self { initiator_port: self.initiator_port.clone(), target_port }
    }

    /// The SCSI initiator port name.
    pub fn initiator_port(&self) -> &[u8] {
        &self.initiator_port
    }

    /// The relative target port identifier.
    pub fn target_port(&self) -> u16 {
        self.target_port
    }

    /// Returns the TransportID of the initiator port.
    pub fn transport_id(&self) -> Vec<u8> {
        let mut name = self.initiator_port.clone();
        // Null-terminated and padded to a multiple of four.
        name.push(0);
        name.resize(name.len().next_multiple_of(4).max(MIN_ADDITIONAL_BYTES), 0);
        let [high, low] = to_u16(name.len()).to_be_bytes();
        [[INITIATOR_PORT, 0, high, low].as_slice(), &name].concat()
    }
}

impl std::fmt::Debug for NexusId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", String::from_utf8_lossy(&self.initiator_port), self.target_port)
    }
}

/// Returns the initiator port name of the TransportID at byte `at` of `list`, and the offset of the
/// next one. Accepts only the form that identifies a port: a registration is a nexus, which a node
/// name alone does not identify.
pub(super) fn parse_transport_id(list: &[u8], at: usize) -> Result<(&[u8], usize), Sense> {
    let field = |offset: usize, bit| Sense::invalid_parameter(to_u16(at + offset), bit);
    let rest = list.get(at..).ok_or(Sense::parameter_list_length())?;
    let (header, rest) = rest.split_at_checked(HEADER_BYTES).ok_or(Sense::parameter_list_length())?;
    if header[0] != INITIATOR_PORT {
        return Err(field(0, None));
    }
    let length = usize::from(get_u16(header, 2));
    if length < MIN_ADDITIONAL_BYTES || length % 4 != 0 {
        return Err(field(2, None));
    }
    let name = rest.get(..length).ok_or(Sense::parameter_list_length())?;
    let end = name.iter().position(|byte| *byte == 0).ok_or(field(HEADER_BYTES, None))?;
    let name = &name[..end];
    let is_port = name.windows(5).any(|part| part.eq_ignore_ascii_case(b",i,0x"));
    if !is_port || name.len() > MAX_NAME_BYTES {
        return Err(field(HEADER_BYTES, None));
    }
    Ok((name, at + HEADER_BYTES + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_transport_id() {
        let nexus = NexusId::new("iqn.2026-11.Test:h", [0, 2, 0x3d, 0, 0, 1], 3);
        let bytes = nexus.transport_id();
        assert_eq!(bytes[..4], [0x45, 0, 0, 36]);
        assert_eq!(&bytes[4..], b"iqn.2026-11.test:h,i,0x00023d000001\0");
        assert_eq!(parse_transport_id(&bytes, 0), Ok((nexus.initiator_port(), 40)));
        assert_eq!(nexus, NexusId::of_port(b"IQN.2026-11.test:h,i,0x00023D000001", 3));
        assert_ne!(nexus, nexus.at_target_port(4));
    }

    #[test]
    fn other_transport_ids_are_refused() {
        let good = NexusId::new("iqn.a:b", [0; 6], 1).transport_id();
        for length in 0..good.len() {
            assert_eq!(parse_transport_id(&good[..length], 0), Err(Sense::parameter_list_length()), "{length}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            parse_transport_id(&bytes, 0).map(|_| ())
        };
        assert_eq!(changed(0, 0x05), Err(Sense::invalid_parameter(0, None)));
        assert_eq!(changed(3, 21), Err(Sense::invalid_parameter(2, None)));
        assert_eq!(changed(3, 16), Err(Sense::invalid_parameter(2, None)));
        assert_eq!(changed(4 + 7, b';'), Err(Sense::invalid_parameter(4, None)));
    }
}
