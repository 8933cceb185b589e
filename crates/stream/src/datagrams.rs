//! Datagrams of many clients, which come to one socket and are passed to servers (UDP).
//!
//! A session is what passes between a client, known by its address and port, and a server. It begins
//! with a datagram of a client that has none, and ends when the server has sent as many answers as
//! the configuration says, or both are silent. It has a socket of its own, connected to the server,
//! so answers of others are not taken.
//!
//! Whoever sends datagrams can claim any address. Sessions therefore cost little, there is a maximum
//! number of them, and those of clients that have surely got an answer are not given up for others
//! ([`table`]).

pub mod session;
pub mod socket;
pub mod table;
