//! What the answers of an application or upstream may leave to the server: `internal_redirect` and
//! `sendfile`.

use std::path::PathBuf;

use crate::error::Error;
use crate::node::{Node, Object};
use crate::target::Target;

/// What answers may leave to the server; nothing by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delegation {
    /// The route that decides about the path in an answer's `X-Accel-Redirect`.
    pub redirect: Option<Target>,
    /// Directories that the file in an answer's `X-Sendfile` must be in; absolute, without `..`.
    pub directories: Vec<PathBuf>,
}

impl Delegation {
    /// Reads the two keys of an object.
    pub(crate) fn read(object: &Object<'_>) -> Result<Delegation, Error> {
        Ok(Delegation {
            redirect: object.read("internal_redirect", Target::read_route)?,
            directories: object.read("sendfile", read_directories)?.unwrap_or_default(),
        })
    }
}

fn read_directories(node: &Node<'_>) -> Result<Vec<PathBuf>, Error> {
    node.strings()?.map(|directory| directory.directory(directory.text()?)).collect()
}
