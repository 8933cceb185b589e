//! A request on its way through the routes.

use std::sync::Arc;

use bytes::Bytes;
use howdah_files::listing::Listing;
use howdah_http::message::Response;
use howdah_limits::rules::Rule;
use howdah_php_pool::application::Application;
use howdah_php_pool::target::Script;
use howdah_upstream::fastcgi::application::FastCgiApplication;
use howdah_upstream::servers::upstream::Upstream;

use crate::auth::BasicAuth;
use crate::htaccess::Site;
use crate::snapshot::Listener;
use crate::snapshot::action::{Action, AuthRequest};
use crate::snapshot::effects::Effects;

/// The handler of a request.
#[derive(Debug)]
pub enum Decision {
    /// Send this response.
    Respond(Response),
    /// Check the limits of [`Routed::limits`] first, then call [`Routing::resume`](super::Routing::resume).
    CheckLimits,
    /// Check the password first, then call [`Routing::resume`](super::Routing::resume).
    Authenticate(Arc<BasicAuth>),
    /// Let the action of [`Routed::auth_request`] check the request first, then call
    /// [`Routing::resume`](super::Routing::resume).
    Authorize,
    /// Run a PHP script.
    Php(Arc<Application>, Script),
    /// Run a script of a FastCGI server.
    FastCgi(Arc<FastCgiApplication>, Script),
    /// Ask an HTTP upstream.
    Proxy(Arc<Upstream>),
    /// Answer under the directives of `.htaccess` files below this root.
    Htaccess(Arc<Site>, Bytes),
    /// Respond with the listing of a directory.
    List(Box<Listing>),
    /// Answer `ping` with 503: the application does not run.
    NotRunning,
    /// Respond with an error of this status and this `Allow` field.
    Refuse(u16, Option<&'static str>),
}

/// A routed request; routing stops early at limits, and at an action that requires a password.
#[derive(Debug)]
pub struct Routed<'s> {
    /// The handler of the request.
    pub decision: Decision,
    /// Options of the actions on its way.
    pub effects: Effects<'s>,
    /// The action for paths that name nothing, of a share with `.htaccess` files.
    pub fallback: Option<&'s Action>,
    /// What waits for a check.
    pub(super) held: Option<Held<'s>>,
    /// The site of the last action that belongs to one.
    pub(super) site: Option<&'s Arc<str>>,
    /// Number of times that the request was passed on.
    pub(super) passes: usize,
    /// The request is an internal one: for an error page, or a redirect of a response.
    pub is_internal: bool,
}

/// Where routing goes on after a check.
#[derive(Debug, Clone, Copy)]
pub(super) enum Held<'s> {
    /// The listener's limits were checked.
    Listener(&'s Listener),
    /// The action's limits were checked.
    Limits(&'s Action),
    /// The action's password was checked.
    Password(&'s Action),
    /// Another action has checked the request.
    Authorized(&'s Action),
}

impl<'s> Routed<'s> {
    pub(super) fn new(effects: Effects<'s>) -> Self {
        Routed {
            decision: Decision::Refuse(404, None),
            effects,
            fallback: None,
            held: None,
            site: None,
            passes: 0,
            is_internal: false,
        }
    }

    /// Returns true if routing goes on after a check.
    pub fn is_checked(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the application, share or upstream that the request is for, as far as it is known.
    pub fn site(&self) -> Option<Arc<str>> {
        match &self.decision {
            Decision::Php(application, _) => Some(Arc::clone(&application.name)),
            Decision::FastCgi(site, _) => Some(site.name().into()),
            Decision::Proxy(upstream) if self.site.is_none() => Some((*upstream.name).into()),
            _ => self.site.cloned(),
        }
    }

    /// Returns the limits to be checked.
    pub fn limits(&self) -> &'s [Rule] {
        match self.held {
            Some(Held::Listener(listener)) => &listener.limit,
            Some(Held::Limits(action)) => &action.limit,
            Some(Held::Password(_) | Held::Authorized(_)) | None => &[],
        }
    }

    /// Returns the check by another action.
    pub fn auth_request(&self) -> Option<&'s AuthRequest> {
        match self.held {
            Some(Held::Authorized(action)) => action.auth_request.as_deref(),
            _ => None,
        }
    }

    pub(super) fn hold(&mut self, held: Held<'s>, decision: Decision) {
        self.held = Some(held);
        self.decision = decision;
    }

    /// Takes the decision, and leaves a refusal in its place.
    pub fn take_decision(&mut self) -> Decision {
        std::mem::replace(&mut self.decision, Decision::Refuse(500, None))
    }
}
