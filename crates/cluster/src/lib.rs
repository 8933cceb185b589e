//! State that several servers of one site share through Valkey or Redis: purges of their caches,
//! and rates of their limits.
//!
//! | module | content |
//! | --- | --- |
//! | `member` | follows the configuration; starts and ends the thread that has the connections |
//! | `counting` | the connection for limits and outgoing purges, and its pauses |
//! | `script` | the script that counts a request by several rates, and its answers |
//! | `waiting` | messages that wait to leave this server, apart for each application |
//! | `receiving` | the connection for purges of other servers |
//! | `missed` | which purges a server has missed that Valkey no longer keeps |
//! | `message` | the bytes of a purge |
//! | `connect` | connections with a bound for received bytes; errors without secrets |
//! | `state` | counters, and log lines about the connections |
//!
//! Valkey is a help, never a condition: a request waits for it for a bounded time, and then this
//! server decides alone. Any client of Valkey may have written its contents. Its answers are
//! bounded and checked, and have an effect on limits and purges only; their text is not logged.
#![forbid(unsafe_code)]

mod connect;
mod counting;
mod member;
pub mod message;
mod missed;
mod receiving;
mod script;
mod state;
mod waiting;

pub use self::counting::Counting;
pub use self::member::Cluster;
