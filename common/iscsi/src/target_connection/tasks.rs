//! Table of the commands of a connection.

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::{inbound::Inbound, types::TargetTaskId};
use crate::length::len_u32;
use crate::pdu::{TaskAttribute, WireLun};

/// A command from its arrival to its response.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) initiator_task_tag: u32,
    pub(super) lun: WireLun,
    pub(super) cmd_sn: u32,
    pub(super) immediate: bool,
    pub(super) attribute: TaskAttribute,
    pub(super) cdb: [u8; 16],
    pub(super) extended_cdb: Bytes,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) expected_read: u32,
    pub(super) expected_write: u32,
    pub(super) inbound: Inbound,
    /// The command has started: it was next by CmdSN and occupies a place in the window.
    pub(super) started: bool,
    /// The command waits for write budget before it requests data.
    pub(super) waiting: bool,
    /// Bytes of the write budget that the command holds.
    pub(super) granted: u64,
    /// The command was delivered to the caller.
    pub(super) delivered: bool,
    /// The command was aborted and gets no response.
    pub(super) aborted: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    task: Option<Task>,
}

/// All commands, indexed by our id and by the initiator's tag.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The initiator chooses the tags, but the window bounds their number, so collisions are cheap.
    by_tag: FxHashMap<u32, TargetTaskId>,
}

impl TaskTable {
    pub(super) fn insert(&mut self, task: Task) -> TargetTaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            len_u32(self.slots.len() - 1)
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let id = TargetTaskId { generation: slot.generation, index };
        self.by_tag.insert(task.initiator_task_tag, id);
        slot.task = Some(task);
        id
    }

    pub(super) fn get_mut(&mut self, id: TargetTaskId) -> Option<&mut Task> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.task.as_mut() } else { None }
    }

    /// Number of bytes of write data, received and with the caller.
    pub(super) fn held_bytes(&self) -> u64 {
        let held = |task: &Task| match task.delivered {
            true => u64::from(task.inbound.expected()),
            false => u64::from(task.inbound.received()),
        };
        self.slots.iter().filter_map(|slot| slot.task.as_ref()).map(held).sum()
    }

    /// Returns the command with this tag.
    pub(super) fn by_tag(&self, initiator_task_tag: u32) -> Option<TargetTaskId> {
        self.by_tag.get(&initiator_task_tag).copied()
    }

    /// Frees the tag for another command.
    pub(super) fn forget_tag(&mut self, id: TargetTaskId, initiator_task_tag: u32) {
        if self.by_tag(initiator_task_tag) == Some(id) {
            self.by_tag.remove(&initiator_task_tag);
        }
    }

    pub(super) fn remove(&mut self, id: TargetTaskId) -> Option<Task> {
        self.get_mut(id)?;
        let task = self.slots[id.index as usize].task.take()?;
        self.free.push(id.index);
        self.forget_tag(id, task.initiator_task_tag);
        Some(task)
    }

    /// Returns the matching commands that are not aborted, in order of CmdSN.
    pub(super) fn select(&self, mut matches_task: impl FnMut(&Task) -> bool) -> Vec<TargetTaskId> {
        let mut found: Vec<(u32, TargetTaskId)> = Vec::new();
        for (&tag, &id) in &self.by_tag {
            let task = self.slots.get(id.index as usize).and_then(|slot| slot.task.as_ref());
            if task.is_some_and(|task| task.initiator_task_tag == tag && !task.aborted && matches_task(task)) {
                found.push((task.map_or(0, |task| task.cmd_sn), id));
            }
        }
        found.sort_by_key(|&(cmd_sn, id)| (cmd_sn, id));
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Number of commands.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
