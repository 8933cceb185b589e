//! Error pages.

use bytes::Bytes;

use crate::body::Body;
use crate::message::Response;
use crate::reason;

/// Returns the response for an error: a short page with the status and no internal facts. The
/// response for 503 has `Retry-After`.
pub fn error(status: u16) -> Response {
    let reason = reason::phrase(status);
    let page = format!("<!doctype html><title>{status}</title><p>{status} {reason}</p>\n");
    let body = Body::Bytes(Bytes::from(page));
    let mut response = Response::new(status, body).with("Content-Type", "text/html");
    response.is_default_error_page = true;
    if status == 503 {
        response.fields.push("Retry-After", "5");
    }
    response
}

/// Status of a request whose client has left before the response: nginx's, for the log only.
pub const CLIENT_GONE: u16 = 499;

/// Returns an [`error`] for a request whose body may not have been read to its end.
pub fn refuse(status: u16) -> Response {
    let mut response = error(status);
    // An unread rest of the body cannot be told from the next request.
    response.close = matches!(status, 400 | 408 | 413 | CLIENT_GONE);
    response
}

/// Returns an [`error`] whose page has the sentence `advice`, in HTML.
pub fn error_with_advice(status: u16, advice: &str) -> Response {
    let reason = reason::phrase(status);
    let page =
        format!("<!doctype html><title>{status}</title><p>{status} {reason}</p><p>{advice}</p>\n");
    Response { body: Body::Bytes(Bytes::from(page)), ..error(status) }
}

/// Returns an [`error`] with `Allow`, if there is a value for it.
pub fn error_allowing(status: u16, allow: Option<&str>) -> Response {
    match allow {
        Some(allow) => error(status).with("Allow", allow),
        None => error(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_its_status_and_when_to_come_again() {
        let response = error(503);
        assert_eq!(response.fields.get("retry-after"), Some(&b"5"[..]));
        let Body::Bytes(page) = &response.body else { panic!("{:?}", response.body) };
        assert!(page.starts_with(b"<!doctype html>") && page.ends_with(b"\n"));
    }
}
