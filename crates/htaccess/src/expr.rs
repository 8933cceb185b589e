//! Apache's expressions (`ap_expr`) as a `.htaccess` can use them: conditions (`<If>`, `Require
//! expr`, `RewriteCond expr`) and texts with variables (`ErrorDocument`, `Redirect`, `Header …
//! "expr=…"`).
//!
//! The language is that of Apache 2.4; functions that read files are refused, as Apache refuses
//! them in a `.htaccess`. Expressions are parsed once and evaluated for each request.

mod address;
mod ascii;
mod context;
mod evaluate;
mod functions;
mod lex;
mod operators;
mod parse;
mod scope;
mod tree;
mod variable;

use std::borrow::Cow;

pub use crate::expr::ascii::number;
pub use crate::expr::context::{Context, Failure, Groups, MAX_EXPRESSION_BYTES, MAX_TEXT_BYTES};
pub use crate::expr::scope::{Scope, merge_vary};
pub use crate::expr::variable::Variable;
use crate::record::Record;

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

impl Expr {
    /// Parses a condition. The error is Apache's text.
    pub fn parse(source: &[u8]) -> Result<Expr, String> {
        Ok(Expr { root: parse::condition(source)? })
    }

    /// Returns true if a sub-request may be part of the condition (`-U`, `-F`).
    pub(crate) fn looks_up(&self) -> bool {
        self.root.looks_up()
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

    /// Evaluates the condition, and adds the header fields that it depends on to the response's
    /// `Vary`.
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
