//! Questions to other arrays, and their answers.

use super::Pods;
use crate::handle::LinkSession;
use crate::message::PodMessage;
use bytes::Bytes;
use std::time::Duration;
use types::StreamId;

/// A question is not about a stream, and its frame has to name one: no pod has this number.
const NO_STREAM: u32 = (1 << 31) - 1;
/// Most bytes of a question or an answer.
const MOST_BYTES: usize = 128 << 10;

impl Pods {
    /// Asks another array, given by its id. Blocks for up to `patience`. `None` without an answer.
    pub fn ask(&self, array: &str, question: &[u8], patience: Duration) -> Option<Bytes> {
        let link = self.links.read().get(array).copied()?;
        let stream = StreamId::new(NO_STREAM).filter(|_| question.len() <= MOST_BYTES)?;
        let (number, answer) = self.questions.add(array);
        let message = PodMessage::Ask { number, body: Bytes::copy_from_slice(question) };
        self.send(array, link, stream, 0, &message);
        let answer = answer.recv_timeout(patience).ok();
        self.questions.forget(number);
        answer
    }

    /// Another array asks.
    pub(super) fn take_question(&self, array: &str, link: LinkSession, stream: StreamId, number: u64, body: Bytes) {
        let Some(pods) = self.this.upgrade().filter(|_| body.len() <= MOST_BYTES) else { return };
        let array = array.to_owned();
        if !self.questions.may_answer() {
            pods.send(&array, link, stream, 0, &PodMessage::Told { number, body: Bytes::new() });
            return;
        }
        self.environment.runtime.spawn_blocking(move || {
            let mut answer = pods.offers.asked(&array, &body);
            pods.questions.answered();
            if answer.len() > MOST_BYTES {
                answer.clear();
            }
            pods.send(&array, link, stream, 0, &PodMessage::Told { number, body: answer.into() });
        });
    }
}
