//! The page of `howdah dashboard`: which site hurts, and why, in a browser.
//!
//! A process of its own, which asks the control API as each other command does ([`Control`]) and
//! has no other rights. For clients of the action `dashboard`, the supervisor starts [`process`],
//! which has fewer: it asks the router alone.
//!
//! 1. `sampler` asks for the status once a second; `state` keeps the rows and histories of sites,
//!    and tells the pages that are open about differences.
//! 2. `server` accepts connections. `address` refuses hosts and origins that are not the page's
//!    own, `sessions` knows who has logged in, with the `attempts` of each client; `api` answers.
//! 3. `assets` has the files of the page, which are parts of the program.
//!
//! Clients, and the names and texts of the status, are untrusted: the page shows all of them as
//! text.
#![forbid(unsafe_code)]

#[macro_use(println, eprintln)]
extern crate howdah_sys;

mod actions;
mod address;
mod answers;
mod api;
mod assets;
mod attempts;
mod frames;
pub mod process;
mod sampler;
mod secret;
mod server;
mod sessions;
mod state;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

pub use address::PageAddress;

/// The control API of the server, which the page shows.
pub trait Control: Send + Sync + 'static {
    /// Returns the address of the control API.
    fn address(&self) -> &str;

    /// Sends a request, and waits for the answer up to `timeout`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    fn request(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Value, Problem>;

    /// Returns the secret that the control API asks for, if it has one.
    fn token(&self) -> Option<&str>;
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// No server answers.
    Unreachable(String),
    /// The server refuses the request.
    Refused(String),
}

impl Problem {
    /// Returns the words.
    pub fn text(&self) -> &str {
        match self {
            Problem::Unreachable(text) | Problem::Refused(text) => text,
        }
    }
}

/// Options of the page.
#[derive(Debug)]
pub struct Options {
    /// Address to listen on, of the loopback interface.
    pub listen: SocketAddr,
    /// Address of the page in browsers, if a proxy is in front of it.
    pub page: Option<PageAddress>,
    /// Buttons are not offered, and refused.
    pub is_read_only: bool,
    /// Links with codes are printed. Without them, only the token of the control API logs in.
    pub prints_links: bool,
}

/// Serves the page until the process ends.
///
/// # Errors
/// The address cannot be used, or nobody could log in.
pub fn run(options: Options, control: impl Control) -> Result<(), String> {
    server::run(options, std::sync::Arc::new(control))
}
