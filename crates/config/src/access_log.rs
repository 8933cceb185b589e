//! `access_log`: lines for requests. The document has a log for all requests; a listener and an
//! action can have others in its place.

mod destination;
mod format;
mod php_fpm;

use std::time::Duration;

use crate::condition::Condition;
use crate::error::Error;
use crate::node::{Node, Object};
use crate::upstream::read_status;

pub use self::destination::{
    Destination, JOURNAL_SOCKET, Journal, Syslog, SyslogProtocol, SyslogServer,
};
pub use self::format::{LogFormat, LogValue};
pub use self::php_fpm::{DEFAULT_FPM_FORMAT, FpmFormat, FpmLog, FpmPart, FpmTime};
use crate::key::{Key, Kind, Shape};

/// The value of `access_log`.
pub(crate) const LOGS: Kind = Kind::Either(&[
    Kind::Off,
    Kind::OneOrMany(&Kind::Either(&[Kind::Text, Kind::Object(&ACCESS_LOG)])),
]);

/// An object of `access_log`.
static ACCESS_LOG: Shape = Shape {
    name: "access_log",
    parts: &[
        destination::KEYS,
        &[
            Key::new(
                "format",
                Kind::Either(&[Kind::Text, Kind::Named(&Kind::Text)]),
                "`\"combined\"`, `\"common\"`, `\"vhost_combined\"`, `\"json\"`, a line with \
                 variables, or an object of such strings",
            )
            .default("\"combined\"")
            .details(
                "See [Variables](variables.md); an object is for lines of JSON. `vhost_combined` \
                 is as in Apache. The names are **Howdah's**",
            )
            .unit(),
            Key::new(
                "php_fpm",
                Kind::Object(&php_fpm::PHP_FPM),
                "Lines as in PHP-FPM's `access.log`, in place of `format`",
            )
            .default("none")
            .details("For [web servers](../behind-another-server.md) in front. See below"),
            Key::switch(
                "numbers",
                false,
                "Writes values of lines of JSON that are one variable with a number as numbers",
            )
            .details(
                "Or as `null`; such as `$status` and `$request_time`. The format `json` always \
                 does so",
            ),
            Key::new("absent", Kind::Text, "Text for a variable without a value")
                .default("\"-\"")
                .details("`\"\"` as nginx's `escape=json` has it, also for an empty `$args`"),
            Key::new("if", Kind::Text, "Condition for a request to be logged")
                .default("all")
                .details("As `if` of a [match](routes.md#match)")
                .unit(),
            Key::new(
                "only",
                Kind::Object(&LOG_ONLY),
                "Logs only requests that meet one of these conditions",
            )
            .default("all"),
            Key::new(
                "mask",
                Kind::Texts,
                "Names of query arguments whose values are written as `***`",
            )
            .default("none")
            .details("See below"),
            Key::new(
                "flush",
                Kind::Number,
                "Maximum seconds, up to 60, that a line waits to be written with others",
            )
            .default("0.01")
            .details(
                "nginx's `flush`. 0: each line is written at once, the default under `--unit`",
            ),
        ],
    ],
};

/// `only` of an access log.
static LOG_ONLY: Shape = Shape {
    name: "log_only",
    parts: &[&[
        Key::new("slow", Kind::Number, "Requests that take at least this many seconds")
            .default("none"),
        Key::new(
            "status",
            Kind::OneOrMany(&Kind::Integer(100, 599)),
            "Responses with this status, or between the lowest and the highest of an array",
        )
        .default("none"),
        Key::new("sample", Kind::Number, "A random part of the requests: 0.01 is one of a hundred")
            .default("none"),
    ]],
};

/// An access log: the destination and format of its lines, and the requests that have a line.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLog {
    /// Destination of the lines.
    pub destination: Destination,
    /// The format of a line.
    pub format: LogFormat,
    /// Text for a variable without a value.
    pub absent: String,
    /// Condition for a line; all requests have one if `None`.
    pub condition: Option<Condition>,
    /// Restriction to some of the requests that meet the condition.
    pub only: Option<Only>,
    /// Names of query arguments whose values are not shown.
    pub mask: Vec<String>,
    /// Maximum time that a line waits to be written together with others.
    pub flush: Duration,
}

/// The requests that have a line: those that meet at least one of the members.
#[derive(Debug, Clone, PartialEq)]
pub struct Only {
    /// Requests that take at least this long.
    pub slow: Option<Duration>,
    /// Responses with a status in this range, bounds included.
    pub status: Option<(u16, u16)>,
    /// A random part of the requests, above 0 and up to 1.
    pub sample: Option<f64>,
}

/// The usual text for a variable without a value.
const ABSENT: &str = "-";

/// Upper limit of `flush` in seconds.
const MAX_FLUSH: f64 = 60.0;

