//! Result of serving a request from a share.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_http::message::Response;

use super::listing::Listing;
use super::reason::NotServedReason;

/// Result of serving a request from a share.
#[derive(Debug)]
pub enum ServeOutcome {
    /// The response.
    Response(Response),
    /// The request is for a PHP script that exists.
    Script(ScriptPath),
    /// The request is for a directory whose files are listed.
    Listing(Box<Listing>),
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
