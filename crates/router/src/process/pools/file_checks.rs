//! The answers of applications that were asked whether files have changed that they were started
//! from.

/// The answers of one round.
#[derive(Debug, Default)]
pub(super) struct FileChecks {
    /// Numbers of the instances that have not answered.
    waiting: Vec<u32>,
    /// Changed instances, each with a file.
    changed: Vec<(u32, String)>,
}

impl FileChecks {
    /// Begins a round in which these instances are asked.
    pub(super) fn of(instances: Vec<u32>) -> Self {
        FileChecks { waiting: instances, changed: Vec::new() }
    }

    /// Returns true while an instance has not answered.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Records the answer of an instance, or its end. One that was not asked is ignored.
    pub(super) fn answered(&mut self, instance: u32, file: Option<String>) {
        let Some(index) = self.waiting.iter().position(|waiting| *waiting == instance) else {
            return;
        };
        self.waiting.swap_remove(index);
        self.changed.extend(file.map(|file| (instance, file)));
    }

    /// Ends the round. Returns the changed instances, each with a file, and those without an
    /// answer.
    pub(super) fn end(&mut self) -> (Vec<(u32, String)>, Vec<u32>) {
        let FileChecks { waiting, changed } = std::mem::take(self);
        (changed, waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_that_was_asked_answers_once() {
        let file = |name: &str| Some(name.to_owned());
        let mut checks = FileChecks::of(vec![1, 2, 3]);
        checks.answered(1, file("a"));
        checks.answered(1, file("b"));
        checks.answered(9, file("c"));
        checks.answered(2, None);
        assert!(checks.is_waiting());
        assert_eq!(checks.end(), (vec![(1, "a".to_owned())], vec![3]));
        assert!(!checks.is_waiting());
        checks.answered(3, file("late"));
        assert_eq!(checks.end(), (vec![], vec![]));
    }
}
