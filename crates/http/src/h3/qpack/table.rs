//! The static table (RFC 9204, Appendix A).

/// Names and values.
pub const STATIC: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Length of the longest name in bytes.
const MAX_NAME: usize = 32;

/// Indexes of the entries in the order of the lengths of their names, and for each length the number
/// of entries with shorter names.
const BY_LENGTH: ([u8; STATIC.len()], [u8; MAX_NAME + 2]) = {
    let (mut order, mut starts) = ([0; STATIC.len()], [0; MAX_NAME + 2]);
    let (mut length, mut placed) = (0, 0);
    while length <= MAX_NAME {
        starts[length] = placed as u8;
        let mut index = 0;
        while index < STATIC.len() {
            if STATIC[index].0.len() == length {
                order[placed] = index as u8;
                placed += 1;
            }
            index += 1;
        }
        length += 1;
    }
    starts[MAX_NAME + 1] = placed as u8;
    assert!(placed == STATIC.len());
    (order, starts)
};

/// Index of a field in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The entry has the name and the value.
    Field(usize),
    /// The entry has the name.
    Name(usize),
    /// No entry has the name.
    Nothing,
}

/// Finds a field. Names are compared without regard to case.
pub fn find(name: &[u8], value: &[u8]) -> Found {
    let (order, starts) = &BY_LENGTH;
    let range = match (starts.get(name.len()), starts.get(name.len() + 1)) {
        (Some(start), Some(end)) => usize::from(*start)..usize::from(*end),
        _ => return Found::Nothing,
    };
    let mut found = Found::Nothing;
    for index in order[range].iter().map(|index| usize::from(*index)) {
        let (other, of_entry) = STATIC[index];
        if other.as_bytes().eq_ignore_ascii_case(name) {
            if of_entry.as_bytes() == value {
                return Found::Field(index);
            }
            if found == Found::Nothing {
                found = Found::Name(index);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (index, (name, value)) in STATIC.iter().enumerate() {
            assert_eq!(find(name.as_bytes(), value.as_bytes()), Found::Field(index));
            let first = STATIC.iter().position(|(other, _)| other == name).unwrap();
            assert_eq!(find(name.to_uppercase().as_bytes(), b"other"), Found::Name(first));
        }
        for name in ["", "x", "x-frame-option", &"x".repeat(33), &"x".repeat(1000)] {
            assert_eq!(find(name.as_bytes(), b""), Found::Nothing, "{name}");
        }
    }
}
