//! The log as lines of JSON, for collectors of containers' output:
//! `{"time":"2026-11-20T15:04:05.678Z","level":"notice","pid":7,"thread":7,"message":"..."}`.
//!
//! A record about a site has `site`, `application` and `request` as well, as far as they are known.
//!
//! A record of several lines is one line. All control characters are escaped, those of Latin-1 as
//! well, so that a record can neither look like two nor control a terminal.

use std::ffi::OsStr;
use std::fmt::Write;
use std::time::Duration;

use super::about::Subject;
use super::level::Level;

/// Variable with the format of the log: `json`, or `text` (default).
pub const FORMAT_VARIABLE: &str = "HOWDAH_LOG_FORMAT";

/// The value of [`FORMAT_VARIABLE`] for this format.
pub const FORMAT: &str = "json";

/// Returns true if a value of [`FORMAT_VARIABLE`] chooses this format.
pub(super) fn is_chosen(variable: Option<&OsStr>) -> bool {
    variable.is_some_and(|value| value == FORMAT)
}

/// Returns a record of a process and thread as a line. `time` is the time since 1970.
pub(super) fn line(
    time: Duration,
    level: Level,
    [pid, thread]: [u32; 2],
    subject: Option<&dyn Subject>,
    message: &str,
) -> String {
    let mut line = String::with_capacity(message.len() + 128);
    line.push_str("{\"time\":\"");
    howdah_text::date::rfc3339(time, &mut line);
    let level = level.as_str();
    let written = write!(line, "\",\"level\":\"{level}\",\"pid\":{pid},\"thread\":{thread},");
    debug_assert!(written.is_ok());
    if let Some(subject) = subject {
        let request = subject.request_id();
        let members = [
            ("site", Some(subject.site())),
            ("application", subject.application()),
            ("request", request.as_deref()),
        ];
        for (name, value) in members {
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            line.extend(["\"", name, "\":\""]);
            howdah_text::json::escape(value, &mut line);
            line.push_str("\",");
        }
    }
    line.push_str("\"message\":\"");
    howdah_text::json::escape(message.trim_ascii_end(), &mut line);
    line.push_str("\"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_whatever_the_message_has() {
        let time = Duration::from_millis(1_000_000_000_001);
        let message = "a \"b\" \\ é\n{\"level\":\"alert\"}\t\r\u{1b}[2J\u{7f}\u{9b}\u{0}\n";
        let line = line(time, Level::Notice, [7, 8], None, message);
        let expected = concat!(
            r#"{"time":"2001-09-09T01:46:40.001Z","level":"notice","pid":7,"thread":8,"message":"#,
            r#""a \"b\" \\ é\n{\"level\":\"alert\"}\t\u000d\u001b[2J\u007f\u009b\u0000"}"#,
        );
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn a_record_about_a_site_names_it_as_escaped_text() {
        let about = crate::log::OfApplication("a\",\"level\":\"\n");
        let line = line(Duration::ZERO, Level::Error, [7, 8], Some(&about), "m");
        let name = r#"a\",\"level\":\"\n"#;
        let expected =
            format!(r#""thread":8,"site":"{name}","application":"{name}","message":"m""#);
        assert!(line.contains(&expected), "{line}");
    }

    #[test]
    fn only_the_value_json_chooses_the_format() {
        assert!(is_chosen(Some(OsStr::new("json"))));
        for other in ["", "text", "JSON", "json "] {
            assert!(!is_chosen(Some(OsStr::new(other))), "{other}");
        }
        assert!(!is_chosen(None));
    }
}
