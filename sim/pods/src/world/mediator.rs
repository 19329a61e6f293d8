//! The mediator: a register, out of reach at times, late at others.

use super::{MS, SECOND, Task, World};
use pod::{Answer, Question};

impl World {
    pub(super) fn ask(&mut self, node: usize, number: u64, question: Question) {
        let incarnation = self.nodes[node].incarnation;
        let is_lost = self.unreachable_until[node] > self.now;
        let is_late = self.late_until > self.now && self.rng.percent(60);
        let at = |answers| Task::AtMediator { node, incarnation, number, question, answers };
        if is_lost && !self.rng.percent(10) || is_late {
            // The client gives up after 0.8 s of its time.
            let answer = Answer::Unreachable;
            self.at(800 * MS, Task::Answered { node, incarnation, number, answer });
        }
        if is_late || is_lost && self.rng.percent(10) {
            let (delay, answers) = (self.rng.between(100, 5000) * MS, self.rng.percent(50));
            self.at(delay, at(answers));
        } else if !is_lost {
            let delay = self.rng.between(1, 30) * MS;
            self.at(delay, at(true));
        } else {
            let answer = Answer::Unreachable;
            self.at(800 * MS, Task::Answered { node, incarnation, number, answer });
        }
    }

    pub(super) fn at_mediator(
        &mut self,
        node: usize,
        incarnation: u32,
        number: u64,
        question: Question,
        answers: bool,
    ) {
        if let Question::Swap { expected, new } = question
            && self.register == expected
        {
            self.note(|| format!("the mediator swaps {expected:?} for {new:?}, asked by {node}"));
            self.register = new;
            self.totals.swaps += 1;
            self.totals.late_swaps += u64::from(self.late_until + 5 * SECOND > self.now && !answers);
        }
        if answers {
            let (delay, answer) = (self.rng.between(1, 30) * MS, Answer::Is(self.register));
            self.at(delay, Task::Answered { node, incarnation, number, answer });
        }
    }
}
