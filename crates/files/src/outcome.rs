//! Result of serving a request from a share.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_http::message::Response;
use rustix::io::Errno;

/// Result of serving a request from a share.
#[derive(Debug)]
pub enum ServeOutcome {
    /// The response.
    Response(Response),
    /// The request is for a PHP script that exists.
    Script(ScriptPath),
    /// There is nothing to send: the share's fallback is used, or an error is sent.
    NotServed(NotServedReason),
}

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

/// Reason why there is nothing to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServedReason {
    /// No such file, a directory without an index, not a regular file, or a name that is never
    /// sent.
    NotFound,
    /// The system or the share's restrictions deny access.
    Forbidden,
    /// The share's `types` do not include the media type.
    TypeNotAllowed,
    /// The method is neither GET nor HEAD.
    MethodNotAllowed,
    /// The lookup failed.
    Failed(Errno),
}

impl NotServedReason {
    /// Returns the status if there is no fallback.
    pub fn status(self) -> u16 {
        match self {
            NotServedReason::NotFound => 404,
            NotServedReason::Forbidden | NotServedReason::TypeNotAllowed => 403,
            NotServedReason::MethodNotAllowed => 405,
            NotServedReason::Failed(_) => 500,
        }
    }

    /// Returns true if the next share or the fallback is tried. As in Unit a failed lookup is an
    /// error, so that a lack of descriptors does not turn pictures into pages of a front
    /// controller.
    pub fn allows_fallback(self) -> bool {
        !matches!(self, NotServedReason::Failed(_))
    }

    /// Returns the value of `Allow` if the error response must have it.
    pub fn allow(self) -> Option<&'static str> {
        matches!(self, NotServedReason::MethodNotAllowed).then_some("GET, HEAD")
    }
}
