//! Small functions that several modules of directives share.

use std::net::{IpAddr, Ipv6Addr};

use howdah_text::{html, percent};

use crate::method::Methods;
use crate::record::Record;
use crate::table::Table;

/// Takes the next word of a line, as Apache's `ap_getword_conf`: words end at white space, quotes
/// keep white space, a backslash escapes a backslash or the quote. Returns an empty word at the end
/// of the line.
pub fn word(line: &mut &[u8]) -> Vec<u8> {
    let text = skip_space(line);
    let (quote, body) = match text.first() {
        Some(&quote @ (b'"' | b'\'')) => (Some(quote), text.get(1..).unwrap_or_default()),
        _ => (None, text),
    };
    let mut end = 0;
    while let Some(&byte) = body.get(end) {
        match quote {
            Some(quote) if byte == quote => break,
            Some(quote) if byte == b'\\' => {
                let escapes =
                    matches!(body.get(end + 1), Some(&next) if next == quote || next == b'\\');
                end += if escapes { 2 } else { 1 };
            }
            None if is_space(byte) => break,
            _ => end += 1,
        }
    }
    let end = end.min(body.len());
    let (inner, mut rest) = body.split_at(end);
    if quote.is_some() {
        rest = rest.get(1..).unwrap_or_default();
    }
    *line = skip_space(rest);
    unescape(inner, quote)
}

fn unescape(text: &[u8], quote: Option<u8>) -> Vec<u8> {
    let mut word = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = |next: &u8| *next == b'\\' || Some(*next) == quote;
        match bytes.next_if(|next| byte == b'\\' && escaped(next)) {
            Some(next) => word.push(next),
            None => word.push(byte),
        }
    }
    word
}

/// Returns all words of a line.
pub fn words(mut line: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while !line.is_empty() {
        let next = word(&mut line);
        if next.is_empty() {
            break;
        }
        all.push(next);
    }
    all
}

/// Returns true for white space of C's `isspace`.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Returns the text without white space at its start.
pub fn skip_space(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// Returns the text without white space at both ends.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let text = skip_space(text);
    let end = text.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// Returns true if the text begins with a prefix in any case.
pub fn has_prefix(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Returns the text for a message.
pub fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Appends a value to the first one of a name with a comma, as Apache's `apr_table_merge`; adds it
/// to none.
pub fn merge(table: &mut Table, name: &[u8], value: &[u8]) {
    let Some(first) = table.get(name) else { return table.add(name, value) };
    let joined = [first, b", ", value].concat();
    let others: Vec<Vec<u8>> = table.all(name).skip(1).map(<[u8]>::to_vec).collect();
    // `set` would give the name the case of the new one and drop further values.
    let spelling = table.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    let spelling = spelling.map_or_else(|| name.to_vec(), |(other, _)| other.to_vec());
    table.set(spelling, joined);
    for other in others {
        table.add(name, other);
    }
}

/// Returns the part of a content type before its parameters.
pub fn without_parameters(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|&byte| byte == b';').unwrap_or(content_type.len());
    trimmed(content_type.get(..end).unwrap_or_default())
}

/// Returns true if a directive in this `<Limit>` holds for a method. `HEAD` counts as `GET`; a
/// method that Apache does not know is covered by `<LimitExcept>` only.
pub fn covers(methods: Option<&Methods>, method: &[u8]) -> bool {
    let Some(methods) = methods else { return true };
    let method = if method == b"HEAD" { b"GET" } else { method };
    let is_named = methods.names.iter().any(|name| {
        let name: &[u8] = if name == b"HEAD" { b"GET" } else { name };
        name == method
    });
    is_named != methods.is_except
}

/// A network, as Apache's `apr_ipsubnet_create` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    address: u128,
    mask: u128,
    is_v4: bool,
}

/// Reasons why a text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubnetError {
    /// The address looks like none: it may be a host name.
    NoAddress,
    /// APR's text for a bad address.
    BadAddress,
    /// APR's text for a bad mask.
    BadMask,
}

