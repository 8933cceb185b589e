//! `Header` and `RequestHeader` for requests that are passed to other servers.

use howdah_config::{Pattern, Subject};
use serde_json::{Map, Value, json};

use crate::{Report, Status};

use super::scope::mark;
use super::tree::Node;

/// Changes of the fields of one name.
#[derive(Default)]
struct Changes {
    /// Changes of the fields that the other server sends.
    own: Vec<Map<String, Value>>,
    /// Values of `always`, which Apache keeps apart: they are sent beside the others.
    always: Vec<String>,
}

/// Adds fields to an action that passes requests to another server. What cannot be said is marked.
pub fn of_proxied(nodes: &[&Node], action: &mut Map<String, Value>, report: &mut Report) {
    let mut response: Vec<(String, Changes)> = Vec::new();
    let mut request = Map::new();
    for node in nodes {
        let done = match node.name.as_str() {
            "header" => response_field(&node.words(), &mut response),
            "requestheader" => request_field(&node.words(), &mut request),
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
    let response: Map<String, Value> =
        response.into_iter().filter_map(|(name, changes)| Some((name, changes.value()?))).collect();
    for (name, members) in [("response_headers", response), ("request_headers", request)] {
        if !members.is_empty() {
            action.insert(name.into(), members.into());
        }
    }
}

fn response_field(words: &[String], fields: &mut Vec<(String, Changes)>) -> Result<(), String> {
    let lower = |index: usize| words.get(index).map(|word| word.to_ascii_lowercase());
    let table = lower(0).filter(|word| matches!(word.as_str(), "always" | "onsuccess"));
    let first = usize::from(table.is_some());
    let action = lower(first).unwrap_or_default();
    let Some(name) = words.get(first + 1) else { return Err("a name is missing".into()) };
    let name = name.trim_end_matches(':');
    let rest = words.get(first + 2..).unwrap_or_default();
    if let [_, .., last] | [last] = rest
        && (last.starts_with("env=") || last.eq_ignore_ascii_case("early") || rest.len() > 1)
        && (!action.starts_with("edit") || rest.len() != 2)
    {
        return Err("fields of other servers' responses have no conditions".into());
    }
    let place = fields.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
    let place = place.unwrap_or_else(|| {
        fields.push((name.to_owned(), Changes::default()));
        fields.len() - 1
    });
    let Some((_, changes)) = fields.get_mut(place) else { return Ok(()) };
    let is_always = table.as_deref() == Some("always");
    if is_always { changes.always(&action, rest) } else { changes.own(&action, rest) }
}

impl Changes {
    /// Adds a change of the fields that the other server sends.
    fn own(&mut self, action: &str, rest: &[String]) -> Result<(), String> {
        let change = match (action, rest) {
            ("unset", []) => {
                self.own.clear();
                json!({ "value": null })
            }
            ("set", [value]) => {
                let value = text(value)?;
                self.own.clear();
                json!({ "value": value })
            }
            ("add" | "append", [value]) => json!({ "value": text(value)?, "mode": action }),
            ("setifempty", [value]) => json!({ "value": text(value)?, "mode": "default" }),
            ("edit" | "edit*", [expression, replacement]) => {
                let edit = format!("~{expression}");
                if Pattern::parse(&edit, Subject::Header).is_err() {
                    return Err(format!("\"{expression}\" is no regular expression here"));
                }
                let value = replacement_text(replacement)?;
                let mut change = json!({ "edit": edit, "value": value });
                if action == "edit*" {
                    change["all"] = true.into();
                }
                change
            }
            _ => {
                return Err(format!("Header {action} is not known for responses of other servers"));
            }
        };
        self.own.extend(change.as_object().cloned());
        Ok(())
    }

    /// Changes the values that are sent beside those of the other server.
    fn always(&mut self, action: &str, rest: &[String]) -> Result<(), String> {
        match (action, rest) {
            ("unset", []) => self.always.clear(),
            ("set", [value]) => self.always = vec![text(value)?],
            ("add", [value]) => self.always.push(text(value)?),
            ("setifempty", [value]) if self.always.is_empty() => self.always.push(text(value)?),
            ("setifempty", [_]) => {}
            ("append", [value]) => {
                let value = text(value)?;
                match self.always.first_mut() {
                    Some(first) => *first = format!("{first}, {value}"),
                    None => self.always.push(value),
                }
            }
            // Apache looks for fields of this table alone, which the other server's are not in.
            ("edit" | "edit*", [_, _]) if self.always.is_empty() => {}
            _ => return Err(format!("Header always {action} is not known here")),
        }
        Ok(())
    }

    /// Returns the member of `response_headers`; `None` if nothing changes.
    fn value(self) -> Option<Value> {
        let mut changes = self.own;
        if !self.always.is_empty() {
            let value = match self.always.as_slice() {
                [value] => value.as_str().into(),
                values => json!(values),
            };
            changes.push(Map::from_iter([
                ("value".to_owned(), value),
                ("mode".to_owned(), "add".into()),
            ]));
        }
        // Without `always`, Apache leaves out only pages of its own.
        for change in &mut changes {
            change.insert("always".into(), true.into());
        }
        let last = changes.pop()?;
        if changes.is_empty() {
            return Some(last.into());
        }
        changes.push(last);
        Some(changes.into())
    }
}

/// Translates the text that replaces what an expression matches.
fn replacement_text(value: &str) -> Result<String, String> {
    let mut result = String::new();
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '$' if chars.peek().is_some_and(|next| ('1'..='9').contains(next)) => {
                let number = chars.next().unwrap_or_default();
                result.push_str(&format!("${{{number}}}"));
            }
            '$' if chars.peek() != Some(&'0') => result.push_str("${dollar}"),
            '%' | '&' | '$' | '\\' => {
                return Err(format!("\"{c}\" in the replacement \"{value}\" is not known"));
            }
            c => result.push(c),
        }
    }
    Ok(result)
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

    #[test]
    fn changes_of_fields_keep_their_order_and_those_of_always_stand_apart() {
        let mut fields = Vec::new();
        let mut add = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            response_field(&words, &mut fields)
        };
        add(&["edit", "Set-Cookie", "^(.*)$", "$1; Secure"]).unwrap();
        add(&["add", "Set-Cookie", "a=b"]).unwrap();
        add(&["always", "set", "Set-Cookie", "c=d"]).unwrap();
        assert!(add(&["set", "X", "a", "env=B"]).is_err());
        assert!(add(&["set", "X", "a", "expr=%{HTTPS}"]).is_err());
        assert!(add(&["edit", "X", "(", "b"]).is_err());
        assert!(add(&["edit", "X", "a", "&"]).is_err());
        let (_, changes) = fields.remove(0);
        let expected = json!([
            { "edit": "~^(.*)$", "value": "${1}; Secure", "always": true },
            { "value": "a=b", "mode": "add", "always": true },
            { "value": "c=d", "mode": "add", "always": true },
        ]);
        assert_eq!(changes.value(), Some(expected));
    }
}
