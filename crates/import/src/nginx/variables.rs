//! Values of directives: variables of nginx in Howdah's words.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::context::Place;
use super::convert::Converter;
use super::pcre;
use super::reader::Directive;
use super::state::State;
use super::template::Template;

/// The reason why a value cannot be converted.
pub type Reason = String;

/// Variables of nginx whose name and value are the same.
const SAME: [&str; 43] = [
    "uri",
    "request_uri",
    "args",
    "query_string",
    "is_args",
    "host",
    "remote_addr",
    "remote_port",
    "remote_user",
    "scheme",
    "https",
    "server_protocol",
    "server_addr",
    "server_port",
    "status",
    "body_bytes_sent",
    "bytes_sent",
    "request_length",
    "request_time",
    "time_local",
    "time_iso8601",
    "msec",
    "connection",
    "connection_requests",
    "request_id",
    "hostname",
    "upstream_addr",
    "upstream_status",
    "upstream_cache_status",
    "upstream_connect_time",
    "upstream_header_time",
    "upstream_response_time",
    "ssl_protocol",
    "ssl_cipher",
    "ssl_server_name",
    "ssl_session_reused",
    "ssl_client_verify",
    "ssl_client_s_dn",
    "ssl_client_i_dn",
    "ssl_client_serial",
    "ssl_client_fingerprint",
    "ssl_client_escaped_cert",
    "trace_id",
];

/// Variables of nginx with another name.
const RENAMED: [(&str, &str); 9] = [
    ("document_uri", "uri"),
    ("request_method", "method"),
    ("request", "request_line"),
    ("binary_remote_addr", "remote_addr"),
    ("http_host", "header_host"),
    ("content_type", "header_content_type"),
    ("content_length", "header_content_length"),
    ("ssl_client_cert", "ssl_client_escaped_cert"),
    ("realip_remote_addr", "remote_addr"),
];

/// Maximum depth of variables in variables, such as `$request_filename` in `root`.
const MAX_DEPTH: usize = 200;

/// Maximum number of variables that a value leads to. A document has definitions with up to
/// 1000, whose subject and value are both such a value.
const MAX_WEIGHT: usize = 400;

