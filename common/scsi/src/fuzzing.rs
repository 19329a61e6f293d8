//! Functions of the fuzz targets, and a short seeded run of each for `cargo test`.
//!
//! Each function accepts any bytes. It fails only if a parser panics or violates an invariant:
//! commands round-trip through their CDBs, refusals point into their input, and reservations stay
//! consistent.

use crate::be::to_u8;
use crate::capacity::Capacity;
use crate::cdb::{Cdb, CdbSize, Command, PageControl};
use crate::copy::{CopyStatus, OperatingParameters, build_copy_list, parse_copy_list};
use crate::inquiry::parse_designators;
use crate::lba_status::parse_lba_status;
use crate::log::{Resources, log_sense};
use crate::lun::parse_report_luns;
use crate::mode::{ModeSettings, ModeState, find_page, mode_select, mode_sense};
use crate::persistent_reservation::{NexusId, Reservations, parse_keys, parse_reservation};
use crate::port_groups::{parse_port_groups, parse_set_port_groups};
use crate::provisioning::Thresholds;
use crate::sense::{Sense, SenseFormat, Specific};
use crate::unmap::{build_unmap, parse_unmap};

/// Checks that a refusal points inside the refused input.
fn check_pointer(sense: Sense, in_cdb_expected: bool, length: usize) {
    if let Some(Specific::Field { in_cdb, byte, bit }) = sense.specific {
        assert_eq!(in_cdb, in_cdb_expected, "{sense}");
        assert!(usize::from(byte) < length && bit.is_none_or(|bit| bit < 8), "{sense} of {length} bytes");
    }
}

/// Fuzzes CDBs of 16 bytes each.
pub fn fuzz_cdb(data: &[u8]) {
    for bytes in data.as_chunks::<16>().0 {
        match Cdb::parse(bytes) {
            Ok(command) => {
                assert_eq!(Cdb::parse(&command.to_cdb().0), Ok(command), "{:?}", Cdb(*bytes));
                let _ = command.data_phase();
                answer(&command);
            }
            Err(sense) => {
                assert!(sense.specific.is_some(), "{sense} without a pointer for {:?}", Cdb(*bytes));
                check_pointer(sense, true, 16);
            }
        }
    }
}

/// Builds the parameter data that does not need a volume.
fn answer(command: &Command) {
    match command {
        Command::ReportOpcodes(request) => {
            let _ = crate::supported_opcodes_data(request, &[]);
        }
        Command::ModeSense(request) => match mode_sense(&mode_state(), request) {
            Ok(data) => {
                // MODE SELECT must accept the current values.
                if request.control == PageControl::Current {
                    assert_eq!(mode_select(&mode_state(), request.size, true, &data), Ok(mode_state().current));
                }
            }
            Err(sense) => check_pointer(sense, true, 16),
        },
        Command::LogSense(request) => {
            if let Err(sense) = log_sense(&Resources { available: 1, used: 2 }, request) {
                check_pointer(sense, true, 16);
            }
        }
        _ => {}
    }
}

fn mode_state() -> ModeState {
    let settings = ModeSettings { write_cache: true, ..ModeSettings::default() };
    ModeState {
        current: settings,
        default: settings,
        write_cache_changeable: true,
        read_only: false,
        blocks: 1 << 21,
        thresholds: Thresholds { available: Some(7), used: Some(9) },
    }
}

/// Fuzzes parameter lists that hosts send; the first byte selects which.
pub fn fuzz_parameter_list(data: &[u8]) {
    let Some((choice, list)) = data.split_first() else { return };
    match choice % 5 {
        0 => match parse_unmap(list) {
            Ok(ranges) => assert_eq!(parse_unmap(&build_unmap(&ranges)), Ok(ranges)),
            Err(sense) => check_pointer(sense, false, list.len()),
        },
        1 => match parse_copy_list(list) {
            Ok(copy) => assert_eq!(parse_copy_list(&build_copy_list(&copy)), Ok(copy)),
            Err(sense) => check_pointer(sense, false, list.len()),
        },
        2 | 3 => {
            let size = if choice % 5 == 2 { CdbSize::Six } else { CdbSize::Ten };
            if let Err(sense) = mode_select(&mode_state(), size, true, list) {
                check_pointer(sense, false, list.len());
            }
        }
        _ => {
            if let Err(sense) = parse_set_port_groups(list) {
                check_pointer(sense, false, list.len());
            }
        }
    }
}

/// Fuzzes a sequence of PERSISTENT RESERVE OUT commands: nexus, action, type and list length, then
/// the list.
pub fn fuzz_reservations(data: &[u8]) {
    let mut unit = Reservations::default();
    let mut rest = data;
    while let [nexus, action, kind, length, ..] = *rest {
        let (list, next) = rest[4..].split_at(usize::from(length).min(rest.len() - 4));
        rest = next;
        let nexus = NexusId::new("iqn.2026-11.test:fuzz", [nexus % 4; 6], 1);
        let cdb = [0x5f, action % 8, kind, 0, 0, 0, 0, 0, to_u8(list.len()), 0, 0, 0, 0, 0, 0, 0];
        let Ok(Command::PersistentReserveOut { action, kind, .. }) = Cdb::parse(&cdb) else { continue };
        let before = unit.clone();
        if unit.apply(&nexus, action, kind, list, &[1, 2]).is_err() {
            assert_eq!(unit, before, "a refused action changed the state");
        }
        assert_eq!(Reservations::from_image(&unit.to_image()).as_ref(), Ok(&unit), "after {action:?}");
    }
    let _ = Reservations::from_image(data);
}

