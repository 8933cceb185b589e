//! The telemetry process: sends the spans and metrics of routers to servers of OpenTelemetry, over
//! OTLP.
//!
//! The supervisor starts it while the document has `settings/telemetry`. It has the server's own
//! user, no capabilities, and may open no files but those of name resolution and the system's
//! authorities. Routers put spans and metrics into packet sockets and never wait for it: if a server
//! is slow or gone, spans wait here up to a limit, and are lost beyond it; of metrics, the newest
//! wait.
//!
//! 1. [`process`]: takes messages of the supervisor, spans and metrics.
//! 2. [`queue`]: spans that wait, up to a limit; [`export`]: makes messages of them, sends them, and
//!    tries again as OTLP says.
//! 3. [`metrics`]: the newest metrics, in the same way.
//! 4. [`otlp`]: the messages; [`delivery`]: attempts to send them; [`connection`]: HTTP/1.1 and gRPC,
//!    with TLS or without; [`target`]: servers.
//! 5. [`report`]: lines of the log about what was lost.
#![forbid(unsafe_code)]

mod connection;
mod delivery;
mod export;
mod metrics;
mod otlp;
mod process;
mod queue;
mod report;
mod socket;
mod target;

pub use process::run;
