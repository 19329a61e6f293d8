//! Commands whose volume has moved within the engine.
//!
//! The content of a volume may get another id in the engine at any time. An operation that was made
//! before then finds no volume. It has changed nothing, so it is repeated where the content is now.

use crate::command::program::{Program, Step};
use crate::displaced::{Displaced, in_volume};
use crate::session::Session;
use crate::session::tasks::{Task, TaskState};
use engine::Tag;
use types::VolumeId;

impl Session {
    /// Repeats the operation of a command that found no volume `missing`, if the content is
    /// elsewhere, or waits for a change of the catalog that may show that. Otherwise returns the
    /// command, which fails.
    pub(super) fn repeat_elsewhere(
        &mut self,
        tag: Tag,
        mut task: Task,
        mut program: Program,
        missing: VolumeId,
    ) -> Option<(Task, Program)> {
        if task.state != TaskState::Active {
            return Some((task, program));
        }
        // In this order: a change that ends in between is in the state.
        let is_changing = self.shared.catalog.is_changing();
        let state = self.shared.catalog.state();
        let object = match &program {
            Program::Copy(copy) => copy.object_at(missing),
            _ => Some(task.attachment.unit.volume),
        };
        let object = object.and_then(|id| state.volume_or_snapshot_by_id(id));
        match object {
            Some(object) if object.content() != missing => {
                let op = match &mut program {
                    Program::Copy(copy) => Some(copy.move_content(object.id(), object.content())),
                    _ => task.op.take().map(|op| in_volume(op, object.content())),
                };
                let Some(op) = op else { return Some((task, program)) };
                self.run_step(tag, task, Step::Submit(op, program));
                None
            }
            Some(_) if is_changing && !task.has_waited => {
                task.has_waited = true;
                self.tasks.put(tag, task, program);
                self.shared.displaced.wait(Displaced { sink: self.sink.clone(), tag, missing });
                None
            }
            _ => Some((task, program)),
        }
    }
}
