//! `action`: the response to a request.
//!
//! An action may contain other actions: the `fallback` of a share and the actions of error pages.
//! The types that refer to each other are here.

use std::path::PathBuf;

use howdah_template::{Groups, Patterns, Subject, Template};

use crate::access::{self, Access};
use crate::action_options::{self, ActionOptions};
use crate::cache::CacheOption;
use crate::error::Error;
use crate::fixed_response::{PING_KEYS, Ping, RETURN_KEYS, Return};
use crate::htaccess::Htaccess;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::limit::{LIMIT, LimitRule};
use crate::node::{Node, Object, Scope, Shown, quoted};
use crate::patterns;
use crate::prefix::Prefix;
use crate::proxy::Proxy;
use crate::rewrite::Rewrite;
use crate::server_options;
use crate::share::{self, Candidate, ListingFormat, Symlinks};
use crate::target::{Pass, Target};

/// An action.
pub(crate) static ACTION: Shape = Shape {
    name: "action",
    parts: &[
        &[Key::new(
            "pass",
            Kind::Text,
            "Destination of requests, such as `\"routes/NAME\"` or `\"applications/NAME\"`",
        )
        .details("See [Passing](listeners.md#passing)")
        .kind()
        .unit()],
        RETURN_KEYS,
        share::KEYS,
        &[Key::new(
            "status",
            Kind::Text,
            "Responds with the status page of `\"applications/NAME\"`",
        )
        .details(
            "See [Status](../operations.md#status). The query selects the format: `?full` with \
             every process, `?json`, `?xml`, `?html`, `?openmetrics`",
        )
        .kind()],
        PING_KEYS,
        &[
            Key::new("metrics", Kind::Switch, "Responds with the metrics of the whole server")
                .details("For Prometheus, see [Metrics](../monitor.md#metrics). Must be `true`")
                .kind(),
            Key::new("dashboard", Kind::Switch, "Responds with the page of `howdah dashboard`")
                .details(
                    "Without buttons, see [Through a listener](../dashboard.md#through-a-listener). \
                     Must be `true`",
                )
                .kind(),
            Key::new(
                "proxy",
                Kind::Text,
                "URL of another HTTP server, such as `\"http://127.0.0.1:8080\"`",
            )
            .details("See [Proxy](upstreams.md#proxy)")
            .kind()
            .unit(),
            Key::new(
                "rewrite",
                Kind::Text,
                "Path that replaces the request's before the action runs, with variables",
            )
            .default("none")
            .details("See [Variables](variables.md) and below")
            .unit(),
        ],
        access::KEYS,
        &[
            Key::new(
                "limit",
                Kind::OneOrMany(&Kind::Object(&LIMIT)),
                "Limits of how often, how many at once and how fast requests are served",
            )
            .default("none")
            .details("See [Limit](#limit)"),
            Key::new(
                "auth_request",
                Kind::Object(&AUTH_REQUEST),
                "Another action that decides whether requests may continue",
            )
            .default("none")
            .details("nginx's `auth_request`, see below"),
            Key::new(
                "mirror",
                Kind::OneOrMany(&Kind::Object(&MIRROR)),
                "Other actions that get copies of requests; their responses are dropped",
            )
            .default("none")
            .details("nginx's `mirror`, see below"),
            Key::new(
                "error_pages",
                Kind::Named(&Kind::Either(&[Kind::Text, Kind::Object(&ERROR_PAGE)])),
                "Files or actions by status, in place of the server's own error pages",
            )
            .default("the server's own")
            .details("See below")
            .inherited(),
        ],
        action_options::KEYS,
        server_options::KEYS,
    ],
};

