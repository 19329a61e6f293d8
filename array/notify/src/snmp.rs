//! Traps of SNMP v2c (RFC 1901, RFC 3416 4.2.6).

use crate::error::LOCKED;
use crate::{Event, Notice, SendError};
use catalog::{Severity, SnmpManager};
use platform::net::{resolve, send_datagram};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq, Tag};

/// Port of a manager.
pub const SNMP_PORT: u16 = 162;
/// The version of a message of SNMP v2c (RFC 1901 3).
const VERSION: u64 = 1;
/// SNMPv2-Trap-PDU (RFC 3416 3).
const TRAP: u64 = 7;
/// TimeTicks (RFC 2578 7.1.8).
const TIME_TICKS: u64 = 3;
/// `sysUpTime.0` (RFC 3418).
const SYS_UP_TIME: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
/// `snmpTrapOID.0` (RFC 3418).
const SNMP_TRAP_OID: &[u64] = &[1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0];
/// Root of the array's objects, as in `docs/monitoring/IBID-ALERT-MIB.txt`. The array has no
/// enterprise number of its own; this one is reserved for documentation (RFC 5612).
const ROOT: &[u64] = &[1, 3, 6, 1, 4, 1, 32473, 3260];
/// Maximum length of a value in bytes, so that a trap is one datagram.
const MAX_VALUE_BYTES: usize = 200;

/// Sends the notice to one manager.
pub(crate) async fn send(manager: &SnmpManager, notice: &Notice, uptime_ms: u64) -> Result<(), SendError> {
    let community = manager.community.expose().ok_or(LOCKED)?;
    let host = manager.host.as_str();
    let address = resolve(host, manager.port).await.map_err(|error| SendError::Resolve(host.to_owned(), error))?;
    let trap = trap(community, notice, uptime_ms);
    let failed = |error| SendError::Send(crate::tls::place(host, manager.port), error);
    send_datagram(address, &trap).await.map_err(failed)
}

/// Returns the message.
fn trap(community: &str, notice: &Notice, uptime_ms: u64) -> Vec<u8> {
    // A trap has no answer, so the request id has no function.
    let request_id = (notice.at_ms & 0x7fff_ffff) as u32;
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u64(VERSION);
            writer.next().write_bytes(community.as_bytes());
            writer.next().write_tagged_implicit(Tag::context(TRAP), |writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_u32(request_id);
                    writer.next().write_u64(0);
                    writer.next().write_u64(0);
                    writer.next().write_sequence(|writer| bindings(writer, notice, uptime_ms));
                });
            });
        });
    })
}

/// Writes the variable bindings: the two that every trap begins with, and the alert.
fn bindings(list: &mut DERWriterSeq<'_>, notice: &Notice, uptime_ms: u64) {
    let alert = &notice.alert;
    let ticks = (uptime_ms / 10) as u32;
    bind(list, SYS_UP_TIME, |value| {
        value.write_tagged_implicit(Tag::application(TIME_TICKS), |value| value.write_u32(ticks));
    });
    let kind = match notice.event {
        Event::Opened | Event::Worsened => 1,
        Event::Closed => 2,
        Event::Test => 3,
    };
    bind(list, SNMP_TRAP_OID, |value| value.write_oid(&oid(&[0, kind])));
    let severity = match notice.severity() {
        Severity::Info => 1,
        Severity::Warning => 2,
        Severity::Critical => 3,
    };
    bind(list, &object(1), |value| value.write_bytes(notice.array.as_bytes()));
    bind(list, &object(2), |value| value.write_bytes(alert.id.as_bytes()));
    bind(list, &object(3), |value| value.write_u64(alert.code));
    bind(list, &object(4), |value| value.write_u64(severity));
    bind(list, &object(5), |value| value.write_bytes(shortened(&alert.component_name)));
    bind(list, &object(6), |value| value.write_bytes(shortened(&alert.summary)));
    bind(list, &object(7), |value| value.write_bytes(shortened(&alert.description)));
}

fn bind(list: &mut DERWriterSeq<'_>, name: &[u64], value: impl FnOnce(DERWriter<'_>)) {
    list.next().write_sequence(|binding| {
        binding.next().write_oid(&ObjectIdentifier::from_slice(name));
        value(binding.next());
    });
}

/// Returns the name of a scalar object of the array.
fn object(number: u64) -> Vec<u64> {
    [ROOT, &[1, number, 0]].concat()
}

fn oid(below: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::new([ROOT, below].concat())
}

fn shortened(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(MAX_VALUE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_has_the_bytes_of_rfc_3416() {
        let mut notice = Notice::test("a", "i", 5);
        notice.event = Event::Opened;
        notice.alert.severity = "critical".to_owned();
        notice.alert.code = 300;
        (notice.alert.summary, notice.alert.description) = ("s".to_owned(), String::new());
        let root = [0x2b, 6, 1, 4, 1, 0x81, 0xfd, 0x59, 0x99, 0x3c];
        let object = |number: u8, value: &[u8]| {
            let name = [&root[..], &[1, number, 0]].concat();
            let binding = [&[6, name.len() as u8][..], &name, value].concat();
            [&[0x30, binding.len() as u8][..], &binding].concat()
        };
        let trap_oid = [&root[..], &[0, 1]].concat();
        let bindings = [
            // sysUpTime.0 = 123 hundredths of a second.
            vec![0x30, 13, 6, 8, 0x2b, 6, 1, 2, 1, 1, 3, 0, 0x43, 1, 123],
            [&[0x30, 26, 6, 10, 0x2b, 6, 1, 6, 3, 1, 1, 4, 1, 0, 6, 12][..], &trap_oid].concat(),
            object(1, &[4, 1, b'a']),
            object(2, &[4, 1, b'0']),
            object(3, &[2, 2, 1, 44]),
            object(4, &[2, 1, 3]),
            object(5, &[4, 1, b'a']),
            object(6, &[4, 1, b's']),
            object(7, &[4, 0]),
        ]
        .concat();
        let list = [&[0x30, 0x81, bindings.len() as u8][..], &bindings].concat();
        let pdu = [&[2, 1, 5, 2, 1, 0, 2, 1, 0][..], &list].concat();
        let head = [2, 1, 1, 4, 6, b'p', b'u', b'b', b'l', b'i', b'c', 0xa7, 0x81, pdu.len() as u8];
        let body = [&head[..], &pdu].concat();
        let expected = [&[0x30, 0x81, body.len() as u8][..], &body].concat();
        assert_eq!(trap("public", &notice, 1_239), expected);
    }

    #[test]
    fn long_alert_fits_one_datagram() {
        let mut notice = Notice::test("a", "i", 5);
        (notice.alert.summary, notice.alert.description) = ("ö".repeat(5000), "d".repeat(5000));
        assert!(trap(&"c".repeat(255), &notice, u64::MAX).len() < 1400);
    }
}
