//! The counts of all threads since the start, which the control thread keeps.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use howdah_http::usage::Used;

use crate::counts::Counts;
use crate::finished::micros;
use crate::histogram::Histogram;

/// Maximum number of pairs of a site and a listener. Documents may change names without end.
const MAX_SERIES: usize = 10_000;

/// The name of sites and listeners beyond the maximum.
pub(crate) const OTHER: &str = "other";

/// The name of requests for files of a directory that belongs to no site: the directory is none.
const FILES: &str = "files";

/// Counts by names of the document.
#[derive(Debug, Default)]
pub struct Totals {
    /// By site and listener.
    pub(crate) requests: BTreeMap<(Arc<str>, Arc<str>), Counts>,
    /// Run times of PHP scripts in microseconds, by site.
    pub(crate) run_us: BTreeMap<Arc<str>, u64>,
    /// Delays after which threads have taken a command, by thread.
    pub(crate) lag: Vec<Histogram>,
}

impl Totals {
    /// Adds requests of a thread.
    pub fn add(&mut self, site: &Arc<str>, listener: &Arc<str>, counts: &Counts) {
        let mut key = (shown(site), Arc::clone(listener));
        if !self.requests.contains_key(&key) && self.requests.len() >= MAX_SERIES {
            key = (Arc::from(OTHER), Arc::from(OTHER));
        }
        self.requests.entry(key).or_default().merge(counts);
    }

    /// Adds what scripts of a site have used.
    pub fn add_script(&mut self, site: &Arc<str>, used: Used) {
        let site = shown(site);
        let is_new = !self.run_us.contains_key(&site);
        let name = if is_new && self.run_us.len() >= MAX_SERIES { Arc::from(OTHER) } else { site };
        let sum = self.run_us.entry(name).or_default();
        *sum = sum.saturating_add(used.php_us);
    }

    /// Adds the delay after which a thread has taken a command: other work of it was first.
    pub fn add_lag(&mut self, thread: usize, delay: Duration) {
        if self.lag.len() <= thread {
            self.lag.resize(thread + 1, Histogram::default());
        }
        if let Some(lag) = self.lag.get_mut(thread) {
            lag.add(micros(delay));
        }
    }

    /// Returns the counts of each site, all listeners together. Copies only those of sites with
    /// several.
    pub(crate) fn by_site(&self) -> BTreeMap<&str, Cow<'_, Counts>> {
        let mut sites = BTreeMap::<&str, Cow<'_, Counts>>::new();
        for ((site, _), counts) in &self.requests {
            let merge = |sum: &mut Cow<'_, Counts>| sum.to_mut().merge(counts);
            sites.entry(site).and_modify(merge).or_insert(Cow::Borrowed(counts));
        }
        sites
    }

    /// Returns of each site the number of requests, of errors of the server, and the sum of the times
    /// in microseconds.
    pub fn sums(&self) -> BTreeMap<&str, (u64, u64, u64)> {
        let mut sites = BTreeMap::<&str, (u64, u64, u64)>::new();
        for ((site, _), counts) in &self.requests {
            let (requests, errors, time) = sites.entry(site).or_default();
            *requests = requests.saturating_add(counts.requests());
            *errors = errors.saturating_add(counts.errors());
            *time = time.saturating_add(counts.whole.sum());
        }
        sites
    }

    /// Forgets names that the current document does not have, once there are too many: they would
    /// hide new ones.
    pub fn keep_names(&mut self, names: &BTreeSet<&str>) {
        if self.requests.len() < MAX_SERIES && self.run_us.len() < MAX_SERIES {
            return;
        }
        self.requests.retain(|(site, _), _| names.contains(&**site) || **site == *OTHER);
        self.run_us.retain(|name, _| names.contains(&**name) || **name == *OTHER);
    }
}

/// Returns the name of a site as metrics show it.
fn shown(site: &Arc<str>) -> Arc<str> {
    if site.starts_with('/') { Arc::from(FILES) } else { Arc::clone(site) }
}

#[cfg(test)]
mod tests;
