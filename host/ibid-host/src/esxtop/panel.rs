//! The screens besides the disk device screen: adapters, CPU, memory, virtual disks, network and
//! interrupts; and the paths of a device.

use super::sample::{PathRow, Row};
use super::world::WorldRow;
use multipath::CountersSnapshot;
use std::collections::BTreeMap;

/// A screen of esxtop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panel {
    /// `u`: disk devices.
    Devices,
    /// `d`: adapters.
    Adapters,
    /// `c`: CPU of the processes that use the host.
    Cpu,
    /// `m`: their memory.
    Memory,
    /// `v`: virtual disks of running machines.
    VirtualDisks,
    /// `n`: iSCSI sessions.
    Network,
    /// `i`: interrupts, which a simulated host does not have.
    Interrupts,
}

/// The screens by key.
pub(crate) const PANELS: [(char, Panel); 7] = [
    ('u', Panel::Devices),
    ('d', Panel::Adapters),
    ('c', Panel::Cpu),
    ('m', Panel::Memory),
    ('v', Panel::VirtualDisks),
    ('n', Panel::Network),
    ('i', Panel::Interrupts),
];

/// Heading of the counters that adapters and paths have.
const IO_HEADING: &str = "  CMDS/s  READS/s WRITES/s MBREAD/s MBWRTN/s DAVG/cmd DAVG/rd DAVG/wr";

fn io_cells(delta: CountersSnapshot, seconds: f64) -> String {
    let row = Row { delta, seconds, ..Row::default() };
    format!(
        "{:8.2} {:8.2} {:8.2} {:8.2} {:8.2} {:8.2} {:7.2} {:7.2}",
        row.per_second(delta.commands()),
        row.per_second(delta.reads),
        row.per_second(delta.writes),
        row.mib_per_second(delta.read_bytes),
        row.mib_per_second(delta.write_bytes),
        row.guest_ms(),
        row.read_ms(),
        row.write_ms()
    )
}

/// Returns the adapter screen: a line for each adapter, with the sums over its paths.
pub(crate) fn adapters(paths: &[PathRow]) -> Vec<String> {
    let mut sums: BTreeMap<&str, (usize, CountersSnapshot, f64)> = BTreeMap::new();
    for path in paths {
        let adapter = path.name.split(':').next().unwrap_or_default();
        let (count, sum, seconds) = sums.entry(adapter).or_default();
        (*count, *sum, *seconds) = (*count + 1, sum.plus(&path.delta), path.seconds);
    }
    let mut lines = vec![format!("{:8} {:4} {:>4} {IO_HEADING}", "ADAPTR", "PATH", "NPTH")];
    lines.extend(
        sums.iter()
            .map(|(name, (count, sum, seconds))| format!("{name:8} {:4} {count:4} {}", "-", io_cells(*sum, *seconds))),
    );
    lines
}

/// Returns the lines of a device's paths, for the disk device screen.
pub(crate) fn paths_of(device: &str, paths: &[PathRow]) -> Vec<String> {
    let mut lines = vec![format!("  {:34} {IO_HEADING}", "PATH")];
    let own = paths.iter().filter(|path| path.device == device);
    lines.extend(own.map(|path| format!("  {:34} {}", path.name, io_cells(path.delta, path.seconds))));
    lines
}

/// Returns the CPU screen, the busiest process first.
pub(crate) fn cpu(worlds: &[WorldRow]) -> Vec<String> {
    let mut rows: Vec<&WorldRow> = worlds.iter().collect();
    rows.sort_by(|a, b| b.used.total_cmp(&a.used));
    let mut lines = vec![format!("{:>8} {:32} {:>5} {:>8}", "ID", "NAME", "NWLD", "%USED")];
    lines.extend(rows.iter().map(|WorldRow { world, used }| {
        format!("{:8} {:32} {:5} {used:8.2}", world.id, shortened(&world.name), world.threads)
    }));
    lines
}

