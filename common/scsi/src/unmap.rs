//! UNMAP parameter list (SBC-4 5.35).

use crate::be::{get_u16, get_u32, get_u64, to_u16};
use crate::inquiry::vpd::MAX_UNMAP_DESCRIPTORS;
use crate::sense::{Sense, asc};
use types::{BlockRange, Lba};

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;
/// Offset of UNMAP BLOCK DESCRIPTOR DATA LENGTH.
const DESCRIPTORS_LENGTH_AT: usize = 2;

/// Parses the ranges of an UNMAP parameter list, in order. Empty ranges are omitted; they are valid
/// (SBC-4 5.35.3).
///
/// An empty list unmaps nothing. A truncated header is an error. Descriptors that the header
/// announces beyond the end of the list, and a partial one at the end, are ignored.
pub fn parse_unmap(list: &[u8]) -> Result<Vec<BlockRange>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let Some((header, rest)) = list.split_at_checked(HEADER_BYTES) else {
        return Err(Sense::parameter_list_length());
    };
    let promised = usize::from(get_u16(header, DESCRIPTORS_LENGTH_AT));
    let (descriptors, _) = rest[..promised.min(rest.len())].as_chunks::<DESCRIPTOR_BYTES>();
    // A list of 65535 bytes cannot hold more: this check applies only if the limit is lowered.
    if descriptors.len() > MAX_UNMAP_DESCRIPTORS as usize {
        return Err(Sense::invalid_parameter(to_u16(DESCRIPTORS_LENGTH_AT), None));
    }
    let mut ranges = Vec::with_capacity(descriptors.len());
    for (place, descriptor) in descriptors.iter().enumerate() {
        let (lba, blocks) = (get_u64(descriptor, 0), get_u32(descriptor, 8));
        let range = BlockRange::new(Lba(lba), u64::from(blocks)).map_err(|_| lba_out_of_range(place, lba))?;
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    Ok(ranges)
}

/// Returns the sense for descriptor number `place`, whose range exceeds the end of the medium;
/// points at its LBA.
pub fn lba_out_of_range(place: usize, lba: u64) -> Sense {
    let byte = u16::try_from(HEADER_BYTES + DESCRIPTOR_BYTES * place).unwrap_or(u16::MAX);
    Sense::illegal(asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).with_information(lba).at_parameter(byte, None)
}

/// Encodes these ranges: at most FFFFFFFFh blocks each, and at most [`MAX_UNMAP_DESCRIPTORS`]
/// ranges.
pub fn build_unmap(ranges: &[BlockRange]) -> Vec<u8> {
    let descriptors = to_u16(ranges.len() * DESCRIPTOR_BYTES);
    let mut out = Vec::with_capacity(HEADER_BYTES + usize::from(descriptors));
    out.extend((descriptors + 6).to_be_bytes());
    out.extend(descriptors.to_be_bytes());
    out.extend([0; 4]);
    for range in ranges {
        out.extend(range.start().0.to_be_bytes());
        out.extend(u32::try_from(range.blocks()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend([0; 4]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(lba: u64, blocks: u64) -> BlockRange {
        BlockRange::new(Lba(lba), blocks).unwrap()
    }

    #[test]
    fn golden_list() {
        let list = build_unmap(&[range(0x0102, 0x0304)]);
        assert_eq!(list, [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0x03, 0x04, 0, 0, 0, 0]);
    }

    #[test]
    fn truncated_unmap_lists_follow_the_rules() {
        let list = build_unmap(&[range(8, 8), range(64, 8)]);
        assert_eq!(parse_unmap(&[]), Ok(vec![]));
        for length in 1..HEADER_BYTES {
            assert_eq!(parse_unmap(&list[..length]), Err(Sense::parameter_list_length()));
        }
        assert_eq!(parse_unmap(&list[..8]), Ok(vec![]));
        assert_eq!(parse_unmap(&list[..list.len() - 1]), Ok(vec![range(8, 8)]));
        // The header announces fewer descriptors than follow, and a partial one.
        let mut fewer = list;
        fewer[2..4].copy_from_slice(&17u16.to_be_bytes());
        assert_eq!(parse_unmap(&fewer), Ok(vec![range(8, 8)]));
    }

    #[test]
    fn unmap_beyond_the_address_space_is_refused() {
        let mut list = build_unmap(&[range(8, 8), range(0, 8)]);
        list[24..32].fill(0xff);
        assert_eq!(parse_unmap(&list), Err(lba_out_of_range(1, u64::MAX)));
        assert_eq!(
            lba_out_of_range(1, 5),
            Sense::illegal(asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).with_information(5).at_parameter(24, None)
        );
    }

    proptest! {
        #[test]
        fn unmap_ranges_round_trip(parts in proptest::collection::vec((0u64..1 << 50, any::<u32>()), 0..40)) {
            let ranges: Vec<_> = parts.iter().map(|(lba, blocks)| range(*lba, u64::from(*blocks))).collect();
            let filled: Vec<_> = ranges.iter().copied().filter(|r| !r.is_empty()).collect();
            prop_assert_eq!(parse_unmap(&build_unmap(&ranges)), Ok(filled));
        }

        #[test]
        fn arbitrary_unmap_lists_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_unmap(&bytes);
        }
    }
}
