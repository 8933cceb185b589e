//! `return` and `ping` of an action: responses that the server generates.

use howdah_template::Template;

use crate::error::Error;
use crate::key::{Key, Kind};
use crate::node::Object;
use crate::target::Target;
use crate::templates;

/// Keys of an action with `return`.
pub(crate) const RETURN_KEYS: &[Key] = &[
    Key::new(
        "return",
        Kind::Integer(0, 999),
        "Responds with this status; 444 closes the connection",
    )
    .details(
        "Without `body`, codes from 400 to 599 have an error page, others an empty body. \
         **Howdah:** 444 without `body` closes the connection without a response, as in nginx; \
         with HTTP/2, it resets the stream. `error_pages` have no effect on it, and the access \
         log has the status 444. With `--unit` it is a status like others",
    )
    .kind()
    .unit(),
    Key::new("location", Kind::Text, "The field `Location`, with variables")
        .default("none")
        .details(
            "See [Variables](variables.md); not for errors. Characters that a URI cannot contain \
             are percent-encoded, unless the text is encoded already. `$request_uri` and `$args` \
             are inserted as they were sent. The value of each other variable is encoded by \
             itself, `?`, `#` and `%` included, so that a path stays a path: \
             `https://new.example$uri?$args` for `/a%3Fb?c` is `https://new.example/a%3Fb?c`. A \
             `$header_NAME`, `$arg_NAME` or `$cookie_NAME` that is the whole `location` is taken \
             for a URL",
        )
        .beside("return")
        .unit(),
    Key::switch("keep_query", false, "Adds the query of the request to the `location`")
        .beside("return"),
    Key::new("body", Kind::Text, "Text of the body, with variables")
        .default("none")
        .details(
            "See [Variables](variables.md); nginx's `return 200 \"ok\"`. Not with a status that \
             has no body (1xx, 204, 205, 304). It is `text/plain`, unless \
             [`response_headers`](#options-of-all-actions) set another `Content-Type`",
        )
        .beside("return"),
];

/// Keys of an action with `ping`.
pub(crate) const PING_KEYS: &[Key] = &[
    Key::new(
        "ping",
        Kind::Text,
        "Responds with a fixed text while `\"applications/NAME\"` accepts requests",
    )
    .details(
        "503 if the application cannot run. Neither `status` nor `ping` accepts applications of \
         type `fastcgi`, whose state only their own server knows",
    )
    .kind(),
    Key::new("response", Kind::Text, "The text")
        .default("\"pong\"")
        .details("PHP-FPM's `ping.response`")
        .beside("ping"),
];

/// The response to a `ping` while the application accepts requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// The application.
    pub application: String,
    /// The body of the response.
    pub response: String,
}

/// Status in the access log of a request that is not answered, as in nginx.
pub const UNANSWERED: u16 = 444;

/// A response without content, with a text, or with an error page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    /// The status code, from 0 to 999 as in Unit.
    pub status: u16,
    /// The `Location` field.
    pub location: Option<Template>,
    /// True if the query of the request is added to the location.
    pub keep_query: bool,
    /// The body; `None` for an error page with a status from 400 to 599, otherwise an empty one.
    pub body: Option<Template>,
    /// True if no response is sent: the connection is closed, or the stream reset.
    pub is_unsent: bool,
}

impl Return {
    pub(crate) fn read(object: &Object<'_>) -> Result<Return, Error> {
        let node = object.required("return")?;
        let status = node.integer(0..=999)?;
        let location = object.read("location", templates::read)?;
        // In range by the line above.
        let status = u16::try_from(status).unwrap_or(500);
        let keep_query = object.switch("keep_query")?;
        if let (true, false, Some(node)) =
            (keep_query, object.has("location"), object.optional("keep_query"))
        {
            return Err(node.invalid("has no effect without \"location\""));
        }
        let body = object.read("body", |node| {
            let body = templates::read(node)?;
            match status {
                100..=199 | 204 | 205 | 304 => {
                    Err(node.invalid(format_args!("must not stand beside status {status}")))
                }
                _ => Ok(body),
            }
        })?;
        // With a text, nginx sends the status, too.
        let is_unsent = status == UNANSWERED && body.is_none() && node.scope.defaults.closes_on_444;
        Ok(Return { status, location, keep_query, body, is_unsent })
    }
}

impl Ping {
    pub(crate) fn read(object: &Object<'_>) -> Result<Ping, Error> {
        let application = Target::read_application(&object.required("ping")?)?;
        let response = object.text("response")?.unwrap_or_else(|| "pong".to_owned());
        Ok(Ping { application, response })
    }
}
