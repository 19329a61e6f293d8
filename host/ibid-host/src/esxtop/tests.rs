use super::*;
use multipath::{CountersSnapshot, OffloadCount};
use std::time::Instant;

const NAA: &str = "naa.624a9370753d69fe46db318d00011014";

/// Returns the row of a device with activity in every counter during five seconds.
pub(super) fn rows() -> Vec<super::sample::Row> {
    let offload = |done, failed, bytes: u64| OffloadCount {
        done,
        failed,
        bytes,
        done_ns: done * 2_000_000,
        failed_ns: failed * 500_000,
    };
    let before = CountersSnapshot { reads: 100, ats: offload(1000, 6, 0), ..CountersSnapshot::default() };
    let now = CountersSnapshot {
        reads: 600,
        writes: 1000,
        read_bytes: 500 * 4096,
        write_bytes: 50 << 20,
        read_ns: 500 * 1_000_000,
        write_ns: 1000 * 1_600_000,
        read_queue_ns: 0,
        write_queue_ns: 1000 * 150_000,
        errors: 5,
        ats: offload(1010, 8, 5120),
        clone_read: offload(64, 1, 1 << 30),
        clone_write: offload(60, 0, 960 << 20),
        zero: offload(532, 0, 532 << 20),
        delete: offload(7, 2, 700 << 20),
        reservations: 10,
        conflicts: 20,
        aborts: 0,
        active: 32,
        queued: 96,
    };
    let device = device_record();
    let name = device.name.clone();
    let at = clock::now();
    let sample = |at: Instant, counters| Sample::of(at, [(name.clone(), counters)].into());
    let (first, second) = (sample(at, before), sample(at + Duration::from_secs(5), now));
    second.rows(&first, &[device], 3)
}

fn device_record() -> esxi_host::DeviceRecord {
    crate::esx::example_device(NAA)
}

fn cells(selection: &Selection) -> Vec<(&'static str, String)> {
    let rows = rows();
    selection.columns().map(|column| (column.heading, column.bare(&rows[0]))).collect()
}

#[test]
fn vaai_columns_show_their_counters() {
    let mut selection = Selection::default();
    assert!(selection.toggle('o') && selection.toggle('p'));
    let cells = cells(&selection);
    for (heading, value) in [
        ("CLONE_RD", "64"),
        ("CLONE_WR", "60"),
        ("CLONE_F", "1"),
        ("MBC_RD/s", "204.80"),
        ("MBC_WR/s", "192.00"),
        ("ATS", "1010"),
        ("ATSF", "8"),
        ("ZERO", "532"),
        ("ZERO_F", "0"),
        ("MBZERO/s", "106.40"),
        ("DELETE", "7"),
        ("DELETE_F", "2"),
        ("MBDEL/s", "140.00"),
        ("CAVG/suc", "2.00"),
        ("CAVG/f", "0.50"),
        ("AAVG/suc", "2.00"),
        ("AAVG/f", "0.50"),
        ("AVG/suc", "2.00"),
        ("ZAVG/f", "0.00"),
    ] {
        assert!(cells.contains(&(heading, value.to_owned())), "{heading} {value} in {cells:?}");
    }
}

#[test]
fn rates_are_per_second_and_latencies_add_up() {
    let cells = cells(&Selection::all());
    for (heading, value) in [
        ("ACTV", "32"),
        ("QUED", "96"),
        ("%USD", "25.00"),
        ("LOAD", "1.00"),
        ("CMDS/s", "423.60"),
        ("READS/s", "100.00"),
        ("WRITES/s", "200.00"),
        ("MBWRTN/s", "10.00"),
        ("RESV/s", "2.00"),
        ("CONS/s", "4.00"),
        ("FCMDS/s", "1.00"),
        ("GAVG/cmd", "1.40"),
        ("KAVG/cmd", "0.10"),
        ("DAVG/cmd", "1.30"),
        ("GAVG/rd", "1.00"),
        ("DAVG/wr", "1.45"),
        ("NPTH", "4"),
        ("NWD", "3"),
    ] {
        assert!(cells.contains(&(heading, value.to_owned())), "{heading} {value} in {cells:?}");
    }
}

