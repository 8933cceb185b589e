//! `response_headers` of an action: fields that are set in responses, added to them, edited or
//! removed from them.

use howdah_template::{Substitution, Template};
use howdah_text::token;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, quoted};
use crate::templates;

/// An object in `response_headers`.
pub(crate) static RESPONSE_HEADER: Shape = Shape {
    name: "response_header",
    parts: &[&[
        Key::new(
            "value",
            Kind::Either(&[Kind::Text, Kind::Array(&Kind::Text), Kind::Null]),
            "The value, an array for several fields of the name, or `null` to remove the field",
        )
        .required(),
        Key::new(
            "mode",
            Kind::Word(MODES),
            "What becomes of the response's own fields of the name: `set` replaces them, `add` \
             adds a field to them, `append` adds the value to the first of them after a comma, \
             `default` has an effect only if there is none",
        )
        .default("\"set\"")
        .details(
            "`add` is nginx's `add_header` and Apache's `Header add`, `append` Apache's \
             `append`, `default` its `setifempty`. A `null` has no `mode`",
        ),
        Key::new(
            "edit",
            Kind::Matching("^~"),
            "A regular expression after `~`; what it matches in each of the response's own \
             fields of the name is replaced by `value`, with `$1` to `$9` for its groups",
        )
        .details(
            "Apache's `Header edit`. In place of a `mode`. A field without a match stays as it \
             is; results over 64 KB are not used",
        ),
        Key::switch("all", false, "Replaces each match of `edit`, not only the first of a field")
            .details("Apache's `edit*`; up to 1000 in a field")
            .beside("edit"),
        Key::switch("always", false, "Applies to responses of every status"),
    ]],
};

/// Types of a member of `response_headers`.
pub(crate) static MEMBER: Kind = Kind::Either(&[
    Kind::Text,
    Kind::Null,
    Kind::Object(&RESPONSE_HEADER),
    Kind::Array(&Kind::Either(&[Kind::Text, Kind::Object(&RESPONSE_HEADER)])),
]);

/// A change of the response header fields of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The name, a token.
    pub name: String,
    /// The change.
    pub change: HeaderChange,
    /// True if the rule applies to every status; otherwise to those from 200 to 399.
    pub always: bool,
}

/// The effect on the fields of a name. Literal parts of values have no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderChange {
    /// Further fields.
    Add(Vec<Template>),
    /// Values at the end of the first field, or a new one.
    Append(Vec<Template>),
    /// Fields, unless the response has one.
    Default(Vec<Template>),
    /// Replaces the first match in each field, or all matches.
    Edit {
        /// Expression and replacement.
        substitution: Substitution,
        /// True for all matches in a field.
        all: bool,
    },
    /// No field.
    Remove,
    /// Fields in place of those of the response.
    Set(Vec<Template>),
}

const MODES: &[&str] = &["add", "append", "default", "set"];

impl ResponseHeader {
    /// Reads all members, in order.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<ResponseHeader>, Error> {
        let mut all = Vec::new();
        for (name, value) in node.members()? {
            ResponseHeader::read(name, &value, &mut all)?;
        }
        Ok(all)
    }

    /// Returns the value, if the change sets the fields of the name to a single constant one.
    pub fn constant(&self) -> Option<&str> {
        match &self.change {
            HeaderChange::Set(values) => match values.as_slice() {
                [value] => value.constant(),
                _ => None,
            },
            _ => None,
        }
    }

    fn read(name: &str, node: &Node<'_>, all: &mut Vec<ResponseHeader>) -> Result<(), Error> {
        /// Fields of the framing, which only the server can know.
        const FRAMING: [&str; 3] = ["connection", "content-length", "transfer-encoding"];
        if !token::is_token(name) {
            return Err(node.invalid("must be the name of a header field"));
        }
        if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(node.invalid("must not be set, as only the server knows it"));
        }
        let mut push = |change, always| {
            all.push(ResponseHeader { name: name.to_owned(), change, always });
        };
        let is_list_of_changes =
            node.value.as_array().is_some_and(|list| list.iter().any(serde_json::Value::is_object));
        if is_list_of_changes {
            for element in node.elements()? {
                let (change, always) = HeaderChange::read_object(&element)?;
                push(change, always);
            }
        } else if node.value.is_object() {
            let (change, always) = HeaderChange::read_object(node)?;
            push(change, always);
        } else {
            push(HeaderChange::read_value(node, "set")?, false);
        }
        Ok(())
    }
}

impl HeaderChange {
    /// Returns true if fields of the name that the response has do not reach clients as they are.
    pub fn hides(&self) -> bool {
        matches!(self, HeaderChange::Edit { .. } | HeaderChange::Remove | HeaderChange::Set(_))
    }

    fn read_object(node: &Node<'_>) -> Result<(HeaderChange, bool), Error> {
        let object = node.object(&RESPONSE_HEADER)?;
        let value = object.required("value")?;
        let mode = object.read("mode", read_mode)?;
        let always = object.switch("always")?;
        let edited = Self::read_edit(&object, &value, mode.is_some())?;
        if mode.is_some() && value.value.is_null() {
            return Err(value.invalid("removes the field; it has no \"mode\""));
        }
        object.end()?;
        let change = match edited {
            Some(change) => change,
            None => Self::read_value(&value, mode.as_deref().unwrap_or("set"))?,
        };
        Ok((change, always))
    }

    fn read_edit(
        object: &Object<'_>,
        value: &Node<'_>,
        has_mode: bool,
    ) -> Result<Option<HeaderChange>, Error> {
        let all = object.switch("all")?;
        let Some(edit) = object.optional("edit") else { return Ok(None) };
        if has_mode {
            return Err(edit.invalid("changes fields that the response has; it has no \"mode\""));
        }
        let replacement = value.string()?;
        refuse_controls(value)?;
        let substitution = templates::read_substitution(&edit, edit.string()?, value, replacement)?;
        Ok(Some(HeaderChange::Edit { substitution, all }))
    }

    fn read_value(node: &Node<'_>, mode: &str) -> Result<HeaderChange, Error> {
        let values = match node.value {
            serde_json::Value::Null => return Ok(HeaderChange::Remove),
            serde_json::Value::String(_) => vec![read_text(node)?],
            serde_json::Value::Array(list) if list.is_empty() => {
                return Err(node.invalid("must have a value; null takes the field out"));
            }
            serde_json::Value::Array(_) => {
                node.elements()?.map(|element| read_text(&element)).collect::<Result<_, _>>()?
            }
            _ => {
                return Err(
                    node.wrong_type("a string, an array of strings, or null to take the field out")
                );
            }
        };
        Ok(match mode {
            "add" => HeaderChange::Add(values),
            "append" => HeaderChange::Append(values),
            "default" => HeaderChange::Default(values),
            _ => HeaderChange::Set(values),
        })
    }
}

fn read_mode(node: &Node<'_>) -> Result<String, Error> {
    let mode = node.string()?;
    if MODES.contains(&mode) {
        return Ok(mode.to_owned());
    }
    Err(node.invalid(format_args!("must be {}", quoted(MODES))))
}

fn read_text(node: &Node<'_>) -> Result<Template, Error> {
    node.string()?;
    refuse_controls(node)?;
    templates::read(node)
}

fn refuse_controls(node: &Node<'_>) -> Result<(), Error> {
    if node.value.as_str().is_some_and(|text| text.chars().any(char::is_control)) {
        return Err(node.invalid("must not contain control characters"));
    }
    Ok(())
}
