//! The addresses of servers that the document names.
//!
//! Names are looked up before a configuration becomes the running one, and again when what was
//! found has had its time; what a name has from then on is compiled into the configuration. A name
//! that cannot be looked up keeps the addresses that it had, and one that never had any fails its
//! own requests only. No part of a request is ever looked up.

pub mod files;
mod lookup;
mod system;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Config;
use howdah_sys::log::{Level, Log};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use self::lookup::{Found, Problem, look_up};
use crate::servers::resolved::NameTable;

/// How long a configuration waits for names that nobody has looked up yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// When a name that could not be looked up is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Bounds of the time that an answer holds.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// See the module.
pub struct Names {
    entries: HashMap<String, Entry>,
    /// Whom to ask; the machine's servers if there are none.
    servers: Vec<SocketAddr>,
    answers: UnboundedReceiver<Looked>,
    answer: UnboundedSender<Looked>,
    log: Arc<Log>,
}

/// The addresses of a host that the document names for something else than a server behind the proxy,
/// or of one that an authority names: a number, or a name to look up, now.
pub async fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    match host.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => match look_up(host, &[]).await {
            Ok(found) => Ok(found.addresses),
            Err(problem) => Err(problem.to_string()),
        },
    }
}

/// Sleeps until a time; for ever without one.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

type Looked = (String, Result<Found, Problem>);

#[derive(Default)]
struct Entry {
    addresses: Arc<[IpAddr]>,
    /// When to look it up again; `None` while that goes on.
    due: Option<Instant>,
    /// It was looked up, whatever came of that.
    is_known: bool,
    /// The problem was reported.
    is_reported: bool,
}

impl Names {
    /// Knows none.
    pub fn new(log: Arc<Log>) -> Self {
        let (answer, answers) = unbounded_channel();
        Names { entries: HashMap::new(), servers: Vec::new(), answers, answer, log }
    }

    /// Sees that the names of a configuration are known, as far as they can be in a short time, and
    /// gives all addresses.
    pub async fn prepare(&mut self, config: &Config) -> NameTable {
        self.servers.clone_from(&config.settings.resolver);
        for name in config.server_names() {
            if !self.entries.contains_key(&name) {
                self.ask(&name);
                self.entries.insert(name, Entry::default());
            }
        }
        let end = Instant::now() + PATIENCE;
        while self.entries.values().any(|entry| !entry.is_known)
            && let Ok(Some(looked)) = timeout_at(end, self.answers.recv()).await
        {
            self.take(looked);
        }
        self.table()
    }

    /// Forgets names that the running configuration does not have.
    pub fn keep_only(&mut self, config: &Config) {
        let names: BTreeSet<_> = config.server_names().into_iter().collect();
        self.entries.retain(|name, _| names.contains(name));
    }

    /// Looks names up again when it is time to. Ends when some have other addresses.
    pub async fn changed(&mut self) {
        loop {
            let due = self.entries.values().filter_map(|entry| entry.due).min();
            tokio::select! {
                Some(looked) = self.answers.recv() => {
                    if self.take(looked) {
                        return;
                    }
                }
                () = sleep_until(due) => self.ask_again(),
            }
        }
    }

    /// All addresses.
    pub fn table(&self) -> NameTable {
        let known = self.entries.iter().filter(|(_, entry)| !entry.addresses.is_empty());
        known.map(|(name, entry)| (name.clone(), Arc::clone(&entry.addresses))).collect()
    }

    fn ask_again(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (name, entry) in &mut self.entries {
            if entry.due.is_some_and(|due| due <= now) {
                entry.due = None;
                due.push(name.clone());
            }
        }
        due.iter().for_each(|name| self.ask(name));
    }

    fn ask(&self, name: &str) {
        let (name, servers, answer) = (name.to_owned(), self.servers.clone(), self.answer.clone());
        tokio::spawn(async move {
            let found = look_up(&name, &servers).await;
            let _ = answer.send((name, found));
        });
    }

    /// Takes what came of a look-up. Whether the name has other addresses now.
    fn take(&mut self, (name, found): Looked) -> bool {
        let Some(entry) = self.entries.get_mut(&name) else { return false };
        entry.is_known = true;
        match found {
            Ok(Found { mut addresses, time }) => {
                entry.due = Some(Instant::now() + time.clamp(SHORTEST, LONGEST));
                entry.is_reported = false;
                // Servers answer in another order each time.
                addresses.sort_unstable();
                addresses.dedup();
                let has_changed = *entry.addresses != *addresses;
                entry.addresses = addresses.into();
                has_changed
            }
            Err(problem) => {
                entry.due = Some(Instant::now() + RETRY);
                if !std::mem::replace(&mut entry.is_reported, true) {
                    let stays = match entry.addresses.is_empty() {
                        true => "",
                        false => "; the addresses that it had stay",
                    };
                    let message = format_args!("\"{name}\" cannot be looked up: {problem}{stays}");
                    self.log.write(Level::Error, message);
                }
                false
            }
        }
    }
}
