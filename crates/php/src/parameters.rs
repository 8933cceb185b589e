//! A request in the form that C reads: parameters that point into the worker's copy of it.

use howdah_wire::bytes::Malformed;
use howdah_wire::request::decode_params;

use crate::ffi::Params;

/// Why a request is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// The encoding is broken, which is the router's fault.
    Malformed,
    /// A parameter contains a NUL, at which C would cut it.
    Nul,
}

impl From<Malformed> for Unusable {
    fn from(_: Malformed) -> Self {
        Unusable::Malformed
    }
}

/// Decodes `count` parameters from the front of `bytes`; returns them and what follows them.
pub fn decode(bytes: &[u8], count: u32) -> Result<(Params<'_>, &[u8]), Unusable> {
    let mut params = Params::default();
    let mut clean = true;
    // The NUL behind a string is not part of what `decode_params` passes on.
    let with_nul = |text: &[u8]| {
        let start = text.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
        bytes.get(start..start.checked_add(text.len() + 1)?)
    };
    let rest = decode_params(bytes, count, |name, value| {
        clean &= match (with_nul(name), with_nul(value)) {
            (Some(name), Some(value)) => params.push(name, value),
            _ => false,
        };
    })?;
    if clean { Ok((params, rest)) } else { Err(Unusable::Nul) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::request::Params as Encoded;

    #[test]
    fn a_nul_within_a_value_is_refused() {
        let mut encoded = Encoded::default();
        encoded.push(b"SCRIPT_FILENAME", b"/srv/a.jpg\0.php");
        assert_eq!(decode(encoded.as_bytes(), 1).unwrap_err(), Unusable::Nul);
    }

    #[test]
    fn fewer_parameters_than_announced_are_refused() {
        let mut encoded = Encoded::default();
        encoded.push(b"A", b"1");
        assert_eq!(decode(encoded.as_bytes(), 2).unwrap_err(), Unusable::Malformed);
        assert_eq!(decode(encoded.as_bytes(), u32::MAX).unwrap_err(), Unusable::Malformed);
    }

    #[test]
    fn what_follows_the_parameters_is_returned() {
        let mut encoded = Encoded::default();
        encoded.push(b"A", b"1");
        let mut bytes = encoded.as_bytes().to_vec();
        bytes.extend_from_slice(b"body");
        assert_eq!(decode(&bytes, 1).unwrap().1, b"body");
    }
}
