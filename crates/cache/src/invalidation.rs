//! Targets that a response to an unsafe method makes invalid, besides that of its request (RFC
//! 9111, 4.4): those in `Location` and `Content-Location` on the same host.

use howdah_http::message::{FieldBlock, Request};

use crate::control::values;

/// Returns true for methods without effects (RFC 9110, 9.2.1; the others are registered as safe).
pub fn is_safe(method: &[u8]) -> bool {
    const SAFE: [&[u8]; 8] =
        [b"GET", b"HEAD", b"OPTIONS", b"PROPFIND", b"QUERY", b"REPORT", b"SEARCH", b"TRACE"];
    SAFE.contains(&method)
}

/// Returns the targets that a response names, in origin form; that of the request, too, if it was
/// sent in another form.
pub fn targets(request: &Request, response: &FieldBlock) -> Vec<Vec<u8>> {
    let host = request.fields.get("host").unwrap_or(&request.host);
    let base = origin_form(&request.target);
    let named = ["location", "content-location"].into_iter();
    let all = named.flat_map(|name| values(response, name));
    let found = all.filter_map(|reference| resolve(reference, host, base));
    let own = (*base != *request.target).then(|| base.to_vec());
    own.into_iter().chain(found.map(|target| without_dot_segments(&target))).collect()
}

/// Returns a target without scheme and authority.
fn origin_form(target: &[u8]) -> &[u8] {
    if target.starts_with(b"/") {
        return target;
    }
    let rest = memchr::memmem::find(target, b"://").and_then(|at| target.get(at + 3..));
    let path = rest.and_then(|rest| rest.get(memchr::memchr(b'/', rest)?..));
    path.unwrap_or(b"/")
}

/// Removes `.` and `..` from the path of a target, as clients do that follow the reference (RFC
/// 3986, 5.2.4).
fn without_dot_segments(target: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    let (path, query) = target.split_at_checked(end).unwrap_or((target, b""));
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    kept.pop();
                }
                if is_last {
                    kept.push(b"");
                }
            }
            _ => kept.push(segment),
        }
    }
    let path = kept.iter().flat_map(|segment| [&b"/"[..], segment]);
    path.chain([query]).collect::<Vec<_>>().concat()
}

/// Resolves a reference to a target on this host; `None` for another host.
fn resolve(reference: &[u8], host: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|byte| *byte == b'#').next().unwrap_or_default();
    let scheme = |scheme: &[u8]| {
        let start = reference.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| reference.get(scheme.len()..)).flatten()
    };
    let (http, https) = (scheme(b"http://"), scheme(b"https://"));
    // The port of the scheme may be left out.
    let port: &[u8] = if https.is_some() { b":443" } else { b":80" };
    if let Some(rest) = http.or(https).or_else(|| reference.strip_prefix(b"//")) {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (named, path) = rest.split_at_checked(end)?;
        let bare = |authority: &'_ [u8]| authority.strip_suffix(port).unwrap_or(authority).to_vec();
        if !bare(named).eq_ignore_ascii_case(&bare(host)) {
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
            ("../x?../y", "/x?../y"),
            ("./x/.", "/a/x/"),
            ("/x/../../y", "/y"),
            ("/x/..", "/"),
            ("//example.org:81/./x", "/x"),
        ] {
            assert_eq!(found(reference), [target], "{reference}");
        }
    }

    #[test]
    fn the_request_may_have_named_its_host() {
        let mut request = fixture::request("/a/b?c", &[("Host", "example.org")]);
        request.target = bytes::Bytes::from_static(b"http://example.org/a/b?c");
        let mut fields = FieldBlock::default();
        fields.push("Content-Location", "x");
        assert_eq!(targets(&request, &fields), [&b"/a/b?c"[..], b"/a/x"]);
        assert_eq!(origin_form(b"http://example.org"), b"/");
    }

    #[test]
    fn the_port_of_the_scheme_may_be_left_out() {
        let is_same = |reference: &str, host: &str| {
            resolve(reference.as_bytes(), host.as_bytes(), b"/").is_some()
        };
        assert!(is_same("http://a:80/x", "a") && is_same("http://a/x", "a:80"));
        assert!(is_same("https://a:443/x", "a") && is_same("https://a/", "a:443"));
        assert!(!is_same("http://a:443/x", "a") && !is_same("https://a:80/x", "a"));
        assert!(!is_same("http://a:8080/x", "a"));
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
