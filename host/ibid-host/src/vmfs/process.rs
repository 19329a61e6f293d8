//! The process of the simulated host, as its mounted datastores see it.

use datastore::{HostProcess, LockOwner, MountEvent, VolumeInfo};
use esxi_host::{EsxiHost, MountFile};

/// One mount by this process: shows waits on stderr and writes the host's log.
pub(super) struct MountProcess {
    host: EsxiHost,
    file: MountFile,
    volume: VolumeInfo,
}

impl MountProcess {
    pub(super) fn new(host: &EsxiHost, volume: VolumeInfo) -> Result<Self, esxi_host::HostError> {
        Ok(Self { host: host.clone(), file: host.begin_mount()?, volume })
    }
}

impl HostProcess for MountProcess {
    fn uuid(&self) -> [u8; 16] {
        self.file.uuid()
    }

    fn has_ended(&self, owner: &LockOwner) -> bool {
        self.file.has_ended(owner.uuid)
    }

    fn notify(&self, event: &MountEvent) {
        if let MountEvent::Waiting { .. } = event {
            eprintln!("{}", line(event, &self.volume));
        }
        // A full disk must not end the access to the datastore.
        let _ = self.host.log(&line(event, &self.volume));
    }
}

/// Returns the text of an event, as ESXi logs it.
fn line(event: &MountEvent, volume: &VolumeInfo) -> String {
    let name = format!("{} ({})", volume.uuid, volume.label);
    match event {
        MountEvent::AccessLost => format!(
            "Lost access to volume {name} due to connectivity issues. Recovery attempt is in progress and outcome will \
             be reported shortly."
        ),
        MountEvent::AccessRestored => {
            format!("Successfully restored access to volume {name} following connectivity issues.")
        }
        MountEvent::LeaseBroken => format!("Lost access to volume {name}: another host has broken the heartbeat."),
        MountEvent::Waiting { host, slot, ended, left } => {
            let cause = if *ended { "whose process has ended" } else { "which shows no heartbeat" };
            format!(
                "Waiting for host '{host}' (heartbeat slot {slot}) on volume {}, {cause}: its locks are free in {} s",
                volume.label,
                left.as_secs() + 1
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datastore::{Mode, VolumeUuid};
    use std::time::Duration;

    #[test]
    fn events_have_the_text_of_esxi() {
        let volume = VolumeInfo {
            uuid: VolumeUuid([0x51; 16]),
            label: "ds1".into(),
            mode: Mode::V6,
            created: 0,
            partition_lba: 2048,
            sectors: 4096,
            block_bytes: 1 << 20,
            extents: 1,
            blocks: 100,
            files: 10,
        };
        let name = "51515151-51515151-5151-515151515151 (ds1)";
        assert_eq!(
            line(&MountEvent::AccessLost, &volume),
            format!(
                "Lost access to volume {name} due to connectivity issues. Recovery attempt is in progress and outcome \
                 will be reported shortly."
            )
        );
        assert_eq!(
            line(&MountEvent::AccessRestored, &volume),
            format!("Successfully restored access to volume {name} following connectivity issues.")
        );
        let waiting =
            MountEvent::Waiting { host: "esx02".into(), slot: 7, ended: false, left: Duration::from_millis(11_500) };
        assert_eq!(
            line(&waiting, &volume),
            "Waiting for host 'esx02' (heartbeat slot 7) on volume ds1, which shows no heartbeat: its locks are free \
             in 12 s"
        );
    }
}
