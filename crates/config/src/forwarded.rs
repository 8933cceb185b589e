//! `forwarded` and `client_ip` of a listener: header fields in which trusted proxies pass on the
//! client's address and scheme, and the host and port that it asked for.

use howdah_text::token;

use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

const SOURCE: Key = Key::new("source", Kind::Texts, "Addresses of the trusted proxies")
    .details("[Address pattern](routes.md#address-patterns) or array of them")
    .required()
    .unit();

const RECURSIVE: Key = Key::switch(
    "recursive",
    false,
    "Uses the last address in the list that is not that of a trusted proxy, instead of the last \
     address",
)
.unit();

/// `forwarded` of a listener.
pub(crate) static FORWARDED: Shape = Shape {
    name: "forwarded",
    parts: &[&[
        SOURCE,
        Key::new(
            "client_ip",
            Kind::Text,
            "Field with the client's address or a list of addresses, such as `X-Forwarded-For`",
        )
        .default("none")
        .unit(),
        Key::new("protocol", Kind::Text, "Field with the scheme, such as `X-Forwarded-Proto`")
            .default("none")
            .unit(),
        Key::new(
            "host",
            Kind::Text,
            "Field with the host that the client asked for, such as `X-Forwarded-Host`",
        )
        .default("none")
        .details(
            "Routes, redirects and `SERVER_NAME` then have this host; the field `Host` stays as it \
                 is. A port in it, or else that of the scheme, counts if there is no `port`",
        ),
        Key::new(
            "port",
            Kind::Text,
            "Field with the port that the client used, such as `X-Forwarded-Port`",
        )
        .default("none")
        .details(
            "For `SERVER_PORT` and `$server_port`. At least one of `client_ip`, `protocol`, \
                 `host` and `port` is required",
        ),
        RECURSIVE,
    ]],
};

/// `client_ip` of a listener.
pub(crate) static CLIENT_IP: Shape = Shape {
    name: "client_ip",
    parts: &[&[
        Key::new(
            "header",
            Kind::Text,
            "Field with the client's address or a list of addresses, such as `X-Forwarded-For`",
        )
        .required()
        .unit(),
        SOURCE,
        RECURSIVE,
    ]],
};

/// Trusted proxies and the header fields that they set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Addresses of the trusted proxies.
    pub source: AddressPatterns,
    /// The field with the client's address, or a list of addresses.
    pub client_ip: Option<String>,
    /// The field with the scheme that the client used.
    pub protocol: Option<String>,
    /// The field with the host that the client asked for.
    pub host: Option<String>,
    /// The field with the port that the client used.
    pub port: Option<String>,
    /// True if trusted proxies at the end of the list are skipped; otherwise the last address
    /// counts.
    pub recursive: bool,
}

impl Forwarded {
    /// Reads `forwarded`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Forwarded, Error> {
        let object = node.object(&FORWARDED)?;
        let forwarded = Forwarded {
            client_ip: object.read("client_ip", read_field)?,
            protocol: object.read("protocol", read_field)?,
            host: object.read("host", read_field)?,
            port: object.read("port", read_field)?,
            source: AddressPatterns::read(&object.required("source")?)?,
            recursive: object.switch("recursive")?,
        };
        let Forwarded { client_ip, protocol, host, port, .. } = &forwarded;
        if [client_ip, protocol, host, port].into_iter().all(Option::is_none) {
            return Err(object.missing(&["client_ip", "protocol", "host", "port"]));
        }
        object.end()?;
        Ok(forwarded)
    }

    /// Reads `client_ip`, Unit's older form.
    pub(crate) fn read_client_ip(node: &Node<'_>) -> Result<Forwarded, Error> {
        let object = node.object(&CLIENT_IP)?;
        let forwarded = Forwarded {
            client_ip: Some(read_field(&object.required("header")?)?),
            protocol: None,
            host: None,
            port: None,
            source: AddressPatterns::read(&object.required("source")?)?,
            recursive: object.switch("recursive")?,
        };
        object.end()?;
        Ok(forwarded)
    }
}

fn read_field(node: &Node<'_>) -> Result<String, Error> {
    let name = node.string()?;
    if token::is_token(name) {
        Ok(name.to_owned())
    } else {
        Err(node.invalid(
            "must be the name of \
        a header field",
        ))
    }
}
