//! The output of `vmkfstools`, in ESXi's wording.

use super::args::NewFormat;
use datastore::{DatastoreSpace, FileKind, Mode, Stat, VolumeInfo, VolumeUuid};
use virtual_disk::DiskFormat;

/// Returns the first lines of `vmkfstools -C`.
pub(crate) fn createfs(device: &str, mode: Mode, label: &str, ats: bool) -> String {
    let short = fs_name(mode);
    let name = device.rsplit('/').next().unwrap_or(device);
    let mut text = format!(
        "create fs deviceName:'{device}', fsShortName:'{short}', fsName:'{label}'\n\
         deviceFullPath:/dev/disks/{name} deviceFile:{name}\n"
    );
    if !ats {
        text += &format!("ATS on device /dev/disks/{name}: not supported\n.\n");
    }
    let unmap = if mode == Mode::V6 { ", unmapGranularity 1048576, unmapPriority default" } else { "" };
    text += "Checking if remote hosts are using this device as a valid file system. This may take a few seconds...\n";
    text += &format!(
        "Creating {short} file system on \"{name}\" with blockSize 1048576{unmap} and volume label \"{label}\".\n"
    );
    text
}

/// Returns the name of a file system as used on the command line.
pub(crate) fn fs_name(mode: Mode) -> &'static str {
    match mode {
        Mode::V5 => "vmfs5",
        Mode::V6 => "vmfs6",
    }
}

/// Returns the last line of `vmkfstools -C`.
pub(crate) fn created_volume(uuid: &str) -> String {
    format!("Successfully created new volume: {uuid}")
}

/// Returns the line before a disk is created; only eagerzeroedthick disks have one.
pub(crate) fn creating(path: &str, format: DiskFormat) -> Option<String> {
    (format == DiskFormat::EagerZeroedThick).then(|| format!("Creating disk '{path}' and zeroing it out..."))
}

/// Returns the lines before a disk is cloned.
pub(crate) fn cloning(path: &str, format: NewFormat) -> String {
    let words = match format {
        NewFormat::Vmfs(format) => format.destination_words(),
        NewFormat::HostedFlat => "monolithic flat",
        NewFormat::MonolithicSparse => "monolithic sparse",
        NewFormat::SplitSparse => "sparse with 2GB maximum extent size",
    };
    format!("Destination disk format: {words}\nCloning disk '{path}'...")
}

/// Returns the line before a disk is changed in place.
pub(crate) fn in_place() -> &'static str {
    "vmfsDisk: 1, rdmDisk: 0, blockSize: 1048576"
}

/// Returns the first lines of `vmkfstools -y`.
pub(crate) fn reclaiming(percent: u32, free_bytes: u64, label: &str, mode: Mode, balloon: &str, bytes: u64) -> String {
    let part = free_bytes / 100 * u64::from(percent);
    format!(
        "Attempting to reclaim {percent}% of free capacity {} ({}) on {mode} file system '{label}' with max file size \
         64 TB.\nCreate file {balloon} of size {} to reclaim free blocks.",
        size(free_bytes),
        size(part),
        size(bytes)
    )
}

/// Returns the name of a balloon file, with six random letters or digits as from mkstemp.
pub(crate) fn balloon_name(random: [u8; 6]) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |byte: u8| char::from(LETTERS[usize::from(byte) % LETTERS.len()]);
    format!(".vmfsBalloon{}", random.map(letter).iter().collect::<String>())
}

/// Returns the lines of `vmkfstools -D`: the lock of a file, and its properties.
/// `to_be_zeroed` is the number of allocated blocks that are not zeroed yet.
pub(crate) fn lock_info(stat: &Stat, to_be_zeroed: u64, block_bytes: u64) -> String {
    let (mode, owner, slot, generation) = match stat.owner {
        Some(owner) => (1, owner.uuid, owner.slot, owner.incarnation),
        None if stat.readers > 0 => (2, [0; 16], 0, 0),
        None => (0, [0; 16], 0, 0),
    };
    let kind = if stat.kind == FileKind::Directory { "dir" } else { "reg" };
    format!(
        "Lock [type 10c00001 offset {} v {generation}, hb offset {}\n\
         gen {generation}, mode {mode}, owner {} mtime {} nHld {} nOvf 0]\n\
         Addr <4, {}, 0>, gen {generation}, links 1, type {kind}, flags 0, uid 0, gid 0, mode 600\n\
         len {}, nb {} tbz {to_be_zeroed}, cow 0, newSinceEpoch 0, zla 1, bs {}",
        u64::from(stat.descriptor) * 512,
        u64::from(slot) * 512,
        VolumeUuid(owner),
        stat.modified / 1000,
        stat.readers,
        stat.descriptor,
        stat.size,
        stat.blocks,
        block_bytes,
    )
}

/// Returns the lines of `vmkfstools -P`: the attributes of a datastore.
pub(crate) fn query(info: &VolumeInfo, space: DatastoreSpace, devices: &[String]) -> String {
    // The versions that ESXi 5.5 and 6.5 create.
    let version = match info.mode {
        Mode::V5 => "VMFS-5.60",
        Mode::V6 => "VMFS-6.81",
    };
    format!(
        "{version} file system spanning {} partitions.\nFile system label (if any): {}\nMode: public\nCapacity {} ({} file \
         blocks * {}), {} ({} blocks) avail, max supported file size 70368744177664\nDisk Block Size: \
         512/512/0\nUUID: {}\nPartitions spanned (on \"lvm\"):\n{}Is Native Snapshot Capable: {}",
        devices.len(),
        info.label,
        space.blocks * info.block_bytes,
        space.blocks,
        info.block_bytes,
        space.free * info.block_bytes,
        space.free,
        info.uuid,
        devices.iter().map(|device| format!("\t{device}:1\n")).collect::<String>(),
        if info.mode == Mode::V6 { "NO" } else { "YES" },
    )
}

