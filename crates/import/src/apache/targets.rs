//! Where requests are passed to: the paths and URLs of `ProxyPass` and its kin.

use std::collections::BTreeMap;

use howdah_htaccess::modules::pattern::Pattern;
use serde_json::{Map, Value, json};

use super::handlers::fastcgi_target;
use super::scope::{argument, escaped};
use super::tree::Node;

/// Paths that are passed on.
#[derive(Debug, Clone)]
pub struct Rule<'n> {
    pub source: Source,
    pub target: Target,
    pub parameters: BTreeMap<String, String>,
    pub node: &'n Node,
    /// Further conditions.
    pub conditions: Map<String, Value>,
}

/// The paths of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Path(String),
    Regex(String),
}

impl Source {
    /// Returns true if a path is one of these.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Source::Path(own) => path
                .strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || own.ends_with('/')),
            Source::Regex(expression) => {
                let found = Pattern::new(expression.as_bytes(), false);
                found.is_ok_and(|found| found.is_match(path.as_bytes()).unwrap_or(true))
            }
        }
    }
}

/// The destination of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The files of the host.
    None,
    Http {
        /// Address or balancer.
        server: Server,
        /// `https`.
        is_tls: bool,
        /// Host and port in the URL.
        authority: String,
        /// Path in the URL.
        path: String,
    },
    FastCgi {
        address: String,
        /// Directory in the URL.
        root: String,
    },
    Unknown(String),
}

/// The server of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    Address(String),
    Balancer(String),
}

/// Reads a rule. `location` is the path of the section that it is in.
pub fn rule<'n>(node: &'n Node, location: Option<&Source>) -> Option<Rule<'n>> {
    let mut words = node.words();
    let source = match location {
        Some(source) => source.clone(),
        None if words.is_empty() => return None,
        None if node.name == "proxypassmatch" => Source::Regex(words.remove(0)),
        None => Source::Path(words.remove(0)),
    };
    if words.is_empty() {
        return None;
    }
    let target = target(&words.remove(0));
    let parameters = words
        .iter()
        .map(|word| match word.split_once('=') {
            Some((name, value)) => (name.to_ascii_lowercase(), value.to_owned()),
            None => (word.to_ascii_lowercase(), String::new()),
        })
        .collect();
    Some(Rule { source, target, parameters, node, conditions: Map::new() })
}

/// Reads the URL of a target.
pub fn target(url: &str) -> Target {
    if url == "!" {
        return Target::None;
    }
    if let Some(address) = fastcgi_target(url) {
        let path = url.rsplit_once("fcgi://").map_or("", |(_, rest)| rest);
        let path = path.find('/').map_or("", |slash| &path[slash..]);
        let root = path.split('$').next().unwrap_or_default().trim_end_matches('/');
        return Target::FastCgi { address, root: root.to_owned() };
    }
    let (socket, rest) = match url.split_once('|') {
        Some((socket, rest)) if socket.starts_with("unix:") => (Some(socket.to_owned()), rest),
        _ => (None, url),
    };
    let Some((scheme, rest)) = rest.split_once("://") else {
        return Target::Unknown(url.to_owned());
    };
    let scheme = scheme.to_ascii_lowercase();
    let slash = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = (rest[..slash].to_owned(), rest[slash..].to_owned());
    if authority.contains(['$', '%', '@', '{']) {
        return Target::Unknown(url.to_owned());
    }
    let is_tls = matches!(scheme.as_str(), "https" | "wss");
    let server = match scheme.as_str() {
        "balancer" => Server::Balancer(authority.to_ascii_lowercase()),
        "http" | "https" | "ws" | "wss" => {
            let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| {
                !port.is_empty()
                    && port.bytes().all(|byte| byte.is_ascii_digit())
                    && !host.is_empty()
            });
            let default = if is_tls { 443 } else { 80 };
            let address =
                if has_port { authority.clone() } else { format!("{authority}:{default}") };
            Server::Address(socket.unwrap_or(address))
        }
        _ => return Target::Unknown(url.to_owned()),
    };
    Target::Http { server, is_tls, authority, path }
}

