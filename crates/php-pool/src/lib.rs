//! PHP: from a request to a script's answer.
//!
//! 1. [`target`] decides which script a request runs.
//! 2. [`request_body`](howdah_http::request_body) takes the request's body: memory, then an unlinked file.
//! 3. [`params`] writes the CGI parameters that become `$_SERVER`.
//! 4. [`queue`] queues the request; an idle worker pulls it from shared memory.
//! 5. [`thread`] takes the frames of the answer as fast as the worker writes them; what the client
//!    does not take at once waits in a [`spool`](howdah_http::spool).
//! 6. [`response`] turns the script's head into a response; the connection sends the body at the
//!    client's pace.
//!
//! What scripts write to standard output and error goes to the log through [`output`], and no
//! faster than its [`LogRate`](howdah_sys::log_rate::LogRate) lets it.
//!
//! [`pool`] decides how many workers there are; [`status`] is what is counted on the way.

#![forbid(unsafe_code)]

pub mod application;
pub mod dispatch;
pub mod instance;
pub mod output;
pub mod params;
pub mod pending;
pub mod pool;
pub mod queue;
pub mod response;
pub mod sizing;
pub mod status;
pub mod status_page;
pub mod target;
pub mod thread;
