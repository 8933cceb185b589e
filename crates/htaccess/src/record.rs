//! A request, as directives see and change it (Apache's `request_rec`).

use std::cell::RefCell;
use std::sync::Arc;

use crate::config::DirConfig;
use crate::table::Table;

/// Kind of the file at a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileKind {
    /// No file, or one that cannot be looked at.
    #[default]
    None,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket, a device or a named pipe; or an entry that the server may not look at.
    Other,
}

/// `AcceptPathInfo`: a path may continue behind a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathInfo {
    /// Scripts and files accept it.
    Accept,
    /// Scripts accept it, files do not.
    #[default]
    Default,
    /// Neither scripts nor files accept it.
    Reject,
}

/// Result of stat(2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Kind of the file.
    pub kind: FileKind,
    /// True if the path itself is a symbolic link (lstat(2)).
    pub is_link: bool,
    /// Size in bytes.
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
    /// Seconds since 1970.
    pub accessed: i64,
    /// Permissions and type.
    pub mode: u32,
    /// Owner.
    pub user: u32,
    /// Group of the owner.
    pub group: u32,
}

/// Facts about the client's connection and the server.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Address of the client, as text.
    pub remote_addr: Vec<u8>,
    /// Port of the client.
    pub remote_port: u16,
    /// Address that the client has connected to.
    pub server_addr: Vec<u8>,
    /// Port for URLs of the site.
    pub server_port: u16,
    /// Host of the request without its port, or the listener's address (Apache's `UseCanonicalName
    /// Off`).
    pub server_name: Vec<u8>,
    /// True with TLS.
    pub is_https: bool,
    /// True for HTTP/2.
    pub is_http2: bool,
    /// Value of `ServerAdmin`; empty by default.
    pub server_admin: Vec<u8>,
    /// Value of `Server`.
    pub server_software: Vec<u8>,
    /// Root directory of the site, absolute, without a slash at the end.
    pub document_root: Vec<u8>,
    /// Decoded path of the root directory in URLs, as of Apache's `Alias`, without a slash at the
    /// end; empty for `/`.
    pub prefix: Vec<u8>,
    /// Time at which the request began: seconds since 1970, and microseconds.
    pub time: (i64, u32),
}

/// A request. Sub-requests and internal redirects have one of their own.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Connection and site.
    pub connection: Arc<Connection>,
    /// First line of the request, as it came.
    pub request_line: Vec<u8>,
    /// Method; `GET` in error documents and sub-requests.
    pub method: Vec<u8>,
    /// `HTTP/1.1` and the like.
    pub protocol: Vec<u8>,
    /// Target of the request as it came.
    pub unparsed_uri: Vec<u8>,
    /// Decoded path.
    pub uri: Vec<u8>,
    /// Query, without the question mark.
    pub args: Option<Vec<u8>>,
    /// Absolute path of the file; the rest of the path is in `path_info`.
    pub filename: Vec<u8>,
    /// Rest of the path behind the file.
    pub path_info: Vec<u8>,
    /// State of the file at `filename`.
    pub file: FileInfo,
    /// Time of the last change of the response, in seconds since 1970: that of a file that is sent.
    /// 0 before that, and for other responses.
    pub modified: i64,
    /// Header fields of the request.
    pub headers_in: Table,
    /// Header fields that the client has sent, if directives hold of a directory whose scripts are
    /// not run; see `phases::closed`.
    pub client_fields: Option<Arc<Table>>,
    /// Header fields of the response.
    pub headers_out: Table,
    /// Header fields that responses with errors have as well (`Header always`).
    pub err_headers_out: Table,
    /// Environment of the request (Apache's `subprocess_env`).
    pub env: Table,
    /// Notes of modules for each other.
    pub notes: Table,
    /// Status of the response.
    pub status: u16,
    /// Length in bytes of the body that a script has sent, if it is known.
    pub length: Option<u64>,
    /// Name of the handler.
    pub handler: Option<Vec<u8>>,
    /// Media type of the response.
    pub content_type: Option<Vec<u8>>,
    /// True if directives gave the type: it can stand for a handler (`AddType
    /// application/x-httpd-php`).
    pub is_type_trusted: bool,
    /// The rule for a path that continues behind the file.
    pub accepts_path_info: PathInfo,
    /// Encodings of the response.
    pub content_encoding: Option<Vec<u8>>,
    /// Languages of the response.
    pub content_languages: Vec<Vec<u8>>,
    /// Filters by suffix (`AddOutputFilter`), in lower case.
    pub output_filters: Vec<Vec<u8>>,
    /// Parts of the file's name that are no known suffix; `None` if no part is one.
    pub name_exceptions: Option<Vec<Vec<u8>>>,
    /// True if the handler of files has read the request's body: a script for an error finds none.
    pub is_body_read: bool,
    /// True if the answer depends on more of the request than its path: on a rule, or on variables.
    pub depends_on_request: bool,
    /// True if the head of the response has characters that no field may have: the server answers
    /// with 500.
    pub is_head_invalid: bool,
    /// Header fields of the request that expressions have looked at, for the response's `Vary`.
    pub vary: RefCell<Vec<u8>>,
    /// Name that has passed authentication.
    pub user: Option<Vec<u8>>,
    /// Type of authentication.
    pub auth_type: Option<Vec<u8>>,
    /// Directives that hold for the request.
    pub config: Arc<DirConfig>,
    /// True for a sub-request.
    pub is_sub_request: bool,
    /// Request that a sub-request belongs to.
    pub main: Option<Arc<Main>>,
    /// Request that was redirected to this one inside the server.
    pub previous: Option<Box<Record>>,
    /// Number of internal redirects so far.
    pub redirects: u8,
}

/// Facts for a sub-request about the request that it belongs to.
#[derive(Debug, Clone, Default)]
pub struct Main {
    /// Decoded path.
    pub uri: Vec<u8>,
    /// Name of its file.
    pub filename: Vec<u8>,
    /// Directives that hold for it.
    pub config: Arc<DirConfig>,
    /// Owner.
    pub user: Option<Vec<u8>>,
    /// Type of authentication.
    pub auth_type: Option<Vec<u8>>,
    /// As in [`Record`].
    pub client_fields: Option<Arc<Table>>,
    /// Number of requests above it.
    pub depth: u8,
}
