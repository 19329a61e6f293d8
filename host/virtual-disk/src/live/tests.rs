use super::*;
use crate::content::tests::{BLOCK, array, content, formats};
use crate::format::DiskFormat;
use crate::mover::{CopyOrder, MoverSettings};
use multipath::{DeviceError, FaultHook, InjectedOutcome, Injection, MemoryArray, Operation};
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use testing::{Rng, SplitMix64};

const BLOCKS: u64 = 24;
const BYTES: u64 = BLOCKS * BLOCK;

/// Seeded delays, so that commands overtake each other.
struct Delays(Mutex<SplitMix64>);

impl FaultHook for Delays {
    fn inject(&self, _: &str, _: &str, _: &Operation) -> Injection {
        let z = self.0.lock().unwrap().next_u64();
        Injection {
            before: Duration::from_micros(z % 50),
            after: Duration::from_micros((z >> 8) % 50),
            outcome: InjectedOutcome::Done,
        }
    }
}

/// A guest that writes to random sectors until `stop` is set; returns the expected content of its
/// disk.
async fn guest(live: Arc<Live>, seed: u64, mut model: Vec<u8>, stop: Arc<AtomicBool>, lane: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut random = |below: u64| rng.below(below);
    let mut after = 3;
    while after > 0 {
        // Some writes after the end of the migration: they go to the destination.
        after -= u64::from(stop.load(Ordering::Relaxed));
        // Each guest has one of every two sectors: the order between guests is undefined.
        let sector = random(BYTES / 1024) * 2 + lane;
        let byte = random(255) as u8 + 1;
        let place = sector as usize * 512..(sector as usize + 1) * 512;
        live.write(sector * 512, Bytes::from(vec![byte; 512])).await.unwrap();
        model[place.clone()].fill(byte);
        let other = (random(BYTES / 1024) * 2 + lane) as usize;
        let read = live.read(other as u64 * 512, 512).await.unwrap();
        assert_eq!(&read[..], &model[other * 512..(other + 1) * 512], "acknowledged data is readable");
    }
    model
}

/// Creates a disk with some data; returns its expected content too.
async fn filled(array: &MemoryArray, format: DiskFormat, seed: u64) -> (Arc<Content>, Vec<u8>) {
    let disk = content(array, (BLOCKS, seed), format, MoverSettings::default()).await;
    disk.enable_run_ahead();
    let mut model = vec![0; BYTES as usize];
    for i in (0..BLOCKS).filter(|i| !(i * 7 + seed).is_multiple_of(3)) {
        let byte = (i + seed) as u8 | 1;
        disk.write(i * BLOCK, Bytes::from(vec![byte; 1024])).await.unwrap();
        model[(i * BLOCK) as usize..(i * BLOCK) as usize + 1024].fill(byte);
    }
    (disk, model)
}

/// Moves the disk in one go.
async fn migrate(
    live: &Live,
    destination: &Arc<Content>,
    copier: &Copier<'_>,
    region: u64,
    advance: Advance<'_>,
) -> Result<Arc<Content>> {
    let (mirrored, _) = live.copy_to(Arc::clone(destination), copier, region, advance).await?;
    Ok(mirrored.pause().await?.switch().await)
}

fn order() -> CopyOrder {
    CopyOrder { forbidden: None, xcopy_bytes: 4 * BLOCK }
}

