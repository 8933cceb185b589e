//! QUIC (RFC 9000, version 1) for the threads of the router: the transport of HTTP/3.
//!
//! A thread has one [`Endpoint`] for each of its UDP sockets. The protocol is that of quinn-proto, which
//! does no I/O; this crate drives it:
//!
//! 1. One task for each endpoint does all of its work (`endpoint/driver`). One endpoint of those that share
//!    a socket reads it, in batches (`socket`). A datagram whose connection id names another thread or
//!    another process is forwarded there (`ids`); all send on copies of the socket.
//! 2. A new client is admitted, asked to prove its address with a Retry, or ignored (`half_open`). Its
//!    hello chooses the TLS configuration (`tls`).
//! 3. No more than three times the bytes of an unproven address are sent to it (`paths`).
//! 4. [`Endpoint::accept`] returns connections whose handshake is complete. Their streams
//!    ([`Send`], [`Recv`]) are polled by the tasks of the thread; what these write is sent in the next
//!    turn of the driver, together.
//! 5. A panic of the library ends the connection that caused it, and nothing else (`guard`).
//!
//! Types are those of one thread, except [`Inbox`], [`Arrivals`], [`Datagram`] and [`Keys`].
#![forbid(unsafe_code)]

mod datagram;
mod endpoint;
mod errors;
mod guard;
mod half_open;
mod ids;
mod keys;
mod options;
mod paths;
mod processes;
mod socket;
mod timers;
mod tls;

pub use self::datagram::{Arrivals, Datagram, Inbox};
pub use self::endpoint::{Connection, Counters, Endpoint, GetOptions, Recv, Route, Send, Settings};
pub use self::errors::{Closed, ReadError, WriteError};
pub use self::ids::{Owner, Target};
pub use self::keys::Keys;
pub use self::options::{Options, Retry};
pub use self::processes::{FormerProcess, NewProcess};
pub use self::tls::{Choice, ChooseTls, Handshake, Refusal};
