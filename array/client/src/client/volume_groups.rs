//! Calls about volume groups.

use super::{Client, Listing};
use crate::ClientError;
use api::{Reference, Volume, VolumeGroup, VolumeGroupPatch, VolumePatch};
use ureq::http::Method;

impl Client {
    /// Lists volume groups.
    pub fn volume_groups(&self, listing: &Listing<'_>) -> Result<Vec<VolumeGroup>, ClientError> {
        self.named("volume-groups", listing)
    }

    /// Creates empty volume groups: all of them, or on error none.
    pub fn create_volume_groups(&self, names: &[String]) -> Result<Vec<VolumeGroup>, ClientError> {
        let post = VolumeGroupPatch::default();
        self.all(Method::POST, "volume-groups", &[("names", &names.join(","))], Some(&post))
    }

    /// Makes the same change to several volume groups: to all of them, or on error to none.
    pub fn change_volume_groups(
        &self,
        names: &[String],
        patch: &VolumeGroupPatch,
    ) -> Result<Vec<VolumeGroup>, ClientError> {
        self.all(Method::PATCH, "volume-groups", &[("names", &names.join(","))], Some(patch))
    }

    /// Removes destroyed volume groups permanently: all of them, or on error none.
    pub fn eradicate_volume_groups(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, "volume-groups", &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Moves volumes to a volume group, or with an empty name out of their groups.
    pub fn move_volumes(&self, names: &[String], group: &str) -> Result<Vec<Volume>, ClientError> {
        let patch = VolumePatch { volume_group: Some(Reference::named(group)), ..VolumePatch::default() };
        self.change_volumes(names, &patch)
    }
}