impl SubnetError {
    /// Text of `apr_strerror`.
    pub fn text(self) -> &'static str {
        match self {
            SubnetError::NoAddress => "Invalid argument",
            SubnetError::BadAddress => "The specified IP address is invalid.",
            SubnetError::BadMask => "The specified network mask is invalid.",
        }
    }
}

impl Subnet {
    /// Reads `10.1`, `10.1.0.0/16`, `10.1.0.0/255.255.0.0`, `fe80::/10`.
    pub fn parse(text: &[u8]) -> Result<Subnet, SubnetError> {
        let slash = text.iter().position(|&byte| byte == b'/');
        let (address, mask) = text.split_at(slash.unwrap_or(text.len()));
        let mask = mask.get(1..);
        let looks_like_ip =
            address.contains(&b':') || address.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        if address.is_empty() || !looks_like_ip {
            return Err(SubnetError::NoAddress);
        }
        let text = std::str::from_utf8(address).map_err(|_| SubnetError::NoAddress)?;
        if text.contains(':') {
            let address: Ipv6Addr = text.parse().map_err(|_| SubnetError::BadAddress)?;
            let bits = mask.map(|mask| number(mask).filter(|bits| (1..=128).contains(bits)));
            let bits = bits.unwrap_or(Some(128)).ok_or(SubnetError::BadMask)?;
            let mask = u128::MAX << (128 - bits);
            if address.to_ipv4_mapped().is_some() {
                return Err(SubnetError::BadAddress);
            }
            return Ok(Subnet { address: u128::from(address) & mask, mask, is_v4: false });
        }
        let (address, implied) = partial_v4(text).ok_or(SubnetError::BadAddress)?;
        if mask.is_some() && implied != u32::MAX {
            return Err(SubnetError::BadAddress);
        }
        let mask = match mask {
            None => implied,
            Some(mask) => v4_mask(mask).ok_or(SubnetError::BadMask)?,
        };
        let mask = u128::from(mask) | (u128::MAX << 32);
        Ok(Subnet { address: u128::from(address) & mask, mask, is_v4: true })
    }

    /// Returns true if the network has the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                self.is_v4 && u128::from(u32::from(address)) & self.mask == self.address
            }
            IpAddr::V6(address) => !self.is_v4 && u128::from(address) & self.mask == self.address,
        }
    }
}

/// Reads one to four decimal parts; returns the address and the mask of the parts that are given.
fn partial_v4(text: &str) -> Option<(u32, u32)> {
    let (mut address, mut mask, mut shift) = (0u32, 0u32, 32u32);
    for part in text.strip_suffix('.').unwrap_or(text).split('.') {
        shift = shift.checked_sub(8)?;
        let byte: u8 = part.parse().ok()?;
        address |= u32::from(byte).checked_shl(shift)?;
        mask |= 0xffu32.checked_shl(shift)?;
    }
    Some((address, mask))
}

fn v4_mask(text: &[u8]) -> Option<u32> {
    if let Some(bits) = number(text) {
        return (1..=32).contains(&bits).then(|| u32::MAX << (32 - bits));
    }
    let address: std::net::Ipv4Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(u32::from(address))
}

