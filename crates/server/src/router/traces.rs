//! Requests that are slow, and those that ran longer than they may: the log says where their
//! scripts are.
//!
//! 1. Slow ones are found by looking, several times within `limits/slow`, so that the others pay
//!    nothing for it. Router threads report those whose time is over.
//! 2. The prototype is asked where the script is; only then is a worker killed.
//! 3. The record is written when the answer has come, or when none can come any more.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_php_pool::queue::Queue;
use howdah_php_pool::status::Slow;
use howdah_sys::log::{Level, Log};
use howdah_wire::messages::{Stack, ToSupervisor};
use howdah_wire::queue::Owner;

use super::link::Link;

/// How often to look for slow requests: so many times within what counts as slow, within bounds.
const LOOKS: u32 = 10;
const OFTEN: Duration = Duration::from_millis(25);
const SELDOM: Duration = Duration::from_secs(1);

/// Records that wait for their file to be opened. The others go to the server's log.
const MOST_WAITING: usize = 64;

/// What has been asked and is to be written.
#[derive(Debug)]
pub(super) struct Traces {
    log: Arc<Log>,
    asked: HashMap<u32, Asked>,
    next_number: u32,
    files: HashMap<String, File>,
}

#[derive(Debug)]
struct Asked {
    slow: Slow,
    what: What,
    /// The file for the record; `None` for the server's log.
    file: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Slow,
    Overdue,
}

/// A slow log.
#[derive(Debug)]
enum File {
    /// The supervisor was asked for it.
    Opening(Vec<Record>),
    Open(Log),
    /// It cannot be opened; that was reported.
    Unusable,
}

#[derive(Debug)]
struct Record {
    pid: u32,
    level: Level,
    text: String,
}

impl Record {
    fn write(&self, log: &Log) {
        match self.pid {
            0 => log.write(self.level, &self.text),
            pid => log.write_as(pid, self.level, &self.text),
        }
    }
}

impl Traces {
    /// Nothing is asked; what has no file of its own goes to this log.
    pub(super) fn new(log: Arc<Log>) -> Self {
        Traces { log, asked: HashMap::new(), next_number: 0, files: HashMap::new() }
    }

    /// Looks for slow requests of an application. Returns when to look again; `None` if nobody
    /// wants to know.
    pub(super) fn look(
        &mut self,
        link: &Link,
        application: &config::Application,
        queue: &Queue,
        now: Instant,
    ) -> std::io::Result<Option<Instant>> {
        let Some(limit) = application.limits.slow else { return Ok(None) };
        let file = application.limits.slow_log.as_ref();
        let file = file.map(|path| path.to_string_lossy().into_owned());
        if let Some(path) = file.as_ref().filter(|path| !self.files.contains_key(*path)) {
            self.open(link, path)?; // before it is needed: if it cannot be, that shows early
        }
        for slow in queue.slow(limit.as_micros() as u64) {
            self.ask(link, Asked { slow, what: What::Slow, file: file.clone() })?;
        }
        Ok(Some(now + (limit / LOOKS).clamp(OFTEN, SELDOM)))
    }

    /// A script has run longer than it may; its worker is killed by the caller, after this.
    pub(super) fn overdue(&mut self, link: &Link, slow: Slow) -> std::io::Result<()> {
        self.ask(link, Asked { slow, what: What::Overdue, file: None })
    }

    fn ask(&mut self, link: &Link, asked: Asked) -> std::io::Result<()> {
        self.next_number = self.next_number.wrapping_add(1);
        let number = self.next_number;
        let (application, worker) = (asked.slow.instance, asked.slow.worker);
        self.asked.insert(number, asked);
        link.send(&ToSupervisor::Trace { application, worker, number })
    }

    /// The answer to a question.
    pub(super) fn on_traced(&mut self, instance: u32, number: u32, stack: &Stack) {
        if self.asked.get(&number).is_some_and(|asked| asked.slow.instance == instance)
            && let Some(asked) = self.asked.remove(&number)
        {
            self.tell(&asked, stack);
        }
    }

    /// A worker has died, or all of an instance's: there will be no answer about it.
    pub(super) fn on_gone(&mut self, instance: u32, worker: Option<Owner>) {
        let is_gone = |_: &u32, asked: &mut Asked| {
            asked.slow.instance == instance && worker.is_none_or(|w| w == asked.slow.worker)
        };
        let gone: Vec<_> = self.asked.extract_if(is_gone).collect();
        for (_, asked) in gone {
            self.tell(&asked, &Err("its worker has ended".to_owned()));
        }
    }

    fn tell(&mut self, asked: &Asked, stack: &Stack) {
        let Slow { context, times, pid, .. } = &asked.slow;
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        let (waited, ran) = (seconds(times.waited), seconds(times.ran));
        let (level, what) = match asked.what {
            What::Slow => (Level::Warn, "is slow"),
            What::Overdue => (Level::Error, "took longer than limits/timeout allows and is ended"),
        };
        let mut text = format!("{context}: {what}: it waited {waited:.3} s and has run {ran:.3} s");
        match stack {
            Ok(calls) => calls.iter().for_each(|call| {
                text.push('\n');
                text.push_str(call);
            }),
            Err(why) => text += &format!("\nwhere it is, is not known: {why}"),
        }
        let record = Record { pid: *pid, level, text };
        match asked.file.as_ref().and_then(|path| self.files.get_mut(path)) {
            Some(File::Open(log)) => record.write(log),
            Some(File::Opening(waiting)) if waiting.len() < MOST_WAITING => waiting.push(record),
            _ => record.write(&self.log),
        }
    }

    // -- files --

    fn open(&mut self, link: &Link, path: &str) -> std::io::Result<()> {
        self.files.insert(path.to_owned(), File::Opening(Vec::new()));
        link.send(&ToSupervisor::OpenLog { path: path.to_owned() })
    }

    /// Whether the answer about this file is awaited here.
    pub(super) fn awaits(&self, path: &str) -> bool {
        matches!(self.files.get(path), Some(File::Opening(_)))
    }

    /// A file was opened, or cannot be.
    pub(super) fn on_log_opened(&mut self, path: &str, error: &str, file: Option<OwnedFd>) {
        let state = match file {
            Some(file) => File::Open(Log::new(file)),
            None => {
                let line = format_args!(
                    "slow log {path} cannot be opened, so this log has its records: {error}"
                );
                self.log.write(Level::Error, line);
                File::Unusable
            }
        };
        let log = match &state {
            File::Open(log) => log,
            _ => &self.log,
        };
        if let Some(File::Opening(waiting)) = self.files.get(path) {
            waiting.iter().for_each(|record| record.write(log));
        }
        self.files.insert(path.to_owned(), state);
    }

    /// After log rotation every file is opened anew, once it is needed again.
    pub(super) fn reopen(&mut self) {
        self.files.retain(|_, file| matches!(file, File::Opening(_)));
    }
}
