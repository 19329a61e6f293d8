//! Checks the four copies of the superblock.

use crate::finding::{Finding, FsckFindings, Severity, Structure};
use ondisk::{SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, SuperblockError, superblock_offset};
use platform::{Disk, Durability};

const MAGIC: &[u8] = b"IBIDSUP\0";
const CRC_AT: usize = 4080;

/// Reads the copies. A read error is returned as text.
fn read(disk: &dyn Disk) -> [Result<Vec<u8>, String>; SUPERBLOCK_COPIES] {
    std::array::from_fn(|copy| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        disk.read_at(superblock_offset(copy), &mut bytes).map(|()| bytes).map_err(|error| error.to_string())
    })
}

/// Returns the current superblock. Reports every copy that does not hold it, and rewrites these
/// copies if `repair` is set.
pub(crate) fn check(disk: &dyn Disk, repair: bool, findings: &FsckFindings) -> Result<Superblock, SuperblockError> {
    let read = read(disk);
    let copies = std::array::from_fn(|copy| read[copy].clone().unwrap_or_else(|_| vec![0; SUPERBLOCK_BYTES]));
    let chosen = Superblock::choose(&copies);
    for (copy, bytes) in read.iter().enumerate() {
        let Some((is_damaged, what)) = diagnose(copy, bytes, chosen.as_ref().ok()) else { continue };
        let severity = match (&chosen, is_damaged) {
            (Err(_), _) => Severity::Damage,
            (Ok(_), true) => Severity::Redundancy,
            (Ok(_), false) => Severity::Note,
        };
        let meaning = match (&chosen, is_damaged) {
            (Err(_), _) => "No two copies agree, so the current state of the array is unknown.",
            (Ok(_), true) => "Other copies agree, so nothing is lost. The redundancy is reduced.",
            (Ok(_), false) => {
                "This is normal after a crash between the writes of the copies. The newest state held by two copies is current."
            }
        };
        let mut finding = Finding::new(severity, Structure::Superblock, format!("copy {copy} of the superblock"))
            .at(superblock_offset(copy), SUPERBLOCK_BYTES as u64)
            .what(what)
            .meaning(meaning);
        if let Ok(superblock) = &chosen {
            finding = finding.advice("Start the array or run `ibid fsck --repair` to rewrite it.");
            // The good copies may be in a cache only: if power failed now, no two might agree.
            finding.is_repaired = repair
                && disk.flush().is_ok()
                && disk.write_at(superblock_offset(copy), &[&superblock.encode(copy)], Durability::Durable).is_ok();
        }
        findings.add(finding);
    }
    chosen
}

/// Describes the problem of a copy, and whether the copy is damaged or only older. Returns `None`
/// if it holds the chosen superblock.
fn diagnose(copy: usize, read: &Result<Vec<u8>, String>, chosen: Option<&Superblock>) -> Option<(bool, String)> {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => return Some((true, format!("it cannot be read ({error})"))),
    };
    if chosen.is_some_and(|superblock| superblock.encode(copy) == *bytes) {
        return None;
    }
    let field =
        |at: usize, length: usize| bytes[at..at + length].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    if bytes[..MAGIC.len()] != *MAGIC {
        return Some((true, "its magic number is wrong".to_owned()));
    }
    if field(CRC_AT, 4) != u64::from(crc32c::crc32c(&bytes[..CRC_AT])) {
        return Some((true, "its checksum does not match".to_owned()));
    }
    if field(10, 2) != copy as u64 {
        return Some((true, format!("it is labelled as copy {}", field(10, 2))));
    }
    let sequence = field(32, 8);
    match chosen {
        Some(superblock) if superblock.sequence == sequence => {
            Some((true, "the bytes after its checksum are not zero".to_owned()))
        }
        Some(superblock) => {
            Some((false, format!("it names checkpoint {sequence}, but checkpoint {} is current", superblock.sequence)))
        }
        None => Some((true, format!("it is intact and names checkpoint {sequence}"))),
    }
}
