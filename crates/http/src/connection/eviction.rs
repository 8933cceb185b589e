//! The choice of connections to close when descriptors run short.
//!
//! Candidates are connections that wait for their client: for the rest of a request (handshake,
//! head or body), or idle between two requests. A connection with a request in progress is no
//! candidate.
//!
//! 1. The client with the greatest weight is chosen. An incomplete request weighs
//!    [`INCOMPLETE_WEIGHT`], an idle connection 1.
//! 2. Its incomplete requests are closed before its idle connections, and of each kind the
//!    connection that has waited longest.
//! 3. The weight of the client is less by then, and the choice is repeated.
//!
//! This module does no I/O and reads no clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Client that connections are counted by: an IPv4 address, a /64 network of IPv6 addresses, or all
/// clients of unix sockets together, which have no address.
///
/// The upper half of an IPv6 address, so that the registry of connections needs eight bytes for
/// each. Multicast networks, from which no connection comes, encode IPv4 addresses and unix
/// sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client(u64);

const UNIX: u64 = u64::MAX;
const IPV4: u64 = 0xffff_fffe_0000_0000;

impl Client {
    /// Returns the client of a connection whose transport has this peer; `None` for a unix socket.
    pub fn of(peer: Option<SocketAddr>) -> Client {
        Client(match peer.map(|peer| peer.ip().to_canonical()) {
            None => UNIX,
            Some(IpAddr::V4(address)) => IPV4 | u64::from(u32::from(address)),
            Some(IpAddr::V6(address)) => (u128::from(address) >> 64) as u64,
        })
    }
}

impl Default for Client {
    fn default() -> Self {
        Client(UNIX)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            UNIX => f.write_str("unix sockets"),
            key if key >> 32 == IPV4 >> 32 => Ipv4Addr::from(key as u32).fmt(f),
            key => write!(f, "{}/64", Ipv6Addr::from(u128::from(key) << 64)),
        }
    }
}

/// A connection that may be closed.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<T> {
    /// Client of the connection.
    pub client: Client,
    /// True if the connection waits for its next request; false if a request is incomplete.
    pub is_idle: bool,
    /// Begin of the wait, in any unit.
    pub since: u64,
    /// Key by which the caller finds the connection.
    pub key: T,
}

impl<T> Candidate<T> {
    /// Replaces the key.
    pub fn map<U>(self, place: impl FnOnce(T) -> U) -> Candidate<U> {
        let Candidate { client, is_idle, since, key: old } = self;
        Candidate { client, is_idle, since, key: place(old) }
    }
}

/// Connections to close.
#[derive(Debug)]
pub struct Selection<T> {
    /// Keys of the connections.
    pub places: Vec<T>,
    /// Client with the most of them.
    pub client: Client,
}

/// Weight of an incomplete request; an idle connection weighs 1. Idle connections are closed after
/// incomplete requests of others, unless there are this many times more of them. If they were
/// always last, a client that holds idle connections could have each handshake of other clients
/// closed.
const INCOMPLETE_WEIGHT: usize = 8;

/// Chooses up to `count` connections, of clients with at least `least` candidates; `None` if no
/// client has as many. Takes time in proportion to the number of candidates.
pub fn choose<T>(
    candidates: Vec<Candidate<T>>,
    count: usize,
    least: usize,
) -> Option<Selection<T>> {
    let mut tallies = HashMap::<Client, Tally>::new();
    for candidate in &candidates {
        tallies.entry(candidate.client).or_default().add(candidate);
    }
    let mut quotas = HashMap::<Client, usize>::new();
    let mut clients: BinaryHeap<_> = tallies
        .into_iter()
        .filter(|(_, tally)| tally.total() >= least)
        .map(|(client, tally)| (tally.weight(), Reverse(tally.oldest), client, tally))
        .collect();
    for _ in 0..count {
        let Some((_, oldest, client, mut tally)) = clients.pop() else { break };
        *quotas.entry(client).or_default() += 1;
        tally.take();
        if tally.total() > 0 {
            clients.push((tally.weight(), oldest, client, tally));
        }
    }
    let client = quotas.iter().map(|(client, quota)| (*quota, *client)).max()?.1;
    let mut of_clients = HashMap::<Client, Vec<Candidate<T>>>::new();
    for candidate in candidates.into_iter().filter(|one| quotas.contains_key(&one.client)) {
        of_clients.entry(candidate.client).or_default().push(candidate);
    }
    let mut places = Vec::new();
    for (client, mut candidates) in of_clients {
        let quota = quotas.get(&client).copied().unwrap_or_default();
        if quota < candidates.len() {
            candidates.select_nth_unstable_by_key(quota, |one| (one.is_idle, one.since));
            candidates.truncate(quota);
        }
        places.extend(candidates.into_iter().map(|candidate| candidate.key));
    }
    Some(Selection { places, client })
}

/// Numbers of one client's candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tally {
    incomplete: usize,
    idle: usize,
    oldest: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { incomplete: 0, idle: 0, oldest: u64::MAX }
    }
}

impl Tally {
    fn add<T>(&mut self, candidate: &Candidate<T>) {
        self.oldest = self.oldest.min(candidate.since);
        if candidate.is_idle { self.idle += 1 } else { self.incomplete += 1 }
    }

    fn take(&mut self) {
        match self.incomplete {
            0 => self.idle -= 1,
            _ => self.incomplete -= 1,
        }
    }

    fn total(&self) -> usize {
        self.incomplete + self.idle
    }

