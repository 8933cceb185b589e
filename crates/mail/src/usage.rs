//! Recipients of each application in an hour. The clock is an argument.

use std::collections::{HashMap, VecDeque};

use howdah_wire::messages::MailUsage;

/// Number of minutes in which recipients are counted.
const MINUTES: u64 = 60;

/// Recipients of applications that have a limit, by minute.
#[derive(Debug, Default)]
pub(crate) struct Usage(HashMap<String, VecDeque<(u64, u32)>>);

impl Usage {
    /// Continues the counts of another process, unless the application is known.
    pub(crate) fn continue_from(&mut self, application: &str, minutes: Vec<(u64, u32)>) {
        if !minutes.is_empty() && !self.0.contains_key(application) {
            self.0.insert(application.to_owned(), minutes.into());
        }
    }

    /// Adds the counts of another server to an application that is known.
    pub(crate) fn add(&mut self, usage: MailUsage) {
        let Some(minutes) = self.0.get_mut(&usage.application) else { return };
        minutes.extend(usage.minutes);
        minutes.make_contiguous().sort_unstable_by_key(|(minute, _)| *minute);
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

    /// Returns the counts of an application in the last hour.
    pub(crate) fn of(&self, application: &str, minute: u64) -> MailUsage {
        let minutes = self.0.get(application).into_iter().flatten().copied();
        let minutes =
            minutes.filter(|(counted, n)| *n > 0 && *counted + MINUTES > minute).collect();
        MailUsage { application: application.to_owned(), minutes }
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
        let mut next = Usage::default();
        next.continue_from("a", usage.of("a", 102).minutes);
        assert!(!next.admit("a", 1, 5, 102));
        next.continue_from("a", Vec::new());
        assert!(!next.admit("a", 1, 5, 102), "it is known");
        assert!(usage.of("a", 162).minutes.is_empty() && usage.of("b", 0).minutes.is_empty());
    }

    #[test]
    fn what_two_servers_have_counted_is_added() {
        let mut usage = Usage::default();
        assert!(usage.admit("a", 1, 5, 110));
        let minutes = vec![(100, 2), (110, 2)];
        usage.add(MailUsage { application: "a".to_owned(), minutes: minutes.clone() });
        assert!(!usage.admit("a", 1, 5, 110) && usage.admit("a", 2, 5, 160));
        usage.add(MailUsage { application: "b".to_owned(), minutes });
        assert!(usage.of("b", 110).minutes.is_empty(), "it comes with the first message");
    }
}