fn number(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Returns the client's address.
pub fn client_address(record: &Record) -> Option<IpAddr> {
    address_of(&record.connection.remote_addr)
}

/// Reads an address.
pub fn address_of(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Returns true if a host name is a domain or one below it.
pub fn in_domain(domain: &[u8], host: &[u8]) -> bool {
    let Some(start) = host.len().checked_sub(domain.len()) else { return false };
    let is_end = host.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(domain));
    let before = start.checked_sub(1).and_then(|at| host.get(at));
    is_end && (start == 0 || domain.first() == Some(&b'.') || before == Some(&b'.'))
}

/// Reads a decimal number as the `atoi` of glibc: of a larger number, the low 32 bits.
pub fn atoi(text: &[u8]) -> i64 {
    let text = skip_space(text);
    let (sign, digits) = match text.first() {
        Some(b'-') => (-1, text.get(1..).unwrap_or_default()),
        Some(b'+') => (1, text.get(1..).unwrap_or_default()),
        _ => (1, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits
        .fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    // As glibc: the low 32 bits.
    i64::from((sign * number) as i32)
}

/// Takes the text before a byte, and skips all of its repetitions, as Apache's `ap_getword`.
pub fn until<'a>(text: &mut &'a [u8], stop: u8) -> &'a [u8] {
    let whole: &'a [u8] = text;
    let end = whole.iter().position(|&byte| byte == stop).unwrap_or(whole.len());
    let (part, rest) = whole.split_at(end);
    let start = rest.iter().position(|&byte| byte != stop).unwrap_or(rest.len());
    *text = rest.get(start..).unwrap_or_default();
    part
}

/// Escapes text for HTML, as Apache's `ap_escape_html`: an apostrophe stays.
pub fn escape_html(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for &byte in text {
        match html::entity(char::from(byte)).filter(|_| byte != b'\'') {
            Some(entity) => escaped.extend_from_slice(entity.as_bytes()),
            None => escaped.push(byte),
        }
    }
    escaped
}

/// Escapes a path for a URL, as Apache's `ap_os_escape_path`; a colon before the first slash gets
/// `./`.
pub fn escape_path(path: &[u8], is_partial: bool) -> Vec<u8> {
    let is_special = |byte: &&u8| matches!(byte, b':' | b'/');
    let has_colon = !is_partial && path.iter().find(is_special) == Some(&b':');
    let start: &[u8] = if has_colon { b"./" } else { b"" };
    [start, &percent::encode_lower(path, is_of_path)].concat()
}

/// Escapes one segment of a path, as Apache's `ap_escape_path_segment`.
pub fn escape_segment(segment: &[u8]) -> Vec<u8> {
    percent::encode_lower(segment, |byte| is_of_path(byte) && !matches!(byte, b';' | b'/'))
}

/// Returns true for bytes that `ap_os_escape_path` leaves as they are.
fn is_of_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"$-_.+!*'(),:;@&=/~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_quotes_and_backslashes() {
        for (line, expected) in [
            ("a  b", vec!["a", "b"]),
            (" \"a b\" 'c \"d'", vec!["a b", "c \"d"]),
            (r#""a \"b\" \\ \n""#, vec![r#"a "b" \ \n"#]),
            (r"a\\b\n", vec![r"a\b\n"]),
            ("\"open", vec!["open"]),
            ("\"a\"b", vec!["a", "b"]),
            ("\"a\\", vec!["a\\"]),
            ("", vec![]),
        ] {
            let found: Vec<String> =
                words(line.as_bytes()).iter().map(|word| lossy(word)).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn networks_have_partial_addresses_and_masks() {
        let parse = |text: &str| Subnet::parse(text.as_bytes());
        for (network, address, expected) in [
            ("10", "10.9.8.7", true),
            ("10.1.", "10.1.8.7", true),
            ("10.1", "10.2.8.7", false),
            ("10.1.0.0/16", "10.1.8.7", true),
            ("10.1.0.0/255.255.0.0", "10.2.8.7", false),
            ("::1", "::1", true),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("2001:db8::/32", "2001:db8:1::5", true),
            ("2001:db8::/32", "127.0.0.1", false),
        ] {
            let network_of = parse(network).unwrap();
            assert_eq!(
                network_of.contains(address.parse().unwrap()),
                expected,
                "{network} {address}"
            );
        }
        assert_eq!(parse("example.com"), Err(SubnetError::NoAddress));
        assert_eq!(parse("10.1.2.300"), Err(SubnetError::BadAddress));
        assert_eq!(parse("10.1.2.3/33"), Err(SubnetError::BadMask));
        assert_eq!(parse("10.1/16"), Err(SubnetError::BadAddress));
    }

    #[test]
    fn domains_match_whole_labels() {
        for (domain, host, expected) in [
            ("good.com", "www.good.com", true),
            ("good.com", "nogood.com", false),
            (".good.com", "www.good.com", true),
            ("good.com", "GOOD.com", true),
            ("com", "good.com", true),
            ("a.good.com", "good.com", false),
        ] {
            assert_eq!(in_domain(domain.as_bytes(), host.as_bytes()), expected, "{domain} {host}");
        }
    }
}
