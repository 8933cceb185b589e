//! Addresses as `-ipmatch` reads them.

use std::net::{IpAddr, Ipv4Addr};

/// Reads an address, also in the forms of inet_aton(3).
pub(super) fn read(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    text.parse().ok().or_else(|| numeric(text))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Subnet;

    #[test]
    fn addresses_have_the_forms_of_inet_aton() {
        let network = Subnet::parse(b"10.0.0.0/8").unwrap();
        let is_inside =
            |text: &str| read(text.as_bytes()).is_some_and(|address| network.contains(address));
        for inside in
            ["10.1.2.3", "10.1.2", "10.1", "0xa.1", "012.1.2.3", "167772161", "::ffff:10.1.2.3"]
        {
            assert!(is_inside(inside), "{inside}");
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
            assert!(!is_inside(other), "{other}");
        }
    }
}
