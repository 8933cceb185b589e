//! Socket addresses in the notation of the document.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// An address to listen on or to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `127.0.0.1:8080`, `[::1]:8080`, or `*:8080` for every IPv4 address.
    Inet(SocketAddr),
    /// `unix:/run/site.sock`: a socket file.
    Unix(PathBuf),
    /// `unix:@site`: a name in Linux's abstract namespace, kept without the `@`.
    Abstract(String),
    /// `backend.example:8080`: a name that must be looked up, in lower case, and a port. Only for
    /// servers to connect to.
    Name(String, u16),
    /// `_http._tcp.backend.example`: a service whose servers and ports are looked up (SRV), in
    /// lower case. Only for servers to connect to.
    Service(String),
}

/// Reason why a string is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressError {
    /// The text has none of the known forms.
    Form,
    /// The port is missing, or is not between 1 and 65535.
    Port,
    /// Longer than a socket address permits, or contains a null character.
    UnixName,
    /// The text has none of the known forms and is no name.
    ServerForm,
    /// The port of a server is missing, or is not between 1 and 65535.
    ServerPort,
    /// A service has a port.
    ServicePort,
}

impl Address {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        if let Some(name) = text.strip_prefix("unix:") {
            return Address::parse_unix(name);
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or(AddressError::Form)?;
            let host: Ipv6Addr = host.parse().map_err(|_| AddressError::Form)?;
            let port = rest.strip_prefix(':').ok_or(AddressError::Port)?;
            return Ok(Address::Inet(SocketAddr::from((host, parse_port(port)?))));
        }
        if text.parse::<Ipv6Addr>().is_ok() {
            return Err(AddressError::Port);
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let host = match host {
            "*" => Ipv4Addr::UNSPECIFIED,
            host => host.parse().map_err(|_| AddressError::Form)?,
        };
        let port = parse_port(port.ok_or(AddressError::Port)?)?;
        Ok(Address::Inet(SocketAddr::from((host, port))))
    }

    /// Returns the corrected text for an invalid address to listen on, if it is known.
    pub fn listen_advice(text: &str) -> Option<String> {
        let (scheme, text) = match text.split_once("://") {
            Some((_, rest)) => (true, rest.split('/').next().unwrap_or_default()),
            None => (false, text),
        };
        if Address::parse(text).is_ok() {
            return scheme.then(|| format!("write \"{text}\", without a scheme or path"));
        }
        if let Ok(port) = parse_port(text.strip_prefix(':').unwrap_or(text)) {
            return Some(format!("write \"*:{port}\" for all addresses of the machine"));
        }
        match Address::parse_server(text) {
            Ok(Address::Name(name, port)) if name == "localhost" => Some(format!(
                "a name is not an address, as it may stand for several; write \
                 \"127.0.0.1:{port}\", and \"[::1]:{port}\" for IPv6"
            )),
            Ok(Address::Name(_, port)) => Some(format!(
                "a name is not an address, as it may stand for several; write \"*:{port}\" and \
                 the name in \"match\": {{\"host\": ...}} of a step"
            )),
            _ => None,
        }
    }

