//! Byte formats shared by Howdah's processes; no I/O, no clock, no unsafe code.
//!
//! - [`region`]: the shared memory between the router and one application's workers.
//! - [`queue`]: requests from the router to whichever worker is idle.
//! - [`stream`]: what a worker answers, back to the router thread that asked.
//! - [`fastcgi`]: records of FastCGI, for other servers of PHP.
//! - [`dns`]: questions for the addresses of names, and their answers.
//! - [`frame`]: the pieces that such an answer consists of.
//! - [`proxy_protocol`]: what balancers say of a connection.
//! - [`request`]: a request as a worker gets it.
//! - [`messages`]: router, supervisor and prototypes among each other.
//!
//! Everything that is read here was written by a process that may have been taken over: lengths
//! are checked after they were copied out once, and no index read from the other side is used
//! unchecked.
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
