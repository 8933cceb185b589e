//! Results of a request that take time: searches of files of passwords and groups, and checks of passwords.
//!
//! 1. Each result is computed once for a request, on another thread, however many directives ask for it.
//! 2. A site has one search at a time, and its processor time counts in the [`Allowance`](super::allowance::Allowance).
//!    A request may have a limited number of bytes read.
//! 3. Conditions need the results of their sub-requests at once. A result that is not there is noted ([`Wanted`]); once
//!    the request has been run, what is noted is computed, and the request is run again.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use howdah_htaccess::query::{Found, MAX_SEARCHED_BYTES, Query};
use tokio::time::timeout;

use super::allowance::processor_time;
use super::site::Site;
use crate::auth;

/// Maximum number of bytes that are read for the searches of a request.
const MAX_BYTES: u64 = 2 * MAX_SEARCHED_BYTES as u64;

/// Maximum number of results of a request that are kept.
const MAX_RESULTS: usize = 64;

/// Maximum time for which a request waits for a file system.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Something whose result takes time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A search of the file at a path.
    Search { path: Vec<u8>, query: Query },
    /// A check of a password against its stored form.
    Check { password: Vec<u8>, stored: Vec<u8> },
}

/// A result.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Found(Result<Found, io::ErrorKind>),
    /// `None` if too many checks wait.
    Checked(Option<bool>),
}

/// Results of a request.
#[derive(Debug)]
pub(super) struct Lookups {
    client: Option<IpAddr>,
    known: RefCell<Vec<(Wanted, Answer)>>,
    /// What was wanted at once and is not known.
    wanted: RefCell<Vec<Wanted>>,
    is_immediate: Cell<bool>,
    /// Number of bytes that were read.
    bytes: Cell<u64>,
    /// Lines that were logged: a request that is run again repeats none.
    logged: RefCell<Vec<String>>,
}

impl Lookups {
    /// Returns the results of a new request of a client.
    pub fn new(client: Option<IpAddr>) -> Lookups {
        Lookups {
            client,
            known: RefCell::default(),
            wanted: RefCell::default(),
            is_immediate: Cell::new(false),
            bytes: Cell::new(0),
            logged: RefCell::default(),
        }
    }

    /// Says whether results are needed at once; returns what held before.
    pub fn set_immediate(&self, is_immediate: bool) -> bool {
        self.is_immediate.replace(is_immediate)
    }

    /// Returns true if results are needed at once.
    pub fn is_immediate(&self) -> bool {
        self.is_immediate.get()
    }

    /// Returns true for a line that was not logged yet.
    pub fn is_new_line(&self, text: &str) -> bool {
        let mut logged = self.logged.borrow_mut();
        let is_new = !logged.iter().any(|known| known == text);
        if is_new && logged.len() < MAX_RESULTS {
            logged.push(text.to_owned());
        }
        is_new
    }

    /// Computes what was wanted at once. Returns false if there was nothing. `open` opens a file of the site.
    pub async fn catch_up(&self, site: &Site, open: &Open<'_>) -> bool {
        let wanted = self.wanted.take();
        for wanted in &wanted {
            self.get(wanted, site, open).await;
        }
        !wanted.is_empty()
    }

    /// Returns a result.
    pub async fn get(&self, wanted: &Wanted, site: &Site, open: &Open<'_>) -> Answer {
        let known = self.known.borrow().iter().find(|(known, _)| known == wanted).cloned();
        if let Some((_, answer)) = known {
            return answer;
        }
        if self.is_immediate.get() {
            self.note(wanted);
            return std::future::pending().await;
        }
        let answer = match wanted {
            Wanted::Search { path, query } => {
                Answer::Found(self.search(path, query, site, open).await.map_err(|e| e.kind()))
            }
            Wanted::Check { password, stored } => {
                let checked = auth::verify(&site.passwords, self.client, password, stored).await;
                Answer::Checked(checked)
            }
        };
        let mut all = self.known.borrow_mut();
        if all.len() < MAX_RESULTS {
            all.push((wanted.clone(), answer.clone()));
        }
        answer
    }

    /// Notes what was wanted at once.
    fn note(&self, wanted: &Wanted) {
        let mut all = self.wanted.borrow_mut();
        if all.len() < MAX_RESULTS && !all.contains(wanted) {
            all.push(wanted.clone());
        }
    }

    async fn search(
        &self,
        path: &[u8],
        query: &Query,
        site: &Site,
        open: &Open<'_>,
    ) -> io::Result<Found> {
        let turn = site.searches.next(self.client).await.ok_or(io::ErrorKind::ResourceBusy)?;
        let file = open(path)?;
        let rest = MAX_BYTES.saturating_sub(self.bytes.get()).min(MAX_SEARCHED_BYTES as u64);
        let query = query.clone();
        let job = tokio::task::spawn_blocking(move || {
            let start = processor_time();
            let (found, bytes) = search(file, rest, &query);
            drop(turn);
            (found, bytes, processor_time().saturating_sub(start))
        });
        // A network drive may never answer; the site's next search then waits, too.
        let ended = timeout(MAX_WAIT, job).await.map_err(|_| io::ErrorKind::TimedOut)?;
        let (found, bytes, time) = ended.map_err(|_| io::Error::other("the search has failed"))?;
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        site.allowance.charge(time, Instant::now());
        found
    }
}

/// Opens a file of the site.
pub(super) type Open<'a> = dyn Fn(&[u8]) -> io::Result<File> + 'a;

/// Searches a file of at most `limit` bytes. Also returns the number of bytes that were read.
fn search(file: File, limit: u64, query: &Query) -> (io::Result<Found>, u64) {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size > limit {
        return (Err(io::ErrorKind::FileTooLarge.into()), 0);
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    let read = file.take(limit + 1).read_to_end(&mut content);
    let bytes = content.len() as u64;
    let found = match read {
        Ok(_) if bytes > limit => Err(io::ErrorKind::FileTooLarge.into()),
        Ok(_) => query.answer(&content),
        Err(error) => Err(error),
    };
    (found, bytes)
}
