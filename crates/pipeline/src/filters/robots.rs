//! `robots` of an action: what search engines may do with responses.

use howdah_http::message::Response;

/// Adds the field with this value.
pub fn apply(robots: Option<&str>, response: &mut Response) {
    if let Some(value) = robots {
        response.fields.push("X-Robots-Tag", value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::body::Body;

    #[test]
    fn a_response_gets_the_text() {
        let mut response = Response::new(200, Body::Empty);
        apply(None, &mut response);
        assert_eq!(response.fields.get("x-robots-tag"), None);
        apply(Some("noindex"), &mut response);
        assert_eq!(response.fields.get("x-robots-tag"), Some(&b"noindex"[..]));
    }
}
