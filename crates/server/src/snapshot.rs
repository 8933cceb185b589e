//! A configuration, compiled: what a request is decided by.
//!
//! A request takes one snapshot at its start and keeps it to its end; a reconfiguration swaps
//! the current one and touches no request.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{self as config, Config, Part, Pass, Template, Variable};
use howdah_http::limits::Limits;
use howdah_php_pool::application::Application;
use howdah_php_pool::queue::Queue;
use howdah_php_pool::target::Targets;
use howdah_tls::{TlsClients, TlsListener};
use howdah_upstream::fastcgi::site::Site;
use howdah_upstream::known::Known;
use howdah_upstream::single::{SingleTable, Singles};
use howdah_upstream::upstream::Upstream;

use crate::access_log::{AccessLog, LogFile};
use crate::auth::BasicAuth;
use crate::route::delegation::Delegations;
use crate::route::{Index, location};

/// A compiled configuration.
#[derive(Debug)]
pub struct Snapshot {
    /// The document and its typed form.
    pub config: Config,
    /// Listeners by name.
    pub listeners: HashMap<String, Listener>,
    /// The route without a name, that of most documents. Not among the others: to compare empty
    /// texts costs some processors more than all of the rest of a look-up.
    pub main_route: Option<Route>,
    /// Routes by name.
    pub routes: HashMap<String, Route>,
    /// Applications by name.
    pub applications: HashMap<String, Arc<Application>>,
    /// Applications of FastCGI servers by name.
    pub fastcgi: HashMap<String, Arc<Site>>,
    /// Upstreams by name.
    pub upstreams: HashMap<String, Arc<Upstream>>,
    /// Servers that actions and applications name themselves.
    pub singles: SingleTable,
    /// What applications and upstreams may leave to us.
    pub delegations: Delegations,
    /// How TLS is spoken with servers.
    pub tls_clients: TlsClients,
    /// Where requests are logged.
    pub access_log: Option<AccessLog>,
}

/// A listener as requests see it.
#[derive(Debug)]
pub struct Listener {
    /// Where requests go.
    pub pass: CompiledPass,
    /// How it speaks TLS, if it does.
    pub tls: Option<Arc<TlsListener>>,
    /// The port that requests without TLS are sent to with https.
    pub redirect_to_https: Option<u16>,
    /// Whether clients without TLS may begin with HTTP/2.
    pub http2: config::PlainHttp2,
    /// Whose connections begin with the PROXY protocol.
    pub balancers: Option<config::AddressPatterns>,
    /// Who is believed about the client, in the order in which it is asked.
    pub proxies: Vec<config::Forwarded>,
}

/// A list of steps.
#[derive(Debug)]
pub struct Route {
    /// The steps in order.
    pub steps: Vec<Step>,
    /// Finds the steps that can hold, if there are many.
    pub index: Option<Index>,
}

/// A step of a route.
#[derive(Debug)]
pub struct Step {
    /// Conditions.
    pub conditions: config::Match,
    /// What is done if they hold.
    pub action: Action,
    /// Whether the action names what the conditions capture.
    pub captures: bool,
}

