//! Operations on URLs and paths.

use crate::uri;

/// Schemes that make a substitution an absolute URL; true if URLs of the scheme have a query.
const SCHEMES: [(&[u8], bool); 17] = [
    (b"ajp://", true),
    (b"balancer://", true),
    (b"ftp://", false),
    (b"fcgi://", true),
    (b"gopher://", false),
    (b"http://", true),
    (b"https://", true),
    (b"h2://", true),
    (b"h2c://", true),
    (b"ldap://", false),
    (b"mailto:", true),
    (b"news:", false),
    (b"nntp://", false),
    (b"scgi://", true),
    (b"ws://", true),
    (b"wss://", true),
    (b"unix:", true),
];

/// Scheme of an absolute URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheme {
    /// Length, with the slashes behind it.
    pub length: usize,
    pub has_query: bool,
}

/// Returns the scheme of an absolute URL; `None` for paths and unknown schemes.
pub(super) fn scheme(uri: &[u8]) -> Option<Scheme> {
    if uri.first() == Some(&b'/') || uri.len() <= 5 {
        return None;
    }
    let starts = |scheme: &[u8]| {
        uri.len() >= scheme.len() && uri[..scheme.len()].eq_ignore_ascii_case(scheme)
    };
    let &(scheme, has_query) = SCHEMES.iter().find(|(scheme, _)| starts(scheme))?;
    let has_slashes = scheme == b"unix:" && uri[scheme.len()..].starts_with(b"//");
    Some(Scheme { length: scheme.len() + if has_slashes { 2 } else { 0 }, has_query })
}

/// Escapes the path of an absolute URL.
pub(super) fn escape_absolute(uri: &[u8], scheme: Scheme) -> Vec<u8> {
    let mut start = scheme.length.min(uri.len());
    if uri[..start].ends_with(b"/") {
        let Some(slash) = memchr::memchr(b'/', &uri[start..]) else { return uri.to_vec() };
        start += slash + 1;
    }
    let (prefix, path) = uri.split_at(start);
    let mut escaped = prefix.to_vec();
    if prefix.len() >= 4 && prefix[..4].eq_ignore_ascii_case(b"ldap") {
        for (index, part) in path.splitn(5, |byte| *byte == b'?').enumerate() {
            if index > 0 {
                escaped.push(b'?');
            }
            escaped.extend_from_slice(&uri::escaped(part));
        }
        return escaped;
    }
    escaped.extend_from_slice(&uri::escaped(path));
    escaped
}

/// Replaces a prefix of a path by another: `/www/a/x` with `/www/a/` and `/b` becomes `/b/x`.
/// `None` if the path does not have the prefix.
pub(super) fn replace_prefix(path: &[u8], prefix: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let rest = path.strip_prefix(prefix)?.strip_prefix(b"/")?;
    let mut replaced = replacement.to_vec();
    if replaced.last().is_some_and(|last| *last != b'/') {
        replaced.push(b'/');
    }
    replaced.extend_from_slice(rest);
    Some(replaced)
}

/// Returns true if a text has spaces or control characters.
pub(super) fn has_controls(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte <= b' ' || *byte == 127)
}
