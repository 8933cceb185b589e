//! Byte formats shared by Howdah's processes; no I/O, no clock, no unsafe code.
//!
//! - [`region`]: the shared memory between the router and one application's workers.
//! - [`queue`]: the queue of requests from the router to idle workers.
//! - [`request`]: the encoding of a request.
//! - [`stream`]: the responses of workers to router threads.
//! - [`frame`]: the frames of a response.
//! - [`messages`]: messages between router, control process, supervisor, prototypes and workers.
//! - [`fastcgi`]: FastCGI records.
//! - [`dns`]: DNS queries for addresses, and their responses.
//! - [`proxy_protocol`]: headers of the PROXY protocol.
//!
//! Every input may come from a process that has been taken over: a length is copied once and then
//! checked, and no index is used unchecked.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod dns;
pub mod fastcgi;
pub mod frame;
pub mod messages;
pub mod proxy_protocol;
pub mod queue;
pub mod region;
pub mod request;
pub mod stream;
