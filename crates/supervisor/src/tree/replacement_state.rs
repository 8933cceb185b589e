//! Routers beside the current one: the next one, and former ones that finish their requests.

use std::time::{Duration, Instant};

use crate::router::Router;

/// Minimum time between two replacements: a router that was taken over could ask for them all the
/// time.
const INTERVAL: Duration = Duration::from_secs(5);

/// Pause after an attempt that has failed.
const PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of routers that finish their requests.
const MAX_FORMER: usize = 4;

/// The part of a router beside the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It does not serve yet.
    Next,
    /// It finishes its requests.
    Former,
    /// It is the current one, while a message of another is handled.
    SetAside,
}

/// A router beside the current one.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) router: Router,
    pub(super) role: Role,
    /// Time at which it is killed.
    pub(super) deadline: Option<Instant>,
}

/// The state of replacements of the router.
#[derive(Debug, Default)]
pub(super) struct Replacement {
    /// Why the router is to be replaced.
    wanted: Option<String>,
    /// Time before which it is not.
    not_before: Option<Instant>,
    pub(super) others: Vec<Other>,
}

impl Replacement {
    /// Records that the router is to be replaced.
    pub(super) fn want(&mut self, reason: String) {
        self.wanted.get_or_insert(reason);
    }

    /// Takes the reason for a replacement that is due.
    pub(super) fn begin(&mut self, now: Instant) -> Option<String> {
        let former = self.others.iter().filter(|other| other.role == Role::Former).count();
        if self.next().is_some()
            || former >= MAX_FORMER
            || self.not_before.is_some_and(|time| now < time)
        {
            return None;
        }
        let reason = self.wanted.take()?;
        self.not_before = Some(now + INTERVAL);
        Some(reason)
    }

    /// Records that the next router has failed: there is another attempt later.
    pub(super) fn try_again(&mut self, now: Instant) {
        self.not_before = Some(now + PAUSE);
        self.want("another attempt".to_owned());
    }

    /// Returns the time of the next step.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let wanted = self.wanted.as_ref().and(self.not_before).filter(|time| *time > now);
        let deadlines = self.others.iter().filter_map(|other| other.deadline);
        wanted.into_iter().chain(deadlines).min()
    }

    /// Returns the next router.
    pub(super) fn next(&self) -> Option<&Other> {
        self.others.iter().find(|other| other.role == Role::Next)
    }

    /// Returns the router with this process id.
    pub(super) fn find(&self, pid: u32) -> Option<&Other> {
        self.others.iter().find(|other| other.router.pid == pid)
    }

    /// Takes the router with this process id out.
    pub(super) fn remove(&mut self, pid: u32) -> Option<Other> {
        let at = self.others.iter().position(|other| other.router.pid == pid)?;
        Some(self.others.remove(at))
    }

    /// Returns the process ids of all.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.others.iter().map(|other| other.router.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_that_asks_all_the_time_is_replaced_now_and_then() {
        let (mut state, now) = (Replacement::default(), Instant::now());
        assert_eq!(state.begin(now), None);
        state.want("a".to_owned());
        state.want("b".to_owned());
        assert_eq!(state.begin(now).as_deref(), Some("a"));
        state.want("c".to_owned());
        assert_eq!((state.begin(now), state.due(now)), (None, Some(now + INTERVAL)));
        assert_eq!(state.begin(now + INTERVAL).as_deref(), Some("c"));
        assert_eq!(state.begin(now + INTERVAL * 2), None);
    }
}
