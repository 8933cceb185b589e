//! Recipients of each application in an hour. The clock is an argument.

use std::collections::{HashMap, VecDeque};

use howdah_wire::messages::MailUsage;

/// Number of minutes in which recipients are counted.
const MINUTES: u64 = 60;

/// Recipients of applications that have a limit, by minute.
#[derive(Debug, Default)]
pub(crate) struct Usage(HashMap<String, VecDeque<(u64, u32)>>);

impl Usage {
    /// Goes on with what another process has counted.
    pub(crate) fn of(usage: Vec<MailUsage>) -> Usage {
        Usage(usage.into_iter().map(|one| (one.application, one.minutes.into())).collect())
    }

    /// Counts recipients, unless there were too many in the last hour.
    pub(crate) fn admit(&mut self, application: &str, count: u32, limit: u32, minute: u64) -> bool {
        let minutes = self.0.entry(application.to_owned()).or_default();
        while minutes.front().is_some_and(|(counted, _)| *counted + MINUTES <= minute) {
            minutes.pop_front();
        }
        let so_far: u64 = minutes.iter().map(|(_, count)| u64::from(*count)).sum();
        if so_far + u64::from(count) > u64::from(limit) {
            return false;
        }
        match minutes.back_mut().filter(|(counted, _)| *counted >= minute) {
            Some((_, counted)) => *counted = counted.saturating_add(count),
            None => minutes.push_back((minute, count)),
        }
        true
    }

    /// Takes recipients back that were counted, and that no message has reached.
    pub(crate) fn refund(&mut self, application: &str, mut count: u32) {
        for (_, counted) in self.0.get_mut(application).into_iter().flatten().rev() {
            let taken = count.min(*counted);
            *counted -= taken;
            count -= taken;
        }
    }

    /// Returns the counts of the last hour.
    pub(crate) fn counts(&self, minute: u64) -> Vec<MailUsage> {
        let of = |(application, minutes): (&String, &VecDeque<(u64, u32)>)| {
            let minutes = minutes.iter().copied();
            let minutes: Vec<_> =
                minutes.filter(|(counted, n)| *n > 0 && *counted + MINUTES > minute).collect();
            let application = application.clone();
            (!minutes.is_empty()).then_some(MailUsage { application, minutes })
        };
        self.0.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hour_has_more_recipients_than_the_limit() {
        let mut usage = Usage::default();
        assert!(usage.admit("a", 3, 5, 100) && !usage.admit("a", 3, 5, 100));
        assert!(usage.admit("a", 2, 5, 130) && !usage.admit("a", 1, 5, 159));
        assert!(usage.admit("b", 5, 5, 130), "each has its own");
        assert!(usage.admit("a", 3, 5, 160) && !usage.admit("a", 1, 5, 160));
        assert!(!usage.admit("c", 6, 5, 0));
    }

    #[test]
    fn what_was_not_sent_does_not_count_and_the_next_process_goes_on() {
        let mut usage = Usage::default();
        assert!(usage.admit("a", 3, 5, 100) && usage.admit("a", 2, 5, 101));
        usage.refund("a", 4);
        assert!(!usage.admit("a", 5, 5, 102) && usage.admit("a", 4, 5, 102));
        let mut next = Usage::of(usage.counts(102));
        assert!(!next.admit("a", 1, 5, 102));
        assert!(usage.counts(162).is_empty());
    }
}
