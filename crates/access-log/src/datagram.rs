//! Datagrams of a log: the headers of lines for a syslog server and for the journal.

use std::fmt::Write;
use std::time::Duration;

use howdah_config::{Destination, Journal, Syslog, SyslogProtocol};
use howdah_sys::clock;
use howdah_sys::log::journal;

/// Maximum length of a line in bytes; longer lines are cut. The longest line of usual requests is
/// shorter, and a datagram of this size passes every socket.
const MAX_LINE_BYTES: usize = 32 << 10;

/// The header and the end of each datagram.
#[derive(Debug)]
pub struct Framing {
    kind: Kind,
    /// Name of this machine.
    hostname: String,
    pid: u32,
}

#[derive(Debug)]
enum Kind {
    Syslog(Syslog),
    Journal(Journal),
}

impl Framing {
    /// Returns the framing of a destination; `None` for a file, whose lines have none.
    pub fn of(destination: &Destination) -> Option<Framing> {
        let kind = match destination {
            Destination::File(_) => return None,
            Destination::Syslog(syslog) => Kind::Syslog(syslog.clone()),
            Destination::Journal(journal) => Kind::Journal(journal.clone()),
        };
        let hostname = match &kind {
            Kind::Syslog(Syslog { hostname: Some(name), .. }) => name.clone(),
            _ => machine_name(),
        };
        Some(Framing { kind, hostname, pid: std::process::id() })
    }

    /// Returns the header of datagrams at this time, in seconds since 1970.
    pub fn header(&self, now: Duration) -> String {
        let Framing { kind, hostname, pid } = self;
        let mut header = String::new();
        // Writing to a string does not fail.
        let _ = match kind {
            Kind::Syslog(syslog) => match syslog.protocol {
                SyslogProtocol::Rfc5424 => {
                    let mut time = String::new();
                    howdah_text::date::rfc3339(now, &mut time);
                    let Syslog { priority, tag, .. } = syslog;
                    write!(header, "<{priority}>1 {time} {hostname} {tag} {pid} access - ")
                }
                SyslogProtocol::Rfc3164 => {
                    let (time, tag) = (short_date(now.as_secs()), &syslog.tag);
                    let name = syslog.hostname.as_ref().map(|name| format!("{name} "));
                    let name = name.unwrap_or_default();
                    write!(header, "<{}>{time} {name}{tag}[{pid}]: ", syslog.priority)
                }
            },
            Kind::Journal(Journal { identifier, priority }) => {
                write!(header, "{}MESSAGE=", journal::head(*priority, identifier))
            }
        };
        header
    }

    /// Returns the bytes after the line.
    pub fn end(&self) -> &'static [u8] {
        match self.kind {
            Kind::Syslog(_) => b"",
            Kind::Journal(_) => b"\n",
        }
    }
}

/// Returns the part of a line that a datagram holds.
pub fn cut(line: &[u8]) -> &[u8] {
    line.get(..MAX_LINE_BYTES).unwrap_or(line)
}

/// Returns the local time as in `Nov  5 15:04:05` (RFC 3164, 4.1.2).
fn short_date(seconds: u64) -> String {
    let mut date = String::new();
    clock::log_date(seconds, &mut date); // `05/Nov/2026:15:04:05 +0100`
    let part = |range: std::ops::Range<usize>| date.get(range).unwrap_or_default();
    let day = part(0..2).trim_start_matches('0');
    format!("{} {day:>2} {}", part(3..6), part(12..20))
}

/// Returns the name of the machine, or `-` if it is no word that a header can have.
fn machine_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_str().unwrap_or_default();
    if !name.is_empty() && name.len() <= 255 && name.bytes().all(|b| b.is_ascii_graphic()) {
        name.to_owned()
    } else {
        "-".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(log: &str) -> String {
        let document = format!(r#"{{"access_log": {log}}}"#);
        let config = howdah_config::parse(document.as_bytes()).unwrap();
        let framing = Framing::of(&config.access_log[0].destination).unwrap();
        let pid = std::process::id().to_string();
        framing.header(Duration::from_millis(1_700_000_000_123)).replace(&pid, "PID")
    }

    #[test]
    fn a_header_is_that_of_the_standard() {
        assert_eq!(
            header(r#"{"syslog": {"server": "10.0.0.1", "hostname": "web1"}}"#),
            "<190>1 2023-11-14T22:13:20.123Z web1 howdah PID access - "
        );
        assert_eq!(
            header(r#"{"journal": {"identifier": "site", "severity": "notice"}}"#),
            "PRIORITY=5\nSYSLOG_IDENTIFIER=site\nMESSAGE="
        );
        let old = header(
            r#"{"syslog": {"server": "unix:/dev/log", "protocol": "rfc3164", "tag": "t",
                "facility": "daemon", "severity": "warn"}}"#,
        );
        assert!(old.starts_with("<28>Nov 1") && old.ends_with(" t[PID]: "), "{old}");
    }

    #[test]
    fn a_day_of_one_digit_has_a_space_in_front() {
        assert!(short_date(1_699_185_600).starts_with("Nov  5 "));
    }
}
