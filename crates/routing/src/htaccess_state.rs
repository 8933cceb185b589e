//! State of sites with `.htaccess` files, which threads and configurations keep between requests.
//!
//! - `site`: the settings of an application or a share, and the engines of a thread.
//! - `compiled`: compiled files, which threads share.
//! - `allowance`: the processor time that the directives of a site may take from other sites.
//! - `head`: heads that are made once, of answers that depend on a file alone.
//!
//! The pipeline answers requests with it.

pub mod allowance;
pub mod compiled;
pub mod head;
pub mod site;
