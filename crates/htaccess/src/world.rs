//! The engine's environment: the file system, and everything that takes time.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use crate::config::DirConfig;
use crate::query::{Found, MAX_SEARCHED_BYTES, Query};
pub use crate::reading::Reading;
use crate::record::FileInfo;

/// A result that may take time.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A `.htaccess` file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The message for the log: file, line, directive, reason.
    pub message: String,
    /// True for a file that is there but cannot be read: requests are refused with 403 in place of
    /// 500.
    pub is_unreadable: bool,
    /// True if the log has the reason already.
    pub is_logged: bool,
    /// True if the file is still to be read and compiled: the server runs the request again, once
    /// that is done.
    pub is_pending: bool,
}

impl Broken {
    /// A file with an error in it.
    pub fn new(message: impl Into<String>) -> Broken {
        Broken {
            message: message.into(),
            is_unreadable: false,
            is_logged: false,
            is_pending: false,
        }
    }

    /// A file that is to be read and compiled first.
    pub fn pending() -> Broken {
        Broken { is_pending: true, ..Broken::new("its directives are not known yet") }
    }

    /// A file that cannot be read.
    pub fn unreadable(message: impl Into<String>) -> Broken {
        Broken { is_unreadable: true, ..Broken::new(message) }
    }
}

/// The server around the engine.
pub trait World {
    /// Looks at an absolute path without following a link in its last segment; `None` if there is
    /// no file. A path outside of the root is not looked at, even if a link leads there.
    fn lstat(&self, path: &[u8]) -> Option<FileInfo>;

    /// As `lstat`, with links followed.
    fn stat(&self, path: &[u8]) -> Option<FileInfo>;

    /// Returns the compiled `.htaccess` of a directory; `None` if it has none.
    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken>;

    /// Returns the names in a directory.
    fn list<'a>(&'a self, directory: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>>;

    /// Reads a file: passwords, groups, a type map, the text around a listing.
    fn read<'a>(&'a self, path: &'a [u8], reading: Reading) -> Later<'a, io::Result<Arc<[u8]>>>;

    /// Returns true if a file is source of scripts by its name, which the server never sends. Names
    /// of scripts of the base are known to the engine.
    fn is_source(&self, path: &[u8]) -> bool {
        let _ = path;
        false
    }

    /// Returns the rule of the server's configuration for a file, which outweighs directives.
    /// `path` is that of the answer, after rewrites, index files and negotiation; the path of a
    /// directory ends with a slash.
    fn rule(&self, path: &[u8]) -> FileRule {
        let _ = path;
        FileRule::Open
    }

    /// Searches a file of passwords or groups, which may be large.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` if too many searches wait.
    fn search<'a>(&'a self, path: &'a [u8], query: &'a Query) -> Later<'a, io::Result<Found>> {
        Box::pin(
            async move { query.answer(&self.read(path, Reading::All(MAX_SEARCHED_BYTES)).await?) },
        )
    }

    /// Checks a password against its stored form (bcrypt, apr1, SHA, crypt); `None` if too many
    /// checks wait.
    fn verify<'a>(&'a self, password: &'a [u8], stored: &'a [u8]) -> Later<'a, Option<bool>>;

    /// Sets whether results are needed at once from now on, and returns the previous value. While
    /// they are, a search or a check that takes time stays pending; the request may be run again
    /// once its result is there.
    fn set_immediate(&self, is_immediate: bool) -> bool {
        is_immediate
    }

    /// Returns the names of a client's address that resolve to it again (`Require host`).
    fn host_names<'a>(&'a self, address: &'a [u8]) -> Later<'a, Vec<Vec<u8>>>;

    /// Returns the addresses of a host name (`Require forward-dns`).
    fn addresses<'a>(&'a self, name: &'a [u8]) -> Later<'a, Vec<IpAddr>> {
        let _ = name;
        Box::pin(async { Vec::new() })
    }

    /// Lets the other requests of the thread run, between parts of work that takes long.
    fn pause(&self) -> Later<'_, ()> {
        Box::pin(async {})
    }

    /// Gets the effects of directives on a request, step by step. `step` makes the text; the
    /// default does not call it.
    fn explain(&self, step: &dyn Fn() -> String) {
        let _ = step;
    }

    /// Returns true if [`World::explain`] wants to know.
    fn is_explaining(&self) -> bool {
        false
    }

    /// Writes a line to the error log.
    fn log(&self, level: Level, message: &str);
}

/// Rule of the server's configuration for a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileRule {
    /// No rule for the file.
    #[default]
    Open,
    /// The file may be sent and is not run: 403 if it is a script.
    NotRun,
    /// The file is neither sent nor run: 403.
    Closed,
    /// The file counts as missing: 404.
    Hidden,
}

/// Importance of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A request fails.
    Error,
    /// A directive or request is not as it should be.
    Warn,
    /// A directive does something that its author may not expect.
    Notice,
    /// For information.
    Info,
}
