//! The request that the server itself makes of a client's: for a page, a part of a page, or a
//! check.

use bytes::Bytes;
use howdah_http::message::Request;

/// Returns the request as a GET (or HEAD) without body, conditions and ranges.
pub fn plain_request(request: &Request) -> Request {
    /// Fields about the body, conditions and ranges, which the request for a page does not have.
    const ELSEWHERE: [&[u8]; 11] = [
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"range",
        b"transfer-encoding",
    ];
    let mut asked = request.clone();
    asked.handling.set_part();
    if &*asked.method != b"HEAD" {
        asked.method = Bytes::from_static(b"GET");
    }
    asked.fields.retain(|name| !ELSEWHERE.iter().any(|other| name.eq_ignore_ascii_case(other)));
    asked
}
