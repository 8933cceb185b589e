//! Router side of PHP: runs a script for a request and returns its response.
//!
//! 1. [`target`](howdah_cgi::target) selects the script for a request.
//! 2. [`dispatch`] collects the request's body, in memory and then in an unlinked file, and takes
//!    the request through the following steps.
//! 3. [`params`](howdah_cgi::params) writes the CGI parameters that become `$_SERVER`.
//! 4. [`queue`] queues the request; an idle worker of the application's [`instance`] pulls it from
//!    shared memory.
//! 5. [`thread`] takes the frames of the response as fast as the worker writes them; [`pending`]
//!    keeps the part that the client has not taken yet in a [`spool`](howdah_http::spool).
//! 6. [`head`](howdah_cgi::head) checks the script's head, [`response`] turns it into a response;
//!    the connection sends the body at the client's pace.
//!
//! [`output`] logs the standard output and error of workers, within the application's
//! [`LogRate`](howdah_sys::log_rate::LogRate).
//!
//! [`profile`] keeps the samples of scripts while an administrator makes a profile.
//!
//! [`pool`] decides the number of workers; [`status`] has the counters, [`status_page`] formats
//! them.

#![forbid(unsafe_code)]

pub mod application;
pub mod automatic_sizing;
mod crash_report;
pub mod dispatch;
pub mod ends;
pub mod instance;
mod last_messages;
pub mod output;
pub mod pending;
pub mod process_meter;
pub mod profile;
pub mod queue;
mod queue_order;
mod queue_results;
mod refusals;
pub mod request;
pub mod response;
pub mod status;
pub mod status_page;
pub mod thread;
pub mod times;
pub mod worker_count;
mod worker_output;
