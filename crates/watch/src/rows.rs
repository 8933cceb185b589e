//! From samples of the status to the rows of the table. No I/O, no clock.

mod notices;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use howdah_questions::{SiteTraffic, Status};
use serde::Serialize;

pub use self::notices::Notice;
use self::notices::{Window, notices};

/// Time for which samples are kept, for what has happened in the last minute.
const KEPT: Duration = Duration::from_secs(60);

/// Time over which rates are averages, if there are so many samples.
const RATE_TIME: Duration = Duration::from_secs(3);

/// Number of samples from which it is known how many processors a site wants.
const WANTED_SAMPLES: usize = 4;

/// Processor time, in processors, from which a site is active without requests.
const MIN_PROCESSORS: f64 = 0.01;

/// Numbers of a site, whose differences are of interest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) time_us: u64,
    pub(crate) cpu_us: u64,
    pub(crate) private: u64,
    pub(crate) processes: u64,
    pub(crate) runnable: u64,
    pub(crate) log_bytes: u64,
    pub(crate) dropped_lines: u64,
}

/// Samples of the last minute.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<(Duration, HashMap<String, Counts>)>,
    /// The last status.
    pub status: Status,
}

/// A site, application or upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub site: String,
    /// Processors that its processes use; `None` before the second sample.
    pub processors: Option<f64>,
    /// Memory of its processes in bytes.
    pub memory: u64,
    /// Requests per second.
    pub requests: Option<f64>,
    /// Responses with a status of 500 or above in the last minute.
    pub errors: u64,
    /// Such responses per second.
    #[serde(skip)]
    pub error_rate: Option<f64>,
    /// Seconds of a request: the mean of those that have ended, or the run time of one that runs if
    /// that is longer.
    pub seconds: Option<f64>,
    /// Requests that wait for a process.
    pub waiting: u64,
    /// Processes that have ended with an error in the last minute.
    pub crashes: u64,
    /// It has requests, or uses a processor, or has notices.
    pub active: bool,
    /// What is unusual, the most specific first.
    pub notices: Vec<Notice>,
}

impl History {
    /// Adds a sample, taken at a time of a monotonic clock.
    pub fn add(&mut self, status: Status, at: Duration) {
        let counts =
            names(&status).into_iter().map(|name| (name.to_owned(), counts(&status, name)));
        self.samples.push_back((at, counts.collect()));
        while self.samples.front().is_some_and(|(first, _)| at.saturating_sub(*first) > KEPT) {
            self.samples.pop_front();
        }
        self.status = status;
    }

    /// Forgets all: the server does not answer, and its counters may begin anew.
    pub fn clear(&mut self) {
        *self = History::default();
    }

    /// Returns a row for each site, in the order of their names.
    pub fn rows(&self) -> Vec<Row> {
        let mut names = names(&self.status);
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| self.row(name)).collect()
    }

    /// Returns the number of processors that the processes of a site have wanted on average: on a
    /// busy machine they get less. `None` without enough samples.
    fn wanted(&self, name: &str) -> Option<f64> {
        let recent = self.samples.iter().rev().take(WANTED_SAMPLES);
        let runnable: Vec<_> =
            recent.filter_map(|(_, sites)| Some(sites.get(name)?.runnable as f64)).collect();
        let is_enough = runnable.len() == WANTED_SAMPLES;
        is_enough.then(|| runnable.iter().sum::<f64>() / WANTED_SAMPLES as f64)
    }

    fn row(&self, name: &str) -> Row {
        let status = &self.status;
        let Some((now, last)) = self.samples.back() else { return Row::default() };
        let current = last.get(name).copied().unwrap_or_default();
        let before = |max: Duration| {
            let earlier = self.samples.iter().rev().skip(1);
            let recent = earlier.take_while(|(at, _)| now.saturating_sub(*at) <= max);
            let found = recent.map_while(|(at, sites)| Some((*at, *sites.get(name)?)));
            found.last().map(|(at, counts)| Window::new(now.saturating_sub(at), counts, current))
        };
        // One sample before at least, however long the interval is.
        let previous = self.samples.iter().rev().nth(1).map(|(at, _)| now.saturating_sub(*at));
        let rates = before(RATE_TIME.max(previous.unwrap_or_default()));
        let minute = before(KEPT);
        let php = status.php.get(name).cloned().unwrap_or_default();
        let traffic = status.sites.get(name).copied().unwrap_or_default();
        let processes = status.applications.get(name).cloned().unwrap_or_default();
        let busy = processes.processes.running.saturating_sub(processes.processes.idle);
        let longest = Some(php.activity.longest_us as f64 / 1e6).filter(|seconds| *seconds > 0.0);
        let mean = rates.as_ref().and_then(Window::mean_seconds);
        let row = Row {
            site: name.to_owned(),
            processors: rates.as_ref().map(Window::processors),
            memory: current.private.max(if current.private == 0 {
                php.memory.prototype.saturating_add(php.memory.processes)
            } else {
                0
            }),
            requests: rates.as_ref().map(|rates| rates.rate(traffic)),
            errors: traffic.errors,
            error_rate: rates.as_ref().map(|rates| rates.error_rate(traffic)),
            seconds: mean.into_iter().chain(longest).reduce(f64::max),
            waiting: processes.requests.active.saturating_sub(busy),
            crashes: php.activity.failed_last_minute.values().sum(),
            active: false,
            notices: Vec::new(),
        };
        let wanted = self.wanted(name);
        let notices = notices(name, &row, status, wanted, rates.as_ref(), minute.as_ref());
        let works = row.processors.is_some_and(|used| used >= MIN_PROCESSORS);
        let active = works
            || traffic.requests > 0
            || processes.requests.active > 0
            || row.requests.is_some_and(|rate| rate > 0.0)
            || !notices.is_empty();
        Row { active, notices, ..row }
    }
}