/// What is done with a request.
#[derive(Debug)]
pub struct Action {
    /// What takes the request.
    pub kind: ActionKind,
    /// The path that takes the place of the request's beforehand.
    pub rewrite: Option<Template>,
    /// Fields that are set in the response or taken out of it.
    pub response_headers: Vec<config::ResponseHeader>,
    /// Whether responses may be compressed.
    pub compress: bool,
    /// Only these addresses may come here.
    pub allow: Option<config::AddressPatterns>,
    /// These addresses may not.
    pub deny: Option<config::AddressPatterns>,
    /// Who knows a password may.
    pub auth: Option<Arc<BasicAuth>>,
    /// Pages for errors of the server's own.
    pub error_pages: Vec<ErrorPage>,
    /// Whether responses get the fields that protect browsers.
    pub security_headers: bool,
    /// Which other sites may read responses.
    pub cors: Option<config::Cors>,
    /// What waits here on its way to other servers and back.
    pub buffering: config::Buffering,
    /// Bytes that a request's body may have.
    pub max_body_size: Option<u64>,
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

impl Snapshot {
    /// Compiles a document, except for the TLS of its listeners. `queue` gives each application
    /// its queue: that of the running application if its settings are the same. What `previous`
    /// knows of upstreams that are still the same is kept; `known` is what is known of them. `log` is
    /// the file of the access log; without one there is no access log.
    pub fn compile(
        config: Config,
        log: Option<Arc<LogFile>>,
        previous: Option<&Snapshot>,
        known: &Known,
        mut queue: impl FnMut(&config::Application) -> Arc<Queue>,
    ) -> Self {
        let mime = Arc::new(mime_types(&config));
        let mut singles = Singles::new(known, previous.map(|previous| &previous.singles));
        let listeners = config
            .listeners
            .iter()
            .map(|listener| (listener.name.clone(), Listener::new(listener)))
            .collect();
        let mut routes: HashMap<_, _> = config
            .routes
            .iter()
            .map(|route| {
                let steps = route.steps.iter().map(|step| Step {
                    conditions: step.conditions.clone(),
                    action: compile_action(&step.action, &mime, &mut singles),
                    captures: step.captures,
                });
                let index = Index::if_worthwhile(route.steps.iter().map(|step| &step.conditions));
                let name = route.name.clone().unwrap_or_default();
                (name, Route { steps: steps.collect(), index })
            })
            .collect();
        let applications = config
            .applications
            .iter()
            .map(|application| {
                let compiled = Application {
                    name: application.name.as_str().into(),
                    config: application.clone(),
                    queue: queue(application),
                    targets: Targets::new(&application.targets),
                };
                (application.name.clone(), Arc::new(compiled))
            })
            .collect();
        let upstreams: HashMap<_, _> = config
            .upstreams
            .iter()
            .map(|upstream| {
                let running = previous.and_then(|previous| previous.upstreams.get(&upstream.name));
                let tls = known.client(upstream.tls.as_ref());
                let compiled = Upstream::new(&known.resolved(upstream), tls).following(running);
                (upstream.name.clone(), compiled)
            })
            .collect();
        let fastcgi = { config.fastcgi.iter() }
            .filter_map(|site| {
                let upstream = match &site.servers {
                    config::Servers::One(address) => singles.fastcgi(address),
                    config::Servers::Upstream(name) => Arc::clone(upstreams.get(name)?),
                };
                let running = previous.and_then(|previous| previous.fastcgi.get(&site.name));
                Some((site.name.clone(), Site::new(site, upstream).following(running)))
            })
            .collect();
        let delegations = Delegations::new(&config, &mime);
        let access_log = config.access_log.as_ref().zip(log);
        let access_log = access_log.map(|(config, file)| AccessLog::new(config, file));
        Snapshot {
            config,
            listeners,
            main_route: routes.remove(""),
            routes,
            applications,
            fastcgi,
            upstreams,
            singles: singles.into_table(),
            tls_clients: known.clients.clone(),
            delegations,
            access_log,
        }
    }
}

impl Snapshot {
    /// The route of a name; that of the empty name is the one without any.
    pub fn route(&self, name: &str) -> Option<&Route> {
        match name {
            "" => self.main_route.as_ref(),
            name => self.routes.get(name),
        }
    }

