//! Requests of each site in the last minute. No I/O, no clock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_http::usage::Used;
use howdah_questions::{Named, SiteTraffic};

/// Time that counts are kept.
const KEPT: Duration = Duration::from_secs(60);

/// Time whose counts are added up: they are forgotten together.
const STEP: Duration = Duration::from_secs(5);

/// The counts of the last minute, by the time at which they came.
#[derive(Debug, Default)]
pub(super) struct LastMinute(VecDeque<(Instant, HashMap<Arc<str>, SiteTraffic>)>);

impl LastMinute {
    /// Adds what sites have used.
    pub(super) fn add(&mut self, sites: &HashMap<Arc<str>, Used>, now: Instant) {
        self.forget(now);
        if self.0.back().is_none_or(|(since, _)| now.duration_since(*since) >= STEP) {
            self.0.push_back((now, HashMap::new()));
        }
        let Some((_, counts)) = self.0.back_mut() else { return };
        for (site, used) in sites.iter().filter(|(_, used)| used.requests > 0) {
            let counted = counts.entry(Arc::clone(site)).or_default();
            counted.requests = counted.requests.saturating_add(used.requests);
            counted.errors = counted.errors.saturating_add(used.errors);
        }
    }

    /// Returns the counts of each site, in the order of their names.
    pub(super) fn sums(&mut self, now: Instant) -> Named<SiteTraffic> {
        self.forget(now);
        let mut sums = Named::<SiteTraffic>::default();
        for (site, counted) in self.0.iter().flat_map(|(_, counts)| counts) {
            let sum = sums.entry(site.to_string()).or_default();
            sum.requests = sum.requests.saturating_add(counted.requests);
            sum.errors = sum.errors.saturating_add(counted.errors);
        }
        sums.sort_unstable_keys();
        sums
    }

    fn forget(&mut self, now: Instant) {
        let is_old = |since: Instant| now.duration_since(since) >= KEPT;
        while self.0.front().is_some_and(|(since, _)| is_old(*since)) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_for_a_minute() {
        let (mut counts, start) = (LastMinute::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let used = |site: &str, requests: u64, errors: u64| {
            let used = Used { requests, errors, ..Used::default() };
            HashMap::from([(Arc::<str>::from(site), used)])
        };
        counts.add(&used("shop", 3, 1), at(0));
        counts.add(&used("blog", 1, 0), at(1));
        counts.add(&used("shop", 2, 0), at(30));
        counts.add(&used("idle", 0, 0), at(30));
        let shop = |requests, errors| SiteTraffic { requests, errors, total: None };
        let sums = counts.sums(at(59));
        assert_eq!((sums["shop"], sums["blog"], sums.len()), (shop(5, 1), shop(1, 0), 2));
        let sums = counts.sums(at(61));
        assert_eq!((sums["shop"], sums.len()), (shop(2, 0), 1));
        assert!(counts.sums(at(90)).is_empty());
    }

    #[test]
    fn many_reports_take_little_memory() {
        let (mut counts, start) = (LastMinute::default(), Instant::now());
        for ms in (0..120_000).step_by(10) {
            counts.add(&HashMap::new(), start + Duration::from_millis(ms));
        }
        assert!(counts.0.len() <= 13, "{}", counts.0.len());
    }
}
