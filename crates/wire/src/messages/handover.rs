//! Messages between a server and the program that replaces it (an upgrade).
//!
//! 1. The server sends everything that its successor needs before it starts the successor:
//!    `Hello`, `Listeners`, perhaps `Refused`, `Server`. They wait in the socket, also if the
//!    server ends meanwhile.
//! 2. The successor answers `Hello`, and `Ready` when it serves, or `Failed`.
//! 3. `TakeOver`: the server has released its PID file and its control socket; answered with
//!    `TookOver`, or `Failed`. After `TookOver` the server finishes its requests and ends.
//! 4. The socket is closed when either of them has ended.
//!
//! The two may be of different versions. `Hello` keeps its encoding in all versions; the other
//! messages may change with [`HANDOVER_PROTOCOL`].

use super::field::Field;
use super::secret::Secret;
use crate::bytes::{Decoder, Encode, Malformed};

/// Version of the messages of an upgrade. A server and a successor with different versions refuse
/// each other, and the server continues.
pub const HANDOVER_PROTOCOL: u32 = 2;

messages! {
    /// From a server to its successor.
    ToSuccessor {
        /// The first message.
        1 Hello {
            /// [`HANDOVER_PROTOCOL`] of the server.
            protocol: u32,
            /// Version of the program, such as `1.0.0`.
            version: String,
        }
        /// Listening sockets, at most [`MAX_DESCRIPTORS`](super::MAX_DESCRIPTORS) in one message.
        /// Descriptors: one socket for each address.
        2 Listeners {
            /// Names of the sockets: addresses as in `Bind`, with `=` for each colon; and whether
            /// the service manager has opened them.
            sockets: Vec<(String, bool)>,
        }
        /// The state of the server; the last message before the successor starts. Descriptors: a
        /// memfd with the document, one with the certificate bundles
        /// ([`put_bundles`](super::put_bundles)), and the new router's end of its socket to the former
        /// one ([`ToFormerRouter`](super::ToFormerRouter)).
        3 Server {
            /// Process id of the server.
            pid: u32,
            /// Name of the document in error messages.
            origin: String,
            /// Address of the control API, or `None`.
            control: Option<String>,
            /// Names of the applications that run.
            running: Vec<String>,
            /// Names of the applications whose version of PHP the server has.
            with_php: Vec<String>,
            /// Directories of the control groups that the server has created.
            control_groups: Vec<String>,
            /// Secret of HTTP/3 in hexadecimal; empty without one.
            http3_secret: Secret,
        }
        /// The successor is the server from now on. Descriptors: a memfd with the recipients of the
        /// applications' mail ([`put_mail_usage`](super::put_mail_usage)), and one with the counts of
        /// sites as JSON.
        4 TakeOver {}
        /// The document at its source is refused, and another one is served. Before `Server`, and
        /// only in this case.
        5 Refused {
            /// Time of the first refusal, in seconds since 1970.
            since: u64,
            /// The reason of the last refusal.
            reason: String,
        }
        /// Counts of sites since `TakeOver`, or the last message, from a server that finishes its
        /// requests. Descriptor: a memfd with them as JSON.
        6 Used {}
    }
}

messages! {
    /// From a successor to the server that it replaces.
    FromSuccessor {
        /// The first message.
        1 Hello {
            /// [`HANDOVER_PROTOCOL`] of the successor.
            protocol: u32,
            /// Version of the program.
            version: String,
        }
        /// The successor serves: its router accepts connections, and its applications run.
        2 Ready {}
        /// The successor cannot serve, and ends.
        3 Failed {
            /// The problem and the remedy, on one line.
            message: String,
        }
        /// Answer to `TakeOver`.
        4 TookOver {}
        /// The successor was told to end, after `TookOver`: the server must not serve again.
        5 Stopping {
            /// Requests in progress are finished first.
            graceful: bool,
        }
        /// The successor has closed a listening socket, after `TookOver`.
        6 Closed {
            /// Address as in `Bind`.
            address: String,
        }
    }
}
