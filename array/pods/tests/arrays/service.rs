//! The service of hosts at both arrays, while nothing fails and after single failures.

use crate::common::{Pair, Site, VOLUME_BLOCKS, data, stream, time_until, volume, write};
use bytes::Bytes;
use engine::{Gate, Op, OpError, Reply, StreamService};
use pod::{Alert, Request, Role};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testing::Rng;
use types::{BlockRange, LBA_BYTES, Lba};

#[tokio::test(flavor = "multi_thread")]
async fn stretched_pod_comes_into_step() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    let alerts = pair.sites[0].status().unwrap().alerts;
    assert!(alerts.iter().all(|(_, alert)| *alert != Alert::PeerLostLog), "it has had none: {alerts:?}");
    assert_eq!(pair.sites[0].run(write(8, 1, 8)).await, Ok(Reply::Done));
    pair.assert_equal().await;
    assert_eq!(pair.sites[1].read(8, 8).await, Ok(data(1, 8)), "it is read at the array that follows");
}

#[tokio::test(flavor = "multi_thread")]
async fn content_from_before_crosses_while_hosts_write() {
    let pair = Pair::new().await;
    pair.create_volume().await;
    for lba in (0..VOLUME_BLOCKS / 2).step_by(256) {
        assert_eq!(pair.sites[0].run(write(lba, lba, 256)).await, Ok(Reply::Done));
    }
    pair.begin().await;
    let mut rng = Rng::new(20_261_127);
    let mut written = 0;
    while !pair.sites[0].status().unwrap().is_in_step {
        let op = write(rng.below(VOLUME_BLOCKS - 64), rng.next_u64(), rng.between(1, 64));
        assert_eq!(pair.sites[0].run(op).await, Ok(Reply::Done), "hosts are served");
        written += 1;
    }
    assert!(written > 10);
    pair.wait_in_step().await;
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_made_at_either_array() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    // A write of 1.5 MiB is divided.
    for (at, lba, blocks) in [(1, 8, 8), (0, 100, 9), (1, 4096, 3072), (1, 101, 3)] {
        assert_eq!(pair.sites[at].run(write(lba, lba, blocks)).await, Ok(Reply::Done));
        for site in &pair.sites {
            assert_eq!(site.read(lba, blocks).await, Ok(data(lba, blocks)), "written at {at}");
        }
    }
    let miss = Op::CompareAndWrite { volume: volume(), lba: Lba(8), compare: data(1, 1), write: data(2, 1) };
    let expected = Err(OpError::Miscompare { offset: 0 });
    assert_eq!(pair.sites[1].run(miss).await, expected);
    let beyond = write(VOLUME_BLOCKS, 1, 8);
    assert_eq!(pair.sites[1].run(beyond).await, Err(OpError::OutOfRange { blocks: VOLUME_BLOCKS }));
    pair.assert_equal().await;
}

