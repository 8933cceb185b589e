//! Requests of clients to purge: the methods `PURGE` and `BAN`, as plug-ins for Varnish, Fastly,
//! nginx and Squid send them. Only entries of the request's host are concerned.

use howdah_http::message::Request;

use crate::place::{MAX_TAGS, Place, split_tags};
use crate::purge::Purge;

/// A purge that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// The entries to purge.
    pub what: Purge,
    /// Entries become stale instead of being removed.
    pub is_soft: bool,
}

/// Fields with tags, and whether commas separate them, beside spaces and `|`.
const TAG_FIELDS: [(&str, bool); 10] = [
    ("surrogate-key", true),
    ("xkey", true),
    ("xkey-purge", true),
    ("xkey-softpurge", true),
    ("cache-tag", true),
    ("cache-tags", true),
    ("x-cache-tags", true),
    ("x-litespeed-tag", true),
    ("x-litespeed-purge", true),
    ("purge-cache-tags", true),
];

/// Returns true for the methods that purge.
pub fn is_purge(method: &[u8]) -> bool {
    matches!(method, b"PURGE" | b"BAN")
}

/// Reads a request. Error: the mistake in it.
///
/// With a field of tags, entries with one of the tags are purged. Otherwise the entry of the URL
/// is, with `BAN` and at the end of the path `*` or `.*` (also with `X-Purge-Method: regex`, as
/// WordPress plug-ins send) all entries whose path begins so, and for `/*` those of the host.
pub fn read(request: &Request) -> Result<PurgeRequest, &'static str> {
    let fields = &request.fields;
    let is_one = |name| fields.get(name).is_some_and(|value| value == b"1");
    let is_soft = is_one("fastly-soft-purge")
        || is_one("x-purge-soft")
        || fields.get("xkey-softpurge").is_some();
    let host = request.host.to_vec();
    let mut tags = Vec::new();
    let mut has_tags = false;
    for (name, has_commas) in TAG_FIELDS {
        for value in fields.get_all(name) {
            has_tags = true;
            value.split(|byte| *byte == b'|').for_each(|part| {
                split_tags(part, has_commas, &mut tags);
            });
        }
    }
    if has_tags {
        if tags.is_empty() || tags.len() > MAX_TAGS {
            return Err("name between 1 and 1024 tags");
        }
        return Ok(PurgeRequest { what: Purge::Tags { host: Some(host), tags }, is_soft });
    }
    let place = Place::of(request);
    let is_pattern = &*request.method == b"BAN"
        || fields.get("x-purge-method").is_some_and(|value| value.eq_ignore_ascii_case(b"regex"));
    let path = place.path();
    let start = path.strip_suffix(b".*").or_else(|| path.strip_suffix(b"*"));
    let what = match start {
        Some(b"/" | b"") => Purge::Host(host),
        Some(start) if start.iter().any(|byte| b"*()[]^$|\\".contains(byte)) => {
            return Err("a pattern may only have * at its end");
        }
        Some(start) => Purge::Prefix { host: Some(host), path: start.to_vec() },
        None if is_pattern && path.iter().any(|byte| b"*()[]^$|\\".contains(byte)) => {
            return Err("a pattern may only have * at its end");
        }
        None => Purge::Url { host, path: path.to_vec(), query: place.query.to_vec() },
    };
    Ok(PurgeRequest { what, is_soft })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use howdah_http::fixture;

    use super::*;

    fn asked(method: &'static str, target: &str, fields: &[(&str, &str)]) -> Request {
        let mut request = fixture::request(target, fields);
        request.method = Bytes::from_static(method.as_bytes());
        request
    }

    fn what(method: &'static str, target: &str, fields: &[(&str, &str)]) -> Option<Purge> {
        read(&asked(method, target, fields)).ok().map(|request| request.what)
    }

    fn host() -> Vec<u8> {
        b"example.org".to_vec()
    }

    #[test]
    fn a_url_is_purged_with_its_query() {
        let url = |path: &[u8], query: &[u8]| {
            Some(Purge::Url { host: host(), path: path.into(), query: query.into() })
        };
        assert_eq!(what("PURGE", "/%61?b=1", &[]), url(b"/a", b"b=1"));
        assert_eq!(what("BAN", "/a", &[]), url(b"/a", b""));
    }

    #[test]
    fn a_star_at_the_end_purges_all_that_begins_so() {
        let prefix = Some(Purge::Prefix { host: Some(host()), path: b"/blog/".into() });
        assert_eq!(what("PURGE", "/blog/*", &[]), prefix);
        assert_eq!(what("BAN", "/blog/.*", &[]), prefix);
        let regex = [("X-Purge-Method", "regex")];
        assert_eq!(what("PURGE", "/.*", &regex), Some(Purge::Host(host())));
        assert_eq!(what("PURGE", "/a(b|c).*", &regex), None);
        assert_eq!(what("BAN", "/a[bc]", &[]), None);
    }

    #[test]
    fn fields_name_tags() {
        let tags = |tags: &[&str]| {
            let tags = tags.iter().map(|tag| tag.as_bytes().to_vec()).collect();
            Some(Purge::Tags { host: Some(host()), tags })
        };
        assert_eq!(what("PURGE", "/", &[("Surrogate-Key", "a b")]), tags(&["a", "b"]));
        assert_eq!(what("BAN", "/", &[("Cache-Tags", "a|b,c")]), tags(&["a", "b", "c"]));
        assert_eq!(what("PURGE", "/", &[("xkey", "")]), None);
        assert_eq!(what("PURGE", "/", &[("xkey", &"a,b,".repeat(600))]), None);
        let soft = |fields: &[(&str, &str)]| read(&asked("PURGE", "/", fields)).unwrap().is_soft;
        assert!(soft(&[("xkey-softpurge", "a")]) && soft(&[("Fastly-Soft-Purge", "1")]));
        assert!(!soft(&[]));
    }
}
