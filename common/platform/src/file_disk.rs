//! A drive that is a file or a block device of the operating system.
//!
//! Volatile writes and most reads use the page cache; [`Disk::start_read`] bypasses it after
//! [`FileDisk::enable_direct_reads`]. Durable writes bypass it where the file system
//! allows that (`O_DIRECT`), so that a flush of the log does not wait for data that is being
//! destaged.

use crate::direct_reads::DirectReads;
use crate::disk::{DURABLE_ALIGNMENT, DirectRead, Disk, DiskError, Durability};
use crate::page_cache::{Residency, residency};
use parking_lot::Mutex;
use rustix::fs::{Advice, AtFlags, FallocateFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most parts of one vectored write (IOV_MAX).
const MAX_PARTS: usize = 1024;
/// Reads at which drives with many queues reach their rate. Others serve them in an order of their
/// own.
const PARALLEL_READS: usize = 128;
/// Size of the aligned buffers of durable writes, and the most that one write to the drive takes.
const BOUNCE_BYTES: usize = 1 << 20;
const MAX_BOUNCES: usize = 16;
/// Buffers that are kept for later writes.
const KEPT_BOUNCES: usize = 8;

/// The types of file systems in memory: tmpfs and ramfs (statfs(2)).
const MEMORY_MAGIC: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// Size of the blocks of [`FileDisk::read_uncached`] and [`FileDisk::write_uncached`], in bytes.
const UNCACHED_BYTES: usize = DURABLE_ALIGNMENT as usize;

/// A block in memory with the alignment that `O_DIRECT` needs.
#[repr(C, align(4096))]
struct AlignedBlock([u8; UNCACHED_BYTES]);

/// A buffer of [`BOUNCE_BYTES`] with that alignment.
struct Bounce(Vec<u8>);

impl Bounce {
    fn new() -> Self {
        Self(vec![0; BOUNCE_BYTES + DURABLE_ALIGNMENT as usize])
    }

    fn bytes(&self) -> &[u8] {
        let start = self.0.as_ptr().align_offset(DURABLE_ALIGNMENT as usize);
        &self.0[start..start + BOUNCE_BYTES]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(DURABLE_ALIGNMENT as usize);
        &mut self.0[start..start + BOUNCE_BYTES]
    }
}

/// A file or a block device.
///
/// A block device is opened exclusively (`O_EXCL`). While it is open, the system refuses to mount
/// it, to add it to a RAID or a volume group, and to open it exclusively through any device node.
pub struct FileDisk {
    cached: OwnedFd,
    direct: Option<OwnedFd>,
    is_block_device: bool,
    size: AtomicU64,
    /// The file system or the device cannot release space.
    keeps_space: AtomicBool,
    /// A flush has failed. The system reports a lost write to one flush only, so a later flush that
    /// succeeds proves nothing.
    has_lost_writes: AtomicBool,
    /// Buffers that no write uses.
    bounces: Mutex<Vec<Bounce>>,
    direct_reads: OnceLock<DirectReads>,
}

impl FileDisk {
    /// Opens an existing file or device with `size` addressable bytes. A shorter file is extended
    /// without using space; a device must hold that many (0: the whole device).
    pub fn open(path: &Path, size: u64) -> Result<Self, DiskError> {
        Self::with_flags(path, size, OFlags::RDWR)
    }

    /// Opens an existing file or device read-only: every write fails.
    pub fn open_read_only(path: &Path) -> Result<Self, DiskError> {
        Self::with_flags(path, 0, OFlags::RDONLY)
    }

    /// Creates a new file. Fails if the file exists.
    pub fn create(path: &Path, size: u64) -> Result<Self, DiskError> {
        let disk = Self::with_flags(path, size, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        // The directory entry must survive a power failure before any write to the file is
        // acknowledged.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = rustix::fs::open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(disk_error)?;
        rustix::fs::fsync(&folder).map_err(disk_error)?;
        Ok(disk)
    }

    fn with_flags(path: &Path, size: u64, flags: OFlags) -> Result<Self, DiskError> {
        // The meaning of O_EXCL without O_CREAT is defined for block devices only.
        let exclusive = if is_block_device(path) { OFlags::EXCL } else { OFlags::empty() };
        let cached =
            rustix::fs::open(path, flags | exclusive | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR).map_err(disk_error)?;
        let again = (flags | OFlags::CLOEXEC | OFlags::DIRECT).difference(OFlags::CREATE | OFlags::EXCL);
        let direct = rustix::fs::open(path, again, Mode::empty()).ok();
        let stat = rustix::fs::fstat(&cached).map_err(disk_error)?;
        let is_block_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        let disk = Self {
            cached,
            direct,
            is_block_device,
            size: AtomicU64::new(0),
            keeps_space: AtomicBool::new(false),
            has_lost_writes: AtomicBool::new(false),
            bounces: Mutex::new(vec![Bounce::new()]),
            direct_reads: OnceLock::new(),
        };
        let length = disk.length()?;
        let size = if size == 0 { length } else { size };
        disk.extend(size)?;
        disk.size.store(size, Ordering::Release);
        Ok(disk)
    }

    /// Extends the addressable range while the disk is in use. A file is extended without using
    /// space; a device must already be that large. The range never shrinks.
    pub fn grow(&self, size: u64) -> Result<(), DiskError> {
        self.extend(size)?;
        // The new length must survive a power failure before any write beyond the old end is
        // acknowledged. A failure may belong to any write, so later flushes fail as well.
        self.note_flush(rustix::fs::fsync(&self.cached))?;
        self.size.fetch_max(size, Ordering::AcqRel);
        Ok(())
    }

    /// Passes the result of a flush on. After a failure, every later flush fails.
    fn note_flush(&self, result: Result<(), Errno>) -> Result<(), DiskError> {
        if result.is_err() {
            self.has_lost_writes.store(true, Ordering::Release);
        }
        result.map_err(disk_error)
    }

    /// Returns true for a block device, false for a file.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// Lets [`Disk::start_read`] bypass the page cache from now on, for bytes that it does not
    /// hold.
    ///
    /// # Errors
    /// The part that the system lacks, as text.
    pub fn enable_direct_reads(&self) -> Result<(), String> {
        if self.direct_reads.get().is_some() {
            return Ok(());
        }
        let Some(direct) = &self.direct else { return Err("the file system refuses O_DIRECT".into()) };
        // Opens with O_DIRECT, and uses the page cache nevertheless, which is its storage.
        let is_memory = rustix::fs::fstatfs(direct).is_ok_and(|stat| MEMORY_MAGIC.contains(&(stat.f_type as u64)));
        if is_memory {
            return Err("the file system is in memory".into());
        }
        residency(&self.cached, 0, DURABLE_ALIGNMENT).map_err(|error| format!("cachestat: {error}"))?;
        let own = direct.try_clone().map_err(|error| format!("dup: {error}"))?;
        let started = DirectReads::start(own, direct_alignment(direct))?;
        // A second caller has started its own at the same time: the first one stays.
        let _ = self.direct_reads.set(started);
        Ok(())
    }

    /// Reads 4096 bytes from the medium, so that the result includes writes by other machines. Uses
    /// the page cache only on file systems without `O_DIRECT`.
    pub fn read_uncached(&self, offset: u64) -> Result<[u8; UNCACHED_BYTES], DiskError> {
        let mut block = Box::new(AlignedBlock([0; UNCACHED_BYTES]));
        let mut fd = self.direct.as_ref().unwrap_or(&self.cached);
        loop {
            match rustix::io::pread(fd, &mut block.0, offset) {
                Ok(UNCACHED_BYTES) => return Ok(block.0),
                Ok(_) => return Err(DiskError::Io(format!("4096 bytes at {offset} were read in part"))),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if !std::ptr::eq(fd, &self.cached) => fd = &self.cached,
                Err(error) => return Err(disk_error(error)),
            }
        }
    }

    /// Writes 4096 bytes to the medium, where other machines see them. Does not flush: a power
    /// failure may lose them. Shares no buffer or lock with the other writes.
    pub fn write_uncached(&self, offset: u64, bytes: &[u8; UNCACHED_BYTES]) -> Result<(), DiskError> {
        let block = Box::new(AlignedBlock(*bytes));
        let mut fd = self.direct.as_ref().unwrap_or(&self.cached);
        loop {
            match rustix::io::pwrite(fd, &block.0, offset) {
                Ok(UNCACHED_BYTES) => return Ok(()),
                Ok(_) => return Err(DiskError::Io(format!("4096 bytes at {offset} were written in part"))),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if !std::ptr::eq(fd, &self.cached) => fd = &self.cached,
                Err(error) => return Err(disk_error(error)),
            }
        }
    }

    fn extend(&self, size: u64) -> Result<(), DiskError> {
        let length = self.length()?;
        if length >= size {
            return Ok(());
        }
        if self.is_block_device {
            return Err(DiskError::Io(format!("the device holds {length} bytes, {size} are needed")));
        }
        rustix::fs::ftruncate(&self.cached, size).map_err(disk_error)
    }

    /// Current length of the file or device in bytes.
    fn length(&self) -> Result<u64, DiskError> {
        if self.is_block_device {
            return rustix::fs::seek(&self.cached, rustix::fs::SeekFrom::End(0)).map_err(disk_error);
        }
        Ok(rustix::fs::fstat(&self.cached).map_err(disk_error)?.st_size as u64)
    }

    /// Copies the parts into aligned buffers, and writes as many as possible at a time: each write
    /// costs a flush of the drive.
    fn write_durable(&self, mut offset: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        let mut parts = parts.iter().copied();
        let mut rest: &[u8] = &[];
        loop {
            let (mut bounces, mut filled) = (Vec::new(), 0);
            while bounces.len() < MAX_BOUNCES {
                let mut bounce = self.bounces.lock().pop().unwrap_or_else(Bounce::new);
                let taken = fill(bounce.bytes_mut(), &mut rest, &mut parts);
                bounces.push(bounce);
                filled += taken;
                if taken < BOUNCE_BYTES {
                    break;
                }
            }
            let result = if filled > 0 { self.write_through(offset, &bounces, filled) } else { Ok(()) };
            let is_last = filled < MAX_BOUNCES * BOUNCE_BYTES;
            let mut kept = self.bounces.lock();
            bounces.truncate(KEPT_BOUNCES.saturating_sub(kept.len()));
            kept.append(&mut bounces);
            drop(kept);
            result?;
            if is_last {
                return Ok(());
            }
            offset += filled as u64;
        }
    }

    fn write_through(&self, offset: u64, bounces: &[Bounce], bytes: usize) -> Result<(), DiskError> {
        let mut fd = self.direct.as_ref().unwrap_or(&self.cached);
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(bounces.len());
        for (bounce, start) in bounces.iter().zip((0..bytes).step_by(BOUNCE_BYTES)) {
            slices.push(IoSlice::new(&bounce.bytes()[..(bytes - start).min(BOUNCE_BYTES)]));
        }
        let (mut rest, mut done) = (&mut slices[..], 0);
        while done < bytes {
            match rustix::io::pwritev2(fd, rest, offset + done as u64, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(DiskError::Io("nothing was written".into())),
                Ok(count) => {
                    done += count;
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                // Some file systems open with O_DIRECT but need another alignment. Nothing was
                // written yet: retry through the page cache.
                Err(Errno::INVAL) if !std::ptr::eq(fd, &self.cached) => fd = &self.cached,
                Err(error) => return Err(disk_error(error)),
            }
        }
        Ok(())
    }
}

/// Moves bytes from the front of `rest` and then `parts` to the buffer. Returns their number, less
/// than the length of the buffer only at the end of the parts.
fn fill<'a>(buffer: &mut [u8], rest: &mut &'a [u8], parts: &mut impl Iterator<Item = &'a [u8]>) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        if rest.is_empty() {
            match parts.next() {
                Some(part) => *rest = part,
                None => break,
            }
            continue;
        }
        let (now, later) = rest.split_at(rest.len().min(buffer.len() - filled));
        buffer[filled..filled + now.len()].copy_from_slice(now);
        (*rest, filled) = (later, filled + now.len());
    }
    filled
}

