//! A connection that becomes a tunnel, between its response and the end of the tunnel.

use std::rc::Rc;

use tokio::time::Instant;

use super::record::SentResponse;
use crate::limits::Limits;
use crate::message::{ConnectionFields, Request, Response};
use crate::tunnel::Tunnel;

/// A tunnel, and the record of its request.
pub(super) struct Upgrade {
    pub tunnel: Option<Tunnel>,
    pub request: Request,
    /// Arrival of the first byte of the request.
    pub started_at: Instant,
    /// Bytes received: the request, later also those of the tunnel.
    pub received: u64,
    pub limits: Rc<Limits>,
    pub adds_server: bool,
    pub adds_date: bool,
    /// The response, once it was sent.
    pub sent: Option<SentResponse>,
}

impl Upgrade {
    /// Creates the state from the response of status 101 and its request. `received` is the number
    /// of bytes of the request.
    pub fn new(
        tunnel: Tunnel,
        request: Request,
        started_at: Instant,
        received: u64,
        response: &Response,
        limits: &Rc<Limits>,
    ) -> Self {
        Upgrade {
            tunnel: Some(tunnel),
            request,
            started_at,
            received,
            limits: Rc::clone(limits),
            adds_server: response.adds_server,
            adds_date: response.adds_date,
            sent: None,
        }
    }

    /// Fields that the connection adds to the response.
    pub fn connection_fields(&self) -> ConnectionFields<'_> {
        ConnectionFields {
            server: if self.adds_server { &self.limits.server } else { b"" },
            date: self.adds_date,
            connection: "upgrade",
            ..ConnectionFields::default()
        }
    }
}
