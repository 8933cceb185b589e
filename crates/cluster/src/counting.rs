//! The connection for limits, for purges that leave this server, and for runs of timers.
//!
//! Router threads send their commands through it themselves; a task of the cluster's thread
//! connects, sends purges, and asks from time to time whether the server still answers. Once it has
//! kept a request waiting for the maximum time, no request waits until it answers in time again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use howdah_cache::peers::Peers;
use howdah_cache::purge::Purge;
use howdah_limits::rules::SharedBlock;
use howdah_limits::shared::{Answer, Claim};
use howdah_questions::ClusterStatus;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::connect::{Allowance, Connector, describe};
use crate::message::{Message, Sender};
use crate::missed::{self, PURGE};
use crate::script::{self, BLOCK, COUNT};
use crate::state::State;
use crate::waiting::{Outgoing, Waiting};

/// Number of purges that the stream keeps at least.
pub const KEPT_PURGES: u64 = 10_000;

/// Maximum time for an answer to a command that no request waits for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of questions whether the server answers.
const PING_INTERVAL: Duration = Duration::from_millis(500);

/// Interval of these questions while no request waits for the server.
const PING_INTERVAL_IN_TROUBLE: Duration = Duration::from_millis(50);

/// First and last delay before the next attempt to connect.
pub const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Bytes that an answer may have, and those for each claim.
const ANSWER_BYTES: u64 = 2048;
const CLAIM_BYTES: u64 = 32;

/// Counts requests, and sends purges.
#[derive(Debug)]
pub struct Counting {
    connector: Arc<Connector>,
    state: Arc<State>,
    sender: Sender,
    connected: ArcSwapOption<Connected>,
    /// The last answer came in time.
    is_answering: AtomicBool,
    waiting: Mutex<Waiting>,
    wake: Notify,
}

/// An open connection.
#[derive(Debug)]
struct Connected {
    commands: MultiplexedConnection,
    allowance: Allowance,
    /// Hashes of the scripts that the server knows.
    count: String,
    block: String,
}

