//! Reasons to send no file.

use howdah_http::error_status::RequestError;
use rustix::io::Errno;

/// Reason to send no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServedReason {
    /// No such file, a directory without an index, not a regular file, or a name that is never
    /// sent.
    NotFound,
    /// The share's restrictions deny access.
    Forbidden,
    /// The system denies access: a permission is missing.
    Denied,
    /// The share's `types` do not include the media type.
    TypeNotAllowed,
    /// The method is neither GET nor HEAD.
    MethodNotAllowed,
    /// The lookup failed.
    Failed(Errno),
}

impl NotServedReason {
    /// Returns true if the next share or the fallback is tried. As in Unit a failed lookup is an
    /// error, so that a lack of descriptors does not turn pictures into pages of a front
    /// controller. Unit tries them for [`NotServedReason::Denied`], too.
    pub fn allows_fallback(self) -> bool {
        !matches!(self, NotServedReason::Failed(_))
    }
}

/// The error of the response if there is no fallback.
impl From<NotServedReason> for RequestError {
    fn from(reason: NotServedReason) -> Self {
        match reason {
            NotServedReason::NotFound => RequestError::NotFound,
            NotServedReason::Forbidden
            | NotServedReason::Denied
            | NotServedReason::TypeNotAllowed => RequestError::Forbidden,
            NotServedReason::MethodNotAllowed => RequestError::MethodNotAllowed,
            NotServedReason::Failed(_) => RequestError::Internal,
        }
    }
}
