//! Calls about pods.

use super::{Client, Listing};
use crate::ClientError;
use api::{
    Member, Pod, PodCheck, PodHandOver, PodPatch, PodPost, PodReplication, PodVerification, Reference, Volume,
    VolumePatch,
};
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

    /// Lists the pods on two arrays, only these unless `names` is empty.
    pub fn pod_replication(&self, names: &[String]) -> Result<Vec<PodReplication>, ClientError> {
        self.named("pods/replication", &Listing { names, ..Listing::default() })
    }

    /// Brings a pod to another array. Returns before the content has arrived.
    pub fn stretch_pod(&self, pod: &str, array: &str, mediator: Option<&str>) -> Result<Member, ClientError> {
        let mut parameters = vec![("group_names", pod), ("member_names", array)];
        parameters.extend(mediator.map(|mediator| ("mediator", mediator)));
        self.one(Method::POST, "pods/arrays", &parameters, None::<&()>)
    }

    /// Removes a pod from the other array. Returns before the array has left.
    pub fn unstretch_pod(&self, pod: &str, array: &str) -> Result<(), ClientError> {
        let parameters = [("group_names", pod), ("member_names", array)];
        self.call(Method::DELETE, "pods/arrays", &parameters, None::<&()>).map(|_| ())
    }

    /// Makes the array serve a pod although the protocol does not allow it. Without `force`, the
    /// refusal says what may be lost.
    pub fn promote_pod(&self, pod: &str, force: bool) -> Result<Vec<PodReplication>, ClientError> {
        let force = if force { "true" } else { "false" };
        self.all(Method::POST, "pods/promote", &[("names", pod), ("force", force)], None::<&()>)
    }

    /// Hands a pod over to the other array.
    pub fn resign_pod(&self, pod: &str) -> Result<Vec<PodReplication>, ClientError> {
        self.all(Method::POST, "pods/resign", &[("names", pod)], None::<&()>)
    }

    /// Returns the last comparison of each of these pods on both arrays.
    pub fn pod_verifications(&self, names: &[String]) -> Result<Vec<PodVerification>, ClientError> {
        self.named("pods/verify", &Listing { names, ..Listing::default() })
    }

    /// Begins to compare the content of a pod on both arrays.
    pub fn verify_pod(&self, pod: &str) -> Result<Vec<PodVerification>, ClientError> {
        self.all(Method::POST, "pods/verify", &[("names", pod)], None::<&()>)
    }

    /// Stops that.
    pub fn stop_verify_pod(&self, pod: &str) -> Result<Vec<PodVerification>, ClientError> {
        self.all(Method::DELETE, "pods/verify", &[("names", pod)], None::<&()>)
    }

    /// Compares both arrays of a pod, or the array and another one that it may come to.
    pub fn check_pod(
        &self,
        pod: &str,
        array: Option<&str>,
        mediator: Option<&str>,
    ) -> Result<Vec<PodCheck>, ClientError> {
        let mut parameters = vec![("names", pod)];
        parameters.extend(array.map(|array| ("member_names", array)));
        parameters.extend(mediator.map(|mediator| ("mediator", mediator)));
        self.all(Method::GET, "pods/check", &parameters, None::<&()>)
    }

    /// Hands all pods over to the other arrays, or says what that would do.
    pub fn evacuate_pods(&self, is_made: bool) -> Result<Vec<PodHandOver>, ClientError> {
        let method = if is_made { Method::POST } else { Method::GET };
        self.all(method, "pods/evacuate", &[], None::<&()>)
    }

    /// Removes a pod from the array only. Without `force`, the refusal states the losses.
    pub fn forget_pod(&self, pod: &str, force: bool) -> Result<(), ClientError> {
        let force = if force { "true" } else { "false" };
        self.call(Method::POST, "pods/forget", &[("names", pod), ("force", force)], None::<&()>).map(|_| ())
    }

    /// Discards the content of a pod that has diverged on the array.
    pub fn discard_pod(&self, pod: &str) -> Result<Vec<PodReplication>, ClientError> {
        self.all(Method::POST, "pods/discard", &[("names", pod)], None::<&()>)
    }
}
