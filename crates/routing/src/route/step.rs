//! The decision of routing: a check that a request has to pass first, or its handler.

use std::sync::Arc;

use bytes::Bytes;
use howdah_cgi::target::Script;
use howdah_files::FoundFile;
use howdah_files::listing::Listing;
use howdah_http::error_status::RequestError;
use howdah_http::message::Response;
use howdah_limits::rules::Rule;
use howdah_php_pool::application::Application;
use howdah_upstream::fastcgi::application::FastCgiApplication;
use howdah_upstream::servers::upstream::Upstream;

use crate::auth::BasicAuth;
use crate::htaccess_state::site::Site;
use crate::snapshot::Listener;
use crate::snapshot::action::{Action, AuthRequest};

/// The next step of a request.
#[derive(Debug)]
pub enum Step<'s> {
    /// Check the request, then call [`resume`](super::Routing::resume).
    Check(Check<'s>),
    /// Carry out this decision.
    Handle(Decision),
}

/// A check, and the part of the configuration where routing continues after it.
#[derive(Debug, Clone, Copy)]
pub enum Check<'s> {
    /// The limits of the listener.
    Listener(&'s Listener),
    /// The limits of the action.
    Limits(&'s Action),
    /// A password for the action.
    Password(&'s Action, &'s BasicAuth),
    /// Another action checks the request.
    Request(&'s Action, &'s AuthRequest),
}

/// The last check of an action that a request has passed, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Passed {
    None,
    Limits,
    Password,
    All,
}

/// The handler of a request.
#[derive(Debug)]
pub enum Decision {
    /// Send this response.
    Respond(Response),
    /// Open this file.
    File(FoundFile),
    /// Ask the origin of the response.
    Ask(Origin),
    /// Answer under the directives of `.htaccess` files below this root.
    Htaccess(Arc<Site>, Bytes),
    /// Respond with the listing of a directory.
    List(Box<Listing>),
    /// Respond with the metrics of the server.
    Metrics,
    /// Say that the server lives.
    Live,
    /// Say whether visitors can be served.
    Ready,
    /// Respond with this error.
    Refuse(RequestError),
}

/// The origin of a response: a program or server.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A PHP script.
    Php(Arc<Application>, Script),
    /// A script of a FastCGI server.
    FastCgi(Arc<FastCgiApplication>, Script),
    /// An HTTP server.
    Proxy(Arc<Upstream>),
}

impl<'s> Step<'s> {
    /// Returns the decision for a request of the server itself, which passes no checks: behind a
    /// check, it is refused.
    pub fn without_checks(self) -> Decision {
        match self {
            Step::Handle(decision) => decision,
            Step::Check(Check::Password(..)) => Decision::Refuse(RequestError::Unauthenticated),
            Step::Check(_) => Decision::Refuse(RequestError::Internal),
        }
    }
}

impl<'s> Check<'s> {
    /// Returns the check of an action that follows the last one that the request has passed.
    pub(super) fn next(action: &'s Action, passed: Passed) -> Option<Check<'s>> {
        if passed < Passed::Limits && !action.limit.is_empty() {
            return Some(Check::Limits(action));
        }
        match (&action.auth, &action.auth_request) {
            (Some(auth), _) if passed < Passed::Password => Some(Check::Password(action, auth)),
            (_, Some(check)) if passed < Passed::All => Some(Check::Request(action, check)),
            _ => None,
        }
    }

    /// Returns the limits to be checked.
    pub fn limits(&self) -> &'s [Rule] {
        match self {
            Check::Listener(listener) => &listener.limit,
            Check::Limits(action) => &action.limit,
            Check::Password(..) | Check::Request(..) => &[],
        }
    }
}

impl Origin {
    /// Returns its name, which no other origin has.
    pub fn name(&self) -> Vec<u8> {
        match self {
            Origin::Php(application, _) => ["a/", &application.name].concat(),
            Origin::FastCgi(site, _) => ["a/", &site.name].concat(),
            Origin::Proxy(upstream) => ["u/", &upstream.name].concat(),
        }
        .into_bytes()
    }
}
