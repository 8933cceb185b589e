//! The configuration document: parses JSON to a typed configuration; every error has its JSON path.
//!
//! The grammar is NGINX Unit's, with additions in its style; `docs/configuration.md` and its pages
//! list every key. [`parse`] goes from text to [`Config`] in three steps: [`json`] reads the text,
//! the types below read their keys from the value tree, and references to other parts of the
//! document (`pass`, `scripts`) are checked. The result is complete: defaults are filled in,
//! patterns and templates are compiled, and every constant reference is valid. An error has the
//! mistakes of all parts that could be read on their own ([`Error::others`]).
//!
//! This crate opens no file and no socket. A document is untrusted input: no text causes a panic or
//! unbounded recursion.
#![forbid(unsafe_code)]

mod access;
mod access_log;
mod action;
mod action_options;
mod actions;
mod address;
mod address_pattern;
mod application;
mod buffering;
mod by_type;
mod cache;
mod cluster;
mod compression;
mod condition;
mod config;
mod cookie_flags;
mod cors;
mod defaults;
mod definitions;
mod delegation;
mod directory_settings;
mod environment;
mod error;
mod error_logs;
mod expires;
mod fastcgi;
mod fastcgi_listener;
mod fields;
mod file_conditions;
mod fixed_response;
mod forwarded;
mod htaccess;
mod http3;
pub mod include;
mod isolation;
mod jobs;
pub mod json;
mod json_schema;
mod key;
mod limit;
mod listener;
mod listener_socket;
mod mail;
mod matching;
mod memory_budget;
mod mistakes;
mod node;
mod patterns;
mod php;
mod place;
mod prefix;
mod processes;
mod proxy;
mod replacement;
mod request_headers;
mod resources;
mod response_headers;
mod retry;
mod rewrite;
mod route;
mod route_settings;
mod router_paths;
mod sandbox;
mod script_extensions;
mod script_sources;
mod script_variables;
mod server_listeners;
mod server_options;
mod session_bandwidth;
mod settings;
mod share;
mod site;
mod smtp;
mod static_types;
mod sticky;
mod stream;
mod suggest;
mod target;
mod telemetry;
mod templates;
mod timeouts;
mod tls;
mod types_file;
mod udp;
pub mod units;
mod upstream;
mod upstream_tls;
mod variables;
mod worker;

pub use howdah_template::{
    Captures, Defined, DefinedVariables, Group, Groups, Part, Pattern, PatternError, Patterns,
    RequiredTexts, SslVariable, Subject, Substitution, Template, TemplateError, UpstreamVariable,
    Variable, geo_database, split_name,
};

pub use access::{Access, BasicAuth, Members};
pub use access_log::{
    AccessLog, DEFAULT_FPM_FORMAT, Destination, FpmFormat, FpmLog, FpmPart, FpmTime,
    JOURNAL_SOCKET, Journal, LogFormat, LogValue, Only, Syslog, SyslogProtocol, SyslogServer,
};
pub use action::{Action, ActionKind, AuthRequest, ErrorPage, PageSource, PageStatus, Share};
pub use action_options::{ActionOptions, BodyLimit};
pub use actions::RouterPath;
pub use address::{Address, AddressError};
pub use address_pattern::{AddressPattern, AddressPatternError, AddressPatterns};
pub use application::{Application, Fairness, Limits, RLIMITS, limit_key};
pub use buffering::Buffering;
pub use by_type::ByType;
pub use cache::presets::NAMES as CACHE_PRESETS;
pub use cache::{Cache, CacheDisk, CacheOption, CacheStore, Ignored, VaryRule};
pub use cluster::{Cluster, Password};
pub use compression::{Compression, Compressor, ENCODINGS};
pub use condition::{Condition, Moment};
pub use config::{Config, DOCUMENT, parse, parse_with};
pub use cookie_flags::CookieFlags;
pub use cors::Cors;
pub use defaults::Defaults;
pub use delegation::Delegation;
pub use directory_settings::{is_directory_setting, is_request_setting};
pub use environment::EnvironmentSource;
pub use error::{Error, ErrorKind, Position, Unknown};
pub use error_logs::ErrorLog;
pub use expires::{BrowserCaching, Expiry, Fingerprinted, is_fingerprinted};
pub use fastcgi::{FastCgi, FastCgiLimits, Servers};
pub use fastcgi_listener::FastCgiListener;
pub use fields::FieldPatterns;
pub use file_conditions::{FileCondition, FileTest};
pub use fixed_response::{Ping, Return, UNANSWERED};
pub use forwarded::Forwarded;
pub use htaccess::{Htaccess, HtaccessAlias, HtaccessMap, HtaccessSection};
pub use http3::{Http3, Http3Port, Http3Retry};
pub use isolation::{Automount, IdRange, Isolation, Namespaces};
pub use json_schema::schema;
pub use key::{Inheritance, Key, Kind, Presence, Shape};
pub use limit::{LimitBandwidth, LimitExceptions, LimitPenalty, LimitRate, LimitRule};
pub use listener::{CleartextHttp2, Listener};
pub use listener_socket::ListenerSocket;
pub use mail::{Mail, MailAuthentication, MailMethod, MailProtocol};
pub use matching::{Match, Scheme};
pub use memory_budget::MemoryBudget;
pub use node::Shown;
pub use php::{PhpOptions, PhpTarget, PhpVersion, ScriptDirectories};
pub use place::{path, split_path};
pub use prefix::Prefix;
pub use processes::{DynamicProcesses, Processes};
pub use proxy::Proxy;
pub use replacement::Replacement;
pub use request_headers::RequestHeaders;
pub use resources::{ControlGroup, ResourceLimits};
pub use response_headers::{HeaderChange, ResponseHeader};
pub use retry::{Retry, RetryConditions};
pub use rewrite::{QueryChange, Rewrite};
pub use route::{Route, Step};
pub use sandbox::{Sandbox, SandboxFiles};
pub use script_extensions::ScriptExtensions;
pub use script_sources::ScriptSources;
pub use server_listeners::ServerListeners;
pub use server_options::ServerOptions;
pub use session_bandwidth::SessionBandwidth;
pub use settings::{HttpSettings, Settings};
pub use share::{Candidate, ListingFormat, Symlinks};
pub use site::{
    FrontController, MAX_SITE_BODY_SIZE, Site, SiteHttps, SiteLimits, SitePhp, SiteWorker, has_dns,
};
pub use smtp::{MailServer, Smtp, SmtpTls};
pub use sticky::{SameSite, Sticky};
pub use stream::{Session, Stream, StreamStep};
pub use target::{Pass, Target};
pub use telemetry::{Endpoint, Telemetry, TelemetryMetrics};
pub use timeouts::{TimeoutChanges, Timeouts};
pub use tls::{
    Acme, AcmeChallenge, AcmeKey, AcmeServer, Alpn, Certificate, CipherSuite, ClientCertificates,
    DnsHook, ExternalAccount, KeyExchange, OnDemand, StartTls, TicketKey, Tickets, Tls,
    TlsParameters, TlsSession,
};
pub use udp::UdpSessions;
pub use upstream::{Balance, Failures, ForwardedFields, Health, Upstream, UpstreamServer};
pub use upstream_tls::UpstreamTls;
pub use worker::WorkerScript;

#[cfg(test)]
mod tests;
