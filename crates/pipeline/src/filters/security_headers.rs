//! `security_headers` of an action: fields that protect browsers.
//!
//! Only fields that cannot break a site are added, and fields of the response itself stay.

use howdah_http::message::{Request, Response};

/// The fields, in any case.
const ALWAYS: [(&str, &str); 3] = [
    // A picture is never run as a script, regardless of its content.
    ("X-Content-Type-Options", "nosniff"),
    // Other sites cannot show the page in a frame and mislead users into clicking it.
    ("X-Frame-Options", "SAMEORIGIN"),
    // Other sites do not learn which page a visitor comes from.
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
];

/// Uses only TLS for this host for a year. Valid only over TLS (RFC 6797, 7.2).
const OVER_TLS: (&str, &str) = ("Strict-Transport-Security", "max-age=31536000");

/// Adds the fields that the response does not have, if they are `wanted`.
pub fn apply(wanted: bool, request: &Request, response: &mut Response) {
    if wanted {
        add(response, request.connection.tls);
    }
}

fn add(response: &mut Response, tls: bool) {
    for (name, value) in ALWAYS.into_iter().chain(tls.then_some(OVER_TLS)) {
        if response.fields.get(name).is_none() {
            response.fields.push(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::body::Body;

    #[test]
    fn fields_are_added_where_the_response_has_none() {
        let mut response = Response::new(200, Body::Empty).with("x-frame-options", "DENY");
        add(&mut response, false);
        assert_eq!(response.fields.get("x-content-type-options"), Some(&b"nosniff"[..]));
        assert_eq!(response.fields.get("x-frame-options"), Some(&b"DENY"[..]));
        assert_eq!(response.fields.iter().count(), 3);
        add(&mut response, true);
        assert_eq!(response.fields.iter().count(), 4);
    }
}
