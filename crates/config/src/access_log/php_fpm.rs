//! A format of PHP-FPM's access log (`access.format`), with the messages with which PHP-FPM refuses
//! one.

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// `php_fpm` of an access log.
pub(super) static PHP_FPM: Shape = Shape {
    name: "php_fpm_log",
    parts: &[&[
        Key::new("format", Kind::Text, "A line with the codes of PHP-FPM's `access.format`")
            .default("`\"%R - %u %t \\\"%m %r\\\" %s\"`"),
        Key::new("suppress_paths", Kind::Texts, "Paths of scripts (`SCRIPT_NAME`) without a line")
            .default("none")
            .details(
                "PHP-FPM's `access.suppress_path[]`: if the method is `GET` or `HEAD`, there is no \
                 query and no body, and the status is 200 to 299",
            ),
    ]],
};

/// The format of PHP-FPM without `access.format`.
pub const DEFAULT_FPM_FORMAT: &str = "%R - %u %t \"%m %r\" %s";

/// A line of PHP-FPM's access log, and the requests without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FpmLog {
    /// The format of a line.
    pub format: FpmFormat,
    /// Paths of scripts whose plain requests have no line.
    pub suppressed: Vec<String>,
}

impl FpmLog {
    pub(super) fn read(node: &Node<'_>) -> Result<FpmLog, Error> {
        let object = node.object(&PHP_FPM)?;
        let read =
            |node: &Node<'_>| FpmFormat::parse(node.text()?).map_err(|reason| node.invalid(reason));
        let format = match object.read("format", read)? {
            Some(format) => format,
            None => FpmFormat::parse(DEFAULT_FPM_FORMAT).map_err(|reason| node.invalid(reason))?,
        };
        let suppressed = object.read("suppress_paths", |node| {
            node.strings()?.map(|path| path.text().map(str::to_owned)).collect()
        })?;
        object.end()?;
        Ok(FpmLog { format, suppressed: suppressed.unwrap_or_default() })
    }
}

/// A compiled format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FpmFormat(Vec<FpmPart>);

/// A part of a line. The comments have PHP-FPM's codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FpmPart {
    /// `%l`: length of the body in bytes, as the request announces it.
    BodyLength,
    /// `%{seconds}d`, `%{milliseconds}d`, `%{microseconds}d`: run time of the script.
    Duration(FpmTime),
    /// `%T`, `%{FORMAT}T`: local time of the line, in a format of `strftime`.
    Ended(Option<String>),
    /// Text.
    Literal(String),
    /// `%{bytes}M`, `%{kilobytes}M`, `%{megabytes}M`: peak memory of the script in this unit.
    Memory(u64),
    /// `%m`: method.
    Method,
    /// `%{NAME}e`: parameter of the web server.
    Parameter(String),
    /// `%P`: process id of the parent of all processes.
    Parent,
    /// `%r`: path of the request as the web server has passed it (`SCRIPT_NAME`).
    Path,
    /// `%R`: address of the web server.
    Peer,
    /// `%n`: name of the pool.
    Pool,
    /// `%p`: process id of the worker.
    Process,
    /// `%C`, `%{user}C`, `%{system}C`: processor time in percent of the run time.
    Processor,
    /// `%q`: query.
    Query,
    /// `%Q`: `?` if there is a query.
    QueryMark,
    /// `%{NAME}o`: field of the response.
    ResponseField(String),
    /// `%f`: file of the script.
    Script,
    /// `%t`, `%{FORMAT}t`: local time at which the request began, in a format of `strftime`.
    Started(Option<String>),
    /// `%s`: status.
    Status,
    /// `%u`: user of the request.
    User,
}

/// Unit of a run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FpmTime {
    /// Seconds, with three digits behind the point.
    Seconds,
    /// Milliseconds, with three digits behind the point.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

impl FpmFormat {
    /// Reads a format. Error: PHP-FPM's message.
    pub fn parse(text: &str) -> Result<FpmFormat, String> {
        let (mut parts, mut left) = (Vec::new(), text);
        while let Some((literal, special)) = left.split_once('%') {
            push(&mut parts, literal);
            left = special;
            let mut argument = "";
            while let Some(braced) = left.strip_prefix('{') {
                match braced.split_once('}') {
                    Some((found, rest)) if !rest.is_empty() => (argument, left) = (found, rest),
                    _ => return Err("missing closing embrace in the access.format".to_owned()),
                }
            }
            // A percent sign at the end is not written.
            let Some(code) = left.chars().next() else { break };
            left = &left[code.len_utf8()..];
            match code {
                '%' if argument.is_empty() => push(&mut parts, "%"),
                _ => parts.push(part(code, argument)?),
            }
        }
        push(&mut parts, left);
        Ok(FpmFormat(parts))
    }

    /// Returns the parts of a line.
    pub fn parts(&self) -> &[FpmPart] {
        &self.0
    }
}

