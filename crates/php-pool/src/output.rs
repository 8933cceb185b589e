//! What a worker, and the programs that its scripts start, write to standard output and error: a
//! pipe whose reading end the router has. What a request has written is one record in the log.
//!
//! 1. The control thread reads whenever there is something ([`watch`]), so that nobody who writes
//!    waits for long, unless an application writes faster than its [`LogRate`]. Each piece belongs to the request that the worker had when the piece was
//!    there already.
//! 2. When a script is over and something is left in the pipe, the worker waits until the
//!    request's own thread has read it ([`Output::take`]). So nothing in the pipe is ever older
//!    than the worker's present request.
//! 3. When the request is over, what was read is logged ([`Output::over`]). What comes while the
//!    worker has no request is from a program in the background, and is logged line by line.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use howdah_sys::log::{Level, Log};
use howdah_sys::reactor;
use howdah_wire::queue::Owner;
use tokio::io::unix::AsyncFd;

use super::thread::RequestContext;
use crate::queue::{Instance, Key, Queue};

/// Bytes that are kept for one record; what is longer goes on in another one.
const MAX_RECORD: usize = 1 << 20;

/// Bytes of a line that no request is known for.
const MAX_LINE: usize = 64 << 10;

/// Bytes that are read at once, which is all that a pipe holds.
const PIECE: usize = 64 << 10;

/// The output of one worker.
#[derive(Debug)]
pub struct Output {
    pipe: AsyncFd<OwnedFd>,
    whose: Whose,
    /// Something has been read, or is being read, that is not in the log.
    unlogged: AtomicBool,
    state: Mutex<State>,
}

/// Which worker it is.
#[derive(Debug)]
pub struct Whose {
    /// Its application's name.
    pub application: Arc<str>,
    /// Its process id.
    pub pid: u32,
    /// Its name in the region.
    pub worker: Owner,
    /// The requests that it may have.
    pub queue: Arc<Queue>,
    /// Where it takes them from.
    pub instance: Weak<Instance>,
    /// Where its output goes.
    pub log: Arc<Log>,
}

#[derive(Debug, Default)]
struct State {
    read: Vec<u8>,
    /// The request that has written what was read.
    request: Option<(Key, Arc<RequestContext>)>,
    /// Records about this request so far.
    parts: u32,
    /// The worker has ended: what comes now is not from it.
    ended: bool,
}

/// Reads a worker's output for as long as anybody can write to it.
pub fn watch(pipe: OwnedFd, whose: Whose) -> std::io::Result<Arc<Output>> {
    let output = Arc::new(Output {
        pipe: reactor::readable(pipe)?,
        whose,
        unlogged: AtomicBool::new(false),
        state: Mutex::default(),
    });
    tokio::spawn(Arc::clone(&output).read_to_end());
    Ok(output)
}

impl Output {
    async fn read_to_end(self: Arc<Self>) {
        loop {
            let Ok(mut ready) = self.pipe.readable().await else { return };
            if self.read_present() {
                // A script that writes without end must not keep the thread from its work.
                match self.whose.queue.log_rate.wait() {
                    Duration::ZERO => tokio::task::yield_now().await,
                    wait => tokio::time::sleep(wait).await,
                }
            } else if ready.ready().is_read_closed() {
                self.end();
                return;
            } else {
                ready.clear_ready();
            }
        }
    }

    /// Reads what is there, whosever it is; `false` if there is nothing.
    fn read_present(&self) -> bool {
        let mut state = self.lock();
        self.unlogged.store(true, SeqCst);
        let there = self.there();
        if there > 0 {
            // In this order: what is there now was not written by a request that comes later.
            let request = if state.ended { None } else { self.request() };
            state.belongs_to(request, &self.whose);
            self.read(&mut state, there);
        }
        let request = if state.ended { None } else { self.request() };
        if state.request.is_none() {
            state.log_lines(&self.whose);
        } else if state.key() != request.map(|(key, _)| key) {
            state.log(&self.whose, true); // it is over, and has not seen this
        }
        self.unlogged.store(!state.read.is_empty(), SeqCst);
        there > 0
    }

