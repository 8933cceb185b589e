//! `Header` and `RequestHeader` for requests that are passed to other servers.

use serde_json::{Map, Value, json};

use crate::{Report, Status};

use super::scope::mark;
use super::tree::Node;

/// Adds fields to an action that passes requests to another server. What cannot be said is marked.
pub fn of_proxied(nodes: &[&Node], action: &mut Map<String, Value>, report: &mut Report) {
    let mut response = Map::new();
    let mut request = Map::new();
    for node in nodes {
        let done = match node.name.as_str() {
            "header" => response_field(&node.words(), &mut response),
            "requestheader" => request_field(&node.words(), &mut request),
            "setenv" | "setenvif" | "setenvifnocase" | "browsermatch" | "browsermatchnocase" => {
                continue;
            }
            _ => continue,
        };
        if let Err(reason) = done {
            mark(
                report,
                node,
                Status::NotConverted,
                format!("{reason}; this is about requests to other servers alone"),
            );
        }
    }
    for (name, members) in [("response_headers", response), ("request_headers", request)] {
        if !members.is_empty() {
            action.insert(name.into(), members.into());
        }
    }
}

fn response_field(words: &[String], fields: &mut Map<String, Value>) -> Result<(), String> {
    let lower = |index: usize| words.get(index).map(|word| word.to_ascii_lowercase());
    let first = usize::from(matches!(lower(0).as_deref(), Some("always" | "onsuccess")));
    let action = lower(first).unwrap_or_default();
    let Some(name) = words.get(first + 1) else { return Err("a name is missing".into()) };
    let name = name.trim_end_matches(':');
    let rest = &words[first + 2..];
    // Without `always`, Apache leaves out only pages of its own.
    let set = |value: Value| json!({"value": value, "always": true});
    match (action.as_str(), rest) {
        ("set", [value]) | ("add" | "append" | "merge" | "setifempty", [value])
            if action == "set" || !fields.contains_key(name) && !is_joined(name) =>
        {
            let value = text(value)?;
            fields.insert(name.to_owned(), set(value.into()));
            Ok(())
        }
        ("unset", []) => {
            fields.insert(name.to_owned(), set(Value::Null));
            Ok(())
        }
        (_, [.., condition]) if condition.starts_with("env=") || condition.starts_with("expr=") => {
            Err("fields of other servers' responses have no conditions".into())
        }
        _ => Err(format!("Header {action} is not known for responses of other servers")),
    }
}

/// Returns true for fields that a response of another server usually has.
fn is_joined(name: &str) -> bool {
    ["set-cookie", "vary", "cache-control", "link"].iter().any(|own| name.eq_ignore_ascii_case(own))
}

fn request_field(words: &[String], fields: &mut Map<String, Value>) -> Result<(), String> {
    let mut words = words;
    if let Some(last) = words.last()
        && last.eq_ignore_ascii_case("early")
    {
        words = &words[..words.len() - 1];
    }
    match words {
        [action, name, value]
            if matches!(
                action.to_ascii_lowercase().as_str(),
                "set" | "add" | "setifempty" | "append"
            ) =>
        {
            fields.insert(name.trim_end_matches(':').to_owned(), text(value)?.into());
            Ok(())
        }
        [action, name] if action.eq_ignore_ascii_case("unset") => {
            fields.insert(name.trim_end_matches(':').to_owned(), Value::Null);
            Ok(())
        }
        _ => Err(format!("RequestHeader {} is not known for other servers", words.join(" "))),
    }
}

/// Translates the value of a field.
pub fn text(value: &str) -> Result<String, String> {
    let mut result = String::new();
    if let Some(expression) = value.strip_prefix("expr=") {
        let mut rest = expression;
        while let Some(start) = rest.find("%{") {
            result.push_str(&rest[..start].replace('$', "${dollar}"));
            let end = rest[start..].find('}').ok_or("an expression has no end")? + start;
            let name = &rest[start + 2..end];
            result.push_str(variable(name).ok_or_else(|| format!("%{{{name}}} is not known"))?);
            rest = &rest[end + 1..];
        }
        result.push_str(&rest.replace('$', "${dollar}"));
        return Ok(result);
    }
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '%' => match rest.chars().next() {
                Some('%') => {
                    result.push('%');
                    rest = &rest[1..];
                }
                Some('{') => {
                    let end = rest.find('}').ok_or("an expression has no end")?;
                    let name = &rest[1..end];
                    let kind = rest[end + 1..].chars().next();
                    let known = match kind {
                        Some('s' | 'e') => variable(name),
                        _ => None,
                    };
                    result.push_str(known.ok_or_else(|| format!("%{{{name}}} is not known"))?);
                    rest = &rest[end + 2..];
                }
                _ => return Err("values with times are not known".into()),
            },
            '$' => result.push_str("${dollar}"),
            c => result.push(c),
        }
    }
    Ok(result)
}

fn variable(name: &str) -> Option<&'static str> {
    Some(match name {
        "REQUEST_SCHEME" => "${scheme}",
        "HTTPS" => "${https}",
        "REMOTE_ADDR" => "${remote_addr}",
        "REMOTE_PORT" => "${remote_port}",
        "REMOTE_USER" => "${remote_user}",
        "HTTP_HOST" => "${header_host}",
        "SERVER_NAME" => "${host}",
        "SERVER_PORT" => "${server_port}",
        "SERVER_ADDR" => "${server_addr}",
        "REQUEST_URI" => "${uri}",
        "QUERY_STRING" => "${args}",
        "REQUEST_METHOD" => "${method}",
        "SSL_PROTOCOL" => "${ssl_protocol}",
        "SSL_CIPHER" => "${ssl_cipher}",
        "SSL_CLIENT_S_DN" => "${ssl_client_s_dn}",
        "SSL_CLIENT_I_DN" => "${ssl_client_i_dn}",
        "SSL_CLIENT_VERIFY" => "${ssl_client_verify}",
        "SSL_CLIENT_M_SERIAL" => "${ssl_client_serial}",
        "SSL_TLS_SNI" => "${ssl_server_name}",
        "UNIQUE_ID" => "${request_id}",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_templates() {
        assert_eq!(text("max-age=60 100%% $x").unwrap(), "max-age=60 100% ${dollar}x");
        assert_eq!(text("%{REMOTE_ADDR}s").unwrap(), "${remote_addr}");
        assert_eq!(text("expr=%{REQUEST_SCHEME}").unwrap(), "${scheme}");
        assert!(text("%t").is_err() && text("%{FOO}e").is_err());
    }
}
