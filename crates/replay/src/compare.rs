//! In what two responses differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::Request;
use crate::client::Answer;

/// Fields that differ between servers without a meaning for clients, or with each response.
const IGNORED: &[&str] = &[
    "accept-ranges",
    "age",
    "alt-svc",
    "cache-status",
    "connection",
    "content-length",
    "date",
    "etag",
    "keep-alive",
    "server",
    "transfer-encoding",
    "vary",
    "via",
    "x-cache",
    "x-request-id",
];

/// Fields whose presence is compared, and not their value, which depends on the time.
const PRESENCE: &[&str] = &["expires", "retry-after"];

/// Marks of pages that servers make themselves.
const OWN_PAGES: [&str; 4] = [
    "<center>nginx",
    "<address>Apache",
    "Apache Server at",
    // NGINX Unit.
    "<!DOCTYPE html><title>Error ",
];

/// A request whose responses differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The request.
    pub request: Request,
    /// The host that it was for.
    pub host: String,
    /// In what the responses differ, each as a short sentence.
    pub parts: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, host, parts } = self;
        write!(f, "{} {host}{}: {}", request.method(), request.target, parts.join("; "))
    }
}

/// Returns in what status and fields differ. `host` is the one that was asked for, `scheme` the
/// scheme of both servers.
pub(crate) fn heads(old: &Answer, new: &Answer, host: &str, scheme: &str) -> Vec<String> {
    let mut parts = Vec::new();
    if old.status != new.status {
        parts.push(format!("status {} (old: {})", status(new), status(old)));
        // The fields of two statuses are not comparable.
        return parts;
    }
    let is_own = is_own_page(old);
    let (old, new) = (fields(old, host, scheme, is_own), fields(new, host, scheme, is_own));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let shown = |values: Option<&String>| match values {
            Some(value) => format!("\"{value}\""),
            None => "absent".to_owned(),
        };
        let (old, new) = (old.get(name), new.get(name));
        if old != new {
            parts.push(format!("{name} {} (old: {})", shown(new), shown(old)));
        }
    }
    parts
}

/// Returns true if bodies are comparable and differ.
pub(crate) fn is_other_body(old: &Answer, new: &Answer) -> bool {
    old.status == new.status && !is_own_page(old) && old.body != new.body
}

/// Returns true if the old server made the page itself, whose text is its own.
fn is_own_page(answer: &Answer) -> bool {
    let text = String::from_utf8_lossy(&answer.body);
    let redirects = (300..400).contains(&answer.status);
    answer.status >= 300 && (redirects || OWN_PAGES.iter().any(|mark| text.contains(mark)))
}

fn status(answer: &Answer) -> String {
    if answer.status == 0 { "closed".to_owned() } else { answer.status.to_string() }
}

/// Returns the fields that are compared, each with its values; not the kind of a page that the
/// server itself has made.
fn fields(answer: &Answer, host: &str, scheme: &str, is_own: bool) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &answer.fields {
        let name = name.as_str();
        if IGNORED.contains(&name) || is_own && name == "content-type" {
            continue;
        }
        let value = match name {
            _ if PRESENCE.contains(&name) => "present".to_owned(),
            "location" | "content-location" => relative(value, host, scheme),
            // Only Howdah names the encoding of names and passwords.
            "www-authenticate" => value.replace(", charset=\"UTF-8\"", ""),
            "content-type" => value.to_ascii_lowercase().replace(' ', ""),
            // The values are those of sessions.
            "set-cookie" => value.split('=').next().unwrap_or_default().to_owned(),
            _ => value.clone(),
        };
        all.entry(name.to_owned()).or_default().push(value);
    }
    let joined = |(name, mut values): (String, Vec<String>)| {
        values.sort();
        (name, values.join(", "))
    };
    all.into_iter().map(joined).collect()
}

/// Returns a URL of the same host and scheme as a path.
fn relative(url: &str, host: &str, scheme: &str) -> String {
    let name = |host: &str| host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let own = url.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
    if let Some(rest) = own {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if name(authority) == name(host) {
            return if target.is_empty() { "/".to_owned() } else { target.to_owned() };
        }
    }
    url.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, fields: &[(&str, &str)], body: &'static str) -> Answer {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Answer { status, fields: fields.collect(), body: body.into() }
    }

    #[test]
    fn fields_that_mean_the_same_are_equal() {
        let old = answer(
            301,
            &[
                ("location", "http://a.example:80/b"),
                ("content-type", "text/html; charset=UTF-8"),
                ("server", "nginx"),
                ("set-cookie", "a=1"),
                ("expires", "now"),
                ("www-authenticate", "Basic realm=\"a\""),
            ],
            "<center>nginx</center>",
        );
        let new = answer(
            301,
            &[
                ("location", "/b"),
                ("set-cookie", "a=2"),
                ("expires", "later"),
                ("date", "x"),
                ("www-authenticate", "Basic realm=\"a\", charset=\"UTF-8\""),
            ],
            "",
        );
        assert_eq!(heads(&old, &new, "a.example", "http"), [""; 0]);
        assert!(!is_other_body(&old, &new));
    }

    #[test]
    fn pages_of_the_servers_themselves_are_not_compared() {
        let old = answer(404, &[("content-type", "text/html")], "<center>nginx</center>");
        let new = answer(404, &[("content-type", "text/html;charset=utf-8")], "not found");
        assert_eq!(heads(&old, &new, "a", "http"), [""; 0]);
        assert!(!is_other_body(&old, &new));
        let unit = answer(404, &[], "<!DOCTYPE html><title>Error 404</title><p>Error 404.\r\n");
        assert!(!is_other_body(&unit, &new));
        let other = answer(404, &[("content-type", "text/plain")], "a page of the site");
        assert_eq!(heads(&other, &new, "a", "http").len(), 1);
        assert!(is_other_body(&other, &new));
    }

    #[test]
    fn what_differs_is_named() {
        let old = answer(200, &[("x-a", "1"), ("location", "https://a.example/")], "a");
        let new = answer(200, &[("x-b", "1"), ("location", "/")], "b");
        assert_eq!(
            heads(&old, &new, "a.example", "http"),
            [
                "location \"/\" (old: \"https://a.example/\")",
                "x-a absent (old: \"1\")",
                "x-b \"1\" (old: absent)"
            ]
        );
        assert!(is_other_body(&old, &new));
        let closed = Answer::default();
        assert_eq!(heads(&closed, &new, "a", "http"), ["status 200 (old: closed)"]);
    }
}
