//! The journal of systemd as the target of the log.
//!
//! The log is a stream to systemd-journald: the standard error of a service, or a connection of the
//! server's own (sd_journal_stream_fd(3)). Each line begins with its priority in angle brackets
//! (sd-daemon(3)). The journal's native protocol would keep records of several lines together, but
//! it takes datagrams: it could not be the standard error of the router, and would need a memfd for
//! each long record.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::fstat;

use super::level::Level;

/// The journal's socket for streams.
const SOCKET: &str = "/run/systemd/journal/stdout";

/// Variable with device and inode of the standard error of a service whose output is written to the
/// journal.
pub const STREAM_VARIABLE: &str = "JOURNAL_STREAM";

/// Maximum length of a line of the log in bytes. The journal splits longer lines (`LineMax=`,
/// journald.conf(5)) and would look for a priority in the middle of the text. It is also less than
/// the kernel splits when several processes write to the stream.
const MAX_LINE: usize = 16 * 1024;

/// Returns true if a stream leads to the journal; `variable` is the value of [`STREAM_VARIABLE`].
pub(super) fn is_stream(fd: impl AsFd, variable: Option<&OsStr>) -> bool {
    let Some(wanted) = variable.and_then(OsStr::to_str) else { return false };
    stream_name(fd).is_some_and(|name| name == wanted)
}

/// Returns the value of [`STREAM_VARIABLE`] for a stream.
pub(super) fn stream_name(fd: impl AsFd) -> Option<String> {
    fstat(fd).ok().map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Opens a stream to the journal.
pub(super) fn connect() -> io::Result<OwnedFd> {
    let mut stream = UnixStream::connect(SOCKET)
        .map_err(|error| io::Error::new(error.kind(), format!("{SOCKET}: {error}")))?;
    stream.shutdown(Shutdown::Read)?;
    // Name, unit (the journal knows it), priority of lines without one, whether lines have
    // priorities, and whether they go to syslog, the kernel's log and the console, too.
    write!(stream, "howdah\n\n{}\n1\n0\n0\n0\n", priority(Level::Notice))?;
    Ok(stream.into())
}

/// Returns the syslog severity of a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::Alert => 1,
        Level::Error => 3,
        Level::Warn => 4,
        Level::Notice => 5,
        Level::Info => 6,
        Level::Debug => 7,
    }
}

/// Splits an escaped record into the lines for the journal, each with its priority and end.
pub(super) fn lines(level: Level, record: &[u8]) -> Vec<Vec<u8>> {
    let prefix = format!("<{}>", priority(level));
    let pieces = record.split(|byte| *byte == b'\n').flat_map(pieces);
    pieces.map(|(indent, piece)| [prefix.as_bytes(), indent, piece, b"\n"].concat()).collect()
}

/// Splits a line at the maximum length. The later pieces are indented like continuation lines.
fn pieces(line: &[u8]) -> impl Iterator<Item = (&'static [u8], &[u8])> {
    let mut rest = Some(line);
    let mut indent: &[u8] = b"";
    std::iter::from_fn(move || {
        let line = rest.take()?;
        let mut end = line.len().min(MAX_LINE);
        // Not within a character: the line is UTF-8.
        while end < line.len() && end > 0 && line[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        let (piece, behind) = line.split_at(end);
        rest = Some(behind).filter(|behind| !behind.is_empty());
        Some((std::mem::replace(&mut indent, b"    "), piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(level: Level, record: &str) -> Vec<String> {
        let lines = lines(level, record.as_bytes()).into_iter();
        lines.map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn each_line_has_its_priority() {
        assert_eq!(text(Level::Error, "a\n    b"), ["<3>a\n", "<3>    b\n"]);
        assert_eq!(text(Level::Info, ""), ["<6>\n"]);
    }

    #[test]
    fn a_record_cannot_choose_its_priority() {
        // Escaped, as the log does it.
        let escaped = "<0>a\n    <0>b\\x0d<0>c";
        assert_eq!(text(Level::Info, escaped), ["<6><0>a\n", "<6>    <0>b\\x0d<0>c\n"]);
    }

    /// The journal takes the text after its own limit for a new line, with a priority.
    #[test]
    fn a_long_line_is_split_before_the_journal_does() {
        let long = format!("{}<0>forged", "é".repeat(MAX_LINE / 2));
        let all = text(Level::Notice, &long);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], "<5>    <0>forged\n");
        // The limit is within a character.
        let long = format!("x{}", "é".repeat(100_000));
        let all = text(Level::Notice, &long);
        assert!(all.iter().all(|line| line.len() <= MAX_LINE + 8 && line.starts_with("<5>")));
        let pieces = all.iter().map(|line| line[3..].trim_start_matches(' ').trim_end());
        assert_eq!(pieces.collect::<String>(), long);
    }

    #[test]
    fn a_stream_is_recognised_by_device_and_inode() {
        let (a, b) = UnixStream::pair().unwrap();
        let name = stream_name(&a).unwrap();
        assert!(is_stream(&a, Some(OsStr::new(&name))));
        assert!(!is_stream(&b, Some(OsStr::new(&name))));
        for wrong in ["", ":", "0:0", "x"] {
            assert!(!is_stream(&a, Some(OsStr::new(wrong))));
        }
        assert!(!is_stream(&a, None));
    }
}
