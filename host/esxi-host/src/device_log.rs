//! The lines of vmkernel.log about commands and paths of a device, as ESXi writes them.

use crate::log::Log;
use multipath::{CommandFault, DeviceEvent, DeviceLog, FailedCommand};
use std::fmt;
use std::sync::Arc;

/// Number of the world that sends commands; the host has one.
const WORLD: u32 = 33_124;

/// Writes the events of one device to the host's log.
pub(crate) struct DeviceLines {
    log: Arc<Log>,
    device: String,
    /// Runtime names of the paths.
    paths: Vec<String>,
}

impl DeviceLines {
    pub(crate) fn new(log: &Arc<Log>, device: &str, paths: Vec<String>) -> Self {
        Self { log: Arc::clone(log), device: device.to_owned(), paths }
    }

    fn path(&self, index: usize) -> &str {
        self.paths.get(index).map_or("", String::as_str)
    }

    /// Returns the lines of an event.
    fn lines(&self, event: &DeviceEvent) -> Vec<String> {
        let device = &self.device;
        match event {
            DeviceEvent::CommandFailed(command) => self.failed(command),
            DeviceEvent::Repeated(times) => vec![format!(
                "NMP: nmp_ThrottleLogForDevice:3231: last error status from device {device} repeated {times} times"
            )],
            DeviceEvent::PathDead { path } => vec![connection(self.path(*path), "Stop", "OFFLINE")],
            DeviceEvent::PathAlive { path } => vec![connection(self.path(*path), "Start", "ONLINE")],
            DeviceEvent::AllPathsDown => vec![
                format!("StorageApdHandler: 248: APD Timer started for ident [{device}]"),
                format!(
                    "StorageApdHandler: 414: Device or filesystem with identifier [{device}] has entered the All Paths \
                     Down state."
                ),
            ],
            DeviceEvent::AllPathsDownTimeout(time) => vec![format!(
                "StorageApdHandler: 606: Device or filesystem with identifier [{device}] has entered the All Paths Down \
                 Timeout state after being in the All Paths Down state for {} seconds. I/Os will now be fast failed.",
                time.as_secs()
            )],
            DeviceEvent::PathsRestored => vec![
                format!("StorageApdHandler: 265: APD Timer killed for ident [{device}]"),
                format!(
                    "StorageApdHandler: 856: Device or filesystem with identifier [{device}] has exited the All Paths \
                     Down state."
                ),
            ],
        }
    }

    /// Returns the line of the path layer, and that of the device if the command is not repeated.
    fn failed(&self, command: &FailedCommand) -> Vec<String> {
        let FailedCommand { opcode, number, path, fault, retried } = *command;
        let (device, codes) = (&self.device, codes(fault));
        let action = if fault == CommandFault::PathLost { "EVAL" } else { "NONE" };
        // ESXi identifies a command by its address.
        let address = 0x4395_0000_0000 + number * 0x40;
        let mut lines = vec![format!(
            "NMP: nmp_ThrottleLogForDevice:3298: Cmd {opcode:#04x} ({address:#x}, {WORLD}) to dev \"{device}\" on path \
             \"{}\" Failed: {codes}. Act:{action}",
            self.path(path)
        )];
        if !retried {
            lines.push(format!(
                "ScsiDeviceIO: 2338: Cmd({address:#x}) {opcode:#04x}, CmdSN {number:#x} from world {WORLD} to dev \
                 \"{device}\" failed {codes}."
            ));
        }
        lines
    }
}

/// Returns the status of host, device and plug-in, and the sense data.
fn codes(fault: CommandFault) -> String {
    let (host, status, sense) = match fault {
        CommandFault::Check(key, code, qualifier) => (0, 2, Some((key, code, qualifier))),
        CommandFault::Status(status) => (0, status, None),
        // VMK_SCSI_HOST_ERROR and VMK_SCSI_HOST_NO_CONNECT.
        CommandFault::TargetFailure => (7, 0, None),
        CommandFault::PathLost => (1, 0, None),
    };
    let (known, (key, code, qualifier)) =
        (if sense.is_some() { "Valid" } else { "Possible" }, sense.unwrap_or_default());
    format!("H:{host:#x} D:{status:#x} P:0x0 {known} sense data: {key:#x} {code:#x} {qualifier:#x}")
}

