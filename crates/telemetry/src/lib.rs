//! The telemetry process: sends the spans of routers to a server of OpenTelemetry, over OTLP.
//!
//! The supervisor starts it while the document has `settings/telemetry`. It has the server's own
//! user, no capabilities, and may open no files but those of name resolution and the system's
//! authorities. Routers put spans into a packet socket and never wait for it: if the server is slow
//! or gone, spans wait here up to a limit, and are lost beyond it.
//!
//! 1. [`process`]: takes messages of the supervisor and spans.
//! 2. [`queue`]: spans that wait, up to a limit.
//! 3. [`export`]: makes messages of them, sends them, and tries again as OTLP says.
//! 4. [`otlp`]: the messages; [`connection`]: HTTP/1.1 and gRPC, with TLS or without.
//! 5. [`report`]: lines of the log about spans that were lost.
#![forbid(unsafe_code)]

mod connection;
mod export;
mod otlp;
mod process;
mod queue;
mod report;
mod socket;

pub use process::run;
