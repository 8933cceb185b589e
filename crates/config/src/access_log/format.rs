//! `format` of an access log.

use howdah_template::{Part, Template, Variable};

use super::php_fpm::FpmLog;
use crate::error::Error;
use crate::node::Node;
use crate::suggest::nearest;
use crate::templates;

/// The format of a line of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// Text with variables.
    Text(Template),
    /// A JSON object, members in document order.
    Json(Vec<(String, LogValue)>),
    /// A line of PHP-FPM.
    PhpFpm(FpmLog),
}

/// The value of a member of a line in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogValue {
    /// A string with variables.
    Text(Template),
    /// A number; `null` if the variable has no value.
    Number(Variable),
}

/// The combined format of Apache and nginx. Unit has `-` for the user, which it does not know.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request_line\" $status \
                        $body_bytes_sent \"$header_referer\" \"$header_user_agent\"";

/// Formats of text with a name.
const NAMED: [(&str, &str); 3] = [
    ("combined", COMBINED),
    (
        "common",
        "$remote_addr - $remote_user [$time_local] \"$request_line\" $status $body_bytes_sent",
    ),
    // Apache's, with all bytes of the response.
    (
        "vhost_combined",
        "$host:$server_port $remote_addr - $remote_user [$time_local] \"$request_line\" $status \
         $bytes_sent \"$header_referer\" \"$header_user_agent\"",
    ),
];

/// The members of the format `json`.
const JSON: [(&str, &str); 12] = [
    ("time", "$time_local"),
    ("remote_addr", "$remote_addr"),
    ("request_id", "$request_id"),
    ("scheme", "$scheme"),
    ("host", "$host"),
    ("method", "$method"),
    ("uri", "$request_uri"),
    ("status", "$status"),
    ("body_bytes_sent", "$body_bytes_sent"),
    ("request_time", "$request_time"),
    ("referer", "$header_referer"),
    ("user_agent", "$header_user_agent"),
];

impl LogFormat {
    pub(super) fn combined(node: &Node<'_>) -> Result<LogFormat, Error> {
        templates::read_text(node, COMBINED).map(LogFormat::Text)
    }

    /// Reads a name, a template or an object of templates. If `numbers` is true, templates that are
    /// one variable with a number become numbers of JSON.
    pub(super) fn read(node: &Node<'_>, numbers: bool) -> Result<LogFormat, Error> {
        if let Some(text) = node.value.as_str() {
            return LogFormat::read_text(node, text);
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("a string or an object"));
        }
        let mut members = Vec::new();
        for (name, value) in node.members()? {
            if name.is_empty() {
                return Err(value.invalid("must have a name that is not empty"));
            }
            members.push((name.to_owned(), LogValue::of(templates::read(&value)?, numbers)));
        }
        Ok(LogFormat::Json(members))
    }

    fn read_text(node: &Node<'_>, text: &str) -> Result<LogFormat, Error> {
        if text == "json" {
            let member = |(name, value): (&str, &str)| {
                let value = templates::read_text(node, value)?;
                Ok((name.to_owned(), LogValue::of(value, true)))
            };
            return JSON.into_iter().map(member).collect::<Result<_, _>>().map(LogFormat::Json);
        }
        if let Some((_, format)) = NAMED.into_iter().find(|(name, _)| *name == text) {
            return templates::read_text(node, format).map(LogFormat::Text);
        }
        let is_word = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        if !text.is_empty() && text.bytes().all(is_word) {
            let names = NAMED.into_iter().map(|(name, _)| name).chain(["json"]);
            if let Some(meant) = nearest(text, names) {
                let error = node.invalid("has no variable and is not the name of a format");
                return Err(error.with_hint(format!("did you mean \"{meant}\"?")));
            }
        }
        templates::read(node).map(LogFormat::Text)
    }
}

impl LogValue {
    fn of(template: Template, numbers: bool) -> LogValue {
        match template.parts() {
            [Part::Variable(variable)] if numbers && variable.is_number() => {
                LogValue::Number(variable.clone())
            }
            _ => LogValue::Text(template),
        }
    }

    /// Returns the value as a template, if it is one.
    pub fn template(&self) -> Option<&Template> {
        match self {
            LogValue::Text(template) => Some(template),
            LogValue::Number(_) => None,
        }
    }
}
