//! `protocol` of a listener, and the keys of one that speaks FastCGI.

use std::net::IpAddr;

use crate::address::Address;
use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::key::{Key, Kind};
use crate::node::{Node, Object, Shown};
use crate::target::{Pass, Target};

/// Keys of listeners about their protocol.
pub(crate) const FASTCGI_KEYS: &[Key] = &[
    Key::new(
        "protocol",
        Kind::Word(&["http", "fastcgi", "tcp", "udp"]),
        "Protocol of its clients: `\"fastcgi\"` for a web server in front, as PHP-FPM speaks it; \
         `\"tcp\"` for connections whose bytes are passed on, `\"udp\"` for datagrams",
    )
    .default("\"http\"")
    .details(
        "See [Behind another web server](../behind-another-server.md) and [Streams](../stream.md)",
    ),
    Key::new(
        "allow",
        Kind::Texts,
        "Addresses of the web servers that may connect to a listener for FastCGI; connections of \
         others are closed",
    )
    .default("all")
    .details(
        "[Address patterns](routes.md#address-patterns). Required unless the address is a unix \
         socket or of the loopback interface",
    ),
    Key::new(
        "status_path",
        Kind::Text,
        "`SCRIPT_NAME` of requests over FastCGI that are answered with the status of the application",
    )
    .default("none")
    .details("As PHP-FPM's `pm.status_path`, in the same formats"),
    Key::new(
        "ping_path",
        Kind::Text,
        "`SCRIPT_NAME` of requests over FastCGI that are answered with `ping_response`",
    )
    .default("none")
    .details("As PHP-FPM's `ping.path`; 503 if the application does not run"),
    Key::new("ping_response", Kind::Text, "Text of the response to `ping_path`")
        .default("\"pong\""),
];

/// Keys of listeners that have no meaning for FastCGI.
const HTTP_KEYS: [&str; 8] = [
    "application",
    "client_ip",
    "forwarded",
    "http2",
    "limit",
    "proxy_protocol",
    "redirect_to_https",
    "tls",
];

/// A listener for web servers that pass requests over FastCGI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastCgiListener {
    /// Name of the application of type `php`.
    pub application: String,
    /// Name of its target.
    pub target: Option<String>,
    /// Addresses of the web servers that may connect; all if `None`.
    pub allow: Option<AddressPatterns>,
    /// `SCRIPT_NAME` of the status page.
    pub status_path: Option<String>,
    /// Requests for scripts have another listener, without a status page.
    pub is_status_apart: bool,
    /// `SCRIPT_NAME` of the ping page.
    pub ping_path: Option<String>,
    /// Text of the ping page.
    pub ping_response: String,
}

impl FastCgiListener {
    /// Reads the keys of a listener. `None` if its protocol is HTTP.
    pub(crate) fn read(
        object: &Object<'_>,
        address: &Address,
        pass: &Pass,
    ) -> Result<Option<FastCgiListener>, Error> {
        let protocol = object.optional("protocol");
        let is_fastcgi = match &protocol {
            None => false,
            Some(node) => match node.string()? {
                "http" | "tcp" | "udp" => false,
                "fastcgi" => true,
                _ => {
                    let message = "must be \"http\", \"fastcgi\", \"tcp\" or \"udp\"";
                    return Err(node.invalid(message));
                }
            },
        };
        if !is_fastcgi {
            let own = ["allow", "status_path", "ping_path", "ping_response"];
            return match own.into_iter().find_map(|key| object.optional(key)) {
                Some(node) => Err(node.invalid("needs \"protocol\": \"fastcgi\"")),
                None => Ok(None),
            };
        }
        if let Some(node) = HTTP_KEYS.into_iter().find_map(|key| object.optional(key)) {
            return Err(node.invalid("has no meaning with \"protocol\": \"fastcgi\""));
        }
        let node = object.required("pass")?;
        let Pass::Fixed(Target::Application { name, target }) = pass else {
            return Err(no_application(&node));
        };
        let definitions = &node.scope.definitions;
        if definitions.is_fastcgi(name) {
            let error = no_application(&node);
            return Err(error.with_hint("let the web server pass its requests there itself"));
        }
        let parts = definitions.application(name, None);
        if parts.is_some_and(|application| application.contains_key("worker")) {
            let message = format!(
                "is application \"{}\" in worker mode, which FastCGI cannot use: its web server \
                 chooses the script",
                Shown(name)
            );
            return Err(node.invalid(message));
        }
        if matches!(address, Address::Abstract(_)) {
            let error = protocol.as_ref().unwrap_or(&node).invalid(
                "needs a unix socket with a file, as every user of the machine can connect to an \
                 abstract one, and a client of FastCGI chooses the script and its settings",
            );
            return Err(error.with_hint("write the address as \"unix:/run/NAME.sock\""));
        }
        let allow = object.read("allow", AddressPatterns::read)?;
        if allow.is_none() && !is_local(address) {
            let error = protocol.as_ref().unwrap_or(&node).invalid(
                "needs \"allow\" at an address that other machines reach: a client of FastCGI \
                 chooses the script and its settings",
            );
            return Err(error.with_hint("write \"allow\": [\"ADDRESS OF THE WEB SERVER\"]"));
        }
        let path = |key| object.read(key, read_path);
        Ok(Some(FastCgiListener {
            application: name.clone(),
            target: target.clone(),
            allow,
            status_path: path("status_path")?,
            is_status_apart: false,
            ping_path: path("ping_path")?,
            ping_response: object.text("ping_response")?.unwrap_or_else(|| "pong".to_owned()),
        }))
    }
}

fn no_application(node: &Node<'_>) -> Error {
    let message = "must be an application of type \"php\" with \"protocol\": \"fastcgi\", such as \
                   \"applications/NAME\"";
    node.invalid(message)
}

fn is_local(address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        },
        Address::Abstract(_) | Address::Name(..) | Address::Service(_) => false,
    }
}

fn read_path(node: &Node<'_>) -> Result<String, Error> {
    match node.text()? {
        path if path.starts_with('/') => Ok(path.to_owned()),
        _ => Err(node.invalid("must begin with a slash")),
    }
}
