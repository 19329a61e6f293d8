//! Responses to commands: Data-In, status and residuals (RFC 7143 11.4, 11.7).

use super::{CommandCompletion, Phase, TargetConnection, TargetTaskId, tasks::Task};
use crate::{
    length::len_u32,
    payload::PayloadChain,
    pdu::{DataIn, Encode, NO_TAG, Residual, ScsiResponse},
};

/// SCSI status GOOD (SAM-5 5.3).
const GOOD: u8 = 0x00;

impl TargetConnection {
    /// Completes a command.
    ///
    /// Each [`TargetCommand`](super::TargetCommand) must be completed exactly once, even after an
    /// abort: only then are its place in the window and its memory free.
    pub fn complete(&mut self, id: TargetTaskId, completion: CommandCompletion) {
        let Some(task) = self.tasks.remove(id) else { return };
        self.release(&task);
        if !task.aborted && self.phase == Phase::Open {
            self.respond(&task, completion);
        }
        self.release_budget(task.granted);
    }

    /// Frees the window place of a started command.
    pub(super) fn release(&mut self, task: &Task) {
        if task.immediate {
            self.immediate_count = self.immediate_count.saturating_sub(1);
        } else if task.started {
            let was_closed = self.window.is_closed();
            self.window.release();
            // An aborted command has no response that would announce the open window to the
            // initiator.
            if was_closed && task.aborted && self.phase == Phase::Open {
                self.push_nop_in(NO_TAG);
            }
        }
    }

    fn respond(&mut self, task: &Task, completion: CommandCompletion) {
        let CommandCompletion { status, sense, mut data, wanted, digests } = completion;
        let available = data.len() as u64;
        let expected_read = task.expected_read;
        let (residual, bidi_residual) = if task.write {
            let residual = Residual::of(task.expected_write, wanted.unwrap_or(task.expected_write.into()));
            (residual, if task.read { Residual::of(expected_read, available) } else { Residual::None })
        } else {
            (Residual::of(expected_read, wanted.unwrap_or(available)), Residual::None)
        };
        data.truncate(expected_read as usize);
        // RFC 7143 11.7.3: the last Data-In may carry the status if there is no exception and no
        // sense data.
        let joined = status == GOOD && sense.is_empty() && !task.write && !data.is_empty();
        let digests = digests.and_then(|digests| digests.for_data(self.division(), data.len())).unwrap_or_default();
        let data_pdus = self.send_data(task, data, &digests, joined.then_some((status, residual)));
        if joined {
            return;
        }
        let response = ScsiResponse {
            status,
            initiator_task_tag: task.initiator_task_tag,
            sn: self.take_sn(),
            // RFC 7143 11.4.8: the number of Data-In PDUs; zero after a write, regardless of R2Ts.
            exp_data_sn: data_pdus,
            bidi_residual,
            residual,
            sense,
            ..ScsiResponse::default()
        };
        self.push(&response);
    }

    /// Sends data in PDUs of at most the initiator's MaxRecvDataSegmentLength, in sequences of at
    /// most MaxBurstLength. Returns the number of PDUs.
    ///
    /// RFC 7143 11.7.1: for incoming data, the F bit is 1 for the last input (read) data PDU of a
    /// sequence. Input can be split into several sequences, each having its own F bit.
    fn send_data(
        &mut self,
        task: &Task,
        mut data: PayloadChain,
        digests: &[u32],
        status: Option<(u8, Residual)>,
    ) -> u32 {
        let burst = self.parameters.max_burst_length as usize;
        let (mut data_sn, mut offset) = (0, 0u32);
        // R2Ts and Data-In PDUs of a command share one numbering (RFC 7143 11.7.5).
        let first_sn = task.inbound.r2t_count();
        for (index, length) in self.division().lengths(data.len()).enumerate() {
            let last = length == data.len();
            let ends_burst = (offset as usize + length).is_multiple_of(burst);
            let status = status.filter(|_| last);
            let sn = if status.is_some() { self.take_sn() } else { self.sn() };
            let pdu = DataIn {
                final_: last || ends_burst,
                status,
                lun: task.lun,
                initiator_task_tag: task.initiator_task_tag,
                sn,
                data_sn: first_sn + data_sn,
                buffer_offset: offset,
                ..DataIn::default()
            };
            let digest = digests.get(index).copied();
            self.output.push_parts(pdu.bhs(), &pdu.ahs(), length, data.split_to(length), digest);
            data_sn += 1;
            offset += len_u32(length);
        }
        data_sn
    }
}
