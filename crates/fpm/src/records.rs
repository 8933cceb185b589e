//! Records of the supervisor and the router → lines of php-fpm.
//!
//! The records are lines of JSON (`howdah_sys::log::json`). Those about starts, ends and output of
//! processes become the lines that monitors of php-fpm know; all others are lines with the same
//! text.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::conf::Conf;
use crate::log::{Level, Log};

/// Maximum length of a record, in bytes: the supervisor splits longer output.
const MAX_RECORD: usize = 4 << 20;

/// What a script may write between two messages that are not to share a line
/// (`FPM_STDIO_CMD_FLUSH` of PHP-FPM).
const END_OF_MESSAGE: &str = "\0fscf\0";

/// Maximum number of crashes that are remembered.
const MAX_CRASHES: usize = 10_000;

/// What the records are turned into lines with.
#[derive(Debug)]
pub struct Records {
    pools: HashMap<String, Pool>,
    /// Bytes of a record that has not ended.
    left: Vec<u8>,
    /// Starts of processes, by their ids.
    starts: HashMap<u32, Instant>,
    /// Times of crashes that were not asked for yet.
    crashes: Vec<Instant>,
    /// Processes of a pool that have ended, and have no line about another in their place.
    ended: HashMap<String, usize>,
    began: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Pool {
    catches: bool,
    decorates: bool,
}

impl Records {
    /// Creates the state for the records of a supervisor that begins now.
    pub fn new(conf: &Conf) -> Self {
        let pools = conf.pools.iter().map(|pool| {
            let catches = pool.number("catch_workers_output", 0) == 1;
            let decorates = pool.number("decorate_workers_output", 1) == 1;
            (pool.name.clone(), Pool { catches, decorates })
        });
        Records {
            pools: pools.collect(),
            left: Vec::new(),
            starts: HashMap::new(),
            crashes: Vec::new(),
            ended: HashMap::new(),
            began: Instant::now(),
        }
    }

    /// Takes bytes of the supervisor's log, and writes the lines of complete records.
    pub fn take(&mut self, bytes: &[u8], log: &Log) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.left.extend_from_slice(part);
            if part.ends_with(b"\n") || self.left.len() > MAX_RECORD {
                let record = std::mem::take(&mut self.left);
                self.record(&String::from_utf8_lossy(&record), log);
            }
        }
    }

    /// Returns how many processes have crashed within this time.
    pub fn crashes_within(&mut self, time: Duration) -> usize {
        self.crashes.retain(|at| at.elapsed() <= time);
        self.crashes.len()
    }

    fn record(&mut self, line: &str, log: &Log) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            return log.write(Level::Notice, line);
        };
        let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
        let pid = record.get("pid").and_then(Value::as_u64).unwrap_or(0) as u32;
        let (pool, message) = (text("application"), text("message"));
        let level = match text("level") {
            "alert" | "emerg" | "crit" => Level::Alert,
            "error" | "err" => Level::Error,
            "warn" | "warning" => Level::Warning,
            "notice" if !is_of_supervisor(message) => Level::Notice,
            _ => Level::Debug,
        };
        if let Some(known) = self.pools.get(pool).copied() {
            if let Some(output) = output_of(pool, message) {
                return known.output(pool, pid, output, log);
            }
            // What PHP writes to its log: php-fpm's child writes a line of its own log.
            if level == Level::Notice
                && let Some(text) = message_of(pool, message)
            {
                return known.output(pool, pid, &format!("NOTICE: PHP message: {text}"), log);
            }
            if message == format!("\"{pool}\" application started") {
                self.starts.insert(pid, Instant::now());
                // One in place of another that has ended is a notice; php-fpm's others are for
                // developers.
                let ended = self.ended.entry(pool.to_owned()).or_default();
                let level = if *ended > 0 { Level::Notice } else { Level::Debug };
                *ended = ended.saturating_sub(1);
                return log.write(level, format!("[pool {pool}] child {pid} started"));
            }
            if let Some((pid, how)) = end_of(pool, message) {
                *self.ended.entry(pool.to_owned()).or_default() += 1;
                let since = self.starts.remove(&pid).unwrap_or(self.began).elapsed();
                let after = format!("{}.{:06}", since.as_secs(), since.subsec_micros());
                if how.ends_with("(SIGSEGV)") || how.ends_with("(SIGBUS)") {
                    self.crashes.truncate(MAX_CRASHES);
                    self.crashes.push(Instant::now());
                }
                let text = format!(
                    "[pool {pool}] child {pid} exited {how} after {after} seconds from start"
                );
                return log.write(Level::Warning, text);
            }
        }
        if let Some(address) = refused_client(message) {
            let text = format!("Connection disallowed: IP address '{address}' has been dropped.");
            return log.write(Level::Error, text);
        }
        log.write(level, message);
    }
}

