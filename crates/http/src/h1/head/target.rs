//! The target and the host of a request.

use std::ops::Range;

use bytes::Bytes;
use memchr::memchr;

use crate::authority;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::target::{Path, Target, TargetError};

/// A target of any form (RFC 9112, 3.2), converted to origin form and split.
pub struct RequestTarget {
    pub target: Bytes,
    pub fragment: Bytes,
    pub path: Bytes,
    pub query: Bytes,
    /// Authority of an absolute target, which replaces `Host`.
    pub authority: Option<Range<usize>>,
}

impl RequestTarget {
    /// Parses the target at a range of the head.
    pub fn parse(
        buffer: &Bytes,
        method: Range<usize>,
        target: Range<usize>,
        limits: &Limits,
    ) -> Result<RequestTarget, Refusal> {
        let bytes = buffer.get(target.clone()).unwrap_or_default();
        let method = buffer.get(method).unwrap_or_default();
        if method == b"CONNECT" {
            return Err(Refusal::Connect);
        }
        if bytes.first() == Some(&b'/') {
            return RequestTarget::origin(buffer.slice(target), None, limits);
        }
        if bytes == b"*" && method == b"OPTIONS" {
            let path = Bytes::from_static(b"/");
            let target = buffer.slice(target);
            let (query, fragment) = (Bytes::new(), Bytes::new());
            return Ok(RequestTarget { target, fragment, path, query, authority: None });
        }
        let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
            bytes.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let scheme = scheme.ok_or(Refusal::Target(TargetError::Form))?.len();
        let rest = bytes.get(scheme..).unwrap_or_default();
        let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let authority = target.start + scheme..target.start + scheme + len;
        // Unit refuses absolute targets, so they are always read strictly.
        if len == 0 || host_of(buffer, authority.clone(), true).is_err() {
            return Err(Refusal::Host);
        }
        let path = authority.end..target.end;
        let origin = if buffer.get(path.start) == Some(&b'/') {
            buffer.slice(path)
        } else {
            [b"/", buffer.get(path).unwrap_or_default()].concat().into()
        };
        RequestTarget::origin(origin, Some(authority), limits)
    }

    /// Splits a target in origin form.
    fn origin(
        mut target: Bytes,
        authority: Option<Range<usize>>,
        limits: &Limits,
    ) -> Result<RequestTarget, Refusal> {
        if memchr(b' ', &target).is_some() {
            let parts: Vec<_> = target.split(|byte| *byte == b' ').collect();
            target = parts.join(b"%20".as_slice()).into();
        }
        let Target { path, query } = Target::parse(&target).map_err(Refusal::Target)?;
        let path = match path {
            Path::AsSent(end) => target.slice(..end),
            Path::Decoded(path) => path.into(),
        };
        let query = target.slice(query);
        let fragment = memchr(b'#', &target).map(|at| target.split_off(at)).unwrap_or_default();
        if limits.strict && !fragment.is_empty() {
            return Err(Refusal::Fragment);
        }
        Ok(RequestTarget { path, query, target, fragment, authority })
    }
}

/// Returns the host in an authority, in lower case.
pub fn host_of(buffer: &Bytes, authority: Range<usize>, strict: bool) -> Result<Bytes, Refusal> {
    let text = buffer.get(authority).unwrap_or_default();
    let host = authority::host(text, strict).ok_or(Refusal::Host)?;
    let host = text.get(host).unwrap_or_default();
    Ok(if host.iter().any(u8::is_ascii_uppercase) {
        host.to_ascii_lowercase().into()
    } else {
        buffer.slice_ref(host)
    })
}
