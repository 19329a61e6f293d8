//! Checks the owner block.

use crate::finding::{Finding, FsckFindings, Severity, Structure};
use ondisk::{OWNER_BYTES, OWNER_OFFSET, OwnerBlock};
use platform::{Disk, Durability};

/// Reports an owner block that is neither valid nor blank, and writes a blank one if `repair` is
/// set. The caller has made sure that no array uses the drive.
pub(crate) fn check(disk: &dyn Disk, repair: bool, findings: &FsckFindings) {
    let mut bytes = [0; OWNER_BYTES];
    let what = match disk.read_at(OWNER_OFFSET, &mut bytes) {
        Ok(()) if bytes == [0; OWNER_BYTES] || OwnerBlock::decode(&bytes).is_some() => return,
        Ok(()) => "its checksum does not match, or it holds invalid values".to_owned(),
        Err(error) => format!("it cannot be read ({error})"),
    };
    let mut finding = Finding::new(Severity::Redundancy, Structure::Owner, "owner block")
        .at(OWNER_OFFSET, OWNER_BYTES as u64)
        .what(what)
        .meaning("Nothing is lost. It shows other machines whether the array is in use.")
        .advice("Start the array or run `ibid fsck --repair` to rewrite it.");
    finding.is_repaired = repair && disk.write_at(OWNER_OFFSET, &[&[0; OWNER_BYTES]], Durability::Durable).is_ok();
    findings.add(finding);
}
