//! What a prototype owes an answer to, and since when.
//!
//! Everything that a prototype says after it has loaded PHP is an answer: to a question, or to the
//! death of a worker. So what has not been asked is no message of a prototype, and as many questions
//! as are open at once bound how many messages can come.

use std::time::{Duration, Instant};

use howdah_wire::queue::Owner;

use crate::usage::Figures;

/// How long a prototype may take to answer.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(1);

/// How long it may take if it waits for a processor or a disk all the time.
pub(crate) const SLOW_ANSWER_TIME: Duration = Duration::from_secs(10);

/// Most workers that a prototype is asked for at once.
pub(crate) const MAX_SPAWNS: usize = 16;

/// Most traces that a prototype is asked for at once.
pub(crate) const MAX_TRACES: usize = 64;

/// Something that a prototype has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// Start a worker.
    Spawn(Owner),
    /// Where is the script of this worker? With the router's number.
    Trace(Owner, u32),
    /// What do these workers cost? With what the kernel said of each before.
    Measure(Vec<(Owner, Option<Figures>)>),
    /// How did this worker end?
    Death(Owner),
}

/// Open questions, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Questions(Vec<(Question, Instant)>);

impl Questions {
    /// A question has been asked.
    pub(crate) fn ask(&mut self, question: Question, now: Instant) {
        self.0.push((question, now));
    }

    /// Closes the question that an answer is for. `None` if it was never asked, or is answered.
    pub(crate) fn answered(&mut self, which: impl Fn(&Question) -> bool) -> Option<Question> {
        let index = self.0.iter().position(|(question, _)| which(question))?;
        Some(self.0.remove(index).0)
    }

    /// Number of open questions of a kind.
    pub(crate) fn count(&self, which: impl Fn(&Question) -> bool) -> usize {
        self.0.iter().filter(|(question, _)| which(question)).count()
    }

    /// When the oldest of them was asked.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.0.first().map(|(_, asked)| *asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: Owner = Owner { index: 3, incarnation: 1 };

    #[test]
    fn each_question_is_answered_once() {
        let (mut questions, now) = (Questions::default(), Instant::now());
        questions.ask(Question::Spawn(WORKER), now);
        questions.ask(Question::Death(WORKER), now + ANSWER_TIME);
        let spawn = |question: &Question| *question == Question::Spawn(WORKER);
        assert_eq!((questions.count(spawn), questions.oldest()), (1, Some(now)));
        assert_eq!(questions.answered(spawn), Some(Question::Spawn(WORKER)));
        assert_eq!(questions.answered(spawn), None);
        assert_eq!(questions.oldest(), Some(now + ANSWER_TIME));
    }
}
