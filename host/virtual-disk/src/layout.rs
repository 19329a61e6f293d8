//! Where the bytes of files lie on devices, and how two files that lie differently are walked together.

use multipath::CopyRun;

/// A run of a file's bytes that lie in one piece on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Where in the file, in bytes.
    pub(crate) offset: u64,
    /// How many bytes: whole device blocks.
    pub(crate) bytes: u64,
    /// The device's first block.
    pub(crate) lba: u64,
}

impl Placed {
    /// The end in the file.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// The part of this run from `offset`, of at most `bytes`; `block_bytes` is the device's block.
    pub(crate) fn part(&self, offset: u64, bytes: u64, block_bytes: u64) -> Self {
        let skipped = offset.saturating_sub(self.offset).min(self.bytes);
        Self {
            offset: self.offset + skipped,
            bytes: bytes.min(self.bytes - skipped),
            lba: self.lba + skipped / block_bytes,
        }
    }
}

/// The same bytes of two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joint {
    /// Where in both files, in bytes.
    pub(crate) offset: u64,
    /// How many bytes.
    pub(crate) bytes: u64,
    /// The source device's first block.
    pub(crate) source: u64,
    /// The destination device's first block.
    pub(crate) destination: u64,
}

/// Pieces, each in one run at both ends, of what both files have. Both lists are in the order of their offsets.
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

/// Cuts joints into the runs of commands: each command at most `most_bytes` and `most_runs` runs.
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
