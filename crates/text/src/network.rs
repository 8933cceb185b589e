//! Addresses and networks (RFC 4632, 3.1; RFC 4291, 2.3), as ranges from the first to the last
//! address. All IPv4 addresses come before those of IPv6: a range has addresses of one family.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Reason why a text is no address and no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// There is no address.
    Address,
    /// The number behind the slash is no prefix length of this family of addresses.
    Prefix,
}

/// Reads an address, such as `10.0.0.1`, or a network, such as `10.0.0.0/8`.
pub fn parse(text: &str) -> Result<RangeInclusive<IpAddr>, Invalid> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| Invalid::Address)?;
    let Some(length) = length else { return Ok(address..=address) };
    // `parse` alone would accept a sign.
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_number);
    length.and_then(|length| with_prefix(address, length)).ok_or(Invalid::Prefix)
}

/// Returns the network of an address with a prefix of this length in bits; `None` if the address is
/// shorter.
pub fn with_prefix(address: IpAddr, length: u32) -> Option<RangeInclusive<IpAddr>> {
    let (first, last): (IpAddr, IpAddr) = match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(length).unwrap_or(0);
            let last = address.to_bits() | host;
            (length <= 32).then(|| ((last & !host).to_be_bytes().into(), last.to_be_bytes().into()))
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(length).unwrap_or(0);
            let last = address.to_bits() | host;
            (length <= 128)
                .then(|| ((last & !host).to_be_bytes().into(), last.to_be_bytes().into()))
        }
    }?;
    Some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_first_and_last_address() {
        for (text, first, last) in [
            ("10.0.0.1", "10.0.0.1", "10.0.0.1"),
            ("10.1.2.3/8", "10.0.0.0", "10.255.255.255"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.3"),
            ("1.2.3.4/0", "0.0.0.0", "255.255.255.255"),
            ("fe80::1/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("::1/128", "::1", "::1"),
            ("1::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let expected = first.parse().unwrap()..=last.parse().unwrap();
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_have_a_reason() {
        for text in ["", "a", "1.2.3", "010.0.0.1", "/8", "[::1]"] {
            assert_eq!(parse(text), Err(Invalid::Address), "{text}");
        }
        for text in ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "::/4294967296", "::/a"] {
            assert_eq!(parse(text), Err(Invalid::Prefix), "{text}");
        }
    }
}