/// Returns the line about the session of a path `vmhba64:C0:T1:L2`.
fn connection(path: &str, verb: &str, state: &str) -> String {
    let mut parts = path.split(':');
    let adapter = parts.next().unwrap_or_default();
    let mut number = || parts.next().and_then(|part| part.get(1..)).unwrap_or("0").to_owned();
    let (channel, target) = (number(), number());
    format!(
        "iscsi_vmk: iscsivmk_{verb}Connection: {adapter}:CH:{channel} T:{target} CN:0: iSCSI connection is being marked \
         \"{state}\""
    )
}

impl fmt::Debug for DeviceLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLines").field("device", &self.device).finish_non_exhaustive()
    }
}

impl DeviceLog for DeviceLines {
    fn record(&self, event: &DeviceEvent) {
        for line in self.lines(event) {
            // A full disk must not end the access to the device.
            let _ = self.log.line(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn lines(event: &DeviceEvent) -> Vec<String> {
        let log = Arc::new(Log::new(None));
        let paths = vec!["vmhba64:C0:T0:L1".to_owned(), "vmhba65:C3:T2:L1".to_owned()];
        let lines = DeviceLines::new(&log, "naa.1", paths);
        lines.record(event);
        let recorded = log.recent().unwrap();
        recorded.iter().map(|line| line.split_once(')').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn failed_commands_have_the_text_of_esxi() {
        let command = |fault, retried| {
            DeviceEvent::CommandFailed(FailedCommand { opcode: 0x89, number: 5, path: 1, fault, retried })
        };
        let miscompare = CommandFault::Check(0xe, 0x1d, 0);
        assert_eq!(
            lines(&command(miscompare, false)),
            [
                "NMP: nmp_ThrottleLogForDevice:3298: Cmd 0x89 (0x439500000140, 33124) to dev \"naa.1\" on path \
                 \"vmhba65:C3:T2:L1\" Failed: H:0x0 D:0x2 P:0x0 Valid sense data: 0xe 0x1d 0x0. Act:NONE",
                "ScsiDeviceIO: 2338: Cmd(0x439500000140) 0x89, CmdSN 0x5 from world 33124 to dev \"naa.1\" failed \
                 H:0x0 D:0x2 P:0x0 Valid sense data: 0xe 0x1d 0x0.",
            ]
        );
        let conflict = lines(&command(CommandFault::Status(0x18), true));
        assert_eq!(conflict.len(), 1);
        assert!(conflict[0].contains("H:0x0 D:0x18 P:0x0 Possible sense data: 0x0 0x0 0x0. Act:NONE"));
        let lost = lines(&command(CommandFault::PathLost, true));
        assert!(lost[0].contains("H:0x1 D:0x0 P:0x0 Possible sense data: 0x0 0x0 0x0. Act:EVAL"));
    }

    #[test]
    fn path_events_have_the_text_of_esxi() {
        assert_eq!(
            lines(&DeviceEvent::PathDead { path: 1 }),
            ["iscsi_vmk: iscsivmk_StopConnection: vmhba65:CH:3 T:2 CN:0: iSCSI connection is being marked \"OFFLINE\""]
        );
        let down = lines(&DeviceEvent::AllPathsDown);
        assert!(down[1].ends_with("identifier [naa.1] has entered the All Paths Down state."), "{down:?}");
        let timeout = lines(&DeviceEvent::AllPathsDownTimeout(Duration::from_secs(140)));
        assert!(timeout[0].ends_with("for 140 seconds. I/Os will now be fast failed."), "{timeout:?}");
        let up = lines(&DeviceEvent::PathsRestored);
        assert_eq!(up[0], "StorageApdHandler: 265: APD Timer killed for ident [naa.1]");
    }
}
