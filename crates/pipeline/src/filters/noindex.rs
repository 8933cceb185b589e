//! `noindex` of an action: responses that search engines do not list.

use howdah_http::message::Response;

/// Adds the field that asks for it, if it is `wanted`.
pub fn apply(wanted: bool, response: &mut Response) {
    if wanted {
        response.fields.push("X-Robots-Tag", "noindex");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::body::Body;

    #[test]
    fn a_wanted_field_is_added() {
        let mut response = Response::new(200, Body::Empty);
        apply(false, &mut response);
        assert_eq!(response.fields.get("x-robots-tag"), None);
        apply(true, &mut response);
        assert_eq!(response.fields.get("x-robots-tag"), Some(&b"noindex"[..]));
    }
}
