//! `error_pages` of an action: what answers in place of the server's own pages for errors.

use std::path::PathBuf;

use crate::action::Action;
use crate::captures::Groups;
use crate::error::Error;
use crate::node::{Node, Scope};

/// What is sent with an error.
#[derive(Debug, Clone)]
pub struct ErrorPage {
    /// The status, from 400 to 599.
    pub status: u16,
    /// Where its content comes from.
    pub source: PageSource,
}

/// Where the content of an error page comes from.
#[derive(Debug, Clone)]
pub enum PageSource {
    /// A file; absolute.
    File(PathBuf),
    /// What an action makes of the request.
    Action {
        /// The action; it has no error pages.
        action: Box<Action>,
        /// Whether the response keeps the status of the error.
        keep_status: bool,
    },
}

impl ErrorPage {
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<ErrorPage>, Error> {
        node.members()?.map(|(status, page)| ErrorPage::read(status, &page)).collect()
    }

    fn read(status: &str, node: &Node<'_>) -> Result<ErrorPage, Error> {
        let digits = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        let number = status.parse().ok().filter(|number| digits && (400..600).contains(number));
        let Some(status) = number else {
            return Err(node.invalid("must be a status code from 400 to 599"));
        };
        let source = match node.value.is_object() {
            true => read_action(node)?,
            false => PageSource::File(read_file(node)?),
        };
        Ok(ErrorPage { status, source })
    }
}

fn read_file(node: &Node<'_>) -> Result<PathBuf, Error> {
    if !node.value.is_string() {
        return Err(node.wrong_type("the name of a file, or an object with \"action\""));
    }
    let file = node.file()?;
    match file.is_absolute() && file.file_name().is_some() {
        true => Ok(file),
        false => Err(node.invalid("must be the name of a file that starts with \"/\"")),
    }
}

fn read_action(node: &Node<'_>) -> Result<PageSource, Error> {
    // When the page is wanted, another step may have captured something else.
    let groups = Groups::default();
    let scope = Scope { groups: &groups, ..*node.scope };
    let object = node.object()?;
    let value = object.required("action")?.within(&scope);
    let action = Action::read(&value)?;
    if !action.error_pages.is_empty() {
        return Err(value.invalid("must not have \"error_pages\", as it is for an error itself"));
    }
    let keep_status = object.boolean("keep_status")?.unwrap_or(true);
    object.end()?;
    Ok(PageSource::Action { action: Box::new(action), keep_status })
}
