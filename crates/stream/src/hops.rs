//! Connections of this server to itself.
//!
//! The server of an upstream, or one that an authentication server names, may be a listener of this
//! server. Where that is a mistake, each connection leads to another one without end. So each
//! connection that a session opens is noted until it is closed, with the number of listeners of
//! this server that the session has passed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_config::Address;
use tokio::time::{Instant, sleep};

/// Maximum number of listeners of this server that a session may pass one after another.
const MAX_HOPS: usize = 4;

/// Time in which another thread notes a connection that this one has accepted, and the interval of
/// looks at it.
const NOTICE: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(5);

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Known {
    /// Open connections, each with the number of listeners that were passed.
    open: HashMap<Ends, usize>,
    /// Ports of listeners to which sessions have come.
    ports: HashSet<u16>,
}

/// The addresses of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ends {
    from: SocketAddr,
    to: SocketAddr,
}

/// A connection that a session has opened, until it is dropped.
#[derive(Debug)]
pub struct Hop {
    ends: Option<Ends>,
}

impl Ends {
    /// Returns the ends of a connection that `from` has opened to `to`. A listener for IPv6 sees a
    /// client over IPv4 with its address in the form of IPv6; both are the same here.
    pub fn new((from, to): (SocketAddr, SocketAddr)) -> Ends {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ends { from: canonical(from), to: canonical(to) }
    }

    /// Returns true if both ends are on this machine.
    fn is_local(&self) -> bool {
        self.from.ip() == self.to.ip() || self.from.ip().is_loopback()
    }
}

/// Returns the number of listeners of this server that a session has passed which came on the
/// connection `client`, before it is passed on to `server`. Fails if it goes round. Connections over
/// unix sockets are not known.
pub async fn passed(client: Option<Ends>, server: &Address) -> io::Result<usize> {
    let Some(client) = client else { return Ok(0) };
    let is_own = {
        let mut known = known();
        known.ports.insert(client.to.port());
        matches!(server, Address::Inet(server) if known.ports.contains(&server.port()))
    };
    let end = Instant::now() + NOTICE;
    let passed = loop {
        let passed = known().open.get(&client).copied();
        match passed {
            None if is_own && client.is_local() && Instant::now() < end => sleep(LOOK).await,
            passed => break passed.unwrap_or(0),
        }
    };
    if is_own && passed >= MAX_HOPS {
        let problem = format!(
            "the session goes round: it has passed {MAX_HOPS} listeners of this server already"
        );
        return Err(io::Error::other(problem));
    }
    Ok(passed)
}

impl Hop {
    /// Notes a connection of a session that has `passed` so many listeners before.
    pub fn new(ends: Option<Ends>, passed: usize) -> Hop {
        if let Some(ends) = ends {
            known().open.insert(ends, passed + 1);
        }
        Hop { ends }
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        if let Some(ends) = &self.ends {
            known().open.remove(ends);
        }
    }
}

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> Option<Ends> {
        Some(Ends::new((from.parse().unwrap(), to.parse().unwrap())))
    }

    #[test]
    fn a_session_passes_few_listeners_of_this_server() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let listener = Address::Inet("127.0.0.9:7080".parse().unwrap());
            let other = Address::Inet("127.0.0.9:7081".parse().unwrap());
            let mut client = ends("192.0.2.1:1", "127.0.0.9:7080");
            let mut open = Vec::new();
            for port in 1..=4 {
                let before = passed(client, &listener).await.unwrap();
                assert_eq!(before + 1, port);
                open.push(Hop::new(ends(&format!("127.0.0.9:{port}"), "127.0.0.9:7080"), before));
                client = ends(&format!("[::ffff:127.0.0.9]:{port}"), "[::ffff:127.0.0.9]:7080");
            }
            let error = passed(client, &listener).await.unwrap_err();
            assert!(error.to_string().contains("goes round"), "{error}");
            assert_eq!(passed(client, &other).await.unwrap(), 4, "it leads elsewhere");
            drop(open);
            assert_eq!(passed(client, &listener).await.unwrap(), 0, "another connection by now");
            assert_eq!(passed(None, &listener).await.unwrap(), 0);
        });
    }

    #[test]
    fn a_connection_that_is_noted_late_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let listener = Address::Inet("127.0.0.9:7090".parse().unwrap());
            let client = ends("127.0.0.9:99", "127.0.0.9:7090");
            let noting = async {
                tokio::task::yield_now().await;
                Hop::new(client, 2)
            };
            let (found, _hop) = tokio::join!(passed(client, &listener), noting);
            assert_eq!(found.unwrap(), 3);
        });
    }
}
