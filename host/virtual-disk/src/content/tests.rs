use super::*;
use crate::flat::FileAnswer;
use multipath::{MemoryArray, MemoryHostDisk, Primitive};
use proptest::prelude::*;

/// Small blocks, so that models stay small.
pub(crate) const BLOCK: u64 = 4096;

/// A flat file on a disk in memory that is full of old data. No adjacent blocks of the file are
/// adjacent on the disk.
pub(crate) struct MemoryFlat {
    disk: Arc<dyn SharedDisk>,
    blocks: Mutex<Vec<Option<FileRun>>>,
    free: Mutex<Vec<u64>>,
}

impl MemoryFlat {
    pub(crate) async fn new(array: &MemoryArray, blocks: u64, seed: u64) -> Arc<Self> {
        let name = array.create(blocks * 2 * BLOCK / 512);
        let disk: MemoryHostDisk = array.open(&name, "esx01").unwrap();
        disk.write_same(0, blocks * 2 * BLOCK / 512, Bytes::from(vec![0xee; 512])).await.unwrap();
        // Every third block in three rounds, rotated by the seed: adjacent blocks are apart.
        let mut free: Vec<u64> = (0..3).flat_map(|lane| (lane..blocks * 2).step_by(3)).collect();
        let turn = usize::try_from(seed).unwrap() % free.len();
        free.rotate_left(turn);
        let blocks = usize::try_from(blocks).unwrap();
        Arc::new(Self { disk: Arc::new(disk), blocks: Mutex::new(vec![None; blocks]), free: Mutex::new(free) })
    }

    fn range(range: Range<u64>) -> Range<usize> {
        usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()
    }
}

impl FlatFile for MemoryFlat {
    fn disk(&self) -> &Arc<dyn SharedDisk> {
        &self.disk
    }

    fn block_bytes(&self) -> u64 {
        BLOCK
    }

    fn runs(&self) -> FileAnswer<'_, Vec<FileRun>> {
        Box::pin(async { Ok(self.blocks.lock().unwrap().iter().flatten().copied().collect()) })
    }

    fn allocate(&self, blocks: Range<u64>) -> FileAnswer<'_, Vec<FileRun>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let (mut free, mut table) = (self.free.lock().unwrap(), self.blocks.lock().unwrap());
            let mut runs = Vec::new();
            // Like a datastore, takes the last free blocks before it reports that they are too few.
            for first in blocks {
                let slot = &mut table[usize::try_from(first).unwrap()];
                assert!(slot.is_none(), "block {first} is allocated twice");
                let lba = free.pop().ok_or(datastore::DatastoreError::NoSpace)? * (BLOCK / 512);
                *slot = Some(FileRun { first, blocks: 1, lba, state: State::ToBeZeroed });
                runs.extend(*slot);
            }
            Ok(runs)
        })
    }

    fn set_written(&self, blocks: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            for slot in &mut self.blocks.lock().unwrap()[Self::range(blocks)] {
                slot.as_mut().expect("written blocks are allocated").state = State::Written;
            }
            Ok(())
        })
    }

    fn grow(&self, bytes: u64) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            self.blocks.lock().unwrap().resize(usize::try_from(bytes / BLOCK).unwrap(), None);
            Ok(())
        })
    }

    fn punch(&self, blocks: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            let taken: Vec<_> = self.blocks.lock().unwrap()[Self::range(blocks)].iter_mut().map(Option::take).collect();
            let places = taken.into_iter().flatten().map(|run| run.lba / (BLOCK / 512));
            self.free.lock().unwrap().splice(0..0, places);
            Ok(())
        })
    }

    fn close(&self) -> FileAnswer<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Creates a disk of `blocks` blocks in one of the formats.
pub(crate) async fn content(
    array: &MemoryArray,
    (blocks, seed): (u64, u64),
    format: DiskFormat,
    settings: MoverSettings,
) -> Arc<Content> {
    let file = MemoryFlat::new(array, blocks, seed).await;
    let content = Content::open(file, blocks * BLOCK, settings).await.unwrap();
    if format.is_thick() {
        content.allocate(content.all()).await.unwrap();
    }
    if format == DiskFormat::EagerZeroedThick {
        content.zero_rest(content.all(), &|_| ()).await.unwrap();
    }
    Arc::new(content)
}

