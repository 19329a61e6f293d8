//! Calls about pods.

use super::{Client, Listing};
use crate::ClientError;
use api::{Pod, PodPatch, PodPost, Reference, Volume, VolumePatch};
use ureq::http::Method;

impl Client {
    /// Lists pods.
    pub fn pods(&self, listing: &Listing<'_>) -> Result<Vec<Pod>, ClientError> {
        self.named("pods", listing)
    }

    /// Creates pods: all of them, or on error none.
    pub fn create_pods(&self, names: &[String], post: &PodPost) -> Result<Vec<Pod>, ClientError> {
        self.all(Method::POST, "pods", &[("names", &names.join(","))], Some(post))
    }

    /// Makes the same change to several pods: to all of them, or on error to none. `contents`
    /// allows to destroy pods with their volumes.
    pub fn change_pods(&self, names: &[String], patch: &PodPatch, contents: bool) -> Result<Vec<Pod>, ClientError> {
        let names = names.join(",");
        let mut parameters = vec![("names", names.as_str())];
        parameters.extend(contents.then_some(("destroy_contents", "true")));
        self.all(Method::PATCH, "pods", &parameters, Some(patch))
    }

    /// Removes destroyed pods permanently: all of them, or on error none. `contents` allows to
    /// remove pods with their volumes.
    pub fn eradicate_pods(&self, names: &[String], contents: bool) -> Result<(), ClientError> {
        let names = names.join(",");
        let mut parameters = vec![("names", names.as_str())];
        parameters.extend(contents.then_some(("eradicate_contents", "true")));
        self.call(Method::DELETE, "pods", &parameters, None::<&()>).map(|_| ())
    }

    /// Moves volumes to a pod, or with an empty name out of their pods.
    pub fn move_volumes_to_pod(&self, names: &[String], pod: &str) -> Result<Vec<Volume>, ClientError> {
        let patch = VolumePatch { pod: Some(Reference::named(pod)), ..VolumePatch::default() };
        self.change_volumes(names, &patch)
    }
}