impl AccessLog {
    /// Reads a file name, an object, or an array of them; `false` is no log.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<AccessLog>, Error> {
        const ALLOWED: &str = "a file name, an object, an array of them, or false";
        if node.value.as_bool() == Some(false) {
            return Ok(Vec::new());
        }
        if !node.value.is_array() {
            return AccessLog::read(node, ALLOWED).map(|log| vec![log]);
        }
        let logs: Vec<_> =
            node.elements()?.map(|log| AccessLog::read(&log, "a file name or an object")).collect();
        if logs.is_empty() {
            Err(node.invalid("must not be empty").with_hint(
                "write false for no \
            log",
            ))
        } else {
            logs.into_iter().collect()
        }
    }

    fn read(node: &Node<'_>, allowed: &str) -> Result<AccessLog, Error> {
        if node.value.is_string() {
            return Ok(AccessLog {
                destination: Destination::read_file(node)?,
                format: LogFormat::combined(node)?,
                absent: ABSENT.to_owned(),
                condition: None,
                only: None,
                mask: Vec::new(),
                flush: node.scope.defaults.access_log_flush,
            });
        }
        if !node.value.is_object() {
            return Err(node.wrong_type(allowed));
        }
        let object = node.object(&ACCESS_LOG)?;
        let numbers = object.switch("numbers")?;
        let text = object.read("format", |format| LogFormat::read(format, numbers))?;
        let format = match (text, object.read("php_fpm", FpmLog::read)?) {
            (None, None) => LogFormat::combined(node)?,
            (Some(format), None) => format,
            (None, Some(log)) => LogFormat::PhpFpm(log),
            (Some(_), Some(_)) => {
                let node = object.optional("php_fpm").unwrap_or(*node);
                return Err(node.invalid("cannot be used with \"format\""));
            }
        };
        if let (true, LogFormat::Text(_) | LogFormat::PhpFpm(_), Some(node)) =
            (numbers, &format, object.optional("numbers"))
        {
            let error = node.invalid("is for lines of JSON");
            return Err(error.with_hint("write an object as \"format\", or \"json\""));
        }
        let log = AccessLog {
            destination: Destination::read(node, &object)?,
            format,
            absent: object.read("absent", read_absent)?.unwrap_or_else(|| ABSENT.to_owned()),
            condition: object.read("if", Condition::read)?,
            only: object.read("only", Only::read)?,
            mask: object.read("mask", read_mask)?.unwrap_or_default(),
            flush: seconds(&object, "flush", 0.0, MAX_FLUSH)?
                .unwrap_or(node.scope.defaults.access_log_flush),
        };
        object.end()?;
        Ok(log)
    }
}

fn read_absent(node: &Node<'_>) -> Result<String, Error> {
    let text = node.string()?;
    if text.chars().any(char::is_control) {
        return Err(node.invalid("must not contain control characters"));
    }
    Ok(text.to_owned())
}

impl Only {
    fn read(node: &Node<'_>) -> Result<Only, Error> {
        let object = node.object(&LOG_ONLY)?;
        let only = Only {
            slow: seconds(&object, "slow", 0.0, f64::from(i32::MAX / 1000))?,
            status: object.read("status", read_status)?,
            sample: object.read("sample", read_sample)?,
        };
        if only == (Only { slow: None, status: None, sample: None }) {
            object.end()?;
            return Err(node.invalid("must have \"slow\", \"status\" or \"sample\""));
        }
        object.end()?;
        Ok(only)
    }
}

/// Reads a number of seconds, which may have a fraction.
fn seconds(
    object: &Object<'_>,
    key: &'static str,
    low: f64,
    high: f64,
) -> Result<Option<Duration>, Error> {
    object.read(key, |node| {
        let value = node.value.as_f64().ok_or_else(|| node.wrong_type("a number of seconds"))?;
        if (low..=high).contains(&value) {
            Ok(Duration::from_secs_f64(value))
        } else {
            Err(node
                .invalid(format_args!("must be between {low} and {high} seconds, but is {value}")))
        }
    })
}

fn read_sample(node: &Node<'_>) -> Result<f64, Error> {
    let part = node.value.as_f64().ok_or_else(|| node.wrong_type("a number"))?;
    if part > 0.0 && part <= 1.0 {
        Ok(part)
    } else {
        Err(node
            .invalid(format_args!("must be above 0 and at most 1, but is {part}"))
            .with_hint("0.01 is one request of a hundred"))
    }
}

fn read_mask(node: &Node<'_>) -> Result<Vec<String>, Error> {
    let read = |name: Node<'_>| match name.text()? {
        text if text.contains(['=', '&', '?', '#', '[']) => {
            Err(name.invalid("must be the name of an argument, such as \"token\""))
        }
        text => Ok(text.to_owned()),
    };
    node.strings()?.map(read).collect()
}
