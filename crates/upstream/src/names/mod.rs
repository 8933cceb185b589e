//! Addresses of servers that the configuration names.
//!
//! Names are looked up before a configuration is applied, and again when the TTL of the answer is
//! over. New addresses are compiled into the configuration. If a look-up fails, the name keeps its
//! addresses; if it never had any, only requests to its own server fail. Of a request, only the address
//! of the client is looked up, and only for a `.htaccess` file that names hosts ([`clients`]).

pub mod clients;
pub mod files;
mod lookup;
mod service;
mod system;
pub mod target;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Config;
use howdah_sys::log::{Level, Log};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use self::lookup::{Problem, look_up};
use self::service::{Targets, look_up_targets};
use self::target::Target;

/// Servers by name. A name without an address is missing.
pub type NameTable = HashMap<String, Arc<[Target]>>;

/// Maximum wait of a configuration for names that were never looked up.
const FIRST_LOOK_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// Time after which a failed look-up is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Minimum time for which an answer is valid.
const MIN_TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// Maximum time for which an answer is valid.
const MAX_TIME_TO_LIVE: Duration = Duration::from_secs(3600);

/// Names of the running configuration, with their addresses.
pub struct Names {
    entries: HashMap<String, Entry>,
    /// DNS servers from the configuration; if empty, those of the machine.
    servers: Vec<SocketAddr>,
    results: UnboundedReceiver<LookUpResult>,
    result: UnboundedSender<LookUpResult>,
    log: Arc<Log>,
}

/// Returns the addresses of a host that is not a server of the configuration, for example of an
/// ACME authority: the address itself, or the result of a look-up.
pub async fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    match host.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => match look_up(host, &[]).await {
            Ok(found) => Ok(found.addresses),
            Err(problem) => Err(problem.to_string()),
        },
    }
}

/// Sleeps until a time; forever for `None`.
async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// A name, and the result of its look-up.
type LookUpResult = (String, Result<Targets, Problem>);

#[derive(Default)]
struct Entry {
    targets: Arc<[Target]>,
    /// Time of the next look-up; `None` during a look-up.
    due: Option<Instant>,
    /// A look-up has ended, with or without success.
    has_result: bool,
    /// The problem was logged.
    is_logged: bool,
}

impl Names {
    /// Creates an empty table.
    pub fn new(log: Arc<Log>) -> Self {
        let (result, results) = unbounded_channel();
        Names { entries: HashMap::new(), servers: Vec::new(), results, result, log }
    }

    /// Looks up the new names of a configuration, waits for a limited time, and returns all
    /// addresses.
    pub async fn prepare(&mut self, config: &Config) -> NameTable {
        self.servers.clone_from(&config.settings.resolver);
        for name in config.server_names() {
            if !self.entries.contains_key(&name) {
                self.start_look_up(&name);
                self.entries.insert(name, Entry::default());
            }
        }
        let end = Instant::now() + FIRST_LOOK_UP_TIMEOUT;
        while self.entries.values().any(|entry| !entry.has_result)
            && let Ok(Some(result)) = timeout_at(end, self.results.recv()).await
        {
            self.take(result);
        }
        self.table()
    }

    /// Removes names that the running configuration does not have.
    pub fn keep_only(&mut self, config: &Config) {
        let names: BTreeSet<_> = config.server_names().into_iter().collect();
        self.entries.retain(|name, _| names.contains(name));
    }

    /// Repeats look-ups when they are due. Returns when a name has other addresses.
    pub async fn changed(&mut self) {
        loop {
            let due = self.entries.values().filter_map(|entry| entry.due).min();
            tokio::select! {
                Some(result) = self.results.recv() => {
                    if self.take(result) {
                        return;
                    }
                }
                () = sleep_until(due) => self.repeat_due(),
            }
        }
    }

    /// Returns the addresses of all names.
    pub fn table(&self) -> NameTable {
        let known = self.entries.iter().filter(|(_, entry)| !entry.targets.is_empty());
        known.map(|(name, entry)| (name.clone(), Arc::clone(&entry.targets))).collect()
    }

    fn repeat_due(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (name, entry) in &mut self.entries {
            if entry.due.is_some_and(|due| due <= now) {
                entry.due = None;
                due.push(name.clone());
            }
        }
        due.iter().for_each(|name| self.start_look_up(name));
    }

    fn start_look_up(&self, name: &str) {
        let (name, servers, result) = (name.to_owned(), self.servers.clone(), self.result.clone());
        tokio::spawn(async move {
            let found = look_up_targets(&name, &servers).await;
            let _ = result.send((name, found));
        });
    }

    /// Stores the result of a look-up. Returns true if the addresses have changed.
    fn take(&mut self, (name, found): LookUpResult) -> bool {
        let Some(entry) = self.entries.get_mut(&name) else { return false };
        entry.has_result = true;
        match found {
            Ok(Targets { mut targets, time_to_live }) => {
                entry.due =
                    Some(Instant::now() + time_to_live.clamp(MIN_TIME_TO_LIVE, MAX_TIME_TO_LIVE));
                entry.is_logged = false;
                // DNS servers rotate the addresses in each answer.
                targets.sort_unstable();
                targets.dedup();
                let has_changed = *entry.targets != *targets;
                entry.targets = targets.into();
                has_changed
            }
            Err(problem) => {
                entry.due = Some(Instant::now() + RETRY_INTERVAL);
                if !std::mem::replace(&mut entry.is_logged, true) {
                    let stays = match entry.targets.is_empty() {
                        true => "",
                        false => "; its previous addresses stay in use",
                    };
                    let message = format_args!("\"{name}\" cannot be looked up: {problem}{stays}");
                    self.log.write(Level::Error, message);
                }
                false
            }
        }
    }
}