impl Disk for FileDisk {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(&self.cached, &mut buffer[done..], offset + done as u64) {
                Ok(0) => return Err(DiskError::Io(format!("the file ends before byte {}", offset + done as u64))),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(disk_error(error)),
            }
        }
        Ok(())
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        let length = buffer.len();
        // The attempt would begin to read bytes into the page cache that are not there.
        if self.direct_reads.get().is_some()
            && length > 0
            && residency(&self.cached, offset, length as u64) != Ok(Residency::Whole)
        {
            return Ok(false);
        }
        match rustix::io::preadv2(&self.cached, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(count == length),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            // Some file systems do not support the flag: then any read may block.
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(disk_error(error)),
        }
    }

    fn start_read(&self, read: DirectRead) -> bool {
        let Some(direct) = self.direct_reads.get() else { return false };
        // A thread soon has bytes that are cached or being read ahead. Bytes that are not on the
        // drive yet would have to be written first.
        residency(&self.cached, read.offset, read.bytes as u64) == Ok(Residency::OnDrive) && direct.submit(read)
    }

    fn parallel_reads(&self) -> usize {
        PARALLEL_READS
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        // A hint: without support by the file system, later reads block.
        let _ = rustix::fs::fadvise(&self.cached, offset, NonZeroU64::new(bytes), Advice::WillNeed);
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert!(
            offset.checked_add(bytes as u64).is_some_and(|end| end <= self.size()),
            "write past the end of the drive"
        );
        if durability == Durability::Durable {
            assert!(offset.is_multiple_of(DURABLE_ALIGNMENT) && (bytes as u64).is_multiple_of(DURABLE_ALIGNMENT));
            return self.write_durable(offset, parts);
        }
        let mut at = offset;
        for parts in parts.chunks(MAX_PARTS) {
            let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut rest = &mut slices[..];
            // Skip empty parts first: a write of only those returns 0, which looks like no
            // progress.
            IoSlice::advance_slices(&mut rest, 0);
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.cached, rest, at) {
                    Ok(0) => return Err(DiskError::Io("nothing was written".into())),
                    Ok(count) => {
                        at += count as u64;
                        IoSlice::advance_slices(&mut rest, count);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(disk_error(error)),
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        if self.has_lost_writes.load(Ordering::Acquire) {
            return Err(DiskError::Io("an earlier flush failed".into()));
        }
        self.note_flush(rustix::fs::fdatasync(&self.cached))
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        if self.is_block_device {
            return Ok(());
        }
        loop {
            match rustix::fs::fallocate(&self.cached, FallocateFlags::empty(), offset, bytes) {
                Err(Errno::INTR) => {}
                // A file system without fallocate cannot reserve space; the write itself reports a
                // lack of it.
                Err(Errno::OPNOTSUPP) => return Ok(()),
                result => return result.map_err(disk_error),
            }
        }
    }

    fn discard(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        while !self.keeps_space.load(Ordering::Relaxed) {
            let result = match self.is_block_device {
                true => discard_blocks(&self.cached, offset, bytes),
                false => rustix::fs::fallocate(&self.cached, mode, offset, bytes),
            };
            match result {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => self.keeps_space.store(true, Ordering::Relaxed),
                result => return result.map_err(disk_error),
            }
        }
        Ok(())
    }
}

/// Returns the alignment of offsets and lengths of direct reads, in bytes.
fn direct_alignment(direct: &OwnedFd) -> u64 {
    let stat = rustix::fs::statx(direct, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let known = stat.ok().map(|stat| u64::from(stat.stx_dio_offset_align));
    known.filter(|bytes| bytes.is_power_of_two() && *bytes <= DURABLE_ALIGNMENT).unwrap_or(DURABLE_ALIGNMENT)
}

/// Discards a range of a block device.
#[allow(unsafe_code, reason = "rustix has no function for this request")]
fn discard_blocks(device: &OwnedFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    /// `BLKDISCARD` of `linux/fs.h`: _IO(0x12, 119).
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [offset, bytes];
    // SAFETY: the request reads two 64-bit numbers at the pointer, which lives longer than the
    // call.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD, &raw const range) };
    match outcome {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Reads a part of a file or device that another process may use. Takes no exclusive access.
pub fn peek(path: &Path, offset: u64, bytes: usize) -> Result<Vec<u8>, DiskError> {
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(disk_error)?;
    let mut buffer = vec![0; bytes];
    match rustix::io::pread(&fd, &mut buffer[..], offset).map_err(disk_error)? {
        count if count == bytes => Ok(buffer),
        count => Err(DiskError::Io(format!("{count} bytes of {bytes} at {offset} were read"))),
    }
}

fn is_block_device(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
}

fn disk_error(error: Errno) -> DiskError {
    match error {
        Errno::BUSY => DiskError::InUse,
        Errno::ACCESS | Errno::PERM => DiskError::Denied,
        Errno::NOSPC | Errno::DQUOT => DiskError::Full,
        other => DiskError::Io(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TemporaryDirectory;

    #[test]
    fn durable_writes_of_any_length_read_back() {
        let scratch = TemporaryDirectory::new(None, "file-disk-").unwrap();
        let disk = FileDisk::create(&scratch.path().join("array"), 64 << 20).unwrap();
        let all: Vec<u8> = (0..(33 << 20) + 4096).map(|at: u32| (at ^ at >> 9) as u8).collect();
        for length in [4096, BOUNCE_BYTES, MAX_BOUNCES * BOUNCE_BYTES, all.len()] {
            // Parts of odd lengths, one longer than all buffers, and empty ones.
            let (first, rest) = all[..length].split_at(length.min(1001));
            let parts: Vec<&[u8]> = [first, &[]].into_iter().chain(rest.chunks(17 << 20)).chain([&[][..]]).collect();
            disk.write_at(4096, &parts, Durability::Durable).unwrap();
            let mut read = vec![0; length];
            disk.read_at(4096, &mut read).unwrap();
            assert!(read == all[..length], "{length} bytes");
        }
    }

    #[test]
    fn flush_after_a_failed_one_fails() {
        let scratch = TemporaryDirectory::new(None, "file-disk-").unwrap();
        let disk = FileDisk::create(&scratch.path().join("array"), 64 << 10).unwrap();
        disk.flush().unwrap();
        assert!(disk.note_flush(Err(Errno::IO)).is_err());
        assert_eq!(disk.flush(), Err(DiskError::Io("an earlier flush failed".into())));
        assert!(disk.read_at(0, &mut [0; 8]).is_ok(), "reads are served");
    }

    #[test]
    fn discarded_range_of_a_file_takes_no_space() {
        let scratch = TemporaryDirectory::new(None, "file-disk-").unwrap();
        let disk = FileDisk::create(&scratch.path().join("array"), 8 << 20).unwrap();
        let blocks = || rustix::fs::fstat(&disk.cached).unwrap().st_blocks;
        disk.write_at(0, &[&[7; 4 << 20]], Durability::Volatile).unwrap();
        disk.flush().unwrap();
        let before = blocks();
        disk.discard(1 << 20, 2 << 20).unwrap();
        let is_released = blocks() <= before - 4096 || disk.keeps_space.load(Ordering::Relaxed);
        assert!(is_released, "2 MiB are 4096 blocks: {before}, then {}", blocks());
        let mut back = [0; 4096];
        disk.read_at((1 << 20) - 4096, &mut back).unwrap();
        assert_eq!(back, [7; 4096], "only the range is discarded");
        disk.write_at(1 << 20, &[&[8; 4096]], Durability::Volatile).unwrap();
        disk.read_at(1 << 20, &mut back).unwrap();
        assert_eq!((back, disk.size()), ([8; 4096], 8 << 20));
    }

    #[test]
    fn durable_and_volatile_writes_read_back() {
        let path = std::env::temp_dir().join(format!("ibid-file-disk-{}", std::process::id()));
        let disk = FileDisk::create(&path, 8 << 20).expect("a new file");
        assert!(FileDisk::create(&path, 8 << 20).is_err(), "an existing file is not overwritten");
        disk.allocate(0, 4 << 20).expect("space in the temporary folder");
        let (log, data) = (vec![7u8; 2 << 20], vec![9u8; 12345]);
        disk.write_at(4096, &[&log[..100], &log[100..]], Durability::Durable).unwrap();
        disk.write_at(5 << 20, &[&data], Durability::Volatile).unwrap();
        disk.flush().unwrap();
        let mut back = vec![0; log.len()];
        disk.read_at(4096, &mut back).unwrap();
        assert_eq!(back, log);
        let mut back = vec![0; data.len()];
        disk.read_at(5 << 20, &mut back).unwrap();
        assert_eq!(back, data);
        assert_eq!(disk.size(), 8 << 20);
        assert!(disk.read_at((8 << 20) - 1, &mut [0; 2]).is_err());
        disk.grow(16 << 20).unwrap();
        disk.grow(12 << 20).unwrap();
        assert_eq!(disk.size(), 16 << 20, "growing never shrinks the disk");
        disk.write_at((16 << 20) - 4096, &[&[7; 4096]], Durability::Durable).unwrap();
        assert!(!disk.is_block_device());
        disk.write_uncached(8192, &[5; 4096]).unwrap();
        assert_eq!(FileDisk::open_read_only(&path).unwrap().read_uncached(8192).unwrap(), [5; 4096]);
        assert_eq!(peek(&path, 8190, 4), Ok(vec![7, 7, 5, 5]));
        assert!(disk.read_uncached(16 << 20).is_err(), "after the end of the file");
        drop(disk);
        assert_eq!(FileDisk::open(&path, 0).unwrap().size(), 16 << 20);
        rustix::fs::unlink(&path).unwrap();
    }
}
