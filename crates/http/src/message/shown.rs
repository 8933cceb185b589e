//! Requests in lines of the log.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use super::Request;
use crate::mask::{hidden, mask_query};

/// Maximum length of a request target in the log, in bytes. A client chooses it, and there may be
/// many lines.
const MAX_SHOWN_BYTES: usize = 1000;

/// Returns a request target for the log, in which the values of secret arguments are hidden.
pub fn shown_target(target: &[u8]) -> Cow<'_, str> {
    if !target.contains(&b'?') {
        return cut(target);
    }
    let mut masked = target.to_vec();
    mask_query(&mut masked, 0, &hidden());
    cut(&masked).into_owned().into()
}

fn cut(target: &[u8]) -> Cow<'_, str> {
    match target.get(..MAX_SHOWN_BYTES) {
        Some(start) if start.len() < target.len() => {
            format!("{}… ({} bytes)", String::from_utf8_lossy(start), target.len()).into()
        }
        _ => String::from_utf8_lossy(target),
    }
}

/// Names a request with its method and host, for lines that are written once for many requests.
#[derive(Debug, Clone, Copy)]
pub struct ShownRequest<'a>(pub &'a Request);

impl fmt::Display for ShownRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { id, method, target, host, .. } = self.0;
        let (id, method) = (ShownRequestId(*id), shown_target(method));
        write!(f, "request {id}: {method} {}", shown_target(target))?;
        if host.is_empty() { Ok(()) } else { write!(f, " of {}", shown_target(host)) }
    }
}

/// Formats the public id of a request, as in the log, in applications and in `$request_id`: 32
/// hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub struct ShownRequestId(pub u64);

impl fmt::Display for ShownRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low] = [0, 1].map(|half| keyed_hash(self.0, half));
        write!(f, "{high:016x}{low:016x}")
    }
}

/// Returns a keyed hash (SipHash) of the number of a request, which reveals neither the number nor
/// the next one. Each `part` has another; 0 and 1 are the halves of [`ShownRequestId`]. The key is
/// random, made once per process, so that a request costs no system call.
pub fn keyed_hash(id: u64, part: u8) -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.hash_one((id, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_targets_are_hidden_and_long_targets_are_cut() {
        for (target, shown) in [
            ("/a?b=c&token=s3cret&d=e", "/a?b=c&token=***&d=e"),
            ("/reset?Key=s3cret", "/reset?Key=***"),
            ("/?to=%2Fb%3Fpassword%3Ds3cret", "/?to=***"),
            ("/a?name=value", "/a?name=value"),
            ("/token=1", "/token=1"),
        ] {
            assert_eq!(shown_target(target.as_bytes()), shown);
        }
        let long = format!("/?{}&token=s3cret", "x".repeat(MAX_SHOWN_BYTES));
        let shown = shown_target(long.as_bytes());
        assert!(shown.ends_with("bytes)") && shown.len() < MAX_SHOWN_BYTES + 30, "{shown}");
    }
}