pub(crate) fn array() -> MemoryArray {
    MemoryArray::new("iqn.2026-11.org.ibid:content")
}

pub(crate) fn formats() -> impl Strategy<Value = DiskFormat> {
    prop::sample::select(DiskFormat::ALL.to_vec())
}

#[tokio::test]
async fn old_data_of_the_device_is_never_read() {
    for format in DiskFormat::ALL {
        let disk = content(&array(), (8, 1), format, MoverSettings::default()).await;
        assert!(disk.read(0, 8 * BLOCK).await.unwrap().iter().all(|byte| *byte == 0), "{format}");
        disk.write(BLOCK + 512, Bytes::from(vec![7; 512])).await.unwrap();
        let block = disk.read(BLOCK, BLOCK).await.unwrap();
        assert_eq!(block.iter().filter(|byte| **byte == 7).count(), 512, "{format}");
        assert_eq!(block.iter().filter(|byte| **byte == 0).count(), BLOCK as usize - 512, "{format}");
    }
}

#[tokio::test]
async fn blocks_are_zeroed_once_before_their_first_write() {
    for (format, zeroed) in [(DiskFormat::EagerZeroedThick, 8), (DiskFormat::ZeroedThick, 1), (DiskFormat::Thin, 1)] {
        let disk = content(&array(), (8, 0), format, MoverSettings::default()).await;
        let writes = (0..8).map(|i| disk.write(2 * BLOCK + i * 512, Bytes::from(vec![1; 512])));
        for done in futures_util::future::join_all(writes).await {
            done.unwrap();
        }
        assert_eq!(disk.mover().work.work().write_same.commands, zeroed, "{format}");
        assert_eq!(disk.allocated().0, if format == DiskFormat::Thin { 1 } else { 8 });
    }
}

#[tokio::test]
async fn guest_unmap_frees_whole_blocks_of_a_thin_disk() {
    for block_delete in [false, true] {
        let array = array();
        let settings = MoverSettings { block_delete, ..MoverSettings::default() };
        let disk = content(&array, (8, 0), DiskFormat::Thin, settings).await;
        disk.write(0, Bytes::from(vec![9; 4 * BLOCK as usize])).await.unwrap();
        assert_eq!(disk.unmap(512, 3 * BLOCK).await.unwrap(), 2, "partial blocks at both ends are kept");
        assert_eq!(disk.allocated().0, 2);
        assert!(disk.read(BLOCK, 2 * BLOCK).await.unwrap().iter().all(|byte| *byte == 0));
        assert!(disk.read(3 * BLOCK, BLOCK).await.unwrap().iter().all(|byte| *byte == 9));
        assert_eq!(disk.disk().counters().delete.done > 0, block_delete, "UNMAP reaches the array only if enabled");
    }
}

#[tokio::test]
async fn full_datastore_ends_run_ahead_not_the_write() {
    let file = MemoryFlat::new(&array(), 16, 0).await;
    file.free.lock().unwrap().truncate(5);
    let small = Content::open(Arc::clone(&file) as Arc<dyn FlatFile>, 16 * BLOCK, MoverSettings::default()).await;
    let small = small.unwrap();
    small.enable_run_ahead();
    for block in 0..5 {
        small.write(block * BLOCK, Bytes::from(vec![block as u8 + 1; 512])).await.unwrap();
    }
    assert!(matches!(
        small.write(5 * BLOCK, Bytes::from(vec![6; 512])).await,
        Err(VirtualDiskError::Datastore(DatastoreError::NoSpace))
    ));
    for block in 0..5 {
        let read = small.read(block * BLOCK, BLOCK).await.unwrap();
        assert!(read[..512].iter().all(|byte| *byte == block as u8 + 1) && read[512..].iter().all(|byte| *byte == 0));
    }
}

