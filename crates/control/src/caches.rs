//! Reads the subjects of purges and inspections below `/control/caches`.

use howdah_config::json;
use howdah_http::authority;
use howdah_http::target::Target;
use howdah_questions::{Purge, Question};
use howdah_text::percent;
use serde_json::Value;

use crate::refusal::Refusal;

/// Grammar of the body of a purge.
const GRAMMAR: &str = "the body is an object with one of \"url\", \"prefix\", \"host\", \"tags\" \
    and \"all\": true, and perhaps \"soft\": true; \"tags\" may have a \"host\"";

/// Maximum length in bytes of all tags of a purge.
const MAX_TAG_BYTES: usize = 64 << 10;

/// Maximum number of tags of a purge.
const MAX_TAGS: usize = 1024;

/// Maximum length of a URL.
const MAX_URL: usize = 32 << 10;

/// A URL, without scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CacheUrl {
    /// Host, as in the URL.
    host: String,
    /// Path and query as in a request.
    target: String,
}

impl CacheUrl {
    /// Reads `http://host/path?query` or `host/path?query`. Bytes that a request cannot have are
    /// percent-encoded, as browsers do.
    pub(crate) fn read(text: &str) -> Result<CacheUrl, Refusal> {
        let invalid = |why: &str| Refusal::InvalidPurge {
            detail: format!("\"{text}\" is no URL: {why}; write it as https://example.org/page"),
        };
        if text.len() > MAX_URL {
            return Err(Refusal::InvalidPurge {
                detail: format!("a URL has at most {MAX_URL} bytes"),
            });
        }
        let rest = match text.split_once("://") {
            Some(("http" | "https", rest)) => rest,
            Some((scheme, _)) if !scheme.contains('/') => {
                return Err(invalid("its scheme is neither http nor https"));
            }
            _ => text,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if host.is_empty() {
            return Err(invalid("it has no host"));
        }
        if !host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@') {
            return Err(invalid("its host is not in ASCII (xn--…), or has a user"));
        }
        let mut encoded = String::from(if target.starts_with('/') { "" } else { "/" });
        percent::encode_text(target.as_bytes(), |byte| byte.is_ascii_graphic(), &mut encoded);
        Ok(CacheUrl { host: host.to_owned(), target: encoded })
    }
}

impl CacheUrl {
    /// Returns the host in lower case without port, as requests are stored under it.
    fn plain_host(&self) -> Result<Vec<u8>, Refusal> {
        let range = authority::host(self.host.as_bytes(), true).filter(|range| !range.is_empty());
        let host = range.and_then(|range| self.host.get(range));
        let no_host = || invalid(format!("\"{}\" is no host", self.host));
        Ok(host.ok_or_else(no_host)?.to_ascii_lowercase().into_bytes())
    }

    /// Returns the decoded path, and the query.
    fn path_and_query(&self) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
        let target = self.target.as_bytes();
        let parsed = Target::parse(target).map_err(|error| invalid(error.reason()))?;
        let query = target.get(parsed.query.clone()).unwrap_or_default().to_vec();
        Ok((parsed.path(target).to_vec(), query))
    }
}

/// Reads the URL of an inspection.
pub(crate) fn read_inspection(cache: Option<String>, url: &str) -> Result<Question, Refusal> {
    let url = CacheUrl::read(url)?;
    let (path, query) = url.path_and_query()?;
    Ok(Question::InspectCaches { cache, host: url.plain_host()?, path, query })
}

/// Reads the body of a purge.
pub(crate) fn read_purge(cache: Option<String>, body: &[u8]) -> Result<Question, Refusal> {
    let value = json::parse(body).map_err(Refusal::InvalidJson)?;
    let Value::Object(members) = value else { return Err(invalid(GRAMMAR)) };
    let (mut purge, mut host, mut is_soft) = (None, None, false);
    for (name, value) in &members {
        let found = match (name.as_str(), value) {
            ("all", Value::Bool(true)) => Purge::All,
            ("host", Value::String(text)) => {
                host = Some(host_alone(text)?);
                continue;
            }
            ("url", Value::String(text)) => {
                let url = CacheUrl::read(text)?;
                let (path, query) = url.path_and_query()?;
                Purge::Url { host: url.plain_host()?, path, query }
            }
            ("prefix", Value::String(text)) => {
                let url = CacheUrl::read(text)?;
                Purge::Prefix { host: Some(url.plain_host()?), path: url.path_and_query()?.0 }
            }
            ("tags", value) if value.is_string() || value.is_array() => {
                Purge::Tags { host: None, tags: read_tags(value)? }
            }
            ("soft", Value::Bool(value)) => {
                is_soft = *value;
                continue;
            }
            _ => {
                let detail = format!("\"{name}\" is unknown or has a wrong value; {GRAMMAR}");
                return Err(invalid(detail));
            }
        };
        if purge.replace(found).is_some() {
            return Err(invalid(GRAMMAR));
        }
    }
    let purge = match (purge, host) {
        (Some(Purge::Tags { tags, .. }), host) => Purge::Tags { host, tags },
        (Some(purge), None) => purge,
        (None, Some(host)) => Purge::Host(host),
        (None, None) | (Some(_), Some(_)) => return Err(invalid(GRAMMAR)),
    };
    Ok(Question::PurgeCaches { cache, purge, is_soft })
}

