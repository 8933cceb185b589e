//! `buffering` and `request_buffering` of an action.

use crate::error::Error;
use crate::key::Key;
use crate::node::Object;

/// The row of `buffering`.
pub(crate) const BUFFERING: Key =
    Key::switch("buffering", true, "Reads responses as fast as other servers send them")
        .details("See [Proxy](upstreams.md#proxy) (`proxy_buffering`, `fastcgi_buffering`)");

/// The row of `request_buffering`.
pub(crate) const REQUEST_BUFFERING: Key = Key::switch(
    "request_buffering",
    true,
    "Receives all of a request body before the request is sent to another server",
)
.details(
    "See [Proxy](upstreams.md#proxy) (`proxy_request_buffering`, `fastcgi_request_buffering`)",
);

/// Messages that are received completely before they are forwarded. `None`: the setting of the
/// upstream or FastCGI application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffering {
    /// `buffering`: responses are read as fast as the upstream sends them.
    pub responses: Option<bool>,
    /// `request_buffering`: a request is forwarded only when all of its body has arrived.
    pub requests: Option<bool>,
}

impl Buffering {
    pub(crate) fn read(object: &Object<'_>) -> Result<Buffering, Error> {
        Ok(Buffering {
            responses: object.boolean("buffering")?,
            requests: object.boolean("request_buffering")?,
        })
    }

    /// Returns these settings, with those of `other` where these have none.
    pub fn or(self, other: Buffering) -> Buffering {
        Buffering {
            responses: self.responses.or(other.responses),
            requests: self.requests.or(other.requests),
        }
    }
}
