//! `forwarded` and `client_ip` of a listener: header fields in which trusted proxies pass on the
//! client's address and scheme.

use howdah_text::token;

use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::node::Node;

/// Trusted proxies and the header fields that they set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Addresses of the trusted proxies.
    pub source: AddressPatterns,
    /// The field with the client's address, or a list of addresses.
    pub client_ip: Option<String>,
    /// The field with the scheme that the client used.
    pub protocol: Option<String>,
    /// True if trusted proxies at the end of the list are skipped; otherwise the last address
    /// counts.
    pub recursive: bool,
}

impl Forwarded {
    /// Reads `forwarded`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Forwarded, Error> {
        let object = node.object()?;
        let forwarded = Forwarded {
            client_ip: object.read("client_ip", read_field)?,
            protocol: object.read("protocol", read_field)?,
            source: AddressPatterns::read(&object.required("source")?)?,
            recursive: object.boolean("recursive")?.unwrap_or(false),
        };
        if forwarded.client_ip.is_none() && forwarded.protocol.is_none() {
            return Err(object.missing(&["client_ip", "protocol"]));
        }
        object.end()?;
        Ok(forwarded)
    }

    /// Reads `client_ip`, Unit's older form.
    pub(crate) fn read_client_ip(node: &Node<'_>) -> Result<Forwarded, Error> {
        let object = node.object()?;
        let forwarded = Forwarded {
            client_ip: Some(read_field(&object.required("header")?)?),
            protocol: None,
            source: AddressPatterns::read(&object.required("source")?)?,
            recursive: object.boolean("recursive")?.unwrap_or(false),
        };
        object.end()?;
        Ok(forwarded)
    }
}

fn read_field(node: &Node<'_>) -> Result<String, Error> {
    let name = node.string()?;
    match token::is_token(name) {
        true => Ok(name.to_owned()),
        false => Err(node.invalid("must be the name of a header field")),
    }
}
