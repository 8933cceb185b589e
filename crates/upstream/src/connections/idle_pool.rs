//! Idle HTTP connections of one thread.
//!
//! Threads do not share them, so that no request waits for another thread. Connections are kept for
//! a limited time, and a limited number for each server. A connection that the server has closed,
//! or on which an unrequested byte has arrived, is never used again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Address;
use tokio::time::Instant;

use crate::connections::connection::{Connection, is_quiet};

/// Identifies interchangeable connections: the server's address, the id of the TLS settings
/// ([`howdah_tls::TlsClient::id`]), 0 for plain HTTP, and with TLS the name that the certificate
/// was verified for, otherwise an empty one. A connection is not used where another verification is
/// required.
pub type PoolKey = (Address, u64, Arc<str>);

/// Idle connections by server.
#[derive(Debug, Default)]
pub struct IdlePool(RefCell<HashMap<PoolKey, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    stream: Connection,
    expires: Instant,
}

impl IdlePool {
    /// Takes an idle connection to a server, if there is a usable one.
    pub fn take(&self, key: &PoolKey) -> Option<Connection> {
        let mut pool = self.0.borrow_mut();
        let list = pool.get_mut(key)?;
        // The server is least likely to close the connection that was used last.
        while let Some(Idle { mut stream, expires }) = list.pop() {
            if Instant::now() < expires && is_quiet(&mut stream) {
                return Some(stream);
            }
        }
        None
    }

    /// Keeps a connection whose response is complete; at most `max` to a server, and each for at
    /// most `time`. The oldest connection makes room for a new one.
    pub fn put(&self, key: &PoolKey, stream: Connection, max: usize, time: Duration) {
        if max == 0 {
            return;
        }
        let mut pool = self.0.borrow_mut();
        let list = pool.entry(key.clone()).or_default();
        if list.len() >= max {
            list.drain(..=list.len() - max);
        }
        list.push(Idle { stream, expires: Instant::now() + time });
    }

    /// Closes connections that cannot be used. Returns true if any are left.
    pub fn close_unusable(&self) -> bool {
        let now = Instant::now();
        let mut pool = self.0.borrow_mut();
        pool.retain(|_, list| {
            list.retain_mut(|idle| now < idle.expires && is_quiet(&mut idle.stream));
            !list.is_empty()
        });
        !pool.is_empty()
    }
}