/// Returns the memory screen, the largest process first.
pub(crate) fn memory(worlds: &[WorldRow]) -> Vec<String> {
    let mut rows: Vec<&WorldRow> = worlds.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.world.memory_kib[1]));
    let mib = |kib: u64| kib as f64 / 1024.0;
    let mut lines = vec![format!("{:>8} {:32} {:>9} {:>9}", "ID", "NAME", "MEMSZ", "GRANT")];
    lines.extend(rows.iter().map(|WorldRow { world, .. }| {
        let [size, used] = world.memory_kib.map(mib);
        format!("{:8} {:32} {size:9.2} {used:9.2}", world.id, shortened(&world.name))
    }));
    lines
}

/// A counter of virtual disks or of the network: its heading, its name in a CSV file, and its
/// value.
pub(crate) type PanelCounter = (&'static str, &'static str, fn(&Row) -> f64);

/// The counters of a virtual disk.
pub(crate) const DISK_COUNTERS: [PanelCounter; 7] = [
    ("CMDS/s", "Commands/sec", |row| row.per_second(row.delta.commands())),
    ("READS/s", "Reads/sec", |row| row.per_second(row.delta.reads)),
    ("WRITES/s", "Writes/sec", |row| row.per_second(row.delta.writes)),
    ("MBREAD/s", "MBytes Read/sec", |row| row.mib_per_second(row.delta.read_bytes)),
    ("MBWRTN/s", "MBytes Written/sec", |row| row.mib_per_second(row.delta.write_bytes)),
    ("LAT/rd", "Average MilliSec/Read", Row::read_ms),
    ("LAT/wr", "Average MilliSec/Write", Row::write_ms),
];

/// The counters of an iSCSI session: the data that it sends and receives.
pub(crate) const SESSION_COUNTERS: [PanelCounter; 2] = [
    ("MbTX/s", "MBits Transmitted/sec", |row| 8.0 * row.mib_per_second(row.delta.write_bytes)),
    ("MbRX/s", "MBits Received/sec", |row| 8.0 * row.mib_per_second(row.delta.read_bytes)),
];

fn headings(counters: &[PanelCounter]) -> String {
    counters.iter().map(|(heading, ..)| format!(" {heading:>8}")).collect()
}

fn cells(counters: &[PanelCounter], row: &Row) -> String {
    counters.iter().map(|(_, _, value)| format!(" {:8.2}", value(row))).collect()
}

/// Returns the screen of virtual disks: a line for each disk of a running machine.
pub(crate) fn virtual_disks(disks: &[Row]) -> Vec<String> {
    let mut lines = vec![format!("{:32} {:10}{}", "VMNAME", "VDEVNAME", headings(&DISK_COUNTERS))];
    lines.extend(disks.iter().map(|row| {
        let (machine, disk) = row.device.split_once(':').unwrap_or((&row.device, ""));
        format!("{:32} {disk:10}{}", shortened(machine), cells(&DISK_COUNTERS, row))
    }));
    if disks.is_empty() {
        lines.push("No machine runs. Start one with `ibid-host vm power on NAME`.".to_owned());
    }
    lines
}

/// Returns a session as a row of counters.
pub(crate) fn session(path: &PathRow) -> Row {
    Row { device: path.name.clone(), delta: path.delta, seconds: path.seconds, ..Row::default() }
}

/// Returns the network screen: a line for each iSCSI session.
pub(crate) fn network(paths: &[PathRow]) -> Vec<String> {
    let mut lines = vec![format!("{:>7} {:24} {:28}{}", "PORT-ID", "USED-BY", "DNAME", headings(&SESSION_COUNTERS))];
    lines.extend((1..).zip(paths).map(|(port, path)| {
        format!("{port:7} {:24} {:28}{}", path.name, path.portal, cells(&SESSION_COUNTERS, &session(path)))
    }));
    lines.push(String::new());
    lines.push(
        "iSCSI sessions: data of reads and writes. Linux counts packets: see `ss -ti` and /proc/net/dev.".to_owned(),
    );
    lines
}

/// Returns the interrupt screen.
pub(crate) fn interrupts() -> Vec<String> {
    vec![
        "VECTOR   COUNT/s     COUNT DEVICES".to_owned(),
        "A simulated host has no devices that raise interrupts: its I/O is that of Linux sockets.".to_owned(),
        "Linux counts the interrupts of this machine in /proc/interrupts.".to_owned(),
    ]
}

