//! Steps of rules for a request.

use super::outcome::Outcome;

/// Function that gets the steps of rules; `None` has no cost.
pub type Trace<'t> = Option<&'t mut dyn FnMut(Event<'_>)>;

/// A step of rewriting.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the variants explain their fields")]
pub enum Event<'a> {
    /// The pattern of a `RewriteRule`, at a line of a file, was compared with the path.
    Pattern { file: &'a str, line: u32, pattern: &'a [u8], path: &'a [u8], is_match: bool },
    /// A `RewriteCond` of the rule was tested; `is_match` considers a `!`.
    Condition { input: &'a [u8], pattern: &'a [u8], is_match: bool },
    /// The rule replaced the path.
    Substitution { from: &'a [u8], to: &'a [u8] },
    /// The flag `E` set a variable, or removed it.
    Env { name: &'a [u8], value: Option<&'a [u8]> },
    /// All rules are done.
    End(&'a Outcome),
}
