//! The names of the running configuration: looked up before it is applied, and again when the TTL
//! of their answer is over.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Config;
use howdah_sys::log::{Level, Log};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use crate::lookup::{Problem, look_up};
use crate::srv::{Machines, Targets, look_up_targets};
use crate::target::Target;

/// Servers by name. A name without an address is missing.
pub type NameTable = HashMap<String, Arc<[Target]>>;

/// Maximum wait of a changed configuration for names that were never looked up.
pub const CHANGE_LOOK_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// The same at a start, which no name server may delay.
pub const START_LOOK_UP_TIMEOUT: Duration = Duration::from_millis(300);

/// Time after which a failed look-up is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of servers of a name. More would cost each request time, and the DNS server of a
/// name could have this server check the health of any number of machines.
const MAX_TARGETS: usize = 256;

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
    /// A name has addresses that the running configuration does not have.
    is_ahead: bool,
    log: Arc<Log>,
}

/// Returns the addresses of a host that is not a server of the configuration, for example of an
/// ACME authority: the address itself, or the result of a look-up. `servers` replace the machine's
/// DNS servers, if there are any.
pub async fn addresses(host: &str, servers: &[SocketAddr]) -> Result<Vec<IpAddr>, String> {
    match host.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => match look_up(host, servers).await {
            Ok(found) => Ok(found.addresses),
            // Containers may lack the file that has this name (RFC 6761, 6.3).
            Err(_) if host == "localhost" => {
                Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            Err(problem) => Err(format!("the name is not known: {problem}")),
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
    /// Machines of a service.
    machines: Machines,
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
        Names {
            entries: HashMap::new(),
            servers: Vec::new(),
            results,
            result,
            is_ahead: false,
            log,
        }
    }

    /// Looks up the new names of a configuration, waits for `limit` at most, and returns all
    /// addresses. Those that come later are reported by [`Names::changed`].
    pub async fn prepare(&mut self, config: &Config, limit: Duration) -> NameTable {
        self.servers.clone_from(&config.settings.resolver);
        for name in config.server_names() {
            if !self.entries.contains_key(&name) {
                self.start_look_up(&name, Machines::new());
                self.entries.insert(name, Entry::default());
            }
        }
        let end = Instant::now() + limit;
        while self.entries.values().any(|entry| !entry.has_result)
            && let Ok(Some(result)) = timeout_at(end, self.results.recv()).await
        {
            // Names of the running configuration may have other addresses, too.
            self.is_ahead |= self.take(result);
        }
        self.table()
    }

    /// The configuration that was prepared is the running one now.
    pub fn commit(&mut self, config: &Config) {
        self.keep_only(config);
        self.is_ahead = false;
    }

    /// The configuration that was prepared cannot be used: the running one stays, and gets the
    /// addresses that were found meanwhile.
    pub fn discard(&mut self, running: &Config) {
        self.keep_only(running);
        self.servers.clone_from(&running.settings.resolver);
    }

    /// Removes names that a configuration does not have.
    fn keep_only(&mut self, config: &Config) {
        let names: BTreeSet<_> = config.server_names().into_iter().collect();
        self.entries.retain(|name, _| names.contains(name));
    }

    /// Repeats look-ups when they are due. Returns when a name has other addresses.
    pub async fn changed(&mut self) {
        if std::mem::take(&mut self.is_ahead) {
            return;
        }
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

    /// Returns the names that were looked up and have no address.
    pub fn without_address(&self) -> Vec<&str> {
        let found = self.entries.iter();
        let found = found.filter(|(_, entry)| entry.has_result && entry.targets.is_empty());
        found.map(|(name, _)| name.as_str()).collect()
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
                due.push((name.clone(), entry.machines.clone()));
            }
        }
        due.into_iter().for_each(|(name, machines)| self.start_look_up(&name, machines));
    }

    fn start_look_up(&self, name: &str, machines: Machines) {
        let (name, servers, result) = (name.to_owned(), self.servers.clone(), self.result.clone());
        tokio::spawn(async move {
            let found = look_up_targets(&name, &servers, &machines).await;
            let _ = result.send((name, found));
        });
    }

    /// Stores the result of a look-up. Returns true if the addresses have changed.
    fn take(&mut self, (name, found): LookUpResult) -> bool {
        let Some(entry) = self.entries.get_mut(&name) else { return false };
        entry.has_result = true;
        let (problem, wait, has_changed) = match found {
            Ok(Targets { mut targets, time_to_live, machines, missing }) => {
                let wait = time_to_live.clamp(MIN_TIME_TO_LIVE, MAX_TIME_TO_LIVE);
                let too_many = cut(&mut targets);
                let (problem, wait) = match missing {
                    Some((machine, problem)) => {
                        let stays = stays(machines.contains_key(&machine));
                        let problem =
                            format!(": \"{machine}\" cannot be looked up: {problem}{stays}");
                        (Some(problem), wait.min(RETRY_INTERVAL))
                    }
                    None => (too_many, wait),
                };
                // DNS servers rotate the addresses in each answer.
                targets.sort_unstable();
                targets.dedup();
                let has_changed = *entry.targets != *targets;
                (entry.targets, entry.machines) = (targets.into(), machines);
                (problem, wait, has_changed)
            }
            Err(problem) => {
                let stays = stays(!entry.targets.is_empty());
                (Some(format!(" cannot be looked up: {problem}{stays}")), RETRY_INTERVAL, false)
            }
        };
        entry.due = Some(Instant::now() + wait);
        let was_logged = std::mem::replace(&mut entry.is_logged, problem.is_some());
        match problem {
            Some(problem) if !was_logged => {
                self.log.write(Level::Error, format_args!("\"{name}\"{problem}"));
            }
            None if was_logged => {
                self.log.write(Level::Notice, format_args!("\"{name}\" can be looked up again"));
            }
            _ => {}
        }
        has_changed
    }
}

