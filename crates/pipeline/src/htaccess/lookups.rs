//! Results of a request that take time: files of directives, directories and other files that are
//! read, searches of files of passwords and groups, and checks of passwords.
//!
//! 1. Each result is computed once for a request, on another thread, however many directives ask
//!    for it. Meanwhile the request gives up its turn, and other requests of the site have theirs.
//! 2. A site has one file read at a time, and its processor time counts in the
//!    [`Allowance`](howdah_routing::htaccess_state::allowance::Allowance). A request may have a
//!    limited number of bytes read.
//! 3. Conditions need the results of their sub-requests at once, and directives of directories are
//!    always needed at once. A result that is not there is noted ([`Wanted`]); once the request has
//!    been run, the noted results are computed, and the request is run again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use howdah_htaccess::query::{Found, MAX_SEARCHED_BYTES, Query};
use howdah_htaccess::world::Reading;
use howdah_routing::auth;
use howdah_routing::htaccess_state::allowance::{Turn, processor_time};
use howdah_routing::htaccess_state::compiled::{Compiled, Stamp};
use howdah_routing::htaccess_state::site::Site;
use rustix::fs::Dir;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// Maximum number of bytes that are read for the searches of a request.
const MAX_BYTES: u64 = 2 * MAX_SEARCHED_BYTES as u64;

/// Maximum number of results of a request that are kept.
const MAX_RESULTS: usize = 64;

/// Maximum number of directories whose directives are compiled before the request is run again.
const MAX_DIRECTORIES: usize = 1024;

/// Largest number of names that a listing has.
const MAX_LISTED_NAMES: usize = 200_000;

/// Maximum time for which a request waits for a file system.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);

/// Something whose result takes time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A search of the file at a path.
    Search { path: Vec<u8>, query: Query },
    /// The content of the file at a path, or a part or digest of it.
    Read { path: Vec<u8>, reading: Reading },
    /// The names in a directory.
    List { path: Vec<u8> },
    /// A check of a password against its stored form.
    Check { password: Vec<u8>, stored: Vec<u8> },
}

/// A result.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Found(Result<Found, io::ErrorKind>),
    Content(Result<Arc<[u8]>, io::ErrorKind>),
    Names(Result<Arc<Vec<Vec<u8>>>, io::ErrorKind>),
    /// `None` if too many checks wait.
    Checked(Option<bool>),
}

/// Opens files and directories of a site.
pub(super) trait Opener {
    /// Opens a file.
    fn file(&self, path: &[u8]) -> io::Result<File>;

    /// Opens a directory to read its names.
    fn directory(&self, path: &[u8]) -> io::Result<OwnedFd>;
}

/// Results of a request.
#[derive(Debug)]
pub(super) struct Lookups {
    client: Option<IpAddr>,
    known: RefCell<Vec<(Wanted, Answer)>>,
    /// Results that were needed at once and are not known.
    wanted: RefCell<Vec<Wanted>>,
    /// Directories whose directives were wanted and are not known.
    wanted_directories: RefCell<BTreeSet<Vec<u8>>>,
    /// Directives that were compiled for the request, with the state of their files.
    compiled: RefCell<HashMap<Vec<u8>, (Stamp, Compiled)>>,
    is_immediate: Cell<bool>,
    /// Number of bytes that were read.
    bytes: Cell<u64>,
    /// Lines that were logged: a request that is run again repeats none.
    logged: RefCell<Vec<String>>,
    /// The turn of the request among those of the site.
    turn: RefCell<Option<Turn>>,
    /// The permit to have the names of a directory.
    listing: RefCell<Option<OwnedSemaphorePermit>>,
    /// The request would have to wait too long for a further turn, or for its files.
    is_refused: Cell<bool>,
}

