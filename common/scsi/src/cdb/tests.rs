use super::*;
use crate::persistent_reservation::{OutAction, ReservationType};
use crate::sense::Specific;
use proptest::prelude::*;
use types::Lba;

/// Returns the CDB that starts with `start`, padded with zeros.
fn cdb(start: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..start.len()].copy_from_slice(start);
    bytes
}

/// Returns the smallest CDB of a definition: code, service action, and zeros.
fn minimal(definition: &CommandDefinition) -> [u8; 16] {
    cdb(&[definition.opcode, definition.service_action.unwrap_or(0)])
}

fn transfer(size: CdbSize, lba: u64, blocks: u32) -> Transfer {
    Transfer { size, lba: Lba(lba), blocks, dpo: false, fua: false }
}

#[test]
fn golden_reads_and_writes() {
    let cases: [(&[u8], Command); 10] = [
        (&[0x08, 0x1f, 0xff, 0xff, 0x00], Command::Read(transfer(CdbSize::Six, 0x1f_ffff, 256))),
        (&[0x0a, 0, 0, 5, 8], Command::Write(transfer(CdbSize::Six, 5, 8))),
        (&[0x28, 0, 1, 2, 3, 4, 0, 0x10, 0x20, 0], Command::Read(transfer(CdbSize::Ten, 0x0102_0304, 0x1020))),
        (
            &[0x2a, 0x18, 0, 0, 0, 9, 0, 0, 0, 0],
            Command::Write(Transfer { dpo: true, fua: true, ..transfer(CdbSize::Ten, 9, 0) }),
        ),
        (&[0xa8, 0, 0, 0, 0, 1, 0, 1, 0, 0], Command::Read(transfer(CdbSize::Twelve, 1, 0x1_0000))),
        (
            &[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 0],
            Command::Read(transfer(CdbSize::Sixteen, 0x0102_0304_0506_0708, 256)),
        ),
        (
            &[0x89, 0x08, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 255],
            Command::CompareAndWrite { lba: Lba(7), blocks: 255, dpo: false, fua: true },
        ),
        (
            &[0x9c, 0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0x01, 0x02],
            Command::WriteAtomic { lba: Lba(7), blocks: 0x0102, dpo: true, fua: false },
        ),
        (
            &[0x37, 0, 0x1d, 0, 0, 0, 0, 0x01, 0x02],
            Command::ReadDefectData { size: CdbSize::Ten, lists: 0x1d, allocation: 0x0102 },
        ),
        (
            &[0xb7, 0x0d, 0, 0, 0, 0, 0, 1, 0, 0],
            Command::ReadDefectData { size: CdbSize::Twelve, lists: 0x0d, allocation: 0x1_0000 },
        ),
    ];
    for (bytes, command) in cases {
        assert_eq!(Cdb::parse(&cdb(bytes)), Ok(command));
        assert_eq!(command.to_cdb().0, cdb(bytes));
    }
}

#[test]
fn flags_of_older_standards_are_ignored() {
    let plain = Cdb::parse(&cdb(&[0x28, 0, 0, 0, 0, 1, 0, 0, 1]));
    for (byte, bits) in [(1, 0x02), (1, 0x04), (6, 0x3f)] {
        let mut bytes = cdb(&[0x28, 0, 0, 0, 0, 1, 0, 0, 1]);
        bytes[byte] |= bits;
        assert_eq!(Cdb::parse(&bytes), plain, "byte {byte} bits {bits:#04x}");
    }
}

#[test]
fn unknown_opcodes_and_service_actions_are_refused() {
    for opcode in [0xff, 0x48, 0x9d, 0x7f, 0xc0] {
        let sense = Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE).at_cdb(0, None);
        assert_eq!(Cdb::parse(&cdb(&[opcode])), Err(sense), "{opcode:#04x}");
    }
    for bytes in [[0x9e, 0x11], [0xa3, 0x05], [0x83, 0x01], [0x5e, 0x04], [0x5f, 0x08], [0x84, 0x02]] {
        assert_eq!(Cdb::parse(&cdb(&bytes)), Err(Sense::invalid_cdb_field(1, Some(4))), "{bytes:02x?}");
    }
}

#[test]
fn unsupported_features_are_refused_with_a_pointer() {
    let cases: [(&[u8], u16, Option<u8>); 15] = [
        (&[0x28, 0x20], 1, Some(5)),                             // RDPROTECT 001b
        (&[0x2a, 0xe0], 1, Some(7)),                             // WRPROTECT 111b
        (&[0x8f, 0x80], 1, Some(7)),                             // VRPROTECT 100b
        (&[0x00, 0, 0, 0, 0, 0x04], 5, Some(2)),                 // NACA
        (&[0x93, 0x10], 1, Some(4)),                             // ANCHOR
        (&[0x42, 0x01], 1, Some(0)),                             // ANCHOR
        (&[0x15, 0x11], 1, Some(0)),                             // SP
        (&[0x12, 0x00, 0x80], 2, None),                          // PAGE CODE without EVPD
        (&[0x2f, 0x04], 1, Some(2)),                             // BYTCHK 10b
        (&[0x2e, 0x06], 1, Some(2)),                             // BYTCHK 11b of WRITE AND VERIFY
        (&[0x9c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8], 11, Some(3)), // ATOMIC BOUNDARY
        (&[0xa0, 0, 0x03], 2, None),                             // SELECT REPORT
        (&[0xa3, 0x0c, 0x04], 2, Some(2)),                       // REPORTING OPTIONS
        (&[0x5f, 0x01, 0x10], 2, Some(7)),                       // SCOPE of an extent
        (&[0x5f, 0x01, 0x02], 2, Some(3)),                       // TYPE read shared
    ];
    for (bytes, byte, bit) in cases {
        assert_eq!(Cdb::parse(&cdb(bytes)), Err(Sense::invalid_cdb_field(byte, bit)), "{bytes:02x?}");
    }
}