/// Returns at most 32 characters of a name.
fn shortened(name: &str) -> String {
    name.chars().take(32).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::world::World;
    use super::*;

    /// Returns the paths of a device over two adapters and two ports.
    pub(crate) fn paths() -> Vec<PathRow> {
        let path = |adapter: u64, port: u64| PathRow {
            name: format!("vmhba{adapter}:C{port}:T0:L7"),
            device: "naa.624a9370753d69fe46db318d00011014".to_owned(),
            portal: format!("192.0.2.{port}:3260"),
            delta: CountersSnapshot {
                reads: 10 * (port + 1),
                writes: 20,
                read_bytes: 10 << 20,
                write_bytes: 5 << 20,
                read_ns: 10 * (port + 1) * 1_000_000,
                write_ns: 20 * 4_000_000,
                ..CountersSnapshot::default()
            },
            seconds: 5.0,
        };
        vec![path(64, 0), path(64, 1), path(65, 0), path(65, 1)]
    }

    pub(crate) fn worlds() -> Vec<WorldRow> {
        let world = |id, name: &str, kib| World {
            id,
            name: name.to_owned(),
            threads: 3,
            memory_kib: [kib * 8, kib],
            ..World::default()
        };
        vec![
            WorldRow { world: world(7, "vm power on", 20 << 10), used: 2.5 },
            WorldRow { world: world(9, "vmkfstools -i", 10 << 10), used: 42.0 },
        ]
    }

    #[test]
    fn adapters_sum_over_their_paths() {
        assert_eq!(
            adapters(&paths()),
            [
                "ADAPTR   PATH NPTH   CMDS/s  READS/s WRITES/s MBREAD/s MBWRTN/s DAVG/cmd DAVG/rd DAVG/wr",
                "vmhba64  -       2    14.00     6.00     8.00     4.00     2.00     2.71    1.00    4.00",
                "vmhba65  -       2    14.00     6.00     8.00     4.00     2.00     2.71    1.00    4.00",
            ]
        );
    }

    #[test]
    fn virtual_disks_are_named_by_machine_and_disk() {
        let delta = paths()[0].delta;
        let row = Row { device: "web01:scsi0:1".to_owned(), delta, seconds: 5.0, ..Row::default() };
        assert_eq!(
            virtual_disks(&[row]),
            [
                "VMNAME                           VDEVNAME     CMDS/s  READS/s WRITES/s MBREAD/s MBWRTN/s   LAT/rd   LAT/wr",
                "web01                            scsi0:1        6.00     2.00     4.00     2.00     1.00     1.00     4.00",
            ]
        );
        assert!(virtual_disks(&[])[1].contains("vm power on"));
    }

    #[test]
    fn network_shows_the_data_of_sessions() {
        let lines = network(&paths());
        assert_eq!(
            lines[..2],
            [
                "PORT-ID USED-BY                  DNAME                          MbTX/s   MbRX/s",
                "      1 vmhba64:C0:T0:L7         192.0.2.0:3260                   8.00    16.00",
            ]
        );
        assert_eq!(lines.len(), 7, "heading, four sessions, an empty line, and a note");
    }

    #[test]
    fn paths_of_a_device_leave_others_out() {
        let mut all = paths();
        all[3].device = "naa.other".to_owned();
        let lines = paths_of("naa.624a9370753d69fe46db318d00011014", &all);
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("  vmhba64:C0:T0:L7 "), "{}", lines[1]);
        assert!(lines[0].len() == lines[1].len());
    }

    #[test]
    fn processes_are_sorted_by_cpu_or_memory() {
        assert_eq!(
            cpu(&worlds()),
            [
                "      ID NAME                              NWLD    %USED",
                "       9 vmkfstools -i                        3    42.00",
                "       7 vm power on                          3     2.50",
            ]
        );
        assert_eq!(
            memory(&worlds()),
            [
                "      ID NAME                                 MEMSZ     GRANT",
                "       7 vm power on                         160.00     20.00",
                "       9 vmkfstools -i                        80.00     10.00",
            ]
        );
    }
}
