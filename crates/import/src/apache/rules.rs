//! Rules of mod_rewrite in front of requests that are passed to other servers: redirects, refusals
//! and exceptions become steps of a route. All other requests have the engine of `.htaccess`.

use serde_json::{Map, Value, json};

use super::scope::{escaped, refuses, rule_flags};
use super::tree::Node;

/// Maximum number of steps of a rule with alternatives.
const MAX_ALTERNATIVES: usize = 64;

/// A rule with its conditions.
#[derive(Debug)]
pub struct Group<'n> {
    pub conditions: Vec<&'n Node>,
    pub rule: &'n Node,
}

/// The effect of a rule.
#[derive(Debug)]
pub enum Effect {
    /// Steps of the route.
    Steps(Vec<Value>),
    /// The rule passes requests to another server; the expression, the URL, and conditions.
    Proxy(String, String, Map<String, Value>),
    /// The rule has no effect on the answer to such requests.
    None,
    /// The rule cannot be said by steps; those close its paths if it refuses requests.
    Unknown(Vec<Value>, String),
}

/// Divides directives into rules with their conditions. Nothing if the rules are turned off.
pub fn groups<'n>(nodes: &[&'n Node]) -> Vec<Group<'n>> {
    let is_on = nodes.iter().rev().find(|node| node.name == "rewriteengine");
    if !is_on.is_some_and(|node| node.first().eq_ignore_ascii_case("on")) {
        return Vec::new();
    }
    let mut groups = Vec::new();
    let mut conditions = Vec::new();
    for node in nodes {
        match node.name.as_str() {
            "rewritecond" => conditions.push(*node),
            "rewriterule" => {
                groups.push(Group { conditions: std::mem::take(&mut conditions), rule: node });
            }
            _ => {}
        }
    }
    groups
}

/// Returns the effect of a rule. `behind` is the route for requests that no further rule is for.
pub fn effect(group: &Group<'_>, behind: &str) -> Effect {
    let words = group.rule.words();
    let [pattern, target, ..] = words.as_slice() else {
        return Effect::Unknown(Vec::new(), "it takes an expression and a target".into());
    };
    let flags = rule_flags(&words);
    let has = |names: &[&str]| flags.iter().any(|flag| names.contains(&flag.as_str()));
    let unknown = |reason: &str| {
        let steps = if refuses(&words) {
            vec![json!({"match": {"uri": uri_of(pattern)}, "action": {"return": 403}})]
        } else {
            Vec::new()
        };
        Effect::Unknown(steps, reason.to_owned())
    };
    if group.conditions.iter().chain([&group.rule]).any(|node| node.arguments.contains("${")) {
        return unknown("maps are not known in front of other servers");
    }
    if !is_valid(pattern) {
        let steps =
            if refuses(&words) { vec![json!({"action": {"return": 403}})] } else { Vec::new() };
        return Effect::Unknown(steps, "the expression is not known".into());
    }
    let alternatives = match conditions(group) {
        Ok(alternatives) => alternatives,
        Err(reason) => return unknown(&reason),
    };
    if has(&["p", "proxy"]) {
        let [condition] = alternatives.as_slice() else {
            return unknown("a rule for another server has no alternatives");
        };
        let mut members = condition.members.clone();
        if condition.uri.iter().any(|pattern| !pattern.starts_with('!')) {
            return unknown("a rule for another server has one expression for its path");
        }
        if !condition.uri.is_empty() {
            members.insert("uri".into(), json!(condition.uri));
        }
        return Effect::Proxy(pattern.clone(), target.clone(), members);
    }
    let status = status(&words);
    let action = if has(&["f", "forbidden"]) {
        json!({"return": 403})
    } else if has(&["g", "gone"]) {
        json!({"return": 410})
    } else if let Some(status) = status.filter(|status| !(300..400).contains(status)) {
        json!({"return": status})
    } else if target == "-" && has(&["l", "last", "end"]) {
        json!({"pass": behind})
    } else if target == "-" {
        return Effect::None;
    } else if status.is_some() || target.contains("://") {
        let groups_of_conditions = alternatives.iter().any(|found| found.has_groups);
        match redirect(
            target,
            status.unwrap_or(302),
            has(&["qsd", "qsdiscard"]),
            groups_of_conditions,
            pattern,
        ) {
            Ok(action) => action,
            Err(reason) => return unknown(&reason),
        }
    } else {
        return unknown("a rule changes the path of files alone");
    };
    let mut steps = Vec::new();
    for condition in alternatives {
        let mut members = condition.members;
        let mut uri = condition.uri;
        let is_trivial = is_trivial(pattern);
        if !is_trivial {
            if uri.iter().any(|pattern| !pattern.starts_with('!')) {
                return unknown("a path is compared with two expressions");
            }
            uri.insert(0, uri_of(pattern));
        } else if pattern.contains('(')
            && target.contains("$1")
            && !uri.iter().any(|own| !own.starts_with('!'))
        {
            uri.insert(0, uri_of(pattern));
        }
        if !uri.is_empty() {
            members.insert("uri".into(), json!(uri));
        }
        steps.push(if members.is_empty() {
            json!({"action": action})
        } else {
            json!({"match": members, "action": action})
        });
    }
    Effect::Steps(steps)
}