async fn run(seed: u64, from: DiskFormat, to: DiskFormat, hardware_move: bool, region: u64) {
    let array = array();
    let (source, model) = filled(&array, from, seed).await;
    let settings = MoverSettings { hardware_move, ..MoverSettings::default() };
    // The destination starts as a thin disk; the copier allocates its blocks.
    let destination = content(&array, (BLOCKS, seed + 5), DiskFormat::Thin, settings).await;
    array.set_hook(Some(Arc::new(Delays(Mutex::new(SplitMix64::new(seed))))));
    let live = Arc::new(Live::new(Arc::clone(&source)));
    let stop = Arc::new(AtomicBool::new(false));
    let start =
        |lane| tokio::spawn(guest(Arc::clone(&live), seed * 2 + 1 + lane, model.clone(), Arc::clone(&stop), lane));
    let guests = [start(0), start(1)];
    let copier = Copier::new((&source, &destination), to, order(), settings);
    migrate(&live, &destination, &copier, region * BLOCK, &|_| ()).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    let [even, odd] = guests;
    let (even, odd) = (even.await.unwrap(), odd.await.unwrap());
    let expected: Vec<u8> =
        even.chunks(1024).zip(odd.chunks(1024)).flat_map(|(e, o)| [&e[..512], &o[512..]].concat()).collect();
    assert!(Arc::ptr_eq(&live.current(), &destination));
    assert_eq!(destination.read(0, BYTES).await.unwrap(), expected);
    assert_eq!(
        destination.format(to == DiskFormat::Thin),
        if to.is_thick() && destination.allocated().1 == 0 { DiskFormat::EagerZeroedThick } else { to }
    );
    assert!(matches!(source.read(0, 512).await, Err(VirtualDiskError::Retired)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn migration_under_load_loses_no_data(
        seed in 1u64..1 << 40,
        from in formats(),
        to in formats(),
        hardware_move: bool,
        region in 1u64..9,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(seed, from, to, hardware_move, region));
    }
}

/// Makes the destination fail in the middle of the copy.
struct FailsAt(String, AtomicU64);

impl FaultHook for FailsAt {
    fn inject(&self, _: &str, name: &str, operation: &Operation) -> Injection {
        let write = matches!(operation, Operation::Write(..)) && name == self.0;
        let failed = write && self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err();
        let outcome = if failed { InjectedOutcome::Failed(DeviceError::OutOfSpace) } else { InjectedOutcome::Done };
        Injection { outcome, ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_migration_leaves_the_disk_in_place() {
    let array = array();
    let (source, model) = filled(&array, DiskFormat::ZeroedThick, 2).await;
    let settings = MoverSettings { hardware_move: false, ..MoverSettings::default() };
    let destination = content(&array, (BLOCKS, 9), DiskFormat::Thin, settings).await;
    let name = destination.disk().identity().name.clone();
    array.set_hook(Some(Arc::new(FailsAt(name, AtomicU64::new(5)))));
    let live = Live::new(Arc::clone(&source));
    let copier = Copier::new((&source, &destination), DiskFormat::Thin, order(), settings);
    let ended = migrate(&live, &destination, &copier, 2 * BLOCK, &|_| ()).await;
    assert!(matches!(ended, Err(VirtualDiskError::Disk(DeviceError::OutOfSpace))));
    assert!(Arc::ptr_eq(&live.current(), &source));
    assert_eq!(live.read(0, BYTES).await.unwrap(), model);
    live.write(0, Bytes::from(vec![1; 512])).await.unwrap();
    // The migration can be retried with another destination.
    array.set_hook(None);
    let other = content(&array, (BLOCKS, 3), DiskFormat::Thin, settings).await;
    let copier = Copier::new((&source, &other), DiskFormat::Thin, order(), settings);
    migrate(&live, &other, &copier, 2 * BLOCK, &|_| ()).await.unwrap();
    assert_eq!(&live.read(0, 512).await.unwrap()[..], &[1; 512]);
}

#[tokio::test(start_paused = true)]
async fn failed_mirror_write_ends_only_the_migration() {
    let array = array();
    let (source, _) = filled(&array, DiskFormat::EagerZeroedThick, 2).await;
    let settings = MoverSettings::default();
    let destination = content(&array, (BLOCKS, 9), DiskFormat::Thin, settings).await;
    let name = destination.disk().identity().name.clone();
    // The copy uses EXTENDED COPY, so the first WRITE to the destination is a mirrored one.
    array.set_hook(Some(Arc::new(FailsAt(name, AtomicU64::new(0)))));
    let live = Arc::new(Live::new(Arc::clone(&source)));
    let copier = Copier::new((&source, &destination), DiskFormat::ZeroedThick, order(), settings);
    let writer = Arc::clone(&live);
    let advance = AtomicU64::new(0);
    let done = |bytes| {
        advance.fetch_add(bytes, Ordering::Relaxed);
    };
    let migration = migrate(&live, &destination, &copier, BLOCK, &done);
    let write = async {
        while advance.load(Ordering::Relaxed) < 3 * BLOCK {
            tokio::task::yield_now().await;
        }
        writer.write(0, Bytes::from(vec![3; 512])).await
    };
    let (migrated, written) = tokio::join!(migration, write);
    assert!(written.is_ok(), "the guest's write succeeds");
    assert!(matches!(migrated, Err(VirtualDiskError::Mirror(_))));
    assert_eq!(&live.read(0, 512).await.unwrap()[..], &[3; 512]);
}
