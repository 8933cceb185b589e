//! Clients whose handshake is not complete: how many there may be, and for how long.
//!
//! Each costs memory and processor time, and may have forged its address. Above a number of them a new
//! client has to prove its address first (Retry, RFC 9000, 8.1.2), which costs the server nothing that it
//! would have to keep. Above another number, or with too many from one network, new ones are ignored.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use crate::options::Retry;

/// Number of half-open clients of a thread above which new ones get a Retry.
const RETRY_ABOVE: usize = 100;

/// Maximum number of half-open clients of a thread.
const MAX_HALF_OPEN: usize = 1000;

/// The same of one address, or of one network of IPv6.
const MAX_OF_ADDRESS: usize = 100;

/// What to do with a new client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Begin the handshake.
    Accept,
    /// Let it prove its address.
    Retry,
    /// Send nothing.
    Ignore,
}

/// The half-open clients of an endpoint.
#[derive(Default)]
pub(crate) struct HalfOpen {
    /// Those that have proved their addresses: others may have forged those of a victim.
    by_address: HashMap<IpAddr, usize>,
    count: usize,
    /// Deadlines of handshakes, with the connection's number and serial number; also of those that
    /// are complete.
    deadlines: VecDeque<(Instant, usize, u64)>,
}

impl HalfOpen {
    /// Decides on a new client. `has_proof` if it has proved its address.
    pub(crate) fn admit(&self, address: SocketAddr, has_proof: bool, retry: Retry) -> Admission {
        let of_address = self.by_address.get(&network(address)).copied().unwrap_or_default();
        if self.count >= MAX_HALF_OPEN || has_proof && of_address >= MAX_OF_ADDRESS {
            return Admission::Ignore;
        }
        let needs_proof = match retry {
            Retry::Always => true,
            Retry::Auto => self.count >= RETRY_ABOVE,
            Retry::Never => false,
        };
        if needs_proof && !has_proof { Admission::Retry } else { Admission::Accept }
    }

    /// Adds a client, with its address if that is proven. Its handshake has to be complete at the
    /// deadline. Deadlines do not decrease.
    pub(crate) fn add(
        &mut self,
        proven: Option<SocketAddr>,
        deadline: Instant,
        number: usize,
        serial: u64,
    ) {
        if let Some(address) = proven {
            *self.by_address.entry(network(address)).or_default() += 1;
        }
        self.count += 1;
        self.deadlines.push_back((deadline, number, serial));
    }

    /// Removes a client whose handshake is complete or has failed.
    pub(crate) fn remove(&mut self, proven: Option<SocketAddr>) {
        if let Some(address) = proven.map(network)
            && let Some(count) = self.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.by_address.shrink_to(64);
        }
    }

    /// Takes the number and the serial number of a connection whose deadline is over.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(usize, u64)> {
        let (deadline, number, serial) = *self.deadlines.front()?;
        if deadline > now {
            return None;
        }
        self.deadlines.pop_front();
        Some((number, serial))
    }

    /// Ends the handshakes at this time at the latest.
    pub(crate) fn shorten(&mut self, end: Instant) {
        self.deadlines.iter_mut().for_each(|(deadline, ..)| *deadline = end.min(*deadline));
    }

    /// Returns the first deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.deadlines.front().map(|(deadline, ..)| *deadline)
    }

    /// Returns the number of half-open clients.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// Returns what counts as one address: a customer has a whole network of IPv6.
fn network(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !(u128::from(u64::MAX))).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(host: u16) -> SocketAddr {
        let [high, low] = host.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 443))
    }

    fn filled(count: u16) -> HalfOpen {
        let mut half_open = HalfOpen::default();
        for host in 0..count {
            half_open.add(Some(address(host)), Instant::now(), host.into(), 0);
        }
        half_open
    }

    #[test]
    fn many_half_open_clients_make_others_prove_their_addresses() {
        let half_open = filled(99);
        assert_eq!(half_open.admit(address(0), false, Retry::Auto), Admission::Accept);
        assert_eq!(half_open.admit(address(0), false, Retry::Always), Admission::Retry);
        let half_open = filled(100);
        assert_eq!(half_open.admit(address(0), false, Retry::Auto), Admission::Retry);
        assert_eq!(half_open.admit(address(0), false, Retry::Never), Admission::Accept);
        assert_eq!(half_open.admit(address(0), true, Retry::Always), Admission::Accept);
        assert_eq!(filled(1000).admit(address(0), true, Retry::Auto), Admission::Ignore);
    }

    #[test]
    fn one_address_does_not_take_all_places() {
        let mut half_open = HalfOpen::default();
        for number in 0..100 {
            half_open.add(Some(address(1)), Instant::now(), number, 0);
        }
        assert_eq!(half_open.admit(address(1), true, Retry::Auto), Admission::Ignore);
        assert_eq!(half_open.admit(address(2), true, Retry::Auto), Admission::Accept);
        assert_eq!(half_open.admit(address(1), false, Retry::Auto), Admission::Retry, "forged?");
        half_open.remove(Some(address(1)));
        half_open.add(None, Instant::now(), 100, 0);
        assert_eq!(half_open.admit(address(1), true, Retry::Auto), Admission::Accept);
        half_open.remove(None);
        assert_eq!(half_open.count(), 99);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| network(SocketAddr::new(text.parse().unwrap(), 1));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
    }

    #[test]
    fn handshakes_are_due_in_their_order() {
        let (mut half_open, start) = (HalfOpen::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        half_open.add(Some(address(1)), at(1), 5, 7);
        half_open.add(Some(address(1)), at(2), 6, 8);
        assert_eq!((half_open.take_due(start), half_open.next()), (None, Some(at(1))));
        assert_eq!(half_open.take_due(at(1)), Some((5, 7)));
        assert_eq!(half_open.take_due(at(1)), None);
        half_open.shorten(at(1));
        assert_eq!(half_open.take_due(at(1)), Some((6, 8)));
    }
}
