//! The configuration document: JSON to typed configuration, every problem with its JSON path.
//!
//! The grammar is NGINX Unit's, with additions in its style; `docs/configuration.md` lists every key.
//! [`parse`] goes from text to [`Config`] in three steps: [`json`] reads the text, the types below
//! read their keys from the value tree, and whatever names another part of the document (`pass`,
//! `scripts`) is checked against it. What is returned is complete: defaults are filled in, patterns
//! and templates are compiled, and every fixed reference leads somewhere.
//!
//! Nothing here touches a file or a socket, except [`detect`], which looks at a directory to make a
//! document for it. A document is hostile input: no text makes this crate panic or recurse without
//! bound.
#![forbid(unsafe_code)]

mod access;
mod access_log;
mod action;
mod actions;
mod address;
mod address_pattern;
mod advice;
mod application;
pub mod base64;
mod captures;
mod compression;
mod condition;
mod cors;
mod defaults;
mod delegation;
pub mod detect;
mod error;
mod error_pages;
mod fastcgi;
mod fields;
mod foreign;
mod forwarded;
mod isolation;
pub mod json;
mod listener;
mod matching;
mod names;
mod node;
mod pattern;
mod percent;
mod php;
mod processes;
mod reads;
mod replacement;
mod route;
mod sandbox;
mod schema;
mod settings;
mod share;
mod suggest;
mod target;
mod template;
mod timeouts;
mod tls;
mod token;
mod upstream;
mod upstream_tls;

use serde_json::Value;

pub use access::{Access, BasicAuth};
pub use access_log::{AccessLog, LogFormat};
pub use action::{Action, ActionKind, Buffering, Ping, Proxy, ResponseHeader, Return};
pub use actions::Served;
pub use address::{Address, AddressError};
pub use address_pattern::{AddressPattern, AddressPatternError, AddressPatterns};
pub use advice::Advice;
pub use application::{Application, Limits, RLIMITS};
pub use captures::{Captures, Group, Groups};
pub use compression::{Compression, Compressor, Encoding};
pub use condition::Condition;
pub use cors::Cors;
pub use defaults::Defaults;
pub use delegation::Delegation;
pub use error::{Error, ErrorKind, Position};
pub use error_pages::{ErrorPage, PageSource};
pub use fastcgi::{FastCgi, FastCgiLimits, Servers};
pub use fields::FieldPatterns;
pub use forwarded::Forwarded;
pub use isolation::{Automount, IdRange, Isolation, Namespaces};
pub use listener::{Listener, PlainHttp2};
pub use matching::{Match, Scheme};
pub use pattern::{Landmarks, Pattern, PatternError, Patterns, Subject};
pub use php::{PhpOptions, PhpTarget, PhpVersion, ScriptDirectories};
pub use processes::{Dynamic, Processes};
pub use replacement::Replacement;
pub use route::{Route, Step};
pub use sandbox::{Sandbox, SandboxFiles};
pub use schema::schema;
pub use settings::{HttpSettings, Settings};
pub use share::{Candidate, Share, Symlinks};
pub use target::{Pass, Target};
pub use template::{Part, SslVariable, Template, TemplateError, Variable};
pub use timeouts::Timeouts;
pub use tls::{
    Acme, AcmeChallenge, AcmeKey, AcmeServer, Certificate, CipherSuite, ClientCertificates,
    DnsHook, ExternalAccount, KeyExchange, OnDemand, TicketKey, Tickets, Tls, TlsParameters,
    TlsSession,
};
pub use upstream::{Balance, Failures, ForwardedFields, Health, Upstream, UpstreamServer};
pub use upstream_tls::UpstreamTls;

pub use crate::node::path;

use crate::names::Names;
use crate::node::{Node, Scope};

/// A document that can be served.
#[derive(Debug, Clone)]
pub struct Config {
    /// The document itself, members in the order written.
    pub document: Value,
    /// The sockets that accept connections.
    pub listeners: Vec<Listener>,
    /// The routes: one without a name, or any number with names.
    pub routes: Vec<Route>,
    /// The PHP applications.
    pub applications: Vec<Application>,
    /// The applications that FastCGI servers run.
    pub fastcgi: Vec<FastCgi>,
    /// Servers that share the requests passed to them.
    pub upstreams: Vec<Upstream>,
    /// What holds for all listeners.
    pub settings: Settings,
    /// One line for each request.
    pub access_log: Option<AccessLog>,
}

