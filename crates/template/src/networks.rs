//! A table of networks, of which the smallest that has an address is found.

use std::net::IpAddr;

use howdah_text::network;

/// Networks with their values. IPv4 addresses are those of `::ffff:0:0/96`.
pub struct Networks<T> {
    /// In the order of their first addresses; of two, the larger one first.
    networks: Vec<Network<T>>,
}

struct Network<T> {
    first: u128,
    last: u128,
    /// The smallest other network that contains this one.
    within: Option<usize>,
    value: T,
}

/// Reads an address or a network, such as `10.0.0.0/8`; returns its first and last address.
pub fn parse(text: &str) -> Option<(u128, u128)> {
    let (first, last) = network::parse(text).ok()?.into_inner();
    Some((number(first), number(last)))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl<T> Networks<T> {
    /// Creates a table. Of equal networks, the last one counts.
    pub fn new(mut networks: Vec<((u128, u128), T)>) -> Self {
        networks.reverse();
        networks.sort_by_key(|((first, last), _)| (*first, std::cmp::Reverse(*last)));
        networks.dedup_by_key(|(network, _)| *network);
        let mut table = Networks { networks: Vec::with_capacity(networks.len()) };
        for ((first, last), value) in networks {
            let within = table.containing(first, table.networks.len().checked_sub(1));
            table.networks.push(Network { first, last, within, value });
        }
        table
    }

    /// Returns the value of the smallest network that has an address.
    pub fn find(&self, address: IpAddr) -> Option<&T> {
        let number = number(address);
        let after = self.networks.partition_point(|network| network.first <= number);
        let found = self.containing(number, after.checked_sub(1))?;
        self.networks.get(found).map(|network| &network.value)
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.networks.iter().map(|network| &network.value)
    }

    /// Follows the chain of `within` from `place` to a network that has an address. Two networks
    /// are disjoint or one contains the other, so the chain visits all that can have it.
    fn containing(&self, number: u128, mut place: Option<usize>) -> Option<usize> {
        while let Some(network) = place.and_then(|place| self.networks.get(place)) {
            if network.last >= number {
                return place;
            }
            place = network.within;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_texts_are_no_networks() {
        assert_eq!((parse("a"), parse("10.0.0.0/33")), (None, None));
        assert_eq!(parse("::/0"), Some((0, u128::MAX)));
        assert_eq!(parse("10.1.2.3/8"), parse("10.0.0.0/8"));
        assert_eq!(parse("::ffff:10.0.0.0/104"), parse("10.0.0.0/8"));
    }

    proptest! {
        #[test]
        fn the_smallest_network_that_has_an_address_is_found(
            networks in prop::collection::vec((0_u32..64, 0_u32..=32), 0..12),
        ) {
            let address = |bits: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(bits << 26));
            let of = |(bits, length): &(u32, u32)| parse(&format!("{}/{length}", address(*bits)));
            let networks: Vec<_> = networks.iter()
                .enumerate()
                .map(|(index, network)| (of(network).expect("a network"), index))
                .collect();
            let table = Networks::new(networks.clone());
            for bits in 0..64 {
                let wanted = number(address(bits));
                let having = networks.iter()
                    .filter(|((first, last), _)| (*first..=*last).contains(&wanted));
                let smallest = having
                    .min_by_key(|((first, last), index)| (last - first, std::cmp::Reverse(*index)));
                prop_assert_eq!(table.find(address(bits)), smallest.map(|(_, index)| index));
            }
        }
    }
}
