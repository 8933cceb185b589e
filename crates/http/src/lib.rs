//! HTTP between the server and its clients, independent of the handlers of requests.
//!
//! A connection of [`h1`], [`h2`], [`h3`] or [`fastcgi`] reads a [`message::Request`], passes it to an
//! [`exchange::Handler`] as an [`exchange::Exchange`], and sends the [`message::Response`] that the
//! handler returns. This crate does not know the configuration of sites, routes, files or
//! applications.
//!
//! | folder | content |
//! | --- | --- |
//! | `h1`, `h2`, `h3`, `fastcgi` | the protocols: from a connection to requests, from responses to the connection |
//! | `streams` | what HTTP/2 and HTTP/3 have in common: requests on the streams of a connection |
//! | `message` | requests and responses |
//! | `body` | bodies of responses; transfer, buffering and spooling of bodies |
//! | `syntax` | parsers and writers of single elements: targets, hosts, framing, encodings, dates |
//! | `connection` | parts of a connection: input buffer, timer, drain signal, eviction, bytes both ways, tunnel |
//! | `compress` | compression of responses |
//!
//! Beside the folders: [`exchange`] is the interface between protocols and handlers, [`limits`]
//! bounds the time and size of requests, [`request_body`] collects the body of a request,
//! [`copied_body`] keeps a copy of one, [`handling`] records facts about its handlers,
//! [`error_status`] names the errors that the server itself answers with and their statuses,
//! [`respond`] makes their pages, [`memory`] counts the memory of waiting requests and responses,
//! [`trace_context`] reads and writes ids of traces, [`trace`] has those of a request, [`turn`]
//! lets tasks of a thread take turns, [`usage`] counts what sites use, and [`variables`] evaluates
//! the variables of templates.
#![forbid(unsafe_code)]

pub mod body;
pub mod client;
pub mod compress;
mod connection;
pub mod copied_body;
pub mod error_status;
pub mod exchange;
pub mod fastcgi;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod handling;
pub mod limits;
pub mod mask;
pub mod memory;
pub mod message;
pub mod request_body;
pub mod respond;
pub mod streams;
mod syntax;
pub mod trace;
pub mod trace_context;
pub mod turn;
pub mod usage;
pub mod variables;

pub use body::{feed, spool, temporary_files};
pub use connection::{drain, eviction, forward, handshake, input, timer, tunnel};
pub use syntax::{
    authority, body_length, chunked, date, encoding, etag, query, range, reason, refusal, target,
};
