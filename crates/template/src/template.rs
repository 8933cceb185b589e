//! Strings with variables, such as `/www/$host$uri`.
//!
//! `$name` and `${name}` stand for a variable; names are letters and underscores, in braces also
//! digits behind these, or one digit for the text that a group of a regular expression has captured. A dollar sign itself is written
//! `$dollar` or `${dollar}`.

mod defined;
mod secure_link;
mod variable;

use std::fmt;

pub use defined::{Defined, DefinedVariables, MAX_WEIGHT, Table};
pub use secure_link::SecureLink;
use variable::TIME_ISO;
pub use variable::{SslVariable, UpstreamVariable, Variable, names};

use crate::groups::Groups;
use crate::shown::Shown;

/// A string with variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(String),
    /// A variable, whose text depends on the request.
    Variable(Variable),
}

/// Reason why a string is not a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// A `$` is not followed by a name, or its `${` is not closed.
    NoName {
        /// Bytes before the `$`.
        offset: usize,
    },
    /// There is no variable of this name.
    Unknown {
        /// The name as written.
        name: String,
    },
    /// There is no group of this number.
    NoGroup {
        /// The number as written.
        number: String,
        /// Number of groups.
        count: usize,
    },
    /// A variable and a group have this name.
    Ambiguous {
        /// The name as written.
        name: String,
    },
    /// The string is a JavaScript template, in backticks.
    JavaScript,
}

impl Template {
    /// Reads a string with variables.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        Template::parse_with(text, &Groups::default())
    }

    /// Reads a string with variables and captures of these groups.
    pub fn parse_with(text: &str, groups: &Groups) -> Result<Template, TemplateError> {
        Template::parse_in(text, groups, &DefinedVariables::default())
    }

    /// Reads a string with variables, also those that the document defines, and captures.
    pub fn parse_in(
        text: &str,
        groups: &Groups,
        variables: &DefinedVariables,
    ) -> Result<Template, TemplateError> {
        if text.len() >= 2 && text.starts_with('`') && text.ends_with('`') {
            return Err(TemplateError::JavaScript);
        }
        let mut template = Template::default();
        let mut rest = text;
        while let Some((literal, reference)) = rest.split_once('$') {
            template.push_literal(literal);
            let offset = text.len() - reference.len() - 1;
            let (name, after) = split_name(reference).ok_or(TemplateError::NoName { offset })?;
            match name {
                "dollar" => template.push_literal("$"),
                _ => template.parts.push(Part::Variable(Variable::read(name, groups, variables)?)),
            }
            rest = after;
        }
        template.push_literal(rest);
        Ok(template)
    }

    /// Escapes a path so that [`Template::parse`] reads it as literal text.
    pub fn escape(path: &str) -> String {
        path.replace('$', "${dollar}")
    }

    /// Returns the template of a text without variables.
    pub fn literal(text: &str) -> Template {
        let mut template = Template::default();
        template.push_literal(text);
        template
    }

    fn push_literal(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Literal(last)) => last.push_str(text),
            _ => self.parts.push(Part::Literal(text.to_owned())),
        }
    }

    /// Returns true if the text ends with a part of the document behind a variable, as
    /// `$uri/index.html` does; a slash alone does not count.
    pub fn extends_variable(&self) -> bool {
        match self.parts() {
            [.., Part::Variable(_), Part::Literal(text)] => text != "/",
            _ => false,
        }
    }

    /// Returns the parts in order. No literal is empty or follows another.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns true if one of the variables, or one that its value is made from, is of this kind.
    pub fn leads_to(&self, is_wanted: &dyn Fn(&Variable) -> bool) -> bool {
        let is_it =
            |part: &Part| matches!(part, Part::Variable(variable) if variable.leads_to(is_wanted));
        self.parts.iter().any(is_it)
    }

    /// Returns the text, if the template has no variable.
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text to `out`; `value` appends the value of a variable.
    pub fn expand(&self, out: &mut Vec<u8>, mut value: impl FnMut(&Variable, &mut Vec<u8>)) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => value(variable, out),
            }
        }
    }
}

/// Returns the name that follows a `$`, and the text behind it.
pub fn split_name(reference: &str) -> Option<(&str, &str)> {
    let (text, bracket) = match reference.strip_prefix('{') {
        Some(text) => (text, true),
        None => (reference, false),
    };
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let length = match text.bytes().next() {
        Some(b'0'..=b'9') => 1,
        _ if text.starts_with(TIME_ISO) => TIME_ISO.len(),
        _ => {
            let is_in_name = |byte: &u8| is_name(*byte) || (bracket && byte.is_ascii_digit());
            text.bytes().take_while(is_in_name).count()
        }
    };
    // The counted bytes are ASCII, so this is a character boundary.
    let (name, after) = text.split_at_checked(length)?;
    if name.is_empty() {
        return None;
    }
    if bracket { Some((name, after.strip_prefix('}')?)) } else { Some((name, after)) }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::NoName { offset } => {
                write!(f, "has a \"$\" without a variable's name at byte {offset}")
            }
            TemplateError::Unknown { name } => {
                // Unit's message, which scripts of administrators may search for.
                write!(f, "Unknown variable \"${}\"", Shown(name))
            }
            TemplateError::NoGroup { number, count: 0 } => {
                write!(f, "has \"${number}\", and no regular expression here has a group")
            }
            TemplateError::NoGroup { number, count } => {
                write!(f, "has \"${number}\", and the groups are numbered from 1 to {count}")
            }
            TemplateError::Ambiguous { name } => {
                let name = Shown(name);
                write!(f, "has \"${name}\", which is a variable and also a group's name")
            }
            TemplateError::JavaScript => {
                f.write_str("is a JavaScript template; Howdah does not support them; use variables")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests;