impl Lookups {
    /// Returns the results of a new request of a client, which has its turn.
    pub fn new(client: Option<IpAddr>, turn: Option<Turn>) -> Lookups {
        Lookups {
            client,
            known: RefCell::default(),
            wanted: RefCell::default(),
            wanted_directories: RefCell::default(),
            compiled: RefCell::default(),
            is_immediate: Cell::new(false),
            bytes: Cell::new(0),
            logged: RefCell::default(),
            turn: RefCell::new(turn),
            listing: RefCell::default(),
            is_refused: Cell::new(false),
        }
    }

    /// Waits for a further turn. Returns false if that would take too long.
    pub async fn begin_turn(&self, site: &Site) -> bool {
        let turn = site.allowance.turn().await;
        self.turn.replace(turn);
        self.turn.borrow().is_some()
    }

    /// Ends the turn of the request.
    pub fn end_turn(&self) {
        self.turn.take();
        self.listing.take();
    }

    /// Returns true if the request is to be refused, because it would have to wait too long.
    pub fn is_refused(&self) -> bool {
        self.is_refused.get()
    }

    /// Refuses the request.
    pub fn refuse(&self) {
        self.is_refused.set(true);
    }

    /// Sets whether results are needed at once; returns the previous value.
    pub fn set_immediate(&self, is_immediate: bool) -> bool {
        self.is_immediate.replace(is_immediate)
    }

    /// Returns true if results are needed at once.
    pub fn is_immediate(&self) -> bool {
        self.is_immediate.get()
    }

    /// Returns true for a line that is to be logged: it was not logged yet, and the request is not
    /// run again.
    pub fn is_new_line(&self, text: &str) -> bool {
        if !self.wanted.borrow().is_empty() || !self.wanted_directories.borrow().is_empty() {
            return false;
        }
        let mut logged = self.logged.borrow_mut();
        let is_new = !logged.iter().any(|known| known == text);
        if is_new && logged.len() < MAX_RESULTS {
            logged.push(text.to_owned());
        }
        is_new
    }

    /// Computes the results that were needed at once. Returns false if there were none.
    pub async fn catch_up(&self, site: &Site, opener: &dyn Opener) -> bool {
        let wanted = self.wanted.take();
        for wanted in &wanted {
            self.get(wanted, site, opener).await;
        }
        !wanted.is_empty()
    }

    /// Notes that the directives of a directory are wanted.
    pub fn want_directives(&self, directory: &[u8]) {
        let mut wanted = self.wanted_directories.borrow_mut();
        if wanted.len() < MAX_DIRECTORIES {
            wanted.insert(directory.to_vec());
        }
    }

    /// Returns the directories whose directives are wanted.
    pub fn take_wanted_directories(&self) -> BTreeSet<Vec<u8>> {
        self.wanted_directories.take()
    }

    /// Keeps directives that were compiled.
    pub fn keep_compiled(&self, directory: &[u8], stamp: Stamp, compiled: Compiled) {
        self.compiled.borrow_mut().insert(directory.to_vec(), (stamp, compiled));
    }

    /// Returns the directives of a directory, if they were compiled from this state of its file.
    pub fn compiled(&self, directory: &[u8], stamp: &Stamp) -> Option<Compiled> {
        let all = self.compiled.borrow();
        let (known, compiled) = all.get(directory)?;
        (known == stamp).then(|| compiled.clone())
    }

    /// Forgets directives that were compiled.
    pub fn forget_compiled(&self) {
        self.compiled.take();
    }

    /// Returns a result.
    pub async fn get(&self, wanted: &Wanted, site: &Site, opener: &dyn Opener) -> Answer {
        let known = self.known.borrow().iter().find(|(known, _)| known == wanted).cloned();
        if let Some((_, answer)) = known {
            return answer;
        }
        if self.is_immediate.get() {
            self.note(wanted);
            return std::future::pending().await;
        }
        let answer = self.elsewhere(site, self.compute(wanted, site, opener)).await;
        let mut all = self.known.borrow_mut();
        if all.len() < MAX_RESULTS {
            all.push((wanted.clone(), answer.clone()));
        }
        answer
    }

