//! The four copies of the superblock.

use crate::finding::{Finding, FsckFindings, Severity, Structure};
use ondisk::{SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, SuperblockError, superblock_offset};
use platform::{Disk, Durability};

const MAGIC: &[u8] = b"IBIDSUP\0";
const CRC_AT: usize = 4080;

/// Reads the copies. One that cannot be read is told as its error.
fn read(disk: &dyn Disk) -> [Result<Vec<u8>, String>; SUPERBLOCK_COPIES] {
    std::array::from_fn(|copy| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        disk.read_at(superblock_offset(copy), &mut bytes).map(|()| bytes).map_err(|error| error.to_string())
    })
}

/// The superblock that counts; what is wrong with the copies that do not hold it is told, and they are written again when that is
/// wanted.
pub(crate) fn check(disk: &dyn Disk, repair: bool, findings: &FsckFindings) -> Result<Superblock, SuperblockError> {
    let read = read(disk);
    let copies = std::array::from_fn(|copy| read[copy].clone().unwrap_or_else(|_| vec![0; SUPERBLOCK_BYTES]));
    let chosen = Superblock::choose(&copies);
    for (copy, bytes) in read.iter().enumerate() {
        let Some((is_damaged, what)) = judge(copy, bytes, chosen.as_ref().ok()) else { continue };
        let severity = match (&chosen, is_damaged) {
            (Err(_), _) => Severity::Damage,
            (Ok(_), true) => Severity::Redundancy,
            (Ok(_), false) => Severity::Note,
        };
        let meaning = match (&chosen, is_damaged) {
            (Err(_), _) => "No two copies agree, so that nobody can tell which state of the array counts.",
            (Ok(_), true) => "The array is complete: other copies agree. One bad copy less is left to lose.",
            (Ok(_), false) => "A crash between the copies leaves this behind; the newest that two copies hold counts.",
        };
        let mut finding = Finding::new(severity, Structure::Superblock, format!("copy {copy} of the superblock"))
            .at(superblock_offset(copy), SUPERBLOCK_BYTES as u64)
            .what(what)
            .meaning(meaning);
        if let Ok(superblock) = &chosen {
            finding = finding.advice("The next start of the array writes it again, and so does --repair.");
            finding.is_repaired = repair
                && disk.write_at(superblock_offset(copy), &[&superblock.encode(copy)], Durability::Durable).is_ok();
        }
        findings.add(finding);
    }
    chosen
}

/// What is to be said of a copy, and whether it is damaged or only older. `None` for one that holds the chosen superblock.
fn judge(copy: usize, read: &Result<Vec<u8>, String>, chosen: Option<&Superblock>) -> Option<(bool, String)> {
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
        return Some((true, "it does not begin as a superblock does".to_owned()));
    }
    if field(CRC_AT, 4) != u64::from(crc32c::crc32c(&bytes[..CRC_AT])) {
        return Some((true, "its checksum does not hold".to_owned()));
    }
    if field(10, 2) != copy as u64 {
        return Some((true, format!("it says that it is copy {}", field(10, 2))));
    }
    let sequence = field(32, 8);
    match chosen {
        Some(superblock) if superblock.sequence == sequence => {
            Some((true, "the bytes behind its checksum are not zero".to_owned()))
        }
        Some(superblock) => {
            Some((false, format!("it names checkpoint {sequence}, and checkpoint {} counts", superblock.sequence)))
        }
        None => Some((true, format!("it is sound and names checkpoint {sequence}"))),
    }
}
