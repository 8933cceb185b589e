//! The part of the document that requests use, and the decisions of routes.
//!
//! `snapshot` is the compiled document. `route` takes a request through it, to an action; `auth`
//! checks passwords for it. `htaccess_state` is the state of sites with `.htaccess` files, and
//! `request_log` limits the log lines of each site.
#![forbid(unsafe_code)]

pub mod auth;
pub mod htaccess_state;
pub mod request_log;
pub mod route;
pub mod snapshot;