    /// Waits for work on another thread, or for a moment, during which other requests of the site
    /// have their turn.
    pub async fn elsewhere<T>(&self, site: &Site, work: impl Future<Output = T>) -> T {
        let turn = self.turn.take();
        let had_turn = turn.is_some();
        drop(turn);
        let result = work.await;
        if had_turn {
            match site.allowance.turn().await {
                Some(turn) => drop(self.turn.replace(Some(turn))),
                None => self.refuse(),
            }
        }
        result
    }

    /// Notes a result that is needed at once.
    fn note(&self, wanted: &Wanted) {
        let mut all = self.wanted.borrow_mut();
        if all.len() < MAX_RESULTS && !all.contains(wanted) {
            all.push(wanted.clone());
        }
    }

    async fn compute(&self, wanted: &Wanted, site: &Site, opener: &dyn Opener) -> Answer {
        match wanted {
            Wanted::Search { path, query } => {
                let query = query.clone();
                let search = move |file, limit| search(file, limit, &query);
                let open = || opener.file(path);
                Answer::Found(self.read(site, open, search).await.map_err(|e| e.kind()))
            }
            Wanted::Read { path, reading } => {
                let reading = *reading;
                let read = move |file, limit| read(file, limit, reading);
                let open = || opener.file(path);
                Answer::Content(self.read(site, open, read).await.map_err(|e| e.kind()))
            }
            Wanted::List { path } => {
                if self.listing.borrow().is_none() {
                    // The semaphore is never closed.
                    let permit = Arc::clone(&site.listings).acquire_owned().await.ok();
                    self.listing.replace(permit);
                }
                let open = || opener.directory(path);
                let list = |directory, _| (names(directory).map(Arc::new), 0);
                Answer::Names(self.read(site, open, list).await.map_err(|e| e.kind()))
            }
            Wanted::Check { password, stored } => {
                let checked = auth::verify(&site.passwords, self.client, password, stored).await;
                Answer::Checked(checked)
            }
        }
    }

    /// Opens a file or directory and reads it on another thread. `read` gets the maximum number of
    /// bytes, and also returns the number that it has read.
    async fn read<O: Send + 'static, T: Send + 'static>(
        &self,
        site: &Site,
        open: impl FnOnce() -> io::Result<O>,
        read: impl FnOnce(O, u64) -> (io::Result<T>, u64) + Send + 'static,
    ) -> io::Result<T> {
        let Some(turn) = site.searches.next(self.client).await else {
            self.refuse();
            return Err(io::ErrorKind::ResourceBusy.into());
        };
        let opened = open()?;
        let rest = MAX_BYTES.saturating_sub(self.bytes.get()).min(MAX_SEARCHED_BYTES as u64);
        let job = tokio::task::spawn_blocking(move || {
            let start = processor_time();
            let (result, bytes) = read(opened, rest);
            drop(turn);
            (result, bytes, processor_time().saturating_sub(start))
        });
        // A network drive may never answer; the site's next reads then wait, too.
        let ended = timeout(MAX_WAIT, job).await.map_err(|_| io::ErrorKind::TimedOut)?;
        let (result, bytes, time) = ended.map_err(|_| io::Error::other("the search has failed"))?;
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        site.allowance.charge_other(time);
        result
    }
}

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

/// Reads a file of which at most `limit` bytes may be read. Also returns the number of bytes that
/// were read.
fn read(file: File, limit: u64, reading: Reading) -> (io::Result<Arc<[u8]>>, u64) {
    let size = file.metadata().map_or(0, |metadata| metadata.len()).min(reading.limit() as u64);
    if size > limit {
        (Err(io::ErrorKind::FileTooLarge.into()), 0)
    } else {
        (reading.of(file).map(Arc::from), size)
    }
}

/// Returns the names in a directory.
fn names(directory: OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::new(directory)?.take(MAX_LISTED_NAMES) {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
