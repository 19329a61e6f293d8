//! Locations of file bytes on devices, and the merge of two different layouts.

use multipath::CopyRun;

/// A run of file bytes that is contiguous on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Number of bytes: whole device blocks.
    pub(crate) bytes: u64,
    /// First block on the device.
    pub(crate) lba: u64,
}

impl Placed {
    /// Returns the end in the file.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns the part of this run from `offset`, at most `bytes` long; `block_bytes` is the
    /// device's block size.
    pub(crate) fn part(&self, offset: u64, bytes: u64, block_bytes: u64) -> Self {
        let skipped = offset.saturating_sub(self.offset).min(self.bytes);
        Self {
            offset: self.offset + skipped,
            bytes: bytes.min(self.bytes - skipped),
            lba: self.lba + skipped / block_bytes,
        }
    }
}

/// A range of bytes that is contiguous in both files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joint {
    /// First byte in both files.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) bytes: u64,
    /// First block on the source device.
    pub(crate) source: u64,
    /// First block on the destination device.
    pub(crate) destination: u64,
}

/// Merges two lists of runs, ordered by offset, into ranges that are contiguous in both.
pub(crate) fn join(source: &[Placed], destination: &[Placed], block_bytes: u64) -> Vec<Joint> {
    let (mut joints, mut s, mut d) = (Vec::new(), 0, 0);
    while let (Some(from), Some(to)) = (source.get(s), destination.get(d)) {
        let (begin, end) = (from.offset.max(to.offset), from.end().min(to.end()));
        if begin < end {
            joints.push(Joint {
                offset: begin,
                bytes: end - begin,
                source: from.part(begin, end - begin, block_bytes).lba,
                destination: to.part(begin, end - begin, block_bytes).lba,
            });
        }
        if from.end() <= end {
            s += 1;
        }
        if to.end() <= end {
            d += 1;
        }
    }
    joints
}

/// Groups joints into commands of at most `most_bytes` bytes and `most_runs` runs each.
pub(crate) fn commands(joints: &[Joint], most_bytes: u64, most_runs: usize, block_bytes: u64) -> Vec<Vec<CopyRun>> {
    let (mut commands, mut runs, mut room) = (Vec::new(), Vec::new(), most_bytes);
    for joint in joints {
        let mut done = 0;
        while done < joint.bytes {
            let bytes = room.min(joint.bytes - done);
            let at = done / block_bytes;
            runs.push(CopyRun {
                source: joint.source + at,
                destination: joint.destination + at,
                blocks: bytes / block_bytes,
            });
            done += bytes;
            room -= bytes;
            if room == 0 || runs.len() == most_runs {
                commands.push(std::mem::take(&mut runs));
                room = most_bytes;
            }
        }
    }
    commands.extend((!runs.is_empty()).then_some(runs));
    commands
}

#[cfg(test)]
mod tests;