/// Returns true for expressions that all paths match.
fn is_trivial(pattern: &str) -> bool {
    matches!(
        pattern,
        "^" | "^(.*)$"
            | "(.*)"
            | ".*"
            | "^/?(.*)"
            | "^/?(.*)$"
            | "^/(.*)$"
            | "^/(.*)"
            | "^.*$"
            | "^/"
            | "."
            | "/"
            | "^/.*$"
            | "^(.*)"
            | "$"
            | "^/.*"
            | "(.+)"
            | "^(.+)$"
    )
}

fn uri_of(pattern: &str) -> String {
    match pattern.strip_prefix('!') {
        Some(pattern) => format!("!~{pattern}"),
        None => format!("~{pattern}"),
    }
}

fn is_valid(pattern: &str) -> bool {
    let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
    howdah_config::Pattern::parse(&format!("~{pattern}"), howdah_config::Subject::Uri).is_ok()
}

/// Returns the status of the flag `R`; `None` without the flag.
fn status(words: &[String]) -> Option<u16> {
    let flags = words.get(2)?.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    for flag in flags.split(',').map(str::trim) {
        let (name, value) = flag.split_once('=').unwrap_or((flag, "302"));
        if matches!(name, "r" | "redirect") {
            return Some(match value {
                "permanent" => 301,
                "temp" => 302,
                "seeother" => 303,
                value => value.parse().unwrap_or(302),
            });
        }
    }
    None
}

/// Conditions of a step.
#[derive(Debug, Clone, Default)]
struct Condition {
    members: Map<String, Value>,
    uri: Vec<String>,
    /// An expression of a condition has groups.
    has_groups: bool,
}

/// Returns the alternatives of conditions.
fn conditions(group: &Group<'_>) -> Result<Vec<Condition>, String> {
    let mut all = vec![Condition::default()];
    let mut choices: Vec<Vec<&Node>> = Vec::new();
    let mut is_open = false;
    for node in &group.conditions {
        if is_open {
            if let Some(last) = choices.last_mut() {
                last.push(node);
            }
        } else {
            choices.push(vec![node]);
        }
        is_open = flags_of(node).iter().any(|flag| flag == "or" || flag == "ornext");
    }
    for choice in choices {
        if choice.len().saturating_mul(all.len()) > MAX_ALTERNATIVES {
            return Err("the conditions have too many alternatives".into());
        }
        if let [node] = choice.as_slice() {
            // Most conditions: nothing is copied.
            all.iter_mut().try_for_each(|condition| add(node, condition))?;
            continue;
        }
        let mut next = Vec::new();
        for known in &all {
            for node in &choice {
                let mut condition = known.clone();
                add(node, &mut condition)?;
                next.push(condition);
            }
        }
        all = next;
    }
    Ok(all)
}

fn flags_of(node: &Node) -> Vec<String> {
    rule_flags(&node.words())
}

