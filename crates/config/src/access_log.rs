//! `access_log`: one line for each request.

use std::path::PathBuf;

use crate::condition::Condition;
use crate::error::Error;
use crate::node::Node;
use crate::template::Template;

/// The access log: its file, its format and the requests that are logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// The file that lines are appended to.
    pub path: PathBuf,
    /// The format of a line.
    pub format: LogFormat,
    /// Condition for logging a request; all requests are logged if `None`.
    pub condition: Option<Condition>,
}

/// The format of a line of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// Text with variables.
    Text(Template),
    /// A JSON object whose values are text with variables, in document order.
    Json(Vec<(String, Template)>),
}

/// Unit's format, which is the combined format of Apache and nginx with `-` for the user.
const COMBINED: &str = "$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent \
                        \"$header_referer\" \"$header_user_agent\"";

impl AccessLog {
    /// Reads a file name, or an object.
    pub(crate) fn read(node: &Node<'_>) -> Result<AccessLog, Error> {
        if node.value.is_string() {
            let format = LogFormat::combined(node)?;
            return Ok(AccessLog { path: node.file()?, format, condition: None });
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("a file name or an object"));
        }
        let object = node.object()?;
        let format = match object.read("format", LogFormat::read)? {
            Some(format) => format,
            None => LogFormat::combined(node)?,
        };
        let log = AccessLog {
            path: object.required("path")?.file()?,
            format,
            condition: object.read("if", Condition::read)?,
        };
        object.end()?;
        Ok(log)
    }
}

impl LogFormat {
    fn combined(node: &Node<'_>) -> Result<LogFormat, Error> {
        Template::read_text(node, COMBINED).map(LogFormat::Text)
    }

    fn read(node: &Node<'_>) -> Result<LogFormat, Error> {
        if node.value.is_string() {
            return Template::read(node).map(LogFormat::Text);
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("a string or an object"));
        }
        let mut members = Vec::new();
        for (name, value) in node.members()? {
            if name.is_empty() {
                return Err(value.invalid("must have a name that is not empty"));
            }
            members.push((name.to_owned(), Template::read(&value)?));
        }
        Ok(LogFormat::Json(members))
    }
}
