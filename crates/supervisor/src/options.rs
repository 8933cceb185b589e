//! What the supervisor is started with.

use std::path::PathBuf;

use howdah_sys::credentials::Credentials;
use howdah_wire::messages::Secret;

use crate::grants::Derive;

/// Reads a document again; `Err` says why it cannot be read.
pub type ReadAgain = Box<dyn Fn() -> Result<Vec<u8>, String>>;

/// Everything that the command line decided.
#[derive(Default)]
pub struct Options {
    /// What is not in order and no reason not to serve; for the log.
    pub warnings: Vec<String>,
    /// User of the router, and of applications that name none; `None` without root: everything
    /// runs as the user who started the server.
    pub user: Option<Credentials>,
    /// User id that belongs to the server alone, if there is one (see `unprivileged`).
    pub private_user: Option<u32>,
    /// The configuration document that the router begins with.
    pub document: Vec<u8>,
    /// Derives what a document lets the router ask for; `None` lets it ask for nothing.
    pub grants: Option<Derive>,
    /// What the document is called in error messages.
    pub origin: String,
    /// Reads the document again from where it came; `None` if it came from nowhere.
    pub read_again: Option<ReadAgain>,
    /// Directory where the configuration is kept; `None`: changes are lost at the end.
    pub state: Option<PathBuf>,
    /// Directory where certificates are kept; `None`: they are lost at the end.
    pub certificates: Option<PathBuf>,
    /// Called from time to time.
    pub upkeep: Option<Box<dyn FnMut()>>,
    /// File that holds the process id while the server runs.
    pub pid: Option<PathBuf>,
    /// Log file; `None`: standard error.
    pub log: Option<PathBuf>,
    /// Directory for temporary files of requests and responses.
    pub tmp: PathBuf,
    /// Address of the control API; a server starts with a document that cannot be run, which can be
    /// corrected there.
    pub control: Option<String>,
    /// Addresses of which the first that is free becomes that of the control API if there is no
    /// `control`; absolute, in a directory of this user alone. The server does without if none is.
    pub own_controls: Vec<String>,
    /// Documents have NGINX Unit's defaults where they say nothing.
    pub unit_defaults: bool,
    /// Token that requests to the control API must carry; `None`: the permissions of its socket suffice.
    pub control_token: Option<Secret>,
    /// The router restricts itself to what it needs.
    pub sandbox: bool,
    /// Programs that run PHP.
    pub php: Vec<PhpProgram>,
    /// Called once the server serves.
    pub on_serving: Option<Box<dyn FnOnce()>>,
}

/// A `howdah-php` program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhpProgram {
    /// Full version of PHP, such as `8.2.35`.
    pub version: String,
    /// The program.
    pub path: PathBuf,
}

impl Options {
    /// The newest program whose version is `wanted` or begins with it at a dot.
    pub(crate) fn php_for(&self, wanted: &str) -> Option<&PhpProgram> {
        let numbers = |version: &str| -> Vec<u32> {
            version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
        };
        self.php
            .iter()
            .filter(|program| {
                wanted.is_empty()
                    || program
                        .version
                        .strip_prefix(wanted)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .max_by_key(|program| numbers(&program.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(versions: &[&str]) -> Options {
        Options {
            php: versions
                .iter()
                .map(|v| PhpProgram { version: (*v).to_owned(), path: PathBuf::from(v) })
                .collect(),
            ..Options::default()
        }
    }

    #[test]
    fn the_newest_version_that_matches_is_taken() {
        let options = options(&["8.2.9", "8.2.35", "8.10.1", "7.4.1"]);
        let version = |wanted| options.php_for(wanted).map(|p| p.version.as_str());
        assert_eq!(version(""), Some("8.10.1"));
        assert_eq!(version("8.2"), Some("8.2.35"));
        assert_eq!(version("8.2.9"), Some("8.2.9"));
        assert_eq!(version("8.1"), None);
        assert_eq!(version("7"), Some("7.4.1"));
    }
}
