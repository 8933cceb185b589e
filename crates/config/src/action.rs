//! `action`: what happens to a request.

use crate::error::Error;
use crate::node::{Node, Object, quoted};
use crate::share::Share;
use crate::target::Pass;
use crate::template::Template;

/// What to do with a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// `pass`: another part of the document decides.
    Pass(Pass),
    /// `return`: the server answers by itself.
    Return(Return),
    /// `share`: a file is the answer.
    Share(Box<Share>),
}

/// An answer without content, or with an error page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    /// The status code, from 0 to 999 as in Unit.
    pub status: u16,
    /// The `Location` field.
    pub location: Option<Template>,
}

/// The keys of which an action has exactly one.
const KINDS: &[&str] = &["pass", "return", "share"];

impl Action {
    pub(crate) fn read(node: &Node<'_>) -> Result<Action, Error> {
        let object = node.object()?;
        let mut present = KINDS.iter().copied().filter(|kind| object.optional(kind).is_some());
        let kind = present.next().ok_or_else(|| object.missing(KINDS))?;
        if let Some(other) = present.next() {
            let message = format!(
                "has \"{kind}\" and \"{other}\"; it must have just one of {}",
                quoted(KINDS)
            );
            return Err(node.invalid(message));
        }
        drop(present);
        // Read anew, so that the keys known at the end are those of this kind.
        let object = node.object()?;
        let action = match kind {
            "pass" => Action::Pass(Pass::read(&object.required("pass")?)?),
            "return" => Action::Return(Return::read(&object)?),
            _ => Action::Share(Box::new(Share::read(&object)?)),
        };
        object.end()?;
        Ok(action)
    }
}

impl Return {
    fn read(object: &Object<'_>) -> Result<Return, Error> {
        let status = object.required("return")?.integer(0..=999)?;
        let location = object.read("location", Template::read)?;
        // In range by the line above.
        Ok(Return { status: u16::try_from(status).unwrap_or(500), location })
    }
}
