//! A health check over HTTP/2: a request as over HTTP/1, or the health service of gRPC.
//!
//! The check has a connection of its own, so that it also tells whether the server takes
//! connections.

use std::future::poll_fn;

use bytes::{Buf, Bytes};
use h2::RecvStream;
use howdah_config::Health;
use http::{HeaderMap, Method, Request, Uri};

use crate::connections::http2_pool::Http2Connection;
use crate::proxy::request;
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;

/// Path of the method of gRPC's health service.
const GRPC_CHECK: &str = "/grpc.health.v1.Health/Check";

/// `SERVING` in gRPC's `HealthCheckResponse.ServingStatus`.
const SERVING: u64 = 1;

/// Checks a server once; the caller limits the time. `max_body` is the number of bytes of a body
/// that are searched. Error: the problem.
pub async fn check(
    upstream: &Upstream,
    server: &Server,
    health: &Health,
    max_body: usize,
) -> Result<(), String> {
    let stream = upstream.connect(server, None).await.map_err(|failure| failure.to_string())?;
    let idle_timeout = health.timeout;
    let connection = Http2Connection::begin(stream, idle_timeout).await;
    let mut slot = connection.map_err(|failure| failure.to_string())?.slot();
    let failed = |error: h2::Error| format!("HTTP/2: {error}");
    poll_fn(|cx| slot.sender.poll_ready(cx)).await.map_err(failed)?;
    let head = head(upstream, server, health)?;
    let message = health.grpc.as_ref().map(|service| request_message(service));
    let (response, mut sending) =
        slot.sender.send_request(head, message.is_none()).map_err(failed)?;
    if let Some(message) = message {
        sending.send_data(message, true).map_err(failed)?;
    }
    let (head, mut body) = response.await.map_err(failed)?.into_parts();
    let (low, high) = health.status;
    if !(low..=high).contains(&head.status.as_u16()) {
        return Err(format!("the status is {}", head.status.as_u16()));
    }
    if health.grpc.is_some() {
        return check_grpc(&head.headers, &mut body, max_body).await;
    }
    let Some(wanted) = &health.body else { return Ok(()) };
    let read =
        read(&mut body, max_body, |read| memchr::memmem::find(read, wanted.as_bytes()).is_some());
    if read.await?.1 { Ok(()) } else { Err(format!("the body does not contain \"{wanted}\"")) }
}

fn head(upstream: &Upstream, server: &Server, health: &Health) -> Result<Request<()>, String> {
    let host = health.host.clone().unwrap_or_else(|| request::host(&server.origin));
    let is_grpc = health.grpc.is_some();
    let uri = Uri::builder()
        .scheme(if upstream.tls.is_some() { "https" } else { "http" })
        .authority(host)
        .path_and_query(if is_grpc { GRPC_CHECK } else { &health.uri })
        .build();
    let uri = uri.map_err(|error| format!("the request cannot be written in HTTP/2: {error}"))?;
    let request = Request::builder().uri(uri);
    let request = if is_grpc {
        request
            .method(Method::POST)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
    } else {
        request.method(Method::GET)
    };
    request.body(()).map_err(|error| error.to_string())
}

/// Reads a body until `is_enough`, its end or `max` bytes. Returns the bytes read, and whether they
/// are enough.
async fn read(
    body: &mut RecvStream,
    max: usize,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Result<(Vec<u8>, bool), String> {
    let mut read = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| format!("HTTP/2: {error}"))?;
        // The end of the connection says so, too.
        let _ = body.flow_control().release_capacity(data.len());
        read.extend_from_slice(&data);
        if is_enough(&read) {
            return Ok((read, true));
        }
        if read.len() >= max {
            break;
        }
    }
    Ok((read, false))
}

/// Checks the answer of gRPC's health service.
async fn check_grpc(head: &HeaderMap, body: &mut RecvStream, max: usize) -> Result<(), String> {
    let (message, _) = read(body, max, |_| false).await?;
    let trailers = if body.is_end_stream() {
        None
    } else {
        body.trailers().await.map_err(|error| format!("HTTP/2: {error}"))?
    };
    // A response without messages may have all in its head.
    let fields = trailers.as_ref().unwrap_or(head);
    let status = fields.get("grpc-status").and_then(|status| status.to_str().ok());
    match status {
        Some("0") => {}
        Some("12") => {
            return Err("it has no health service of gRPC (grpc-status 12)".to_owned());
        }
        Some("5") => return Err("its health service does not know the service".to_owned()),
        Some(other) => return Err(format!("the grpc-status is {}", other.escape_default())),
        None => return Err("the response has no grpc-status".to_owned()),
    }
    match serving_status(&message) {
        Some(SERVING) => Ok(()),
        Some(status) => Err(format!("the service is not serving (status {status})")),
        None => Err("the message of its health service is invalid".to_owned()),
    }
}

/// Encodes a `HealthCheckRequest`: field 1 has the name of the service.
fn request_message(service: &str) -> Bytes {
    let mut message = Vec::with_capacity(service.len() + 16);
    if !service.is_empty() {
        message.push(1 << 3 | 2);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7F) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], &message].concat().into()
}

/// Returns field 1 of the `HealthCheckResponse` in a body of one message; 0 if it is absent.
fn serving_status(body: &[u8]) -> Option<u64> {
    let (prefix, mut message) = body.split_at_checked(5)?;
    let [0, length @ ..] = prefix else { return None };
    let length = u32::from_be_bytes(length.try_into().ok()?);
    if message.len() != usize::try_from(length).ok()? {
        return None;
    }
    let mut status = 0;
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match (key >> 3, key & 7) {
            (1, 0) => status = varint(&mut message)?,
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => skip(&mut message, 8)?,
            (_, 2) => {
                let length = varint(&mut message)?;
                skip(&mut message, length)?;
            }
            (_, 5) => skip(&mut message, 4)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn skip(bytes: &mut &[u8], length: u64) -> Option<()> {
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len())?;
    bytes.advance(length);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_those_of_the_health_service() {
        assert_eq!(&request_message("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&request_message("a.B")[..], [0, 0, 0, 0, 5, 10, 3, b'a', b'.', b'B']);
        let long = request_message(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 47, 10, 0xAC, 2]);
        for (body, status) in [
            (&[0, 0, 0, 0, 2, 8, 1][..], Some(1)),
            (&[0, 0, 0, 0, 2, 8, 2], Some(2)),
            (&[0, 0, 0, 0, 0], Some(0)),
            (&[0, 0, 0, 0, 6, 18, 2, 1, 1, 8, 1], Some(1)),
            (&[1, 0, 0, 0, 2, 8, 1], None),
            (&[0, 0, 0, 0, 3, 8, 1], None),
            (&[0, 0, 0, 0, 1, 8], None),
            (&[0, 0, 0, 0, 2, 18, 9], None),
            (&[], None),
        ] {
            assert_eq!(serving_status(body), status, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn no_message_makes_the_parser_fail(body in prop::collection::vec(any::<u8>(), 0..40)) {
            serving_status(&body);
            let length = u8::try_from(body.len()).unwrap();
            serving_status(&[&[0, 0, 0, 0, length], &body[..]].concat());
        }
    }
}
