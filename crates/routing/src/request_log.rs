//! The log lines that requests cause, limited for each site, so that the clients and scripts of one
//! neither fill the log nor silence the lines of others. A site is the result of
//! [`Routed::site`](crate::route::Routed::site): an application, a share, an upstream; else the
//! listener.
//!
//! 1. Lines about problems are limited by their bytes, to the lasting rate of an application.
//! 2. Lines about actions of clients are limited by their number. One client has half of them.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_http::client::network;
use howdah_sys::log::{Level, Log, OfSite, Shortened};
use howdah_sys::log_rate::LogRate;

/// Maximum number of lines of a site about clients in an [`INTERVAL`].
const MAX_LINES: usize = 40;

/// Maximum number of these lines about one client.
const MAX_LINES_OF_CLIENT: usize = MAX_LINES / 2;

const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of sites that are remembered. Further ones have one limit together.
const MAX_SITES: usize = 8192;

/// A log with the limits of all sites. All threads share it.
#[derive(Debug)]
pub struct RequestLog {
    log: Arc<Log>,
    sites: Mutex<Sites>,
}

#[derive(Debug, Default)]
struct Sites {
    known: HashMap<Arc<str>, Arc<SiteLines>>,
    further: Arc<SiteLines>,
    /// Time at which sites without lines were last forgotten.
    cleaned_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct SiteLines {
    rate: LogRate,
    clients: Mutex<ClientLines>,
}

/// Counts lines about clients.
#[derive(Debug, Default)]
struct ClientLines {
    interval_start: Option<Instant>,
    /// Networks of the clients of the lines in the interval.
    clients: Vec<Option<IpAddr>>,
    left_out: u64,
}

impl RequestLog {
    /// Creates the limits of a log.
    pub fn new(log: Arc<Log>) -> Self {
        RequestLog { log, sites: Mutex::default() }
    }

    /// Returns the log without limits, for lines that requests do not cause.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Writes a line about a problem with a request, or leaves it out and counts it.
    pub fn write(&self, site: &Arc<str>, level: Level, line: fmt::Arguments<'_>) {
        let about = OfSite(site);
        self.log.about(&about).write_shortened(&self.lines_of(site).rate, level, line);
    }

    /// Writes a line about an action of a client, or leaves it out and counts it.
    pub fn write_of_client(
        &self,
        site: &Arc<str>,
        client: Option<IpAddr>,
        level: Level,
        line: fmt::Arguments<'_>,
    ) {
        let lines = self.lines_of(site);
        let mut clients = lines.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left_out) = clients.next(client.map(network), Instant::now()) else { return };
        drop(clients);
        let about = OfSite(site);
        let log = self.log.about(&about);
        match left_out {
            0 => log.write(level, Shortened(line)),
            many => {
                let more = format_args!("; {many} earlier lines about clients were not logged");
                log.write(level, format_args!("{}{more}", Shortened(line)));
            }
        }
    }

    fn lines_of(&self, site: &Arc<str>) -> Arc<SiteLines> {
        let sites = &mut *self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        sites.lines_of(site, Instant::now())
    }
}

impl Sites {
    fn lines_of(&mut self, site: &Arc<str>, now: Instant) -> Arc<SiteLines> {
        if let Some(lines) = self.known.get(site) {
            return Arc::clone(lines);
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < INTERVAL;
        if self.known.len() >= MAX_SITES && !self.cleaned_at.is_some_and(is_recent) {
            self.cleaned_at = Some(now);
            self.known.retain(|_, lines| !lines.is_unused(now));
        }
        if self.known.len() >= MAX_SITES {
            return Arc::clone(&self.further);
        }
        Arc::clone(self.known.entry(Arc::clone(site)).or_default())
    }
}

impl SiteLines {
    fn is_unused(&self, now: Instant) -> bool {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        self.rate.is_unused() && clients.left_out == 0 && !clients.is_counting(now)
    }
}

impl ClientLines {
    /// Counts a line. Returns `None` if it must be left out, otherwise how many lines have been
    /// left out since the last one.
    fn next(&mut self, client: Option<IpAddr>, now: Instant) -> Option<u64> {
        if !self.is_counting(now) {
            self.interval_start = Some(now);
            self.clients.clear();
        }
        let of_client = self.clients.iter().filter(|other| **other == client).count();
        if self.clients.len() >= MAX_LINES || of_client >= MAX_LINES_OF_CLIENT {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.clients.push(client);
        Some(std::mem::take(&mut self.left_out))
    }

    fn is_counting(&self, now: Instant) -> bool {
        self.interval_start.is_some_and(|start| now.saturating_duration_since(start) < INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn client(number: u8) -> Option<IpAddr> {
        Some([192, 0, 2, number].into())
    }

    #[test]
    fn lines_about_clients_are_limited_and_those_left_out_are_counted() {
        let (mut lines, started_at) = (ClientLines::default(), Instant::now());
        let of = |lines: &mut ClientLines, number: u8| {
            (0..1000).filter(|_| lines.next(client(number), started_at).is_some()).count()
        };
        assert_eq!(of(&mut lines, 1), MAX_LINES_OF_CLIENT);
        assert_eq!(of(&mut lines, 2), MAX_LINES - MAX_LINES_OF_CLIENT, "another client is heard");
        assert_eq!(of(&mut lines, 3), 0);
        assert_eq!(lines.next(client(1), started_at + INTERVAL / 2), None);
        let left_out = lines.next(client(1), started_at + INTERVAL);
        // The first line of the second client has told of those of the first.
        assert_eq!(left_out, Some(1000 - 20 + 1000 + 1));
        assert_eq!(lines.next(client(1), started_at + INTERVAL), Some(0));
    }

    #[test]
    fn a_flood_about_one_site_ends_and_silences_no_other() {
        let mut file = tempfile::tempfile().unwrap();
        let log = RequestLog::new(Arc::new(Log::new(file.try_clone().unwrap().into())));
        let (flooded, other) = (Arc::from("flooded"), Arc::from("other"));
        let long = "f".repeat(100_000);
        for _ in 0..10_000 {
            log.write(&flooded, Level::Error, format_args!("{long}"));
            log.write_of_client(&flooded, client(1), Level::Info, format_args!("refused"));
        }
        log.write(&other, Level::Error, format_args!("a problem of the other"));
        log.write_of_client(&other, client(1), Level::Info, format_args!("a client of the other"));
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!((16 << 20..17 << 20).contains(&text.len()), "{} bytes", text.len());
        let cut_off = "too many lines about requests to \"flooded\": they are left out for 10 s";
        for line in [cut_off, "a problem of the other\n", "a client of the other\n"] {
            assert_eq!(text.matches(line).count(), 1, "{line}");
        }
    }

    #[test]
    fn the_number_of_sites_is_limited_and_unused_ones_make_room() {
        let (mut sites, start) = (Sites::default(), Instant::now());
        let site = |number: usize| Arc::from(number.to_string());
        for number in 0..MAX_SITES {
            let lines = sites.lines_of(&site(number), start);
            assert_eq!(lines.clients.lock().unwrap().next(None, start), Some(0));
        }
        let further = sites.lines_of(&site(MAX_SITES), start);
        assert!(Arc::ptr_eq(&further, &sites.further));
        assert_eq!(sites.known.len(), MAX_SITES);
        let later = sites.lines_of(&site(MAX_SITES), start + INTERVAL);
        assert!(!Arc::ptr_eq(&later, &sites.further));
        assert_eq!(sites.known.len(), 1);
    }
}
