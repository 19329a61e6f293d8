//! `esxcli storage filesystem`: lists the datastores on the host's devices.

use super::record::{Formatter, Record};
use crate::failure::Failure;
use crate::vmfs::whole_disk;
use clap::Subcommand;
use datastore::{Datastore, DatastoreSpace, Runtime, TokioRuntime, VolumeInfo};
use esxi_host::EsxiHost;
use multipath::SharedDisk;
use std::sync::Arc;

/// `esxcli storage filesystem`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Filesystem {
    /// List all datastores on the host's devices
    List,
}

/// `esxcli storage vmfs extent`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Extent {
    /// List the devices of all datastores
    List,
}

/// One datastore of the list.
pub(super) struct Line {
    pub(super) info: VolumeInfo,
    pub(super) space: DatastoreSpace,
    /// True if the host has mounted it.
    pub(super) mounted: bool,
    /// Names of the devices with its extents.
    pub(super) devices: Vec<String>,
}

/// Returns the names of the devices with the extents of a datastore, in their order.
pub(crate) fn devices_of(disk: &Arc<dyn SharedDisk>) -> Vec<String> {
    match disk.members() {
        [] => vec![disk.identity().name.clone()],
        members => members.iter().map(|member| member.disk.identity().name.clone()).collect(),
    }
}

/// Runs `esxcli storage vmfs extent list` and returns its output.
pub(super) async fn extents(host: &EsxiHost, formatter: Formatter) -> Result<String, Failure> {
    let mut records = Vec::new();
    for line in lines(host).await? {
        records.extend(extent_records(&line));
    }
    Ok(formatter.print_table(&EXTENT_TITLES, &records))
}

const EXTENT_TITLES: [&str; 5] = ["Volume Name", "VMFS UUID", "Extent Number", "Device Name", "Partition"];

fn extent_records(line: &Line) -> Vec<Record> {
    let record = |(number, device): (usize, &String)| {
        Record::default()
            .with("Volume Name", line.info.label.as_str())
            .with("VMFS UUID", line.info.uuid.to_string())
            .with("Extent Number", number)
            .with("Device Name", device.as_str())
            .with("Partition", 1)
    };
    line.devices.iter().enumerate().map(record).collect()
}

/// Runs `esxcli storage filesystem` and returns its output.
pub(super) async fn filesystem(host: &EsxiHost, verb: &Filesystem, formatter: Formatter) -> Result<String, Failure> {
    let Filesystem::List = verb;
    let lines = lines(host).await?;
    Ok(formatter.print_table(&TITLES, &lines.iter().map(record).collect::<Vec<_>>()))
}

/// Returns the datastores on the host's devices.
pub(super) async fn lines(host: &EsxiHost) -> Result<Vec<Line>, Failure> {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    let mounts = host.mounts();
    let mut lines = Vec::new();
    for device in host.devices() {
        // A device that does not answer is skipped.
        let Ok(disk) = host.disk(&device.name).await else { continue };
        let wrong = |error: datastore::DatastoreError| Failure::Wrong(format!("{}: {error}", device.name));
        if let Some(info) = Datastore::probe(&disk, &runtime).await.map_err(wrong)? {
            let disk = whole_disk(host, &runtime, disk).await.map_err(wrong)?;
            let space = Datastore::probe_space(&disk, &runtime).await.map_err(wrong)?;
            let devices = devices_of(&disk);
            let mounted = mounts.iter().any(|mount| mount.uuid == info.uuid.to_string());
            lines.push(Line { info, space, mounted, devices });
        }
    }
    Ok(lines)
}

const TITLES: [&str; 7] = ["Mount Point", "Volume Name", "UUID", "Mounted", "Type", "Size", "Free"];

fn record(line: &Line) -> Record {
    let uuid = line.info.uuid.to_string();
    Record::default()
        .with("Mount Point", format!("/vmfs/volumes/{uuid}"))
        .with("Volume Name", line.info.label.as_str())
        .with("UUID", uuid)
        .with("Mounted", line.mounted)
        .with("Type", line.info.mode.to_string())
        .with("Size", line.space.blocks * line.info.block_bytes)
        .with("Free", line.space.free * line.info.block_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use datastore::{Mode, VolumeUuid};

    /// Returns a mounted datastore.
    pub(in crate::esx) fn line(label: &str, space: DatastoreSpace) -> Line {
        let info = VolumeInfo {
            uuid: VolumeUuid([0x51; 16]),
            label: label.to_owned(),
            mode: Mode::V5,
            created: 0,
            partition_lba: 2048,
            sectors: 1 << 21,
            block_bytes: 1 << 20,
            extents: 1,
            blocks: space.blocks,
            files: 256,
        };
        Line { info, space, mounted: true, devices: vec!["naa.1".to_owned()] }
    }

    #[test]
    fn extent_list_has_esxcli_layout() {
        let mut line = line("datastore1", DatastoreSpace { blocks: 1000, free: 40 });
        line.devices.push("naa.2".to_owned());
        let text = Formatter::Text.print_table(&EXTENT_TITLES, &extent_records(&line));
        let expected = "\
Volume Name  VMFS UUID                            Extent Number  Device Name  Partition
-----------  -----------------------------------  -------------  -----------  ---------
datastore1   51515151-51515151-5151-515151515151              0  naa.1                1
datastore1   51515151-51515151-5151-515151515151              1  naa.2                1
";
        assert_eq!(text, expected);
    }

    #[test]
    fn filesystem_list_has_esxcli_layout() {
        let line = line("datastore1", DatastoreSpace { blocks: 1000, free: 40 });
        let text = Formatter::Text.print_table(&TITLES, &[record(&line)]);
        let expected = "\
Mount Point                                        Volume Name  UUID                                 Mounted  Type          Size      Free
-------------------------------------------------  -----------  -----------------------------------  -------  ------  ----------  --------
/vmfs/volumes/51515151-51515151-5151-515151515151  datastore1   51515151-51515151-5151-515151515151     true  VMFS-5  1048576000  41943040
";
        assert_eq!(text, expected);
    }
}