    fn weight(&self) -> usize {
        self.incomplete * INCOMPLETE_WEIGHT + self.idle
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(n: u8) -> Client {
        Client::of(Some(SocketAddr::from(([192, 0, 2, n], 1))))
    }

    /// Returns connections of client `n`, the oldest first; the key is the client's number and the
    /// connection's.
    fn waiting(n: u8, is_idle: bool, since: std::ops::Range<u64>) -> Vec<Candidate<(u8, u64)>> {
        let one = |since| Candidate { client: client(n), is_idle, since, key: (n, since) };
        since.map(one).collect()
    }

    fn chosen(candidates: Vec<Candidate<(u8, u64)>>, count: usize) -> Vec<(u8, u64)> {
        let mut places = choose(candidates, count, 1).map_or(Vec::new(), |chosen| chosen.places);
        places.sort();
        places
    }

    #[test]
    fn the_client_with_most_connections_without_a_request_loses_its_oldest() {
        let mut all = waiting(1, false, 100..150);
        all.extend(waiting(2, false, 0..3));
        assert_eq!(chosen(all.clone(), 1), [(1, 100)]);
        assert_eq!(chosen(all, 3), [(1, 100), (1, 101), (1, 102)]);
    }

    #[test]
    fn clients_with_equally_many_lose_in_turn_and_the_longest_waiting_first() {
        let mut all = waiting(1, false, 10..13);
        all.extend(waiting(2, false, 0..3));
        assert_eq!(chosen(all.clone(), 1), [(2, 0)]);
        assert_eq!(chosen(all.clone(), 4), [(1, 10), (1, 11), (2, 0), (2, 1)]);
        assert_eq!(chosen(all, 100).len(), 6);
    }

    #[test]
    fn idle_connections_come_after_those_without_a_request() {
        let mut all = waiting(1, true, 0..20);
        all.extend(waiting(1, false, 50..52));
        assert_eq!(chosen(all.clone(), 3), [(1, 0), (1, 50), (1, 51)], "of the same client");
        all.extend(waiting(2, false, 60..70));
        assert_eq!(chosen(all, 2), [(2, 60), (2, 61)], "of another, which has fewer in all");
    }

    /// A client fills the server with idle connections, and each further one completes its request
    /// at once. Were idle connections always last, only handshakes of others would be left to
    /// close.
    #[test]
    fn many_idle_connections_do_not_have_handshakes_of_others_closed() {
        let mut all = waiting(1, true, 100..300);
        all.extend(waiting(2, false, 0..6));
        assert_eq!(chosen(all, 2), [(1, 100), (1, 101)]);
    }

    #[test]
    fn clients_with_few_connections_can_be_passed_over() {
        let mut all = waiting(1, false, 0..1);
        all.extend(waiting(2, true, 5..7));
        let some = choose(all.clone(), 9, 2).unwrap();
        assert_eq!((some.places.len(), some.client), (2, client(2)));
        assert!(choose(all, 9, 3).is_none());
        assert!(choose(Vec::<Candidate<()>>::new(), 9, 0).is_none());
    }

    #[test]
    fn clients_are_ipv4_addresses_and_ipv6_networks() {
        let of = |address: &str| Client::of(Some(address.parse().unwrap()));
        assert_eq!(of("192.0.2.1:1"), of("[::ffff:192.0.2.1]:2"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.2.2:1"));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1:2]:1"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_eq!(Client::of(None), Client::of(None));
        let all = ["192.0.2.1:1", "0.0.0.0:1", "255.255.255.255:1", "[::1]:1", "[2001:db8::1]:1"];
        for (n, one) in all.iter().enumerate() {
            assert_ne!(of(one), Client::of(None));
            assert!(all[..n].iter().all(|other| of(other) != of(one)), "{one}");
        }
        let shown = all.map(|one| of(one).to_string());
        assert_eq!(shown, ["192.0.2.1", "0.0.0.0", "255.255.255.255", "::/64", "2001:db8::/64"]);
        assert_eq!(Client::of(None).to_string(), "unix sockets");
    }

    proptest! {
        #[test]
        fn as_one_by_one(
            all in proptest::collection::vec((1..5u8, any::<bool>()), 0..60),
            count in 0..70usize,
        ) {
            let mut left: Vec<_> = all
                .iter()
                .enumerate()
                .flat_map(|(n, (client, idle))| waiting(*client, *idle, n as u64..n as u64 + 1))
                .collect();
            let together = chosen(left.clone(), count);
            let weight = |left: &[Candidate<(u8, u64)>], client| {
                let of = left.iter().filter(|one| one.client == client);
                of.map(|one| if one.is_idle { 1 } else { INCOMPLETE_WEIGHT }).sum::<usize>()
            };
            for _ in 0..count.min(left.len()) {
                let heaviest = left.iter().map(|one| weight(&left, one.client)).max().unwrap();
                // Ties between clients may go either way.
                let victims = left.iter().enumerate().filter(|(_, one)| {
                    weight(&left, one.client) == heaviest && together.contains(&one.key)
                });
                let victim = victims.min_by_key(|(_, one)| (one.is_idle, one.since));
                prop_assert!(victim.is_some(), "{together:?} {left:?}");
                let (n, victim) = victim.map(|(n, one)| (n, *one)).unwrap();
                let better = left.iter().find(|one| {
                    one.client == victim.client
                        && (one.is_idle, one.since) < (victim.is_idle, victim.since)
                });
                prop_assert!(better.is_none());
                left.remove(n);
            }
            prop_assert_eq!(together.len(), count.min(all.len()));
        }
    }
}
