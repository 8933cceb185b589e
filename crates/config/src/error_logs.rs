//! `error_logs`: logs of sites, by the names that `$site` has for them.

use std::path::PathBuf;

use crate::error::Error;
use crate::node::{Node, Shown};

/// The log of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLog {
    /// Name of the site: a route, an application or an upstream.
    pub site: String,
    /// The file.
    pub path: PathBuf,
}

impl ErrorLog {
    /// Reads the logs by the names of their sites. Error: a path is not absolute, or the document
    /// defines no site of a name.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<ErrorLog>, Error> {
        let mut logs = Vec::new();
        for (site, file) in node.members()? {
            let path = file.file()?;
            if !path.is_absolute() {
                return Err(file.invalid("must be a file whose path starts with \"/\""));
            }
            if !is_defined(node, site) {
                let message = format_args!(
                    "is for \"{}\", but no route, application or upstream has this name",
                    Shown(site)
                );
                return Err(file.invalid(message).with_hint("correct the name, or leave it out"));
            }
            logs.push(ErrorLog { site: site.to_owned(), path });
        }
        Ok(logs)
    }
}

/// Returns true if the document defines a site of this name, or a file may that cannot be used.
fn is_defined(node: &Node<'_>, site: &str) -> bool {
    let definitions = &node.scope.definitions;
    let is_in = |section: &&str| {
        definitions.has_mistaken(section)
            || definitions.section(section).is_some_and(|all| all.get(site).is_some())
    };
    definitions.may_be_left_out() || ["routes", "applications", "upstreams"].iter().any(is_in)
}
