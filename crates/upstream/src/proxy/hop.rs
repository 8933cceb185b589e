//! Hop-by-hop fields, which apply to one connection only (RFC 9110, 7.6.1).

/// Fields that are hop-by-hop even if `Connection` does not name them.
const HOP_BY_HOP: [&[u8]; 8] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"http2-settings",
];

/// Fields that are never hop-by-hop, even if `Connection` names them: otherwise a client could
/// remove fields that the server's decisions depend on.
const END_TO_END: [&[u8]; 16] = [
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"forwarded",
    b"host",
    b"location",
    b"range",
    b"set-cookie",
    b"via",
    b"x-real-ip",
    b"x-request-id",
    b"www-authenticate",
];

/// Options in the `Connection` fields of a message: usually one, or none.
#[derive(Default)]
pub struct Nominated<'a> {
    first: Option<&'a [u8]>,
    others: Vec<&'a [u8]>,
}

impl<'a> Nominated<'a> {
    /// Parses the values of these fields.
    pub fn of(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let names = values.flat_map(|value| value.split(|byte| *byte == b','));
        let mut names = names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        Nominated { first: names.next(), others: names.collect() }
    }

    /// Returns true if the option is in the list.
    pub fn has(&self, option: &[u8]) -> bool {
        self.first.iter().chain(&self.others).any(|name| name.eq_ignore_ascii_case(option))
    }

    /// Returns true if a field is not passed on.
    pub fn is_hop_by_hop(&self, name: &[u8]) -> bool {
        let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        if HOP_BY_HOP.iter().any(is) {
            return true;
        }
        let forwarded = b"x-forwarded-";
        let is_forwarded =
            name.get(..forwarded.len()).is_some_and(|start| start.eq_ignore_ascii_case(forwarded));
        self.has(name) && !is_forwarded && !END_TO_END.iter().any(is)
    }
}

/// Fields that must be known before the body, or that identify the client: not allowed in a trailer
/// (RFC 9110, 6.5.1).
const NOT_IN_TRAILERS: [&[u8]; 12] = [
    b"accept-encoding",
    b"age",
    b"date",
    b"expect",
    b"expires",
    b"max-forwards",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"retry-after",
    b"server",
    b"vary",
];

/// Returns the lines of a trailer that are passed on, without fields that `leaves_out` returns true
/// for.
pub fn trailer(lines: &[u8], leaves_out: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let nothing = Nominated::default();
    let mut out = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let Some(name) = line.split(|byte| *byte == b':').next() else { continue };
        let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        let starts = |start: &[u8]| {
            name.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
        };
        let is_of_head = nothing.is_hop_by_hop(name)
            || END_TO_END.iter().any(is)
            || NOT_IN_TRAILERS.iter().any(is)
            || [&b"x-forwarded-"[..], b"x-accel-", b"if-"].iter().any(|start| starts(start));
        if !is_of_head && !leaves_out(name) {
            out.extend_from_slice(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_has_nothing_that_belongs_to_a_head() {
        let lines = b"X-Sum: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: a\r\n\
            x-forwarded-for: 6.6.6.6\r\nAuthorization: x\r\nSet-Cookie: a\r\nTrailer: b\r\n\
            X-Accel-Redirect: /a\r\nIf-Match: a\r\nX-Own: 2\r\nGrpc-Status: 0\r\n";
        let passed = trailer(lines, |name| name.eq_ignore_ascii_case(b"x-own"));
        assert_eq!(String::from_utf8_lossy(&passed), "X-Sum: 1\r\nGrpc-Status: 0\r\n");
        assert!(trailer(b"", |_| false).is_empty());
    }
}