/// A part of a value of nginx.
enum Part<'v> {
    Text(&'v str),
    Variable(&'v str),
}

impl Converter<'_> {
    /// Returns a value of nginx as a template of Howdah.
    pub fn value(
        &mut self,
        text: &str,
        place: &Place<'_>,
        state: &State,
    ) -> Result<Template, Reason> {
        let mut template = Template::default();
        for part in parts(text)? {
            match part {
                Part::Text(text) => template.push_text(text),
                Part::Variable(name) => template.push(&self.variable(name, place, state)?),
            }
        }
        let weight = weight_of(template.variables(), &self.weights);
        if weight > MAX_WEIGHT {
            return Err(format!("\"{text}\" leads to more than {MAX_WEIGHT} variables"));
        }
        Ok(template)
    }

    /// Returns a variable of nginx as a template of Howdah.
    pub fn variable(
        &mut self,
        name: &str,
        place: &Place<'_>,
        state: &State,
    ) -> Result<Template, Reason> {
        let (as_written, name) = (name, &*name.to_ascii_lowercase());
        if let Some(value) = state.variables.get(name) {
            return value.clone().ok_or_else(|| format!("the value of ${name} cannot be said"));
        }
        if let Ok(number) = name.parse::<usize>() {
            return self.group(number, state);
        }
        if let Some(value) = self.tables.get(name) {
            return value.clone().ok_or_else(|| format!("the value of ${name} cannot be said"));
        }
        if self.depth > MAX_DEPTH {
            return Err(format!("${name} depends on itself"));
        }
        self.depth += 1;
        let value = self.own_variable(as_written, name, place, state);
        self.depth -= 1;
        value
    }

    /// Returns a variable of nginx that no directive sets.
    fn own_variable(
        &mut self,
        as_written: &str,
        name: &str,
        place: &Place<'_>,
        state: &State,
    ) -> Result<Template, Reason> {
        if let Some(field) = checked_field(name, place) {
            return Ok(Template::variable(&format!("header_{field}")));
        }
        let request_name = Template::variable("uri");
        let built_in = match name {
            _ if place.site.is_none() && super::logs::OF_SERVER.contains(&name) => {
                return Err(format!("${name} has another value in each server"));
            }
            "server_name" => Template::text(&place.server_name),
            "document_root" | "realpath_root" => self.document_root(place, state)?,
            "request_filename" => self.request_filename(place, state)?,
            "fastcgi_script_name" => match self.split_path(place) {
                Some(pattern) => self.group_of(&request_name, &pattern, 1, Some(&request_name)),
                None => request_name,
            },
            "fastcgi_path_info" => match self.split_path(place) {
                Some(pattern) => self.group_of(&request_name, &pattern, 2, None),
                None => Template::default(),
            },
            "proxy_add_x_forwarded_for" => {
                let list = "$header_x_forwarded_for, $remote_addr";
                let definition = json!({
                    "map": "$header_x_forwarded_for", "values": { "~^$": "$remote_addr" }, "default": list,
                });
                Template::variable(&self.define("forwarded_for", definition))
            }
            "proxy_host" | "proxy_port" => {
                return Err(format!("${name} is known in the location of a proxy_pass alone"));
            }
            "invalid_referer" => self.invalid_referer(place)?,
            "secure_link" => self.secure_link(place, state)?,
            "nginx_version" => Template::text("1.22.1"),
            "pipe" => Template::text("."),
            // There is neither early data nor HTTP/3.
            "ssl_early_data" | "http3" | "quic" | "spdy" => Template::default(),
            // A response without a page has that of the server, in HTML.
            "sent_http_content_type" => Template::variable(&self.define("sent_type", sent_type())),
            "http2" => {
                let values = json!({ "HTTP/2.0on": "h2", "HTTP/2.0": "h2c" });
                let definition = json!({ "map": "$server_protocol$https", "values": values });
                Template::variable(&self.define("http_version", definition))
            }
            "request_completion" | "request_body" | "request_body_file" | "pid" | "limit_rate"
            | "uid_got" | "uid_set" | "connections_active" => {
                return Err(format!("Howdah has no equivalent of ${name}"));
            }
            _ if name.strip_prefix("arg_").is_some_and(is_argument) => {
                // nginx's has the value as the query has it, and ignores the case of the name.
                let name = name.trim_start_matches("arg_");
                let expression = format!("(?i)(?:^|&){name}=([^&]*)");
                self.group_of(&Template::variable("args"), &expression, 1, None)
            }
            _ if is_set_only_here(name, place) => Template::default(),
            _ => {
                return built_in_of(as_written)
                    .ok_or_else(|| format!("Howdah has no variable like ${name}"));
            }
        };
        Ok(built_in)
    }

    /// Returns the text of a group of the last expression that matched.
    fn group(&mut self, number: usize, state: &State) -> Result<Template, Reason> {
        let Some(captures) = &state.captures else { return Ok(Template::default()) };
        if number > captures.expression.groups {
            return Ok(Template::default());
        }
        if number == 0 || number > 9 {
            return Err(format!("${number} has no equivalent"));
        }
        if captures.is_direct {
            return Ok(Template::variable(&number.to_string()));
        }
        let (subject, text) = (captures.subject.clone(), captures.expression.text.clone());
        Ok(self.group_of(&subject, &text, number, None))
    }

    /// Defines a variable with a group of an expression.
    pub fn group_of(
        &mut self,
        subject: &Template,
        expression: &str,
        number: usize,
        default: Option<&Template>,
    ) -> Template {
        let mut definition = json!({
            "map": subject.render(), "values": { format!("~{expression}"): format!("${number}") },
        });
        if let Some(default) = default {
            definition["default"] = default.render().into();
        }
        Template::variable(&self.define("part", definition))
    }

    /// Returns the expression of `fastcgi_split_path_info`.
    fn split_path(&mut self, place: &Place<'_>) -> Option<String> {
        let directive = place.scope.one("fastcgi_split_path_info")?;
        pcre::convert(directive.arg(0), false).map(|expression| expression.text)
    }

    /// Defines a variable of the document; the same definition has the same name.
    pub fn define(&mut self, hint: &str, definition: Value) -> String {
        let key = definition.to_string();
        if let Some((name, _)) = self.definitions.iter().find(|(_, other)| **other == key) {
            return name.clone();
        }
        let base = variable_name(hint);
        let mut name = base.clone();
        let mut number = 1;
        while self.definitions.contains_key(&name) || is_built_in(&name) {
            number += 1;
            name = format!("{base}_{}", letters(number));
        }
        self.definitions.insert(name.clone(), key);
        self.weights.insert(name.clone(), weight_of_definition(&definition, &self.weights));
        self.variables.push((name.clone(), definition));
        name
    }

    /// Returns true if a template can have another value after a rewrite.
    pub fn depends_on_path(&self, template: &Template) -> bool {
        template.variables().any(|name| self.variable_depends_on_path(name, 0))
    }

    /// Returns true for a variable that is the beginning of the path, or empty.
    pub fn begins_with_slash(&self, name: &str) -> bool {
        let definition = self.variables.iter().find(|(other, _)| other == name);
        let Some((_, definition)) = definition else { return name == "uri" };
        let is_beginning = |(key, value): (&String, &Value)| {
            value == "$1" && (key.starts_with("~^(.") || key.starts_with("~^(/"))
        };
        definition["map"] == "$uri"
            && definition["values"].as_object().is_some_and(|all| all.iter().all(is_beginning))
            && definition.get("default").is_none_or(|default| default == "$uri")
    }

    fn variable_depends_on_path(&self, name: &str, depth: usize) -> bool {
        if matches!(name, "uri" | "args" | "query_string" | "is_args") || name.starts_with("arg_") {
            return true;
        }
        let Some((_, definition)) = self.variables.iter().find(|(other, _)| other == name) else {
            return false;
        };
        // Definitions use only those in front of them, so this ends.
        depth < 64
            && names_in(&definition.to_string())
                .any(|name| self.variable_depends_on_path(&name, depth + 1))
    }
}

