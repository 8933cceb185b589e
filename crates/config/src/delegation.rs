//! `internal_redirect` and `sendfile`: responses of an application or upstream that name a path or
//! a file for the server to send instead.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::Error;
use crate::key::{Key, Kind};
use crate::node::{Node, Object};
use crate::target::Target;

/// Keys of applications and upstreams.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "internal_redirect",
        Kind::Text,
        "The route for paths in `X-Accel-Redirect` of responses, such as `\"routes/files\"`",
    )
    .default("none")
    .details(
        "See [Internal redirects](actions.md#internal-redirects). `routes` is the clients' own \
         route. A route that no listener and no other action passes to corresponds to an nginx \
         location with `internal`",
    ),
    Key::new(
        "named_redirects",
        Kind::Named(&Kind::Text),
        "Routes for names in `X-Accel-Redirect` of responses, such as `{ \"@files\": \
         \"routes/files\" }`",
    )
    .default("{}")
    .details(
        "A route gets the request with the path, query and method that it has, without a body \
         (nginx's named locations, which also get the body)",
    ),
    Key::new(
        "sendfile",
        Kind::Texts,
        "Directories of the files that `X-Sendfile` of responses may name",
    )
    .default("none")
    .details(
        "See [Internal redirects](actions.md#internal-redirects) (`XSendFilePath` of Apache's \
         mod_xsendfile)",
    ),
];

/// Permitted targets of `X-Accel-Redirect` and `X-Sendfile`; none by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delegation {
    /// The route for the path in a response's `X-Accel-Redirect`.
    pub redirect: Option<Target>,
    /// Routes by the name in a response's `X-Accel-Redirect`, which starts with `@`.
    pub named: BTreeMap<String, Target>,
    /// Directories that contain the files of a response's `X-Sendfile`; absolute, without `..`.
    pub directories: Vec<PathBuf>,
}

impl Delegation {
    /// Returns true if a response may lead to a route.
    pub fn redirects(&self) -> bool {
        self.redirect.is_some() || !self.named.is_empty()
    }

    /// Reads the keys of an object.
    pub(crate) fn read(object: &Object<'_>) -> Result<Delegation, Error> {
        Ok(Delegation {
            redirect: object.read("internal_redirect", Target::read_route)?,
            named: object.read("named_redirects", read_named)?.unwrap_or_default(),
            directories: object.read("sendfile", read_directories)?.unwrap_or_default(),
        })
    }
}

fn read_named(node: &Node<'_>) -> Result<BTreeMap<String, Target>, Error> {
    let mut named = BTreeMap::new();
    for (name, route) in node.members()? {
        if name.len() < 2 || !name.starts_with('@') || name.chars().any(char::is_control) {
            return Err(route.invalid("must have a name after \"@\", such as \"@files\""));
        }
        named.insert(name.to_owned(), Target::read_route(&route)?);
    }
    Ok(named)
}

fn read_directories(node: &Node<'_>) -> Result<Vec<PathBuf>, Error> {
    node.strings()?.map(|directory| directory.directory(directory.text()?)).collect()
}
