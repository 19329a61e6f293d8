use super::*;

const A: [u8; SECTOR] = [0xAA; SECTOR];
const B: [u8; SECTOR] = [0xBB; SECTOR];

fn read(disk: &SimDisk, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    disk.read_at(offset, &mut buffer).unwrap();
    buffer
}

/// Returns the distinct first bytes that a sector holds after many crashes.
fn after_crash(prepare: impl Fn(&SimDisk)) -> Vec<u8> {
    let mut seen: Vec<u8> = (0..200)
        .map(|seed| {
            let disk = SimDisk::new(1 << 20, seed);
            disk.write_at(0, &[&[0; 4096]], Durability::Durable).unwrap();
            prepare(&disk);
            disk.crash();
            read(&disk, 0, SECTOR)[0]
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn write_is_readable_at_once_and_stable_after_flush() {
    assert_eq!(
        after_crash(|disk| {
            disk.write_at(0, &[&A, &B], Durability::Volatile).unwrap();
            assert_eq!(read(disk, 0, 1024), [A, B].concat());
            disk.flush().unwrap();
        }),
        [0xAA]
    );
}

#[test]
fn unflushed_sector_keeps_any_version() {
    assert_eq!(
        after_crash(|disk| {
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            disk.write_at(0, &[&B], Durability::Volatile).unwrap();
        }),
        [0, 0xAA, 0xBB]
    );
}

#[test]
fn durable_write_stabilises_only_itself() {
    let whole = [0xCC; 4096];
    assert_eq!(
        after_crash(|disk| {
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            disk.write_at(0, &[&whole], Durability::Durable).unwrap();
        }),
        [0xCC]
    );
    assert_eq!(
        after_crash(|disk| {
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            disk.write_at(8192, &[&whole], Durability::Durable).unwrap();
        }),
        [0, 0xAA]
    );
}

#[test]
fn unfinished_durable_write_may_be_lost() {
    assert_eq!(after_crash(|disk| drop(disk.start_write(0, &[&[0xCC; 4096]], Durability::Durable))), [0, 0xCC]);
}

#[test]
fn flush_covers_only_writes_that_ended_before_it() {
    assert_eq!(
        after_crash(|disk| {
            let flush = disk.start_flush();
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            disk.finish_flush(&flush).unwrap();
        }),
        [0, 0xAA]
    );
    assert_eq!(
        after_crash(|disk| {
            let id = disk.start_write(0, &[&A], Durability::Volatile).unwrap();
            disk.flush().unwrap();
            disk.finish_write(id);
        }),
        [0, 0xAA]
    );
}

#[test]
fn flushed_sector_keeps_no_older_version() {
    assert_eq!(
        after_crash(|disk| {
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            let old = disk.start_flush();
            disk.write_at(0, &[&B], Durability::Volatile).unwrap();
            disk.flush().unwrap();
            disk.finish_flush(&old).unwrap();
        }),
        [0xBB]
    );
}

#[test]
fn crash_tears_writes_between_sectors() {
    let torn = (0..200).any(|seed| {
        let disk = SimDisk::new(1 << 20, seed);
        disk.write_at(0, &[&[0; 8192]], Durability::Durable).unwrap();
        disk.write_at(0, &[&[0xAA; 8192]], Durability::Volatile).unwrap();
        disk.crash();
        let left = read(&disk, 0, 8192);
        assert!(left.chunks(SECTOR).all(|sector| sector == [0; SECTOR] || sector == A));
        left.contains(&0) && left.contains(&0xAA)
    });
    assert!(torn);
}

#[test]
fn later_flush_does_not_save_writes_of_a_failed_one() {
    assert_eq!(
        after_crash(|disk| {
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            disk.arm(Faults { error_at: Some(1), ..Faults::default() });
            assert!(disk.flush().is_err());
            disk.flush().unwrap();
        }),
        [0, 0xAA]
    );
}

#[test]
fn drive_stops_at_the_armed_access() {
    let disk = SimDisk::new(1 << 20, 1);
    disk.arm(Faults { crash_at: Some(3), ..Faults::default() });
    disk.write_at(0, &[&A], Durability::Volatile).unwrap();
    disk.flush().unwrap();
    assert!(disk.flush().is_err());
    assert!(disk.is_crashed());
    assert!(disk.read_at(0, &mut [0; 1]).is_err() && disk.write_at(0, &[&A], Durability::Volatile).is_err());
    disk.crash();
    assert_eq!(read(&disk, 0, SECTOR), A);
    assert!(!disk.is_crashed());
}

#[test]
fn ignored_flushes_lose_data() {
    let bug = |bug| Faults { bug: Some(bug), ..Faults::default() };
    assert_eq!(
        after_crash(|disk| {
            disk.arm(bug(DriveBug::Flush));
            disk.write_at(0, &[&A], Durability::Volatile).unwrap();
            disk.flush().unwrap();
        }),
        [0, 0xAA]
    );
    assert_eq!(
        after_crash(|disk| {
            disk.arm(bug(DriveBug::Durable { from: 0, to: 4096 }));
            disk.write_at(0, &[&[0xCC; 4096]], Durability::Durable).unwrap();
        }),
        [0, 0xCC]
    );
}

#[test]
fn full_file_system_refuses_writes() {
    let disk = SimDisk::new(1 << 20, 1);
    disk.arm(Faults { space: Some(16384), ..Faults::default() });
    disk.allocate(0, 8192).unwrap();
    disk.write_at(0, &[&A], Durability::Volatile).unwrap();
    assert_eq!(disk.allocate(65536, 12288), Err(DiskError::Full));
    disk.allocate(65536, 8192).unwrap();
    assert_eq!(disk.write_at(32768, &[&A], Durability::Volatile), Err(DiskError::Full));
}

#[test]
fn misuse_of_the_drive_is_recorded() {
    for offend in [
        |disk: &SimDisk| drop(disk.write_at(512, &[&[0; 4096]], Durability::Durable)),
        |disk: &SimDisk| drop(disk.read_at(1 << 20, &mut [0; 1])),
        |disk: &SimDisk| {
            drop(disk.start_write(0, &[&[0; 4096]], Durability::Volatile));
            drop(disk.start_write(2048, &[&[0; 4096]], Durability::Volatile));
        },
    ] {
        let disk = SimDisk::new(1 << 20, 1);
        assert_eq!(disk.violation(), None);
        offend(&disk);
        assert!(disk.violation().is_some());
    }
}

#[test]
fn injected_read_errors_and_bad_data_are_returned() {
    let disk = SimDisk::new(1 << 20, 1);
    disk.write_at(0, &[&[0xAA; 4096]], Durability::Durable).unwrap();
    disk.arm(Faults { bad: vec![(1000, 1001)], rotten: vec![(1, 2)], ..Faults::default() });
    assert_eq!(read(&disk, 0, 4), [0xAA, 0xBA, 0xAA, 0xAA]);
    assert!(disk.read_at(600, &mut [0; 500]).is_err() && disk.read_at(1001, &mut [0; 500]).is_ok());
    disk.crash();
    assert!(disk.read_at(600, &mut [0; 500]).is_ok());
}

#[test]
fn process_crash_keeps_writes_in_the_cache() {
    assert_eq!(
        after_crash(|disk| {
            let id = disk.start_write(0, &[&A], Durability::Volatile).unwrap();
            disk.kill_process();
            assert_eq!(read(disk, 0, SECTOR), A);
            disk.finish_write(id);
        }),
        [0, 0xAA],
        "a power failure may still lose the write"
    );
    assert_eq!(
        after_crash(|disk| {
            drop(disk.start_write(0, &[&A], Durability::Volatile));
            disk.kill_process();
            disk.flush().unwrap();
        }),
        [0xAA],
        "the flush of the next process covers it"
    );
}

#[test]
fn units_of_4096_bytes_are_never_torn() {
    let mut seen: Vec<(u8, u8)> = (0..200)
        .map(|seed| {
            let disk = SimDisk::new(1 << 20, seed);
            disk.set_unit(4096);
            disk.write_at(0, &[&[0; 4096]], Durability::Durable).unwrap();
            disk.write_at(0, &[&[0xAA; 4096]], Durability::Volatile).unwrap();
            disk.write_at(0, &[&[0xAA; 512], &[0xBB; 3584]], Durability::Volatile).unwrap();
            disk.crash();
            let left = read(&disk, 0, 4096);
            (left[0], left[4095])
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [(0, 0), (0xAA, 0xAA), (0xAA, 0xBB)]);
}

#[test]
fn power_failure_destroys_a_unit_written_in_part() {
    for (unit, is_lost) in [(512, false), (4096, true)] {
        let disk = SimDisk::new(1 << 20, 1);
        disk.set_unit(unit);
        disk.write_at(0, &[&[0xAA; 8192]], Durability::Durable).unwrap();
        disk.write_at(512, &[&B], Durability::Volatile).unwrap();
        disk.crash();
        assert_eq!(disk.read_at(3584, &mut [0; 512]).is_err(), is_lost, "the same block of {unit} bytes");
        assert_eq!(read(&disk, 4096, 512), [0xAA; 512], "the next block");
    }
}

#[test]
fn failed_write_stores_only_its_first_sectors() {
    let mut lengths: Vec<usize> = (0..100)
        .map(|seed| {
            let disk = SimDisk::new(1 << 20, seed);
            disk.write_at(0, &[&[0; 4096]], Durability::Durable).unwrap();
            disk.arm(Faults { error_at: Some(1), ..Faults::default() });
            assert!(disk.write_at(0, &[&[0xAA; 4096]], Durability::Durable).is_err());
            let left = read(&disk, 0, 4096);
            let length = left.iter().take_while(|byte| **byte == 0xAA).count();
            assert!(left[length..].iter().all(|byte| *byte == 0));
            length / SECTOR
        })
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn damage_survives_crashes_until_it_is_overwritten() {
    for kind in [DamageKind::Rot, DamageKind::BadSectors] {
        let disk = SimDisk::new(1 << 20, 1);
        disk.write_at(0, &[&[0; 8192]], Durability::Durable).unwrap();
        disk.damage((600, 601), kind);
        disk.crash();
        disk.kill_process();
        let mut sector = [0; SECTOR];
        let is_intact = disk.read_at(512, &mut sector).is_ok() && sector == [0; SECTOR];
        assert!(!is_intact, "{kind:?}");
        assert!(disk.read_at(0, &mut sector).is_ok() && sector == [0; SECTOR], "{kind:?}");
        disk.write_at(512, &[&A], Durability::Volatile).unwrap();
        assert_eq!(read(&disk, 512, SECTOR), A, "{kind:?}");
    }
}

#[test]
fn damage_also_hits_writes_in_the_cache() {
    let disk = SimDisk::new(1 << 20, 1);
    disk.write_at(0, &[&A], Durability::Volatile).unwrap();
    disk.damage((0, 1), DamageKind::Rot);
    disk.flush().unwrap();
    disk.crash();
    assert_ne!(read(&disk, 0, SECTOR), A);
}
