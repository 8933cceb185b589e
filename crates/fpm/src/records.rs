//! Records of the supervisor and the router → lines of php-fpm.
//!
//! The records are lines of JSON (`howdah_sys::log::json`). Those about starts, ends and output of
//! processes become the lines that monitors of php-fpm know; all others are lines with the same
//! text.

mod slow;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::conf::Conf;
use crate::log::{Level, Log};

use slow::{Slow, SlowLog};

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
    /// Number of requests that were slow.
    slow: u64,
}

#[derive(Debug, Clone)]
struct Pool {
    listen: String,
    catches: bool,
    decorates: bool,
    /// Processes end by themselves to be replaced, and not because there are too many.
    replaces: bool,
    is_ondemand: bool,
    slow_log: Option<SlowLog>,
}

impl Records {
    /// Creates the state for the records of a supervisor that begins now.
    pub fn new(conf: &Conf) -> Self {
        let pools = conf.pools.iter().map(|pool| {
            let catches = pool.number("catch_workers_output", 0) == 1;
            let decorates = pool.number("decorate_workers_output", 1) == 1;
            let replaces =
                pool.text("pm") == Some("static") || pool.number("pm.max_requests", 0) > 0;
            let slow_log = pool.text("slowlog").map(|path| {
                let depth = pool.number("request_slowlog_trace_depth", 20);
                SlowLog { path: path.into(), depth: usize::try_from(depth).unwrap_or(0) }
            });
            let listen = pool.text("listen").unwrap_or_default().to_owned();
            let is_ondemand = pool.text("pm") == Some("ondemand");
            let known = Pool { listen, catches, decorates, replaces, is_ondemand, slow_log };
            (pool.name.clone(), known)
        });
        Records {
            pools: pools.collect(),
            left: Vec::new(),
            starts: HashMap::new(),
            crashes: Vec::new(),
            ended: HashMap::new(),
            began: Instant::now(),
            slow: 0,
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

    /// Returns the number of requests that were slow.
    pub fn slow_requests(&self) -> u64 {
        self.slow
    }

    /// Writes what a process of php-fpm would write to standard error: as output of process `pid` if
    /// the pool catches that, or as a line of its own.
    pub fn say(&self, pool: &str, pid: u32, level: Level, text: &str, log: &Log) {
        match self.pools.get(pool).filter(|known| known.catches) {
            Some(known) => {
                let text = format!("{}: {text}", level.as_str());
                known.output(pool, pid, Stream::Stderr, &text, log);
            }
            None => log.write(level, text),
        }
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
        if let Some(known) = self.pools.get(pool).cloned() {
            if let Some(slow) = Slow::of(pool, message) {
                return self.slow(&known, pool, pid, &slow, log);
            }
            if let Some(text) = known.shortage(pool, message) {
                return log.write(Level::Warning, format!("[pool {pool}] {text}"));
            }
            if let Some((stream, output)) = output_of(pool, message) {
                return known.output(pool, pid, stream, output, log);
            }
            // What PHP writes to its log: php-fpm's child writes a line of its own log.
            if level == Level::Notice
                && let Some(text) = message_of(pool, message)
            {
                let text = format!("NOTICE: PHP message: {text}");
                return known.output(pool, pid, Stream::Stderr, &text, log);
            }
            if let Some(text) = message_of(pool, message).filter(|text| is_refusal(text)) {
                if text == UNKNOWN_SCRIPT {
                    return log.write(Level::Debug, text);
                }
                return known.output(pool, pid, Stream::Stderr, &format!("NOTICE: {text}"), log);
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
                let is_success = how == "with code 0";
                if !is_success || known.replaces {
                    *self.ended.entry(pool.to_owned()).or_default() += 1;
                }
                let since = self.starts.remove(&pid).unwrap_or(self.began).elapsed();
                let after = format!("{}.{:06}", since.as_secs(), since.subsec_micros());
                if how.ends_with("(SIGSEGV)") || how.ends_with("(SIGBUS)") {
                    self.crashes.truncate(MAX_CRASHES);
                    self.crashes.push(Instant::now());
                }
                let text = format!(
                    "[pool {pool}] child {pid} exited {how} after {after} seconds from start"
                );
                let level = match is_success {
                    false => Level::Warning,
                    true if known.replaces => Level::Notice,
                    true => Level::Debug,
                };
                return log.write(level, text);
            }
        }
        if let Some((listener, address)) = refused_client(message) {
            let text = format!("Connection disallowed: IP address '{address}' has been dropped.");
            let is_its = |pool: &&String| self.pools[*pool].listens_at(listener);
            let pool = self.pools.keys().find(is_its).cloned().unwrap_or_default();
            return self.say(&pool, pid, Level::Error, &text, log);
        }
        if message.starts_with("settings/max_processes allows no more than ") {
            let text = "The maximum number of processes has been reached. Please review your \
                        configuration and consider raising 'process.max'";
            return log.write(Level::Warning, text);
        }
        log.write(level, message);
    }

    fn slow(&mut self, known: &Pool, pool: &str, pid: u32, slow: &Slow<'_>, log: &Log) {
        log.write(Level::Warning, slow.line(pool, pid));
        if slow.is_ended {
            return;
        }
        self.slow += 1;
        let Some(slow_log) = &known.slow_log else { return };
        if let Err(error) = slow.append(pool, pid, slow_log) {
            let path = slow_log.path.display();
            let error = crate::conf::system(&error);
            log.write(Level::Error, format!("unable to open slowlog ({path}){error}"));
        }
    }
}

impl Pool {
    /// Returns true for the name of its listener. A port alone is one at all addresses.
    fn listens_at(&self, listener: &str) -> bool {
        let is_port = !self.listen.contains(':');
        self.listen == listener || is_port && listener.ends_with(&format!("]:{}", self.listen))
    }

    /// Returns php-fpm's words for a record about too few processes.
    fn shortage(&self, name: &str, message: &str) -> Option<String> {
        let rest = message.strip_prefix(&format!("\"{name}\" application: requests "))?;
        if let Some(rest) = rest.strip_prefix("wait for its ") {
            let (workers, _) = rest.split_once(" workers, ")?;
            let directive = if self.is_ondemand { "max_children" } else { "pm.max_children" };
            return Some(format!(
                "server reached {directive} setting ({workers}), consider raising it"
            ));
        }
        let numbers = rest.strip_prefix("come faster than workers start: ")?;
        let (new, rest) = numbers.split_once(" more at once, ")?;
        let (idle, rest) = rest.split_once(" idle, ")?;
        let (total, _) = rest.split_once(" in all; ")?;
        Some(format!(
            "seems busy (you may need to increase pm.start_servers, or pm.min/max_spare_servers), \
             spawning {new} children, there are {idle} idle, and {total} total children"
        ))
    }

    fn output(&self, name: &str, pid: u32, stream: Stream, output: &str, log: &Log) {
        if !self.catches {
            return;
        }
        let stream = match stream {
            Stream::Stderr => "stderr",
            Stream::Stdout => "stdout",
        };
        let introduction = format!("[pool {name}] child {pid} said into {stream}: ");
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

/// The streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stderr,
    Stdout,
}

/// Returns the output of a process in a record: behind `output: `, `output, part N: ` or the same
/// with `standard output`, with the request in front of it, or the application.
fn output_of<'a>(pool: &str, message: &'a str) -> Option<(Stream, &'a str)> {
    let of_application = message.strip_prefix(&format!("\"{pool}\" application "));
    let streams = [(Stream::Stderr, "output"), (Stream::Stdout, "standard output")];
    let found = streams.into_iter().filter_map(|(stream, name)| {
        if let Some(rest) = of_application.and_then(|rest| rest.strip_prefix(name)) {
            return rest.strip_prefix(": ").map(|output| (0, stream, output));
        }
        let at = message.find(&format!(": {name}"))?;
        let (part, output) = message[at + ": ".len() + name.len()..].split_once(": ")?;
        let is_part = part.is_empty() || part.starts_with(", part ");
        is_part.then_some((at, stream, output))
    });
    // The output may have the words, too.
    found.min_by_key(|(at, ..)| *at).map(|(_, stream, output)| (stream, output))
}

/// Returns the listener and the client in a record about a connection that `listen.allowed_clients`
/// does not permit.
fn refused_client(message: &str) -> Option<(&str, &str)> {
    let reason = ": connection closed: \"allow\" of the listener does not have the address";
    message.strip_prefix("listener ")?.strip_suffix(reason)?.rsplit_once(": ")
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

/// php-fpm tells this to the web server, and the log of developers.
const UNKNOWN_SCRIPT: &str = "Primary script unknown";

/// Returns true for a script that is not run. Visitors can ask for as many as they like, so php-fpm's
/// log has no line about them, unless it has the output of processes.
fn is_refusal(text: &str) -> bool {
    let denied = " has been denied (see security.limit_extensions)";
    let is_denied = text.starts_with("Access to the script '") && text.ends_with(denied);
    is_denied || text == UNKNOWN_SCRIPT
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
        let (stderr, stdout) = (Stream::Stderr, Stream::Stdout);
        for (record, expected) in [
            ("\"www\" application output: a: b", (stderr, "a: b")),
            ("\"www\" application standard output: a: b", (stdout, "a: b")),
            ("request 7: output: PHP Warning: x", (stderr, "PHP Warning: x")),
            ("request 7: output, part 2, the last: x", (stderr, "x")),
            ("request 7: standard output: x: output: y", (stdout, "x: output: y")),
            ("request 7: output: x: standard output: y", (stderr, "x: standard output: y")),
        ] {
            assert_eq!(output_of("www", record), Some(expected), "{record}");
        }
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
    fn scripts_that_are_not_run_are_told_as_output_of_the_process_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let written = |catches: &str| {
            let text = format!(
                "[global]\nerror_log = {}\n[www]\nlisten = 9000\nuser = root\n\
                 pm = static\npm.max_children = 1\ncatch_workers_output = {catches}\n",
                path.display()
            );
            let file = directory.path().join("fpm.conf");
            std::fs::write(&file, text).unwrap();
            let arguments = crate::command_line::Arguments {
                allow_root: true,
                ..crate::command_line::Arguments::default()
            };
            let mut log = Log::default();
            let conf = Conf::load(&file, &arguments, &mut log).unwrap();
            log.started();
            let mut records = Records::new(&conf);
            for text in [
                "Primary script unknown",
                "Access to the script '/a.txt' has been denied (see security.limit_extensions)",
            ] {
                let message = format!("\"www\" request 8a: GET /a? (/a.txt): {text}");
                let record = serde_json::json!({
                    "level": "error", "application": "www", "pid": 7, "message": message,
                });
                records.take(format!("{record}\n").as_bytes(), &log);
            }
            std::fs::read_to_string(&path).unwrap()
        };
        assert_eq!(written("no"), "");
        let line = "said into stderr: \"NOTICE: Access to the script '/a.txt' has been denied";
        let log = written("yes");
        assert!(log.contains(line) && log.lines().count() == 1, "{log}");
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
    fn a_pool_with_too_few_processes_has_php_fpms_line_with_their_numbers() {
        let mut pool = Pool {
            listen: String::new(),
            catches: false,
            decorates: true,
            replaces: false,
            is_ondemand: false,
            slow_log: None,
        };
        let record = "\"www\" application: requests wait for its 3 workers, or soon will; \
                      processes/max allows no more";
        let line = "server reached pm.max_children setting (3), consider raising it";
        assert_eq!(pool.shortage("www", record).as_deref(), Some(line));
        assert_eq!(pool.shortage("b", record), None);
        pool.is_ondemand = true;
        let line = "server reached max_children setting (3), consider raising it";
        assert_eq!(pool.shortage("www", record).as_deref(), Some(line));
        let record = "\"www\" application: requests come faster than workers start: 8 more at \
                      once, 0 idle, 12 in all; more of processes/start and spare would be ready";
        let line = "seems busy (you may need to increase pm.start_servers, or pm.min/max_spare_\
                    servers), spawning 8 children, there are 0 idle, and 12 total children";
        assert_eq!(pool.shortage("www", record).as_deref(), Some(line));
    }

    #[test]
    fn a_refused_client_has_its_address_in_the_line() {
        let reason = "connection closed: \"allow\" of the listener does not have the address";
        let record = format!("listener [::1]:9000: ::1: {reason}");
        assert_eq!(refused_client(&record), Some(("[::1]:9000", "::1")));
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
