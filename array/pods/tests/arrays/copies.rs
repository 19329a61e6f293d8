//! Copies from plain volumes into a pod that both arrays serve, and the bytes that cross for them.

use crate::common::{Pair, VOLUME_BLOCKS, data, stream, volume};
use bytes::Bytes;
use engine::{Change, Maintenance, Op, OpError, Reply, StreamService};
use testing::Rng;
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};

const PLAIN: VolumeId = VolumeId(9);
/// Blocks of a copy: 4 MiB.
const BLOCKS: u64 = 4 << 11;

fn range(lba: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(lba), blocks).unwrap()
}

fn copy(from: u64, blocks: u64, to: u64) -> Op {
    Op::Copy { source: PLAIN, from: range(from, blocks), destination: volume(), to: Lba(to) }
}

/// Two arrays in step; each has a plain volume with the same content.
async fn filled() -> (Pair, Bytes) {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    let content = data(77, BLOCKS);
    for site in &pair.sites {
        let create = Change::CreateVolume { volume: PLAIN, blocks: VOLUME_BLOCKS };
        assert_eq!(site.run(Op::Change(vec![create])).await, Ok(Reply::Done));
        for lba in (0..BLOCKS).step_by(2048) {
            let from = usize::try_from(lba * LBA_BYTES).unwrap();
            let data = content.slice(from..from + 2048 * LBA_BYTES as usize);
            let write = Op::Write { volume: PLAIN, lba: Lba(lba), data, fua: false };
            assert_eq!(site.run(write).await, Ok(Reply::Done));
        }
    }
    (pair, content)
}

/// Returns the bytes that have crossed the link in both directions.
fn crossed(pair: &Pair) -> u64 {
    pair.sites.iter().flat_map(|site| site.running().links.connections()).map(|link| link.sent_bytes).sum()
}

