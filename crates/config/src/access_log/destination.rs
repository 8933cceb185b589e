//! Destinations of an access log: a file, a syslog server, or the journal.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::address::Address;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, Shown, quoted};
use crate::suggest::nearest;

/// Keys of an access log, of which it has exactly one.
pub(super) static KEYS: &[Key] = &[
    Key::new("path", Kind::Text, "The file")
        .default("required without `syslog` and `journal`")
        .details("`/dev/stdout` and `/dev/stderr` are the server's own streams")
        .unit(),
    Key::new(
        "syslog",
        Kind::Either(&[Kind::Text, Kind::Object(&SYSLOG)]),
        "A syslog server, in place of a file",
    )
    .default("none")
    .details("See below"),
    Key::new(
        "journal",
        Kind::Either(&[Kind::Switch, Kind::Object(&JOURNAL)]),
        "systemd's journal, in place of a file",
    )
    .default("none"),
];

/// `syslog` of an access log.
static SYSLOG: Shape = Shape {
    name: "syslog",
    parts: &[&[
        Key::new(
            "server",
            Kind::Text,
            "Address of the server, such as `\"10.0.0.5:514\"` or `\"unix:/dev/log\"`",
        )
        .details(
            "For UDP with a port if it is not 514: `10.0.0.5`, `udp:10.0.0.5:1514`, `[::1]:514`; \
             or a unix socket")
.required(),
        Key::new("protocol", Kind::Word(&["rfc5424", "rfc3164"]), "The form of messages")
            .default("`\"rfc5424\"`, on a unix socket `\"rfc3164\"`")
.details(
    "`rfc3164` is the form that the C library and nginx use, and which `/dev/log` of systemd and \
     rsyslog expects"),
        Key::new("facility", Kind::Text, "The facility").default("\"local7\"")
.details("A word of RFC 5424, as in nginx"),
        Key::new("severity", Kind::Text, "The severity").default("\"info\"")
.details("A word of RFC 5424, as in nginx"),
        Key::new("tag", Kind::Text, "Name of the program in messages").default("\"howdah\""),
        Key::new("hostname", Kind::Text, "Name of the machine in messages")
            .default("the machine's")
.details("With `rfc3164` it is only sent if it is given"),
    ]],
};

/// `journal` of an access log.
static JOURNAL: Shape = Shape {
    name: "journal",
    parts: &[&[
        Key::new("identifier", Kind::Text, "Name of the program in entries").default("\"howdah\""),
        Key::new("severity", Kind::Text, "The severity").default("\"info\""),
    ]],
};

/// Destination of lines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A file that lines are appended to.
    File(PathBuf),
    /// A syslog server.
    Syslog(Syslog),
    /// systemd's journal.
    Journal(Journal),
}

/// A syslog server, and the header of messages to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Syslog {
    /// The server.
    pub server: SyslogServer,
    /// The form of messages.
    pub protocol: SyslogProtocol,
    /// Facility and severity: `facility * 8 + severity`.
    pub priority: u8,
    /// Name of the program in messages.
    pub tag: String,
    /// Name of the machine in messages; `None` for the machine's own.
    pub hostname: Option<String>,
}

/// Address of a syslog server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SyslogServer {
    /// UDP.
    Udp(SocketAddr),
    /// A unix datagram socket.
    Unix(PathBuf),
}

/// The form of messages to a syslog server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyslogProtocol {
    /// RFC 5424.
    Rfc5424,
    /// RFC 3164, in the form that the C library sends to `/dev/log`.
    Rfc3164,
}

/// systemd's journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Journal {
    /// `SYSLOG_IDENTIFIER` of entries.
    pub identifier: String,
    /// `PRIORITY` of entries, from 0 to 7.
    pub priority: u8,
}

/// The socket of systemd's journal for entries with fields.
pub const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

/// The default port of syslog over UDP (RFC 5426).
const SYSLOG_PORT: u16 = 514;

/// Names of facilities, in the order of their numbers (RFC 5424, 6.2.1).
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// Names of severities, in the order of their numbers.
const SEVERITIES: [&str; 8] =
    ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];

const INFO: u8 = 6;
const LOCAL7: u8 = 23;

/// Maximum length of a tag (RFC 5424: `APP-NAME`).
const MAX_TAG_BYTES: usize = 48;

/// Maximum length of a host name in messages (RFC 5424).
const MAX_HOST_BYTES: usize = 255;

impl Destination {
    /// Reads the one of `path`, `syslog` and `journal` that an access log has.
    pub(super) fn read(node: &Node<'_>, object: &Object<'_>) -> Result<Destination, Error> {
        const DESTINATIONS: [&str; 3] = ["path", "syslog", "journal"];
        let path = object.read("path", Destination::read_file)?;
        let syslog = object.read("syslog", Syslog::read)?.map(Destination::Syslog);
        let journal = object.read("journal", Journal::read)?.map(Destination::Journal);
        match (path, syslog, journal) {
            (Some(one), None, None) | (None, Some(one), None) | (None, None, Some(one)) => Ok(one),
            (None, None, None) => Err(object.missing(&DESTINATIONS)),
            _ => Err(node.invalid(format_args!("must have just one of {}", quoted(&DESTINATIONS)))),
        }
    }

    /// Reads the path of a file. Names that other servers have for other destinations are refused.
    pub(super) fn read_file(node: &Node<'_>) -> Result<Destination, Error> {
        let hint = match node.string()? {
            "off" => "write false for no log".to_owned(),
            "journal" | "journald" => "write {\"journal\": true}".to_owned(),
            text => match text.strip_prefix("syslog:") {
                Some(parameters) => syslog_hint(parameters),
                None => return node.file().map(Destination::File),
            },
        };
        Err(node.invalid("is not the path of a file").with_hint(hint))
    }

