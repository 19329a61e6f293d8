//! `esxcli storage filesystem`: lists the datastores on the host's devices.

use super::record::{Formatter, Record};
use crate::failure::Failure;
use clap::Subcommand;
use datastore::{Datastore, DatastoreSpace, FS_BLOCK_BYTES, Runtime, TokioRuntime, VolumeInfo};
use esxi_host::EsxiHost;
use std::sync::Arc;

/// `esxcli storage filesystem`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Filesystem {
    /// List all datastores on the host's devices
    List,
}

/// One datastore of the list.
pub(super) struct Line {
    pub(super) info: VolumeInfo,
    pub(super) space: DatastoreSpace,
    /// True if the host has mounted it.
    pub(super) mounted: bool,
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
            let space = Datastore::probe_space(&disk, &runtime).await.map_err(wrong)?;
            let mounted = mounts.iter().any(|mount| mount.uuid == info.uuid.to_string());
            lines.push(Line { info, space, mounted });
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
        .with("Size", line.space.blocks * FS_BLOCK_BYTES)
        .with("Free", line.space.free * FS_BLOCK_BYTES)
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
            blocks: space.blocks,
            files: 256,
        };
        Line { info, space, mounted: true }
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