/// Reads the tags of a purge.
fn read_tags(value: &Value) -> Result<Vec<Vec<u8>>, Refusal> {
    let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let tags: Option<Vec<&str>> = values.iter().map(Value::as_str).collect();
    let tags = tags.ok_or_else(|| invalid(GRAMMAR))?;
    let length: usize = tags.iter().map(|tag| tag.len()).sum();
    if tags.is_empty() || tags.len() > MAX_TAGS || length > MAX_TAG_BYTES {
        return Err(invalid("\"tags\" names 1 to 1024 tags, of 64 KiB together"));
    }
    if tags.iter().any(|tag| tag.is_empty() || tag.contains([' ', '\t', ','])) {
        return Err(invalid("a tag has no space and no comma; write an array of tags"));
    }
    Ok(tags.into_iter().map(|tag| tag.as_bytes().to_vec()).collect())
}

/// Reads a host without a path.
fn host_alone(text: &str) -> Result<Vec<u8>, Refusal> {
    let url = CacheUrl::read(text)?;
    if url.target != "/" || text.contains('/') {
        let advice = "write it as example.org, or use \"prefix\"";
        return Err(invalid(format!("\"{text}\" is no host; {advice}")));
    }
    url.plain_host()
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal::InvalidPurge { detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Option<(Purge, bool)> {
        match read_purge(None, body.to_string().as_bytes()) {
            Ok(Question::PurgeCaches { purge, is_soft, .. }) => Some((purge, is_soft)),
            _ => None,
        }
    }

    fn host() -> Vec<u8> {
        b"a.org".to_vec()
    }

    #[test]
    fn a_purge_says_what_it_is_about_in_one_way() {
        let hard = |purge| Some((purge, false));
        assert_eq!(read(json!({"host": "A.org.:8080"})), hard(Purge::Host(host())));
        let tags = vec![b"a".to_vec(), b"b".to_vec()];
        let tagged = Purge::Tags { host: Some(host()), tags };
        let body = json!({"tags": ["a", "b"], "host": "a.org", "soft": true});
        assert_eq!(read(body), Some((tagged, true)));
        let tagged = Purge::Tags { host: None, tags: vec![b"a".to_vec()] };
        assert_eq!(read(json!({"tags": "a"})), hard(tagged));
        let url = |path: &[u8], query: &[u8]| {
            hard(Purge::Url { host: host(), path: path.to_vec(), query: query.to_vec() })
        };
        assert_eq!(read(json!({"url": "https://a.org/x?y=1"})), url(b"/x", b"y=1"));
        let encoded = json!({"url": "a.org/c/../%61%20b?x=%20"});
        assert_eq!(read(encoded), url(b"/a b", b"x=%20"));
        let prefix = Purge::Prefix { host: Some(host()), path: b"/blog/".to_vec() };
        assert_eq!(read(json!({"prefix": "a.org/blog/?y=1"})), hard(prefix));
        assert_eq!(read(json!({"all": true})), hard(Purge::All));
        for wrong in [
            json!({}),
            json!([]),
            json!({"all": false}),
            json!({"all": true, "host": "a.org"}),
            json!({"all": true, "tags": "a"}),
            json!({"soft": true}),
            json!({"tags": []}),
            json!({"tags": ["a b"]}),
            json!({"tags": "a,b"}),
            json!({"tags": vec!["a"; 2000]}),
            json!({"tags": "a".repeat(70_000)}),
            json!({"tags": [1]}),
            json!({"url": "a.org/", "host": "a.org"}),
            json!({"host": "a.org", "url": "a.org/"}),
            json!({"url": "/x"}),
            json!({"url": "ftp://a.org/x"}),
            json!({"url": "a@b.org/x"}),
            json!({"host": "a.org/x"}),
            json!({"urls": "a.org/"}),
            json!({"url": "a.org/%0"}),
            json!({"prefix": "a.org/.."}),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn urls_are_encoded_as_browsers_do() {
        for (text, host, target) in [
            ("https://a.org:8443", "a.org:8443", "/"),
            ("a.org?x", "a.org", "/?x"),
            ("http://a.org/ü b#c", "a.org", "/%C3%BC%20b"),
            ("a.org/x?u=http://b.org/", "a.org", "/x?u=http://b.org/"),
            ("[::1]:80/x", "[::1]:80", "/x"),
        ] {
            let expected = CacheUrl { host: host.into(), target: target.into() };
            assert_eq!(CacheUrl::read(text), Ok(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_target_has_only_visible_characters(text: String) {
            if let Ok(url) = CacheUrl::read(&text) {
                prop_assert!(url.target.starts_with('/'));
                prop_assert!(url.target.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(!url.host.is_empty() && url.host.is_ascii());
            }
        }
    }
}
