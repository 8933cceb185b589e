//! Messages from the supervisor to the dashboard process.

use super::field::Field;
use super::secret::Secret;
use crate::bytes::{Decoder, Encode, Malformed};

messages! {
    /// From the supervisor to the dashboard process.
    ToDashboard {
        /// The first message. Descriptors: the listening socket at which routers connect, and the
        /// socket to the router ([`ToRouter`](super::ToRouter)), which answers questions and
        /// carries out no order.
        1 Hello {
            /// The secret with which clients log in; `None` if nobody can.
            token: Option<Secret>,
            /// User id of routers: connections of other processes are closed.
            router_user: u32,
            /// The process enters its sandbox.
            sandbox: bool,
        }
        /// Another router serves. Descriptor: the socket to it.
        2 RouterReplaced {}
        /// The log was reopened. Descriptor: the log.
        3 Reopened {}
    }
}
