//! `listen`: addresses and their options.

use super::reader::Directive;
use crate::{Error, Report, Status};

/// An address that a server listens at.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address: an IPv4 address or `*`, an IPv6 address in brackets, or `unix:` and a path.
    pub host: String,
    /// The port; 0 for a unix socket.
    pub port: u16,
    /// The server is that of other names.
    pub is_default: bool,
    /// With TLS.
    pub is_tls: bool,
    /// HTTP/2.
    pub is_http2: bool,
    /// Connections begin with a header of the PROXY protocol.
    pub is_proxied: bool,
    /// Length of the queue of the kernel.
    pub backlog: Option<i64>,
    /// The address is one of IPv6 that takes connections of IPv4 too.
    pub is_dual: bool,
}

impl Listen {
    /// The address of a server without `listen`.
    pub fn default_address() -> Self {
        Self::at("*", 80)
    }

    fn at(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            is_default: false,
            is_tls: false,
            is_http2: false,
            is_proxied: false,
            backlog: None,
            is_dual: false,
        }
    }

    /// Returns the key of a listener.
    pub fn key(&self) -> String {
        if self.host.starts_with("unix:") {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns true if it takes connections of all addresses of its kind.
    pub fn is_wildcard(&self) -> bool {
        self.host == "*" || self.host == "[::]"
    }

    /// Reads a directive. `None` if there is no such address.
    pub fn read(directive: &Directive, report: &mut Report) -> Result<Option<Self>, Error> {
        let text = directive.arg(0);
        let mut listen = match address(text) {
            Ok(Some((host, port))) => Self::at(&host, port),
            Ok(None) => {
                report.mark(
                    directive.id,
                    Status::NotConverted,
                    "the address has a name, and no name is looked up; nothing listens there",
                );
                return Ok(None);
            }
            Err(message) => return Err(directive.error(message)),
        };
        let mut problem = None;
        for arg in directive.args.iter().skip(1) {
            match arg.split_once('=').unwrap_or((arg, "")) {
                ("default_server" | "default", "") => listen.is_default = true,
                ("ssl", "") => listen.is_tls = true,
                ("http2", "") => listen.is_http2 = true,
                ("proxy_protocol", "") => listen.is_proxied = true,
                ("backlog", number) => match number.parse::<i64>() {
                    Ok(number) if number >= -1 => listen.backlog = Some(number),
                    _ => return Err(directive.error(format!("\"{arg}\" is no backlog"))),
                },
                ("ipv6only", "off") => listen.is_dual = listen.host.starts_with('['),
                ("ipv6only", "on") | ("reuseport" | "bind" | "deferred" | "spdy", "") => {}
                (
                    "fastopen" | "rcvbuf" | "sndbuf" | "so_keepalive" | "setfib" | "accept_filter",
                    _,
                ) => {}
                ("quic", "") => problem = Some("there is no HTTP/3"),
                _ => return Err(directive.error(format!("\"{arg}\" is no option of \"listen\""))),
            }
        }
        if let Some(problem) = problem {
            report.mark(directive.id, Status::NotConverted, problem);
            return Ok(None);
        }
        report.converted(directive.id);
        Ok(Some(listen))
    }
}

/// Reads an address; `None` if it has a name.
fn address(text: &str) -> Result<Option<(String, u16)>, String> {
    let invalid = || format!("\"{text}\" is no address");
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.is_empty() { Err(invalid()) } else { Ok(Some((text.to_owned(), 0))) };
    }
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(invalid);
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(invalid)?;
        let host: std::net::Ipv6Addr = host.parse().map_err(|_| invalid())?;
        let port = match rest.strip_prefix(':') {
            Some(text) => port(text)?,
            None if rest.is_empty() => 80,
            None => return Err(invalid()),
        };
        return Ok(Some((format!("[{host}]"), port)));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Some(("*".to_owned(), port(text)?)));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, text)) => (host, port(text)?),
        None => (text, 80),
    };
    match host {
        "*" | "0.0.0.0" => Ok(Some(("*".to_owned(), port))),
        "localhost" => Ok(Some(("127.0.0.1".to_owned(), port))),
        _ if host.parse::<std::net::Ipv4Addr>().is_ok() => Ok(Some((host.to_owned(), port))),
        _ if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => Err(invalid()),
        _ if host.is_empty() || host.contains(['/', ' ', '$']) => Err(invalid()),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_nginx() {
        let read = |text: &str| address(text).unwrap().unwrap();
        assert_eq!(read("80"), ("*".to_owned(), 80));
        assert_eq!(read("127.0.0.1"), ("127.0.0.1".to_owned(), 80));
        assert_eq!(read("[::]:443"), ("[::]".to_owned(), 443));
        assert_eq!(read("*:8080"), ("*".to_owned(), 8080));
        assert_eq!(read("unix:/run/x.sock"), ("unix:/run/x.sock".to_owned(), 0));
        assert_eq!(address("example.org:80").unwrap(), None);
        assert!(address("99999").is_err());
        assert!(address("300.0.0.1.1:80").is_err());
    }
}
