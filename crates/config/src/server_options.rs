//! Options of an action for the requests that it passes to other servers.

use std::sync::Arc;

use crate::error::Error;
use crate::node::Object;
use crate::request_headers::{self, RequestHeaders};
use crate::retry::Retry;
use crate::timeouts::TimeoutChanges;
use crate::upstream::ForwardedFields;

/// Changes to the settings of an upstream or a FastCGI application for some of its requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerOptions {
    /// Request header fields to set, or with `None` to remove. `Host` may be among them.
    pub headers: RequestHeaders,
    /// Fields with the client's address and scheme, if they are not those of the upstream.
    pub forwarded: Option<ForwardedFields>,
    /// Timeouts that are not those of the servers.
    pub timeouts: TimeoutChanges,
    /// Requests that another server gets, if they are not those of the upstream.
    pub retry: Option<Retry>,
}

/// The keys of an action that this module reads.
pub(crate) const KEYS: [&str; 4] = ["request_headers", "forwarded", "timeouts", "retry"];

impl ServerOptions {
    /// Reads the options among the keys of an action. Returns `None` if it has none.
    pub(crate) fn read(object: &Object<'_>) -> Result<Option<Arc<ServerOptions>>, Error> {
        let options = ServerOptions {
            headers: object
                .read("request_headers", request_headers::read_of_action)?
                .unwrap_or_default(),
            forwarded: object.read("forwarded", ForwardedFields::read)?,
            timeouts: object.read("timeouts", TimeoutChanges::read)?.unwrap_or_default(),
            retry: object.read("retry", Retry::read)?,
        };
        Ok((options != ServerOptions::default()).then(|| Arc::new(options)))
    }

    /// Returns these options with those of an earlier action on the way of the request. Fields add up;
    /// of two with one name, the later counts.
    pub fn after(&self, earlier: &ServerOptions) -> ServerOptions {
        let is_replaced =
            |name: &str| self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let kept = earlier.headers.iter().filter(|(name, _)| !is_replaced(name));
        ServerOptions {
            headers: kept.chain(&self.headers).cloned().collect(),
            forwarded: self.forwarded.or(earlier.forwarded),
            timeouts: self.timeouts.or(earlier.timeouts),
            retry: self.retry.as_ref().or(earlier.retry.as_ref()).cloned(),
        }
    }
}