#[test]
fn csv_lines_match_the_header() {
    let capture = Capture::new("esx01", vec![NAA.to_owned(), "naa.2".to_owned()], &Selection::default());
    let header = capture.header();
    let line = capture.line("11/22/2026 00:30:05", &CaptureRows { devices: rows(), ..CaptureRows::default() });
    assert!(header.starts_with(&format!(
        "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\esx01\\Physical Disk SCSI Device({NAA})\\Device Q Depth\","
    )));
    let counters: Vec<&str> = header.trim_end().split(',').collect();
    let cells: Vec<&str> = line.trim_end().split(',').collect();
    assert_eq!((counters.len(), cells.len(), counters.len() % 2), (29, 29, 1));
    let commands = counters.iter().position(|counter| counter.ends_with(&format!("({NAA})\\Commands/sec\""))).unwrap();
    assert_eq!((cells[0], cells[commands]), ("\"11/22/2026 00:30:05\"", "\"423.60\""));
    assert!(cells[15..].iter().all(|cell| ["\"0\"", "\"0.00\""].contains(cell)), "{line}");
}

#[test]
fn csv_has_virtual_disks_and_sessions() {
    let names = |name: &str| vec![name.to_owned()];
    let capture = Capture::new("esx01", Vec::new(), &Selection::default());
    let capture = capture.with(names("web01:scsi0:0"), names("vmhba64:C0:T0:L1"));
    let disks = vec![sample::Row { device: "web01:scsi0:0".to_owned(), ..rows().remove(0) }];
    let path = |name: &str, delta| sample::PathRow { name: name.to_owned(), delta, seconds: 5.0, ..Default::default() };
    let paths = vec![path("vmhba64:C0:T0:L1", disks[0].delta), path("vmhba65:C0:T0:L1", disks[0].delta)];
    let line = capture.line("11/22/2026 00:30:05", &CaptureRows { disks, paths, ..CaptureRows::default() });
    let header = capture.header();
    let cells: Vec<_> = header.trim_end().split(',').zip(line.trim_end().split(',')).collect();
    for (counter, value) in [
        (r"Virtual Disk(web01:scsi0:0)\Reads/sec", "100.00"),
        (r"Virtual Disk(web01:scsi0:0)\MBytes Written/sec", "10.00"),
        (r"Virtual Disk(web01:scsi0:0)\Average MilliSec/Write", "1.60"),
        (r"Network Port(iSCSI:1:vmhba64:C0:T0:L1)\MBits Transmitted/sec", "80.00"),
    ] {
        let expected = (format!("\"\\\\esx01\\{counter}\""), format!("\"{value}\""));
        assert!(cells.contains(&(expected.0.as_str(), expected.1.as_str())), "{expected:?} in {cells:?}");
    }
    assert_eq!((header.split(',').count(), line.split(',').count()), (10, 10));
}

#[test]
fn time_and_banner_use_esxtop_format() {
    assert_eq!(perfmon_time("2026-11-22T00:30:05.123Z"), "11/22/2026 00:30:05");
    let banner = banner_of("2026-11-22T00:49:54.123Z", 36 * 86_400 + 9 * 3600 + 37 * 60, 2, "0.27 0.31 0.30 1/2 3\n");
    assert_eq!(banner, "12:49:54am up 36 days  9:37, 2 worlds; CPU load average: 0.27, 0.31, 0.30");
    assert!(banner_of("2026-11-22T13:05:00.000Z", 0, 0, "0 0 0").starts_with("1:05:00pm up 0 days  0:00, 0 worlds;"));
}

#[test]
fn field_selection_round_trips() {
    let mut selection = Selection::default();
    assert_eq!(selection.notation(), "ABcdeFGhIjklmnop");
    selection.toggle('o');
    selection.toggle('B');
    assert_eq!(selection.notation(), "AbcdeFGhIjklmnOp");
    assert_eq!(Selection::from_notation("AbcdeFGhIjklmnOp\n"), Some(selection.clone()));
    assert!(!selection.toggle('q'));
    for wrong in ["", "ABC", "ABcdeFGhIjklmnox", "BAcdeFGhIjklmnop"] {
        assert_eq!(Selection::from_notation(wrong), None, "{wrong}");
    }
}

#[test]
fn path_rows_are_named_by_device_and_path() {
    let device = device_record();
    let names = device.path_names(&[]);
    let at = clock::now();
    let sample = Sample::of(at, std::collections::BTreeMap::new());
    let rows = sample.path_rows(&sample, std::slice::from_ref(&device), &[]);
    assert!(!names.is_empty() && rows.iter().map(|row| row.name.clone()).eq(names));
    assert!(rows.iter().all(|row| row.device == NAA && row.delta.commands() == 0));
}
