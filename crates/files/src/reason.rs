//! Reasons why there is nothing to send.

use rustix::io::Errno;

/// Reason why there is nothing to send.
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
    /// Returns the status if there is no fallback.
    pub fn status(self) -> u16 {
        match self {
            NotServedReason::NotFound => 404,
            NotServedReason::Forbidden
            | NotServedReason::Denied
            | NotServedReason::TypeNotAllowed => 403,
            NotServedReason::MethodNotAllowed => 405,
            NotServedReason::Failed(_) => 500,
        }
    }

    /// Returns true if the next share or the fallback is tried. As in Unit a failed lookup is an
    /// error, so that a lack of descriptors does not turn pictures into pages of a front
    /// controller. Unit tries them for [`NotServedReason::Denied`], too.
    pub fn allows_fallback(self) -> bool {
        !matches!(self, NotServedReason::Failed(_))
    }

    /// Returns the value of `Allow` if the error response must have it.
    pub fn allow(self) -> Option<&'static str> {
        matches!(self, NotServedReason::MethodNotAllowed).then_some("GET, HEAD")
    }
}