/// `auth_request` of an action.
static AUTH_REQUEST: Shape = Shape {
    name: "auth_request",
    parts: &[&[
        Key::new("action", Kind::Recursive("action"), "The action whose response decides")
            .details(
                "Any action that produces a response; usually with a `rewrite`. It cannot have an \
                 `auth_request`, and its templates cannot use captures",
            )
            .required(),
        Key::new(
            "copy_headers",
            Kind::Texts,
            "Header fields of its response that the request gets",
        )
        .default("none")
        .details("Fields of these names that the client sent are always removed"),
        Key::new(
            "response_headers",
            Kind::Texts,
            "Header fields of its response that the client gets, such as `Set-Cookie`",
        )
        .default("none"),
    ]],
};

/// `mirror` of an action.
static MIRROR: Shape = Shape {
    name: "mirror",
    parts: &[&[
        Key::new("action", Kind::Recursive("action"), "The action that gets the copies")
            .details(
                "Any action that produces a response. It cannot have a `mirror`, and its \
                 templates cannot use captures",
            )
            .required(),
        Key::new(
            "max_body_size",
            Kind::Bytes(0),
            "Maximum size of the body of a request that is copied, in bytes",
        )
        .default("1048576"),
        Key::new("concurrency", Kind::Integer(1, COUNT), "Maximum number of copies in progress")
            .default("32")
            .details("Further requests are not copied, and the log says so"),
    ]],
};

/// A member of `error_pages`.
static ERROR_PAGE: Shape = Shape {
    name: "error_page",
    parts: &[&[
        Key::new("action", Kind::Recursive("action"), "The action that responds")
            .details(
                "Any action that produces a response; usually with a `rewrite`. It cannot have \
                 `error_pages`, and its templates cannot use captures",
            )
            .required(),
        Key::switch(
            "keep_status",
            true,
            "Keeps the status of the error instead of the status of the action",
        ),
        Key::new(
            "status",
            Kind::Integer(200, 599),
            "The status of the response, in place of that of the error and that of the action",
        )
        .details("nginx's `error_page 404 =410 /page`. Not with `keep_status`"),
    ]],
};

/// An action: the response to a request, and the clients that may send it.
#[derive(Debug, Clone)]
pub struct Action {
    /// The kind of response.
    pub kind: ActionKind,
    /// The path that replaces the request's before the action runs.
    pub rewrite: Option<Rewrite>,
    /// Clients that may use the action.
    pub access: Access,
    /// Limits of requests.
    pub limit: Vec<LimitRule>,
    /// Check of requests by another action.
    pub auth_request: Option<AuthRequest>,
    /// Other actions that get copies of requests.
    pub mirror: Vec<Mirror>,
    /// Pages for errors that the server itself responds with.
    pub error_pages: Vec<ErrorPage>,
    /// Options that apply to every kind of action.
    pub options: ActionOptions,
}

/// Kinds of actions, each named by its key.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// `pass`: a route, an application or an upstream.
    Pass(Pass),
    /// `return`: a fixed status.
    Return(Return),
    /// `share`: a file.
    Share(Box<Share>),
    /// `status`: the status of the application of this name.
    Status(String),
    /// `ping`: a fixed text while an application accepts requests.
    Ping(Ping),
    /// `metrics`: the metrics of the whole server.
    Metrics,
    /// `dashboard`: the page of the server, without buttons.
    Dashboard,
    /// `proxy`: the response of another HTTP server.
    Proxy(Proxy),
}

/// A share: files, and the PHP scripts among them.
#[derive(Debug, Clone)]
pub struct Share {
    /// File names to try in order; the first that exists answers.
    pub paths: Vec<Template>,
    /// The part of the path of requests that is not looked up; `$uri` stands for the rest.
    pub prefix: Option<Prefix>,
    /// Paths (`try`) that replace the request's in `paths`, in order, until one is found. If empty,
    /// the request's own path is looked up.
    pub candidates: Vec<Candidate>,
    /// Index file names, tried in order in a directory.
    pub index: Vec<String>,
    /// Format in which directories without an index are listed; if `None`, they are not.
    pub listing: Option<ListingFormat>,
    /// Media types that may be served; anything else is answered with 403, or by the fallback.
    pub types: Option<Patterns>,
    /// A directory that the file must be in, symbolic links resolved.
    pub chroot: Option<Template>,
    /// Symbolic links that are followed (`follow_symlinks`).
    pub symlinks: Symlinks,
    /// True if mount points are crossed.
    pub traverse_mounts: bool,
    /// The application that runs PHP scripts of the share; if `None`, scripts are refused.
    pub scripts: Option<Pass>,
    /// Settings for `.htaccess` files; `None` if they are not read.
    pub htaccess: Option<Htaccess>,
    /// The action for requests that match no file.
    pub fallback: Option<Action>,
    /// `fallback` is also for a file that may not be read.
    pub denied_has_fallback: bool,
}

