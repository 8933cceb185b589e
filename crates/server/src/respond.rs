//! The one place where an error becomes a response.

use bytes::Bytes;

use crate::body::Body;
use crate::message::Response;

/// The registered reason phrase (RFC 9110, 15, and the registry beyond it).
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "Unknown",
    }
}

/// A response for an error: a small page that says the status and nothing about the inside.
pub fn error(status: u16) -> Response {
    let reason = reason(status);
    let page = format!("<!doctype html><title>{status}</title><p>{status} {reason}</p>\n");
    let body = Body::Bytes(Bytes::from(page));
    let mut response = Response::new(status, body).with("Content-Type", "text/html");
    response.own_page = true;
    if status == 503 {
        response.fields.push("Retry-After", "5");
    }
    response
}

/// As [`error`], with the methods that would be allowed.
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
