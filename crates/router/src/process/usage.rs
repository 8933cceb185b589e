//! What sites have used: takes the counts of the threads, adds them up for the metrics of this
//! process, and passes them on to the supervisor, which keeps those of months. Gets its answers for
//! the control API.
//!
//! Counts are passed on with each answer to a ping, for each question, and at the end. A router that
//! is killed loses those since the last ping.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_http::usage::Used;
use howdah_metrics::Totals;
use howdah_pipeline::thread::{Handover, ThreadCommand};
use howdah_questions::{Named, SiteTotal, SiteTraffic};
use howdah_sys::packets::from_memory;
use howdah_wire::messages::{MAX_SITE_NAME, SiteUsed, ToSupervisor};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::last_minute::LastMinute;
use super::link::Link;
use super::threads::{Threads, send_and_wait};

/// Maximum number of sites in a message, which has a maximum length.
const SITES_OF_MESSAGE: usize = 256;

/// Interval at which counts are passed on while the router finishes its requests.
const INTERVAL: Duration = Duration::from_secs(5);

/// Minimum interval at which counts are taken for the status.
const MIN_INTERVAL: Duration = Duration::from_millis(900);

/// Maximum time that the status and metrics wait for counts.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Maximum time for the threads' last counts.
const LAST_TIMEOUT: Duration = Duration::from_millis(500);

/// The counts of a month as JSON. Error: the reason why they are not known.
type Answer = Result<Vec<u8>, String>;

/// Passes counts on to the supervisor.
#[derive(Debug)]
pub(super) struct UsageReports {
    link: Rc<Link>,
    threads: Threads,
    /// Number of the last question.
    last: Cell<u32>,
    waiting: RefCell<HashMap<u32, oneshot::Sender<Answer>>>,
    last_minute: RefCell<LastMinute>,
    /// Time of the last report.
    reported_at: Cell<Option<Instant>>,
    /// All counts since the start.
    pub(super) totals: RefCell<Totals>,
}

impl UsageReports {
    /// Creates the reports of these threads.
    pub(super) fn new(link: Rc<Link>, threads: Threads) -> Rc<Self> {
        let (last, waiting, last_minute, reported_at, totals) = Default::default();
        Rc::new(UsageReports { link, threads, last, waiting, last_minute, reported_at, totals })
    }

    /// Passes the counts of all threads on, when all have answered.
    pub(super) async fn report(&self) -> io::Result<()> {
        let mut sites = HashMap::<Arc<str>, Used>::new();
        let asked_at = Instant::now();
        self.reported_at.set(Some(asked_at));
        let handed_over = send_and_wait(&self.threads, ThreadCommand::Ping).await;
        let mut totals = self.totals.borrow_mut();
        for Handover { thread, at, requests, scripts } in handed_over {
            totals.add_lag(thread as usize, at.saturating_duration_since(asked_at));
            for (site, listener, counts) in requests {
                totals.add(&site, &listener, &counts);
                let used = Used {
                    requests: counts.requests(),
                    errors: counts.errors(),
                    received: counts.received,
                    sent: counts.sent,
                    php_us: 0,
                };
                sites.entry(site).or_default().add(used);
            }
            for (site, used) in scripts {
                totals.add_script(&site, used);
                sites.entry(site).or_default().add(used);
            }
        }
        drop(totals);
        self.last_minute.borrow_mut().add(&sites, Instant::now());
        messages(sites).iter().try_for_each(|message| self.link.send(message))
    }

    /// Returns the requests of each site in the last minute, without those since the last report.
    pub(super) fn last_minute(&self) -> Named<SiteTraffic> {
        let mut sites = self.last_minute.borrow_mut().sums(Instant::now());
        for (site, (requests, errors, time_us)) in self.totals.borrow().sums() {
            if let Some(traffic) = sites.get_mut(site) {
                traffic.total = Some(SiteTotal { requests, errors, time_us });
            }
        }
        sites
    }

