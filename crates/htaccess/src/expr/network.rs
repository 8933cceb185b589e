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
        let text = str::from_utf8(address).ok();
        let address = text.and_then(|text| text.parse::<IpAddr>().ok().or_else(|| numeric(text)));
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

/// Reads an address as inet_aton(3) does: one to four numbers, decimal, octal or hexadecimal, of
/// which the last one fills the rest: `10.1.2`, `0x7f.1`.
fn numeric(text: &str) -> Option<IpAddr> {
    let parts: Vec<&str> = text.split('.').collect();
    let (last, first) = parts.split_last()?;
    if first.len() > 3 {
        return None;
    }
    let mut address = 0;
    for (part, shift) in first.iter().zip([24, 16, 8]) {
        address |= number(part).filter(|octet| *octet < 256)? << shift;
    }
    let last = number(last).filter(|last| *last < 1 << (32 - 8 * first.len() as u32))?;
    Some(Ipv4Addr::from((address | last) as u32).into())
}

fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text) {
        (Some(digits), _) => (digits, 16),
        (None, "0") => ("0", 10),
        (None, text) => text.strip_prefix('0').map_or((text, 10), |digits| (digits, 8)),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u64::from_str_radix(digits, radix).ok() } else { None }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_forms_of_inet_aton() {
        let network = Network::parse(b"10.0.0.0/8").unwrap();
        for inside in
            ["10.1.2.3", "10.1.2", "10.1", "0xa.1", "012.1.2.3", "167772161", "::ffff:10.1.2.3"]
        {
            assert!(network.contains(inside.as_bytes()), "{inside}");
        }
        for other in [
            "",
            "10",
            "10.",
            "10.1.2.256",
            "10.1.2.3.4",
            "10.256.1",
            "0x.1",
            "4294967296",
            "+10.1",
            "08.1",
        ] {
            assert!(!network.contains(other.as_bytes()), "{other}");
        }
    }
}