/// A check of requests by another action: its response decides.
#[derive(Debug, Clone)]
pub struct AuthRequest {
    /// The action.
    pub action: Box<Action>,
    /// Header fields of its response that the request gets.
    pub copy_headers: Vec<String>,
    /// Header fields of its response that the client gets.
    pub response_headers: Vec<String>,
}

/// Another action that gets copies of requests; its responses are dropped.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// The action.
    pub action: Box<Action>,
    /// Maximum length of the body of a request that is copied, in bytes.
    pub max_body_size: u64,
    /// Maximum number of copies in progress; further requests are not copied.
    pub concurrency: u32,
}

/// The content of responses with an error status.
#[derive(Debug, Clone)]
pub struct ErrorPage {
    /// The status, from 400 to 599.
    pub status: u16,
    /// Source of the content.
    pub source: PageSource,
}

/// Source of the content of an error page.
#[derive(Debug, Clone)]
pub enum PageSource {
    /// A file; absolute.
    File(PathBuf),
    /// The response of an action to the same request.
    Action {
        /// The action; it has no error pages.
        action: Box<Action>,
        /// The status of the response.
        status: PageStatus,
    },
}

/// The status of a response whose content is an error page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageStatus {
    /// That of the error.
    OfError,
    /// That of the action.
    OfAction,
    /// This one.
    Fixed(u16),
}

/// The keys of which an action has exactly one.
pub(crate) const KINDS: [&str; 8] =
    ["pass", "return", "share", "status", "ping", "metrics", "dashboard", "proxy"];

impl Action {
    pub(crate) fn read(node: &Node<'_>) -> Result<Action, Error> {
        let object = node.object(&ACTION).map_err(|error| match node.value.as_str() {
            Some(path) if path.starts_with('/') => error.with_hint(format!(
                "write {{\"rewrite\": \"{}\", \"pass\": \"applications/NAME\"}}",
                Shown(path)
            )),
            Some(target) => error.with_hint(format!("write {{\"pass\": \"{}\"}}", Shown(target))),
            None => error,
        })?;
        let kind = match kind_of(node, &object)? {
            "pass" => ActionKind::Pass(Pass::read(&object.required("pass")?)?),
            "return" => ActionKind::Return(Return::read(&object)?),
            "share" => ActionKind::Share(Box::new(Share::read(&object)?)),
            "status" => ActionKind::Status(Target::read_application(&object.required("status")?)?),
            "ping" => ActionKind::Ping(Ping::read(&object)?),
            "metrics" => {
                read_true(&object.required("metrics")?)?;
                ActionKind::Metrics
            }
            "dashboard" => {
                read_true(&object.required("dashboard")?)?;
                ActionKind::Dashboard
            }
            _ => ActionKind::Proxy(Proxy::read(&object.required("proxy")?)?),
        };
        let action = Action {
            kind,
            rewrite: object.read("rewrite", Rewrite::read)?,
            access: Access::read(&object)?,
            limit: object.read("limit", LimitRule::read_all)?.unwrap_or_default(),
            auth_request: object.read("auth_request", AuthRequest::read)?,
            mirror: object.read("mirror", Mirror::read_all)?.unwrap_or_default(),
            error_pages: object.read("error_pages", ErrorPage::read_all)?.unwrap_or_default(),
            options: ActionOptions::read(&object)?,
        };
        let has_fixed_response = matches!(
            action.kind,
            ActionKind::Return(_)
                | ActionKind::Status(_)
                | ActionKind::Ping(_)
                | ActionKind::Metrics
                | ActionKind::Dashboard
        );
        if let (true, Some(CacheOption::On(_)), Some(node)) =
            (has_fixed_response, &action.options.cache, object.optional("cache"))
        {
            let error =
                node.invalid("has no effect here, as the server makes this response itself");
            return Err(error.with_hint("write it beside \"pass\", \"proxy\" or \"share\""));
        }
        let mut keys = server_options::KEYS.iter().filter_map(|key| object.optional(key.name));
        if let (true, Some(node)) = (has_fixed_response, keys.next()) {
            let error = node.invalid("has no effect here, as no other server gets the request");
            return Err(error.with_hint("write it beside \"pass\", \"proxy\" or \"share\""));
        }
        object.end()?;
        Ok(action)
    }
}

