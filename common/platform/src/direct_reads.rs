//! Reads of a file or device without the page cache, started by any thread and completed by one.
//!
//! They use Linux AIO (`io_submit`, `io_getevents`), which every kernel and every common sandbox
//! allows. A fixed number of aligned buffers bounds the reads under way.

mod aio;
mod buffers;

use crate::disk::{DURABLE_ALIGNMENT, DirectRead};
use aio::{Context, Event};
use buffers::Buffers;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Most reads under way.
const MAX_READS: usize = 128;
/// Longest read in bytes, rounded to the alignment of the drive.
const MAX_READ_BYTES: usize = (64 << 10) + DURABLE_ALIGNMENT as usize;
/// Completions that are taken from the kernel at a time.
const EVENTS: usize = 32;
/// The event of the eventfd that ends the thread; other events have the number of their buffer.
const STOP: u64 = u64::MAX;

/// The reads under way.
struct UnderWay {
    reads: Vec<Option<DirectRead>>,
    /// Numbers of buffers without a read. The last one was used last, so its memory is warm.
    free: Vec<usize>,
}

struct Shared {
    drive: OwnedFd,
    /// Alignment of offsets and lengths in bytes.
    alignment: u64,
    under_way: Mutex<UnderWay>,
    buffers: Buffers,
    context: Context,
    /// The drive has refused a read for its form. Later ones are refused at once.
    is_refusing: AtomicBool,
}

/// Starts reads, and owns the thread that completes them. The thread ends with this value.
pub(crate) struct DirectReads {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl DirectReads {
    /// Starts the thread, and reads the first block of the drive to prove that it works. `drive` is
    /// open with `O_DIRECT`.
    ///
    /// # Errors
    /// The call that failed, and why.
    pub(crate) fn start(drive: OwnedFd, alignment: u64) -> Result<Self, String> {
        let failed = |call: &'static str| move |error: Errno| format!("{call}: {error}");
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(failed("eventfd"))?);
        let buffers = Buffers::new(MAX_READS, MAX_READ_BYTES).map_err(failed("mmap"))?;
        let (sender, opened) = sync_channel(1);
        let for_thread = stop.clone();
        let run = move || serve(drive, alignment, buffers, &for_thread, &sender);
        let thread = std::thread::Builder::new().name("ibid-direct".into()).spawn(run);
        let thread = thread.map_err(|error| format!("thread not started: {error}"))?;
        let shared = opened.recv().map_err(|_| "its thread has ended".to_owned())?.map_err(failed("io_setup"))?;
        let direct = Self { shared, stop, thread: Some(thread) };
        direct.probe()?;
        Ok(direct)
    }

    fn probe(&self) -> Result<(), String> {
        let (sender, answer) = sync_channel(1);
        let done = move |_| {
            let _ = sender.send(());
        };
        let read = DirectRead { offset: 0, bytes: self.shared.alignment as usize, done: Box::new(done) };
        match self.shared.submit(read) {
            Err(error) => Err(format!("io_submit: {error}")),
            Ok(()) => match answer.recv() {
                Ok(()) if !self.shared.is_refusing.load(Ordering::Relaxed) => Ok(()),
                _ => Err("the drive refuses O_DIRECT".into()),
            },
        }
    }

    /// Starts a read. False if it is too long, if too many are under way, or if the drive refuses
    /// it.
    pub(crate) fn submit(&self, read: DirectRead) -> bool {
        !self.shared.is_refusing.load(Ordering::Relaxed) && self.shared.submit(read).is_ok()
    }
}

