//! Files of passwords and groups, which directives name.

use std::io;

use crate::query::{Found, Query};
use crate::support::lossy;
use crate::world::{Level, World};

/// Directory that relative paths start at: Debian's `ServerRoot`.
const SERVER_ROOT: &[u8] = b"/etc/apache2/";

/// Path of a file, from the directive of a directory or the nearest one above it.
#[derive(Debug, Clone, Default)]
pub struct AuthFile(Option<Vec<u8>>);

impl AuthFile {
    /// Returns the child's file if it has one.
    pub(crate) fn merged(&self, child: &AuthFile) -> AuthFile {
        AuthFile(child.0.clone().or_else(|| self.0.clone()))
    }

    /// Sets the path that a directive names.
    pub(crate) fn set(&mut self, path: &[u8]) {
        self.0 = Some(match path.first() {
            Some(b'/') => path.to_vec(),
            _ => [SERVER_ROOT, path].concat(),
        });
    }

    /// Returns the path; `None` if no directive names one.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Searches a file; `None` if it cannot be read, which is logged. `kind` is `password` or `group`.
///
/// # Errors
///
/// Too many searches wait.
pub(crate) async fn search(
    path: &[u8],
    kind: &str,
    query: &Query,
    world: &dyn World,
) -> Result<Option<Found>, TooManyWait> {
    match world.search(path, query).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(TooManyWait),
        Err(error) => {
            let reason = match error.kind() {
                io::ErrorKind::FileTooLarge => ": it is too large",
                io::ErrorKind::TimedOut => ": its file system does not answer",
                _ => "",
            };
            world
                .log(Level::Error, &format!("Could not open {kind} file: {}{reason}", lossy(path)));
            Ok(None)
        }
    }
}

/// Too many searches of the site wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyWait;
