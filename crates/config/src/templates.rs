//! Templates of a document.

use howdah_template::{Defined, Template, TemplateError, names};

use crate::error::{Error, ErrorKind, Unknown};
use crate::node::Node;
use crate::suggest::nearest;

/// Reads a template.
pub(crate) fn read(node: &Node<'_>) -> Result<Template, Error> {
    read_text(node, node.string()?)
}

/// Reads a template that is part of the string `node`.
pub(crate) fn read_text(node: &Node<'_>, text: &str) -> Result<Template, Error> {
    let groups = node.scope.groups;
    let variables = node.scope.variables;
    let error = match Template::parse_in(text, groups, variables) {
        Ok(template) => return Ok(template),
        Err(error) => error,
    };
    match &error {
        TemplateError::Unknown { name } => {
            let refused = node.error(ErrorKind::InvalidValue, error.to_string());
            let refused = refused.about(Unknown::Variable(name.clone()));
            let meant = nearest(name, names().chain(groups.names())).map(str::to_owned);
            let defined = variables.all();
            let of_document =
                || nearest(name, defined.iter().map(Defined::name)).map(str::to_owned);
            Err(match meant.or_else(of_document) {
                Some(meant) => refused.with_hint(format!("did you mean \"${meant}\"?")),
                None => refused,
            })
        }
        TemplateError::NoGroup { .. } if groups.are_of_map() => Err(node.invalid(error).with_hint(
            "a group in parentheses is captured by the regular expression that has the value, as \
             in {\"~^/blog/(.*)$\": \"/news/$1\"}",
        )),
        TemplateError::NoGroup { count: 0, .. } => Err(node.invalid(error).with_hint(
            "a group in parentheses is captured by a regular expression of \"uri\" or \
             \"host\" in the same step, as in \"~^/blog/(.*)$\"",
        )),
        TemplateError::NoGroup { .. } => Err(node.invalid(error)),
        TemplateError::Ambiguous { .. } => {
            Err(node.invalid(error).with_hint("give the group another name"))
        }
        TemplateError::NoName { .. } => {
            Err(node.invalid(error).with_hint("write \"${dollar}\" for a dollar sign"))
        }
        TemplateError::JavaScript => Err(node.invalid(error)),
    }
}

/// Reads a template that becomes a file name.
pub(crate) fn read_file(node: &Node<'_>) -> Result<Template, Error> {
    node.text()?;
    read(node)
}
