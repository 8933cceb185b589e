//! Header fields of requests to other servers: `headers` of an upstream, `request_headers` of an
//! action.

use howdah_template::Template;
use howdah_text::token::is_token;

use crate::error::Error;
use crate::node::Node;
use crate::templates;

/// Names of fields with their values; `None` removes a field.
pub type RequestHeaders = Vec<(String, Option<Template>)>;

/// Fields of the framing or of the connection.
const RESERVED: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Reads `headers` of an upstream, where `host` is another key.
pub(crate) fn read(node: &Node<'_>) -> Result<RequestHeaders, Error> {
    read_with(node, |value| {
        Err(value
            .invalid("is a field that the server writes itself")
            .with_hint("\"host\" sets the field Host"))
    })
}

/// Reads `request_headers` of an action, which may set `Host`.
pub(crate) fn read_of_action(node: &Node<'_>) -> Result<RequestHeaders, Error> {
    read_with(node, |value| {
        if value.value.is_null() {
            Err(value.invalid(
                "cannot be removed, as \
        every request has one",
            ))
        } else {
            Ok(())
        }
    })
}

fn read_with(
    node: &Node<'_>,
    check_host: impl Fn(&Node<'_>) -> Result<(), Error>,
) -> Result<RequestHeaders, Error> {
    let mut headers = Vec::new();
    for (name, value) in node.members()? {
        if !is_token(name) {
            return Err(value.invalid("must have a name that is the name of a header field"));
        }
        if RESERVED.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
            return Err(value.invalid("is a field that the server writes itself"));
        }
        if name.eq_ignore_ascii_case("host") {
            check_host(&value)?;
        }
        let value = if value.value.is_null() { None } else { Some(templates::read(&value)?) };
        headers.push((name.to_owned(), value));
    }
    Ok(headers)
}