/// Reads the value of a kind of action that has no parameters.
fn read_true(node: &Node<'_>) -> Result<(), Error> {
    match node.value.as_bool() {
        Some(true) => Ok(()),
        _ => Err(node.invalid("must be true")),
    }
}

impl AuthRequest {
    fn read(node: &Node<'_>) -> Result<AuthRequest, Error> {
        // The requests of several steps may be checked by one action, as of an error page.
        let groups = Groups::default();
        let scope = Scope { groups: &groups, ..*node.scope };
        let object = node.object(&AUTH_REQUEST)?;
        let value = object.required("action")?.within(&scope);
        let action = Action::read(&value)?;
        if action.auth_request.is_some() {
            return Err(value.invalid("must not have \"auth_request\", as it is one itself"));
        }
        let check = AuthRequest {
            action: Box::new(action),
            copy_headers: object.read("copy_headers", read_field_names)?.unwrap_or_default(),
            response_headers: object
                .read("response_headers", read_field_names)?
                .unwrap_or_default(),
        };
        object.end()?;
        Ok(check)
    }
}

impl Mirror {
    fn read_all(node: &Node<'_>) -> Result<Vec<Mirror>, Error> {
        node.one_or_many().map(|mirror| Mirror::read(&mirror)).collect()
    }

    fn read(node: &Node<'_>) -> Result<Mirror, Error> {
        // As of an `auth_request`.
        let groups = Groups::default();
        let scope = Scope { groups: &groups, ..*node.scope };
        let object = node.object(&MIRROR)?;
        let value = object.required("action")?.within(&scope);
        let action = Action::read(&value)?;
        if !action.mirror.is_empty() {
            return Err(value.invalid("must not have \"mirror\", as it is one itself"));
        }
        let mirror = Mirror {
            action: Box::new(action),
            max_body_size: object.integer_or_default("max_body_size")?,
            concurrency: object.integer_or_default("concurrency")?,
        };
        object.end()?;
        Ok(mirror)
    }
}

/// Reads names of header fields. Only characters are allowed that scripts do not confuse with
/// others.
fn read_field_names(node: &Node<'_>) -> Result<Vec<String>, Error> {
    const FRAMING: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];
    let read = |name: Node<'_>| {
        let text = name.text()?;
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(name.invalid("must be a name of letters, digits and hyphens"));
        }
        if FRAMING.iter().any(|other| text.eq_ignore_ascii_case(other)) {
            Err(name.invalid("cannot be copied from another response"))
        } else {
            Ok(text.to_owned())
        }
    };
    node.strings()?.map(read).collect()
}

