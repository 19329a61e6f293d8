//! Reads and writes little-endian numbers and byte strings.

use bytes::{Buf, BufMut, Bytes};

/// Appends the length in 32 bits, then the bytes. Keys and values are at most 1 MiB long.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

pub(crate) fn take(input: &mut Bytes, length: usize) -> Option<Bytes> {
    (input.len() >= length).then(|| input.split_to(length))
}

pub(crate) fn get_u32(input: &mut Bytes) -> Option<u32> {
    take(input, 4).map(|mut bytes| bytes.get_u32_le())
}

pub(crate) fn get_u64(input: &mut Bytes) -> Option<u64> {
    take(input, 8).map(|mut bytes| bytes.get_u64_le())
}

pub(crate) fn get_bytes(input: &mut Bytes) -> Option<Bytes> {
    let length = get_u32(input)?;
    // Copied, so that a small value does not keep the whole manifest in memory.
    take(input, length as usize).map(|bytes| Bytes::copy_from_slice(&bytes))
}
