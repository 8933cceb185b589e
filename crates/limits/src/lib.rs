//! Limits of requests by key: how often, how many at once, how fast, and penalties for clients that
//! ignore refusals.
//!
//! 1. [`rules`] are those of one listener or action. [`check`] takes a request through them
//!    and returns one verdict: admit, wait, refuse, or close the connection without a response.
//! 2. A rule counts in a [`zone`], which rules of the same name share. Keys are hashed with a
//!    random seed ([`key`]), so that no client can choose keys that collide.
//! 3. A zone has a [`table`] of bounded size with the state of each key: the time at which its debt
//!    is paid ([`gcra`]) and its refusals ([`penalty`]). Numbers of requests at once are in
//!    [`at_once`], the keys with the most refusals in [`ranking`].
//! 4. Connections that carry no requests, and logins, are counted by [`sessions`].
//! 5. Where several servers share a rate, [`shared`] has the questions of a server to their common
//!    counter, and the effect of the answers.
//!
//! Time is an argument, in nanoseconds of any monotonic clock that is the same for all threads.
//! Nothing here reads a clock, waits, or does I/O. All types are shared by the router threads;
//! locks are sharded by key and held for one update of one key.
#![forbid(unsafe_code)]

pub mod at_once;
pub mod bandwidth;
pub mod check;
pub mod gcra;
pub mod in_progress;
pub mod key;
pub mod penalty;
pub mod ranking;
pub mod rules;
pub mod sessions;
pub mod shared;
pub mod table;
pub mod zone;

/// Time in nanoseconds of a monotonic clock.
pub type Nanos = u64;

/// Nanoseconds of a second.
pub const SECOND: Nanos = 1_000_000_000;