fn add(node: &Node, condition: &mut Condition) -> Result<(), String> {
    let words = node.words();
    let [subject, test, ..] = words.as_slice() else {
        return Err("a condition takes two arguments".into());
    };
    let ignores_case = flags_of(node).iter().any(|flag| flag == "nc" || flag == "nocase");
    let (is_negated, test) = match test.strip_prefix('!') {
        Some(test) => (true, test),
        None => (false, test.as_str()),
    };
    // The text of an exact comparison, or an expression.
    let expression = match test.strip_prefix('=') {
        Some(text) => format!("^{}$", escaped(text.trim_matches('"'))),
        None if test.starts_with(['<', '>', '-']) => {
            return Err(format!("the test {test} is not known"));
        }
        None => test.to_owned(),
    };
    if !is_valid(&expression) {
        return Err(format!("the expression {expression} is not known"));
    }
    let flag = if ignores_case { "(?i)" } else { "" };
    let sign = if is_negated { "!" } else { "" };
    let pattern = format!("{sign}~{flag}{expression}");
    condition.has_groups |= expression.contains('(') && !is_negated;
    let mut put = |key: &str, value: Value| -> Result<(), String> {
        match condition.members.insert(key.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!("{subject} is compared twice")),
        }
    };
    let matches = |text: &str| -> bool {
        let found = howdah_htaccess::modules::pattern::Pattern::new(expression.as_bytes(), true);
        found.is_ok_and(|found| found.is_match(text.as_bytes()).unwrap_or(false)) != is_negated
    };
    match subject.as_str() {
        "%{HTTPS}" | "%{HTTPS}s" => match (matches("on"), matches("off")) {
            (true, false) => put("scheme", "https".into()),
            (false, true) => put("scheme", "http".into()),
            (true, true) => Ok(()),
            (false, false) => Err("the condition never holds".into()),
        },
        "%{REQUEST_SCHEME}" => match (matches("https"), matches("http")) {
            (true, false) => put("scheme", "https".into()),
            (false, true) => put("scheme", "http".into()),
            (true, true) => Ok(()),
            (false, false) => Err("the condition never holds".into()),
        },
        "%{SERVER_PORT}" => {
            let digits: String = expression.chars().filter(char::is_ascii_digit).collect();
            let is_plain = expression.trim_start_matches('^').trim_end_matches('$') == digits;
            if !is_plain || digits.is_empty() {
                return Err("a port is compared with an expression".into());
            }
            put("destination", format!("{sign}*:{digits}").into())
        }
        "%{HTTP_HOST}" | "%{SERVER_NAME}" => {
            if expression.contains(':') {
                return Err("the port of a host is compared".into());
            }
            match condition.members.get_mut("host") {
                Some(Value::Array(list)) if is_negated => list.push(pattern.into()),
                Some(_) => return Err("the host is compared twice".into()),
                None => {
                    condition.members.insert("host".into(), json!([pattern]));
                }
            }
            Ok(())
        }
        "%{REQUEST_URI}" => {
            condition.uri.push(pattern);
            Ok(())
        }
        "%{REQUEST_METHOD}" => put("method", format!("{sign}~(?i){expression}").into()),
        "%{QUERY_STRING}" => put("query", pattern.into()),
        "%{REMOTE_ADDR}" => {
            let address =
                expression.trim_start_matches('^').trim_end_matches('$').replace('\\', "");
            let is_whole = expression.starts_with('^') && expression.ends_with('$');
            if !is_whole || address.parse::<std::net::IpAddr>().is_err() {
                return Err("an address is compared with an expression".into());
            }
            put("source", format!("{sign}{address}").into())
        }
        other => {
            let field = match other {
                "%{HTTP_USER_AGENT}" => "User-Agent",
                "%{HTTP_REFERER}" => "Referer",
                "%{HTTP_COOKIE}" => "Cookie",
                "%{HTTP_ACCEPT}" => "Accept",
                _ => match other.strip_prefix("%{HTTP:").and_then(|rest| rest.strip_suffix('}')) {
                    Some(field) => field,
                    None => return Err(format!("{other} is not known in front of other servers")),
                },
            };
            if is_negated || matches("") {
                return Err(format!("a request without {field} cannot be told"));
            }
            let mut headers = match condition.members.remove("headers") {
                Some(Value::Object(headers)) => headers,
                _ => Map::new(),
            };
            headers.insert(field.to_owned(), pattern.into());
            condition.members.insert("headers".into(), headers.into());
            Ok(())
        }
    }
}

