//! Byte formats shared by Howdah's processes; no I/O, no clock, no unsafe code.
//!
//! - [`region`]: memory shared between the router and one application's workers.
//! - [`queue`]: queue of requests from the router to idle workers.
//! - [`request`]: encoding of a request.
//! - [`php_values`]: settings of PHP for one request.
//! - [`profile`]: the order to sample the script of a request, and its samples.
//! - [`stream`]: responses of workers to router threads.
//! - [`frame`]: frames of a response.
//! - [`spans`]: spans of traces, from the router to the telemetry process; [`metrics`]: metrics there;
//!   [`lost_spans`]: the number of spans that were lost.
//! - [`messages`]: messages between router, control process, supervisor, prototypes and workers.
//! - [`fastcgi`]: FastCGI records.
//! - [`dns`]: DNS queries for addresses, and their responses.
//! - [`proxy_protocol`]: headers of the PROXY protocol.
//! - `prometheus` (a feature): metrics, from the router to scrapers and the telemetry process.
//!
//! Every input may come from a compromised process: a length is copied once and then checked, and
//! no index is used unchecked.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod dns;
pub mod fastcgi;
pub mod frame;
pub mod lost_spans;
pub mod messages;
pub mod metrics;
pub mod php_values;
pub mod profile;
#[cfg(feature = "prometheus")]
pub mod prometheus;
pub mod proxy_protocol;
pub mod queue;
pub mod region;
pub mod request;
pub mod spans;
pub mod stream;
