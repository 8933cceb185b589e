//! Deadlines of connections, behind one timer of the runtime.
//!
//! A connection changes its deadline with nearly each packet, mostly to a later time. So a deadline
//! stays where it is until it is over; then the connection is asked for its real one.

use std::collections::BTreeSet;
use std::time::Instant;

/// Deadlines of connections, by the numbers of these.
#[derive(Default)]
pub(crate) struct Timers {
    /// One entry for each connection that has a deadline.
    order: BTreeSet<(Instant, usize)>,
    /// The entry of each connection.
    armed: Vec<Option<Instant>>,
}

impl Timers {
    /// Sees to it that a connection is due no later than its deadline.
    pub(crate) fn set(&mut self, connection: usize, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if self.armed.len() <= connection {
            self.armed.resize(connection + 1, None);
        }
        let armed = &mut self.armed[connection];
        if armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        if let Some(before) = armed.replace(deadline) {
            self.order.remove(&(before, connection));
        }
        self.order.insert((deadline, connection));
    }

    /// Forgets a connection.
    pub(crate) fn remove(&mut self, connection: usize) {
        if let Some(before) = self.armed.get_mut(connection).and_then(Option::take) {
            self.order.remove(&(before, connection));
        }
    }

    /// Takes a connection that is due. The caller sets its next deadline.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<usize> {
        let (deadline, connection) = *self.order.first()?;
        if deadline > now {
            return None;
        }
        self.remove(connection);
        Some(connection)
    }

    /// Returns the time at which a connection may be due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_connection_is_due_once_at_the_earliest_deadline_that_it_had() {
        let (mut timers, start) = (Timers::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        timers.set(3, Some(at(5)));
        timers.set(3, Some(at(2)));
        timers.set(3, Some(at(9)));
        timers.set(1, Some(at(4)));
        timers.set(0, None);
        assert_eq!((timers.next(), timers.take_due(at(1))), (Some(at(2)), None));
        assert_eq!(timers.take_due(at(4)), Some(3));
        assert_eq!(timers.take_due(at(4)), Some(1));
        assert_eq!(timers.take_due(at(20)), None);
        timers.set(3, Some(at(12)));
        timers.remove(3);
        assert_eq!((timers.next(), timers.take_due(at(20))), (None, None));
    }
}
