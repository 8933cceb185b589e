//! The pipeline of a request, from its head to its response.
//!
//! `handler` has the order of the steps. `htaccess` runs the directives of `.htaccess` files,
//! `filters` change responses, and `refusals` logs why a request is refused.
//!
//! `thread` is the state of one router thread, and `context` the part of it that a request uses.
#![forbid(unsafe_code)]

pub mod context;
pub mod descriptors;
pub mod filters;
pub mod handler;
pub mod htaccess;
pub mod listener;
pub mod listings;
pub mod metrics;
pub mod probes;
pub mod refusals;
pub mod thread;
