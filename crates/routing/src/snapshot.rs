//! Snapshots: compiled configurations.
//!
//! A request takes one snapshot at its start and keeps it to its end; a reconfiguration replaces
//! the current one and affects no request in progress.

pub mod action;
mod compile;
pub mod delegations;
pub mod effects;
pub mod index;
pub mod location;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_access_log::{AccessLog, LogFiles};
use howdah_cache::store::Store;
use howdah_config::{self as config, Config};
use howdah_http::compress::Compression;
use howdah_http::limits::Limits;
use howdah_http::trace_context::Tracing;
use howdah_limits::rules::Rule;
use howdah_limits::zone::Zones;
use howdah_mail_proxy::proxy::MailProxy;
use howdah_php_pool::application::Application;
use howdah_tls::{TlsClients, TlsListener};
use howdah_upstream::fastcgi::application::FastCgiApplication;
use howdah_upstream::servers::direct::DirectUpstreamTable;
use howdah_upstream::servers::upstream::Upstream;

use self::action::{Action, CompiledPass};
use self::delegations::Delegations;
use self::index::Index;
use crate::htaccess_state::site::Site;

/// A compiled configuration.
#[derive(Debug)]
pub struct Snapshot {
    /// The document and its typed form.
    pub config: Config,
    /// Listeners by name.
    pub listeners: HashMap<String, Listener>,
    /// The unnamed route, which most documents have. Not in `routes`: looking up the empty name
    /// costs more than the rest of the look-up on some processors.
    pub main_route: Option<Route>,
    /// Routes by name.
    pub routes: HashMap<String, Route>,
    /// Applications by name.
    pub applications: HashMap<String, Arc<Application>>,
    /// Applications of FastCGI servers by name.
    pub fastcgi: HashMap<String, Arc<FastCgiApplication>>,
    /// Sites with `.htaccess` files, by the names of their applications.
    pub htaccess: HashMap<String, Arc<Site>>,
    /// Stores of cached responses by name.
    pub caches: HashMap<String, Arc<Store>>,
    /// Proxies of mail by name.
    pub mail: HashMap<String, Arc<MailProxy>>,
    /// Upstreams by name.
    pub upstreams: HashMap<String, Arc<Upstream>>,
    /// Servers that actions and applications name themselves.
    pub direct_upstreams: DirectUpstreamTable,
    /// Internal redirects that applications and upstreams may use.
    pub delegations: Delegations,
    /// TLS settings for upstreams.
    pub tls_clients: TlsClients,
    /// Access logs of requests without others.
    pub access_log: Arc<[AccessLog]>,
    /// Access logs of applications that have some, by their names.
    pub application_logs: HashMap<String, Arc<[AccessLog]>>,
    /// The files of all access logs.
    pub logs: LogFiles,
    /// Counters of limits.
    pub zones: Zones,
    /// Compression of responses; `None` if none is compressed.
    pub compression: Option<Compression>,
    /// Rules of traces; `None` without telemetry.
    pub tracing: Option<Tracing>,
}

/// A listener as requests see it.
#[derive(Debug)]
pub struct Listener {
    /// Target of requests.
    pub pass: CompiledPass,
    /// Settings for web servers that speak FastCGI; `None` for other protocols.
    pub fastcgi: Option<config::FastCgiListener>,
    /// Its protocol, if connections are not requests.
    pub session: Option<config::Session>,
    /// TLS settings; `None` for plain connections.
    pub tls: Option<Arc<TlsListener>>,
    /// Value of `Alt-Svc` in responses over TLS and TCP: how clients reach HTTP/3, or that they no
    /// longer do. `None` for none.
    pub alternative: Option<Arc<str>>,
    /// Port of the https redirect for requests without TLS.
    pub redirect_to_https: Option<u16>,
    /// HTTP/3; `None` without.
    pub http3: Option<config::Http3>,
    /// HTTP/2 on connections without TLS.
    pub http2: config::CleartextHttp2,
    /// Addresses whose connections begin with the PROXY protocol.
    pub balancers: Option<config::AddressPatterns>,
    /// Trusted proxies, in the order in which their fields are read.
    pub proxies: Vec<config::Forwarded>,
    /// Access logs of its requests; `None` for those of the document.
    pub access_log: Option<Arc<[AccessLog]>>,
    /// Limits of requests.
    pub limit: Arc<[Rule]>,
}

/// A list of steps.
#[derive(Debug)]
pub struct Route {
    /// The name; `None` for the unnamed route.
    pub name: Option<Arc<str>>,
    /// The steps in order.
    pub steps: Vec<RouteStep>,
    /// Index of the steps, if there are many.
    pub index: Option<Index>,
}

/// A step of a route.
#[derive(Debug)]
pub struct RouteStep {
    /// Conditions.
    pub conditions: Arc<config::Match>,
    /// Action if they hold.
    pub action: Arc<Action>,
    /// The action uses captures of the conditions.
    pub captures: bool,
}

impl Snapshot {
    /// Returns the route of this name; the empty name is the unnamed route.
    pub fn route(&self, name: &str) -> Option<&Route> {
        match name {
            "" => self.main_route.as_ref(),
            name => self.routes.get(name),
        }
    }

    /// Limits of connections and requests. `tmp` is the usual directory for temporary files.
    pub fn limits(&self, tmp: &Arc<Path>) -> Limits {
        let http = &self.config.settings.http;
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Limits {
            header_timeout: http.header_read_timeout,
            body_timeout: http.body_read_timeout,
            send_timeout: http.send_timeout,
            idle_timeout: http.idle_timeout,
            max_head: bytes(http.max_head_size()),
            max_line: bytes(http.large_header_buffer_size),
            max_fields: bytes(http.max_header_fields),
            // The limit is that of the request's action, which is enforced once it is known.
            max_body: u64::MAX,
            min_rate: http.min_rate,
            grace: http.min_rate_grace,
            chunked_bodies: http.chunked_transform,
            discard_unsafe_fields: http.discard_unsafe_fields,
            strict: http.strict_requests,
            server: Bytes::from_static(if http.server_version {
                concat!("Howdah/", env!("CARGO_PKG_VERSION")).as_bytes()
            } else {
                b"Howdah"
            }),
            temporary: match &http.body_temp_path {
                Some(path) => path.as_path().into(),
                None => Arc::clone(tmp),
            },
            ..Limits::default()
        }
    }
}
