//! Determines which offloads a device supports by commands that change nothing.

use super::{IscsiDisk, Replay};
use crate::error::DeviceError;
use crate::vaai::{Primitive, Support};
use initiator::{Payload, Request};
use scsi::{Cdb, SenseKey, asc};

impl IscsiDisk {
    /// Determines the support of the offloads that the host has not used yet. An offload whose
    /// command gets no answer stays unknown.
    pub async fn probe_support(&self) {
        for primitive in Primitive::ALL {
            if self.vaai.lock().of(primitive).support != Support::Unknown {
                continue;
            }
            let result = self.run(self.null_command(primitive), Replay::Harmless).await;
            if let Some(supported) = answer_of(&result.map(drop)) {
                self.vaai.lock().learn(primitive, supported);
            }
        }
    }

    /// Returns a command of the offload without effect: SBC-4 5.3 (no blocks), SPC-4 6.4.1 and
    /// SBC-4 5.28 (no parameter list), and a WRITE SAME after the last block.
    fn null_command(&self, primitive: Primitive) -> Request {
        let mut cdb = [0; 16];
        let mut payload = Payload::None;
        match primitive {
            Primitive::Ats => cdb[0] = 0x89,
            Primitive::Clone => cdb[0] = 0x83,
            Primitive::Delete => cdb[0] = 0x42,
            Primitive::Zero => {
                cdb[0] = 0x93;
                cdb[2..10].copy_from_slice(&self.identity.blocks.to_be_bytes());
                cdb[13] = 1;
                payload = Payload::Out(vec![0; self.unit.block_bytes as usize].into());
            }
        }
        Request { lun: self.unit.lun, cdb: Cdb(cdb), payload }
    }
}

/// Returns whether the answer to a command without effect shows support; `None` if there is none.
fn answer_of(result: &Result<(), DeviceError>) -> Option<bool> {
    match result {
        Ok(()) | Err(DeviceError::OutOfRange { .. }) => Some(true),
        Err(DeviceError::Check(sense)) if sense.is(SenseKey::IllegalRequest, asc::INVALID_COMMAND_OPERATION_CODE) => {
            Some(false)
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::Sense;

    #[test]
    fn answers_show_support() {
        assert_eq!(answer_of(&Ok(())), Some(true));
        assert_eq!(answer_of(&Err(DeviceError::OutOfRange { lba: 9 })), Some(true));
        let unknown = Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE);
        assert_eq!(answer_of(&Err(DeviceError::Check(unknown))), Some(false));
        assert_eq!(answer_of(&Err(DeviceError::PathsDown)), None);
    }
}