/// Returns the end of a message about a failed look-up.
fn stays(has_addresses: bool) -> &'static str {
    if has_addresses { "; its previous addresses stay in use" } else { "" }
}

/// Leaves the maximum number of servers, the best ones first. Returns a problem if there were more.
fn cut(targets: &mut Vec<Target>) -> Option<String> {
    let number = targets.len();
    if number <= MAX_TARGETS {
        return None;
    }
    // The same ones after each look-up, independent of their order in the answer.
    targets.sort_unstable_by_key(|target| (target.is_backup, *target));
    targets.truncate(MAX_TARGETS);
    Some(format!(" has {number} servers, of which {MAX_TARGETS} are used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_servers_the_best_are_used() {
        let target = |n: u16| Target {
            is_backup: n.is_multiple_of(2),
            ..Target::from(IpAddr::from([127, 0, (n >> 8) as u8, n as u8]))
        };
        let mut targets: Vec<_> = (0..300).map(target).collect();
        let problem = cut(&mut targets).expect("too many");
        assert_eq!(problem, " has 300 servers, of which 256 are used");
        assert_eq!(targets.iter().filter(|target| !target.is_backup).count(), 150);
        assert_eq!((targets.len(), cut(&mut targets)), (256, None));
    }

    /// The result of another name may come while a configuration is prepared that is refused in the
    /// end.
    #[tokio::test]
    async fn addresses_that_a_refused_configuration_has_waited_for_are_used_by_the_running_one() {
        let config = |names: &str| {
            let upstreams = format!(r#"{{"u": {{"servers": {{{names}}}}}}}"#);
            let text = format!(
                r#"{{"listeners": {{}}, "upstreams": {upstreams},
                    "settings": {{"resolver": "127.0.0.1:1"}}}}"#
            );
            howdah_config::parse(text.as_bytes()).unwrap()
        };
        let running = config(r#""a.test:80": {}"#);
        let refused = config(r#""a.test:80": {}, "b.test:80": {}"#);
        for is_used in [false, true] {
            let log = std::fs::File::create("/dev/null").unwrap();
            let mut names = Names::new(Arc::new(Log::new(log.into())));
            let known = |last: Option<u8>| Entry {
                targets: last
                    .map(|last| IpAddr::from([127, 0, 0, last]).into())
                    .into_iter()
                    .collect(),
                has_result: last.is_some(),
                ..Entry::default()
            };
            names.entries.insert("a.test".to_owned(), known(Some(1)));
            names.entries.insert("b.test".to_owned(), known(None));
            for (name, last) in [("a.test", 2), ("b.test", 3)] {
                let targets = Targets {
                    targets: vec![IpAddr::from([127, 0, 0, last]).into()],
                    time_to_live: MAX_TIME_TO_LIVE,
                    machines: Machines::new(),
                    missing: None,
                };
                names.result.send((name.to_owned(), Ok(targets))).unwrap();
            }
            assert_eq!(names.prepare(&refused, CHANGE_LOOK_UP_TIMEOUT).await.len(), 2);
            if is_used {
                names.commit(&refused)
            } else {
                names.discard(&running)
            }
            let changed = timeout_at(Instant::now(), names.changed()).await;
            assert_eq!(changed.is_err(), is_used);
            assert_eq!(names.table().len(), if is_used { 2 } else { 1 });
        }
    }
}
