//! Caches of responses: `caches` in `/status`, and what is purged and inspected below
//! `/control/caches`.

use howdah_config::json;
use howdah_text::percent;
use serde_json::{Map, Value, json};

use crate::refusal::Refusal;

/// Maximum length in bytes of all tags of a purge.
const MAX_TAG_BYTES: usize = 64 << 10;

/// Maximum number of tags of a purge.
const MAX_TAGS: usize = 1024;

/// Maximum length of a URL.
const MAX_URL: usize = 32 << 10;

/// Counters of a cache since it was made, and its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheStatus {
    /// Its name.
    pub name: String,
    /// Numbers by their names.
    pub numbers: Vec<(&'static str, u64)>,
}

/// Stored responses that are purged: those that all of the given conditions are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CachePurge {
    /// Every response.
    pub is_all: bool,
    /// Host, as in a URL.
    pub host: Option<String>,
    /// Path and query as in a request.
    pub target: Option<String>,
    /// The target is the beginning of paths.
    pub is_prefix: bool,
    /// Responses with one of these tags.
    pub tags: Vec<String>,
    /// They become stale instead of being removed.
    pub is_soft: bool,
}

/// A URL, without scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheUrl {
    /// Host, as in the URL.
    pub host: String,
    /// Path and query as in a request.
    pub target: String,
}

impl CacheUrl {
    /// Reads `http://host/path?query` or `host/path?query`. Bytes that a request cannot have are
    /// percent-encoded, as browsers do.
    pub fn read(text: &str) -> Result<CacheUrl, Refusal> {
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

/// Reads the body of a purge.
pub(crate) fn read_purge(body: &[u8]) -> Result<CachePurge, Refusal> {
    let invalid = |detail: &str| Refusal::InvalidPurge { detail: detail.to_owned() };
    let value = json::parse(body).map_err(Refusal::InvalidJson)?;
    let Value::Object(members) = value else { return Err(invalid(GRAMMAR)) };
    let mut purge = CachePurge::default();
    let mut kinds = 0;
    for (name, value) in &members {
        match (name.as_str(), value) {
            ("all", Value::Bool(true)) => (purge.is_all, kinds) = (true, kinds + 1),
            ("host", Value::String(host)) => purge.host = Some(plain_host(host)?),
            ("url" | "prefix", Value::String(text)) => {
                let CacheUrl { host, target } = CacheUrl::read(text)?;
                kinds += 1;
                purge.is_prefix = name == "prefix";
                if purge.host.replace(host).is_some() || members.contains_key("host") {
                    return Err(invalid(GRAMMAR));
                }
                purge.target = Some(target);
            }
            ("tags", Value::String(tag)) => (purge.tags, kinds) = (vec![tag.clone()], kinds + 1),
            ("tags", Value::Array(tags)) => {
                let tags = tags.iter().map(|tag| tag.as_str().map(str::to_owned));
                purge.tags = tags.collect::<Option<_>>().ok_or_else(|| invalid(GRAMMAR))?;
                kinds += 1;
            }
            ("soft", Value::Bool(is_soft)) => purge.is_soft = *is_soft,
            _ => {
                let detail = format!("\"{name}\" is unknown or has a wrong value; {GRAMMAR}");
                return Err(Refusal::InvalidPurge { detail });
            }
        }
    }
    let has_host_alone = kinds == 0 && purge.host.is_some();
    if !has_host_alone && (kinds != 1 || purge.is_all && purge.host.is_some()) {
        return Err(invalid(GRAMMAR));
    }
    if members.contains_key("tags") {
        let length: usize = purge.tags.iter().map(String::len).sum();
        let is_tag = |tag: &String| !tag.is_empty() && !tag.contains([' ', '\t', ',']);
        if purge.tags.is_empty() || purge.tags.len() > MAX_TAGS || length > MAX_TAG_BYTES {
            return Err(invalid("\"tags\" names 1 to 1024 tags, of 64 KiB together"));
        }
        if !purge.tags.iter().all(is_tag) {
            return Err(invalid("a tag has no space and no comma; write an array of tags"));
        }
    }
    Ok(purge)
}

fn plain_host(host: &str) -> Result<String, Refusal> {
    let url = CacheUrl::read(host)?;
    match url.target == "/" && !host.contains('/') {
        true => Ok(url.host),
        false => Err(Refusal::InvalidPurge {
            detail: format!("\"{host}\" is no host; write it as example.org, or use \"prefix\""),
        }),
    }
}

const GRAMMAR: &str = "the body is an object with one of \"url\", \"prefix\", \"host\", \"tags\" and \
    \"all\": true, and perhaps \"soft\": true; \"tags\" may have a \"host\"";

/// Returns the caches by their names.
pub(crate) fn to_value(caches: &[CacheStatus]) -> Value {
    let cache = |cache: &CacheStatus| {
        let numbers = cache.numbers.iter().map(|(name, number)| (*name, *number));
        (
            cache.name.clone(),
            numbers.map(|(name, n)| (name.to_owned(), json!(n))).collect::<Map<_, _>>(),
        )
    };
    caches.iter().map(cache).map(|(name, map)| (name, map.into())).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: Value) -> Option<CachePurge> {
        read_purge(body.to_string().as_bytes()).ok()
    }

    #[test]
    fn a_purge_says_what_it_is_about_in_one_way() {
        let host = Some("a.org".to_owned());
        let expected = CachePurge { host: host.clone(), ..CachePurge::default() };
        assert_eq!(read(json!({"host": "a.org"})), Some(expected.clone()));
        let tags = vec!["a".to_owned(), "b".to_owned()];
        let tagged = CachePurge { tags, is_soft: true, ..expected.clone() };
        assert_eq!(read(json!({"tags": ["a", "b"], "host": "a.org", "soft": true})), Some(tagged));
        let url = CachePurge { target: Some("/x?y=1".into()), ..expected.clone() };
        assert_eq!(read(json!({"url": "https://a.org/x?y=1"})), Some(url.clone()));
        assert_eq!(
            read(json!({"prefix": "a.org/x?y=1"})),
            Some(CachePurge { is_prefix: true, ..url })
        );
        assert!(read(json!({"all": true})).unwrap().is_all);
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
