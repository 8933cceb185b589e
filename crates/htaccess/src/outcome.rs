//! The result of the engine for a request.

use crate::record::Record;

/// Handler of PHP's scripts.
pub(crate) const PHP_HANDLER: &str = "application/x-httpd-php";

/// The answer to a request.
#[derive(Debug)]
pub struct Outcome {
    /// The request, after internal redirects and with the fields that its phases have set:
    /// `status`, `headers_out`, `err_headers_out`, `env`, `content_type` and so on. To be handed to
    /// [`Engine::finish`].
    pub record: Box<Record>,
    /// The response that the server is to send.
    pub action: Action,
    /// True if the request was stopped because many patterns were used for the first time: the same
    /// request gets further the next time.
    pub is_unprepared: bool,
}

/// Kind of an answer.
#[derive(Debug)]
pub enum Action {
    /// The file at `record.filename`, of `record.file`, which is no source of scripts that the base
    /// runs; with `record.status`, which is not 200 for an error document. Conditional requests and
    /// ranges hold for 200 only.
    File,
    /// A script of PHP.
    Script(Script),
    /// A text that a module has written, of `record.content_type`: a listing.
    Page(Vec<u8>),
    /// An answer to `OPTIONS`: no content, `Allow` is set.
    Options,
    /// An error, or a redirect with `Location` in `record.headers_out`; its status is
    /// `record.status`.
    Error(ErrorPage),
}

/// Text of an error or a redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPage {
    /// Text of an `ErrorDocument`, to be sent as `text/html; charset=iso-8859-1`; without one, the
    /// server writes its own.
    pub text: Option<Vec<u8>>,
    /// Status of a further error that the error document itself had.
    pub also: Option<u16>,
}

/// A script to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Absolute path of the file.
    pub filename: Vec<u8>,
    /// `SCRIPT_NAME`.
    pub name: Vec<u8>,
    /// `PATH_INFO`; empty without one.
    pub path_info: Vec<u8>,
    /// `REQUEST_URI`.
    pub request_uri: Vec<u8>,
    /// Method that the script sees: `GET` in an error document.
    pub method: Vec<u8>,
    /// `QUERY_STRING`.
    pub query: Vec<u8>,
    /// Variables beside the usual ones: `SetEnv`, `[E=]`, `REDIRECT_*`, `REMOTE_USER`, `AUTH_TYPE`.
    /// The usual ones of CGI win over them.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Settings of `php_value` and `php_flag`.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// `HTTP_AUTHORIZATION` is among the variables of header fields (`CGIPassAuth On`).
    pub passes_auth: bool,
    /// True if the script shows its source in colours (`SetHandler
    /// application/x-httpd-php-source`).
    pub shows_source: bool,
    /// Handler of another server that has chosen PHP (`SetHandler application/x-lsphp84`), in lower
    /// case.
    pub foreign_handler: Option<Vec<u8>>,
}