/// Returns a block with a number.
fn number(value: u64) -> Bytes {
    let mut block = vec![0; 512];
    block[..8].copy_from_slice(&value.to_le_bytes());
    block.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_arrays_count_together_with_compare_and_write() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    let count = async |at: usize| {
        let site = &pair.sites[at];
        let mut done = 0;
        while done < 50 {
            let bytes = site.read(8, 1).await.unwrap();
            let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let (compare, write) = (number(value), number(value + 1));
            match site.run(Op::CompareAndWrite { volume: volume(), lba: Lba(8), compare, write }).await {
                Ok(Reply::Done) => done += 1,
                Err(OpError::Miscompare { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::join!(count(0), count(1));
    for site in &pair.sites {
        assert_eq!(site.read(8, 1).await, Ok(number(100)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_sessions_lose_no_change() {
    let seed = 20_261_127;
    let (pair, mut rng) = (Pair::new().await, Rng::new(seed));
    pair.stretch().await;
    pair.wait_in_step().await;
    for round in 0..5 {
        let mut answers = Vec::new();
        for number in 0..40 {
            let blocks = [1, 8, 64, 300][rng.index(4)];
            let op = write(rng.below(VOLUME_BLOCKS - blocks), round * 100 + number, blocks);
            let at = rng.index(2);
            answers.push((at, op.clone(), pair.sites[at].submit(op)));
        }
        tokio::time::sleep(Duration::from_micros(rng.below(4000))).await;
        pair.break_session();
        for (at, op, answer) in answers {
            let mut answer = tokio::time::timeout(Duration::from_secs(30), answer).await.expect("an answer").unwrap();
            // One that waits too long for the next session is refused, and repeated as hosts do.
            while matches!(answer, Err(OpError::Busy(_))) {
                answer = pair.sites[at].run(op.clone()).await;
            }
            assert_eq!(answer, Ok(Reply::Done), "seed {seed}, round {round}");
        }
    }
    pair.wait_in_step().await;
    assert_eq!(pair.sites[0].status().unwrap().epoch, pair.sites[1].status().unwrap().epoch);
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_array_continues_and_the_first_returns() {
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    for site in &pair.sites {
        site.wait("under the mediator", |site| site.status().is_some_and(|status| status.only.is_none())).await;
        site.wait("in force", |site| site.status().is_some_and(|status| status.is_rule_in_force)).await;
    }
    assert_eq!(pair.sites[0].run(write(8, 1, 8)).await, Ok(Reply::Done));
    pair.sites[0].kill().await;
    // The mediator decides for the second array, which serves every change of before.
    assert_eq!(pair.sites[1].run(write(16, 2, 8)).await, Ok(Reply::Done));
    assert_eq!(pair.sites[1].read(8, 8).await, Ok(data(1, 8)));
    assert_eq!(pair.sites[1].status().unwrap().role, Role::Solo);
    pair.restart(0).await;
    pair.wait_in_step().await;
    pair.assert_equal().await;
    let status = pair.sites[0].status().unwrap();
    assert!(!status.is_sequencer, "the array that was alone orders");
    assert_eq!(pair.sites[0].run(write(24, 3, 8)).await, Ok(Reply::Done), "forwarded");
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mediator_is_replaced_by_way_of_none() {
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    for round in 0..2 {
        pair.wait_rule("the mediator decides", |status| status.only.is_none()).await;
        pair.set_mediator(false);
        pair.wait_rule("one array may continue", |status| status.only.is_some()).await;
        assert_eq!(pair.sites[1].run(write(8, round, 8)).await, Ok(Reply::Done));
        pair.set_mediator(true);
    }
    pair.wait_rule("the mediator decides again", |status| status.only.is_none()).await;
    pair.sites[0].kill().await;
    assert_eq!(pair.sites[1].run(write(16, 2, 8)).await, Ok(Reply::Done), "the mediator decides for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn array_that_stops_hands_over_without_a_pause() {
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    for round in 0..2 {
        pair.wait_in_step().await;
        let at = usize::from(!pair.sites[0].status().unwrap().is_sequencer);
        let pods = pair.sites[at].running().pods;
        tokio::task::spawn_blocking(move || pods.hand_over(Duration::from_secs(5))).await.unwrap();
        let waits = time_until(async {
            // A change that was on its way to the array that stops is repeated, as hosts do.
            while pair.sites[1 - at].run(write(8, round, 8)).await != Ok(Reply::Done) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waits.await < Duration::from_millis(1500), "no lease has to end");
        pair.sites[at].kill().await;
        pair.restart(at).await;
    }
    pair.wait_in_step().await;
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_that_dies_returns_with_what_it_lacks() {
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    assert_eq!(pair.sites[1].run(write(8, 1, 8)).await, Ok(Reply::Done));
    pair.sites[1].kill().await;
    for lba in (0..4096).step_by(64) {
        assert_eq!(pair.sites[0].run(write(lba, lba + 7, 16)).await, Ok(Reply::Done));
    }
    pair.restart(1).await;
    pair.wait_in_step().await;
    pair.assert_equal().await;
    assert!(pair.sites[0].status().unwrap().is_sequencer);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_has_not_changed_is_not_sent_again() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    for lba in (0..VOLUME_BLOCKS / 2).step_by(2048) {
        assert_eq!(pair.sites[0].run(write(lba, lba, 2048)).await, Ok(Reply::Done));
    }
    // Records are sent again until each array knows that the other one has them. A session that
    // ends on a busy machine leaves them in a delta.
    for site in &pair.sites {
        let has_sent_all = |site: &Site| {
            let status = site.running().engine.stream_status(stream()).unwrap();
            status.gate == Gate::Both && status.is_delta_empty && status.tail.is_some_and(|tail| tail.is_empty())
        };
        site.wait("without a tail", has_sent_all).await;
    }
    pair.sites[1].kill().await;
    assert_eq!(pair.sites[0].run(write(8, 1, 64)).await, Ok(Reply::Done));
    pair.restart(1).await;
    pair.wait_in_step().await;
    // The array counts the bytes of this process alone, and it has received all that was sent.
    let link = pair.sites[1].running().links.connections().remove(0);
    let content = VOLUME_BLOCKS / 2 * LBA_BYTES;
    assert!(link.received_bytes < content / 2, "{} of {content} bytes", link.received_bytes);
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_arrays_return_after_a_loss_of_power() {
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    assert_eq!(pair.sites[1].run(write(8, 1, 8)).await, Ok(Reply::Done));
    pair.sites[0].kill().await;
    pair.sites[1].kill().await;
    pair.restart(0).await;
    pair.restart(1).await;
    pair.wait_in_step().await;
    pair.assert_equal().await;
    assert_eq!(pair.sites[0].read(8, 8).await, Ok(data(1, 8)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mediator_the_preferred_array_serves() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    pair.sites[1].kill().await;
    assert_eq!(pair.sites[0].run(write(8, 1, 8)).await, Ok(Reply::Done), "its own right");
    pair.restart(1).await;
    pair.wait_in_step().await;
    pair.sites[0].kill().await;
    let held = pair.sites[1].run(write(16, 1, 8)).await;
    assert!(matches!(held, Err(OpError::Transition(_))), "{held:?}");
    pair.restart(0).await;
    pair.wait_in_step().await;
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unstretched_pod_is_on_the_first_array_alone() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    assert_eq!(pair.sites[1].run(write(8, 1, 8)).await, Ok(Reply::Done));
    pair.sites[0].request(Request::Unstretch).await.unwrap();
    pair.sites[0].wait("alone", |site| site.status().is_none()).await;
    pair.sites[1].wait("without the pod", |site| site.status().is_none()).await;
    assert_eq!(pair.sites[0].read(8, 8).await, Ok(data(1, 8)));
    assert_eq!(pair.sites[0].run(write(16, 2, 8)).await, Ok(Reply::Done), "a plain volume again");
    assert!(matches!(pair.sites[1].read(8, 8).await, Err(OpError::NoSuchVolume(_))));
    // It can be stretched again.
    pair.begin().await;
    pair.wait_in_step().await;
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn array_that_refuses_a_pod_gives_its_reason() {
    let pair = Pair::new().await;
    pair.sites[1].running().objects.refuse("no room for it");
    pair.stretch().await;
    pair.sites[0].wait("refused", |site| !site.running().objects.refused.lock().is_empty()).await;
    assert_eq!(pair.sites[0].running().objects.refused.lock()[..], ["no room for it".to_owned()]);
    assert_eq!(pair.sites[0].run(write(8, 1, 8)).await, Ok(Reply::Done), "it serves alone");
    assert_eq!(pair.sites[1].running().pods.streams(), []);
    let pods = pair.sites[0].running().pods;
    tokio::task::spawn_blocking(move || pods.abandon(stream())).await.unwrap().unwrap();
    assert_eq!(pair.sites[0].run(write(16, 2, 8)).await, Ok(Reply::Done), "it is on one array again");
    assert_eq!(pair.sites[0].running().pods.streams(), []);
}

/// Writes and reads without a pause until it has to stop. Each must succeed.
async fn load(pair: &Pair, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(pair.sites[0].run(write(8, rounds, 8)).await, Ok(Reply::Done));
        assert_eq!(pair.sites[0].read(8, 8).await, Ok(data(rounds, 8)));
        rounds += 1;
    }
    rounds
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_notice_no_stretch_and_no_end_of_it() {
    let pair = Pair::new().await;
    pair.create_volume().await;
    let stop = AtomicBool::new(false);
    let changes = async {
        for _ in 0..2 {
            pair.begin().await;
            pair.wait_in_step().await;
            pair.sites[0].request(Request::Unstretch).await.unwrap();
            for site in &pair.sites {
                site.wait("without the pod", |site| site.status().is_none()).await;
            }
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (rounds, ()) = tokio::join!(load(&pair, &stop), changes);
    assert!(rounds > 100, "{rounds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_whose_stream_ends_returns() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    for round in 0..3 {
        // As if a record could not be applied.
        pair.sites[1].running().engine.close_stream(stream()).unwrap();
        assert_eq!(pair.sites[0].run(write(8, round, 8)).await, Ok(Reply::Done), "after a while");
        pair.sites[0].wait("in step again", |site| site.status().is_some_and(|status| status.is_in_step)).await;
        pair.wait_in_step().await;
        pair.assert_equal().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_stretch_survives_a_restart() {
    for wait_ms in [0, 20, 100] {
        let pair = Pair::new().await;
        pair.stretch().await;
        pair.wait_in_step().await;
        assert_eq!(pair.sites[0].run(write(8, 1, 8)).await, Ok(Reply::Done));
        pair.sites[0].request(Request::Unstretch).await.unwrap();
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        pair.sites[0].kill().await;
        pair.sites[1].kill().await;
        pair.restart(0).await;
        pair.restart(1).await;
        // Either the arrays are in step again, or the pod is on the first one alone.
        let is_over = |site: &Site| site.status().is_none_or(|status| status.is_in_step);
        for site in &pair.sites {
            site.wait("decided", is_over).await;
        }
        assert_eq!(pair.sites[0].read(8, 8).await, Ok(data(1, 8)));
        assert_eq!(pair.sites[0].run(write(16, 2, 8)).await, Ok(Reply::Done));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_that_the_other_array_lacks_are_made_there() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    pair.sites[1].kill().await;
    // 40 volumes: more than one record makes.
    for number in 2..42 {
        pair.sites[0].add_volume(stream().volume(number), 2048).await;
    }
    let other = stream().volume(41);
    let op = Op::Write { volume: other, lba: Lba(0), data: data(9, 8), fua: false };
    assert_eq!(pair.sites[0].run(op).await, Ok(Reply::Done));
    pair.restart(1).await;
    pair.wait_in_step().await;
    let volumes = |at: usize| pair.sites[at].running().engine.stream_volumes(stream());
    assert_eq!((volumes(0).len(), volumes(0)), (41, volumes(1)));
    pair.sites[1].wait("with all objects", |site| site.running().objects.list().len() == 41).await;
    let range = BlockRange::new(Lba(0), 8).unwrap();
    let read = pair.sites[1].run(Op::Read { volume: other, range }).await;
    assert_eq!(read, Ok(Reply::Data(data(9, 8))));
    // One that comes while both serve is made by a record.
    pair.sites[0].add_volume(stream().volume(42), 2048).await;
    pair.sites[1].wait("with the new one", |site| site.running().objects.list().len() == 42).await;
    assert_eq!(volumes(1).len(), 42);
}