/// Returns the patterns of a rule's paths, and the `rewrite` to a path of its target. Without one, the
/// path is sent as the client has written it.
pub fn uri(source: &Source, path: Option<&str>) -> (Value, Option<String>) {
    match source {
        Source::Path(own) => {
            let target = path.map(|path| if path.is_empty() { "/" } else { path });
            let is_same = target.is_none_or(|target| target == own);
            if is_same || own == "/" && target == Some("/") {
                let patterns = if own.ends_with('/') {
                    json!(format!("{}*", encoded(own)))
                } else {
                    json!([encoded(own), format!("{}/*", encoded(own))])
                };
                return (patterns, None);
            }
            let target = target.unwrap_or("/").replace('$', "${dollar}");
            // Apache joins the texts as they are; two slashes are one for Howdah.
            let expression = if own.ends_with('/') {
                format!("~(?s)^{}(.*)$", escaped(own))
            } else {
                format!("~(?s)^{}(/.*)?$", escaped(own))
            };
            (json!(expression), Some(format!("{target}$1")))
        }
        Source::Regex(expression) => {
            let rewrite = path.filter(|path| !path.is_empty());
            let (expression, excluded) = without_look_ahead(expression);
            let pattern = match excluded {
                None => json!(format!("~{expression}")),
                Some(excluded) => json!([format!("~{expression}"), format!("!~{excluded}")]),
            };
            (pattern, rewrite.map(str::to_owned))
        }
    }
}

/// Divides an expression such as `^/(?!static/)(.*)$` into one without its first look-ahead, and one
/// of the paths that it excludes.
pub fn without_look_ahead(expression: &str) -> (String, Option<String>) {
    let unchanged = || (expression.to_owned(), None);
    let Some(start) = expression.find("(?!") else { return unchanged() };
    let (before, inside) = (&expression[..start], &expression[start + 3..]);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_');
    if !before.starts_with('^') || !before[1..].chars().all(is_plain) {
        return unchanged();
    }
    let mut depth = 1;
    let mut is_escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (inside, rest) = (&inside[..at], &inside[at + 1..]);
            return (format!("{before}{rest}"), Some(format!("{before}(?:{inside})")));
        }
    }
    unchanged()
}

/// Writes a path as a pattern has it.
fn encoded(path: &str) -> String {
    path.replace('%', "%25").replace('*', "%2A").replace(' ', "%20")
}

/// Returns the paths of a `<Location>` or `<LocationMatch>`.
pub fn source_of(node: &Node) -> Source {
    let words = node.words();
    match words.as_slice() {
        [tilde, expression, ..] if tilde == "~" => Source::Regex(expression.clone()),
        _ if node.name == "<locationmatch" => Source::Regex(argument(node)),
        _ => Source::Path(argument(node)),
    }
}

/// Returns true if all paths of `inner` are paths of `outer`.
pub fn covers(outer: &Source, inner: &Source) -> bool {
    match (outer, inner) {
        (Source::Path(outer), _) if outer == "/" => true,
        (Source::Path(outer), Source::Path(inner)) => inner
            .strip_prefix(outer.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || outer.ends_with('/')),
        (outer, inner) => outer == inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_divided() {
        assert_eq!(target("!"), Target::None);
        let http = target("http://127.0.0.1:3000/app/");
        let server = Server::Address("127.0.0.1:3000".into());
        let path = "/app/".to_owned();
        let authority = "127.0.0.1:3000".to_owned();
        assert_eq!(http, Target::Http { server, is_tls: false, authority, path });
        let socket = target("unix:/run/a.sock|http://localhost/");
        assert!(
            matches!(socket, Target::Http { server: Server::Address(address), .. } if address == "unix:/run/a.sock")
        );
        let fastcgi = target("fcgi://127.0.0.1:9000/srv/www/$1");
        assert_eq!(
            fastcgi,
            Target::FastCgi { address: "127.0.0.1:9000".into(), root: "/srv/www".into() }
        );
        assert!(matches!(target("ajp://a"), Target::Unknown(_)));
    }

    #[test]
    fn a_look_ahead_becomes_an_exclusion() {
        assert_eq!(
            without_look_ahead("^/(?!static/|a\\))(.*)$"),
            ("^/(.*)$".into(), Some("^/(?:static/|a\\))".into()))
        );
        assert_eq!(without_look_ahead("^/a(.*)").1, None);
        assert_eq!(without_look_ahead("(a|b)(?!c)").1, None);
    }

    #[test]
    fn paths_become_patterns() {
        let of = |own: &str, path| uri(&Source::Path(own.into()), Some(path));
        assert_eq!(of("/", "/"), (json!("/*"), None));
        assert_eq!(of("/a", "/a"), (json!(["/a", "/a/*"]), None));
        assert_eq!(of("/a/", "/"), (json!("~(?s)^/a/(.*)$"), Some("/$1".into())));
        assert_eq!(of("/a", "/b"), (json!("~(?s)^/a(/.*)?$"), Some("/b$1".into())));
    }
}
