//! Access logs and their formats.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::reader::Directive;
use super::state::State;
use super::template::Template;
use super::units;
use super::variables::{Object, Reason, names_of};
use crate::Status;

/// Variables whose values follow from the server or location.
pub const OF_SERVER: [&str; 6] = [
    "server_name",
    "document_root",
    "realpath_root",
    "request_filename",
    "fastcgi_script_name",
    "fastcgi_path_info",
];

impl<'t> Converter<'_> {
    /// Reads the formats of a level. Those with values of a server are read there.
    pub fn read_log_formats(&mut self, place: &Place<'t>) {
        self.log_formats.insert("combined".to_owned(), "combined".into());
        for directive in
            place.scope.directives().iter().filter(|directive| directive.name == "log_format")
        {
            let names = directive.args.iter().flat_map(|arg| names_of(arg));
            let is_of_server = names.into_iter().any(|name| OF_SERVER.contains(&name.as_str()));
            let format = if is_of_server { Value::Null } else { self.log_format(directive, place) };
            self.log_formats.insert(directive.arg(0).to_owned(), format);
        }
    }

    /// Returns the format of a directive.
    fn log_format(&mut self, directive: &'t Directive, place: &Place<'t>) -> Value {
        let mut parts = &directive.args[1..];
        let escape = parts.first().and_then(|part| part.strip_prefix("escape="));
        if escape.is_some() {
            parts = &parts[1..];
        }
        let (text, mut unknown) = self.known_variables(&parts.concat(), place);
        if place.site.is_none() {
            // Requests outside of all servers have none of their values.
            unknown.retain(|name| !OF_SERVER.contains(&name.as_str()));
        }
        if !unknown.is_empty() {
            let reason = format!("${} has no equivalent and is written as -", unknown.join(", $"));
            self.report.mark(directive.id, Status::Changed, reason);
        }
        let format = match escape {
            Some("json") => {
                self.json_format(&text, place).or_else(|_| self.line_format(&text, place))
            }
            _ => self.line_format(&text, place),
        };
        match format {
            Ok(format) => {
                match (escape, format.is_object()) {
                    (Some("json"), false) => self.report.mark(directive.id, Status::Changed, "the line is no object of JSON, so its values are escaped as in other lines"),
                    (Some("none"), _) => self.report.mark(directive.id, Status::Changed, "values are escaped, so that no client can forge a line"),
                    _ => self.report.converted(directive.id),
                }
                format
            }
            Err(reason) => {
                let reason = format!("{reason}; its logs have the format combined");
                self.report.mark(directive.id, Status::NotConverted, reason);
                "combined".into()
            }
        }
    }

    /// Returns the format of a name at a place.
    fn format_of(&mut self, name: &str, place: &Place<'t>) -> Option<Value> {
        let format = self.log_formats.get(name)?.clone();
        if !format.is_null() {
            return Some(format);
        }
        let http = self.http_scope(place).unwrap_or_else(|| place.scope.clone());
        let directive = http
            .directives()
            .iter()
            .rfind(|other| other.name == "log_format" && other.arg(0) == name)?;
        Some(self.log_format(directive, place))
    }

    fn line_format(&mut self, text: &str, place: &Place<'t>) -> Result<Value, Reason> {
        Ok(self.value(text, place, &State::default())?.render().into())
    }

    /// Returns a text with `-` for variables that have no equivalent, and their names.
    fn known_variables(&mut self, text: &str, place: &Place<'t>) -> (String, Vec<String>) {
        let mut names = names_of(text);
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.dedup();
        let mut text = text.to_owned();
        let mut unknown = Vec::new();
        for name in names {
            if self.variable(&name, place, &State::default()).is_err() {
                text = text.replace(&format!("${{{name}}}"), "-").replace(&format!("${name}"), "-");
                unknown.push(name);
            }
        }
        (text, unknown)
    }