impl Share {
    fn read(object: &Object<'_>) -> Result<Share, Error> {
        let node = object.required("share")?;
        let paths = share::read_paths(&node)?;
        let read = |node: &Node<'_>| Candidate::read_all(node, &paths);
        let candidates = object.read("try", read)?.unwrap_or_default();
        let index = object.read("index", share::read_index)?;
        let types = object.read("types", |types| patterns::read(types, Subject::MimeType))?;
        let htaccess = Htaccess::of_share(object, &paths)?;
        let scripts = object.read("scripts", Pass::read_scripts)?;
        if let (Some(_), Some(Pass::Variable(_)), Some(node)) =
            (&htaccess, &scripts, object.optional("scripts"))
        {
            return Err(node.invalid("must not depend on the request beside \"htaccess\""));
        }
        Ok(Share {
            htaccess,
            paths,
            prefix: object.read("prefix", Prefix::read)?,
            candidates,
            index: index.unwrap_or_else(|| vec!["index.html".to_owned()]),
            listing: object.read("listing", ListingFormat::read)?.flatten(),
            types,
            chroot: object.read("chroot", share::read_chroot)?.flatten(),
            symlinks: Symlinks::read(object)?,
            traverse_mounts: object.switch("traverse_mounts")?,
            scripts,
            fallback: object.read("fallback", Action::read)?,
            denied_has_fallback: node.scope.defaults.denied_has_fallback,
        })
    }
}

impl ErrorPage {
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<ErrorPage>, Error> {
        node.members()?.map(|(status, page)| ErrorPage::read(status, &page)).collect()
    }

    fn read(status: &str, node: &Node<'_>) -> Result<ErrorPage, Error> {
        let digits = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        let number = status.parse().ok().filter(|number| digits && (400..600).contains(number));
        let Some(status) = number else {
            return Err(node.invalid("must be a status code from 400 to 599"));
        };
        let source = if node.value.is_object() {
            read_page_action(node)?
        } else {
            PageSource::File(read_page_file(node)?)
        };
        Ok(ErrorPage { status, source })
    }
}

fn read_page_file(node: &Node<'_>) -> Result<PathBuf, Error> {
    if !node.value.is_string() {
        return Err(node.wrong_type("the name of a file, or an object with \"action\""));
    }
    let file = node.file()?;
    if file.is_absolute() && file.file_name().is_some() {
        Ok(file)
    } else {
        Err(node.invalid("must be the name of a file that starts with \"/\""))
    }
}

fn read_page_action(node: &Node<'_>) -> Result<PageSource, Error> {
    // Captures belong to the step whose response failed, and the page may replace errors of other
    // steps.
    let groups = Groups::default();
    let scope = Scope { groups: &groups, ..*node.scope };
    let object = node.object(&ERROR_PAGE)?;
    let value = object.required("action")?.within(&scope);
    let action = Action::read(&value)?;
    if !action.error_pages.is_empty() {
        return Err(value.invalid("must not have \"error_pages\", as it is for an error itself"));
    }
    if !action.limit.is_empty() {
        return Err(value.invalid("must not have \"limit\": its request was admitted already"));
    }
    let keeps = object.switch("keep_status")?;
    let status = match object.integer("status")? {
        Some(_) if object.has("keep_status") => {
            return Err(node.invalid("must have only one of \"keep_status\" and \"status\""));
        }
        Some(status) => PageStatus::Fixed(status),
        None if keeps => PageStatus::OfError,
        None => PageStatus::OfAction,
    };
    object.end()?;
    Ok(PageSource::Action { action: Box::new(action), status })
}

/// Returns the key that names the kind of the action. There must be exactly one.
fn kind_of(node: &Node<'_>, object: &Object<'_>) -> Result<&'static str, Error> {
    let mut present = KINDS.iter().copied().filter(|kind| object.optional(kind).is_some());
    let kind = present.next().ok_or_else(|| object.missing(&KINDS))?;
    match present.next() {
        None => Ok(kind),
        Some(other) => Err(node.invalid(format_args!(
            "has \"{kind}\" and \"{other}\"; it must have just one of {}",
            quoted(&KINDS)
        ))),
    }
}