/// Returns the action of a redirect.
fn redirect(
    target: &str,
    status: u16,
    drops_query: bool,
    has_groups: bool,
    pattern: &str,
) -> Result<Value, String> {
    let mut location = String::new();
    let mut rest = target;
    let mut has_query = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let next = rest.chars().next();
        match (c, next) {
            ('$', Some(digit)) if digit.is_ascii_digit() => {
                rest = &rest[1..];
                if digit == '0' {
                    location.push_str("${uri}");
                } else {
                    location.push_str(&format!("${digit}"));
                }
            }
            ('%', Some(digit)) if digit.is_ascii_digit() => {
                rest = &rest[1..];
                if !has_groups || pattern.contains('(') && target.contains('$') || digit == '0' {
                    return Err("a group of a condition is not known".into());
                }
                location.push_str(&format!("${digit}"));
            }
            ('%', Some('{')) => {
                let end = rest.find('}').ok_or("a variable has no end")?;
                location.push_str(match &rest[1..end] {
                    "HTTP_HOST" | "SERVER_NAME" => "${host}",
                    "REQUEST_URI" => "${uri}",
                    "QUERY_STRING" => "${args}",
                    "REQUEST_SCHEME" => "${scheme}",
                    "REMOTE_ADDR" => "${remote_addr}",
                    other => {
                        return Err(format!("%{{{other}}} is not known in front of other servers"));
                    }
                });
                rest = &rest[end + 1..];
            }
            ('$', _) => location.push_str("${dollar}"),
            ('\\', Some(escaped)) => {
                location.push(escaped);
                rest = &rest[escaped.len_utf8()..];
            }
            ('?', None) => has_query = true,
            (c, _) => {
                has_query |= c == '?';
                location.push(c);
            }
        }
    }
    let mut action = json!({"return": status, "location": location});
    if !has_query && !drops_query {
        action["keep_query"] = true.into();
    }
    Ok(action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apache::{modules::Modules, reader::Reader};
    use crate::{Report, Source};

    fn effect_of(text: &str) -> Value {
        let (mut source, mut report) = (Source::default(), Report::default());
        let mut reader = Reader::new(&mut source, &mut report, Modules::built_in());
        let nodes = reader.text(&format!("RewriteEngine On\n{text}\n")).unwrap();
        let nodes: Vec<&Node> = nodes.iter().collect();
        match effect(&groups(&nodes)[0], "routes/behind") {
            Effect::Steps(steps) => Value::from(steps),
            other => format!("{other:?}").into(),
        }
    }

    #[test]
    fn redirects_and_refusals_become_steps() {
        assert_eq!(
            effect_of(
                "RewriteCond %{HTTPS} off\nRewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]"
            ),
            json!([{
                "match": {"scheme": "http"},
                "action": {"return": 301, "location": "https://${host}${uri}", "keep_query": true},
            }])
        );
        assert_eq!(
            effect_of("RewriteRule ^/blocked - [F]"),
            json!([{"match": {"uri": ["~^/blocked"]}, "action": {"return": 403}}])
        );
        assert_eq!(
            effect_of("RewriteRule ^/ok - [L]"),
            json!([{"match": {"uri": ["~^/ok"]}, "action": {"pass": "routes/behind"}}])
        );
        let is = |text: &str, kind: &str| {
            effect_of(text).as_str().is_some_and(|text| text.starts_with(kind))
        };
        assert!(is("RewriteRule ^/a$ /b", "Unknown"));
        assert!(is("RewriteRule ^/a/(.*) http://b/$1 [P]", "Proxy"));
    }
}
