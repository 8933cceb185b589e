//! Host names in `tls`: names of certificates and of servers.

use crate::error::Error;
use crate::node::{Node, Shown};

/// Reads a host name or a wildcard (`*.` and a host name), in lower case.
pub(super) fn read_name(node: &Node<'_>) -> Result<String, Error> {
    let name = node.text()?;
    read_host(node, name.strip_prefix("*.").unwrap_or(name))?;
    Ok(name.to_ascii_lowercase())
}

/// Checks that the node, or the part of it that is not a wildcard, is a host name.
pub(crate) fn read_host(node: &Node<'_>, host: &str) -> Result<(), Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if host.bytes().all(fits) && !host.starts_with('.') && !host.ends_with('.') && !host.is_empty()
    {
        return Ok(());
    }
    let message =
        format!("must be a host name such as \"example.org\", but is \"{}\"", Shown(node.text()?));
    let error = node.invalid(message);
    Err(if !host.is_ascii() {
        error.with_hint("write its form of ASCII letters (xn--…), which the command idn2 prints")
    } else if host.contains([':', '/']) {
        error.with_hint("write it without a scheme, a port and a path")
    } else {
        error
    })
}