/// Returns the field of the response of an `auth_request` that a variable is set from.
pub fn checked_field(name: &str, place: &Place<'_>) -> Option<String> {
    let sets = place.scope.all("auth_request_set");
    let set =
        sets.iter().find(|set| set.arg(0).trim_start_matches('$').eq_ignore_ascii_case(name))?;
    set.arg(1).strip_prefix("$upstream_http_").map(str::to_owned)
}

/// Returns the definition of nginx's `$sent_http_content_type`.
pub fn sent_type() -> Value {
    let values = json!({ "~^(?:30[12378]|[45][0-9][0-9])$": "text/html" });
    let own = "$response_header_content_type";
    json!({ "map": format!("$status{own}"), "values": values, "default": own })
}

/// Returns true for a variable that directives of this location alone set, under conditions that do
/// not hold here: it is empty.
fn is_set_only_here(name: &str, place: &Place<'_>) -> bool {
    fn sets(directives: &[Directive], name: &str) -> usize {
        let is_it = |directive: &Directive| {
            directive.name == "set"
                && directive.arg(0).trim_start_matches('$').eq_ignore_ascii_case(name)
        };
        let all = directives.iter();
        all.map(|inner| usize::from(is_it(inner)) + sets(inner.children(), name)).sum()
    }
    let (Some(site), Some(location)) = (&place.site, &place.location) else { return false };
    let own = sets(location.directive.children(), name);
    own > 0 && own == sets(site.directive.children(), name)
}

/// Returns a variable of nginx that Howdah has under this or another name.
pub fn built_in_of(as_written: &str) -> Option<Template> {
    let name = &*as_written.to_ascii_lowercase();
    if SAME.contains(&name) {
        return Some(Template::variable(name));
    }
    if let Some((_, other)) = RENAMED.iter().find(|(renamed, _)| *renamed == name) {
        return Some(Template::variable(other));
    }
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    for (prefix, other) in [
        ("http_", "header_"),
        ("sent_http_", "response_header_"),
        ("cookie_", "cookie_"),
        ("upstream_http_", "response_header_"),
    ] {
        if let Some(rest) =
            name.strip_prefix(prefix).filter(|rest| !rest.is_empty() && is_name(rest))
        {
            // Names of cookies keep their case, which counts in Howdah.
            let rest = as_written.get(prefix.len()..).unwrap_or(rest);
            return Some(Template::variable(&format!("{other}{rest}")));
        }
    }
    None
}

