//! Messages to a router that was replaced.
//!
//! Two routers cannot read one UDP socket: each would take datagrams of the other's connections. So the new
//! one reads once the former one does not, which that shows by ending its direction of the socket between
//! them, and passes on what belongs to connections of the former one. Nothing is passed in the other
//! direction.
//!
//! The two may be of different versions, see [`HANDOVER_PROTOCOL`](super::HANDOVER_PROTOCOL).

use std::net::{IpAddr, SocketAddr};

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

messages! {
    /// From a router to the one that it has replaced.
    ToFormerRouter {
        /// A datagram of a connection of HTTP/3.
        1 Datagram {
            /// Name of the socket that it has come to, as in `Bind`.
            socket: String,
            /// Address that it has come from.
            remote: SocketAddr,
            /// Address that it was sent to.
            local: Option<IpAddr>,
            /// Mark of congestion: the two bits of the IP header.
            ecn: Option<u8>,
            /// Contents.
            data: Vec<u8>,
        }
    }
}
