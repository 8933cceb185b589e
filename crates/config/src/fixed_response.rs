//! `return` and `ping` of an action: responses that the server generates.

use howdah_template::Template;

use crate::error::Error;
use crate::node::Object;
use crate::target::Target;
use crate::templates;

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
    /// True if nothing is sent: the connection is closed, or the stream reset.
    pub is_unsent: bool,
}

impl Return {
    pub(crate) fn read(object: &Object<'_>) -> Result<Return, Error> {
        let node = object.required("return")?;
        let status = node.integer(0..=999)?;
        let location = object.read("location", templates::read)?;
        // In range by the line above.
        let status = u16::try_from(status).unwrap_or(500);
        let keep_query = object.boolean("keep_query")?.unwrap_or(false);
        if let (true, false, Some(node)) =
            (keep_query, object.has("location"), object.optional("keep_query"))
        {
            return Err(node.invalid("means nothing without \"location\""));
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
