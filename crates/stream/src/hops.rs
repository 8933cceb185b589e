//! Connections of this server to itself.
//!
//! The server of an upstream, or one that an authentication server names, may be a listener of this
//! server. Where that is a mistake, each connection leads to another one without end. So each
//! connection that a session opens is noted until it is closed, with the one on which the session
//! has come: together they are the way of a session through this server.
//!
//! A listener may accept a connection before it is noted. The way of the next one has it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Maximum number of listeners of this server that a session may pass one after another.
const MAX_HOPS: usize = 4;

/// Open connections, each with that of its session.
static OPEN: LazyLock<Mutex<HashMap<Ends, Option<Ends>>>> = LazyLock::new(Mutex::default);

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
}

impl Hop {
    /// Notes a connection that a session has opened. `client` is the connection on which the session
    /// itself has come. Those over unix sockets are not known. Fails if the session goes round.
    pub fn new(opened: Option<Ends>, client: Option<Ends>) -> io::Result<Hop> {
        let Some(ends) = opened else { return Ok(Hop { ends: None }) };
        let mut open = open();
        let way = std::iter::successors(client, |at| open.get(at).copied().flatten());
        if way.filter(|at| open.contains_key(at)).take(MAX_HOPS).count() == MAX_HOPS {
            let problem = format!(
                "the session goes round: it has passed {MAX_HOPS} listeners of this server already"
            );
            return Err(io::Error::other(problem));
        }
        open.insert(ends, client);
        Ok(Hop { ends: Some(ends) })
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        if let Some(ends) = &self.ends {
            open().remove(ends);
        }
    }
}

fn open() -> MutexGuard<'static, HashMap<Ends, Option<Ends>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> Option<Ends> {
        Some(Ends::new((from.parse().unwrap(), to.parse().unwrap())))
    }

    #[test]
    fn a_session_passes_few_listeners_of_this_server() {
        let mut client = ends("192.0.2.1:1", "127.0.0.9:80");
        let mut open = Vec::new();
        for port in 1..=4 {
            let opened = ends(&format!("127.0.0.9:{port}"), "127.0.0.9:80");
            open.push(Hop::new(opened, client).unwrap());
            client = ends(&format!("[::ffff:127.0.0.9]:{port}"), "[::ffff:127.0.0.9]:80");
        }
        let fifth = ends("127.0.0.9:5", "127.0.0.9:80");
        let error = Hop::new(fifth, client).unwrap_err();
        assert!(error.to_string().contains("goes round"), "{error}");
        let other = ends("127.0.0.9:4", "127.0.0.9:81");
        assert!(Hop::new(fifth, other).is_ok(), "another connection from the same port");
        drop(open);
        assert!(Hop::new(fifth, client).is_ok(), "the connection is another one by now");
        assert!(Hop::new(None, client).is_ok());
    }
}
