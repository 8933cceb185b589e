//! Templates of a document.

use howdah_template::{
    Defined, Groups, Substitution, SubstitutionError, Template, TemplateError, names,
};

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
    let template = Template::parse_in(text, groups, node.scope.variables);
    template.map_err(|error| explained(node, &error, groups))
}

/// Reads a regular expression, which is all or the name of `node`, and its replacement, the string
/// `value`.
pub(crate) fn read_substitution(
    node: &Node<'_>,
    expression: &str,
    value: &Node<'_>,
    replacement: &str,
) -> Result<Substitution, Error> {
    let read = Substitution::parse(expression, replacement, node.scope.variables);
    read.map_err(|error| match error {
        SubstitutionError::Template(TemplateError::NoGroup { .. }) => {
            let hint = "a group in parentheses of the expression is captured";
            value.invalid(error).with_hint(hint)
        }
        SubstitutionError::Template(error) => explained(value, &error, &Groups::default()),
        error => node.invalid(error),
    })
}

/// Returns the error of a template, with a hint.
fn explained(node: &Node<'_>, error: &TemplateError, groups: &Groups) -> Error {
    let variables = node.scope.variables;
    match error {
        TemplateError::Unknown { name } => {
            let refused = node.error(ErrorKind::InvalidValue, error.to_string());
            let refused = refused.about(Unknown::Variable(name.clone()));
            let meant = nearest(name, names().chain(groups.names())).map(str::to_owned);
            let defined = variables.all();
            let of_document =
                || nearest(name, defined.iter().map(Defined::name)).map(str::to_owned);
            match meant.or_else(of_document) {
                Some(meant) => refused.with_hint(format!("did you mean \"${meant}\"?")),
                None => refused,
            }
        }
        TemplateError::NoGroup { .. } if groups.are_of_map() => node.invalid(error).with_hint(
            "a group in parentheses is captured by the regular expression that has the value, as \
             in {\"~^/blog/(.*)$\": \"/news/$1\"}",
        ),
        TemplateError::NoGroup { count: 0, .. } => node.invalid(error).with_hint(
            "a group in parentheses is captured by a regular expression of \"uri\" or \
             \"host\" in the same step, as in \"~^/blog/(.*)$\"",
        ),
        TemplateError::NoGroup { .. } => node.invalid(error),
        TemplateError::Ambiguous { .. } => {
            node.invalid(error).with_hint("give the group another name")
        }
        TemplateError::NoName { .. } => {
            node.invalid(error).with_hint("write \"${dollar}\" for a dollar sign")
        }
        TemplateError::JavaScript => node.invalid(error),
    }
}

/// Reads a template that becomes a file name.
pub(crate) fn read_file(node: &Node<'_>) -> Result<Template, Error> {
    node.text()?;
    read(node)
}
