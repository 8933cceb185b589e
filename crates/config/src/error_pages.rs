//! `error_pages` of an action: files in place of the server's own pages for errors.

use std::path::PathBuf;

use crate::error::Error;
use crate::node::Node;

/// A file that is sent with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status, from 400 to 599.
    pub status: u16,
    /// The file; absolute.
    pub file: PathBuf,
}

impl ErrorPage {
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<ErrorPage>, Error> {
        node.members()?.map(|(status, file)| ErrorPage::read(status, &file)).collect()
    }

    fn read(status: &str, node: &Node<'_>) -> Result<ErrorPage, Error> {
        let digits = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        let number = status.parse().ok().filter(|number| digits && (400..600).contains(number));
        let Some(number) = number else {
            return Err(node.invalid("must be a status code from 400 to 599"));
        };
        let file = node.file()?;
        match file.is_absolute() && file.file_name().is_some() {
            true => Ok(ErrorPage { status: number, file }),
            false => Err(node.invalid("must be the name of a file that starts with \"/\"")),
        }
    }
}
