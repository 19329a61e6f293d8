//! The data connection of a session. It carries link tests and frames about pods; heartbeats never
//! wait for it, because they have a connection of their own.

use crate::frame::{Frame, Kind, MAX_BODY_BYTES};
use crate::message::{bulk_received, one_number, test_request, test_result, two_numbers};
use crate::pipe::{NotSent, Outgoing, POD_FRAMES, QUEUE_FRAMES};
use crate::remote::Remote;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// `Bulk` frames that this array accepts before it has confirmed one, and sends at most.
pub(crate) const WINDOW_FRAMES: u32 = 64;
const _: () = assert!(POD_FRAMES + 2 * (WINDOW_FRAMES as usize) < QUEUE_FRAMES);
/// Longest link test in one direction.
pub(crate) const MAX_TEST: Duration = Duration::from_secs(10);

/// Data that crossed the link in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Confirmed bytes.
    pub bytes: u64,
    /// Time until the last confirmation.
    pub time: Duration,
}

impl Transfer {
    /// Returns bytes per second.
    pub fn rate(&self) -> u64 {
        let micros = self.time.as_micros().max(1);
        u64::try_from(u128::from(self.bytes) * 1_000_000 / micros).unwrap_or(u64::MAX)
    }
}

/// Takes the frames about pods.
pub(crate) trait PodFrames: Send + Sync {
    /// Takes a frame. An error ends the session for this reason.
    fn receive(&self, frame: Frame) -> Result<(), String>;
    /// No frame waits any more.
    fn batch_ended(&self);
}

/// A data connection.
#[derive(Debug)]
pub(crate) struct DataConnection {
    outgoing: Outgoing,
    /// A permit for each `Bulk` frame that may be sent.
    window: Semaphore,
    window_frames: u32,
    /// Places in the queue for frames about pods.
    pod_places: Arc<Semaphore>,
    body: Bytes,
    /// A test that the other array asked for is running.
    is_serving: AtomicBool,
    /// The test in the other direction, whose result is awaited.
    asked: Mutex<Option<oneshot::Sender<Transfer>>>,
}

impl DataConnection {
    pub(crate) fn new(outgoing: Outgoing, remote: &Remote) -> Arc<Self> {
        let window_frames = remote.window_frames.min(WINDOW_FRAMES);
        let body_bytes = remote.max_body_bytes.min(MAX_BODY_BYTES) as usize;
        Arc::new(Self {
            outgoing,
            window: Semaphore::new(window_frames as usize),
            window_frames,
            pod_places: Arc::new(Semaphore::new(POD_FRAMES)),
            body: vec![0; body_bytes].into(),
            is_serving: AtomicBool::new(false),
            asked: Mutex::default(),
        })
    }

    /// Ends all tests.
    pub(crate) fn close(&self) {
        self.window.close();
        self.pod_places.close();
        self.asked.lock().take();
    }

    /// Sends as much as possible for `time`, and waits for the confirmations.
    pub(crate) async fn send_for(&self, time: Duration) -> Result<Transfer, NotSent> {
        let (start, mut bytes) = (platform::clock::now(), 0);
        while platform::clock::now().saturating_duration_since(start) < time {
            self.window.acquire().await.map_err(|_| NotSent)?.forget();
            self.outgoing.send(Frame::new(Kind::Bulk, self.body.clone())).await?;
            bytes += self.body.len() as u64;
        }
        drop(self.window.acquire_many(self.window_frames).await.map_err(|_| NotSent)?);
        Ok(Transfer { bytes, time: platform::clock::now().saturating_duration_since(start) })
    }

    /// Asks the other array to send for `time`. Returns its report.
    pub(crate) async fn ask_for(&self, time: Duration) -> Result<Transfer, NotSent> {
        let (sender, result) = oneshot::channel();
        *self.asked.lock() = Some(sender);
        let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        self.outgoing.send(test_request(millis)).await?;
        result.await.map_err(|_| NotSent)
    }

