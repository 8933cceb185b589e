//! The outcome of a request to a share.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::listing::Listing;
use super::load::Variant;
use super::reason::NotServedReason;

/// The outcome of a request to a share.
#[derive(Debug)]
pub enum ServeOutcome {
    /// The request is for a file that exists.
    File(FoundFile),
    /// The request is for a directory, but its path does not end in a slash.
    Directory,
    /// The request is for a PHP script that exists.
    Script(ScriptPath),
    /// The request is for a directory whose files are listed.
    Listing(Box<Listing>),
    /// There is no file to send: the share's fallback is used, or an error is sent.
    NotServed(NotServedReason),
}

/// A file in the coding that suits the request, for
/// [`Files::file_response`](super::Files::file_response).
#[derive(Debug)]
pub struct FoundFile(pub(super) Rc<Variant>);

/// A PHP script and the `PATH_INFO` of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptPath {
    /// Path of the script in the URL; CGI's `SCRIPT_NAME`.
    pub script_name: Bytes,
    /// Rest of the path, with its slash; CGI's `PATH_INFO`. Empty if there is none.
    pub path_info: Bytes,
    /// Path of the file; CGI's `SCRIPT_FILENAME`.
    pub file: Arc<Path>,
}
