//! The UUID form of a serial number, used by the REST API as the id of a volume or snapshot.

use crate::record::VolumeOrSnapshot;
use crate::state::CatalogState;
use types::VolumeId;

impl VolumeOrSnapshot {
    /// Returns the NAA identifier (SPC-4 7.8.6.6.5) written as a UUID: 32 hexadecimal digits in 5
    /// groups.
    pub fn uuid(&self) -> String {
        let naa = self.naa();
        [&naa[..8], &naa[8..12], &naa[12..16], &naa[16..20], &naa[20..]].join("-")
    }
}

impl CatalogState {
    /// Returns the volume or snapshot with this [`VolumeOrSnapshot::uuid`], in upper or lower case.
    pub fn volume_or_snapshot_by_uuid(&self, uuid: &str) -> Option<VolumeOrSnapshot> {
        // The last 8 digits of a serial number are the engine's volume id.
        let digits = uuid.len().checked_sub(8).and_then(|at| uuid.get(at..))?;
        let id = VolumeId(u64::from_str_radix(digits, 16).ok()?);
        self.volume_or_snapshot_by_id(id).filter(|object| object.uuid().eq_ignore_ascii_case(uuid))
    }
}
