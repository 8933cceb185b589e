//! The journal of systemd as the target of the log.
//!
//! The log is a stream to systemd-journald: the standard error of a service, or a connection of the
//! server's own (sd_journal_stream_fd(3)). Each line begins with its priority in angle brackets
//! (sd-daemon(3)).
//!
//! Beside it, each process has a socket to the journal's native protocol, which keeps a record of
//! several lines together and has fields for site, application and request. Values have their
//! length in front, so that none can add a field. It takes datagrams, which cannot be the standard
//! error of a process, and never waits: a record that it does not take goes into the stream.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::fs::fstat;
use rustix::net::{SendFlags, send};

use super::about::Subject;
use super::level::Level;

/// The journal's socket for streams.
const SOCKET: &str = "/run/systemd/journal/stdout";

/// The journal's socket for datagrams.
const NATIVE_SOCKET: &str = "/run/systemd/journal/socket";

/// Variable with the path of another socket for datagrams.
pub(super) const NATIVE_VARIABLE: &str = "HOWDAH_JOURNAL_SOCKET";

/// Maximum length of a message in a datagram, in bytes; the rest of a longer one is in further
/// entries. Three of them fit the send buffer that sockets have by default (208 KiB).
const MAX_MESSAGE: usize = 64 * 1024;

/// Maximum length of another field, in bytes.
const MAX_FIELD: usize = 1024;

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

/// Connects a socket for datagrams; `None` if there is no journal, or it cannot be reached.
pub(super) fn connect_native() -> Option<UnixDatagram> {
    let path = std::env::var_os(NATIVE_VARIABLE);
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect(path.as_deref().unwrap_or(OsStr::new(NATIVE_SOCKET))).ok()?;
    Some(socket)
}

/// Sends an escaped record as entries of the native protocol, without waiting. Returns the number
/// of bytes of the record that were taken.
pub(super) fn send_native(
    socket: &UnixDatagram,
    level: Level,
    record: &[u8],
    subject: Option<&dyn Subject>,
) -> usize {
    let mut fields = head(priority(level), "howdah").into_bytes();
    fields.extend_from_slice(b"SYSLOG_FACILITY=3\n");
    if let Some(subject) = subject {
        let request = subject.request_id();
        let values = [
            ("HOWDAH_SITE", Some(subject.site())),
            ("HOWDAH_APPLICATION", subject.application()),
            ("HOWDAH_REQUEST_ID", request.as_deref()),
        ];
        for (name, value) in values {
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            field(name, &value.as_bytes()[..value.floor_char_boundary(MAX_FIELD)], &mut fields);
        }
    }
    let mut taken = 0;
    while taken < record.len() {
        let mut end = record.len().min(taken + MAX_MESSAGE);
        while end < record.len() && end > taken + 1 && record[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        let mut datagram = fields.clone();
        field("MESSAGE", &record[taken..end], &mut datagram);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if rustix::io::retry_on_intr(|| send(socket, &datagram, flags)).is_err() {
            break;
        }
        taken = end;
    }
    taken
}

/// Returns the fields of an entry that none of its values can change: `identifier` has no line
/// feed.
pub fn head(priority: u8, identifier: &str) -> String {
    format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER={identifier}\n")
}

/// Appends a field in the form that may have any value: name, length, value.
fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
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
    fn an_entry_has_fields_that_no_value_can_add_to() {
        let (reader, writer) = UnixDatagram::pair().unwrap();
        let about = crate::log::OfApplication("a\nPRIORITY=0");
        let message = "one\n    MESSAGE=two";
        assert_eq!(send_native(&writer, Level::Error, message.as_bytes(), Some(&about)), 19);
        let mut datagram = [0; 500];
        let length = reader.recv(&mut datagram).unwrap();
        let name = b"\x0c\0\0\0\0\0\0\0a\nPRIORITY=0\n";
        let expected = [
            &b"PRIORITY=3\nSYSLOG_IDENTIFIER=howdah\nSYSLOG_FACILITY=3\nHOWDAH_SITE\n"[..],
            name,
            b"HOWDAH_APPLICATION\n",
            name,
            b"MESSAGE\n\x13\0\0\0\0\0\0\0one\n    MESSAGE=two\n",
        ];
        assert_eq!(
            String::from_utf8_lossy(&datagram[..length]),
            String::from_utf8_lossy(&expected.concat())
        );
    }

    #[test]
    fn a_long_record_is_several_entries_and_one_that_is_not_taken_is_told() {
        let (reader, writer) = UnixDatagram::pair().unwrap();
        let record = "é".repeat(MAX_MESSAGE * 3 / 4);
        let sent = send_native(&writer, Level::Error, record.as_bytes(), None);
        assert_eq!(sent, record.len());
        let mut text = Vec::new();
        for _ in 0..2 {
            let mut datagram = vec![0; 2 * MAX_MESSAGE];
            let length = reader.recv(&mut datagram).unwrap();
            let at = datagram.windows(8).position(|bytes| bytes == b"MESSAGE\n").unwrap() + 16;
            let piece = &datagram[at..length - 1];
            assert!(str::from_utf8(piece).is_ok());
            text.extend_from_slice(piece);
        }
        assert_eq!(text, record.as_bytes());
        // Nobody reads.
        let long = "x".repeat(4 << 20);
        assert!(send_native(&writer, Level::Error, long.as_bytes(), None) < long.len());
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
