//! Damaged images: opening one returns an array or an error, and never panics. Half of the tests
//! correct the checksums after the damage, as an attacker would.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{MemoryDisk, create, data, run, settle};
use engine::{Change, Core, LogLoss, Op, OpError, Options, RecoverError};
use ondisk::ArrayGeometry;
use std::ops::Range;
use testing::Rng;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 4 << 20, log_bytes: 256 << 10, segment_bytes: 64 << 10 };
const V: VolumeId = VolumeId(1);

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

/// An array with a checkpoint that stored its pages whole, and a log after it.
fn image() -> Vec<u8> {
    let (disk, _) = create(GEOMETRY);
    let options = Options { max_patch_bytes: Some(0), ..Options::for_geometry(&GEOMETRY) };
    let (mut core, _) = Core::recover(&disk, Some(options)).unwrap();
    for op in [
        Op::Change(vec![Change::CreateVolume { volume: V, blocks: 8192 }]),
        Op::Change(vec![Change::Put { key: b"key".to_vec(), value: b"value".to_vec() }]),
        Op::Write { volume: V, lba: Lba(16), data: data(1, 64), fua: false },
        Op::Write { volume: V, lba: Lba(4096), data: data(2, 9), fua: false },
        Op::Copy { source: V, from: range(0, 2048), destination: V, to: Lba(2048) },
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    for op in [
        Op::Write { volume: V, lba: Lba(19), data: data(3, 3), fua: false },
        Op::Unmap { volume: V, ranges: vec![range(32, 16)] },
        Op::Copy { source: V, from: range(16, 64), destination: V, to: Lba(6000) },
        Op::WriteSame { volume: V, range: range(100, 300), pattern: data(4, 1) },
        Op::Change(vec![Change::ResizeVolume { volume: V, blocks: 6144 }]),
    ] {
        run(&mut core, &disk, op).unwrap();
    }
    disk.image()
}

fn u32_at(image: &[u8], at: usize) -> usize {
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize
}

fn put_crc(image: &mut [u8], at: usize, of: Range<usize>) {
    let crc = crc32c::crc32c(&image[of]);
    image[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

fn segment_byte(segment: usize, sector: usize) -> usize {
    65536 + GEOMETRY.log_bytes as usize + segment * GEOMETRY.segment_bytes as usize + sector * 512
}

/// Location of the only run of the manifest.
fn manifest(image: &[u8]) -> Range<usize> {
    let from = segment_byte(u32_at(image, 240), u32_at(image, 248));
    from..from + u32_at(image, 252)
}

/// Offset of the second copy of the metadata at `at`: the same sector of another segment.
fn second_copy(image: &[u8], at: usize) -> usize {
    let (start, segment_bytes) = (segment_byte(0, 0), GEOMETRY.segment_bytes as usize);
    let same_sector = (start + (at - start) % segment_bytes..image.len()).step_by(segment_bytes);
    let sector = &image[at..at + 512];
    same_sector.filter(|other| *other != at).find(|other| image[*other..].starts_with(sector)).expect("a second copy")
}

fn seal_superblocks(image: &mut [u8]) {
    for copy in 0..4 {
        let from = copy * 16384;
        put_crc(image, from + 4080, from..from + 4080);
    }
}

fn seal_manifest(image: &mut [u8]) {
    let of = manifest(image);
    for copy in 0..4 {
        put_crc(image, copy * 16384 + 256, of.clone());
    }
    seal_superblocks(image);
}

/// Offset of the only directory location in the manifest, and offset of that directory page.
fn directory(image: &[u8]) -> (usize, usize) {
    let manifest = manifest(image);
    // One directory page, no drop: the last 16 + 8 bytes.
    let at = manifest.end - 24;
    (at, segment_byte(u32_at(image, at), u32_at(image, at + 4)))
}

fn seal_directory(image: &mut [u8]) {
    let (at, from) = directory(image);
    put_crc(image, at + 12, from..from + 4096);
    seal_manifest(image);
}

fn slot_page(image: &[u8]) -> usize {
    slot_pages(image)[0]
}

/// The pages of the slot table: the first one for blocks, others for map pages.
fn slot_pages(image: &[u8]) -> Vec<usize> {
    let (_, from) = directory(image);
    let locations = (from..from + 4096).step_by(16).take_while(|at| u32_at(image, at + 8) & 0xFFFF == 8);
    locations.map(|at| segment_byte(u32_at(image, at), u32_at(image, at + 4))).collect()
}

fn seal_slots(image: &mut [u8]) {
    let (page, (_, directory)) = (slot_page(image), directory(image));
    put_crc(image, directory + 12, page..page + 4096);
    seal_directory(image);
}

/// Ranges of the log groups after the checkpoint, without padding.
fn groups(image: &[u8]) -> Vec<Range<usize>> {
    let mut from = 65536 + u32_at(image, 64);
    let mut groups = Vec::new();
    while &image[from..from + 8] == b"IBIDLOG\0" {
        let body = u32_at(image, from + 56);
        groups.push(from..from + 72 + body);
        from += (72 + body).next_multiple_of(4096);
    }
    groups
}

fn seal_log(image: &mut [u8], groups: &[Range<usize>]) {
    let mut previous = u32_at(image, 96) as u32;
    for group in groups {
        let from = group.start;
        image[from + 64..from + 68].copy_from_slice(&previous.to_le_bytes());
        put_crc(image, from + 60, from + 72..group.end);
        put_crc(image, from + 68, from..from + 68);
        previous = u32_at(image, from + 68) as u32;
    }
}

/// Opens the image and runs a few operations.
fn open(image: Vec<u8>) -> bool {
    let disk = MemoryDisk::from_image(image);
    let Ok((mut core, _)) = Core::recover(&disk, None) else { return false };
    for volume in core.volumes().into_keys() {
        let _ = run_any(&mut core, &disk, Op::Read { volume, range: range(0, 4096) });
        let _ = run_any(&mut core, &disk, Op::Write { volume, lba: Lba(0), data: data(9, 8), fua: false });
        let _ = run_any(&mut core, &disk, Op::Change(vec![Change::DeleteVolume { volume }]));
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    true
}

fn run_any(core: &mut Core, disk: &MemoryDisk, op: Op) -> bool {
    core.submit(op, 0);
    settle(core, disk).contains_key(&0)
}

fn flip(image: &mut [u8], rng: &mut Rng, of: Range<usize>) {
    let at = of.start as u64 + rng.below((of.end - of.start) as u64);
    // A bit, a byte, or an extreme number.
    match rng.below(4) {
        0 => image[at as usize] = 0xFF,
        1 => image[at as usize] = 0,
        _ => image[at as usize] ^= 1 << rng.below(8),
    }
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let sound = image();
    assert!(open(sound.clone()));
    let mut rng = Rng::new(1);
    let mut opened = 0;
    for round in 0..400 {
        let is_log = round % 6 == 5;
        let mut image = sound.clone();
        let places = [
            0..4096,
            16384..20480,
            manifest(&sound),
            {
                let (_, page) = directory(&sound);
                page..page + 4096
            },
            slot_page(&sound)..slot_page(&sound) + 4096,
        ];
        let log = groups(&sound);
        let place = places.get(round % 6).cloned().unwrap_or(log[0].start..log[log.len() - 1].end);
        flip(&mut image, &mut rng, place);
        let is_open = open(image);
        assert!(is_open || is_log, "round {round}: metadata has two copies, one is enough");
        opened += usize::from(is_open);
    }
    assert!(opened > 0, "{opened}");
}

#[test]
fn metadata_with_two_damaged_copies_is_refused() {
    let sound = image();
    let (_, directory) = directory(&sound);
    for at in [manifest(&sound).start, directory] {
        let mut image = sound.clone();
        image[at + 9] ^= 1;
        assert!(open(image.clone()));
        image[second_copy(&sound, at + 9)] ^= 4;
        assert!(!open(image));
    }
}

#[test]
fn blocks_of_a_lost_slot_page_are_unreadable() {
    let sound = image();
    let mut image = sound.clone();
    for at in [slot_page(&sound) + 9, second_copy(&sound, slot_page(&sound) + 9)] {
        image[at] ^= 1;
    }
    let disk = MemoryDisk::from_image(image);
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    let mut unreadable = 0;
    for volume in core.volumes().into_keys() {
        core.submit(Op::Read { volume, range: range(0, 4096) }, 0);
        unreadable += usize::from(matches!(settle(&mut core, &disk)[&0], Err(OpError::MediumError { .. })));
    }
    assert!(unreadable > 0);
}

#[test]
fn loss_of_a_whole_segment_loses_no_metadata() {
    let sound = image();
    let segments = (GEOMETRY.capacity - 65536 - GEOMETRY.log_bytes) / GEOMETRY.segment_bytes;
    let read = |image: Vec<u8>| {
        let disk = MemoryDisk::from_image(image);
        let (mut core, _) = Core::recover(&disk, None).expect("an array");
        let mut answer = |lba| run(&mut core, &disk, Op::Read { volume: V, range: range(lba, 8) });
        let answers: Vec<_> = (0..6144).step_by(8).map(&mut answer).collect();
        core.audit(&disk).unwrap();
        answers
    };
    let expected = read(sound.clone());
    let (mut metadata, mut data) = (0, 0);
    for segment in 0..segments as usize {
        let mut image = sound.clone();
        let bytes = &mut image[segment_byte(segment, 0)..][..GEOMETRY.segment_bytes as usize];
        let is_used = bytes.iter().any(|byte| *byte != 0);
        bytes.fill(0xEE);
        let answers = read(image);
        let is_lost = answers != expected;
        for (answer, expected) in answers.into_iter().zip(&expected) {
            assert!(answer == *expected || matches!(answer, Err(OpError::MediumError { .. })));
        }
        (metadata, data) = (metadata + usize::from(is_used && !is_lost), data + usize::from(is_lost));
    }
    assert!(metadata >= 2 && data == 1, "{metadata} segments of metadata, {data} of data");
}

fn fuzz(seed: u64, of: impl Fn(&[u8]) -> Range<usize>, seal: impl Fn(&mut [u8])) {
    fuzz_rounds(300, seed, of, seal);
}

fn fuzz_rounds(rounds: u64, seed: u64, of: impl Fn(&[u8]) -> Range<usize>, seal: impl Fn(&mut [u8])) {
    let sound = image();
    let mut rng = Rng::new(seed);
    for round in 0..rounds {
        let mut image = sound.clone();
        for _ in 0..=rng.below(3) {
            let of = of(&sound);
            flip(&mut image, &mut rng, of);
        }
        seal(&mut image);
        let outcome = std::panic::catch_unwind(|| open(image));
        assert!(outcome.is_ok(), "round {round} of seed {seed}");
    }
}

#[test]
fn a_forged_superblock_never_panics() {
    let sound = image();
    let mut rng = Rng::new(2);
    for round in 0..400 {
        let mut image = sound.clone();
        let mut forged = image[..4096].to_vec();
        flip(&mut forged, &mut rng, if round % 2 == 0 { 40..100 } else { 240..256 });
        for copy in 0..4 {
            image[copy * 16384..copy * 16384 + 4096].copy_from_slice(&forged);
            image[copy * 16384 + 10] = copy as u8;
        }
        seal_superblocks(&mut image);
        let outcome = std::panic::catch_unwind(|| open(image));
        assert!(outcome.is_ok(), "round {round}");
    }
}

#[test]
fn a_forged_manifest_never_panics() {
    fuzz(3, manifest, seal_manifest);
}

#[test]
fn a_forged_slot_directory_never_panics() {
    fuzz(
        4,
        |image| {
            let (_, page) = directory(image);
            page..page + 16
        },
        seal_directory,
    );
}

#[test]
fn a_forged_slot_location_never_panics() {
    // Counts and generations are checked only by the audit, which walks the whole map.
    for part in [0..5, 8..12] {
        for slot in 0..24 {
            fuzz_rounds(
                20,
                slot,
                |image| {
                    slot_page(image) + slot as usize * 16 + part.start..slot_page(image) + slot as usize * 16 + part.end
                },
                seal_slots,
            );
        }
    }
}

#[test]
fn a_forged_log_never_panics() {
    let groups_of = groups(&image());
    fuzz(
        6,
        |image| {
            let all = groups(image);
            all[0].start..all[all.len() - 1].end
        },
        |image| seal_log(image, &groups_of),
    );
}

#[test]
fn unreadable_deleted_pages_wait_for_the_retry_timer() {
    let mut image = image();
    let mut damaged = 0;
    for slot in slot_pages(&image).into_iter().flat_map(|page| (page..page + 4096).step_by(16)) {
        let word = u64::from_le_bytes(image[slot..][..8].try_into().unwrap());
        // Map pages have 4, 16 or 32 sectors.
        if u32_at(&image, slot + 12) > 0 && [4, 16, 32].contains(&((word >> 38 & 0x3F) + 1)) {
            let at = segment_byte(word as usize & 0x3F_FFFF, (word >> 22) as usize & 0xFFFF);
            let second = second_copy(&image, at);
            image[at] ^= 1;
            image[second] ^= 1;
            damaged += 1;
        }
    }
    assert!(damaged > 1);
    for group in groups(&image) {
        image[group.start] = 0;
    }
    let disk = MemoryDisk::from_image(image);
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    assert_eq!(
        run(&mut core, &disk, Op::Read { volume: V, range: range(0, 8) }),
        Err(OpError::MediumError { lba: Lba(0) })
    );
    run(&mut core, &disk, Op::Change(vec![Change::DeleteVolume { volume: V }])).unwrap();
    for _ in 0..3 {
        core.slow_tick();
        settle(&mut core, &disk);
    }
    core.request_checkpoint();
    settle(&mut core, &disk);
    assert_eq!(core.stopped(), None);
    assert!(Core::recover(&disk, None).is_ok());
}

/// An array with a volume and a checkpoint.
fn created() -> (MemoryDisk, Core) {
    let (disk, mut core) = create(GEOMETRY);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: V, blocks: 8192 }])).unwrap();
    core.request_checkpoint();
    settle(&mut core, &disk);
    (disk, core)
}

