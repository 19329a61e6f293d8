//! Checks the copies of the key block.

use crate::finding::{Finding, FsckFindings, Severity, Structure};
use ondisk::{KEY_BLOCK_BYTES, KEY_BLOCK_COPIES, KeyBlock, SUPERBLOCK_QUORUM, key_block_offset};
use platform::{DURABLE_ALIGNMENT, Disk, Durability};

const INVALID: &str = "its checksum does not match, or it holds invalid values";

/// Content of a place.
enum Copy {
    Blank,
    Valid(KeyBlock),
    Bad(String),
    /// Damaged, or of another version.
    Remains,
}

/// Reports copies that are damaged or differ. If `repair` is set, rewrites the damaged ones from a
/// valid one, or with zeros if the array is not encrypted.
pub(crate) fn check(disk: &dyn Disk, repair: bool, findings: &FsckFindings) {
    let copies: [Copy; KEY_BLOCK_COPIES] = std::array::from_fn(|copy| read(disk, copy));
    let valid = copies.iter().filter_map(|copy| if let Copy::Valid(block) = copy { Some(block) } else { None });
    let newest = valid.max_by_key(|block| block.sequence);
    let blank = copies.iter().filter(|copy| matches!(copy, Copy::Blank)).count();
    let has_remains = copies.iter().any(|copy| matches!(copy, Copy::Remains));
    if newest.is_none() && (blank < SUPERBLOCK_QUORUM || has_remains) {
        return findings.add(
            Finding::new(Severity::Damage, Structure::KeyBlock, "key block")
                .what("no copy is valid, or of a version that this program knows")
                .meaning("An encrypted array cannot be read without its key.")
                .advice("Restore one copy of the key block: the guide to backups has the command."),
        );
    }
    for (number, copy) in copies.iter().enumerate() {
        let (severity, what) = match (copy, newest) {
            (Copy::Blank, None) => continue,
            (Copy::Valid(block), Some(newest)) if block == newest => continue,
            (Copy::Valid(_), _) => (Severity::Note, "it is older than another copy".to_owned()),
            (Copy::Blank, Some(_)) => (Severity::Redundancy, "it is blank".to_owned()),
            (Copy::Bad(what), _) => (Severity::Redundancy, what.clone()),
            (Copy::Remains, _) => (Severity::Redundancy, INVALID.to_owned()),
        };
        let place = key_block_offset(number);
        let mut finding = Finding::new(severity, Structure::KeyBlock, format!("copy {number} of the key block"))
            .at(place, KEY_BLOCK_BYTES as u64)
            .what(what);
        finding = match (severity, newest) {
            (Severity::Note, _) => finding
                .meaning("A change of the passphrase was interrupted, so the former one may still open the array.")
                .advice("Start the array with the passphrase to keep; that ends the other one."),
            (_, Some(_)) => finding
                .meaning("Nothing is lost while another copy is good.")
                .advice("Start the array or run `ibid fsck --repair` to rewrite it."),
            (_, None) => finding
                .meaning("The array is not encrypted, so the place should be blank. Nothing is lost.")
                .advice("Run `ibid fsck --repair` to clear it."),
        };
        if repair && severity == Severity::Redundancy {
            let mut bytes = [0; DURABLE_ALIGNMENT as usize];
            if let Some(newest) = newest {
                bytes[..KEY_BLOCK_BYTES].copy_from_slice(&newest.encode());
            }
            finding.is_repaired = disk.write_at(place, &[&bytes], Durability::Durable).is_ok();
        }
        findings.add(finding);
    }
}

fn read(disk: &dyn Disk, copy: usize) -> Copy {
    let mut bytes = [0; KEY_BLOCK_BYTES];
    match disk.read_at(key_block_offset(copy), &mut bytes) {
        Err(error) => Copy::Bad(format!("it cannot be read ({error})")),
        Ok(()) if bytes == [0; KEY_BLOCK_BYTES] => Copy::Blank,
        Ok(()) if KeyBlock::has_magic(&bytes) => KeyBlock::decode(&bytes).map_or(Copy::Remains, Copy::Valid),
        Ok(()) => Copy::Bad(INVALID.to_owned()),
    }
}