    /// As [`UsageReports::take`], unless that was done a moment ago.
    pub(super) async fn refresh(self: &Rc<Self>) {
        let is_recent = |at: Instant| at.elapsed() < MIN_INTERVAL;
        if self.reported_at.get().is_none_or(|at| !is_recent(at)) {
            self.take().await;
        }
    }

    /// Takes the counts of the threads. A thread that does not answer in time hands its counts over
    /// later.
    pub(super) async fn take(self: &Rc<Self>) {
        let _ = timeout(MAX_WAIT, self.report_apart()).await;
    }

    /// As [`UsageReports::report`], to its end even if the future is dropped: counts that were taken
    /// must not get lost.
    async fn report_apart(self: &Rc<Self>) -> io::Result<()> {
        let reports = Rc::clone(self);
        spawn_local(async move { reports.report().await }).await?
    }

    /// Passes counts on before the threads end, or after they have finished.
    pub(super) async fn report_last(&self) {
        let _ = timeout(LAST_TIMEOUT, self.report()).await;
    }

    /// Passes counts on now and then: a router that finishes its requests is not pinged.
    pub(super) fn report_until_end(self: &Rc<Self>) {
        let reports = Rc::clone(self);
        spawn_local(async move {
            loop {
                sleep(INTERVAL).await;
                if reports.report().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Returns the counts of a month, such as `2026-11`, or of this one, up to now.
    pub(super) async fn of_month(self: &Rc<Self>, month: Option<String>) -> Answer {
        self.report_apart().await.map_err(|error| error.to_string())?;
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let (done, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(number, done);
        let question = ToSupervisor::ReadUsage { number, month };
        self.link.send(&question).map_err(|error| error.to_string())?;
        answer.await.unwrap_or_else(|_| Err("the server is being stopped".to_owned()))
    }

    /// Takes the supervisor's answer.
    pub(super) fn answered(&self, number: u32, error: String, text: Option<OwnedFd>) {
        let Some(done) = self.waiting.borrow_mut().remove(&number) else { return };
        let answer = if error.is_empty() {
            from_memory(text, u64::MAX).map_err(|error| error.to_string())
        } else {
            Err(error)
        };
        let _ = done.send(answer);
    }
}

/// Returns the messages for counts. A name that is too long is cut: it is the path of a directory.
fn messages(sites: HashMap<Arc<str>, Used>) -> Vec<ToSupervisor> {
    let counts = sites.into_iter().map(|(site, used)| {
        let Used { requests, errors, received, sent, php_us } = used;
        let site = site[..site.floor_char_boundary(MAX_SITE_NAME)].to_owned();
        SiteUsed { site, requests, errors, received, sent, php_us }
    });
    let counts: Vec<_> = counts.collect();
    counts
        .chunks(SITES_OF_MESSAGE)
        .map(|sites| ToSupervisor::Used { sites: sites.to_vec() })
        .collect()
}

#[cfg(test)]
mod tests {
    use howdah_wire::messages::MAX_MESSAGE;

    use super::*;

    #[test]
    fn the_counts_of_many_sites_with_long_names_fit_messages() {
        let used = Used { requests: 1, errors: 0, received: 2, sent: 3, php_us: 4 };
        let name = |number: u32| Arc::from(format!("/{number}/{}", "é".repeat(500)));
        let all = messages((0..1000).map(|number| (name(number), used)).collect());
        assert_eq!(all.len(), 4);
        let mut count = 0;
        for message in all {
            assert!(message.encode().len() < MAX_MESSAGE);
            let ToSupervisor::Used { sites } = message else { panic!() };
            assert!(sites.iter().all(|site| site.site.len() <= MAX_SITE_NAME && site.sent == 3));
            count += sites.len();
        }
        assert_eq!(count, 1000);
        assert!(messages(HashMap::new()).is_empty());
    }
}
