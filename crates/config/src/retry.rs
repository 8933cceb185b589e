//! `retry` of upstreams and actions: which requests another server gets after a failure.

use std::time::Duration;

use howdah_text::token::is_token;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object};

/// A failure in `on`.
const CONDITION: Kind = Kind::Either(&[
    Kind::Word(&["error", "timeout", "invalid_response", "4xx", "5xx"]),
    Kind::Integer(400, 599),
]);

/// `retry` of an upstream or an action.
pub(crate) static RETRY: Shape = Shape {
    name: "retry",
    parts: &[&[
        Key::new(
            "on",
            Kind::OneOrMany(&CONDITION),
            "Failures after which another server gets the request",
        )
        .default("`\"error\"`, and for HTTP `\"timeout\"`")
        .details(
            "`\"error\"` (the connection ended before the response), `\"timeout\"` (of `send` or \
             `first_byte`), `\"invalid_response\"` (a head that is invalid or incomplete; nginx's \
             `invalid_header`), a status from 400 to 599 such as `503`, or `\"5xx\"` and \
             `\"4xx\"`. An empty array is none",
        ),
        Key::new(
            "methods",
            Kind::Texts,
            "Methods whose requests may be sent twice, also with a body",
        )
        .default("idempotent ones")
        .details(
            "`[\"GET\", \"HEAD\", \"POST\"]` (nginx's `non_idempotent`). A body that is \
             [streamed](#proxy) is never sent twice",
        ),
        Key::new(
            "timeout",
            Kind::Seconds(0),
            "Seconds from the start of the first attempt in which another one may begin",
        )
        .default("none")
        .details("`proxy_next_upstream_timeout`"),
    ]],
};

/// Requests that another server gets. A request for which no connection was made is sent to another
/// server in any case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retry {
    /// Failures after which another server is asked; if `None`, those of the protocol.
    pub on: Option<RetryConditions>,
    /// Methods whose requests may be repeated, also with a body; if `None`, the idempotent ones,
    /// without a body.
    pub methods: Option<Vec<String>>,
    /// Time from the start of the first attempt in which another one may begin.
    pub timeout: Option<Duration>,
}

/// Failures of a server that has got a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetryConditions {
    /// The connection ended before a byte of the response.
    pub error: bool,
    /// The response did not begin in time, or the request was not taken in time.
    pub timeout: bool,
    /// The head of the response is invalid or incomplete.
    pub invalid_response: bool,
    /// Statuses of responses: lowest and highest.
    pub statuses: Vec<(u16, u16)>,
}

impl Retry {
    pub(crate) fn read(node: &Node<'_>) -> Result<Retry, Error> {
        let object = node.object(&RETRY)?;
        let retry = Retry {
            on: object.read("on", RetryConditions::read)?,
            methods: object.read("methods", read_methods)?,
            timeout: read_timeout(&object)?,
        };
        object.end()?;
        Ok(retry)
    }

    /// Returns true if another server is asked after a response with this status.
    pub fn is_on_status(&self, status: u16) -> bool {
        let is_within = |(low, high): &(u16, u16)| (*low..=*high).contains(&status);
        self.on.as_ref().is_some_and(|on| on.statuses.iter().any(is_within))
    }
}

impl RetryConditions {
    fn read(node: &Node<'_>) -> Result<RetryConditions, Error> {
        const HINT: &str = "write \"error\", \"timeout\", \"invalid_response\", or a status such \
                            as 503 or \"5xx\"";
        let mut on = RetryConditions::default();
        for condition in node.one_or_many() {
            if condition.value.is_number() {
                let status = condition.integer(400..=599)?;
                let status = u16::try_from(status).unwrap_or(599); // in range by the line above
                on.statuses.push((status, status));
                continue;
            }
            if !condition.value.is_string() {
                return Err(condition.wrong_type("a string or a status").with_hint(HINT));
            }
            match condition.string()? {
                "error" => on.error = true,
                "timeout" => on.timeout = true,
                "invalid_response" => on.invalid_response = true,
                "4xx" => on.statuses.push((400, 499)),
                "5xx" => on.statuses.push((500, 599)),
                other => {
                    let error = condition.invalid("is no failure of a server");
                    let hint = nginx_hint(other).unwrap_or_else(|| HINT.to_owned());
                    return Err(error.with_hint(hint));
                }
            }
        }
        Ok(on)
    }
}

/// Returns the equivalent of a condition of nginx's `proxy_next_upstream`.
fn nginx_hint(word: &str) -> Option<String> {
    match word {
        "invalid_header" => Some("write \"invalid_response\"".to_owned()),
        "non_idempotent" => {
            Some("write \"methods\": [\"GET\", \"HEAD\", \"POST\"] beside \"on\"".to_owned())
        }
        "off" => Some("write an empty array".to_owned()),
        word => {
            let status = word.strip_prefix("http_")?.parse::<u16>().ok()?;
            (400..600).contains(&status).then(|| format!("write the number {status}"))
        }
    }
}

fn read_methods(node: &Node<'_>) -> Result<Vec<String>, Error> {
    let read = |method: Node<'_>| match method.string()? {
        "CONNECT" => Err(method.invalid("cannot be repeated, as it is never passed on")),
        name if is_token(name) && name.bytes().all(|byte| !byte.is_ascii_lowercase()) => {
            Ok(name.to_owned())
        }
        _ => Err(method.invalid("must be a method in upper case, such as \"POST\"")),
    };
    node.one_or_many().map(read).collect()
}

fn read_timeout(object: &Object<'_>) -> Result<Option<Duration>, Error> {
    let timeout = object.seconds("timeout")?;
    Ok(timeout.filter(|timeout| !timeout.is_zero()))
}
