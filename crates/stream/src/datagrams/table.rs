//! The sessions of a listener, by their clients.
//!
//! A client is confirmed once it has sent a datagram after an answer: it gets what is sent to its
//! address. If the table is full, the oldest session of a client that is not confirmed gives way, so
//! a flood of forged addresses ends no session of a confirmed client.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// The addresses of a client's datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    /// Address and port that they come from.
    pub peer: SocketAddr,
    /// Address that they come to; `None` if the system does not tell.
    pub local: Option<IpAddr>,
}

/// Sessions by their clients.
#[derive(Debug)]
pub struct Table<T> {
    /// Number of the session that takes the datagrams of a client.
    current: HashMap<Client, u64>,
    /// Sessions by their numbers. A client may have former ones, which wait for answers.
    sessions: HashMap<u64, Entry<T>>,
    /// Numbers in ascending order. Those of sessions that have ended, or are confirmed, are skipped.
    oldest: VecDeque<u64>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    client: Client,
    is_confirmed: bool,
    session: T,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let (current, sessions) = (HashMap::new(), HashMap::new());
        Table { current, sessions, oldest: VecDeque::new(), next: 0 }
    }
}

impl<T> Table<T> {
    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true if there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the session that takes the datagrams of a client.
    pub fn get(&self, client: &Client) -> Option<&T> {
        let entry = self.sessions.get(self.current.get(client)?)?;
        Some(&entry.session)
    }

    /// Returns all sessions.
    pub fn sessions(&self) -> impl Iterator<Item = &T> {
        self.sessions.values().map(|entry| &entry.session)
    }

    /// Adds a session, which takes the datagrams of its client from now on. Returns its number.
    pub fn insert(&mut self, client: Client, session: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.current.insert(client, number);
        self.sessions.insert(number, Entry { client, is_confirmed: false, session });
        self.oldest.push_back(number);
        if self.oldest.len() > 2 * self.sessions.len() + 64 {
            let sessions = &self.sessions;
            let may_give_way =
                |number: &u64| sessions.get(number).is_some_and(|entry| !entry.is_confirmed);
            self.oldest.retain(may_give_way);
        }
        number
    }

    /// Confirms a client.
    pub fn confirm(&mut self, client: &Client) {
        let entry = self.current.get(client).and_then(|number| self.sessions.get_mut(number));
        if let Some(entry) = entry {
            entry.is_confirmed = true;
        }
    }

    /// Removes the session with a number.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let Entry { client, session, .. } = self.sessions.remove(&number)?;
        if self.current.get(&client) == Some(&number) {
            self.current.remove(&client);
        }
        Some(session)
    }

    /// Removes the oldest session of a client that is not confirmed; `None` if there is none.
    pub fn evict(&mut self) -> Option<T> {
        while let Some(number) = self.oldest.pop_front() {
            if self.sessions.get(&number).is_some_and(|entry| !entry.is_confirmed) {
                return self.remove(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(port: u16) -> Client {
        Client { peer: SocketAddr::from(([192, 0, 2, 1], port)), local: None }
    }

    #[test]
    fn the_oldest_client_that_is_not_confirmed_gives_way() {
        let mut table = Table::default();
        for port in 1..=4 {
            table.insert(client(port), port);
        }
        table.confirm(&client(1));
        assert_eq!(table.remove(1), Some(2));
        assert_eq!(table.insert(client(2), 22), 4);
        assert_eq!((table.evict(), table.evict(), table.evict()), (Some(3), Some(4), Some(22)));
        assert_eq!((table.evict(), table.len()), (None, 1), "a confirmed client stays");
        assert_eq!(table.get(&client(1)), Some(&1));
    }

    #[test]
    fn a_former_session_of_a_client_ends_without_the_next_one() {
        let mut table = Table::default();
        let first = table.insert(client(1), "first");
        let second = table.insert(client(1), "second");
        assert_eq!((table.get(&client(1)), table.len()), (Some(&"second"), 2));
        assert_eq!(table.remove(first), Some("first"));
        assert_eq!(table.get(&client(1)), Some(&"second"));
        assert_eq!((table.remove(first), table.remove(second)), (None, Some("second")));
        assert!(table.get(&client(1)).is_none() && table.is_empty());
    }

    #[test]
    fn sessions_that_have_ended_cost_no_memory() {
        let mut table = Table::default();
        for port in 1..=10_000 {
            let number = table.insert(client(port), ());
            table.remove(number);
        }
        assert!(table.oldest.len() < 100 && table.is_empty(), "{}", table.oldest.len());
    }
}