    /// Answers the frames of the other array, and passes those about pods on, until the queue or
    /// the protocol ends. Returns the reason.
    pub(crate) async fn talk(self: &Arc<Self>, incoming: &mut mpsc::Receiver<Frame>, pods: &dyn PodFrames) -> String {
        loop {
            let frame = match incoming.try_recv() {
                Ok(frame) => Some(frame),
                Err(_) => {
                    pods.batch_ended();
                    incoming.recv().await
                }
            };
            let Some(frame) = frame else { return "the other array closed the data connection".to_owned() };
            let handled = match frame.kind.is_of_pod() {
                true => pods.receive(frame),
                false => self.handle(&frame).map_err(str::to_owned),
            };
            if let Err(reason) = handled {
                return reason;
            }
        }
    }

    /// Queues a frame about a pod; waits for a place.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), NotSent> {
        self.outgoing.send_among(frame, &self.pod_places).await
    }

    fn handle(self: &Arc<Self>, frame: &Frame) -> Result<(), &'static str> {
        match frame.kind {
            Kind::Bulk => {
                let bytes = u32::try_from(frame.body.len()).unwrap_or(u32::MAX);
                // The queue has places for the whole window beside other frames.
                self.outgoing.try_send(bulk_received(bytes)).map_err(|_| "the other array exceeded its window")
            }
            Kind::BulkReceived => {
                if self.window.available_permits() >= self.window_frames as usize {
                    return Err("the other array confirmed more than was sent");
                }
                self.window.add_permits(1);
                Ok(())
            }
            Kind::TestRequest => self.serve(one_number(&frame.body).unwrap_or(u32::MAX)),
            Kind::TestResult => {
                let (bytes, micros) = two_numbers(&frame.body).unwrap_or_default();
                if let Some(asked) = self.asked.lock().take() {
                    // The test may have been abandoned.
                    let _ = asked.send(Transfer { bytes, time: Duration::from_micros(micros) });
                }
                Ok(())
            }
            _ => Err("the other array broke the protocol of the data connection"),
        }
    }

    /// Sends for the other array.
    fn serve(self: &Arc<Self>, millis: u32) -> Result<(), &'static str> {
        let time = Duration::from_millis(millis.into());
        if time > MAX_TEST || self.is_serving.swap(true, Ordering::Relaxed) {
            return Err("the other array asked for too many link tests");
        }
        let data = self.clone();
        // Ends with the connection, which closes the window and the queue.
        tokio::spawn(async move {
            if let Ok(done) = data.send_for(time).await {
                let micros = u64::try_from(done.time.as_micros()).unwrap_or(u64::MAX);
                data.is_serving.store(false, Ordering::Relaxed);
                let _ = data.outgoing.send(test_result(done.bytes, micros)).await;
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::queues;

    fn connection() -> Arc<DataConnection> {
        let (pipe, outgoing, incoming) = queues();
        // The queue stays open.
        std::mem::forget((pipe, incoming));
        let address = ([127, 0, 0, 1], 1).into();
        let version = String::new();
        let remote = Remote {
            version,
            incarnation: 1,
            local: address,
            remote: address,
            max_body_bytes: u32::MAX,
            window_frames: u32::MAX,
        };
        DataConnection::new(outgoing, &remote)
    }

    #[tokio::test]
    async fn peer_beyond_its_limits_is_refused() {
        let data = connection();
        let refused = |frame: Frame| data.handle(&frame).unwrap_err();
        assert!(refused(bulk_received(1)).contains("confirmed more than was sent"));
        assert!(refused(test_request(10_001)).contains("too many link tests"));
        data.handle(&test_request(10_000)).unwrap();
        assert!(refused(test_request(1)).contains("too many link tests"));
        assert!(refused(Frame::new(Kind::Ping, vec![0; 16])).contains("broke the protocol"));
        let bulk = Frame::new(Kind::Bulk, vec![0; 10]);
        let taken = (0..1000).take_while(|_| data.handle(&bulk).is_ok()).count();
        assert!((WINDOW_FRAMES as usize..1000).contains(&taken), "{taken}");
    }

    #[test]
    fn rate_is_bytes_per_second() {
        assert_eq!(Transfer { bytes: 3000, time: Duration::from_millis(2) }.rate(), 1_500_000);
    }
}