/// Appends text to the parts.
fn push(parts: &mut Vec<FpmPart>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(FpmPart::Literal(last)) => last.push_str(text),
        _ => parts.push(FpmPart::Literal(text.to_owned())),
    }
}

/// Returns the part of a code with the text in braces in front of it.
fn part(code: char, argument: &str) -> Result<FpmPart, String> {
    let word = argument.to_ascii_lowercase();
    let wrong = |words: &str| {
        Err(format!("only {words} are allowed as a modifier for %{code} ('{argument}')"))
    };
    let format = (!argument.is_empty()).then(|| argument.to_owned());
    Ok(match code {
        'C' => match word.as_str() {
            "" | "total" | "user" | "system" => FpmPart::Processor,
            _ => return wrong("'total', 'user' or 'system'"),
        },
        'd' => FpmPart::Duration(match word.as_str() {
            "" | "seconds" => FpmTime::Seconds,
            "milliseconds" | "milli" | "miliseconds" | "mili" => FpmTime::Milliseconds,
            "microseconds" | "micro" => FpmTime::Microseconds,
            _ => {
                return wrong("'seconds', 'milli', 'milliseconds', 'micro' or 'microseconds'");
            }
        }),
        'e' if argument.is_empty() => {
            let text = "the name of the environment variable must be set between embraces for %e";
            return Err(text.to_owned());
        }
        'e' => FpmPart::Parameter(argument.to_owned()),
        'M' => FpmPart::Memory(match word.as_str() {
            "" | "bytes" => 1,
            "kilobytes" | "kilo" => 1 << 10,
            "megabytes" | "mega" => 1 << 20,
            _ => return wrong("'bytes', 'kilo', 'kilobytes', 'mega' or 'megabytes'"),
        }),
        'o' if argument.is_empty() => {
            return Err("the name of the header must be set between embraces for %o".to_owned());
        }
        'o' => FpmPart::ResponseField(argument.to_owned()),
        't' => FpmPart::Started(format),
        'T' => FpmPart::Ended(format),
        _ => {
            let part = plain(code)
                .ok_or_else(|| format!("Invalid token in the access.format (%{code})"))?;
            if format.is_some() {
                return Err(format!("embrace is not allowed for modifier %{code}"));
            }
            part
        }
    })
}

/// Returns the part of a code that has nothing in front of it.
fn plain(code: char) -> Option<FpmPart> {
    Some(match code {
        'f' => FpmPart::Script,
        'l' => FpmPart::BodyLength,
        'm' => FpmPart::Method,
        'n' => FpmPart::Pool,
        'p' => FpmPart::Process,
        'P' => FpmPart::Parent,
        'q' => FpmPart::Query,
        'Q' => FpmPart::QueryMark,
        'r' => FpmPart::Path,
        'R' => FpmPart::Peer,
        's' => FpmPart::Status,
        'u' => FpmPart::User,
        '%' => FpmPart::Literal("%".to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_are_read_as_by_php_fpm() {
        let text = |text: &str| FpmPart::Literal(text.to_owned());
        let format = FpmFormat::parse("%R - %u \"%m %r%Q%q\" 100%% %{Mega}M%{mili}d%").unwrap();
        let expected = [
            FpmPart::Peer,
            text(" - "),
            FpmPart::User,
            text(" \""),
            FpmPart::Method,
            text(" "),
            FpmPart::Path,
            FpmPart::QueryMark,
            FpmPart::Query,
            text("\" 100% "),
            FpmPart::Memory(1 << 20),
            FpmPart::Duration(FpmTime::Milliseconds),
        ];
        assert_eq!(format.parts(), expected);
        let parameter = FpmFormat::parse("%{A}e%{%F %T}t%{x}{B}o").unwrap();
        let expected = [
            FpmPart::Parameter("A".to_owned()),
            FpmPart::Started(Some("%F %T".to_owned())),
            FpmPart::ResponseField("B".to_owned()),
        ];
        assert_eq!(parameter.parts(), expected);
    }

    #[test]
    fn wrong_formats_are_refused_in_php_fpms_words() {
        for (format, message) in [
            ("%x", "Invalid token in the access.format (%x)"),
            ("%{a", "missing closing embrace in the access.format"),
            ("%{a}", "missing closing embrace in the access.format"),
            ("%{a}f", "embrace is not allowed for modifier %f"),
            ("%{a}%", "embrace is not allowed for modifier %%"),
            ("%e", "the name of the environment variable must be set between embraces for %e"),
            ("%o", "the name of the header must be set between embraces for %o"),
            ("%{a}C", "only 'total', 'user' or 'system' are allowed as a modifier for %C ('a')"),
        ] {
            assert_eq!(FpmFormat::parse(format), Err(message.to_owned()), "{format}");
        }
    }

    proptest! {
        #[test]
        fn any_format_is_read_or_refused(format in "[%{}$rQqdoe\u{0}A-Cé -]{0,40}") {
            let _ = FpmFormat::parse(&format);
        }
    }
}
