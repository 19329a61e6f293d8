//! Operations whose volume has moved, and commands that wait until the catalog shows where it is.

use catalog::Catalog;
use engine::{Op, OpError, Sink, Tag};
use parking_lot::Mutex;
use std::sync::Arc;
use types::VolumeId;

/// Commands that wait until the catalog shows where the content of their volume is.
///
/// The engine applies a change before the catalog shows it. A command that finds no volume in
/// between waits for the end of the change, on one thread for all commands.
pub(crate) struct DisplacedCommands {
    catalog: Arc<Catalog>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Displaced>,
    has_thread: bool,
}

/// An operation of a session, and the volume that it did not find.
pub(crate) struct Displaced {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) tag: Tag,
    pub(crate) missing: VolumeId,
}

impl DisplacedCommands {
    pub(crate) fn new(catalog: Arc<Catalog>) -> Arc<Self> {
        Arc::new(Self { catalog, queue: Mutex::default() })
    }

    /// Completes the operation with the same error again, after the change in progress has ended.
    /// Must be called within a tokio runtime.
    pub(crate) fn wait(self: &Arc<Self>, displaced: Displaced) {
        let mut queue = self.queue.lock();
        queue.waiting.push(displaced);
        if !std::mem::replace(&mut queue.has_thread, true) {
            let commands = self.clone();
            tokio::task::spawn_blocking(move || commands.run());
        }
    }

    fn run(&self) {
        loop {
            let waiting = {
                let mut queue = self.queue.lock();
                queue.has_thread = !queue.waiting.is_empty();
                std::mem::take(&mut queue.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            self.catalog.wait_for_change();
            for Displaced { sink, tag, missing } in waiting {
                sink.complete(tag, Err(OpError::NoSuchVolume(missing)));
            }
        }
    }
}

/// Returns a copy of an operation, if it must be kept to be repeated. The copy shares the data.
pub(crate) fn repeatable(op: &Op) -> Option<Op> {
    match op {
        Op::Copy { .. } | Op::Flush | Op::Change(_) | Op::Follow(_) | Op::Delta(_) => None,
        _ => Some(op.clone()),
    }
}

/// Returns an operation of one volume as one of another.
pub(crate) fn in_volume(mut op: Op, content: VolumeId) -> Op {
    match &mut op {
        Op::Read { volume, .. }
        | Op::Write { volume, .. }
        | Op::WriteSame { volume, .. }
        | Op::Zero { volume, .. }
        | Op::Unmap { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. }
        | Op::Compare { volume, .. }
        | Op::Status { volume, .. } => *volume = content,
        _ => {}
    }
    op
}