/// Fuzzes parameter data and sense data that a target could send to the initiator.
pub fn fuzz_parameter_data(data: &[u8]) {
    if let Ok(sense) = Sense::from_bytes(data) {
        let again = Sense::from_bytes(&sense.to_bytes(SenseFormat::Descriptor));
        assert_eq!(again, Ok(sense));
    }
    let _ = Capacity::from_bytes_10(data);
    let _ = Capacity::from_bytes_16(data).and_then(|capacity| capacity.bytes());
    let _ = parse_designators(data);
    let _ = parse_lba_status(data);
    let _ = parse_report_luns(data);
    let _ = parse_port_groups(data);
    let _ = (parse_keys(data), parse_reservation(data));
    let _ = (OperatingParameters::from_bytes(data), CopyStatus::from_bytes(data));
    let _ = (find_page(data, CdbSize::Six, 0x08), find_page(data, CdbSize::Ten, 0x08));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdb::COMMANDS;
    use crate::copy::{CopyList, segments_of};
    use crate::inquiry::Naa;
    use testing::Rng;
    use types::{BlockRange, Lba};

    /// Random bytes from a seed, so that a failure can be reproduced.
    struct Bytes(Rng);

    impl Bytes {
        fn new(seed: u64) -> Self {
            Self(Rng::new(seed))
        }

        fn byte(&mut self) -> u8 {
            self.0.next_u64().to_be_bytes()[7]
        }

        fn below(&mut self, limit: usize) -> usize {
            self.0.index(limit)
        }

        fn fill(&mut self, length: usize) -> Vec<u8> {
            let mut bytes = vec![0; length];
            self.0.fill(&mut bytes);
            bytes
        }

        /// Returns `seed` with up to three bytes changed, sometimes truncated.
        fn damage(&mut self, seed: &[u8]) -> Vec<u8> {
            let mut bytes = seed.to_vec();
            for _ in 0..self.below(4) {
                let at = self.below(bytes.len());
                bytes[at] = self.byte();
            }
            if self.below(4) == 0 {
                bytes.truncate(self.below(bytes.len() + 1));
            }
            bytes
        }
    }

    const ROUNDS: usize = 20_000;

    #[test]
    fn random_cdbs_keep_the_invariants() {
        let mut random = Bytes::new(1);
        for _ in 0..ROUNDS {
            let definition = &COMMANDS[random.below(COMMANDS.len())];
            let mut bytes = random.fill(16);
            for (byte, mask) in bytes.iter_mut().zip(definition.usage) {
                *byte &= mask;
            }
            bytes[0] = definition.opcode;
            fuzz_cdb(&bytes);
            fuzz_cdb(&random.damage(&bytes));
            fuzz_cdb(&random.fill(32));
        }
    }

    #[test]
    fn random_parameter_lists_keep_the_invariants() {
        let mut random = Bytes::new(2);
        let ranges: Vec<_> = (1..5).map(|n| BlockRange::new(Lba(n << 20), n).unwrap()).collect();
        let copy = CopyList::between(Naa([1; 16]), Naa([2; 16]), segments_of(Lba(0), Lba(9), 200_000));
        let control = [0, 0, 0, 0, 0x0a, 0x0a, 0x02, 0x10, 0, 0, 0, 0, 0, 0, 0, 0];
        let seeds = [
            [vec![0], build_unmap(&ranges)].concat(),
            [vec![1], build_copy_list(&copy)].concat(),
            [vec![2], control.to_vec()].concat(),
            [vec![3, 0, 0, 0, 0], control.to_vec()].concat(),
            vec![4, 0, 0, 0, 0, 1, 0, 0, 1],
        ];
        for round in 0..ROUNDS {
            fuzz_parameter_list(&random.damage(&seeds[round % seeds.len()]));
            let length = random.below(120);
            fuzz_parameter_list(&random.fill(length));
        }
    }

    #[test]
    fn random_reservations_keep_the_invariants() {
        let mut random = Bytes::new(3);
        for _ in 0..ROUNDS / 40 {
            let mut row = Vec::new();
            for _ in 0..40 {
                let (from, action) = (random.byte(), random.byte());
                row.extend([from, action, 1 + to_u8(random.below(8)), 24]);
                let mut list = vec![0; 24];
                list[7] = to_u8(random.below(3));
                list[15] = to_u8(random.below(3));
                row.extend(list);
            }
            fuzz_reservations(&row);
            fuzz_reservations(&random.damage(&row));
        }
    }

    #[test]
    fn random_parameter_data_keeps_the_invariants() {
        let mut random = Bytes::new(4);
        let seeds = [
            Sense::lba_out_of_range(5).at_cdb(2, None).to_bytes(SenseFormat::Descriptor),
            Sense::miscompare(5).to_bytes(SenseFormat::Fixed),
            OperatingParameters::ours().to_bytes(),
            Capacity::of_volume(1 << 40).to_bytes_16().to_vec(),
        ];
        for round in 0..ROUNDS {
            fuzz_parameter_data(&random.damage(&seeds[round % seeds.len()]));
            let length = random.below(120);
            fuzz_parameter_data(&random.fill(length));
        }
    }
}