/// Returns true if a variable of nginx can name this argument of a query.
fn is_argument(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns true if Howdah has a variable of this name.
fn is_built_in(name: &str) -> bool {
    const OWN: [&str; 7] = [
        "dollar",
        "application",
        "method",
        "php_time",
        "queue_time",
        "request_line",
        "script_filename",
    ];
    OWN.contains(&name)
        || SAME.contains(&name)
        || ["header_", "response_header_", "cookie_", "arg_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Returns a name of letters and `_`.
pub fn variable_name(hint: &str) -> String {
    let letter = |c: char| match c {
        '0'..='9' => char::from(b'a' + (c as u8 - b'0')),
        c if c.is_ascii_alphabetic() => c.to_ascii_lowercase(),
        _ => '_',
    };
    let name: String = hint.chars().map(letter).collect();
    if name.is_empty() { "value".to_owned() } else { name }
}

/// Returns a number in letters: b, c, … z, ab, …
fn letters(mut number: usize) -> String {
    let mut out = Vec::new();
    while number > 0 {
        number -= 1;
        out.push(b'a' + u8::try_from(number % 26).unwrap_or(0));
        number /= 26;
    }
    out.reverse();
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the number of variables that are evaluated for those of these names, as a document counts
/// them.
fn weight_of<N: AsRef<str>>(
    names: impl Iterator<Item = N>,
    weights: &BTreeMap<String, usize>,
) -> usize {
    let own = |name: N| weights.get(name.as_ref()).copied().unwrap_or(1);
    names.map(own).fold(0, usize::saturating_add)
}

fn weight_of_definition(definition: &Value, weights: &BTreeMap<String, usize>) -> usize {
    let weight = |text: &str| weight_of(names_in(text), weights);
    let text = |value: &Value| value.as_str().map_or(0, weight);
    let source: usize =
        ["map", "geo", "split"].iter().filter_map(|kind| definition.get(kind)).map(text).sum();
    let values = definition["values"].as_object().into_iter().flatten();
    let largest = values.map(|(key, value)| match definition.get("split") {
        Some(_) => weight(key),
        None => text(value),
    });
    let default = definition.get("default").map_or(0, text);
    source.saturating_add(largest.max().unwrap_or(0).max(default)).saturating_add(1)
}

/// Returns the names of variables in a text of a document.
fn names_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    })
}

/// Splits a value into texts and variables.
fn parts(text: &str) -> Result<Vec<Part<'_>>, Reason> {
    let mut found = Vec::new();
    let mut left = text;
    while let Some(at) = left.find('$') {
        let (front, rest) = left.split_at(at);
        if !front.is_empty() {
            found.push(Part::Text(front));
        }
        let rest = &rest[1..];
        let invalid = || format!("\"{text}\" has an invalid variable");
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').ok_or_else(invalid)?;
            found.push(Part::Variable(&inner[..end]));
            left = &inner[end + 1..];
            continue;
        }
        // A number is one digit.
        let end = match rest.as_bytes().first() {
            Some(b'1'..=b'9') => 1,
            _ => rest.bytes().position(|byte| !is_name(byte)).unwrap_or(rest.len()),
        };
        if end == 0 {
            return Err(invalid());
        }
        found.push(Part::Variable(&rest[..end]));
        left = &rest[end..];
    }
    if !left.is_empty() {
        found.push(Part::Text(left));
    }
    Ok(found)
}

/// Returns the names of variables in a value of nginx.
pub fn names_of(text: &str) -> Vec<String> {
    let parts = parts(text).unwrap_or_default();
    parts
        .into_iter()
        .filter_map(|part| match part {
            Part::Variable(name) => Some(name.to_ascii_lowercase()),
            Part::Text(_) => None,
        })
        .collect()
}

/// An object of a document.
pub type Object = Map<String, Value>;

/// Names of definitions with their texts.
pub type Definitions = BTreeMap<String, String>;
