//! `response_headers` of an action: fields that are set in responses or removed from them.

use howdah_template::Template;
use howdah_text::token;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;
use crate::templates;

/// An object in `response_headers`.
pub(crate) static RESPONSE_HEADER: Shape = Shape {
    name: "response_header",
    parts: &[&[
        Key::new(
            "value",
            Kind::Either(&[Kind::Text, Kind::Null]),
            "The value, or `null` to remove the field",
        )
        .required(),
        Key::switch("always", false, "Applies to responses of every status"),
    ]],
};

/// A response header field that is set or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The name, a token.
    pub name: String,
    /// The value, whose literal parts have no control characters. `None` removes the field.
    pub value: Option<Template>,
    /// True if the rule applies to every status; otherwise to those from 200 to 399.
    pub always: bool,
}

impl ResponseHeader {
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<ResponseHeader>, Error> {
        node.members()?.map(|(name, value)| ResponseHeader::read(name, &value)).collect()
    }

    fn read(name: &str, node: &Node<'_>) -> Result<ResponseHeader, Error> {
        /// Fields of the framing, which only the server can know.
        const FRAMING: [&str; 3] = ["connection", "content-length", "transfer-encoding"];
        if !token::is_token(name) {
            return Err(node.invalid("must be the name of a header field"));
        }
        if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(node.invalid("must not be set, as only the server knows it"));
        }
        let name = name.to_owned();
        if !node.value.is_object() {
            return Ok(ResponseHeader { name, value: Self::read_value(node)?, always: false });
        }
        let object = node.object(&RESPONSE_HEADER)?;
        let value = Self::read_value(&object.required("value")?)?;
        let always = object.switch("always")?;
        object.end()?;
        Ok(ResponseHeader { name, value, always })
    }

    fn read_value(node: &Node<'_>) -> Result<Option<Template>, Error> {
        match node.value {
            serde_json::Value::Null => Ok(None),
            serde_json::Value::String(text) if text.chars().any(char::is_control) => {
                Err(node.invalid("must not contain control characters"))
            }
            serde_json::Value::String(_) => templates::read(node).map(Some),
            _ => Err(node.wrong_type("a string, or null to take the field out")),
        }
    }
}
