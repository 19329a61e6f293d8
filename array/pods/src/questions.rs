//! Questions of administrators to another array, beside the pods: they may be about one that is not
//! on two arrays yet.

use bytes::Bytes;
use platform::threads::{Mutex, mpsc};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Questions that are answered at a time; others get no answer.
const MOST_ANSWERED: usize = 8;
/// A question that waits: the array that is asked, and the place for the answer.
type Waiting = (String, mpsc::Sender<Bytes>);

/// Questions under way.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: Mutex<(u64, BTreeMap<u64, Waiting>)>,
    answered: AtomicUsize,
}

impl Questions {
    /// Takes an answer of an array.
    pub(crate) fn take_answer(&self, array: &str, number: u64, body: Bytes) {
        let mut waiting = self.waiting.lock();
        if waiting.1.get(&number).is_some_and(|(asked, _)| asked == array)
            && let Some((_, answer)) = waiting.1.remove(&number)
        {
            let _ = answer.send(body);
        }
    }

    /// Notes a question to an array. Returns its number, and the place where the answer arrives.
    pub(crate) fn add(&self, array: &str) -> (u64, mpsc::Receiver<Bytes>) {
        let (sender, answer) = mpsc::channel();
        let mut waiting = self.waiting.lock();
        waiting.0 += 1;
        let number = waiting.0;
        waiting.1.insert(number, (array.to_owned(), sender));
        (number, answer)
    }

    /// The answer to a question is not awaited any more.
    pub(crate) fn forget(&self, number: u64) {
        self.waiting.lock().1.remove(&number);
    }

    /// The link to an array has ended: its answers do not arrive any more.
    pub(crate) fn link_ended(&self, array: &str) {
        self.waiting.lock().1.retain(|_, (asked, _)| asked != array);
    }

    /// Whether a question of another array is answered. The caller then calls [`Self::answered`].
    pub(crate) fn may_answer(&self) -> bool {
        let may = self.answered.fetch_add(1, Ordering::Relaxed) < MOST_ANSWERED;
        if !may {
            self.answered();
        }
        may
    }

    /// A question of another array was answered.
    pub(crate) fn answered(&self) {
        self.answered.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn question_ends_with_the_link_of_its_array() {
        let questions = Questions::default();
        let ((_, lost), (number, waiting)) = (questions.add("alpha"), questions.add("beta"));
        questions.link_ended("alpha");
        assert!(lost.recv_timeout(Duration::from_secs(60)).is_err(), "no answer can arrive");
        questions.take_answer("beta", number, Bytes::from_static(b"yes"));
        assert_eq!(waiting.recv_timeout(Duration::from_secs(60)).unwrap(), "yes");
    }
}
