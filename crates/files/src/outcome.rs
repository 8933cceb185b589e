//! What a share makes of a request.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_http::message::Response;
use rustix::io::Errno;

/// What came of a request.
#[derive(Debug)]
pub enum ServeOutcome {
    /// The answer.
    Response(Response),
    /// The request is for a PHP script that exists.
    Script(ScriptPath),
    /// There is nothing to send: the share's fallback is taken, or else an error.
    NotServed(NotServedReason),
}

/// A script and what the request's path has after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptPath {
    /// The script's own path as in the URL; CGI's `SCRIPT_NAME`.
    pub script_name: Bytes,
    /// The rest of the path, with its slash; CGI's `PATH_INFO`. Empty if there is none.
    pub path_info: Bytes,
    /// The file; CGI's `SCRIPT_FILENAME`.
    pub file: Arc<Path>,
}

/// Why there is nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServedReason {
    /// No such file, a directory without index, no regular file, or a name that is never sent.
    NotFound,
    /// The system or the share's restrictions refuse it.
    Forbidden,
    /// The share's `types` refuse it.
    TypeNotAllowed,
    /// Files can only be read.
    MethodNotAllowed,
    /// The lookup itself failed.
    Failed(Errno),
}

impl NotServedReason {
    /// The status if there is no fallback.
    pub fn status(self) -> u16 {
        match self {
            NotServedReason::NotFound => 404,
            NotServedReason::Forbidden | NotServedReason::TypeNotAllowed => 403,
            NotServedReason::MethodNotAllowed => 405,
            NotServedReason::Failed(_) => 500,
        }
    }

    /// Whether the next share or the fallback is tried. As in Unit a failure is an error, so
    /// that a lack of descriptors does not turn pictures into front controller pages.
    pub fn allows_fallback(self) -> bool {
        !matches!(self, NotServedReason::Failed(_))
    }

    /// What `Allow` says in the error's response, where it must be there.
    pub fn allow(self) -> Option<&'static str> {
        matches!(self, NotServedReason::MethodNotAllowed).then_some("GET, HEAD")
    }
}