/// Fewer groups than start a checkpoint by themselves.
const GROUPS: u64 = 12;

/// An array whose log has `groups` groups after the checkpoint, one record each, and an end mark.
fn logged(groups: u64) -> Vec<u8> {
    let (disk, mut core) = created();
    for group in 0..groups {
        run(&mut core, &disk, Op::Write { volume: V, lba: Lba(group * 8), data: data(group, 8), fua: false }).unwrap();
    }
    core.slow_tick();
    settle(&mut core, &disk);
    disk.image()
}

#[test]
fn damage_in_the_log_is_never_silent() {
    let intact = logged(GROUPS);
    let spans = groups(&intact);
    assert_eq!(spans.len() as u64, GROUPS + 1, "the last group marks the end");
    let mut rng = Rng::new(7);
    let (mut refused, mut harmless) = (0, 0);
    for place in 0..400 {
        let mut image = intact.clone();
        let span = &spans[rng.below(spans.len() as u64) as usize];
        let byte = span.start + rng.below((span.end - span.start) as u64) as usize;
        image[byte] ^= 1 << rng.below(8);
        match Core::recover(&MemoryDisk::from_image(image.clone()), None) {
            Err(RecoverError::LogLoss(loss)) => {
                refused += 1;
                assert!(loss.first <= loss.last && !loss.ranges.is_empty(), "place {place}: {loss:?}");
                accepted_loss_opens_without_the_lost_records(&image, &loss);
            }
            Ok((_, report)) => {
                assert_eq!(report.records, GROUPS, "place {place}: records vanished");
                harmless += 1;
            }
            Err(error) => panic!("place {place}: {error}"),
        }
    }
    assert!(refused > 300 && harmless > 0, "{refused} refused, {harmless} harmless");
}

fn accepted_loss_opens_without_the_lost_records(image: &[u8], loss: &LogLoss) {
    let disk = MemoryDisk::from_image(image.to_vec());
    let options = Options { accept_log_loss: true, ..Options::for_geometry(&GEOMETRY) };
    let (mut core, report) = Core::recover(&disk, Some(options)).unwrap();
    assert!(core.log_loss().is_some());
    settle(&mut core, &disk);
    // The next start needs no option, and holds the records before the damage.
    let (reopened, again) = Core::recover(&disk, None).unwrap();
    assert_eq!((again.records, reopened.log_loss()), (0, None));
    assert_eq!(loss.last.0 - loss.first.0 + 1 + report.records, GROUPS);
}

#[test]
fn an_idle_log_is_marked_once() {
    let (disk, mut core) = created();
    run(&mut core, &disk, Op::Write { volume: V, lba: Lba(0), data: data(1, 8), fua: false }).unwrap();
    let before = groups(&disk.image()).len();
    for _ in 0..3 {
        core.slow_tick();
        settle(&mut core, &disk);
    }
    assert_eq!(groups(&disk.image()).len(), before + 1);
    assert!(Core::recover(&disk, None).is_ok());
}