fn names(status: &Status) -> Vec<&str> {
    let idle = status.applications.keys().chain(status.php.keys());
    idle.chain(status.sites.keys()).map(String::as_str).collect()
}

fn counts(status: &Status, name: &str) -> Counts {
    let traffic = status.sites.get(name).copied().unwrap_or_default();
    let total = traffic.total.unwrap_or_default();
    let php = status.php.get(name);
    let (used, activity) = (php.map(|php| php.processes), php.map(|php| &php.activity));
    Counts {
        requests: total.requests,
        errors: total.errors,
        time_us: total.time_us,
        cpu_us: used.map_or(0, |used| used.cpu_us),
        private: used.map_or(0, |used| used.private),
        processes: used.map_or(0, |used| used.all),
        runnable: used.map_or(0, |used| used.runnable),
        log_bytes: activity.map_or(0, |activity| activity.log_bytes),
        dropped_lines: activity.map_or(0, |activity| activity.dropped_lines),
    }
}

impl Window {
    /// Returns requests per second.
    fn rate(&self, traffic: SiteTraffic) -> f64 {
        let total = traffic.total.map(|total| total.requests);
        self.per_second(total, self.before.requests, traffic.requests)
    }

    /// Returns failed requests per second.
    fn error_rate(&self, traffic: SiteTraffic) -> f64 {
        let total = traffic.total.map(|total| total.errors);
        self.per_second(total, self.before.errors, traffic.errors)
    }

    /// Returns the rate of what is counted since the start of the router, and in the last minute.
    /// Sites without requests in the last minute are missing in the status, also their totals: the
    /// first ones after that count from the last minute.
    fn per_second(&self, total: Option<u64>, before: u64, last_minute: u64) -> f64 {
        let difference = match total {
            None => return last_minute as f64 / KEPT.as_secs_f64(),
            Some(_) if self.before.requests == 0 => last_minute,
            Some(total) => total.saturating_sub(before),
        };
        difference.min(last_minute) as f64 / self.seconds
    }

    /// Returns the mean time of the requests that have ended.
    fn mean_seconds(&self) -> Option<f64> {
        let requests = self.now.requests.saturating_sub(self.before.requests);
        let time = self.now.time_us.saturating_sub(self.before.time_us);
        (requests > 0).then(|| time as f64 / requests as f64 / 1e6)
    }

    /// Returns the number of processors that were used.
    fn processors(&self) -> f64 {
        // Before the first measurement of a site, its processor time is not known.
        let before = if self.before.processes == 0 { self.now.cpu_us } else { self.before.cpu_us };
        self.now.cpu_us.saturating_sub(before) as f64 / 1e6 / self.seconds
    }
}