    /// The script of a request is over: reads what it has left.
    pub(super) fn take(&self, key: Key, context: Arc<RequestContext>) {
        let mut state = self.lock();
        self.unlogged.store(true, SeqCst);
        state.belongs_to(Some((key, context)), &self.whose);
        let there = self.there();
        self.read(&mut state, there);
    }

    /// Whether something may have to be logged when a request is over.
    pub(super) fn is_unlogged(&self) -> bool {
        self.unlogged.load(SeqCst)
    }

    /// A request is over: what it has written is logged.
    pub(super) fn over(&self, key: Key) {
        let mut state = self.lock();
        if state.key() == Some(key) {
            state.log(&self.whose, true);
            self.unlogged.store(false, SeqCst);
        }
    }

    /// The worker has ended, and its last request with it.
    pub fn end(&self) {
        self.read_present();
        let mut state = self.lock();
        state.ended = true;
        state.log(&self.whose, true);
        self.unlogged.store(false, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The request that the worker has, or has just had.
    fn request(&self) -> Option<(Key, Arc<RequestContext>)> {
        let instance = self.whose.instance.upgrade()?;
        self.whose.queue.request_of(&instance, self.whose.worker)
    }

    /// Bytes that are in the pipe.
    fn there(&self) -> usize {
        rustix::io::ioctl_fionread(self.pipe.get_ref()).map_or(0, |n| n as usize)
    }

    /// Reads so many bytes.
    fn read(&self, state: &mut State, mut there: usize) {
        while there > 0 {
            let start = state.read.len();
            state.read.resize(start + there.min(PIECE), 0);
            let piece = &mut state.read[start..];
            let read =
                rustix::io::retry_on_intr(|| rustix::io::read(self.pipe.get_ref(), &mut *piece));
            let read = read.unwrap_or(0);
            state.read.truncate(start + read);
            if state.read.len() >= MAX_RECORD {
                state.log(&self.whose, false);
            }
            there = if read == 0 { 0 } else { there - read };
        }
    }
}

impl State {
    fn key(&self) -> Option<Key> {
        self.request.as_ref().map(|(key, _)| *key)
    }

    /// What is read from now on is from this request.
    fn belongs_to(&mut self, request: Option<(Key, Arc<RequestContext>)>, whose: &Whose) {
        if self.key() != request.as_ref().map(|(key, _)| *key) {
            self.log(whose, true);
            self.request = request;
        }
    }

    /// Writes a record of what was read: all of it, or, if it is not the last one of this request,
    /// its whole lines.
    fn log(&mut self, whose: &Whose, last: bool) {
        let lines = self.read.iter().rposition(|byte| *byte == b'\n').filter(|_| !last);
        let rest = lines.map(|end| self.read.split_off(end + 1)).unwrap_or_default();
        let text = String::from_utf8_lossy(self.read.trim_ascii_end());
        let part = self.parts + 1;
        let part = match (self.parts, last) {
            (0, true) => String::new(),
            (_, true) => format!(", part {part}, the last"),
            (_, false) => format!(", part {part}"),
        };
        let write = |message: std::fmt::Arguments<'_>| {
            whose.log.write_limited(&whose.queue.log_rate, whose.pid, Level::Error, message);
        };
        match &self.request {
            _ if text.is_empty() => {}
            Some((_, context)) => write(format_args!("{context}: output{part}: {text}")),
            None => write(format_args!("\"{}\" application output: {text}", whose.application)),
        }
        self.read = rest;
        self.parts += 1;
        if last {
            self.parts = 0;
            self.request = None;
        }
    }

    /// Writes a record of whole lines, without a request.
    fn log_lines(&mut self, whose: &Whose) {
        let end = match self.read.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.read.len() >= MAX_LINE => self.read.len(),
            None => return,
        };
        let rest = self.read.split_off(end);
        self.log(whose, true);
        self.read = rest;
    }
}
