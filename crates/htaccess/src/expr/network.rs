//! Ranges of addresses, as `-R` and `-ipmatch` take them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    mask: u128,
}

impl Network {
    /// Reads `10.1`, `10.1.0.0/16`, `10.1.0.0/255.255.0.0`, `2001:db8::/32` or a single address.
    pub fn parse(text: &[u8]) -> Option<Network> {
        let text = str::from_utf8(text).ok()?;
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            let bits =
                mask.map_or(Some(128), |mask| mask.parse().ok().filter(|bits| *bits <= 128))?;
            return Some(Network { address: address.into(), mask: prefix(bits) });
        }
        let (address, octets) = partial(address)?;
        let mask = match mask {
            None => prefix(octets * 8) >> 96,
            Some(mask) => match mask.parse::<u32>() {
                Ok(bits) if bits <= 32 => prefix(bits) >> 96,
                Ok(_) => return None,
                Err(_) => u128::from(u32::from(mask.parse::<Ipv4Addr>().ok()?)),
            },
        };
        Some(Network { address: address.into(), mask })
    }

    /// Returns true if an address, as text, is within.
    pub fn contains(&self, address: &[u8]) -> bool {
        let address = str::from_utf8(address).ok().and_then(|text| text.parse::<IpAddr>().ok());
        match (address.map(|address| address.to_canonical()), self.address) {
            (Some(IpAddr::V4(address)), IpAddr::V4(own)) => {
                (u32::from(address) ^ u32::from(own)) & self.mask as u32 == 0
            }
            (Some(IpAddr::V6(address)), IpAddr::V6(own)) => {
                (u128::from(address) ^ u128::from(own)) & self.mask == 0
            }
            _ => false,
        }
    }
}

/// A number with `bits` ones at the top.
fn prefix(bits: u32) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - bits.min(128)) }
}

/// Reads one to four octets, and counts them.
fn partial(text: &str) -> Option<(Ipv4Addr, u32)> {
    let mut octets = [0u8; 4];
    let mut count = 0;
    for octet in text.strip_suffix('.').unwrap_or(text).split('.') {
        if octet.is_empty() || octet.len() > 3 || !octet.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octets.get_mut(count)? = octet.parse().ok()?;
        count += 1;
    }
    Some((octets.into(), count as u32))
}
