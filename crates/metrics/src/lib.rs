//! What is known of finished requests, and the metrics of the server.
//!
//! 1. At its end, a request is described by one [`FinishedRequest`]: times, sizes, names.
//! 2. The thread that has served it counts it in its own [`Tally`], without locks.
//! 3. The control thread takes the tallies of all threads and adds them up ([`Totals`]), by names of
//!    the document only, so that no client adds a series.
//! 4. The thread keeps the last requests, too, in a [`Ring`] of a fixed size.
//! 5. A scrape shows these totals and the server's status as text or as messages ([`page`]).
//!
//! This crate does no I/O and reads no clock.
#![forbid(unsafe_code)]

mod counts;
mod exposition;
mod finished;
mod histogram;
mod ring;
mod server;
mod totals;

pub use self::counts::{Counts, Tally};
pub use self::exposition::Format;
pub use self::finished::{FinishedRequest, Parts};
pub use self::histogram::Histogram;
pub use self::ring::{Filter, KeptRequest, KeptRequests, Ring, Texts};
pub use self::server::{ProcessFacts, page};
pub use self::totals::Totals;