/// Reads a document, with Howdah's own defaults.
pub fn parse(text: &[u8]) -> Result<Config, Error> {
    parse_with(text, &Defaults::default())
}

/// Reads a document with these defaults.
pub fn parse_with(text: &[u8], defaults: &Defaults) -> Result<Config, Error> {
    Config::from_value_with(json::parse(text)?, defaults)
}

impl Config {
    /// Reads a document that is a value tree already, with Howdah's own defaults.
    pub fn from_value(document: Value) -> Result<Config, Error> {
        Config::from_value_with(document, &Defaults::default())
    }

    /// Reads a document that is a value tree already, with these defaults.
    pub fn from_value_with(document: Value, defaults: &Defaults) -> Result<Config, Error> {
        let groups = Groups::default();
        let scope = Scope { names: Names::of(&document), defaults: *defaults, groups: &groups };
        let root = Node::root(&document, &scope);
        let object = root.object()?;
        let settings = object.read("settings", Settings::read)?;
        let settings = settings.unwrap_or_else(|| Settings::new(defaults));
        let listeners = object.read("listeners", Listener::read_all)?.unwrap_or_default();
        let routes = object.read("routes", Route::read_all)?.unwrap_or_default();
        let (applications, fastcgi) =
            object.read("applications", read_applications)?.unwrap_or_default();
        let upstreams = object.read("upstreams", Upstream::read_all)?.unwrap_or_default();
        let access_log = object.read("access_log", AccessLog::read)?;
        object.end()?;
        Ok(Config {
            listeners,
            routes,
            applications,
            fastcgi,
            upstreams,
            settings,
            access_log,
            document,
        })
    }

    /// The route that a [`Target::Route`] names.
    pub fn route(&self, name: Option<&str>) -> Option<&Route> {
        self.routes.iter().find(|route| route.name.as_deref() == name)
    }

    /// How TLS is spoken with other servers, each time with the place that says so.
    pub fn upstream_tls(&self) -> Vec<(String, UpstreamTls)> {
        let mut all: Vec<_> = { self.upstreams.iter() }
            .filter_map(|upstream| {
                let place = format!("{}/tls", path(["upstreams", upstream.name.as_str()]));
                upstream.tls.clone().map(|tls| (place, tls))
            })
            .collect();
        let secure = self.proxies().into_iter().find(|(_, proxy)| proxy.tls.is_some());
        all.extend(secure.map(|(place, _)| (place, UpstreamTls::default())));
        all
    }

    /// The names of servers that have to be looked up.
    pub fn server_names(&self) -> Vec<String> {
        let upstreams = self.upstreams.iter().flat_map(|upstream| &upstream.servers);
        let upstreams = upstreams.map(|server| &server.address);
        let proxies = self.proxies().into_iter().map(|(_, proxy)| &proxy.address);
        let fastcgi = self.fastcgi.iter().filter_map(|site| match &site.servers {
            Servers::One(address) => Some(address),
            Servers::Upstream(_) => None,
        });
        let all = upstreams.chain(proxies).chain(fastcgi);
        all.filter_map(|address| match address {
            Address::Name(name, _) => Some(name.clone()),
            _ => None,
        })
        .collect()
    }

    /// The servers of all actions, each with its place.
    fn proxies(&self) -> Vec<(String, &Proxy)> {
        let mut all = Vec::new();
        for (place, action) in self.actions() {
            if let ActionKind::Proxy(proxy) = &action.kind {
                all.push((format!("{place}/proxy"), proxy));
            }
        }
        all
    }

    /// The application of this name.
    pub fn application(&self, name: &str) -> Option<&Application> {
        self.applications.iter().find(|application| application.name == name)
    }
}

/// Reads the members of `applications`: those that run here, and those of FastCGI servers.
fn read_applications(node: &Node<'_>) -> Result<(Vec<Application>, Vec<FastCgi>), Error> {
    let (mut applications, mut fastcgi) = (Vec::new(), Vec::new());
    for (name, application) in node.members()? {
        match FastCgi::is(&application) {
            true => fastcgi.push(FastCgi::read(name, &application)?),
            false => applications.push(Application::read(name, &application)?),
        }
    }
    Ok((applications, fastcgi))
}

#[cfg(test)]
mod tests;
