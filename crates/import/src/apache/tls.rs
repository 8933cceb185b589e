//! TLS of a listener, by the directives of its hosts.

use serde_json::{Map, Value, json};

use crate::{Report, Status};

use super::scope::mark;
use super::tree::Node;

/// Returns true if the directives turn TLS on.
pub fn is_on(nodes: &[&Node]) -> bool {
    let last = nodes.iter().rev().find(|node| node.name == "sslengine");
    last.is_some_and(|node| node.first().eq_ignore_ascii_case("on"))
}

/// The TLS of a host.
#[derive(Debug, Default)]
pub struct Tls {
    pub certificates: Vec<Value>,
    pub commands: Map<String, Value>,
    pub client: Option<Value>,
    /// Certificates of clients are required, and nothing says which ones.
    pub is_closed: bool,
}

/// Reads the directives of a host, and marks them.
pub fn of_host(nodes: &[&Node], server_root: &str, report: &mut Report) -> Tls {
    let mut tls = Tls::default();
    let absolute = |path: String| {
        if path.starts_with('/') { path } else { format!("{server_root}/{path}") }
    };
    let mut files = Vec::new();
    let mut keys = Vec::new();
    let (mut authorities, mut verify, mut lists) = (None, None, None);
    for node in nodes {
        let value = node.first();
        match node.name.as_str() {
            "sslcertificatefile" => files.push(absolute(value)),
            "sslcertificatekeyfile" => keys.push(absolute(value)),
            "sslcacertificatefile" => authorities = Some(absolute(value)),
            "sslverifyclient" => verify = Some(value.to_ascii_lowercase()),
            "sslcarevocationfile" => lists = Some(absolute(value)),
            "sslprotocol" => {
                if let Some((lowest, highest)) = versions(&node.words()) {
                    tls.commands.insert("MinProtocol".into(), lowest.into());
                    if let Some(highest) = highest {
                        tls.commands.insert("MaxProtocol".into(), highest.into());
                    }
                }
            }
            _ => {}
        }
        if let Some((status, reason)) = status(node) {
            match node.id {
                Some(id) if status == Status::Converted => report.converted(id),
                _ => mark(report, node, status, reason),
            }
        }
    }
    for (index, file) in files.iter().enumerate() {
        let key = keys.get(index).or(keys.last()).unwrap_or(file);
        tls.certificates.push(json!({ "chain": file, "key": key }));
    }
    if let Some(verify) = verify.filter(|verify| verify != "none") {
        let mut rule = Map::new();
        tls.is_closed = authorities.is_none();
        if let Some(authorities) = authorities {
            rule.insert("authorities".into(), authorities.into());
        }
        if verify != "require" {
            rule.insert("optional".into(), true.into());
        }
        if let Some(lists) = lists {
            rule.insert("revoked".into(), lists.into());
        }
        tls.client = (!tls.is_closed).then(|| rule.into());
    }
    tls
}

/// Returns the status of a directive of mod_ssl.
fn status(node: &Node) -> Option<(Status, &'static str)> {
    let first = node.first().to_ascii_lowercase();
    Some(match node.name.as_str() {
        "sslengine" if first == "optional" => {
            (Status::NotConverted, "a connection is not changed to TLS by a request")
        }
        "sslengine" | "sslcertificatefile" | "sslcertificatekeyfile" => (Status::Converted, ""),
        "sslcacertificatefile" | "sslcarevocationfile" => (Status::Converted, ""),
        "sslcertificatechainfile" => {
            (Status::Changed, "the chain must be in the file of the certificate: append it there")
        }
        "sslverifyclient" => match first.as_str() {
            "none" | "require" | "optional" => (Status::Converted, ""),
            _ => (Status::Changed, "a certificate that is sent must be valid"),
        },
        "sslverifydepth" => (Status::NotNeeded, "chains of certificates have a limit of their own"),
        "sslprotocol" => (Status::Changed, "TLS 1.2 and TLS 1.3 are offered, and no older version"),
        "sslciphersuite" | "sslopensslconfcmd" | "sslhonorcipherorder" => {
            (Status::Changed, "the TLS library has a list of its own, with safe ciphers alone")
        }
        "sslsessiontickets" => (Status::Changed, "sessions are resumed by tickets that change"),
        "sslcacertificatepath"
        | "sslcarevocationpath"
        | "sslcadnrequestfile"
        | "sslcadnrequestpath" => {
            (Status::NotConverted, "authorities are in one file (SSLCACertificateFile)")
        }
        "sslcarevocationcheck" => (Status::NotNeeded, "lists are used if there are any"),
        "sslstrictsnivhostcheck" => (
            if first == "on" { Status::Changed } else { Status::NotNeeded },
            "clients without a server name get the first certificate",
        ),
        _ => return None,
    })
}

/// Returns the lowest and, if it is not the newest, the highest version of `SSLProtocol`.
fn versions(words: &[String]) -> Option<(&'static str, Option<&'static str>)> {
    let (mut has_2, mut has_3) = (true, true);
    for word in words {
        let word = word.to_ascii_lowercase();
        let (sign, name) = match word.split_at_checked(1) {
            Some((sign @ ("+" | "-"), name)) => (sign, name),
            _ => ("", word.as_str()),
        };
        let is_on = sign != "-";
        match name {
            "all" => (has_2, has_3) = (is_on, is_on),
            "tlsv1.2" if sign.is_empty() => (has_2, has_3) = (true, false),
            "tlsv1.3" if sign.is_empty() => (has_2, has_3) = (false, true),
            "tlsv1.2" => has_2 = is_on,
            "tlsv1.3" => has_3 = is_on,
            _ => {}
        }
    }
    match (has_2, has_3) {
        (true, true) => None,
        (true, false) => Some(("TLSv1.2", Some("TLSv1.2"))),
        (false, true) => Some(("TLSv1.3", None)),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_that_are_left() {
        let of = |text: &str| versions(&super::super::words::all(text));
        assert_eq!(of("all -SSLv3 -TLSv1 -TLSv1.1"), None);
        assert_eq!(of("all -SSLv3 -TLSv1 -TLSv1.1 -TLSv1.2"), Some(("TLSv1.3", None)));
        assert_eq!(of("TLSv1.2 TLSv1.3"), Some(("TLSv1.3", None)));
        assert_eq!(of("-all +TLSv1.2 +TLSv1.3"), None);
        assert_eq!(of("TLSv1.2"), Some(("TLSv1.2", Some("TLSv1.2"))));
    }
}
