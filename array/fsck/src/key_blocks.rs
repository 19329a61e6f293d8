//! Checks the copies of the key block.

use crate::finding::{Finding, FsckFindings, Severity, Structure};
use ondisk::{KEY_BLOCK_BYTES, KEY_BLOCK_COPIES, KeyBlock, SUPERBLOCK_QUORUM, key_block_offset};
use platform::{DURABLE_ALIGNMENT, Disk, Durability};

/// Content of a place.
enum Copy {
    Blank,
    Valid(KeyBlock),
    Bad(String),
}

/// Reports copies that are damaged or differ. If `repair` is set, rewrites the damaged ones from a
/// valid one, or with zeros if the array is not encrypted.
pub(crate) fn check(disk: &dyn Disk, repair: bool, findings: &FsckFindings) {
    let copies: [Copy; KEY_BLOCK_COPIES] = std::array::from_fn(|copy| read(disk, copy));
    let valid = copies.iter().filter_map(|copy| if let Copy::Valid(block) = copy { Some(block) } else { None });
    let newest = valid.max_by_key(|block| block.sequence);
    let blank = copies.iter().filter(|copy| matches!(copy, Copy::Blank)).count();
    if newest.is_none() && blank < SUPERBLOCK_QUORUM {
        return findings.add(
            Finding::new(Severity::Damage, Structure::KeyBlock, "key block")
                .what("no copy is valid")
                .meaning("An encrypted array cannot be read without its key.")
                .advice("Restore the first 64 KiB of the drive from a copy."),
        );
    }
    for (number, copy) in copies.iter().enumerate() {
        let (severity, what) = match (copy, newest) {
            (Copy::Blank, None) => continue,
            (Copy::Valid(block), Some(newest)) if block == newest => continue,
            (Copy::Valid(_), _) => (Severity::Note, "it is older than another copy".to_owned()),
            (Copy::Blank, Some(_)) => (Severity::Redundancy, "it is blank".to_owned()),
            (Copy::Bad(what), _) => (Severity::Redundancy, what.clone()),
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
        Ok(()) => KeyBlock::decode(&bytes).map_or_else(
            || Copy::Bad("its checksum does not match, or it holds invalid values".to_owned()),
            Copy::Valid,
        ),
    }
}