/// Formats a size as ESXi does: one decimal and a unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KB", "MB", "GB", "TB", "PB"];
    let unit = (1..UNITS.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    if unit == 0 { format!("{bytes} bytes") } else { format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn createfs_has_esxi_output() {
        let device = "naa.624a9370753d69fe46db318d00011015:1";
        let golden = "\
create fs deviceName:'naa.624a9370753d69fe46db318d00011015:1', fsShortName:'vmfs6', fsName:'ds1'
deviceFullPath:/dev/disks/naa.624a9370753d69fe46db318d00011015:1 deviceFile:naa.624a9370753d69fe46db318d00011015:1
Checking if remote hosts are using this device as a valid file system. This may take a few seconds...
Creating vmfs6 file system on \"naa.624a9370753d69fe46db318d00011015:1\" with blockSize 1048576, \
unmapGranularity 1048576, unmapPriority default and volume label \"ds1\".
";
        assert_eq!(createfs(device, Mode::V6, "ds1", true), golden);
        let five = createfs(&format!("/vmfs/devices/disks/{device}"), Mode::V5, "MyVol", false);
        assert!(five.contains("ATS on device /dev/disks/naa.624a9370753d69fe46db318d00011015:1: not supported\n.\n"));
        assert!(five.ends_with(":1\" with blockSize 1048576 and volume label \"MyVol\".\n"));
        assert_eq!(
            created_volume("555acc28-b82a2519-a19d-000c29b96d8d"),
            "Successfully created new volume: 555acc28-b82a2519-a19d-000c29b96d8d"
        );
    }

    #[test]
    fn query_has_esxi_output() {
        let info = VolumeInfo {
            uuid: VolumeUuid([0x51; 16]),
            label: "ds1".to_owned(),
            mode: Mode::V6,
            created: 0,
            partition_lba: 2048,
            sectors: 1 << 21,
            block_bytes: 1 << 20,
            extents: 1,
            blocks: 1000,
            files: 256,
        };
        assert_eq!(
            query(&info, DatastoreSpace { blocks: 1000, free: 40 }, &["naa.1".to_owned()]),
            "VMFS-6.81 file system spanning 1 partitions.\nFile system label (if any): ds1\nMode: public\nCapacity \
             1048576000 (1000 file blocks * 1048576), 41943040 (40 blocks) avail, max supported file size \
             70368744177664\nDisk Block Size: 512/512/0\nUUID: 51515151-51515151-5151-515151515151\nPartitions spanned \
             (on \"lvm\"):\n\tnaa.1:1\nIs Native Snapshot Capable: NO"
        );
    }

    #[test]
    fn create_and_clone_have_esxi_output() {
        assert_eq!(
            creating("a.vmdk", DiskFormat::EagerZeroedThick).as_deref(),
            Some("Creating disk 'a.vmdk' and zeroing it out...")
        );
        assert_eq!(creating("a.vmdk", DiskFormat::Thin), None);
        assert_eq!(
            cloning("web01.vmdk", NewFormat::Vmfs(DiskFormat::Thin)),
            "Destination disk format: VMFS thin-provisioned\nCloning disk 'web01.vmdk'..."
        );
        assert_eq!(
            cloning("web01.vmdk", NewFormat::SplitSparse),
            "Destination disk format: sparse with 2GB maximum extent size\nCloning disk 'web01.vmdk'..."
        );
    }

    #[test]
    fn lock_info_has_esxi_output() {
        let uuid = *b"\x4f\x28\x4f\x46\x54\x96\x1c\x29\x3b\xc5\x00\x14\x5e\x5e\x2a\x5a";
        let stat = Stat {
            kind: FileKind::File,
            size: 42_949_672_960,
            blocks: 40_960,
            modified: 23_668_000,
            descriptor: 558,
            owner: Some(datastore::LockOwner { slot: 3, incarnation: 44, uuid }),
            readers: 0,
        };
        let golden = "\
Lock [type 10c00001 offset 285696 v 44, hb offset 1536
gen 44, mode 1, owner 4f284f46-54961c29-3bc5-00145e5e2a5a mtime 23668 nHld 0 nOvf 0]
Addr <4, 558, 0>, gen 44, links 1, type reg, flags 0, uid 0, gid 0, mode 600
len 42949672960, nb 40960 tbz 12, cow 0, newSinceEpoch 0, zla 1, bs 1048576";
        assert_eq!(lock_info(&stat, 12, 1 << 20), golden);
        let free = lock_info(&Stat { owner: None, ..stat }, 0, 1 << 20);
        assert!(free.contains("mode 0, owner 00000000-00000000-0000-000000000000"));
    }

    #[test]
    fn reclaim_has_esxi_output() {
        let text = reclaiming(60, 52_398_391_296, "source-datastore", Mode::V5, ".vmfsBalloontsWt8w", 31_438_405_632);
        assert_eq!(
            text,
            "Attempting to reclaim 60% of free capacity 48.7 GB (29.2 GB) on VMFS-5 file system 'source-datastore' \
             with max file size 64 TB.\nCreate file .vmfsBalloontsWt8w of size 29.2 GB to reclaim free blocks."
        );
        assert_eq!(balloon_name([0, 25, 26, 61, 62, 255]), ".vmfsBalloonAZa9AH");
        assert_eq!([size(100), size(1 << 10), size(1 << 40)], ["100 bytes", "1.0 KB", "1.0 TB"]);
    }
}
