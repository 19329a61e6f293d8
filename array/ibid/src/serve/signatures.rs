//! Recognises the content of a device that stores something other than an array.
//!
//! A device must be blank at both ends: file systems and partition tables have their signatures at
//! the start, a second GPT header and the metadata of many RAID formats are at the end.

/// Bytes at either end of a device that must be zero before an array is created on it.
pub(super) const CHECKED_BYTES: usize = 1 << 20;

const SECTORS: [usize; 2] = [512, 4096];
/// Magic number of a Linux RAID superblock (md), little-endian and big-endian.
const MD_MAGIC: [[u8; 4]; 2] = [0xa92b_4efc_u32.to_le_bytes(), 0xa92b_4efc_u32.to_be_bytes()];
/// Alignment of md superblocks: version 0.90 at 64 KiB, versions 1.x at 4 KiB.
const MD_STEP: usize = 4096;

/// Returns what the start of a device contains; `None` if it is blank.
pub(super) fn at_start(start: &[u8]) -> Option<&'static str> {
    if is_blank(start) {
        return None;
    }
    let has = |offset: usize, magic: &[u8]| start.get(offset..offset + magic.len()) == Some(magic);
    let known: [(&'static str, bool); 8] = [
        ("a damaged array", has(0, b"IBIDSUP\0") || has(16384, b"IBIDSUP\0") || has(8192, b"IBIDKEY\0")),
        ("a GPT partition table", SECTORS.iter().any(|at| has(*at, b"EFI PART"))),
        ("an LVM physical volume", (0..4).any(|sector| has(sector * 512, b"LABELONE"))),
        ("a RAID member (md)", has(0, &MD_MAGIC[0]) || has(MD_STEP, &MD_MAGIC[0])),
        ("an encrypted volume (LUKS)", has(0, b"LUKS\xba\xbe")),
        ("an XFS file system", has(0, b"XFSB")),
        ("an ext2, ext3 or ext4 file system", has(0x438, &[0x53, 0xEF])),
        ("a partition table or boot sector", has(510, &[0x55, 0xAA])),
    ];
    Some(known.into_iter().find(|(_, is_present)| *is_present).map_or("other data", |(name, _)| name))
}

/// Returns what the end of a device contains; `None` if it is blank. `size` is the size of the
/// device in bytes.
pub(super) fn at_end(end: &[u8], size: u64) -> Option<&'static str> {
    if is_blank(end) {
        return None;
    }
    let has = |offset: usize, magic: &[u8]| end.get(offset..offset + magic.len()) == Some(magic);
    if SECTORS.iter().any(|sector| end.len() >= *sector && has(end.len() - sector, b"EFI PART")) {
        return Some("the backup of a GPT partition table at its end");
    }
    let first = size - end.len() as u64;
    let mut aligned = (0..end.len()).filter(|at| (first + *at as u64).is_multiple_of(MD_STEP as u64));
    if aligned.any(|at| MD_MAGIC.iter().any(|magic| has(at, magic))) {
        return Some("the superblock of a RAID member (md) at its end");
    }
    Some("other data at its end")
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(offset: usize, magic: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; CHECKED_BYTES];
        bytes[offset..offset + magic.len()].copy_from_slice(magic);
        bytes
    }

    #[test]
    fn blank_ends_are_accepted() {
        assert_eq!((at_start(&with(0, b"")), at_end(&with(0, b""), 1 << 30)), (None, None));
    }

    #[test]
    fn content_at_the_start_is_named() {
        assert_eq!(at_start(&with(16384, b"IBIDSUP\0")), Some("a damaged array"));
        assert_eq!(at_start(&with(8192, b"IBIDKEY\0")), Some("a damaged array"));
        assert_eq!(at_start(&with(512, b"EFI PART")), Some("a GPT partition table"));
        assert_eq!(at_start(&with(0x438, &[0x53, 0xEF])), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(at_start(&with(512, b"LABELONE")), Some("an LVM physical volume"));
        assert_eq!(at_start(&with(CHECKED_BYTES - 1, &[1])), Some("other data"));
    }

    #[test]
    fn content_at_the_end_is_named() {
        let size = (1 << 30) + 512;
        let gpt = Some("the backup of a GPT partition table at its end");
        assert_eq!(at_end(&with(CHECKED_BYTES - 512, b"EFI PART"), size), gpt);
        assert_eq!(at_end(&with(CHECKED_BYTES - 4096, b"EFI PART"), size), gpt);
        let md = Some("the superblock of a RAID member (md) at its end");
        // Version 0.90 is in the last complete 64 KiB before the last 64 KiB of the device.
        let old = (size & !0xFFFF) - (64 << 10) - (size - CHECKED_BYTES as u64);
        assert_eq!(at_end(&with(old as usize, &MD_MAGIC[0]), size), md);
        // Version 1.0 is 8 KiB to 12 KiB before the end, at a multiple of 4 KiB.
        let new = ((size - 8192) & !0xFFF) - (size - CHECKED_BYTES as u64);
        assert_eq!(at_end(&with(new as usize, &MD_MAGIC[0]), size), md);
        assert_eq!(at_end(&with(old as usize + 1, &MD_MAGIC[0]), size), Some("other data at its end"));
        assert_eq!(at_end(&with(0, &[1]), size), Some("other data at its end"));
    }
}
