//! The control connection of a session: heartbeats, round-trip times, and news of the other array.

use crate::frame::{Frame, Kind};
use crate::hello::Hello;
use crate::message::{Refusal, ping, pong, two_numbers};
use crate::peer::Peer;
use crate::session::{Session, SessionEnd};
use platform::clock;
use std::time::Duration;
use tokio::sync::mpsc;

/// Time between two heartbeats.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(200);
/// A link that is silent for this long is lost (`give_up_after`).
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// Called when the other array has another name than before.
pub(crate) type Renamed<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Exchanges heartbeats until the session ends.
pub(crate) async fn talk(
    peer: &Peer,
    session: &Session,
    incoming: &mut mpsc::Receiver<Frame>,
    own_hello: &(dyn Fn() -> Hello + Send + Sync),
    renamed: Renamed<'_>,
) -> SessionEnd {
    let mut ticks = tokio::time::interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut heard = clock::now();
    let mut own_name = own_hello().name;
    loop {
        tokio::select! {
            frame = incoming.recv() => {
                let Some(frame) = frame else { return lost("the other array closed the connection") };
                heard = clock::now();
                if let Err(end) = handle(peer, session, &frame, renamed) {
                    return end;
                }
            }
            _ = ticks.tick() => {
                if clock::now().saturating_duration_since(heard) >= GIVE_UP_AFTER {
                    return lost("the other array was silent for 1 s");
                }
                let sent_us = micros(clock::now().saturating_duration_since(session.opened));
                // A full queue delays heartbeats; one more would not help.
                if session.control.try_send(ping(sent_us, clock::unix_millis())).is_ok() {
                    session.count_sent();
                }
                let hello = own_hello();
                if hello.name != own_name && session.control.try_send(hello.encode()).is_ok() {
                    own_name = hello.name;
                }
            }
        }
    }
}

fn lost(reason: &str) -> SessionEnd {
    SessionEnd::Lost(reason.to_owned())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn handle(peer: &Peer, session: &Session, frame: &Frame, renamed: Renamed<'_>) -> Result<(), SessionEnd> {
    match frame.kind {
        Kind::Ping => {
            let (sent_us, _) = two_numbers(&frame.body).unwrap_or_default();
            // The queue holds more answers than the peer may send heartbeats before it gives up.
            let answer = pong(sent_us, clock::unix_millis());
            session.control.try_send(answer).map_err(|_| lost("the other array takes no answers"))
        }
        Kind::Pong => {
            let (sent_us, wall_ms) = two_numbers(&frame.body).unwrap_or_default();
            let now_us = micros(clock::now().saturating_duration_since(session.opened));
            let rtt = now_us.checked_sub(sent_us).ok_or_else(|| lost("a heartbeat was answered before it was sent"))?;
            session.count_answered();
            peer.record_rtt(Duration::from_micros(rtt), wall_ms);
            Ok(())
        }
        Kind::Hello => {
            let hello = Hello::decode(&frame.body).map_err(|error| lost(&error.to_string()))?;
            renamed(&hello.name);
            Ok(())
        }
        Kind::Disconnect => Err(SessionEnd::Removed),
        Kind::Refuse => Err(lost(&format!("the other array refused: {}", Refusal::decode(&frame.body).text))),
        other => Err(lost(&format!("the other array broke the protocol: {other:?} on the control connection"))),
    }
}
