//! Numbers and addresses as text. Each request has six of them as parameters; the formatter of the standard
//! library would take three to four times as long.

use std::fmt::Write;
use std::net::IpAddr;

use howdah_http::message::ShownAddress;
use howdah_http::variables::ShownRequestId;

/// A value of a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Shown {
    /// A number in decimal.
    Number(u64),
    /// An address as [`ShownAddress`] shows it.
    Address(Option<IpAddr>),
    /// The public id of the request with this number.
    RequestId(u64),
}

impl Shown {
    /// Appends the text.
    pub fn write(self, out: &mut String) {
        match self {
            Shown::Number(value) => number(out, value),
            Shown::Address(ip) => address(out, ip),
            Shown::RequestId(id) => {
                let _ = write!(out, "{}", ShownRequestId(id));
            }
        }
    }
}

/// Appends a number in decimal.
fn number(out: &mut String, value: u64) {
    if value >= 10 {
        number(out, value / 10);
    }
    out.push(char::from(b'0' + (value % 10) as u8));
}

/// Appends an address as [`ShownAddress`] shows it.
fn address(out: &mut String, ip: Option<IpAddr>) {
    let Some(IpAddr::V4(v4)) = ip.map(|ip| ip.to_canonical()) else {
        let _ = write!(out, "{}", ShownAddress(ip));
        return;
    };
    for (index, octet) in v4.octets().into_iter().enumerate() {
        if index > 0 {
            out.push('.');
        }
        number(out, octet.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_are_shown_as_by_the_formatter() {
        for value in [0, 9, 10, 80, 255, 65_535, 1_000_000, u64::MAX] {
            let mut text = String::new();
            number(&mut text, value);
            assert_eq!(text, value.to_string());
        }
        let ips =
            ["127.0.0.1", "255.20.3.0", "::1", "::ffff:10.0.0.1", "::10.0.0.1", "2001:db8::1"];
        for ip in ips.map(|ip| Some(ip.parse().unwrap())).into_iter().chain([None]) {
            let mut text = String::new();
            address(&mut text, ip);
            assert_eq!(text, ShownAddress(ip).to_string());
        }
    }
}