#[tokio::test]
async fn writes_and_unmaps_race_with_run_ahead() {
    use futures_util::future::join_all;
    for seed in 0..16 {
        let disk = content(&array(), (64, seed), DiskFormat::Thin, MoverSettings::default()).await;
        disk.enable_run_ahead();
        let write = async |block: u64| disk.write(block * BLOCK, Bytes::from(vec![block as u8 + 1; 1024])).await;
        let unmap = async |block: u64| disk.unmap(block * BLOCK, 16 * BLOCK).await;
        let (written, unmapped) = tokio::join!(join_all((0..32).map(write)), join_all((32..48).step_by(4).map(unmap)));
        assert!(written.iter().all(Result::is_ok) && unmapped.iter().all(Result::is_ok));
        for block in 0..32 {
            let read = disk.read(block * BLOCK, BLOCK).await.unwrap();
            assert!(read[..1024].iter().all(|byte| *byte == block as u8 + 1), "{seed} {block}");
            assert!(read[1024..].iter().all(|byte| *byte == 0), "{seed} {block}");
        }
        assert!(disk.read(32 * BLOCK, 32 * BLOCK).await.unwrap().iter().all(|byte| *byte == 0), "{seed}");
        disk.free_unused().await.unwrap();
        assert_eq!(disk.allocated().0, 32, "{seed}");
    }
}

#[tokio::test]
async fn out_of_range_and_partial_sectors_are_refused() {
    let disk = content(&array(), (2, 0), DiskFormat::Thin, MoverSettings::default()).await;
    for (offset, bytes) in [(0, 0), (100, 512), (0, 100), (2 * BLOCK, 512), (BLOCK, 2 * BLOCK), (u64::MAX - 511, 512)] {
        assert!(matches!(disk.read(offset, bytes).await, Err(VirtualDiskError::Range { .. })), "{offset} {bytes}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u8),
    Read(u64, u64),
    Unmap(u64, u64),
    Zero,
}

fn step() -> impl Strategy<Value = Step> {
    let sectors = 8 * BLOCK / 512;
    prop_oneof![
        4 => (0..sectors, 1u64..20, 1u8..).prop_map(|(at, n, byte)| Step::Write(at, n, byte)),
        2 => (0..sectors, 1u64..20).prop_map(|(at, n)| Step::Read(at, n)),
        1 => (0..sectors, 1u64..40).prop_map(|(at, n)| Step::Unmap(at, n)),
        1 => Just(Step::Zero),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn disk_of_any_format_matches_a_byte_array(
        format in formats(),
        hardware_init: bool,
        refuses: bool,
        seed in 0u64..16,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let array = array();
            let settings = MoverSettings { hardware_init, ..MoverSettings::default() };
            let disk = content(&array, (8, seed), format, settings).await;
            array.refuse(&disk.disk().identity().name, Primitive::Zero, refuses);
            disk.enable_run_ahead();
            let mut model = vec![0u8; 8 * BLOCK as usize];
            let end = disk.bytes();
            for step in steps {
                match step {
                    Step::Write(at, count, byte) => {
                        let (at, bytes) = (at * 512, (count * 512).min(end - at * 512));
                        disk.write(at, Bytes::from(vec![byte; bytes as usize])).await.unwrap();
                        model[at as usize..(at + bytes) as usize].fill(byte);
                    }
                    Step::Read(at, count) => {
                        let (at, bytes) = (at * 512, (count * 512).min(end - at * 512));
                        let read = disk.read(at, bytes).await.unwrap();
                        assert_eq!(&read[..], &model[at as usize..(at + bytes) as usize]);
                    }
                    // A thick disk does not support UNMAP.
                    Step::Unmap(at, count) if format == DiskFormat::Thin => {
                        let (at, bytes) = (at * 512, (count * 512).min(end - at * 512));
                        disk.unmap(at, bytes).await.unwrap();
                        let whole = at.div_ceil(BLOCK) * BLOCK..(at + bytes) / BLOCK * BLOCK;
                        if whole.start < whole.end {
                            model[whole.start as usize..whole.end as usize].fill(0);
                        }
                    }
                    Step::Unmap(..) => {}
                    Step::Zero => {
                        disk.zero_all(&|_| ()).await.unwrap();
                        model.fill(0);
                    }
                }
            }
            assert_eq!(&disk.read(0, end).await.unwrap()[..], &model[..]);
            if format == DiskFormat::Thin {
                disk.free_unused().await.unwrap();
                assert_eq!(&disk.read(0, end).await.unwrap()[..], &model[..]);
            }
            // Opened again, as by another host, it has the same content.
            let again = Content::open(Arc::clone(disk.file()), end, settings).await.unwrap();
            assert_eq!(&again.read(0, end).await.unwrap()[..], &model[..]);
        });
    }
}
