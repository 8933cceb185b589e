//! Error pages.

use bytes::Bytes;

use crate::body::Body;
use crate::error_status::RequestError;
use crate::message::Response;
use crate::reason;

/// Returns the response to a request that ends with an error: a short page with the status and no
/// internal facts. The response for 503 has `Retry-After`.
pub fn refuse(error: impl Into<RequestError>) -> Response {
    let error = error.into();
    let mut response = page(error.status(), "");
    response.close = error.closes();
    if error == RequestError::MethodNotAllowed {
        response.fields.push("Allow", "GET, HEAD");
    }
    response
}

/// Like [`refuse`]; the page also has the sentence `advice`, in HTML.
pub fn refuse_with_advice(error: impl Into<RequestError>, advice: &str) -> Response {
    page(error.into().status(), &format!("<p>{advice}</p>"))
}

fn page(status: u16, advice: &str) -> Response {
    let reason = reason::phrase(status);
    let page = format!("<!doctype html><title>{status}</title><p>{status} {reason}</p>{advice}\n");
    let body = Body::Bytes(Bytes::from(page));
    let mut response = Response::new(status, body).with("Content-Type", "text/html");
    response.is_default_error_page = true;
    if status == 503 {
        response.fields.push("Retry-After", "5");
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_its_status_and_when_to_come_again() {
        let response = refuse(RequestError::Overloaded);
        assert_eq!(response.fields.get("retry-after"), Some(&b"5"[..]));
        let Body::Bytes(page) = &response.body else { panic!("{:?}", response.body) };
        assert!(page.starts_with(b"<!doctype html>") && page.ends_with(b"\n"));
    }

    #[test]
    fn an_unread_body_ends_the_connection_and_a_wrong_method_is_told_the_others() {
        assert!(refuse(crate::body::BodyError::TooLarge).close);
        let response = refuse(RequestError::MethodNotAllowed);
        assert_eq!(response.fields.get("allow"), Some(&b"GET, HEAD"[..]));
        assert!(!response.close);
    }
}
