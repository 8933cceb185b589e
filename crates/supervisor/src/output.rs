//! Standard output and error of an application: a pipe whose lines are written to the log.
//!
//! With the pipe, workers and the programs that they start need no descriptor of the log.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use howdah_sys::log::{Level, Log, OfApplication};
use howdah_sys::log_rate::LogRate;
use howdah_sys::pipe;

/// Maximum length of a line, in bytes; a longer one is split.
const MAX_LINE: usize = 64 * 1024;

/// The reading end of an application's pipe.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: OwnedFd,
    line: Vec<u8>,
    rate: LogRate,
    start: Option<Start>,
    /// The job of the application whose output it is; `None` for its other processes.
    job: Option<String>,
    /// Lines of a job that were not taken yet.
    lines: Vec<String>,
}

/// The lines of one start, as hashes without numbers: they may be times and process ids.
pub(crate) type StartLines = HashSet<u64>;

/// Maximum number of lines of a start that are remembered; further ones are logged each time.
const MAX_START_LINES: usize = 256;

/// The lines of a start that is in progress, and of the failed one before, which are not logged
/// again.
#[derive(Debug)]
struct Start {
    before: StartLines,
    lines: StartLines,
}

impl Start {
    /// Returns true if the start before has written the same line.
    fn is_known(&mut self, line: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        line.split(|c: char| c.is_ascii_digit()).for_each(|part| part.hash(&mut hasher));
        let hash = hasher.finish();
        if self.lines.len() < MAX_START_LINES {
            self.lines.insert(hash);
        }
        self.before.contains(&hash)
    }
}

impl Output {
    /// Creates a pipe. Returns its reader and the application's end.
    pub(crate) fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe::new()?;
        let rate = LogRate::default();
        Ok((
            Output {
                pipe: read,
                line: Vec::new(),
                rate,
                start: None,
                job: None,
                lines: Vec::new(),
            },
            write,
        ))
    }

    /// Creates a pipe for a process of a job.
    pub(crate) fn of_job(job: &str) -> std::io::Result<(Self, OwnedFd)> {
        let (output, writer) = Output::new()?;
        Ok((Output { job: Some(job.to_owned()), ..output }, writer))
    }

    /// Takes the lines of a job that were logged since the last call.
    pub(crate) fn take_lines(&mut self) -> impl Iterator<Item = String> {
        std::mem::take(&mut self.lines).into_iter()
    }

    /// Begins a start after one that has failed with the lines `before`.
    pub(crate) fn begin_start(&mut self, before: StartLines) {
        self.start = Some(Start { before, lines: StartLines::new() });
    }

    /// Ends the start: all lines are logged from now on. Returns its lines; `None` if it has ended
    /// before.
    pub(crate) fn end_start(&mut self) -> Option<StartLines> {
        self.start.take().map(|start| start.lines)
    }

    /// Returns the descriptor to poll.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Returns the time until output may be read again; zero if the rate is not exceeded.
    pub(crate) fn pause(&self) -> Duration {
        self.rate.wait()
    }

    /// Reads output and logs complete lines. Returns false if all writers have closed the pipe.
    pub(crate) fn drain(&mut self, name: &str, log: &Log) -> bool {
        let mut buffer = [0; 16 * 1024];
        // The number of reads is limited: a script that writes without end must not block the
        // supervisor.
        for _ in 0..16 {
            if !self.rate.has_room() {
                break;
            }
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.pipe, &mut buffer)) {
                Ok(0) => {
                    self.flush(name, log);
                    return false;
                }
                Ok(n) => self.take(&buffer[..n], name, log),
                Err(_) => break,
            }
        }
        true
    }

    fn take(&mut self, bytes: &[u8], name: &str, log: &Log) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= MAX_LINE {
                self.flush(name, log);
            }
        }
    }

    fn flush(&mut self, name: &str, log: &Log) {
        let text = String::from_utf8_lossy(self.line.trim_ascii_end());
        let is_known = self.start.as_mut().is_some_and(|start| start.is_known(&text));
        if is_known {
            self.rate.wrote(text.len()); // to read it takes time, too
        } else if !text.is_empty() {
            let pid = std::process::id();
            match &self.job {
                None => {
                    let message = format_args!("\"{name}\" application output: {text}");
                    let source = format_args!("application \"{name}\"");
                    log.write_limited(&self.rate, &source, pid, Level::Error, message);
                }
                Some(job) => {
                    let subject = OfApplication(name);
                    let message = format_args!("\"{name}\" job \"{job}\": {text}");
                    let source = format_args!("the job \"{job}\" of \"{name}\"");
                    let log = log.about(&subject);
                    log.write_limited(&self.rate, &source, pid, Level::Info, message);
                    self.lines.push(text.into_owned());
                }
            }
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_start_that_fails_as_the_one_before_is_logged_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = Log::new(File::create(&path).unwrap().into());
        let start = |before, text: &str| {
            let (mut output, writer) = Output::new().unwrap();
            output.begin_start(before);
            rustix::io::write(&writer, text.as_bytes()).unwrap();
            drop(writer);
            assert!(!output.drain("shop", &log));
            output.end_start().unwrap()
        };
        let first = start(StartLines::new(), "12:01:07 (815): no memory\nno preload script\n");
        let second = start(first, "12:01:12 (816): no memory\nno preload script\n");
        start(second, "12:01:17 (817): no memory\nno extension");
        let lines = std::fs::read_to_string(&path).unwrap();
        let count = |text: &str| lines.matches(text).count();
        let counts = (count("no memory"), count("no preload script"), count("no extension"));
        assert_eq!(counts, (1, 1, 1), "{lines}");
    }

    #[test]
    fn a_flood_of_known_lines_is_taken_no_faster_either() {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::new(File::create(directory.path().join("log")).unwrap().into());
        let (mut output, writer) = Output::new().unwrap();
        output.begin_start(StartLines::new());
        rustix::io::write(&writer, b"x\n").unwrap();
        output.drain("flood", &log);
        let known = output.end_start().unwrap();
        output.begin_start(known);
        let mut taken = 0;
        while output.pause().is_zero() && taken < 64 << 20 {
            taken += rustix::io::write(&writer, &b"x\n".repeat(10_000)).unwrap_or(0);
            assert!(output.drain("flood", &log));
        }
        assert!(!output.pause().is_zero());
    }

    #[test]
    fn a_start_has_a_limited_memory() {
        let mut start = Start { before: StartLines::new(), lines: StartLines::new() };
        for length in 1..10 * MAX_START_LINES {
            assert!(!start.is_known(&"x".repeat(length)));
        }
        assert_eq!(start.lines.len(), MAX_START_LINES);
    }

    #[test]
    fn a_flood_is_taken_no_faster_than_the_log_may_grow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = Log::new(File::create(&path).unwrap().into());
        let (mut output, writer) = Output::new().unwrap();
        let line = [vec![b'x'; 100], vec![b'\n']].concat();
        let mut taken = 0;
        while output.pause().is_zero() && taken < 64 << 20 {
            taken += rustix::io::write(&writer, &line.repeat(300)).unwrap_or(0);
            assert!(output.drain("flood", &log));
        }
        assert!(!output.pause().is_zero());
        let before = std::fs::metadata(&path).unwrap().len();
        let _ = rustix::io::write(&writer, &line);
        assert!(output.drain("flood", &log));
        let after = std::fs::metadata(&path).unwrap().len();
        assert!(before > 100_000 && after < before + 100_000, "{before} {after}");
    }
}
