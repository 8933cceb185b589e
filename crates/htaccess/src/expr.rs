//! Apache's expressions (`ap_expr`) as a `.htaccess` can use them: conditions (`<If>`, `Require expr`,
//! `RewriteCond expr`) and texts with variables (`ErrorDocument`, `Redirect`, `Header … "expr=…"`).
//!
//! The language is that of Apache 2.4; functions that read files are refused, as Apache refuses them in a
//! `.htaccess`. Expressions are parsed once and evaluated for each request.

mod ascii;
mod evaluate;
mod functions;
mod lex;
mod network;
mod operators;
mod parse;
mod scope;
mod tree;
mod variable;
mod wildcard;

use std::borrow::Cow;
use std::fmt;

pub(crate) use crate::expr::ascii::push_hex;
pub use crate::expr::ascii::{escape_uri, number};
pub use crate::expr::scope::{Scope, merge_vary};
pub use crate::expr::variable::Variable;
pub(crate) use crate::expr::variable::civil;
use crate::record::Record;
use crate::regex::{Captures, Overrun};

/// Maximum length of an expression, in bytes.
pub const MAX_EXPRESSION_BYTES: usize = 16_384;

/// Maximum length of a text that an expression makes, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// A condition, compiled.
#[derive(Debug, Clone)]
pub struct Expr {
    root: tree::Cond,
}

/// A text with variables, compiled.
#[derive(Debug, Clone)]
pub struct Text {
    root: tree::Word,
}

/// What an evaluation leaves behind beside its result.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Subject and captures of the last match of a pattern with groups.
    pub groups: Groups,
    /// Names of the request's header fields that a condition depends on, for the response's `Vary`.
    pub vary: Vec<u8>,
}

/// The captures that `$0` to `$9` refer to.
#[derive(Debug, Clone)]
pub struct Groups {
    /// Text that was matched.
    pub subject: Vec<u8>,
    /// Offsets in the text.
    pub captures: Captures,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { subject: Vec::new(), captures: Captures::NONE }
    }
}

/// An evaluation that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A pattern took too much work: the request is answered with 500.
    Overrun,
    /// Any other reason, as Apache logs it.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Overrun => Overrun.fmt(formatter),
            Failure::Other(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Overrun> for Failure {
    fn from(_: Overrun) -> Failure {
        Failure::Overrun
    }
}

impl Expr {
    /// Parses a condition. The error is Apache's text.
    pub fn parse(source: &[u8]) -> Result<Expr, String> {
        Ok(Expr { root: parse::condition(source)? })
    }

    /// Evaluates the condition for a request.
    pub fn evaluate(
        &self,
        record: &Record,
        scope: &dyn Scope,
        context: &mut Context,
    ) -> Result<bool, Failure> {
        evaluate::Evaluation { record, scope, context }.condition(&self.root)
    }

    /// Evaluates the condition, and adds the header fields that it depends on to the response's `Vary`.
    pub fn holds(&self, record: &mut Record, scope: &dyn Scope) -> Result<bool, Failure> {
        let mut context = Context::default();
        let result = self.evaluate(record, scope, &mut context)?;
        merge_vary(&mut record.headers_out, &context.vary);
        Ok(result)
    }
}

impl Text {
    /// Parses a text with variables. The error is Apache's text.
    pub fn parse(source: &[u8]) -> Result<Text, String> {
        Ok(Text { root: parse::text(source)? })
    }

    /// Returns the text, if it has no variables.
    pub fn constant(&self) -> Option<&[u8]> {
        match &self.root {
            tree::Word::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Makes the text for a request. `context` has the captures for `$0` to `$9`.
    pub fn evaluate<'a>(
        &'a self,
        record: &'a Record,
        scope: &'a dyn Scope,
        context: &mut Context,
    ) -> Result<Cow<'a, [u8]>, Failure> {
        evaluate::Evaluation { record, scope, context }.word(&self.root)
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