impl Drop for DirectReads {
    fn drop(&mut self) {
        // A counter that is not zero cannot overflow by 1, so this cannot fail.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let Some(thread) = self.thread.take() else { return };
        // The completion of a read may drop the last user of the drive.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// Opens the context, completes reads until `stop` is readable and none is under way, and destroys
/// the context.
fn serve(
    drive: OwnedFd,
    alignment: u64,
    buffers: Buffers,
    stop: &OwnedFd,
    opened: &SyncSender<Result<Arc<Shared>, Errno>>,
) {
    let context = match Context::new(MAX_READS + 1) {
        Ok(context) => context,
        Err(error) => return drop(opened.send(Err(error))),
    };
    if let Err(error) = context.poll(stop, STOP) {
        context.destroy();
        return drop(opened.send(Err(error)));
    }
    let under_way = UnderWay { reads: (0..MAX_READS).map(|_| None).collect(), free: (0..MAX_READS).rev().collect() };
    let is_refusing = AtomicBool::new(false);
    let under_way = Mutex::new(under_way);
    let shared = Arc::new(Shared { drive, alignment, under_way, buffers, context, is_refusing });
    let _ = opened.send(Ok(shared.clone()));
    let mut events = [Event::default(); EVENTS];
    let mut is_ending = false;
    while !(is_ending && shared.is_idle()) {
        for event in shared.context.wait(&mut events) {
            match event.data {
                STOP => is_ending = true,
                buffer => shared.complete(buffer as usize, event.result),
            }
        }
    }
    shared.context.destroy();
}

impl Shared {
    fn is_idle(&self) -> bool {
        self.under_way.lock().free.len() == MAX_READS
    }

    fn submit(&self, read: DirectRead) -> Result<(), Errno> {
        let start = read.offset / self.alignment * self.alignment;
        let end = (read.offset + read.bytes as u64).next_multiple_of(self.alignment);
        let length = (end - start) as usize;
        if length > MAX_READ_BYTES {
            return Err(Errno::MSGSIZE);
        }
        let mut under_way = self.under_way.lock();
        let Some(buffer) = under_way.free.pop() else { return Err(Errno::AGAIN) };
        under_way.reads[buffer] = Some(read);
        drop(under_way);
        let address = self.buffers.address(buffer, length);
        let Err(error) = self.context.read(&self.drive, start, address, length, buffer as u64) else { return Ok(()) };
        self.note(error);
        let mut under_way = self.under_way.lock();
        under_way.reads[buffer] = None;
        under_way.free.push(buffer);
        Err(error)
    }

    /// Ends the read of a buffer: `result` is its bytes, or an error number below zero.
    fn complete(&self, buffer: usize, result: i64) {
        let mut under_way = self.under_way.lock();
        let Some(read) = under_way.reads.get_mut(buffer).and_then(Option::take) else { return };
        drop(under_way);
        let skipped = (read.offset % self.alignment) as usize;
        let is_read = usize::try_from(result).is_ok_and(|count| count >= skipped + read.bytes);
        let bytes = is_read.then(|| self.buffers.copy(buffer, skipped, read.bytes));
        self.under_way.lock().free.push(buffer);
        if let Ok(number @ 1..) = i32::try_from(result.saturating_neg()) {
            self.note(Errno::from_raw_os_error(number));
        }
        (read.done)(bytes);
    }

    /// Refuses later reads if this error says that the drive supports none of this form.
    fn note(&self, error: Errno) {
        if matches!(error, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) {
            self.is_refusing.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, Durability, FileDisk, TemporaryDirectory};
    use std::sync::mpsc::Sender;

    fn filled() -> (TemporaryDirectory, FileDisk, Vec<u8>) {
        let scratch = TemporaryDirectory::new(None, "direct-reads-").unwrap();
        let disk = FileDisk::create(&scratch.path().join("array"), 4 << 20).unwrap();
        let bytes: Vec<u8> = (0..4u32 << 20).map(|at| (at / 512 + at % 251) as u8).collect();
        disk.write_at(0, &[&bytes], Durability::Durable).unwrap();
        (scratch, disk, bytes)
    }

    fn read(offset: u64, bytes: usize, answers: &Sender<(u64, Option<Vec<u8>>)>) -> DirectRead {
        let answers = answers.clone();
        DirectRead { offset, bytes, done: Box::new(move |read| drop(answers.send((offset, read)))) }
    }

    #[test]
    fn direct_reads_return_the_bytes_of_the_drive() {
        let (_scratch, disk, expected) = filled();
        // A file system in memory has no direct reads, and says so.
        let Ok(()) = disk.enable_direct_reads() else { return };
        disk.enable_direct_reads().expect("a second call changes nothing");
        let (sender, answers) = std::sync::mpsc::channel();
        let places = (0..500).map(|n: u64| (n * 7919 % 8000 * 512, 512 + (n * 37 % 100) as usize * 512));
        let (mut taken, mut lengths) = (0, std::collections::BTreeMap::new());
        for (offset, length) in places {
            lengths.insert(offset, length);
            taken += usize::from(disk.start_read(read(offset, length, &sender)));
        }
        for _ in 0..taken {
            let (offset, bytes) = answers.recv().unwrap();
            let Some(bytes) = bytes else { continue };
            assert!(bytes == expected[offset as usize..][..lengths[&offset]], "{offset}");
        }
        assert!(taken > 0, "none was started");
        assert!(!disk.start_read(read(0, MAX_READ_BYTES + 1, &sender)), "too long");
    }

    #[test]
    fn bytes_in_the_page_cache_are_not_read_directly() {
        let (_scratch, disk, _) = filled();
        let Ok(()) = disk.enable_direct_reads() else { return };
        let (sender, _answers) = std::sync::mpsc::channel();
        disk.write_at(8192, &[&[7; 4096]], Durability::Volatile).unwrap();
        for (offset, bytes) in [(8192, 4096), (8192 - 512, 1024), (4096, 16384)] {
            assert!(!disk.start_read(read(offset, bytes, &sender)), "{bytes} bytes at {offset} are dirty");
        }
        let mut found = [0; 4096];
        assert_eq!((disk.try_read_at(8192, &mut found), found), (Ok(true), [7; 4096]));
    }

    #[test]
    fn last_completion_may_close_the_drive() {
        let (_scratch, disk, _) = filled();
        let Ok(()) = disk.enable_direct_reads() else { return };
        let disk = Arc::new(disk);
        let (held, (sender, answers)) = (disk.clone(), std::sync::mpsc::channel());
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let done = move |_| {
            let _ = wait.recv();
            drop(held);
            let _ = sender.send(());
        };
        let is_started = disk.start_read(DirectRead { offset: 1 << 20, bytes: 512, done: Box::new(done) });
        drop(disk);
        drop(go);
        assert!(!is_started || answers.recv().is_ok());
    }
}
