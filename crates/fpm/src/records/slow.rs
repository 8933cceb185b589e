//! Records about requests that take too long → lines and slow log of php-fpm.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::log;

/// A request that takes too long.
#[derive(Debug, PartialEq)]
pub(super) struct Slow<'a> {
    /// Its worker is ended.
    pub(super) is_ended: bool,
    method_and_target: &'a str,
    script: &'a str,
    seconds: f64,
    /// The calls of the script, the innermost first, such as `#0 f(int) at /srv/a.php:2`.
    stack: Vec<&'a str>,
}

/// The slow log of a pool.
#[derive(Debug, Clone)]
pub(super) struct SlowLog {
    /// The file.
    pub(super) path: PathBuf,
    /// Maximum number of calls in a record.
    pub(super) depth: usize,
}

impl<'a> Slow<'a> {
    /// Reads a record of a pool; `None` if it is about something else.
    pub(super) fn of(pool: &str, message: &'a str) -> Option<Slow<'a>> {
        let mut lines = message.lines();
        let rest = lines.next()?.strip_prefix(&format!("\"{pool}\" request "))?;
        let (_, rest) = rest.split_once(": ")?;
        let is_slow = "): is slow: it waited ";
        let is_overdue = " allows and is ended: it waited ";
        let (request, times, is_ended) = match rest.rsplit_once(is_slow) {
            Some((request, times)) => (request, times, false),
            None => {
                let (request, times) = rest.rsplit_once(is_overdue)?;
                (request.rsplit_once("): took longer than ")?.0, times, true)
            }
        };
        let (method_and_target, script) = request.rsplit_once(" (")?;
        let seconds = times.rsplit_once("has run ")?.1.strip_suffix(" s")?.parse().ok()?;
        let stack = lines.filter(|line| line.starts_with('#')).collect();
        Some(Slow { is_ended, method_and_target, script, seconds, stack })
    }

    /// Returns the line of the log about process `pid`.
    pub(super) fn line(&self, pool: &str, pid: u32) -> String {
        let Slow { is_ended, method_and_target, script, seconds, .. } = self;
        let end = if *is_ended {
            format!("execution timed out ({seconds:.6} sec), terminating")
        } else {
            format!("executing too slow ({seconds:.6} sec), logging")
        };
        format!(
            "[pool {pool}] child {pid}, script '{script}' (request: \"{method_and_target}\") {end}"
        )
    }

    /// Appends a record to a slow log.
    pub(super) fn append(&self, pool: &str, pid: u32, to: &SlowLog) -> io::Result<()> {
        let script = log::plain(self.script);
        let time = log::now();
        let mut text = format!("\n[{time}]  [pool {pool}] pid {pid}\nscript_filename = {script}\n");
        for call in calls(&self.stack).into_iter().take(to.depth) {
            // The address of a call is that of a process that goes on meanwhile.
            text += &format!("[0x{:016x}] {}\n", 0, log::plain(&call));
        }
        open(&to.path)?.write_all(text.as_bytes())
    }
}

/// Opened for each record: after a rotation of logs, the file is another one.
fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

/// Returns the calls in php-fpm's form: each with the place from which it was made.
fn calls(stack: &[&str]) -> Vec<String> {
    let parts = stack.iter().map(|call| {
        let call = call.split_once(' ').map_or("", |(_, call)| call);
        call.rsplit_once(" at ").unwrap_or((call, ""))
    });
    let parts: Vec<_> = parts.collect();
    let callers = parts.iter().skip(1).map(|(_, place)| *place);
    let calls = parts.iter().zip(callers).map(|((call, _), place)| {
        let name = call.split('(').next().unwrap_or_default();
        format!("{name}() {place}")
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: &str = "\"www\" request 8a: GET /a.php?b (/srv/a.php): is slow: it waited 0.000 s \
                        and has run 1.009 s\n#0 sleep(int)\n#1 A->f(int, array) at /srv/b.php:2\n\
                        #2 {main} at /srv/a.php:3";

    #[test]
    fn slow_requests_have_php_fpms_line_and_record() {
        let slow = Slow::of("www", SLOW).unwrap();
        let line = "[pool www] child 7, script '/srv/a.php' (request: \"GET /a.php?b\") executing \
                    too slow (1.009000 sec), logging";
        assert_eq!(slow.line("www", 7), line);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("slow");
        slow.append("www", 7, &SlowLog { path: path.clone(), depth: 20 }).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, calls) = text.split_once("script_filename").unwrap();
        assert!(head.starts_with("\n[") && head.ends_with("]  [pool www] pid 7\n"), "{head}");
        let expected = " = /srv/a.php\n[0x0000000000000000] sleep() /srv/b.php:2\n\
                        [0x0000000000000000] A->f() /srv/a.php:3\n";
        assert_eq!(calls, expected);
        slow.append("www", 7, &SlowLog { path: path.clone(), depth: 1 }).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("[0x0000000000000000] sleep() /srv/b.php:2\n"), "{text}");
    }

    #[test]
    fn requests_that_are_ended_have_php_fpms_line() {
        let record = "\"www\" request 8a: GET /(a) (/srv/a.php): took longer than \
                      applications/www/limits/timeout allows and is ended: it waited 0.003 s and \
                      has run 4.052 s\nno stack: its worker has ended";
        let line = "[pool www] child 7, script '/srv/a.php' (request: \"GET /(a)\") execution \
                    timed out (4.052000 sec), terminating";
        assert_eq!(Slow::of("www", record).unwrap().line("www", 7), line);
    }

    #[test]
    fn other_records_are_not_about_slow_requests() {
        for other in [
            "",
            "\"www\" request 8a: GET / (/srv/a.php): no worker",
            "\"www\" request 8a: GET /): is slow: it waited x",
            "\"b\" request 8a: GET / (/a.php): is slow: it waited 0.000 s and has run 1.0 s",
        ] {
            assert_eq!(Slow::of("www", other), None, "{other}");
        }
    }
}
