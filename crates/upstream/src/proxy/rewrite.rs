//! Changes to the head of a response: locations that name the server's address, and the domains,
//! paths and flags of cookies.
//!
//! A location at the server's own address becomes one without a host, so that the client stays with
//! the router. It can never become one that names another host.

use howdah_config::{self as config, Address, CookieFlags, Replacement, Substitution};
use howdah_http::message::{FieldBlock, Response};
use howdah_http::variables::VariableSource;

use super::field_value::plain;

/// Changes the fields of a response from the server at `address`.
pub fn apply(
    upstream: &config::Upstream,
    address: &Address,
    source: &VariableSource<'_>,
    response: &mut Response,
) {
    let cookies = !upstream.cookie_domain.is_empty()
        || !upstream.cookie_path.is_empty()
        || !upstream.cookie_flags.is_empty();
    let kind = |name: &[u8]| Kind::of(name, cookies, upstream.rewrite_location.is_some());
    if !response.fields.iter().any(|(name, _)| kind(name).is_some()) {
        return;
    }
    let host = upstream.host.as_ref().map(|host| plain(&source.expand(host)));
    let hosts = Hosts::new(address, host);
    let locations = upstream.rewrite_location.as_deref().unwrap_or_default();
    let mut lines = Vec::with_capacity(response.fields.as_bytes().len() + 64);
    for (name, value) in response.fields.iter() {
        let changed = match kind(name) {
            None => None,
            Some(Kind::Location) => location(value, locations, &hosts, source),
            Some(Kind::Refresh) => refresh(value, locations, &hosts, source),
            Some(Kind::Cookie) => {
                let changed = cookie(value, upstream, source);
                Some(flagged(&changed, &upstream.cookie_flags).unwrap_or(changed))
            }
        };
        for part in [name, b": ", changed.as_deref().unwrap_or(value), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    response.fields = FieldBlock::from_lines(lines.into());
}

/// Kind of value in a field that may be changed.
#[derive(Clone, Copy)]
enum Kind {
    Location,
    Refresh,
    Cookie,
}

impl Kind {
    fn of(name: &[u8], cookies: bool, locations: bool) -> Option<Kind> {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        match name.first() {
            Some(b's' | b'S') if cookies && is(b"set-cookie") => Some(Kind::Cookie),
            Some(b'l' | b'L') if locations && is(b"location") => Some(Kind::Location),
            Some(b'c' | b'C') if locations && is(b"content-location") => Some(Kind::Location),
            Some(b'r' | b'R') if locations && is(b"refresh") => Some(Kind::Refresh),
            _ => None,
        }
    }
}

/// Host names of a server in its own locations.
struct Hosts(Vec<Vec<u8>>);

impl Hosts {
    /// Creates the list. `host` is the `Host` that the server got, if it is not the client's.
    fn new(address: &Address, host: Option<Vec<u8>>) -> Hosts {
        let mut hosts = Vec::new();
        if !matches!(address, Address::Unix(_) | Address::Abstract(_)) {
            let address = address.to_string();
            let short = address.strip_suffix(":80").or_else(|| address.strip_suffix(":443"));
            hosts.extend(short.map(|short| short.as_bytes().to_vec()));
            hosts.push(address.into_bytes());
        }
        hosts.extend(host.filter(|host| !host.is_empty()));
        Hosts(hosts)
    }

    /// Returns the part of a location after one of the hosts.
    fn strip<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        let rest = [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
            let (start, rest) = value.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        })?;
        self.0.iter().find_map(|host| {
            let (start, rest) = rest.split_at_checked(host.len())?;
            let ends = matches!(rest.first(), None | Some(b'/' | b'?' | b'#'));
            (ends && start.eq_ignore_ascii_case(host)).then_some(rest)
        })
    }
}

/// Returns the location for the client; `None` if it does not change.
fn location(
    value: &[u8],
    replacements: &[Replacement],
    hosts: &Hosts,
    source: &VariableSource<'_>,
) -> Option<Vec<u8>> {
    for replacement in replacements {
        match replacement {
            Replacement::Expression(substitution) => {
                if let Some(changed) = whole(substitution, value, source) {
                    return Some(plain(&changed));
                }
            }
            Replacement::Text { from, to } => {
                if let Some(rest) = value.strip_prefix(from.as_bytes()) {
                    let to = to.as_ref().map(|to| plain(&source.expand(to)));
                    let mut changed = to.unwrap_or_default();
                    changed.extend_from_slice(rest);
                    return Some(changed);
                }
            }
        }
    }
    let rest = hosts.strip(value)?;
    // Two slashes at the start would begin another host (RFC 3986, 4.2); browsers read a backslash
    // as a slash.
    let start: &[u8] = match rest {
        [b'/', b'/' | b'\\', ..] => b"/.",
        [b'/', ..] => b"",
        _ => b"/",
    };
    Some([start, rest].concat())
}

