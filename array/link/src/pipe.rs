//! Moves frames between a connection and the queues of a session, at the simulated distance.

use crate::channel::{Channel, ChannelError};
use crate::distance::{Direction, Distance, Lane};
use crate::frame::Frame;
use crate::timer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// Frames that may wait in each direction: the windows of two link tests, so that an answer always
/// finds a place, and those about pods.
pub(crate) const QUEUE_FRAMES: usize = 256;
/// Frames about pods that may wait.
pub(crate) const POD_FRAMES: usize = 120;

/// Frames that are due are sent together, up to this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes on the wire before encryption.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// A frame in a queue, and its place among those of its purpose, if these are limited.
#[derive(Debug)]
struct Queued {
    at: Instant,
    frame: Frame,
    _place: Option<OwnedSemaphorePermit>,
}

/// The queue to the connection.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing(mpsc::Sender<Queued>);

/// The connection is over, or takes no more frames.
#[derive(Debug)]
pub(crate) struct NotSent;

impl Outgoing {
    /// Queues a frame; waits for a place.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), NotSent> {
        self.enqueue(frame, None).await
    }

    /// Queues a frame; waits for a place in the queue and among `places`.
    pub(crate) async fn send_among(&self, frame: Frame, places: &Arc<Semaphore>) -> Result<(), NotSent> {
        let place = places.clone().acquire_owned().await.map_err(|_| NotSent)?;
        self.enqueue(frame, Some(place)).await
    }

    async fn enqueue(&self, frame: Frame, place: Option<OwnedSemaphorePermit>) -> Result<(), NotSent> {
        let reserved = self.0.reserve().await.map_err(|_| NotSent)?;
        reserved.send(Queued { at: platform::clock::now(), frame, _place: place });
        Ok(())
    }

    /// Queues a frame if there is a place.
    pub(crate) fn try_send(&self, frame: Frame) -> Result<(), NotSent> {
        self.0.try_send(Queued { at: platform::clock::now(), frame, _place: None }).map_err(|_| NotSent)
    }
}

/// The ends of the queues that the pipe serves.
pub(crate) struct Pipe {
    outgoing: mpsc::Receiver<Queued>,
    incoming: mpsc::Sender<Frame>,
}

/// Creates the queues of a connection.
pub(crate) fn queues() -> (Pipe, Outgoing, mpsc::Receiver<Frame>) {
    let (sender, outgoing) = mpsc::channel(QUEUE_FRAMES);
    let (incoming, receiver) = mpsc::channel(QUEUE_FRAMES);
    (Pipe { outgoing, incoming }, Outgoing(sender), receiver)
}

impl Pipe {
    /// Moves frames until the connection ends.
    pub(crate) async fn run(
        self,
        channel: Channel,
        distance: watch::Receiver<Distance>,
        traffic: Arc<Traffic>,
    ) -> ChannelError {
        let Self { mut outgoing, incoming } = self;
        let Channel { mut reader, mut writer, .. } = channel;
        let seed = u64::from_le_bytes(platform::random::bytes().unwrap_or_default());
        let (out_distance, sent) = (distance.clone(), traffic.clone());
        let write = async move {
            let (mut lane, mut distance) = (Lane::new(seed), out_distance);
            loop {
                let next = match outgoing.try_recv() {
                    Ok(next) if writer.waiting() < BATCH_BYTES => Some(next),
                    Ok(next) => {
                        writer.flush().await?;
                        Some(next)
                    }
                    Err(_) => {
                        writer.flush().await?;
                        outgoing.recv().await
                    }
                };
                let Some(Queued { at, frame, .. }) = next else { return Ok(()) };
                let (due, is_cut) = lane_due(&mut lane, &mut distance, Direction::Out, at, &frame);
                if is_cut || due > platform::clock::now() {
                    writer.flush().await?;
                    travel(&mut distance, Direction::Out, due).await;
                }
                writer.push(&frame);
                sent.sent.fetch_add(frame.wire_bytes() as u64, Ordering::Relaxed);
            }
        };
        let (arrived, mut arrivals) = mpsc::channel(QUEUE_FRAMES);
        let read = async move {
            loop {
                let frame = reader.next().await?;
                traffic.received.fetch_add(frame.wire_bytes() as u64, Ordering::Relaxed);
                if arrived.send((platform::clock::now(), frame)).await.is_err() {
                    return Ok(());
                }
            }
        };
        let deliver = async move {
            let (mut lane, mut distance) = (Lane::new(!seed), distance);
            while let Some((at, frame)) = arrivals.recv().await {
                let (due, _) = lane_due(&mut lane, &mut distance, Direction::In, at, &frame);
                travel(&mut distance, Direction::In, due).await;
                if incoming.send(frame).await.is_err() {
                    break;
                }
            }
        };
        // The frames before the end of the stream are delivered.
        let receive = async { tokio::join!(read, deliver).0 };
        let ended: Result<(), ChannelError> = tokio::select! {
            ended = write => ended,
            ended = receive => ended,
        };
        ended.err().unwrap_or(ChannelError::Closed)
    }
}

/// Returns the time at which a frame has covered the distance, and whether a cut holds it back.
fn lane_due(
    lane: &mut Lane,
    distance: &mut watch::Receiver<Distance>,
    direction: Direction,
    at: Instant,
    frame: &Frame,
) -> (Instant, bool) {
    let now = *distance.borrow_and_update();
    (lane.due(at, frame.wire_bytes(), &now), now.cuts(direction))
}

/// Waits until a frame has covered the distance. A cut holds it back.
async fn travel(distance: &mut watch::Receiver<Distance>, direction: Direction, due: Instant) {
    timer::wait_until(due).await;
    // The sender ends together with the link.
    let _ = distance.wait_for(|distance| !distance.cuts(direction)).await;
}