    /// Reads a line of JSON as an object of texts.
    fn json_format(&mut self, text: &str, place: &Place<'t>) -> Result<Value, Reason> {
        // Variables without quotation marks are numbers or objects in nginx's line.
        let mut quoted = String::new();
        let mut is_in_text = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' => {
                    is_in_text = !is_in_text;
                    quoted.push(c);
                }
                '\\' => {
                    quoted.push(c);
                    quoted.extend(chars.next());
                }
                '$' if !is_in_text => {
                    quoted.push('"');
                    quoted.push(c);
                    while let Some(next) =
                        chars.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '{' | '}'))
                    {
                        if next == '}'
                            && !quoted.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                        {
                            quoted.push('"');
                            quoted.push(next);
                            break;
                        }
                        quoted.push(next);
                    }
                    if !quoted.ends_with('"') && !quoted.ends_with("\"}") {
                        // The brace that ends the object is none of the variable.
                        let has_open =
                            quoted.rsplit('"').next().is_some_and(|text| text.contains('{'));
                        if quoted.ends_with('}') && !has_open {
                            quoted.pop();
                            quoted.push_str("\"}");
                        } else {
                            quoted.push('"');
                        }
                    }
                }
                _ => quoted.push(c),
            }
        }
        let parsed: Value = serde_json::from_str(&quoted).map_err(|error| error.to_string())?;
        let members = parsed.as_object().ok_or("the line is no object")?;
        let mut format = Object::new();
        for (key, value) in members {
            let text = match value {
                Value::String(text) => self.value(text, place, &State::default())?.render(),
                Value::Number(number) => number.to_string(),
                _ => return Err("the line has objects in it".to_owned()),
            };
            format.insert(key.clone(), text.into());
        }
        Ok(format.into())
    }

    /// Returns the access logs of a place; `None` if they are those of the document.
    pub fn access_log_of(&mut self, place: &Place<'t>, _state: &State) -> Option<Value> {
        let here = place.scope.all("access_log");
        let global = self.http_scope(place).map(|http| http.all("access_log")).unwrap_or_default();
        match (here.first(), global.first()) {
            (None, _) => None,
            (Some(one), Some(other)) if std::ptr::eq(*one, *other) => {
                // A format with values of the server is another one in each.
                let is_of_server = here
                    .iter()
                    .any(|log| self.log_formats.get(log.arg(1)).is_some_and(Value::is_null));
                is_of_server.then(|| self.access_logs(&here, place))
            }
            _ => Some(self.access_logs(&here, place)),
        }
    }

    /// Returns the value of `access_log` for some directives.
    pub fn access_logs(&mut self, directives: &[&'t Directive], place: &Place<'t>) -> Value {
        let mut logs = Vec::new();
        for directive in directives {
            if directive.arg(0) == "off" {
                self.report.converted(directive.id);
                continue;
            }
            match self.access_log(directive, place) {
                Ok(log) => {
                    self.report.converted(directive.id);
                    logs.push(log);
                }
                Err(reason) => self.report.mark(directive.id, Status::NotConverted, reason),
            }
        }
        match logs.len() {
            0 => false.into(),
            1 => logs.pop().unwrap_or_default(),
            _ => logs.into(),
        }
    }

    fn access_log(&mut self, directive: &'t Directive, place: &Place<'t>) -> Result<Value, Reason> {
        let target = directive.arg(0);
        let mut log = Object::new();
        if let Some(text) = target.strip_prefix("syslog:") {
            log.insert("syslog".to_owned(), syslog(text)?);
        } else {
            if target.contains('$') {
                return Err("the name of the file has variables".to_owned());
            }
            let path = if target.starts_with('/') {
                target.to_owned()
            } else {
                format!("/usr/share/nginx/{target}")
            };
            log.insert("path".to_owned(), path.into());
        }
        for (place_of_arg, arg) in directive.args.iter().enumerate().skip(1) {
            match arg.split_once('=') {
                Some(("buffer", _)) => {}
                Some(("flush", time)) => {
                    if let Some(time) = units::milliseconds(time) {
                        let seconds = (time.min(60_000) / 10) as f64 / 100.0;
                        log.insert("flush".to_owned(), json!(seconds));
                    }
                }
                Some(("if", condition)) => {
                    let condition = self.value(condition, place, &State::default())?;
                    log.insert("if".to_owned(), self.truth(&condition).into());
                }
                Some(("gzip", _)) => {
                    self.report.mark(directive.id, Status::Changed, "the file is not compressed")
                }
                None if arg == "gzip" => {
                    self.report.mark(directive.id, Status::Changed, "the file is not compressed")
                }
                None if place_of_arg == 1 => match self.format_of(arg, place) {
                    Some(format) if format.as_str() == Some("combined") => {}
                    Some(format) => {
                        log.insert("format".to_owned(), format);
                    }
                    None => return Err(format!("there is no log_format \"{arg}\"")),
                },
                _ => return Err(format!("\"{arg}\" has no equivalent")),
            }
        }
        if log.len() == 1
            && let Some(path) = log.get("path")
        {
            return Ok(path.clone());
        }
        Ok(log.into())
    }

    /// Returns a condition that holds unless a text is empty or `0`.
    fn truth(&mut self, condition: &Template) -> String {
        let definition =
            json!({ "map": condition.render(), "values": { "~^0?$": "" }, "default": "1" });
        format!("${}", self.define("is_set", definition))
    }
}

fn syslog(text: &str) -> Result<Value, Reason> {
    let mut syslog = Object::new();
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key {
            "server" => {
                syslog.insert("server".to_owned(), value.into());
            }
            "facility" | "severity" | "tag" => {
                syslog.insert(key.to_owned(), value.into());
            }
            "nohostname" => {}
            _ => return Err(format!("\"{key}\" of syslog has no equivalent")),
        }
    }
    if !syslog.contains_key("server") {
        return Err("there is no server of syslog".to_owned());
    }
    syslog.insert("protocol".to_owned(), "rfc3164".into());
    syslog.entry("tag").or_insert_with(|| "nginx".into());
    Ok(syslog.into())
}