    /// Reads the address of a server to connect to, which may be a name.
    pub fn parse_server(text: &str) -> Result<Address, AddressError> {
        match Address::parse(text) {
            Err(AddressError::Form) => {}
            Err(AddressError::Port) => return Err(AddressError::ServerPort),
            read => return read,
        }
        if is_service(text) {
            return Ok(Address::Service(text.to_ascii_lowercase()));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        if !is_host(host) {
            return Err(AddressError::ServerForm);
        }
        if is_service(host) {
            return Err(AddressError::ServicePort);
        }
        let port = parse_port(port.ok_or(AddressError::ServerPort)?);
        let port = port.map_err(|_| AddressError::ServerPort)?;
        Ok(Address::Name(host.to_ascii_lowercase(), port))
    }

    fn parse_unix(name: &str) -> Result<Address, AddressError> {
        /// Maximum length of a path: of the 108 bytes of `sun_path`, one ends a file name or begins
        /// an abstract one.
        const MAX_BYTES: usize = 107;
        let (name, is_abstract) = match name.strip_prefix('@') {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        if name.is_empty() {
            return Err(AddressError::Form);
        }
        if name.len() > MAX_BYTES || name.contains('\0') {
            return Err(AddressError::UnixName);
        }
        Ok(if is_abstract {
            Address::Abstract(name.to_owned())
        } else {
            Address::Unix(Path::new(name).to_owned())
        })
    }
}

/// Returns true for the name of a service, its protocol and a domain (RFC 2782).
fn is_service(text: &str) -> bool {
    let mut labels = text.splitn(3, '.');
    let is_marked =
        |label: Option<&str>| label.is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    is_marked(labels.next())
        && is_marked(labels.next())
        && labels.next().is_some_and(is_host)
        && is_host(text)
}

/// Returns true if DNS can look the name up. Underscores occur in names of containers.
fn is_host(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| (1..64).contains(&label.len()) && label.bytes().all(fits);
    // A last label of digits only would make the name an address.
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() < 254
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_port(text: &str) -> Result<u16, AddressError> {
    // `parse` alone would accept a sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::Port);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(AddressError::Port),
        Ok(port) => Ok(port),
    }
}

impl Address {
    /// Returns the name that must be looked up, if it is not an address.
    pub fn name(&self) -> Option<&str> {
        match self {
            Address::Name(name, _) | Address::Service(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the name of the host, without a dot at its end; of a service, the domain that it is
    /// of.
    pub fn host_name(&self) -> Option<&str> {
        let name = match self {
            Address::Service(name) => name.splitn(3, '.').nth(2)?,
            other => other.name()?,
        };
        Some(name.strip_suffix('.').unwrap_or(name))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(SocketAddr::V4(v4)) if v4.ip().is_unspecified() => {
                write!(f, "*:{}", v4.port())
            }
            Address::Inet(inet) => inet.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Abstract(name) => write!(f, "unix:@{name}"),
            Address::Name(name, port) => write!(f, "{name}:{port}"),
            Address::Service(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressError::Form => {
                "is not an address; write \"127.0.0.1:8080\", \"[::1]:8080\", \"*:8080\", \
                 \"unix:/path\" or \"unix:@name\""
            }
            AddressError::ServerForm => {
                "is not an address; write \"127.0.0.1:8080\", \"[::1]:8080\", \
                 \"backend.example:8080\", \"unix:/path\" or \"unix:@name\""
            }
            AddressError::ServerPort => {
                "must end with a port between 1 and 65535, as in \"backend.example:8080\"; only a \
                 service of DNS has none, as in \"_http._tcp.backend.example\""
            }
            AddressError::ServicePort => {
                "must have no port, as the records of the service (SRV) name those of its servers"
            }
            AddressError::Port => "must end with a port between 1 and 65535, as in \"*:8080\"",
            AddressError::UnixName => {
                "must have 1 to 107 bytes after \"unix:\", and no null character"
            }
        })
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_and_written_back() {
        for text in
            ["*:80", "127.0.0.1:8080", "[::1]:80", "[::]:443", "unix:/run/a b.sock", "unix:@name"]
        {
            let address = Address::parse(text).expect(text);
            assert_eq!(address.to_string(), text);
        }
        assert_eq!(Address::parse("0.0.0.0:80"), Address::parse("*:80"));
    }

    #[test]
    fn other_forms_are_refused_with_the_reason() {
        use AddressError::{Form, Port, UnixName};
        for (text, reason) in [
            ("", Form),
            ("localhost:80", Form),
            ("127.0.0.1", Port),
            ("*", Port),
            (":80", Form),
            ("*:0", Port),
            ("*:65536", Port),
            ("*:+80", Port),
            ("*:", Port),
            ("*:80x", Port),
            ("[::1]", Port),
            ("[::1]80", Port),
            ("::1", Port),
            ("[::1", Form),
            ("[fe80::1%eth0]:80", Form),
            ("256.0.0.1:80", Form),
            ("unix:", Form),
            ("unix:@", Form),
            ("unix:a\0b", UnixName),
        ] {
            assert_eq!(Address::parse(text), Err(reason), "{text}");
        }
        let longest = format!("unix:/{}", "x".repeat(106));
        assert!(Address::parse(&longest).is_ok());
        assert_eq!(Address::parse(&format!("{longest}x")), Err(UnixName));
    }

    #[test]
    fn what_people_write_for_an_address_to_listen_on_is_understood() {
        for (text, expected) in [
            ("localhost:8080", "\"127.0.0.1:8080\""),
            ("example.com:80", "\"*:80\""),
            (":8080", "\"*:8080\""),
            ("8080", "\"*:8080\""),
            ("http://127.0.0.1:8080/", "\"127.0.0.1:8080\""),
            ("https://localhost:8443", "\"127.0.0.1:8443\""),
        ] {
            let advice = Address::listen_advice(text).expect(text);
            assert!(advice.contains(expected), "{text}: {advice}");
        }
        for text in ["127.0.0.1:80", "localhost", "", ":", "a b:80", "*:0"] {
            assert_eq!(Address::listen_advice(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_may_have_a_name() {
        for (text, name, port) in [
            ("localhost:80", "localhost", 80),
            ("My_Service.Example.:8080", "my_service.example.", 8080),
            ("10.example:1", "10.example", 1),
        ] {
            let address = Address::parse_server(text).expect(text);
            assert_eq!(address, Address::Name(name.to_owned(), port));
            assert_eq!(Address::parse(text), Err(AddressError::Form), "{text}: not to listen on");
        }
        for text in ["127.0.0.1:80", "[::1]:80", "unix:/x", "unix:@x"] {
            assert_eq!(Address::parse_server(text), Address::parse(text));
        }
        for text in ["10.0.0.1", "backend.example", "host:0", "host:65536", "host:", "host:+80"] {
            assert_eq!(Address::parse_server(text), Err(AddressError::ServerPort), "{text}");
        }
    }

    #[test]
    fn a_server_may_be_a_service() {
        let address = Address::parse_server("_Http._tcp.Backend.example").unwrap();
        assert_eq!(address, Address::Service("_http._tcp.backend.example".to_owned()));
        assert_eq!(address.host_name(), Some("backend.example"));
        assert_eq!(address.to_string(), "_http._tcp.backend.example");
        for text in [
            "_http._tcp",
            "_http.tcp.a",
            "http._tcp.a",
            "_._tcp.a",
            "_http._tcp.",
            "_http._tcp.$host",
        ] {
            assert!(Address::parse_server(text).is_err(), "{text}");
        }
        // The records name the ports, so that this one would be passed over.
        assert_eq!(Address::parse_server("_http._tcp.a:80"), Err(AddressError::ServicePort));
    }

    #[test]
    fn what_a_request_could_have_a_part_in_is_no_name() {
        for text in [
            "",
            "$host:80",
            "${host}:80",
            "a$uri:80",
            "a b:80",
            "user@host:80",
            "host/path:80",
            "256.0.0.1:80",
            "1.2.3:80",
            "a..b:80",
            ".a:80",
            "unix:",
            "http://a:80",
            "host",
            "host:80/",
        ] {
            assert!(Address::parse_server(text).is_err(), "{text}");
        }
        assert!(Address::parse_server(&format!("{}:80", "a.".repeat(128))).is_err());
    }
}
