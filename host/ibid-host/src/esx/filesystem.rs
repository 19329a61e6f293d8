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
    Ok(match formatter {
        Formatter::Text => table(&lines),
        Formatter::Json => formatter.print(&lines.iter().map(record).collect::<Vec<_>>()),
    })
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

fn fields(line: &Line) -> [String; 7] {
    let uuid = line.info.uuid.to_string();
    [
        format!("/vmfs/volumes/{uuid}"),
        line.info.label.clone(),
        uuid,
        line.mounted.to_string(),
        line.info.mode.to_string(),
        (line.space.blocks * FS_BLOCK_BYTES).to_string(),
        (line.space.free * FS_BLOCK_BYTES).to_string(),
    ]
}

const TITLES: [&str; 7] = ["Mount Point", "Volume Name", "UUID", "Mounted", "Type", "Size", "Free"];

fn record(line: &Line) -> Record {
    let fields = fields(line);
    Record::default()
        .with("Mount Point", fields[0].as_str())
        .with("Volume Name", fields[1].as_str())
        .with("UUID", fields[2].as_str())
        .with("Mounted", line.mounted)
        .with("Type", fields[4].as_str())
        .with("Size", line.space.blocks * FS_BLOCK_BYTES)
        .with("Free", line.space.free * FS_BLOCK_BYTES)
}

/// Formats a table as esxcli does: columns as wide as their widest cell, booleans and numbers
/// right-aligned.
fn table(lines: &[Line]) -> String {
    let rows: Vec<[String; 7]> = lines.iter().map(fields).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].len()).chain([TITLES[column].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    let cell = |column: usize, text: &str| match column {
        3 | 5 | 6 => format!("{text:>width$}", width = widths[column]),
        _ => format!("{text:<width$}", width = widths[column]),
    };
    let line = |cells: [&str; 7]| {
        let cells: Vec<String> = cells.iter().enumerate().map(|(column, text)| cell(column, text)).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut out = line(TITLES) + &format!("{}\n", dashes.join("  "));
    for row in &rows {
        out += &line([&row[0], &row[1], &row[2], &row[3], &row[4], &row[5], &row[6]]);
    }
    out
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
        let text = table(&[line("datastore1", DatastoreSpace { blocks: 1000, free: 40 })]);
        let expected = "\
Mount Point                                        Volume Name  UUID                                 Mounted  Type          Size      Free
-------------------------------------------------  -----------  -----------------------------------  -------  ------  ----------  --------
/vmfs/volumes/51515151-51515151-5151-515151515151  datastore1   51515151-51515151-5151-515151515151     true  VMFS-5  1048576000  41943040
";
        assert_eq!(text, expected);
    }
}
