//! Addresses of a peer: which one is proven, and how much may be sent to one that is not.
//!
//! A client can forge the address that it sends from. Until it has shown that it gets what is sent
//! there, it gets at most three times what came from there (RFC 9000, 8.1 and 9.3), and nobody is told
//! the address. The library starts a datagram as long as anything of that is left, so it is not asked for
//! more datagrams than fit.

use std::net::SocketAddr;

use quinn_proto::ConnectionStats;

/// Ratio of bytes sent to bytes received (RFC 9000, 8.1).
const FACTOR: u64 = 3;

/// An address that is not proven.
#[derive(Debug, Clone, Copy)]
struct Unproven {
    address: SocketAddr,
    received: u64,
    sent: u64,
}

impl Unproven {
    fn allowance(&self) -> u64 {
        (FACTOR * self.received).saturating_sub(self.sent)
    }
}

/// Addresses of the peer of one connection.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The address that others are told: the last one that was proven, or the first.
    known: SocketAddr,
    /// The address that the connection uses, while it is not proven.
    current: Option<Unproven>,
    /// Another address from which datagrams have come.
    other: Option<Unproven>,
    /// Number of answers to challenges when the connection began to use its address.
    responses: u64,
}

impl Paths {
    /// Creates the state of a new connection, after its first datagram of `length` bytes.
    pub(crate) fn new(address: SocketAddr, length: u64, is_proven: bool) -> Paths {
        let first = Unproven { address, received: length, sent: 0 };
        let current = (!is_proven).then_some(first);
        Paths { known: address, current, other: None, responses: 0 }
    }

    /// Returns the address of the peer that was proven last; before any was, the first one.
    pub(crate) fn known(&self) -> SocketAddr {
        self.known
    }

    /// The handshake is complete: the peer has got what was sent to its address.
    pub(crate) fn prove(&mut self) {
        if let Some(current) = self.current.take() {
            self.known = current.address;
        }
    }

    /// Counts a datagram that has come from an address, before the library handles it.
    pub(crate) fn count_received(&mut self, from: SocketAddr, length: u64) {
        if let Some(current) = self.current.as_mut().filter(|current| current.address == from) {
            current.received += length;
        } else if self.known == from && self.current.is_none() {
            // Proven.
        } else if let Some(other) = self.other.as_mut().filter(|other| other.address == from) {
            other.received += length;
        } else {
            self.other = Some(Unproven { address: from, received: length, sent: 0 });
        }
    }

    /// Follows the library, which uses this address from now on.
    pub(crate) fn follow(&mut self, address: SocketAddr, stats: impl FnOnce() -> ConnectionStats) {
        let is_known = self.known == address && self.current.is_none();
        if is_known || self.current.is_some_and(|current| current.address == address) {
            return;
        }
        if self.known == address {
            // The peer did not prove another address, or came back.
            self.current = None;
            return;
        }
        let other = self.other.take_if(|other| other.address == address);
        self.current = Some(other.unwrap_or(Unproven { address, received: 0, sent: 0 }));
        self.responses = stats().frame_rx.path_response;
    }

    /// Returns true if the address in use is not proven.
    pub(crate) fn is_unproven(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the number of datagrams of `size` bytes that may be sent now, of at most `max`.
    pub(crate) fn datagrams(&self, max: usize, size: u16) -> usize {
        let Some(current) = &self.current else { return max };
        let fitting = current.allowance() / u64::from(size.max(1));
        let fitting = usize::try_from(fitting).unwrap_or(max).min(max);
        // A router on the way may have given the peer another port. The challenge has to reach it,
        // although only a small packet came; the library lets no second one follow.
        let is_same_host = self.known != current.address && self.known.ip() == current.address.ip();
        if is_same_host { fitting.max(1) } else { fitting }
    }

    /// Counts what is about to be sent to an address. Returns false if it must not be.
    pub(crate) fn count_sent(&mut self, to: SocketAddr, length: u64) -> bool {
        if let Some(current) = self.current.as_mut().filter(|current| current.address == to) {
            current.sent += length;
            return true;
        }
        if let Some(other) = self.other.as_mut().filter(|other| other.address == to) {
            let is_allowed = length <= other.allowance();
            other.sent += if is_allowed { length } else { 0 };
            return is_allowed;
        }
        true
    }

    /// Learns from what was sent to the address in use whether the library has seen a proof of it.
    /// While it has not, it sends a challenge with each packet but probes of the path's MTU.
    pub(crate) fn learn(&mut self, before: &ConnectionStats, after: &ConnectionStats) {
        let is_probe = before.path.sent_plpmtud_probes != after.path.sent_plpmtud_probes;
        let is_challenge = before.frame_tx.path_challenge != after.frame_tx.path_challenge;
        if !is_probe && !is_challenge && after.frame_rx.path_response > self.responses {
            self.prove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    fn migrated(to: SocketAddr, length: u64) -> Paths {
        let mut paths = Paths::new(address(1, 1), 1200, true);
        paths.count_received(to, length);
        paths.follow(to, ConnectionStats::default);
        paths
    }

    #[test]
    fn a_new_client_gets_three_times_its_bytes() {
        let mut paths = Paths::new(address(1, 1), 1250, false);
        assert_eq!(paths.datagrams(10, 1200), 3);
        assert!(paths.count_sent(address(1, 1), 3600));
        assert_eq!(paths.datagrams(10, 1200), 0, "150 bytes are left");
        paths.count_received(address(1, 1), 400);
        assert_eq!(paths.datagrams(10, 1200), 1);
        paths.prove();
        assert_eq!(paths.datagrams(10, 1200), 10);
    }

    #[test]
    fn another_host_gets_three_times_its_bytes_and_is_told_to_nobody() {
        let mut paths = migrated(address(2, 1), 100);
        assert_eq!((paths.datagrams(10, 1200), paths.known()), (0, address(1, 1)));
        paths.count_received(address(2, 1), 1200);
        assert_eq!(paths.datagrams(10, 1200), 3);
        let (before, mut after) = (ConnectionStats::default(), ConnectionStats::default());
        paths.learn(&before, &after);
        assert_eq!(paths.known(), address(1, 1), "no challenge was answered");
        (after.frame_rx.path_response, after.frame_tx.path_challenge) = (1, 1);
        paths.learn(&before, &after);
        assert_eq!(paths.known(), address(1, 1), "the answer was a wrong one");
        after.frame_tx.path_challenge = 0;
        paths.learn(&before, &after);
        assert_eq!((paths.known(), paths.datagrams(10, 1200)), (address(2, 1), 10));
    }

    #[test]
    fn another_port_of_the_same_host_gets_one_datagram_at_least() {
        let paths = migrated(address(1, 2), 40);
        assert_eq!((paths.datagrams(10, 1452), paths.known()), (1, address(1, 1)));
    }

    #[test]
    fn a_peer_that_comes_back_or_fails_to_prove_its_address_has_its_former_one() {
        let mut paths = migrated(address(2, 1), 100);
        paths.follow(address(1, 1), ConnectionStats::default);
        assert_eq!((paths.datagrams(10, 1200), paths.is_unproven()), (10, false));
    }

    #[test]
    fn a_probe_from_elsewhere_is_not_answered_with_more_than_three_times_its_bytes() {
        let mut paths = Paths::new(address(1, 1), 1200, true);
        paths.count_received(address(9, 1), 60);
        assert!(!paths.count_sent(address(9, 1), 1200));
        paths.count_received(address(9, 1), 1200);
        assert!(paths.count_sent(address(9, 1), 1200));
        assert!(paths.count_sent(address(1, 1), 9000));
    }
}