/// Returns the value of `Refresh` for the client, with the location after `url=` changed.
fn refresh(
    value: &[u8],
    replacements: &[Replacement],
    hosts: &Hosts,
    source: &VariableSource<'_>,
) -> Option<Vec<u8>> {
    let at = value.windows(4).position(|four| four.eq_ignore_ascii_case(b"url="))? + 4;
    let (before, url) = value.split_at_checked(at)?;
    Some([before, &location(url, replacements, hosts, source)?].concat())
}

/// Returns the value of `Set-Cookie` for the client.
fn cookie(value: &[u8], upstream: &config::Upstream, source: &VariableSource<'_>) -> Vec<u8> {
    let mut parts = value.split(|byte| *byte == b';');
    let mut out = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let equals = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
        let (name, value) = part.split_at_checked(equals).unwrap_or((part, b""));
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let changed = if name.trim_ascii().eq_ignore_ascii_case(b"domain") {
            domain(value, &upstream.cookie_domain, source)
        } else if name.trim_ascii().eq_ignore_ascii_case(b"path") {
            path(value, &upstream.cookie_path, source)
        } else {
            None
        };
        match changed {
            Some(changed) if changed.is_empty() => {}
            Some(changed) => {
                for piece in [&b";"[..], name, b"=", &changed] {
                    out.extend_from_slice(piece);
                }
            }
            None => {
                out.push(b';');
                out.extend_from_slice(part);
            }
        }
    }
    out
}

/// Returns the value of `Set-Cookie` with the flags of the first name that matches; `None` if none
/// does. Without `=` there is no name.
fn flagged(value: &[u8], all: &[CookieFlags]) -> Option<Vec<u8>> {
    let mut parts = value.split(|byte| *byte == b';');
    let first = parts.next()?;
    let equals = first.iter().position(|byte| *byte == b'=')?;
    let name = first.get(..equals)?.trim_ascii();
    let flags = all.iter().find(|flags| flags.name.matches(name))?;
    let mut out = first.trim_ascii().to_vec();
    let (mut is_secure, mut is_http_only, mut has_same_site) = (false, false, false);
    for part in parts {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let kept = if name.is_empty() {
            false
        } else if is(b"secure") {
            is_secure = true;
            flags.secure != Some(false)
        } else if is(b"httponly") {
            is_http_only = true;
            flags.http_only != Some(false)
        } else if is(b"samesite") {
            has_same_site = true;
            if let Some(Some(same_site)) = flags.same_site {
                out.extend_from_slice(b"; SameSite=");
                out.extend_from_slice(same_site.as_bytes());
            }
            flags.same_site.is_none()
        } else {
            true
        };
        if kept {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(part.trim_ascii());
        }
    }
    if flags.secure == Some(true) && !is_secure {
        out.extend_from_slice(b"; Secure");
    }
    if flags.http_only == Some(true) && !is_http_only {
        out.extend_from_slice(b"; HttpOnly");
    }
    if let (Some(Some(same_site)), false) = (flags.same_site, has_same_site) {
        out.extend_from_slice(b"; SameSite=");
        out.extend_from_slice(same_site.as_bytes());
    }
    Some(out)
}

/// Returns the replacement of a domain; empty to remove the attribute, `None` to keep it.
fn domain(
    value: &[u8],
    replacements: &[Replacement],
    source: &VariableSource<'_>,
) -> Option<Vec<u8>> {
    let bare = |domain: &[u8]| domain.strip_prefix(b".").unwrap_or(domain).to_ascii_lowercase();
    replacements.iter().find_map(|replacement| match replacement {
        Replacement::Expression(substitution) => {
            whole(substitution, value, source).map(|changed| attribute(&changed))
        }
        Replacement::Text { from, to } => (bare(from.as_bytes()) == bare(value))
            .then(|| to.as_ref().map(|to| attribute(&source.expand(to))).unwrap_or_default()),
    })
}

