//! Data of guests that can be checked: it depends on a seed and on the place of each sector.

use crate::failure::Failure;
use crate::vmfs::failed;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use testing::SplitMix64;
use virtual_disk::VirtualDisk;

/// Bytes of one request.
const STEP_BYTES: u64 = 1 << 20;
/// Concurrent requests.
const STEP_DEPTH: usize = 8;

/// Returns the data of a range, which depends on the seed and the offset. Both are multiples of
/// 512.
pub(super) fn data(seed: u64, offset: u64, bytes: u64) -> Bytes {
    let sectors = (offset / 512..(offset + bytes) / 512).map(|sector| {
        let mut random = SplitMix64::new(seed.rotate_left(32) ^ sector);
        (0..64).flat_map(move |_| random.next_u64().to_le_bytes())
    });
    sectors.flatten().collect::<Vec<u8>>().into()
}

/// Splits a range into requests.
fn requests(range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let end = range.end;
    range.step_by(STEP_BYTES as usize).map(move |at| (at, STEP_BYTES.min(end - at)))
}

/// Writes the data of a range; returns its bytes.
pub(super) async fn write(disk: &VirtualDisk, range: Range<u64>, seed: u64) -> Result<u64, Failure> {
    let written = stream::iter(requests(range)).map(|(at, bytes)| async move {
        disk.write(at, data(seed, at, bytes)).await.map_err(failed("write"))?;
        Ok::<u64, Failure>(bytes)
    });
    written.buffer_unordered(STEP_DEPTH).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
}

/// Reads a range and compares it with its data; returns its bytes.
pub(super) async fn verify(disk: &VirtualDisk, range: Range<u64>, seed: u64) -> Result<u64, Failure> {
    let compared = stream::iter(requests(range)).map(|(at, bytes)| async move {
        let found = disk.read(at, bytes).await.map_err(failed("read"))?;
        let expected = data(seed, at, bytes);
        match found.iter().zip(&expected).position(|(one, other)| one != other) {
            Some(first) => {
                Err(Failure::Wrong(format!("byte {} differs from the data of seed {seed}", at + first as u64)))
            }
            None => Ok(bytes),
        }
    });
    compared.buffer_unordered(STEP_DEPTH).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_depends_on_seed_and_offset_only() {
        let all = data(7, 0, 8192);
        assert_eq!(all[4096..], data(7, 4096, 4096)[..]);
        assert_ne!(all[..512], all[512..1024]);
        assert_ne!(all, data(8, 0, 8192));
    }
}