impl Pool {
    fn output(self, name: &str, pid: u32, output: &str, log: &Log) {
        if !self.catches {
            return;
        }
        let introduction = format!("[pool {name}] child {pid} said into stderr: ");
        let output = output.strip_suffix(END_OF_MESSAGE).unwrap_or(output);
        let lines = output.split(END_OF_MESSAGE).flat_map(|message| message.split('\n'));
        for line in lines {
            if self.decorates {
                log.write_quoted(Level::Warning, &introduction, line);
            } else {
                log.write_bare(line);
            }
        }
    }
}

/// Returns the output of a process in a record: behind `output: ` or `output, part N: `, with the
/// request in front of it, or the application.
fn output_of<'a>(pool: &str, message: &'a str) -> Option<&'a str> {
    if let Some(output) = message.strip_prefix(&format!("\"{pool}\" application output: ")) {
        return Some(output);
    }
    let (_, rest) = message.split_once(": output")?;
    let (part, output) = rest.split_once(": ")?;
    let is_part = part.is_empty() || part.starts_with(", part ");
    is_part.then_some(output)
}

/// Returns the address of a client in a record about a connection that `listen.allowed_clients` does
/// not permit.
fn refused_client(message: &str) -> Option<&str> {
    let reason = ": connection closed: \"allow\" of the listener does not have the address";
    let (_, address) = message.strip_suffix(reason)?.rsplit_once(": ")?;
    Some(address)
}

/// Returns true for a record about the start or the end of the supervisor: the master has lines of
/// its own.
fn is_of_supervisor(message: &str) -> bool {
    message == "exiting" || ["started: ", "told to end: "].iter().any(|it| message.starts_with(it))
}

/// Returns what PHP has written to its log, in a record about a request.
fn message_of<'a>(pool: &str, message: &'a str) -> Option<&'a str> {
    let rest = message.strip_prefix(&format!("\"{pool}\" request "))?;
    let (_, rest) = rest.split_once(": ")?;
    rest.split_once("): ").map(|(_, text)| text)
}

/// Returns the process id and the end of a process in a record, in php-fpm's words.
fn end_of(pool: &str, message: &str) -> Option<(u32, String)> {
    let rest = message.strip_prefix(&format!("\"{pool}\" worker process "))?;
    let (pid, rest) = rest.split_once(" exited ")?;
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse::<u32>().ok()
    };
    let how = if let Some(status) = rest.strip_prefix("with status ") {
        format!("with code {}", number(status)?)
    } else {
        let signal = number(rest.strip_prefix("on signal ")?)?;
        format!("on signal {signal} ({})", signal_name(signal))
    };
    Some((pid.parse().ok()?, how))
}

/// Returns the name of a signal, as php-fpm writes it.
fn signal_name(signal: u32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_found_with_a_request_in_front_of_it_and_without() {
        let request = "request 1 \"GET /: output: /\" from 127.0.0.1";
        assert_eq!(output_of("www", "\"www\" application output: a: b"), Some("a: b"));
        assert_eq!(output_of("www", "request 7: output: PHP Warning: x"), Some("PHP Warning: x"));
        assert_eq!(output_of("www", "request 7: output, part 2, the last: x"), Some("x"));
        assert!(output_of("www", request).is_some(), "a request that looks so is cut early");
        assert_eq!(output_of("www", "request 7: no worker"), None);
    }

    #[test]
    fn messages_of_php_are_behind_the_request_and_its_script() {
        let record = "\"www\" request 8a: GET /a.php?b (/srv/a.php): PHP Warning:  x (y): z";
        assert_eq!(message_of("www", record), Some("PHP Warning:  x (y): z"));
        for other in ["\"www\" request 8a", "\"b\" request 8a: GET / (/srv/a.php): x", ""] {
            assert_eq!(message_of("www", other), None, "{other}");
        }
    }

    #[test]
    fn ends_have_their_code_or_the_name_of_the_signal() {
        let end = |text: &str| end_of("www", text);
        let line = "\"www\" worker process 12 exited on signal 11; 3 earlier ends were not logged";
        assert_eq!(end(line), Some((12, "on signal 11 (SIGSEGV)".to_owned())));
        let line = "\"www\" worker process 12 exited with status 255";
        assert_eq!(end(line), Some((12, "with code 255".to_owned())));
        for other in ["\"www\" worker process exited on signal 9", "\"b\" worker process 1 exited"]
        {
            assert_eq!(end(other), None, "{other}");
        }
    }

    #[test]
    fn a_refused_client_has_its_address_in_the_line() {
        let reason = "connection closed: \"allow\" of the listener does not have the address";
        let record = format!("listener [::1]:9000: ::1: {reason}");
        assert_eq!(refused_client(&record), Some("::1"));
        assert_eq!(refused_client("listener [::1]:9000: ::1: connection closed"), None);
    }

    #[test]
    fn bytes_that_are_no_record_never_fail() {
        let mut records = Records::new(&Conf::default());
        let mut log = Log::default();
        log.configure(Level::Alert, 1024);
        for bytes in [&b"\xff\n"[..], b"{", b"}\n", b"[1]\n", b"{\"pid\":-1,\"message\":3}\n\n"] {
            records.take(bytes, &log);
        }
    }
}
