//! `location` of a `return`: text that becomes a URI reference.

/// Encodes a location as Unit does. One that is encoded already stays as it is. In any other,
/// every byte that no URI holds is escaped, the percent sign among them, and so is each `?` and
/// `#` that would not start the query or the fragment. No value can end the header field.
pub fn encode(location: &[u8]) -> Vec<u8> {
    if is_encoded(location) {
        return location.to_vec();
    }
    let mut out = Vec::with_capacity(location.len() + 16);
    let mut delimiters = Delimiters::default();
    for &byte in location {
        if is_legal(byte) || delimiters.take(byte) {
            out.push(byte);
        } else {
            escape(byte, &mut out);
        }
    }
    out
}

/// Adds a query, as it was sent, to an encoded location: before its fragment, and behind the query
/// that it has. What no URI holds is escaped.
pub fn with_query(location: &[u8], query: &[u8]) -> Vec<u8> {
    if query.is_empty() {
        return location.to_vec();
    }
    let hash = memchr::memchr(b'#', location).unwrap_or(location.len());
    let (target, fragment) = location.split_at(hash); // found in it, or its length
    let mut out = Vec::with_capacity(location.len() + query.len() + 1);
    out.extend_from_slice(target);
    out.push(if target.contains(&b'?') { b'&' } else { b'?' });
    for &byte in query {
        match is_legal(byte) || matches!(byte, b'%' | b'?') {
            true => out.push(byte),
            false => escape(byte, &mut out),
        }
    }
    out.extend_from_slice(fragment);
    out
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    // Four bits are always an index of the sixteen digits.
    let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
    out.extend_from_slice(&[b'%', high, low]);
}

fn is_encoded(location: &[u8]) -> bool {
    let mut delimiters = Delimiters::default();
    let mut rest = location;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [high, low, beyond @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                beyond
            }
            (&byte, after) if is_legal(byte) || delimiters.take(byte) => after,
            _ => return false,
        };
    }
    true
}

/// Unreserved and reserved characters (RFC 3986, 2.2 and 2.3) but for the delimiters.
fn is_legal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/[]@!$&'()*+,;=".contains(&byte)
}

/// Which of `?` and `#` may still come; the query does not start within the fragment.
#[derive(Debug, Default)]
struct Delimiters {
    query: bool,
    fragment: bool,
}

impl Delimiters {
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            b'?' if !self.fragment => !std::mem::replace(&mut self.query, true),
            b'#' => !std::mem::replace(&mut self.fragment, true),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(location: &str) -> String {
        String::from_utf8(encode(location.as_bytes())).unwrap()
    }

    #[test]
    fn a_query_is_added_where_it_belongs() {
        for (location, query, expected) in [
            ("/a", "", "/a"),
            ("/a", "b=%20c", "/a?b=%20c"),
            ("/a?x#f?", "b", "/a?x&b#f?"),
            ("#f", "b?c", "?b?c#f"),
            ("/a", "b#\r\n\"", "/a?b%23%0D%0A%22"),
        ] {
            let added = with_query(location.as_bytes(), query.as_bytes());
            assert_eq!(String::from_utf8(added).unwrap(), expected);
        }
    }

    #[test]
    fn a_location_becomes_a_uri() {
        for (location, expected) in [
            ("", ""),
            (":/?#[]@!&'()*+,;=", ":/?#[]@!&'()*+,;="),
            ("path$$", "path$$"),
            ("???", "?%3F%3F"),
            ("##?#?", "#%23%3F%23%3F"),
            ("??##", "?%3F#%23"),
            ("/?##?", "/?#%23%3F"),
            (" \"%<>\\^`{|}", "%20%22%25%3C%3E%5C%5E%60%7B%7C%7D"),
            ("\0\u{18}\u{1f} !", "%00%18%1F%20!"),
            ("\u{7f}н₽", "%7F%D0%BD%E2%82%BD"),
            ("a\r\nSet-Cookie: x", "a%0D%0ASet-Cookie:%20x"),
        ] {
            assert_eq!(encoded(location), expected, "{location:?}");
        }
    }

    #[test]
    fn what_is_encoded_stays_as_it_is() {
        for location in ["%20", "/%20?%20#%20", "https://example.org/a%2Fb?c=%E2%82%BD"] {
            assert_eq!(encoded(location), location);
        }
        assert_eq!(encoded(" %20"), "%20%2520");
        assert_eq!(encoded("%20%2"), "%2520%252");
    }

    proptest! {
        #[test]
        fn the_result_is_encoded_whatever_went_in(location: Vec<u8>) {
            let out = encode(&location);
            prop_assert!(is_encoded(&out));
            prop_assert!(out.is_ascii() && !out.iter().any(u8::is_ascii_control));
            prop_assert_eq!(encode(&out), out);
        }
    }
}
