//! Properties of every parser, for any bytes.
//!
//! Each function here takes the input of one fuzz target, makes a parser read it, and fails if the
//! result breaks a promise of that parser: a second, plainer reading disagrees, a result does not
//! read back, or a range leaves its input. That nothing panics and nothing runs on without end
//! comes for free. The files in `targets/` hand each function to libFuzzer under the name that
//! [`TARGETS`] gives it; `tests/seeds.rs` feeds them the inputs in `seeds/` without a fuzzer.
//!
//! Inputs are text wherever the parser's are, so that a seed or a finding can be read: parts of one
//! input are lines of it ([`split`]). The input of a state machine is a sequence of bytes
//! ([`Bytes`]).
#![forbid(unsafe_code)]

pub mod access_log;
pub mod cache;
pub mod cluster;
pub mod config;
pub mod control;
pub mod files;
pub mod htaccess;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod import;
pub mod include;
pub mod mail;
pub mod mail_proxy;
pub mod php;
pub mod proxy;
pub mod sites;
pub mod supervisor;
pub mod sys;
pub mod wire;

mod bytes;
mod connection;
mod http3_connection;

pub use bytes::{Bytes, split};

/// Function for one input; fails if a promise is broken.
pub type Target = fn(&[u8]);

/// Every target by the name of its file in `targets/` and of its directory in `seeds/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("access_log_mask", access_log::mask),
    ("cache_directives", cache::directives),
    ("cache_disk", cache::disk),
    ("cache_esi", cache::esi),
    ("cache_rules", cache::rules),
    ("cluster_purge", cluster::purge),
    ("config_address", config::address),
    ("config_address_pattern", config::address_pattern),
    ("config_captures", config::captures),
    ("config_document", config::document),
    ("config_expires", config::expires),
    ("config_geo_database", config::geo_database),
    ("config_include", include::expand),
    ("config_json", config::json),
    ("config_pattern", config::pattern),
    ("config_prefix", config::prefix),
    ("config_rewrite", config::rewrite),
    ("config_target", config::target),
    ("config_template", config::template),
    ("config_variables", config::variables),
    ("control_bundle", control::bundle),
    ("control_guard", control::fields),
    ("control_requests", control::requests),
    ("files_accept_encoding", files::accept_encoding),
    ("files_conditional", files::conditional),
    ("files_hidden", files::hidden),
    ("files_listing_order", files::listing_order),
    ("files_range", files::range),
    ("htaccess_expression", htaccess::expression),
    ("htaccess_parser", htaccess::parser),
    ("htaccess_request", htaccess::request),
    ("http1_authority", http1::authority),
    ("http1_chunked", http1::chunked),
    ("http1_connection", connection::connection),
    ("http1_content_length", http1::content_length),
    ("http1_head", http1::head),
    ("http1_target", http1::target),
    ("http1_trace_context", http1::trace_context),
    ("http2_blocks", http2::blocks),
    ("http3_connection", http3_connection::connection),
    ("http3_section", http3::section),
    ("http3_streams", http3::streams),
    ("import_apache", import::apache),
    ("import_nginx", import::nginx),
    ("import_php_fpm", import::php_fpm),
    ("import_unit", import::unit),
    ("mail_conversation", mail::conversation),
    ("mail_message", mail::message),
    ("mail_proxy_clients", mail_proxy::clients),
    ("mail_proxy_hello", mail_proxy::hello),
    ("mail_proxy_servers", mail_proxy::servers),
    ("mail_reply", mail::reply),
    ("php_answer", php::answer),
    ("php_params", php::params),
    ("php_response", php::response),
    ("php_script", php::script),
    ("proxy_response", proxy::response),
    ("sites_composer", sites::composer),
    ("supervisor_router", supervisor::router),
    ("sys_log", sys::log),
    ("wire_dns", wire::dns),
    ("wire_fastcgi", wire::fastcgi),
    ("wire_fastcgi_requests", wire::fastcgi_requests),
    ("wire_frame", wire::frame),
    ("wire_hostile", wire::hostile),
    ("wire_messages", wire::messages),
    ("wire_metrics", wire::metrics),
    ("wire_proxy_protocol", wire::proxy_protocol),
    ("wire_queue", wire::queue),
    ("wire_request", wire::request),
    ("wire_spans", wire::spans),
    ("wire_stream", wire::stream),
];

/// Runs a target by name; for the files in `targets/`.
///
/// # Panics
/// If a promise is broken, or if the target does not exist.
pub fn run(target: &str, input: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    found.unwrap_or_else(|| panic!("there is no target {target}")).1(input);
}
