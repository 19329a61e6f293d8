//! The closed loop of every verb: a number of slots with one open command each.

use crate::failure::Failure;
use initiator::{Completion, Request, Session};

/// Index of the session that carries a request.
pub(crate) type Route = usize;

/// A source of commands. The loop makes one call at a time, so the work owns its state without
/// locks.
pub(crate) trait Work {
    /// Returns the next command for a free slot; `None` leaves the slot free until another command
    /// completes.
    fn next(&mut self, slot: usize) -> Option<(Route, Request)>;

    /// Handles the completion of a slot's command.
    fn done(&mut self, slot: usize, completion: Completion) -> Result<(), Failure>;
}

/// How often a command is resent that the target refused before starting it (busy, unit attention).
const MAX_RETRIES: u32 = 1000;

struct Slot {
    open: Option<(Route, Request)>,
    retries: u32,
}

/// Runs `work` with `depth` slots until all slots are free and no slot gets a command.
pub(crate) async fn pump(sessions: &mut [Session], depth: usize, work: &mut impl Work) -> Result<(), Failure> {
    let mut slots: Vec<Slot> = (0..depth).map(|_| Slot { open: None, retries: 0 }).collect();
    loop {
        for (index, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| slot.open.is_none()) {
            let Some((route, request)) = work.next(index) else { continue };
            sessions[route].submit(request.clone(), index as u64);
            *slot = Slot { open: Some((route, request)), retries: 0 };
        }
        if slots.iter().all(|slot| slot.open.is_none()) {
            return Ok(());
        }
        let mut next = Some(next_completion(sessions).await?);
        // All completions of one receive are handled before the next send, so that many commands
        // share a system call.
        while let Some((route, completion)) = next {
            complete(sessions, &mut slots, work, completion)?;
            next = ready(sessions, route);
        }
    }
}

fn complete(
    sessions: &mut [Session],
    slots: &mut [Slot],
    work: &mut impl Work,
    completion: Completion,
) -> Result<(), Failure> {
    let index = usize::try_from(completion.token).unwrap_or(usize::MAX);
    let Some(slot) = slots.get_mut(index) else { return Ok(()) };
    if completion.is_retryable()
        && slot.retries < MAX_RETRIES
        && let Some((route, request)) = &slot.open
    {
        slot.retries += 1;
        sessions[*route].submit(request.clone(), index as u64);
        return Ok(());
    }
    slot.open = None;
    work.done(index, completion)?;
    if let Some((route, request)) = work.next(index) {
        sessions[route].submit(request.clone(), index as u64);
        *slot = Slot { open: Some((route, request)), retries: 0 };
    }
    Ok(())
}

fn ready(sessions: &mut [Session], first: Route) -> Option<(Route, Completion)> {
    let count = sessions.len();
    (0..count).map(|step| (first + step) % count).find_map(|route| Some((route, sessions[route].try_next()?)))
}

async fn next_completion(sessions: &mut [Session]) -> Result<(Route, Completion), Failure> {
    if let Some(next) = ready(sessions, 0) {
        return Ok(next);
    }
    match sessions {
        [only] => Ok((0, only.next().await?)),
        [first, second] => tokio::select! {
            completion = first.next(), if first.open_commands() > 0 => Ok((0, completion?)),
            completion = second.next(), if second.open_commands() > 0 => Ok((1, completion?)),
        },
        _ => Err(Failure::Wrong("internal error: the loop needs one or two sessions".to_owned())),
    }
}
