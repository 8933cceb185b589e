//! State that several servers of one site share through Valkey or Redis: purges of their caches,
//! rates of their limits, and which of them runs a timer.
//!
//! | module | content |
//! | --- | --- |
//! | `member` | follows the configuration; starts and ends the thread that has the connections |
//! | `counting` | the connection for limits and outgoing purges, and its pauses |
//! | `runs` | which server runs a timer at a time |
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
//! bounded and checked, and have an effect on limits, purges and the runs of timers only; their text
//! is not logged.
#![forbid(unsafe_code)]

mod connect;
mod counting;
mod member;
pub mod message;
mod missed;
mod receiving;
mod runs;
mod script;
mod state;
mod waiting;

pub use self::counting::Counting;
pub use self::member::Cluster;
pub use self::runs::Run;
