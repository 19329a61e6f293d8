//! A sparse drive image. A copy costs one table, because chunks are shared.

use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a sector: the drive writes each one entirely or not at all.
pub const SECTOR: usize = types::SECTOR_BYTES as usize;
const CHUNK: usize = 32 << 10;

/// Bytes by address. Unwritten bytes read as zeros or as garbage.
#[derive(Clone, Default)]
pub(super) struct Image {
    chunks: HashMap<u64, Arc<[u8; CHUNK]>>,
    /// Seed of the garbage; 0 for zeros.
    garbage: u64,
}

impl Image {
    pub(super) fn new(garbage: u64) -> Self {
        Self { chunks: HashMap::new(), garbage }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (chunk, at, part) in parts(offset, buffer.len()) {
            match self.chunks.get(&chunk) {
                Some(held) => buffer[part.clone()].copy_from_slice(&held[at..at + part.len()]),
                None => buffer[part.clone()].copy_from_slice(&self.unwritten(chunk)[at..at + part.len()]),
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for (chunk, at, part) in parts(offset, data.len()) {
            let unwritten = if self.chunks.contains_key(&chunk) { None } else { Some(Arc::new(self.unwritten(chunk))) };
            let held = match unwritten {
                Some(fresh) => self.chunks.entry(chunk).or_insert(fresh),
                None => match self.chunks.get_mut(&chunk) {
                    Some(held) => held,
                    None => continue,
                },
            };
            Arc::make_mut(held)[at..at + part.len()].copy_from_slice(&data[part]);
        }
    }

    /// Returns unwritten bytes. Every word differs, so no code mistakes them for its own data.
    fn unwritten(&self, chunk: u64) -> [u8; CHUNK] {
        let mut bytes = [0; CHUNK];
        if self.garbage != 0 {
            let mut word = self.garbage ^ chunk.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            for place in bytes.chunks_exact_mut(8) {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        bytes
    }
}

/// Splits an access by chunk: (chunk, offset in it, range in the caller's buffer).
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let address = offset + done as u64;
        let at = (address % CHUNK as u64) as usize;
        let part = done..len.min(done + CHUNK - at);
        done = part.end;
        Some((address / CHUNK as u64, at, part))
    })
}