    /// What clients may ask of us.
    pub fn limits(&self) -> Limits {
        let http = &self.config.settings.http;
        // A request is held to what its own action says when that is known.
        let steps = self.config.routes.iter().flat_map(|route| &route.steps);
        let most_body = steps.map(|step| step.action.most_body()).max().unwrap_or(0);
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Limits {
            header_timeout: http.header_read_timeout,
            body_timeout: http.body_read_timeout,
            send_timeout: http.send_timeout,
            idle_timeout: http.idle_timeout,
            max_head: bytes(http.max_head_size()),
            max_line: bytes(http.large_header_buffer_size),
            max_fields: bytes(http.max_header_fields),
            max_body: http.max_body_size.max(most_body),
            min_rate: http.min_rate,
            grace: http.min_rate_grace,
            chunked_bodies: http.chunked_transform,
            discard_unsafe_fields: http.discard_unsafe_fields,
            strict: http.strict_requests,
            server: Bytes::from_static(match http.server_version {
                true => concat!("Howdah/", env!("CARGO_PKG_VERSION")).as_bytes(),
                false => b"Howdah",
            }),
            ..Limits::default()
        }
    }
}

impl Listener {
    fn new(listener: &config::Listener) -> Self {
        let proxies = [&listener.forwarded, &listener.client_ip];
        Listener {
            pass: compile_pass(&listener.pass),
            tls: None,
            http2: listener.http2,
            redirect_to_https: listener.redirect_to_https,
            balancers: listener.proxy_protocol.clone(),
            proxies: proxies.into_iter().flatten().cloned().collect(),
        }
    }
}

fn compile_pass(pass: &Pass) -> CompiledPass {
    match pass {
        Pass::Fixed(target) => CompiledPass::Fixed(target.clone()),
        Pass::Variable(template) => CompiledPass::Variable(template.clone()),
    }
}

fn compile_action(
    action: &config::Action,
    mime: &Arc<howdah_files::mime::MimeTypes>,
    singles: &mut Singles<'_>,
) -> Action {
    let kind = match &action.kind {
        config::ActionKind::Pass(pass) => ActionKind::Pass(compile_pass(pass)),
        config::ActionKind::Return(answer) => ActionKind::Return(compile_return(answer)),
        config::ActionKind::Proxy(proxy) => ActionKind::Proxy(singles.proxy(proxy)),
        config::ActionKind::Status(application) => ActionKind::Status(application.clone()),
        config::ActionKind::Ping(ping) => ActionKind::Ping(ping.clone()),
        config::ActionKind::Share(share) => ActionKind::Share(Box::new(Share {
            paths: share.paths.iter().map(|path| compile_path(path, share, mime)).collect(),
            candidates: share.candidates.clone(),
            chroot: share.chroot.clone(),
            scripts: share.scripts.clone(),
            fallback: share.fallback.as_ref().map(|action| compile_action(action, mime, singles)),
        })),
    };
    Action {
        kind,
        rewrite: action.rewrite.clone(),
        response_headers: action.response_headers.clone(),
        compress: action.compress,
        allow: action.access.allow.clone(),
        deny: action.access.deny.clone(),
        error_pages: { action.error_pages.iter() }
            .map(|page| compile_page(page, mime, singles))
            .collect(),
        security_headers: action.security_headers,
        cors: action.cors.clone(),
        buffering: action.buffering,
        max_body_size: action.max_body_size,
        auth: action.access.basic_auth.as_ref().map(|auth| Arc::new(BasicAuth::new(auth))),
    }
}

fn compile_return(answer: &config::Return) -> Return {
    let location = answer.location.as_ref().map(|template| match template.constant() {
        Some(text) => Location::Fixed(location::encode(text.as_bytes()).into()),
        None => Location::Variable(template.clone()),
    });
    Return { status: answer.status, location, keep_query: answer.keep_query }
}

fn compile_page(
    page: &config::ErrorPage,
    mime: &Arc<howdah_files::mime::MimeTypes>,
    singles: &mut Singles<'_>,
) -> ErrorPage {
    let source = match &page.source {
        config::PageSource::File(file) => {
            let mime = Arc::clone(mime);
            let options = howdah_files::Options {
                mime,
                precompressed: false,
                ..howdah_files::Options::default()
            };
            // The file is absolute and has a name, says `howdah-config`.
            let name = file.file_name().unwrap_or_default().as_bytes();
            let directory = file.parent().unwrap_or(Path::new("/"));
            let files = howdah_files::Share::new(directory, options);
            PageSource::File { files, path: [b"/", name].concat().into() }
        }
        config::PageSource::Action { action, keep_status } => PageSource::Action {
            action: Box::new(compile_action(action, mime, singles)),
            keep_status: *keep_status,
        },
    };
    ErrorPage { status: page.status, source }
}

fn compile_path(
    template: &Template,
    share: &config::Share,
    mime: &Arc<howdah_files::mime::MimeTypes>,
) -> SharePath {
    let options = howdah_files::Options {
        index: share.index.clone(),
        symlinks: share.symlinks,
        traverse_mounts: share.traverse_mounts,
        scripts: share.scripts.is_some(),
        precompressed: true,
        types: share.types.clone(),
        mime: Arc::clone(mime),
    };
    if let [Part::Literal(root), Part::Variable(Variable::Uri)] = template.parts()
        && root.starts_with('/')
    {
        let root = root.strip_suffix('/').unwrap_or(root);
        return SharePath { files: howdah_files::Share::new(root, options), template: None };
    }
    let fixed = match template.parts().first() {
        Some(Part::Literal(literal)) => literal.len(),
        _ => 0,
    };
    let ends_with_path = matches!(template.parts().last(), Some(Part::Variable(Variable::Uri)));
    let template = NameTemplate { template: template.clone(), fixed, ends_with_path };
    SharePath { files: howdah_files::Share::new("", options), template: Some(template) }
}

fn mime_types(config: &Config) -> howdah_files::mime::MimeTypes {
    let types = &config.settings.http.mime_types;
    howdah_files::mime::MimeTypes::new(types.iter().flat_map(|(media_type, extensions)| {
        extensions.iter().map(move |extension| (extension.as_str(), media_type.as_str()))
    }))
}
