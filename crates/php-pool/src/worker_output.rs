//! Standard output and error of a worker, and of the programs that its scripts start: a pipe that
//! the router reads, or one of each. What a request writes to a pipe is one log record.
//!
//! 1. The control thread reads whenever there is output ([`Output::watch`]), so that a writer waits
//!    only while its application exceeds its log rate. A piece belongs to the request that the
//!    worker had when the piece was already in the pipe.
//! 2. When a script ends and the pipe is not empty, the worker waits until the request's own router
//!    thread has read it ([`Output::take`]). The pipe therefore never has output older than the
//!    worker's current request.
//! 3. When the request ends, its output is logged ([`Output::finish`]). Output while the worker has
//!    no request comes from a background program, and is logged line by line.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use howdah_sys::reactor;
use tokio::io::unix::AsyncFd;

use super::crash_report;
use super::request::{RequestContext, RequestKey};

/// Maximum size of a record in bytes; longer output continues in another record.
const MAX_RECORD_BYTES: usize = 1 << 20;

/// Maximum length in bytes of a line without a known request.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Maximum number of bytes of one read: the capacity of a pipe.
const READ_BYTES: usize = 64 << 10;

/// Requests of the worker that an output belongs to, and their log.
pub(super) trait RequestSource: fmt::Debug + Send + Sync {
    /// Returns the name of the application.
    fn application(&self) -> &str;
    /// Returns the current request of the worker, or its last one.
    fn current_request(&self) -> Option<(RequestKey, Arc<RequestContext>)>;
    /// Writes a record to the log, within the application's log rate. `context`: the request that
    /// it is about.
    fn log(&self, context: Option<&RequestContext>, message: fmt::Arguments<'_>);
    /// Returns the time until the application may log again.
    fn log_pause(&self) -> Duration;
}

/// Output of one worker.
#[derive(Debug)]
pub struct Output {
    pipe: AsyncFd<OwnedFd>,
    source: Arc<dyn RequestSource>,
    /// The word for it in records.
    name: &'static str,
    /// The pipe of standard output, if it has one of its own.
    stdout: Option<Arc<Output>>,
    /// Output that was read, or is being read, is not logged yet.
    has_unlogged: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Output that is not logged yet.
    read: Vec<u8>,
    /// Request that wrote it.
    request: Option<(RequestKey, Arc<RequestContext>)>,
    /// Number of records of this request so far.
    parts: u32,
    /// The worker has ended: further output is from other processes.
    has_ended: bool,
    /// The report of its crash, if the pipe was closed before its end was known.
    report: Option<String>,
}

impl Output {
    /// Reads the pipe until all its writing ends are closed. `stdout` is the pipe of standard
    /// output, if that is another one.
    pub(super) fn watch(
        pipe: OwnedFd,
        stdout: Option<OwnedFd>,
        source: Arc<dyn RequestSource>,
    ) -> std::io::Result<Arc<Self>> {
        let watch = |pipe| Output::start(pipe, "standard output", None, Arc::clone(&source));
        let stdout = stdout.map(watch).transpose()?;
        Output::start(pipe, "output", stdout, source)
    }

    fn start(
        pipe: OwnedFd,
        name: &'static str,
        stdout: Option<Arc<Output>>,
        source: Arc<dyn RequestSource>,
    ) -> std::io::Result<Arc<Self>> {
        let output = Arc::new(Output {
            pipe: reactor::readable(pipe)?,
            source,
            name,
            stdout,
            has_unlogged: AtomicBool::new(false),
            state: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&output).read_to_end());
        Ok(output)
    }

    async fn read_to_end(self: Arc<Self>) {
        loop {
            let Ok(mut ready) = self.pipe.readable().await else { return };
            if self.read_available() {
                // A script that writes without end must not occupy the thread.
                match self.source.log_pause() {
                    Duration::ZERO => tokio::task::yield_now().await,
                    wait => tokio::time::sleep(wait).await,
                }
            } else if ready.ready().is_read_closed() {
                self.close();
                return;
            } else {
                ready.clear_ready();
            }
        }
    }

    /// Reads the pipe's content. Returns false if the pipe is empty.
    fn read_available(&self) -> bool {
        let mut state = self.lock();
        self.has_unlogged.store(true, SeqCst);
        let available = self.available();
        if available > 0 {
            // Order matters: the current content of the pipe was not written by a later request.
            let request = if state.has_ended { None } else { self.source.current_request() };
            state.attribute_to(request, self);
            self.read(&mut state, available);
        }
        let request = if state.has_ended { None } else { self.source.current_request() };
        if state.request.is_none() {
            state.log_lines(self);
        } else if state.key() != request.map(|(key, _)| key) {
            state.log(self, true); // the request has ended without this output
        }
        self.has_unlogged.store(!state.read.is_empty(), SeqCst);
        available > 0
    }

