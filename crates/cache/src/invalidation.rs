//! Targets that a response to an unsafe method makes invalid, besides that of its request (RFC 9111,
//! 4.4): those in `Location` and `Content-Location` on the same host.

use howdah_http::message::{FieldBlock, Request};

use crate::control::values;

/// Returns true for methods that do not change anything (RFC 9110, 9.2.1).
pub fn is_safe(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
}

/// Returns the targets that a response names, in origin form.
pub fn targets(request: &Request, response: &FieldBlock) -> Vec<Vec<u8>> {
    let host = request.fields.get("host").unwrap_or(&request.host);
    let named = ["location", "content-location"].into_iter();
    let all = named.flat_map(|name| values(response, name));
    all.filter_map(|reference| resolve(reference, host, &request.target)).collect()
}

/// Resolves a reference to a target on this host; `None` for another host.
fn resolve(reference: &[u8], host: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|byte| *byte == b'#').next().unwrap_or_default();
    let scheme = |scheme: &[u8]| {
        let start = reference.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| reference.get(scheme.len()..)).flatten()
    };
    let authority = scheme(b"http://").or_else(|| scheme(b"https://"));
    if let Some(rest) = authority.or_else(|| reference.strip_prefix(b"//")) {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (named, path) = rest.split_at_checked(end)?;
        if !named.eq_ignore_ascii_case(host) {
            return None;
        }
        return Some(match path.first() {
            Some(b'/') => path.to_vec(),
            _ => [b"/", path].concat(),
        });
    }
    match reference.first()? {
        b'/' => Some(reference.to_vec()),
        b'?' => {
            let path = base.split(|byte| *byte == b'?').next()?;
            Some([path, reference].concat())
        }
        _ if reference.split(|byte| *byte == b'/').next()?.contains(&b':') => None,
        _ => {
            let path = base.split(|byte| *byte == b'?').next()?;
            let slash = path.iter().rposition(|byte| *byte == b'/')?;
            Some([path.get(..=slash)?, reference].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_http::fixture;
    use proptest::prelude::*;

    use super::*;

    fn found(reference: &str) -> Vec<String> {
        let request = fixture::request("/a/b?c", &[("Host", "example.org:81")]);
        let mut fields = FieldBlock::default();
        fields.push("Location", reference);
        let text = |target: Vec<u8>| String::from_utf8(target).unwrap();
        targets(&request, &fields).into_iter().map(text).collect()
    }

    #[test]
    fn references_to_the_same_host_are_resolved() {
        for (reference, target) in [
            ("/x?y", "/x?y"),
            ("/x#y", "/x"),
            ("http://example.org:81/x", "/x"),
            ("HTTPS://EXAMPLE.org:81", "/"),
            ("//example.org:81?z", "/?z"),
            ("x", "/a/x"),
            ("?x", "/a/b?x"),
        ] {
            assert_eq!(found(reference), [target], "{reference}");
        }
    }

    #[test]
    fn other_hosts_are_left_alone() {
        for reference in ["http://other.org/x", "http://example.org/x", "//x", "mailto:a", "#x", ""]
        {
            assert_eq!(found(reference), [""; 0], "{reference}");
        }
    }

    proptest! {
        #[test]
        fn a_target_starts_with_a_slash(reference: Vec<u8>) {
            if let Some(target) = resolve(&reference, b"example.org", b"/a") {
                prop_assert_eq!(target.first(), Some(&b'/'));
            }
        }
    }
}
