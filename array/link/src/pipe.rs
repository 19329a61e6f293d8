//! Moves frames between a connection and the queues of a session, at the simulated distance.

use crate::channel::{Channel, ChannelError};
use crate::distance::{Direction, Distance, Lane};
use crate::frame::Frame;
use crate::timer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// Frames that may wait in each direction. More than the windows of two link tests, so that an
/// answer always finds a place.
const QUEUE_FRAMES: usize = 256;

/// Bytes on the wire before encryption.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// The queue to the connection.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing(mpsc::Sender<(Instant, Frame)>);

/// The connection is over, or takes no more frames.
#[derive(Debug)]
pub(crate) struct NotSent;

impl Outgoing {
    /// Queues a frame; waits for a place.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), NotSent> {
        let place = self.0.reserve().await.map_err(|_| NotSent)?;
        place.send((platform::clock::now(), frame));
        Ok(())
    }

    /// Queues a frame if there is a place.
    pub(crate) fn try_send(&self, frame: Frame) -> Result<(), NotSent> {
        self.0.try_send((platform::clock::now(), frame)).map_err(|_| NotSent)
    }
}

/// The ends of the queues that the pipe serves.
pub(crate) struct Pipe {
    outgoing: mpsc::Receiver<(Instant, Frame)>,
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
            while let Some((at, frame)) = outgoing.recv().await {
                travel(&mut lane, &mut distance, Direction::Out, at, &frame).await;
                writer.send(&frame).await?;
                sent.sent.fetch_add(frame.wire_bytes() as u64, Ordering::Relaxed);
            }
            Ok(())
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
                travel(&mut lane, &mut distance, Direction::In, at, &frame).await;
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

/// Waits until the frame has covered the distance. A cut holds it back.
async fn travel(
    lane: &mut Lane,
    distance: &mut watch::Receiver<Distance>,
    direction: Direction,
    at: Instant,
    frame: &Frame,
) {
    let now = *distance.borrow_and_update();
    timer::wait_until(lane.due(at, frame.wire_bytes(), &now)).await;
    // The sender ends together with the link.
    let _ = distance.wait_for(|distance| !distance.cuts(direction)).await;
}
