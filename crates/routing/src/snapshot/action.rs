//! Compiled actions.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use howdah_access_log::AccessLog;
use howdah_cache::store::Store;
use howdah_config::{self as config, ActionOptions, PageStatus, Template};
use howdah_files::NotServedReason;
use howdah_http::variables::VariableSource;
use howdah_limits::rules::Rule;
use howdah_upstream::servers::upstream::Upstream;

use crate::auth::BasicAuth;
use crate::htaccess_state::site::Site;

/// Compiled action.
#[derive(Debug)]
pub struct Action {
    /// The handler.
    pub kind: ActionKind,
    /// The application, share or upstream that requests are for; `None` if other routes or no part
    /// answers them.
    pub site: Option<Arc<str>>,
    /// Path that replaces the request's before the action is carried out.
    pub rewrite: Option<config::Rewrite>,
    /// Client addresses that are allowed; all if `None`.
    pub allow: Option<config::AddressPatterns>,
    /// Client addresses that are refused.
    pub deny: Option<config::AddressPatterns>,
    /// Limits of requests.
    pub limit: Vec<Rule>,
    /// Check by another action.
    pub auth_request: Option<Box<AuthRequest>>,
    /// Other actions that get copies of requests.
    pub mirror: Vec<Arc<Mirror>>,
    /// Users whose password is asked for.
    pub auth: Option<Arc<BasicAuth>>,
    /// Cache for responses of origins, if the options turn it on.
    pub cache: Option<ActionCache>,
    /// Options for the request, merged with those of other actions.
    pub options: ActionOptions,
    /// Access logs of requests; `None` for those of the listener.
    pub access_log: Option<Arc<[AccessLog]>>,
    /// Pages that replace the server's own error pages.
    pub error_pages: Vec<ErrorPage>,
}

/// A check of requests by another action.
#[derive(Debug)]
pub struct AuthRequest {
    /// The action whose response decides.
    pub action: Action,
    /// Header fields of its response that the request gets.
    pub copy_headers: Vec<String>,
    /// Header fields of its response that the client gets.
    pub response_headers: Vec<String>,
}

/// Another action that gets copies of requests.
#[derive(Debug)]
pub struct Mirror {
    /// The action.
    pub action: Action,
    /// Maximum length of the body of a request that is copied, in bytes.
    pub max_body_size: u64,
    /// Maximum number of copies in progress.
    pub concurrency: u32,
    /// Number of copies in progress.
    pub in_progress: AtomicU32,
}

/// The cache of an action.
#[derive(Debug, Clone)]
pub struct ActionCache {
    /// Its settings.
    pub settings: Arc<config::Cache>,
    /// Its store, which other actions may use too.
    pub store: Arc<Store>,
}

/// Handler of a request.
#[derive(Debug)]
pub enum ActionKind {
    /// Pass the request to another target.
    Pass(CompiledPass),
    /// Answer without content.
    Return(Return),
    /// Pass the request to an HTTP server.
    Proxy(Arc<Upstream>),
    /// Serve files.
    Share(Box<Share>),
    /// Serve files and scripts under the directives of `.htaccess` files.
    Htaccess(Box<HtaccessShare>),
    /// Status page of the application of this name.
    Status(String),
    /// Metrics of the server.
    Metrics,
    /// Report whether an application takes requests.
    Ping(config::Ping),
}

/// Answer of `return`.
#[derive(Debug)]
pub struct Return {
    /// Status.
    pub status: u16,
    /// `Location` field.
    pub location: Option<Location>,
    /// Append the query of the request to the location.
    pub keep_query: bool,
    /// Text of the body; `None` for an error page, or no body.
    pub body: Option<Template>,
    /// Send no response: close the connection, or reset the stream.
    pub is_unsent: bool,
}

/// Page for one error status.
#[derive(Debug)]
pub struct ErrorPage {
    /// The status.
    pub status: u16,
    /// Source of the content.
    pub source: PageSource,
}

/// Source of the content of an error page.
#[derive(Debug)]
pub enum PageSource {
    /// A file.
    File {
        /// Its directory.
        files: howdah_files::Share,
        /// Its name, with a slash in front.
        path: Bytes,
    },
    /// Response of an action to the request.
    Action {
        /// The action.
        action: Box<Action>,
        /// The status of the response.
        status: PageStatus,
    },
}

/// The value of a `Location` field.
#[derive(Debug)]
pub enum Location {
    /// Constant, encoded.
    Fixed(Bytes),
    /// Template with variables.
    Variable(Template),
}

/// Target of `pass`.
#[derive(Debug)]
pub enum CompiledPass {
    /// Constant.
    Fixed(config::Target),
    /// Template with variables.
    Variable(Template),
}

impl CompiledPass {
    /// Returns the target for a request; `None` if the template does not expand to one.
    pub fn target(&self, source: &VariableSource<'_>) -> Option<Cow<'_, config::Target>> {
        match self {
            CompiledPass::Fixed(target) => Some(Cow::Borrowed(target)),
            CompiledPass::Variable(template) => {
                let name = source.expand(template);
                let target = config::Target::parse(std::str::from_utf8(&name).ok()?);
                target.map(Cow::Owned)
            }
        }
    }
}

/// A compiled share.
#[derive(Debug)]
pub struct Share {
    /// Paths, tried in turn.
    pub paths: Vec<SharePath>,
    /// Paths that replace the request's, tried in turn.
    pub candidates: Vec<config::Candidate>,
    /// Part of the path of requests that is not looked up.
    pub prefix: Option<config::Prefix>,
    /// Directory that the paths cannot lead out of.
    pub chroot: Option<Template>,
    /// Application for scripts.
    pub scripts: Option<CompiledPass>,
    /// Action if there is no file.
    pub fallback: Option<Action>,
    /// The next path, and the action, are also for a file that may not be read.
    pub denied_has_fallback: bool,
}

impl Share {
    /// Returns true if the next path or the fallback is tried although this one has not been
    /// served.
    pub fn goes_on(&self, reason: NotServedReason) -> bool {
        match reason {
            NotServedReason::Denied => self.denied_has_fallback,
            reason => reason.allows_fallback(),
        }
    }
}

/// A compiled share with `.htaccess` files.
#[derive(Debug)]
pub struct HtaccessShare {
    /// Its settings.
    pub site: Arc<Site>,
    /// Name of a file: the root, and the path of the request.
    pub root: Template,
    /// Action for paths that name no file.
    pub fallback: Option<Action>,
}

/// One path of a share.
#[derive(Debug)]
pub struct SharePath {
    /// Settings of the file server.
    pub files: howdah_files::Share,
    /// Template of the file name; `None` for a constant directory followed by the path of the
    /// request.
    pub template: Option<NameTemplate>,
}

/// Template of a file name.
#[derive(Debug)]
pub struct NameTemplate {
    /// The template.
    pub template: Template,
    /// Length in bytes of the part before the first variable.
    pub fixed: usize,
    /// The name ends with the request's path.
    pub ends_with_path: bool,
    /// The name has the host: a request without one finds no file.
    pub needs_host: bool,
}
