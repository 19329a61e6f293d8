//! Work of administrators: verifications, and arrays that were put back to an image.

use crate::common::{Pair, Site, VOLUME_BLOCKS, data, stream, volume, write};
use engine::{DeltaOp, Op, OpError, Reply, StreamService, call};
use link::{Cut, Distance};
use pod::{Alert, Role};
use pods::{Difference, DifferenceKind, PodError, VerifyState, VerifyStatus};
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::{BlockRange, Lba};

impl Site {
    fn verification(&self) -> VerifyStatus {
        self.running().pods.verification(stream()).expect("it was verified")
    }

    /// Verifies the pod. Returns the outcome.
    async fn verified(&self) -> VerifyStatus {
        self.running().pods.verify(stream()).unwrap();
        self.wait("verified", |site| site.verification().is_over()).await;
        self.wait("without a snapshot", |site| site.running().objects.list().len() == 1).await;
        self.verification()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_beside_hosts_finds_equal_arrays() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    for lba in (0..VOLUME_BLOCKS / 2).step_by(1024) {
        assert_eq!(pair.sites[0].run(write(lba, lba, 64)).await, Ok(Reply::Done));
    }
    let refused = pair.sites[1].running().pods.verify(stream());
    assert_eq!(refused, Err(PodError::Failed("the other array orders its changes now".to_owned())));
    pair.sites[0].running().pods.verify(stream()).unwrap();
    let mut written = 0;
    while !pair.sites[0].verification().is_over() {
        assert_eq!(pair.sites[written % 2].run(write(8, written as u64, 300)).await, Ok(Reply::Done));
        written += 1;
    }
    let found = pair.sites[0].verification();
    assert_eq!((&found.state, found.different), (&VerifyState::Complete, 0), "{found:?}");
    assert_eq!((found.compared, found.total), (VOLUME_BLOCKS * 512, VOLUME_BLOCKS * 512));
    for site in &pair.sites {
        site.wait("without a snapshot", |site| site.running().objects.list().len() == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_finds_what_was_lost_on_the_way() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    pair.sites[1].kill().await;
    // The first write may be ordered before the array is alone: it stays in the tail then.
    assert_eq!(pair.sites[0].run(write(4096, 1, 8)).await, Ok(Reply::Done));
    assert_eq!(pair.sites[0].run(write(8192, 2, 24)).await, Ok(Reply::Done));
    // The array forgets that the other one lacks a part of it.
    let engine = pair.sites[0].running().engine;
    let period = engine.stream_status(stream()).unwrap().period;
    let ranges = vec![BlockRange::new(Lba(8200), 16).unwrap()];
    let clear = DeltaOp::Clear { volume: volume(), period, ranges: ranges.clone() };
    let forget = {
        let engine = engine.clone();
        move || call(&*engine, Op::Delta(clear))
    };
    assert_eq!(tokio::task::spawn_blocking(forget).await.unwrap(), Ok(Reply::Done));
    drop(engine);
    pair.restart(1).await;
    pair.wait_in_step().await;
    let lost = pair.sites[1].read(8200, 16).await;
    assert_ne!(lost, pair.sites[0].read(8200, 16).await, "the arrays differ");
    let found = pair.sites[0].verified().await;
    let expected = Difference { volume: volume(), range: ranges[0], kind: DifferenceKind::Content };
    assert_eq!((&found.state, found.differences.as_slice()), (&VerifyState::Complete, &[expected][..]));
    assert_eq!(found.different, 16 * 512);
    // It is known after a restart, until a comparison finds nothing.
    pair.sites[0].kill().await;
    pair.restart(0).await;
    pair.wait_in_step().await;
    // The other array knows it as well, from its own point of view.
    for site in &pair.sites {
        let has_learned = |site: &Site| site.running().pods.difference(stream()) == Some((16 * 512, found.found_ms));
        site.wait("with a known difference", has_learned).await;
    }
    let sequencer = pair.sites.iter().find(|site| site.status().unwrap().is_sequencer).unwrap();
    assert_eq!(sequencer.run(write(8200, 3, 16)).await, Ok(Reply::Done));
    let clean = sequencer.verified().await;
    assert_eq!((&clean.state, clean.different), (&VerifyState::Complete, 0));
    for site in &pair.sites {
        site.wait("without a difference", |site| site.running().pods.difference(stream()).is_none()).await;
        assert_eq!(site.verification().number, clean.number);
    }
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_of_a_silent_array_is_stopped_at_once() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    for lba in (0..VOLUME_BLOCKS).step_by(64) {
        assert_eq!(pair.sites[0].run(write(lba, lba, 64)).await, Ok(Reply::Done));
    }
    pair.sites[0].running().pods.verify(stream()).unwrap();
    assert!(pair.sites[0].running().pods.verify(stream()).is_err(), "one at a time");
    pair.set_distance(0, Distance { cut: Cut::Both, ..Distance::default() });
    pair.sites[0].running().pods.stop_verify(stream()).unwrap();
    assert_eq!(pair.sites[0].verification().state, VerifyState::Stopped);
    assert!(pair.sites[0].running().pods.stop_verify(stream()).is_err(), "it is over");
    pair.set_distance(0, Distance::default());
    pair.wait_in_step().await;
    let pods = pair.sites[0].running().pods;
    for site in &pair.sites {
        let pods = pods.clone();
        tokio::task::spawn_blocking(move || pods.tidy_verifications()).await.unwrap();
        site.wait("without a snapshot", |site| site.running().objects.list().len() == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn array_put_back_to_an_image_serves_nothing_old() {
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    pair.wait_rule("decided by the mediator", |status| status.only.is_none()).await;
    assert_eq!(pair.sites[0].run(write(8, 1, 8)).await, Ok(Reply::Done));
    pair.sites[0].kill().await;
    pair.sites[1].kill().await;
    pair.sites[0].is_restored.store(true, Ordering::Relaxed);
    pair.restart(0).await;
    // By the mediator, it could serve alone.
    assert!(matches!(pair.sites[0].run(write(8, 2, 8)).await, Err(OpError::Unavailable(_))));
    pair.sites[0].kill().await;
    // It knows it at the next start, too.
    pair.restart(0).await;
    assert!(pair.sites[0].status().unwrap().is_hurt);
    pair.restart(1).await;
    pair.wait_in_step().await;
    let status = pair.sites[1].status().unwrap();
    assert!(status.alerts.iter().any(|(_, alert)| *alert == Alert::PeerLostLog), "{status:?}");
    assert_eq!((status.role, pair.sites[0].status().unwrap().is_hurt), (Role::Sync, false));
    assert_eq!(pair.sites[0].read(8, 8).await, Ok(data(1, 8)));
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_administrators_are_answered_apart() {
    let pair = Pair::new().await;
    let pods = pair.sites[0].running().pods;
    let (own, peer) = (pair.sites[0].id.clone(), pair.sites[1].id.clone());
    let ask = |text: String| {
        let (pods, peer) = (pods.clone(), peer.clone());
        tokio::task::spawn_blocking(move || pods.ask(&peer, text.as_bytes(), Duration::from_secs(30)))
    };
    let asked: Vec<_> = (0..4).map(|n| ask(n.to_string())).collect();
    for (n, answer) in asked.into_iter().enumerate() {
        assert_eq!(answer.await.unwrap().as_deref(), Some(format!("{own} asked: {n}").as_bytes()));
    }
    let unknown = pods.clone();
    let none = tokio::task::spawn_blocking(move || unknown.ask("x", b"", Duration::from_secs(30))).await.unwrap();
    assert_eq!(none, None, "there is no link to it");
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_that_the_other_array_lacks_is_forgotten() {
    let pair = Pair::new().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    let forget = async |at: usize| {
        let pods = pair.sites[at].running().pods;
        tokio::task::spawn_blocking(move || pods.forget_pod(stream())).await.unwrap()
    };
    assert_eq!(forget(1).await, Err(PodError::Failed("this array serves it".to_owned())));
    pair.sites[1].kill().await;
    pair.sites[0].wait("alone", |site| site.status().is_some_and(|status| status.is_alone)).await;
    let pods = pair.sites[0].running().pods;
    tokio::task::spawn_blocking(move || pods.abandon(stream())).await.unwrap().unwrap();
    pair.restart(1).await;
    pair.sites[1].wait("told", |site| site.status().is_some_and(|status| status.is_peer_without)).await;
    assert_eq!(forget(1).await, Ok(()));
    assert!(pair.sites[1].status().is_none() && pair.sites[1].running().objects.list().is_empty());
    assert_eq!(pair.sites[0].run(write(8, 5, 8)).await, Ok(Reply::Done), "the other array still serves its own");
    // It can come again.
    assert_eq!(forget(1).await, Err(PodError::Unknown));
}
