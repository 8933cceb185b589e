//! Compiled actions.

use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{self as config, Buffering, Cors, ResponseHeader, Template};
use howdah_upstream::upstream::Upstream;

use crate::auth::BasicAuth;

/// Handling of a request.
#[derive(Debug)]
pub struct Action {
    /// The handler.
    pub kind: ActionKind,
    /// The path that takes the place of the request's beforehand.
    pub rewrite: Option<Template>,
    /// Client addresses that are allowed; all if `None`.
    pub allow: Option<config::AddressPatterns>,
    /// Client addresses that are refused.
    pub deny: Option<config::AddressPatterns>,
    /// Users whose password is asked for.
    pub auth: Option<Arc<BasicAuth>>,
    /// Options that count for the request from here on.
    pub options: Options,
}

/// What takes a request.
#[derive(Debug)]
pub enum ActionKind {
    /// Somebody else decides.
    Pass(CompiledPass),
    /// An answer without a body of interest.
    Return(Return),
    /// Another HTTP server.
    Proxy(Arc<Upstream>),
    /// Files.
    Share(Box<Share>),
    /// What the application of this name does.
    Status(String),
    /// Whether an application takes requests.
    Ping(config::Ping),
}

/// An answer.
#[derive(Debug)]
pub struct Return {
    /// Status.
    pub status: u16,
    /// Where else to go.
    pub location: Option<Location>,
    /// Whether the query of the request is added to it.
    pub keep_query: bool,
}

/// A page for an error.
#[derive(Debug)]
pub struct ErrorPage {
    /// The status that it is for.
    pub status: u16,
    /// Where its content comes from.
    pub source: PageSource,
}

/// Where the content of an error page comes from.
#[derive(Debug)]
pub enum PageSource {
    /// A file.
    File {
        /// Its directory.
        files: howdah_files::Share,
        /// Its name, with a slash in front.
        path: Bytes,
    },
    /// What an action makes of the request.
    Action {
        /// The action.
        action: Box<Action>,
        /// Whether the response keeps the status of the error.
        keep_status: bool,
    },
}

/// The value of a `Location` field.
#[derive(Debug)]
pub enum Location {
    /// Known before, and encoded.
    Fixed(Bytes),
    /// Known when its variables are.
    Variable(Template),
}

/// Where a request goes on.
#[derive(Debug)]
pub enum CompiledPass {
    /// Known before.
    Fixed(config::Target),
    /// Known when its variables are.
    Variable(Template),
}

/// A compiled share.
#[derive(Debug)]
pub struct Share {
    /// Paths, tried in turn.
    pub paths: Vec<SharePath>,
    /// Paths that take the place of the request's, tried in turn.
    pub candidates: Vec<config::Candidate>,
    /// Directory that the paths cannot lead out of.
    pub chroot: Option<Template>,
    /// Where scripts go.
    pub scripts: Option<config::Target>,
    /// What is done if there is no file.
    pub fallback: Option<Action>,
}

/// One path of a share.
#[derive(Debug)]
pub struct SharePath {
    /// What the files module knows of it.
    pub files: howdah_files::Share,
    /// What a file's name is made of; `None` if that is just a directory and the request's path.
    pub template: Option<NameTemplate>,
}

/// The name of a file, with variables.
#[derive(Debug)]
pub struct NameTemplate {
    /// The name.
    pub template: Template,
    /// Bytes before the first variable.
    pub fixed: usize,
    /// The name ends with the request's path.
    pub ends_with_path: bool,
}

/// Options of one action.
#[derive(Debug)]
pub struct Options {
    /// Fields that are set in responses or removed from them.
    pub response_headers: Vec<ResponseHeader>,
    /// Responses may be compressed.
    pub compress: bool,
    /// Pages that replace the server's own error pages.
    pub error_pages: Vec<ErrorPage>,
    /// Responses get the fields that protect browsers.
    pub security_headers: bool,
    /// Rules for scripts of other sites.
    pub cors: Option<Cors>,
    /// Buffering of bodies to and from other servers.
    pub buffering: Buffering,
    /// Maximum size of a request body in bytes; the setting of the server where there is none.
    pub max_body_size: Option<u64>,
}
