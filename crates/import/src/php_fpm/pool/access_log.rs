//! `access.log` and `access.format` → `access_log`.

use serde_json::{Value, json};

use super::super::settings::Settings;
use super::paths;
use crate::{Report, Status};

/// The format that PHP-FPM has without `access.format`.
const DEFAULT_FORMAT: &str = "%R - %u %t \"%m %r\" %s";

/// Returns `access_log` of the application; `None` without a log.
pub(super) fn access_log(settings: &Settings, report: &mut Report) -> Option<Value> {
    let format = settings.get("access.format");
    let Some(log) = settings.get("access.log").filter(|log| !log.text.is_empty()) else {
        for set in format.into_iter().chain(settings.get("access.log")) {
            report.mark(set.id, Status::NotNeeded, "without \"access.log\" there is no log");
        }
        return None;
    };
    let (line, missing) = line(format.map_or(DEFAULT_FORMAT, |format| &format.text));
    let mut reason = "lines have the client's address and the path that it has asked for \
                      (PHP-FPM: the address of the web server and the path of the script)"
        .to_owned();
    report.mark(log.id, Status::Changed, reason.clone());
    if let Some(format) = format {
        if !missing.is_empty() {
            reason = format!("\"-\" stands for {}, which Howdah's log has not", missing.join(", "));
        }
        report.mark(format.id, Status::Changed, reason);
    }
    let path = match log.text.as_str() {
        "/proc/self/fd/1" => "/dev/stdout".into(),
        "/proc/self/fd/2" => "/dev/stderr".into(),
        path => paths::whole(path, settings),
    };
    Some(json!({ "path": path, "format": line }))
}

/// Returns the format of a line, and the codes that it has not.
fn line(format: &str) -> (String, Vec<String>) {
    // The request as a whole, rather than three parts of it.
    let format = format.replace("%r%Q%q", "\u{0}");
    let (mut found, mut missing) = (String::new(), Vec::new());
    let mut left = format.as_str();
    while let Some(at) = left.find(['%', '$', '\u{0}']) {
        found += &left[..at];
        let special = &left[at..];
        left = &special[1..];
        if let Some(rest) = special.strip_prefix('%') {
            let (argument, code, rest) = code(rest);
            match variable(argument, code) {
                Some(text) => found += &text,
                None => {
                    found.push('-');
                    missing.push(special[..special.len() - rest.len()].to_owned());
                }
            }
            left = rest;
        } else {
            found += if special.starts_with('$') { "${dollar}" } else { "${request_uri}" };
        }
    }
    found += left;
    (found, missing)
}

/// Splits the text behind a percent sign into the argument in braces, the code and the rest.
fn code(text: &str) -> (&str, &str, &str) {
    let (argument, rest) = match text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        Some((argument, rest)) => (argument, rest),
        None => ("", text),
    };
    let length = rest.chars().next().map_or(0, char::len_utf8);
    (argument, &rest[..length], &rest[length..])
}

/// Returns what takes the place of a code; `None` if there is nothing.
fn variable(argument: &str, code: &str) -> Option<String> {
    let name = match code {
        "%" => return Some("%".to_owned()),
        "R" => "remote_addr",
        "u" => "remote_user",
        "t" | "T" if argument.contains("%Y-%m-%d") || argument.contains("%F") => "time_iso8601",
        "t" | "T" => "time_local",
        "m" => "method",
        "r" => "uri",
        "q" => "args",
        "Q" => "is_args",
        "s" => "status",
        "l" => "header_content_length",
        "d" => "php_time",
        "f" => "script_filename",
        "n" => "application",
        "e" => return of_environment(argument),
        "o" => return field("response_header_", argument.trim()),
        _ => return None,
    };
    Some(format!("${{{name}}}"))
}

fn of_environment(name: &str) -> Option<String> {
    let name = match name {
        "REMOTE_ADDR" => "remote_addr",
        "REMOTE_PORT" => "remote_port",
        "REMOTE_USER" => "remote_user",
        "REQUEST_METHOD" => "method",
        "REQUEST_URI" => "request_uri",
        "QUERY_STRING" => "args",
        "SERVER_PROTOCOL" => "server_protocol",
        "SERVER_NAME" => "host",
        "SERVER_ADDR" => "server_addr",
        "SERVER_PORT" => "server_port",
        "REQUEST_SCHEME" => "scheme",
        "HTTPS" => "https",
        "CONTENT_LENGTH" => "header_content_length",
        "CONTENT_TYPE" => "header_content_type",
        _ => return field("header_", name.strip_prefix("HTTP_")?),
    };
    Some(format!("${{{name}}}"))
}

fn field(prefix: &str, name: &str) -> Option<String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    Some(format!("${{{prefix}{}}}", name.to_ascii_lowercase().replace('-', "_")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_become_variables() {
        let (found, missing) = line(DEFAULT_FORMAT);
        let expected =
            "${remote_addr} - ${remote_user} ${time_local} \"${method} ${uri}\" ${status}";
        assert_eq!((found.as_str(), missing.len()), (expected, 0));
        let (found, missing) =
            line("%% $x %r%Q%q %f %{mili}d %{kilo}M %{HTTP_USER_AGENT}e %{X-A}o %C%%");
        let expected = "% ${dollar}x ${request_uri} ${script_filename} ${php_time} - ${header_user_agent} \
                        ${response_header_x_a} -%";
        assert_eq!(found, expected);
        assert_eq!(missing, ["%{kilo}M", "%C"]);
    }

    proptest! {
        #[test]
        fn any_format_becomes_a_line(format in "[%{}$rQqdoe\u{0}A-Cé -]{0,40}") {
            line(&format);
        }
    }
}