    /// Reads the remaining output of the ended script of a request.
    pub(super) fn take(&self, key: RequestKey, context: Arc<RequestContext>) {
        let mut state = self.lock();
        self.has_unlogged.store(true, SeqCst);
        state.attribute_to(Some((key, Arc::clone(&context))), self);
        let available = self.available();
        self.read(&mut state, available);
        drop(state);
        if let Some(stdout) = &self.stdout {
            stdout.take(key, context);
        }
    }

    /// Returns true if there may be output to log when a request ends.
    pub(super) fn has_unlogged(&self) -> bool {
        self.has_unlogged.load(SeqCst)
            || self.stdout.as_ref().is_some_and(|stdout| stdout.has_unlogged())
    }

    /// Logs the output of a request that has ended.
    pub(super) fn finish(&self, key: RequestKey) {
        if let Some(stdout) = &self.stdout {
            stdout.finish(key);
        }
        let mut state = self.lock();
        if state.key() == Some(key) {
            state.log(self, true);
            self.has_unlogged.store(false, SeqCst);
        }
    }

    /// Logs the rest of the output of a worker that has ended. Returns the report of its crash.
    pub fn end(&self) -> Option<String> {
        if let Some(stdout) = &self.stdout {
            stdout.end();
        }
        self.read_available();
        let mut state = self.lock();
        state.has_ended = true;
        let report = crash_report::take(&mut state.read);
        state.log(self, true);
        self.has_unlogged.store(false, SeqCst);
        report.or(state.report.take())
    }

    /// Logs the rest of the output once all writing ends of the pipe are closed. The report of a
    /// crash waits for the end of the worker, which is reported as well.
    fn close(&self) {
        self.read_available();
        let mut state = self.lock();
        let report = crash_report::take(&mut state.read);
        state.log(self, true);
        state.report = report.or(state.report.take());
        self.has_unlogged.store(false, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the number of bytes in the pipe.
    fn available(&self) -> usize {
        rustix::io::ioctl_fionread(self.pipe.get_ref()).map_or(0, |n| n as usize)
    }

    /// Reads this many bytes from the pipe.
    fn read(&self, state: &mut State, mut left: usize) {
        while left > 0 {
            let start = state.read.len();
            state.read.resize(start + left.min(READ_BYTES), 0);
            let piece = &mut state.read[start..];
            let read =
                rustix::io::retry_on_intr(|| rustix::io::read(self.pipe.get_ref(), &mut *piece));
            let read = read.unwrap_or(0);
            state.read.truncate(start + read);
            if state.read.len() >= MAX_RECORD_BYTES {
                state.log(self, false);
            }
            left = if read == 0 { 0 } else { left - read };
        }
    }
}

impl State {
    fn key(&self) -> Option<RequestKey> {
        self.request.as_ref().map(|(key, _)| *key)
    }

    /// Attributes the output that is read from now on to this request.
    fn attribute_to(
        &mut self,
        request: Option<(RequestKey, Arc<RequestContext>)>,
        output: &Output,
    ) {
        if self.key() != request.as_ref().map(|(key, _)| *key) {
            self.log(output, true);
            self.request = request;
        }
    }

    /// Logs the output as a record: all of it if it is the last record of its request, otherwise
    /// its complete lines.
    fn log(&mut self, output: &Output, last: bool) {
        let (source, name) = (&output.source, output.name);
        let lines = self.read.iter().rposition(|byte| *byte == b'\n').filter(|_| !last);
        let rest = lines.map(|end| self.read.split_off(end + 1)).unwrap_or_default();
        let text = String::from_utf8_lossy(self.read.trim_ascii_end());
        let part = self.parts + 1;
        let part = match (self.parts, last) {
            (0, true) => String::new(),
            (_, true) => format!(", part {part}, the last"),
            (_, false) => format!(", part {part}"),
        };
        match &self.request {
            _ if text.is_empty() => {}
            Some((_, context)) => {
                source.log(Some(context), format_args!("{context}: {name}{part}: {text}"))
            }
            None => {
                let application = source.application();
                source.log(None, format_args!("\"{application}\" application {name}: {text}"))
            }
        }
        self.read = rest;
        self.parts += 1;
        if last {
            self.parts = 0;
            self.request = None;
        }
    }

    /// Logs the complete lines of output without a request.
    fn log_lines(&mut self, output: &Output) {
        let end = match self.read.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.read.len() >= MAX_LINE_BYTES => self.read.len(),
            None => return,
        };
        let rest = self.read.split_off(end);
        self.log(output, true);
        self.read = rest;
    }
}