#[test]
fn refusals_point_at_every_reserved_bit() {
    for definition in COMMANDS {
        for byte in 1..definition.cdb_length() {
            for bit in (0..8).filter(|bit| definition.usage[byte] & (1 << bit) == 0) {
                let mut bytes = minimal(definition);
                bytes[byte] |= 1 << bit;
                let sense = Sense::invalid_cdb_field(u16::try_from(byte).unwrap(), Some(bit));
                assert_eq!(Cdb::parse(&bytes), Err(sense), "{} byte {byte} bit {bit}", definition.name);
            }
        }
        let mut padded = minimal(definition);
        padded[definition.cdb_length()..].fill(0xff);
        assert_eq!(Cdb::parse(&padded), Cdb::parse(&minimal(definition)), "{}", definition.name);
    }
}

#[test]
fn table_is_sorted_and_lengths_match_group_codes() {
    for pair in COMMANDS.windows(2) {
        let key = |d: &CommandDefinition| (d.opcode, d.service_action);
        assert!(key(&pair[0]) < key(&pair[1]), "{} before {}", pair[0].name, pair[1].name);
        let mixed = pair[0].opcode == pair[1].opcode && pair[0].service_action.is_none();
        assert!(!mixed, "{} has definitions with and without service actions", pair[0].name);
    }
    for definition in COMMANDS {
        // SPC-4 table 20: the top three bits of the code determine the length.
        let length = match definition.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            5 => 12,
            group => panic!("{} is in group {group}", definition.name),
        };
        assert_eq!(definition.cdb_length(), length, "{}", definition.name);
        assert_eq!(Cdb(minimal(definition)).name(), Some(definition.name));
        assert!(definition.timeouts.nominal > 0 && definition.timeouts.recommended > definition.timeouts.nominal);
    }
}

#[test]
fn data_phases() {
    let cases: [(&[u8], DataPhase); 11] = [
        (&[0x00], DataPhase::None),
        (&[0x28, 0, 0, 0, 0, 0, 0, 0, 8], DataPhase::In(4096)),
        (&[0x28], DataPhase::None),
        (&[0x08], DataPhase::In(256 * 512)),
        (&[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], DataPhase::Out(2048)),
        (&[0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], DataPhase::Out(512)),
        (&[0x93, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], DataPhase::None),
        (&[0x2f, 0x00, 0, 0, 0, 0, 0, 0, 4], DataPhase::None),
        (&[0x2f, 0x02, 0, 0, 0, 0, 0, 0, 4], DataPhase::Out(2048)),
        (&[0x2f, 0x06, 0, 0, 0, 0, 0, 0, 4], DataPhase::Out(512)),
        (&[0x25], DataPhase::In(8)),
    ];
    for (bytes, phase) in cases {
        assert_eq!(Cdb::parse(&cdb(bytes)).map(|command| command.data_phase()), Ok(phase), "{bytes:02x?}");
    }
}

#[test]
fn scope_and_type_are_ignored_where_not_applicable() {
    let register = Cdb::parse(&cdb(&[0x5f, 0x00, 0xff, 0, 0, 0, 0, 0, 24]));
    assert_eq!(register, Ok(Command::PersistentReserveOut { action: OutAction::Register, kind: None, length: 24 }));
    let reserve = Cdb::parse(&cdb(&[0x5f, 0x01, 0x05, 0, 0, 0, 0, 0, 24]));
    let kind = Some(ReservationType::WriteExclusiveRegistrantsOnly);
    assert_eq!(reserve, Ok(Command::PersistentReserveOut { action: OutAction::Reserve, kind, length: 24 }));
}

#[test]
fn cdb_size_follows_the_range() {
    assert_eq!(CdbSize::for_range(Lba(0xffff_ffff), 0xffff), CdbSize::Ten);
    assert_eq!(CdbSize::for_range(Lba(0x1_0000_0000), 1), CdbSize::Sixteen);
    assert_eq!(CdbSize::for_range(Lba(0), 0x1_0000), CdbSize::Sixteen);
}

/// Generates CDBs of known commands with only allowed bits set, so that most of them parse.
fn any_allowed_cdb() -> impl Strategy<Value = [u8; 16]> {
    (0..COMMANDS.len(), any::<[u8; 16]>()).prop_map(|(place, mut bytes)| {
        let definition = &COMMANDS[place];
        for (byte, mask) in bytes.iter_mut().zip(definition.usage) {
            *byte &= mask;
        }
        bytes[0] = definition.opcode;
        if let Some(action) = definition.service_action {
            bytes[1] = (bytes[1] & 0xe0) | action;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn commands_round_trip_through_cdbs(bytes in any_allowed_cdb()) {
        if let Ok(command) = Cdb::parse(&bytes) {
            let built = command.to_cdb();
            prop_assert_eq!(built.0[0], bytes[0]);
            prop_assert_eq!(Cdb::parse(&built.0), Ok(command));
        }
    }

    #[test]
    fn arbitrary_cdbs_parse_or_return_a_pointer(bytes in any::<[u8; 16]>()) {
        match Cdb::parse(&bytes) {
            Ok(command) => prop_assert_eq!(command.to_cdb().opcode(), bytes[0]),
            Err(sense) => {
                let in_cdb = matches!(sense.specific, Some(Specific::Field { in_cdb: true, byte: 0..16, .. }));
                prop_assert!(in_cdb, "{}", sense);
            }
        }
    }
}
