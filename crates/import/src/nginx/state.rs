//! What is known of a request at a place of the configuration.

use std::collections::BTreeMap;

use super::pcre::Expression;
use super::template::Template;

/// The values of variables and groups at a place of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct State {
    /// Values of variables that the configuration sets; `None` if the value cannot be said.
    pub variables: BTreeMap<String, Option<Template>>,
    /// The last regular expression that matched.
    pub captures: Option<Captures>,
    /// A rewrite has changed the path since the location was chosen.
    pub is_rewritten: bool,
}

/// The last regular expression that matched, and the text that it was compared with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Captures {
    /// The text that the expression was compared with.
    pub subject: Template,
    /// The regular expression, in the syntax of Howdah.
    pub expression: Expression,
    /// The expression is that of the step, so that its groups have their own names.
    pub is_direct: bool,
}