/// Copies all of the content, and returns the part of it that has crossed, in percent.
async fn copied(pair: &Pair, at: usize, to: u64) -> u64 {
    let before = crossed(pair);
    assert_eq!(pair.sites[at].run(copy(0, BLOCKS, to)).await, Ok(Reply::Done));
    (crossed(pair) - before) * 100 / (BLOCKS * LBA_BYTES)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pieces_that_the_peer_lacks_cross() {
    let (pair, content) = filled().await;
    let first = copied(&pair, 0, 0).await;
    assert!((95..=110).contains(&first), "each piece crosses once: {first} %");
    // Again, then from the array that follows, then at the array that follows with its own source.
    for (at, to) in [(0, BLOCKS), (1, 2 * BLOCKS), (1, 3 * BLOCKS)] {
        let percent = copied(&pair, at, to).await;
        assert!(percent < 3, "{percent} % cross for the copy at {at} to {to}");
        for site in &pair.sites {
            assert_eq!(site.read(to, 2048).await.unwrap(), content[..1 << 20]);
        }
    }
    pair.assert_equal().await;
    let counted = pair.sites[0].running().pods.copied(stream());
    assert_eq!((counted.copied, counted.crossed), (2 * BLOCKS * LBA_BYTES, BLOCKS * LBA_BYTES));
    let counted = pair.sites[1].running().pods.copied(stream());
    assert_eq!((counted.copied, counted.crossed), (2 * BLOCKS * LBA_BYTES, 0));
    // Neither array has stored the content again.
    for site in &pair.sites {
        assert!(site.running().engine.space().data < 2 * BLOCKS * LBA_BYTES);
    }
}

/// Copies a range at the array that orders. Returns the records that its log has then.
async fn logged(pair: &Pair, from: u64, blocks: u64, to: u64) -> u64 {
    let changes = || pair.sites[0].running().engine.space().changes;
    let before = changes();
    assert_eq!(pair.sites[0].run(copy(from, blocks, to)).await, Ok(Reply::Done));
    changes() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn later_copy_is_made_within_the_pod() {
    let (pair, content) = filled().await;
    assert!(logged(&pair, 0, BLOCKS, 0).await >= 8, "each chunk goes by way of a stage");
    assert!(logged(&pair, 0, BLOCKS, BLOCKS).await <= 2, "one copy within the pod");
    // A block of the source has changed, then one of the copy, then the copy is gone.
    let (site, new) = (&pair.sites[0], data(78, 8));
    let write = |volume, lba| Op::Write { volume, lba: Lba(lba), data: data(78, 8), fua: false };
    assert_eq!(site.run(write(PLAIN, 3000)).await, Ok(Reply::Done));
    let records = logged(&pair, 0, BLOCKS, 2 * BLOCKS).await;
    assert!((3..=5).contains(&records), "{records}: what is before and after it is equal, and one chunk is not");
    assert!(logged(&pair, 0, BLOCKS, BLOCKS).await <= 5, "the newest copy of the chunk is known");
    assert_eq!(site.run(write(volume(), 1000)).await, Ok(Reply::Done));
    assert!(logged(&pair, 0, BLOCKS, 3 * BLOCKS).await <= 7);
    let unmap = Op::Unmap { volume: volume(), ranges: vec![range(0, VOLUME_BLOCKS)] };
    assert_eq!(site.run(unmap).await, Ok(Reply::Done));
    assert!(logged(&pair, 0, BLOCKS, 2 * BLOCKS).await >= 8);
    let mut expected = content.to_vec();
    expected[3000 * 512..3008 * 512].copy_from_slice(&new);
    for site in &pair.sites {
        for part in 0..BLOCKS / 2048 {
            let (lba, at) = (2 * BLOCKS + part * 2048, part as usize * (1 << 20));
            assert!(site.read(lba, 2048).await.unwrap() == expected[at..at + (1 << 20)], "part {part}");
        }
    }
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_zeros_and_odd_ranges_are_copied() {
    let (pair, _) = filled().await;
    let mut rng = Rng::new(20_261_128);
    for at in [0, 1] {
        let site = &pair.sites[at];
        let unmap = Op::Unmap { volume: PLAIN, ranges: vec![range(800, 1600), range(4096, 4096)] };
        assert_eq!(site.run(unmap).await, Ok(Reply::Done));
        assert_eq!(site.run(Op::Zero { volume: PLAIN, range: range(1000, 400) }).await, Ok(Reply::Done));
        for _ in 0..12 {
            let unit = [1, 8][rng.index(2)];
            let blocks = rng.between(1, 3000 / unit) * unit;
            let from = rng.below((BLOCKS - blocks) / unit) * unit;
            let to = rng.below((VOLUME_BLOCKS - blocks) / unit) * unit;
            assert_eq!(site.run(copy(from, blocks, to)).await, Ok(Reply::Done));
            let read = Op::Read { volume: PLAIN, range: range(from, blocks) };
            let Ok(Reply::Data(expected)) = site.run(read).await else { panic!("it is readable") };
            for site in &pair.sites {
                assert!(site.read(to, blocks).await.unwrap() == expected, "{blocks} blocks from {from} to {to}");
            }
        }
    }
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_survive_broken_sessions() {
    let (pair, content) = filled().await;
    for round in 0..4 {
        let to = round % 4 * BLOCKS;
        let answers = [0, 1, 2, 3].map(|part: u64| {
            let from = part * 2048;
            pair.sites[part as usize % 2].submit(copy(from, 2048, to + from))
        });
        pair.break_session();
        for (part, answer) in (0..).zip(answers) {
            let answer = tokio::time::timeout(std::time::Duration::from_secs(60), answer).await;
            let mut answer = answer.expect("an answer").unwrap();
            // A forward that came too late is repeated, as hosts do.
            while matches!(answer, Err(OpError::Busy(_))) {
                let from = part * 2048;
                answer = pair.sites[part as usize % 2].run(copy(from, 2048, to + from)).await;
            }
            assert!(matches!(answer, Ok(Reply::Done)), "round {round}: {answer:?}");
        }
        pair.wait_in_step().await;
        for site in &pair.sites {
            assert!(site.read(to, 2048).await.unwrap() == content[..1 << 20]);
        }
    }
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_end_when_the_other_array_dies() {
    let (pair, content) = filled().await;
    let answers: Vec<_> = (0..4).map(|part| pair.sites[0].submit(copy(part * 2048, 2048, part * 2048))).collect();
    let delete = pair.sites[0].submit(Op::Change(vec![Change::DeleteVolume { volume: PLAIN }]));
    pair.sites[1].kill().await;
    for answer in answers {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(60), answer).await;
        let answer = answer.expect("the copy ends").unwrap();
        let is_possible = matches!(
            answer,
            Ok(Reply::Done)
                | Err(OpError::Transition(_)
                    | OpError::Busy(_)
                    | OpError::Unavailable(_)
                    | OpError::NoSuchVolume(PLAIN))
        );
        assert!(is_possible, "{answer:?}");
    }
    assert_eq!(delete.await.unwrap(), Ok(Reply::Done));
    pair.restart(1).await;
    pair.wait_in_step().await;
    pair.assert_equal().await;
    // Stages of the period before go with the first copy of the next one.
    let site = &pair.sites[1];
    assert_eq!(site.run(copy(0, BLOCKS, 0)).await, Ok(Reply::Done));
    assert!(site.read(0, 2048).await.unwrap() == content[..1 << 20]);
    pair.assert_equal().await;
    for site in &pair.sites {
        assert_eq!(site.running().engine.stream_stages(stream()).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_chunks_are_forgotten_at_both_arrays() {
    let (pair, _) = filled().await;
    copied(&pair, 0, 0).await;
    for site in &pair.sites {
        let delete = Op::Change(vec![Change::DeleteVolume { volume: PLAIN }]);
        assert_eq!(site.run(delete).await, Ok(Reply::Done));
    }
    let unmap = Op::Unmap { volume: volume(), ranges: vec![range(0, BLOCKS)] };
    assert_eq!(pair.sites[1].run(unmap).await, Ok(Reply::Done));
    for site in &pair.sites {
        site.wait("without the data of the copy", |site| site.running().engine.space().data < 1 << 20).await;
    }
}
