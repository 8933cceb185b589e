//! Reading a complete head.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use howdah_template::Captures;

use super::fields::{KnownFields, KnownName, field};
use super::lines::{Lines, RequestLine};
use super::target::{RequestTarget, host_of};
use crate::authority;
use crate::body_length::BodyLength;
use crate::handling::Handling;
use crate::limits::Limits;
use crate::message::{ConnectionInfo, Fields, Request, Version};
use crate::refusal::Refusal;

/// A request head.
#[derive(Debug, Clone)]
pub struct Head {
    /// Method as sent.
    pub method: Bytes,
    /// Target in origin form, without fragment.
    pub target: Bytes,
    /// Fragment that was cut off the target, with its `#`.
    pub fragment: Bytes,
    /// Decoded and normalised path.
    pub path: Bytes,
    /// Query: the target after its first `?`.
    pub query: Bytes,
    /// Version of the message.
    pub version: Version,
    /// Host of the target if it has one, otherwise of `Host`; lower case.
    pub host: Bytes,
    /// Fields in the order sent. `Host` has the authority that `host` was read from, and comes
    /// first if it is not the field that was sent.
    pub fields: Fields,
    /// Framing of the body.
    pub body: BodyLength,
    /// The client wants to keep the connection.
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

impl Head {
    /// Parses a complete head, from the first byte of the request line to the empty line.
    pub fn parse(buffer: Bytes, limits: &Limits) -> Result<Head, Refusal> {
        let mut lines = Lines::new(&buffer);
        let line = lines.next()?.ok_or(Refusal::RequestLine)?;
        let line = buffer.get(line).ok_or(Refusal::RequestLine)?;
        let RequestLine { method, target, version } = RequestLine::parse(line, limits)?;
        let target = RequestTarget::parse(&buffer, method.clone(), target, limits)?;
        let (fields, known) = read_fields(&buffer, &mut lines, target.authority.as_ref(), limits)?;
        let body = known.body_length(version, limits)?;
        if lines.has_bare_lf && body == BodyLength::Chunked {
            return Err(Refusal::LineEnd);
        }
        // HTTP/1.0 has no expectations, so the field is ignored (RFC 9110, 10.1.1).
        if known.expects_other && version >= Version::Http11 {
            return Err(Refusal::Expectation);
        }
        let authority = match (known.host.clone(), target.authority.clone()) {
            (Some(host), _) => host,
            (None, _) if limits.strict && version >= Version::Http11 => return Err(Refusal::Host),
            (None, authority) => authority.unwrap_or(0..0),
        };
        let host = host_of(&buffer, authority.clone(), limits.strict)?;
        let authority = buffer.get(authority).unwrap_or_default();
        let fields = with_valid_host(fields, authority, known.host.is_some(), limits);
        Ok(Head {
            method: buffer.slice(method),
            host,
            target: target.target,
            fragment: target.fragment,
            path: target.path,
            query: target.query,
            version,
            fields,
            body,
            keep_alive: !known.close && (version != Version::Http10 || known.keep_alive),
            expects_continue: known.expects_continue && version == Version::Http11,
        })
    }

    /// Makes the request of this head.
    pub fn into_request(self, connection: Arc<ConnectionInfo>, id: u64) -> Request {
        let handling = Handling::new(connection.next_request());
        Request {
            method: self.method,
            target: self.target,
            fragment: self.fragment,
            path: self.path,
            query: self.query,
            version: self.version,
            host: self.host,
            fields: self.fields,
            connection,
            user: None,
            id,
            error: None,
            captures: Captures::default(),
            additions: None,
            handling,
        }
    }
}

/// Reads the field lines. `authority` is that of an absolute target.
fn read_fields(
    buffer: &Bytes,
    lines: &mut Lines<'_>,
    authority: Option<&Range<usize>>,
    limits: &Limits,
) -> Result<(Fields, KnownFields), Refusal> {
    let mut fields = Fields::new(buffer.clone(), 16);
    let mut known = KnownFields::default();
    let mut count = 0;
    while let Some(line) = lines.next()? {
        count += 1;
        if count > limits.max_fields {
            return Err(Refusal::TooManyFields);
        }
        let (name, mut value) = field(buffer, line, limits)?;
        let name_bytes = buffer.get(name.clone()).unwrap_or_default();
        if let Some(known_name) = KnownName::of(name_bytes) {
            let bytes = buffer.get(value.clone()).unwrap_or_default();
            if let (KnownName::Host, Some(authority)) = (known_name, authority) {
                // The authority of an absolute target replaces the field (RFC 9112, 3.2.2).
                authority::host(bytes, limits.strict).ok_or(Refusal::Host)?;
                value = authority.clone();
            }
            known.take(known_name, bytes, value.clone())?;
        } else if limits.discard_unsafe_fields
            && !name_bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        {
            continue;
        }
        fields.push(name, value);
    }
    Ok((fields, known))
}

/// Returns the fields with a valid `Host`: in place of one that only a lenient reading accepts, and
/// if the authority was not in `Host`.
fn with_valid_host(fields: Fields, authority: &[u8], has_host: bool, limits: &Limits) -> Fields {
    let valid = if limits.strict { None } else { authority::to_valid_authority(authority) };
    match valid {
        Some(valid) => with_host(&fields, &valid),
        None if !has_host && !authority.is_empty() => with_host(&fields, authority),
        None => fields,
    }
}

/// Returns the fields with this value of `Host`.
fn with_host(fields: &Fields, host: &[u8]) -> Fields {
    let others = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"host"));
    Fields::from_pairs([(&b"Host"[..], host)].into_iter().chain(others))
}
