//! The submitters of requests in progress.

use crate::service::{Sink, Tag};
use std::sync::Arc;
use types::{RequestId, VolumeId};

/// Where a reply goes: the submitter's tag and sink, kept under the tag that the core knows.
pub(super) struct Submitter {
    pub(super) tag: Tag,
    pub(super) sink: Arc<dyn Sink>,
    /// The volume that the request reads, if it reads one.
    pub(super) volume: Option<VolumeId>,
}

/// The submitters, in a slab indexed by the core's tag.
#[derive(Default)]
pub(super) struct Submitters {
    slots: Vec<Option<Submitter>>,
    free: Vec<usize>,
}

impl Submitters {
    pub(super) fn add(&mut self, tag: Tag, sink: &Arc<dyn Sink>, volume: Option<VolumeId>) -> Tag {
        let submitter = Some(Submitter { tag, sink: sink.clone(), volume });
        match self.free.pop() {
            Some(index) => {
                self.slots[index] = submitter;
                index as Tag
            }
            None => {
                self.slots.push(submitter);
                self.slots.len() as Tag - 1
            }
        }
    }

    /// Returns the submitter's tag of a request in progress.
    pub(super) fn tag_of(&self, tag: Tag) -> Option<Tag> {
        self.slots.get(tag as usize)?.as_ref().map(|submitter| submitter.tag)
    }

    /// Returns the forwarded request that a request in progress carries out.
    pub(super) fn request_of(&self, tag: Tag) -> Option<RequestId> {
        self.slots.get(tag as usize)?.as_ref()?.sink.request()
    }

    pub(super) fn take(&mut self, tag: Tag) -> Option<Submitter> {
        let submitter = self.slots.get_mut(tag as usize)?.take();
        if submitter.is_some() {
            self.free.push(tag as usize);
        }
        submitter
    }
}