impl Counting {
    pub(crate) fn new(connector: Arc<Connector>, state: Arc<State>, sender: Sender) -> Counting {
        Counting {
            connector,
            state,
            sender,
            connected: ArcSwapOption::empty(),
            is_answering: AtomicBool::new(false),
            waiting: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Counts a request by the rates of all servers. Returns `None` if the server does not answer
    /// in time, or not at all.
    pub async fn count(&self, claims: &[Claim<'_>]) -> Option<Vec<Answer>> {
        let answers = self.ask(claims).await;
        let counter = if answers.is_some() { &self.state.counted } else { &self.state.alone };
        counter.fetch_add(1, Relaxed);
        answers
    }

    async fn ask(&self, claims: &[Claim<'_>]) -> Option<Vec<Answer>> {
        let connected = self.connected.load_full().filter(|_| self.is_answering.load(Relaxed))?;
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(claims.len());
            let prefix = &self.connector.settings().prefix;
            for claim in claims {
                command.arg(script::key(prefix, claim.zone(), claim.text()));
            }
            for claim in claims {
                command
                    .arg(script::microseconds(claim.rate().interval()))
                    .arg(script::microseconds(claim.rate().tolerance()))
                    .arg(script::microseconds(claim.longest_debt()))
                    .arg(script::microseconds(claim.rate().grace()))
                    .arg(if claim.is_dry_run() { "0" } else { "1" });
            }
            command
        };
        let bytes = ANSWER_BYTES + CLAIM_BYTES * claims.len() as u64;
        let run = async {
            match connected.send(&command("EVALSHA", &connected.count), bytes).await {
                // The server has forgotten its scripts.
                Err(error) if is_unknown_script(&error) => {
                    connected.send(&command("EVAL", COUNT), bytes).await
                }
                answered => answered,
            }
        };
        match timeout(self.connector.settings().timeout, run).await {
            Ok(Ok(value)) => {
                let answers = script::answers(&value, claims);
                if answers.is_none() {
                    self.state.invalid.fetch_add(1, Relaxed);
                }
                answers
            }
            Ok(Err(error)) => {
                self.is_answering.store(false, Relaxed);
                self.state.fails(&describe(&error));
                None
            }
            Err(_) => {
                self.is_answering.store(false, Relaxed);
                self.state.fails("it does not answer in time");
                None
            }
        }
    }

    /// Blocks a key on all servers, if the server can be reached.
    pub fn block(&self, block: SharedBlock) {
        if self.is_answering.load(Relaxed) {
            self.waiting().block(block);
            self.wake.notify_one();
        }
    }

    /// Runs a script that no request waits for, with a key for each name and with these arguments.
    /// Error: the reason why it was not run; or it was, and the answer was lost.
    pub(crate) async fn run_script(
        &self,
        script: &str,
        names: &[String],
        arguments: &[&str],
    ) -> Result<Value, String> {
        let connected = self.connected.load_full();
        let connected = connected.ok_or_else(|| "there is no connection".to_owned())?;
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(names.len());
        for name in names {
            command.arg(format!("{}{name}", self.connector.settings().prefix));
        }
        command.arg(arguments);
        connected.run(&command).await
    }

    /// Returns the number of this server by chance.
    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Returns the state of the connection, and counters.
    pub fn report(&self) -> ClusterStatus {
        let is_connected = self.connected.load().is_some() && self.is_answering.load(Relaxed);
        self.state.report(is_connected)
    }

    /// Takes over the purges that wait to be sent by another one, which gets no more.
    pub(crate) fn take_purges_of(&self, other: &Counting) {
        let waiting = std::mem::take(&mut *other.waiting());
        self.waiting().add_purges_of(waiting);
        self.wake.notify_one();
    }

    #[cfg(test)]
    pub(crate) fn purges_waiting(&self) -> usize {
        self.waiting().purges()
    }

    /// Connects again and again.
    pub(crate) async fn run(&self) {
        let mut delay = RETRY_DELAYS.0;
        loop {
            let started_at = Instant::now();
            let Err(problem) = self.session().await;
            self.connected.store(None);
            self.is_answering.store(false, Relaxed);
            self.state.fails(&problem);
            if started_at.elapsed() > RETRY_DELAYS.1 {
                delay = RETRY_DELAYS.0;
            }
            sleep(delay).await;
            delay = (2 * delay).min(RETRY_DELAYS.1);
        }
    }

    /// Connects, and works until the connection fails. Error: the reason.
    async fn session(&self) -> Result<std::convert::Infallible, String> {
        let mut connection = self.connector.connect().await?;
        let (commands, allowance) = (connection.commands.clone(), connection.allowance.clone());
        let mut connected =
            Connected { commands, allowance, count: String::new(), block: String::new() };
        connected.count = connected.load(COUNT).await?;
        connected.block = connected.load(BLOCK).await?;
        let connected = Arc::new(connected);
        self.connected.store(Some(Arc::clone(&connected)));
        self.is_answering.store(true, Relaxed);
        self.state.answers();
        loop {
            let interval = if self.is_answering.load(Relaxed) {
                PING_INTERVAL
            } else {
                PING_INTERVAL_IN_TROUBLE
            };
            tokio::select! {
                () = connection.ended() => return Err("it has closed the connection".to_owned()),
                sent = self.send_waiting(&connected) => sent?,
                () = sleep(interval) => self.ping(&connected).await?,
            }
        }
    }

    async fn ping(&self, connected: &Connected) -> Result<(), String> {
        let asked_at = Instant::now();
        connected.run(&redis::cmd("PING")).await?;
        let is_in_time = asked_at.elapsed() <= self.connector.settings().timeout;
        self.is_answering.store(is_in_time, Relaxed);
        if is_in_time {
            self.state.answers();
        }
        Ok(())
    }

    /// Sends the waiting messages. Returns when the server has refused something, after a pause.
    async fn send_waiting(&self, connected: &Connected) -> Result<(), String> {
        loop {
            let Some(next) = self.waiting().next() else {
                self.wake.notified().await;
                continue;
            };
            let prefix = &self.connector.settings().prefix;
            let mut command;
            match &next {
                Outgoing::Purge(subject, message) => {
                    // The server may have forgotten a script, and a purge must not be lost.
                    command = redis::cmd("EVAL");
                    command.arg(PURGE).arg(2).arg(purges_key(prefix)).arg(last_purges_key(prefix));
                    command.arg(KEPT_PURGES).arg(missed::field(subject)).arg(&**message);
                }
                Outgoing::Block(block) => {
                    command = redis::cmd("EVALSHA");
                    command.arg(&connected.block).arg(1);
                    command.arg(script::key(prefix, &block.zone, &block.key));
                    command.arg(script::microseconds(block.debt));
                    command.arg(script::microseconds(block.longest_debt));
                }
            }
            let sent = timeout(ANSWER_TIMEOUT, connected.send(&command, ANSWER_BYTES)).await;
            let sent = sent.map_err(|_| "it does not answer".to_owned())?;
            match sent {
                Err(error) if error.is_unrecoverable_error() => return Err(describe(&error)),
                // A purge must not be lost: it stays the first that waits.
                Err(error) if matches!(next, Outgoing::Purge(..)) => {
                    self.state.fails(&format!("a purge is not passed on: {}", describe(&error)));
                    sleep(ANSWER_TIMEOUT).await;
                    return Ok(());
                }
                // A block that is lost costs accuracy only.
                Err(_) => {}
                Ok(_) if matches!(next, Outgoing::Purge(..)) => {
                    self.state.sent.fetch_add(1, Relaxed);
                }
                Ok(_) => {}
            }
            self.waiting().sent(&next);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Peers for Counting {
    fn purged(&self, store: &str, owner: Option<&[u8]>, what: &Purge, is_soft: bool) {
        let sender = self.sender;
        let mut store = store.as_bytes().to_vec();
        if let Some(owner) = owner {
            store.push(0);
            store.extend_from_slice(owner);
        }
        let message = Message { sender, store, what: what.clone(), is_soft };
        // Other servers purge more of this application than they would have to, and miss no purge.
        let all = || Message { what: Purge::All, is_soft: false, ..message.clone() }.encode();
        self.waiting().purge(&message.store, message.encode(), all);
        self.wake.notify_one();
    }
}

impl Connected {
    async fn send(&self, command: &Cmd, bytes: u64) -> Result<Value, RedisError> {
        self.allowance.add(bytes);
        command.query_async(&mut self.commands.clone()).await
    }

    /// Sends a command that no request waits for.
    async fn run(&self, command: &Cmd) -> Result<Value, String> {
        match timeout(ANSWER_TIMEOUT, self.send(command, ANSWER_BYTES)).await {
            Ok(answered) => answered.map_err(|error| describe(&error)),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Makes a script known to the server. Returns its hash.
    async fn load(&self, script: &str) -> Result<String, String> {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script);
        match self.run(&command).await? {
            Value::BulkString(hash) if hash.len() == 40 => {
                String::from_utf8(hash).map_err(|_| "it sends bytes that are no answer".to_owned())
            }
            _ => Err("it sends bytes that are no answer".to_owned()),
        }
    }
}

/// Returns the key of the stream of purges.
pub fn purges_key(prefix: &str) -> String {
    format!("{prefix}purges")
}

/// Returns the key of the hash with the last purge of each application.
pub fn last_purges_key(prefix: &str) -> String {
    format!("{prefix}purges:last")
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
