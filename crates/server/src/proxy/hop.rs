//! Fields that end at a connection (RFC 9110, 7.6.1).

/// Always of the connection, whether `Connection` names them or not.
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

/// Never of the connection, though a sender may claim so: whoever can write `Connection` must not
/// be able to take away who asks, from where, and for what.
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

/// The names in a message's `Connection` fields.
pub struct Nominated<'a>(Vec<&'a [u8]>);

impl<'a> Nominated<'a> {
    /// From the values of these fields.
    pub fn of(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let names = values.flat_map(|value| value.split(|byte| *byte == b','));
        Nominated(names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()).collect())
    }

    /// Whether an option is among them.
    pub fn has(&self, option: &[u8]) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(option))
    }

    /// Whether a field is not to be passed on.
    pub fn is_hop_by_hop(&self, name: &[u8]) -> bool {
        let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        if HOP_BY_HOP.iter().any(is) {
            return true;
        }
        let forwarded = b"x-forwarded-";
        let is_forwarded =
            name.get(..forwarded.len()).is_some_and(|start| start.eq_ignore_ascii_case(forwarded));
        self.0.iter().any(is) && !is_forwarded && !END_TO_END.iter().any(is)
    }
}