/// Returns the replacement of a path whose prefix is configured; empty to remove the attribute,
/// `None` to keep it.
fn path(
    value: &[u8],
    replacements: &[Replacement],
    source: &VariableSource<'_>,
) -> Option<Vec<u8>> {
    replacements.iter().find_map(|replacement| match replacement {
        Replacement::Expression(substitution) => {
            whole(substitution, value, source).map(|changed| attribute(&changed))
        }
        Replacement::Text { from, to } => {
            let rest = value.strip_prefix(from.as_bytes())?;
            let Some(to) = to else { return Some(Vec::new()) };
            let mut changed = attribute(&source.expand(to));
            changed.extend_from_slice(rest);
            Some(changed)
        }
    })
}

/// Returns the value that takes the place of one that an expression matches, as in nginx.
fn whole(
    substitution: &Substitution,
    value: &[u8],
    source: &VariableSource<'_>,
) -> Option<Vec<u8>> {
    substitution.value(value, &|variable, out| {
        source.write(variable, out);
    })
}

/// Returns a value that cannot end its attribute, for any value of a variable.
fn attribute(value: &[u8]) -> Vec<u8> {
    let mut value = plain(value);
    value.retain(|byte| *byte != b';');
    value
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use howdah_config::Config;

    use super::*;
    use howdah_http::body::Body;
    use howdah_http::fixture;

    /// Returns a field of a response after the changes of an upstream with these settings.
    fn changed(settings: serde_json::Value, name: &str, value: &str) -> String {
        let mut upstream = serde_json::json!({"servers": {"10.0.0.5:80": {}}});
        let members = upstream.as_object_mut().unwrap();
        members.extend(settings.as_object().unwrap().clone());
        let document = serde_json::json!({"upstreams": {"u": upstream}});
        let config = Config::from_value(document).unwrap();
        let upstream = &config.upstreams[0];
        let mut request = fixture::request("/x", &[]);
        request.host = "shop.example".into();
        let source = VariableSource::of(&request, Instant::now());
        let mut response = Response::new(302, Body::Empty).with("A", "b").with(name, value);
        apply(upstream, &upstream.servers[0].address, &source, &mut response);
        assert_eq!(response.fields.get("a"), Some(&b"b"[..]));
        assert_eq!(response.fields.iter().count(), 2);
        String::from_utf8(response.fields.get(name).unwrap().to_vec()).unwrap()
    }

    fn none() -> serde_json::Value {
        serde_json::json!({})
    }

    #[test]
    fn a_location_at_the_server_becomes_a_local_one() {
        for (sent, seen) in [
            ("http://10.0.0.5:80/a?b#c", "/a?b#c"),
            ("http://10.0.0.5/a", "/a"),
            ("HTTP://10.0.0.5:80", "/"),
            ("https://10.0.0.5?b", "/?b"),
            ("http://10.0.0.5:8080/a", "http://10.0.0.5:8080/a"),
            ("http://10.0.0.55/a", "http://10.0.0.55/a"),
            ("http://10.0.0.5.example/a", "http://10.0.0.5.example/a"),
            ("http://10.0.0.5@example/a", "http://10.0.0.5@example/a"),
            ("http://other.example/a", "http://other.example/a"),
            ("/a", "/a"),
            ("", ""),
        ] {
            assert_eq!(changed(none(), "Location", sent), seen, "{sent}");
            assert_eq!(changed(none(), "content-location", sent), seen, "{sent}");
            let (sent, seen) = (format!("5; URL={sent}"), format!("5; URL={seen}"));
            assert_eq!(changed(none(), "Refresh", &sent), seen);
        }
        let off = serde_json::json!({"rewrite_location": false});
        assert_eq!(changed(off, "Location", "http://10.0.0.5/a"), "http://10.0.0.5/a");
        let host = serde_json::json!({"host": "inside.example"});
        assert_eq!(changed(host, "Location", "http://inside.example/a"), "/a");
    }

    #[test]
    fn a_local_location_cannot_lead_to_another_host() {
        for (sent, seen) in [
            ("http://10.0.0.5//evil.example", "/.//evil.example"),
            ("http://10.0.0.5/\\evil.example", "/./\\evil.example"),
        ] {
            assert_eq!(changed(none(), "Location", sent), seen);
        }
    }

    #[test]
    fn locations_are_replaced_as_the_configuration_says() {
        let own = || {
            serde_json::json!({"rewrite_location": {
                "http://inside/app/": "/", "/app/": "https://$host/",
            }})
        };
        for (sent, seen) in [
            ("http://inside/app/a", "/a"),
            ("/app/a", "https://shop.example/a"),
            ("http://10.0.0.5/a", "/a"),
            ("/other", "/other"),
        ] {
            assert_eq!(changed(own(), "Location", sent), seen);
        }
    }

    #[test]
    fn cookies_get_the_domain_and_path_that_clients_know() {
        let own = || {
            serde_json::json!({
                "cookie_domain": {"inside.example": "$host", ".old.example": null},
                "cookie_path": {"/app/": "/", "/none": null},
            })
        };
        for (sent, seen) in [
            (
                "a=b; Path=/app/x; Domain=.Inside.example; Secure",
                "a=b; Path=/x; Domain=shop.example; Secure",
            ),
            ("a=b;path=/app/;HttpOnly", "a=b;path=/;HttpOnly"),
            ("a=b; domain=old.example; Path=/other", "a=b; Path=/other"),
            ("a=b; Path=/none/x", "a=b"),
            ("a=b; Domain=more.inside.example", "a=b; Domain=more.inside.example"),
            ("domain=inside.example", "domain=inside.example"),
            ("path", "path"),
            (";;Path", ";;Path"),
        ] {
            assert_eq!(changed(own(), "Set-Cookie", sent), seen, "{sent}");
            assert_eq!(changed(none(), "Set-Cookie", sent), sent);
        }
    }

    #[test]
    fn a_variable_cannot_add_an_attribute() {
        let mut request = fixture::request("/x?d=a;%20Secure", &[]);
        request.query = "d=a; Secure".into();
        let source = VariableSource::of(&request, Instant::now());
        let to = howdah_config::Template::parse("$arg_d").unwrap();
        let replacements = [Replacement::Text { from: "x".to_owned(), to: Some(to) }];
        assert_eq!(domain(b"x", &replacements, &source), Some(b"a Secure".to_vec()));
    }

    #[test]
    fn an_expression_replaces_the_whole_value() {
        let settings = serde_json::json!({"rewrite_location": {
            "~^http://(other)\\.org:80/(.*)$": "/$1-$2?$arg_none$uri",
            "~(?i)^HTTPS?://[^/]*/(?P<rest>.*)$": "/$rest",
            "/old/": "/new/",
        }});
        for (value, expected) in [
            ("http://other.org:80/x?y", "/other-x?y?/x"),
            ("https://a/b//c", "/b//c"),
            ("/old/a", "/new/a"),
            ("/older/a", "/older/a"),
        ] {
            assert_eq!(changed(settings.clone(), "Location", value), expected);
        }
        let cookies = serde_json::json!({
            "cookie_domain": {"~\\.?(b)\\.org$": "$1.example", "~^none$": null},
            "cookie_path": {"~^/app/(.*)$": "/$1;$arg_none"},
        });
        for (value, expected) in [
            ("a=1; Domain=.x.b.org; Path=/app/c", "a=1; Domain=b.example; Path=/c"),
            ("a=1; Domain=none; Path=/c", "a=1; Path=/c"),
        ] {
            assert_eq!(changed(cookies.clone(), "Set-Cookie", value), expected);
        }
    }

    /// Scenario: `proxy_cookie_flags`, with the results of nginx.
    #[test]
    fn cookies_get_and_lose_flags() {
        let settings = serde_json::json!({"cookie_flags": {
            "one": ["secure", "httponly", "samesite=strict"],
            "two": ["nosecure", "nohttponly", "samesite=none"],
            "~^p": "nosamesite",
            "*": "secure",
        }});
        for (value, expected) in [
            ("one=1", "one=1; Secure; HttpOnly; SameSite=Strict"),
            ("TWO=2; path=/a;secure ;HttpOnly; samesite=lax", "TWO=2; path=/a; SameSite=None"),
            ("three=3; SECURE; Domain=a.b.c; Foo", "three=3; SECURE; Domain=a.b.c; Foo"),
            ("four", "four"),
            ("php=1;SameSite=Lax;secure", "php=1; secure"),
            ("one=x=y; samesite=lax; ", "one=x=y; SameSite=Strict; Secure; HttpOnly"),
        ] {
            assert_eq!(changed(settings.clone(), "Set-Cookie", value), expected);
        }
        for flags in [serde_json::json!({"a": "Secure"}), serde_json::json!({"!a": "secure"})] {
            let upstream = serde_json::json!({"servers": {}, "cookie_flags": flags});
            let document = serde_json::json!({"upstreams": {"u": upstream}});
            assert!(Config::from_value(document).is_err());
        }
    }
}