    /// Returns the socket of the destination, as `udp:ADDRESS` or `unix:PATH`; `None` for a file.
    pub fn socket(&self) -> Option<String> {
        match self {
            Destination::File(_) => None,
            Destination::Syslog(syslog) => Some(syslog.server.to_string()),
            Destination::Journal(_) => Some(format!("unix:{JOURNAL_SOCKET}")),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.socket()) {
            (Destination::File(path), _) => path.display().fmt(f),
            (_, socket) => f.write_str(&socket.unwrap_or_default()),
        }
    }
}

impl fmt::Display for SyslogServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyslogServer::Udp(address) => write!(f, "udp:{address}"),
            SyslogServer::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Syslog {
    fn read(node: &Node<'_>) -> Result<Syslog, Error> {
        if node.value.is_string() {
            let server = SyslogServer::read(node)?;
            return Ok(Syslog {
                protocol: SyslogProtocol::default_of(&server),
                priority: LOCAL7 * 8 + INFO,
                tag: "howdah".to_owned(),
                hostname: None,
                server,
            });
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("an address or an object"));
        }
        let object = node.object(&SYSLOG)?;
        let facility = object.read("facility", |name| read_word(name, &FACILITIES))?;
        let severity = object.read("severity", |name| read_word(name, &SEVERITIES))?;
        let server = SyslogServer::read(&object.required("server")?)?;
        let protocol = object.read("protocol", SyslogProtocol::read)?;
        let syslog = Syslog {
            protocol: protocol.unwrap_or_else(|| SyslogProtocol::default_of(&server)),
            server,
            priority: facility.unwrap_or(LOCAL7) * 8 + severity.unwrap_or(INFO),
            tag: object.read("tag", read_tag)?.unwrap_or_else(|| "howdah".to_owned()),
            hostname: object.read("hostname", |name| read_name(name, MAX_HOST_BYTES))?,
        };
        object.end()?;
        Ok(syslog)
    }
}

impl SyslogServer {
    fn read(node: &Node<'_>) -> Result<SyslogServer, Error> {
        let text = node.text()?;
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            return Ok(SyslogServer::Unix(path.into()));
        }
        let address = text.strip_prefix("udp:").unwrap_or(text);
        let with_port = match address.parse() {
            Ok(ip) => Some(SocketAddr::new(ip, SYSLOG_PORT)),
            Err(_) => match Address::parse(address) {
                Ok(Address::Inet(address)) => Some(address),
                _ => None,
            },
        };
        let usable = with_port.filter(|address| !address.ip().is_unspecified());
        usable.map(SyslogServer::Udp).ok_or_else(|| {
            let error = node.invalid(format_args!("\"{}\" is no address of a server", Shown(text)));
            error.with_hint(
                "write an address with a port, as in \"10.0.0.5:514\", or \"unix:/dev/log\"",
            )
        })
    }
}

impl SyslogProtocol {
    /// Returns the default format of a server: RFC 5424 for UDP, that of the C library (RFC 3164)
    /// for a unix socket.
    fn default_of(server: &SyslogServer) -> SyslogProtocol {
        match server {
            SyslogServer::Udp(_) => SyslogProtocol::Rfc5424,
            SyslogServer::Unix(_) => SyslogProtocol::Rfc3164,
        }
    }

    fn read(node: &Node<'_>) -> Result<SyslogProtocol, Error> {
        match read_word(node, &["rfc5424", "rfc3164"])? {
            0 => Ok(SyslogProtocol::Rfc5424),
            _ => Ok(SyslogProtocol::Rfc3164),
        }
    }
}

/// Returns the equivalent of the parameters of nginx's `syslog:`.
fn syslog_hint(parameters: &str) -> String {
    let parameter = |name: &str| parameters.split(',').find_map(|part| part.strip_prefix(name));
    let server = parameter("server=").and_then(|text| text.split(' ').next());
    let is_usable =
        |server: &&str| server.parse::<SocketAddr>().is_ok() || server.starts_with("unix:/");
    let server = server.filter(is_usable).unwrap_or("127.0.0.1:514");
    format!("write {{\"syslog\": \"{}\"}}", Shown(server))
}

impl Journal {
    /// Reads true, or an object.
    fn read(node: &Node<'_>) -> Result<Journal, Error> {
        if node.value.as_bool() == Some(true) {
            return Ok(Journal { identifier: "howdah".to_owned(), priority: INFO });
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("true or an object"));
        }
        let object = node.object(&JOURNAL)?;
        let journal = Journal {
            identifier: object.read("identifier", read_tag)?.unwrap_or_else(|| "howdah".to_owned()),
            priority: object.read("severity", |name| read_word(name, &SEVERITIES))?.unwrap_or(INFO),
        };
        object.end()?;
        Ok(journal)
    }
}

/// Reads one of the words and returns its index.
fn read_word(node: &Node<'_>, words: &[&'static str]) -> Result<u8, Error> {
    let text = node.string()?;
    let found = words.iter().position(|word| *word == text).and_then(|at| u8::try_from(at).ok());
    found.ok_or_else(|| {
        let error = node.invalid(format_args!("must be one of {}", quoted(words)));
        match nearest(text, words.iter().copied()) {
            Some(meant) => error.with_hint(format!("did you mean \"{meant}\"?")),
            None => error,
        }
    })
}

fn read_tag(node: &Node<'_>) -> Result<String, Error> {
    read_name(node, MAX_TAG_BYTES)
}

/// Reads a word of printable ASCII, which ends at a space in messages.
fn read_name(node: &Node<'_>, max: usize) -> Result<String, Error> {
    let text = node.text()?;
    if text.len() <= max && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(node.invalid(format_args!(
            "must be at most {max} printable ASCII characters without spaces"
        )))
    }
}
