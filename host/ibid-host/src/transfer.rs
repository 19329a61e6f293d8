//! Reports how a copy transferred its data: on the terminal and in the host's log.

use crate::failure::Failure;
use crate::out::outln;
use esxi_host::EsxiHost;
use virtual_disk::CopyReport;

/// Returns how the data of a copy was transferred, and the reason if the array did not copy all of
/// it.
fn describe(report: &CopyReport) -> String {
    match (report.by_host, report.work.xcopy.commands) {
        (None, 0) => "Nothing copied: the source has no data".to_owned(),
        (None, commands) => format!("Offloaded: {commands} XCOPY commands"),
        (Some(why), _) => format!("Not offloaded: {why}"),
    }
}

/// Prints how the data of a copy was transferred, and adds it to the host's log. `what` names the
/// copy.
pub(crate) fn report_transfer(host: &EsxiHost, what: &str, report: &CopyReport) -> Result<(), Failure> {
    outln!("{}", describe(report));
    log_transfer(host, what, report)
}

/// Does the same for a command with ESXi's output, which has no line for an offloaded copy.
pub(crate) fn report_host_copy(host: &EsxiHost, what: &str, report: &CopyReport) -> Result<(), Failure> {
    if report.by_host.is_some() {
        outln!("{}", describe(report));
    }
    log_transfer(host, what, report)
}

fn log_transfer(host: &EsxiHost, what: &str, report: &CopyReport) -> Result<(), Failure> {
    let way = match report.by_host {
        None => format!("{} XCOPY commands", report.work.xcopy.commands),
        Some(why) => format!("software data mover: {why}"),
    };
    Ok(host.log(&format!("FSDisk: {what}: {way}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtual_disk::HostCopyReason;

    #[test]
    fn reason_of_a_host_copy_is_in_the_log() {
        let host = EsxiHost::transient("esx01").unwrap();
        let mut report = CopyReport::default();
        assert_eq!(describe(&report), "Nothing copied: the source has no data");
        report.work.xcopy.commands = 7;
        report_transfer(&host, "clone of a to b", &report).unwrap();
        assert_eq!(describe(&report), "Offloaded: 7 XCOPY commands");
        report.by_host = Some(HostCopyReason::SwitchedOff);
        assert_eq!(describe(&report), "Not offloaded: /DataMover/HardwareAcceleratedMove is 0");
        report_host_copy(&host, "clone of a to c", &report).unwrap();
        let log = host.recent_log().unwrap();
        assert!(log[0].ends_with(")FSDisk: clone of a to b: 7 XCOPY commands"));
        assert!(log[1].ends_with("clone of a to c: software data mover: /DataMover/HardwareAcceleratedMove is 0"));
    }
}
