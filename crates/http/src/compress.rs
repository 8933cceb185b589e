//! `compression`: responses that are compressed while they are sent.
//!
//! 1. A response is a candidate if its content has a media type to be compressed, and neither the
//!    response nor the settings forbid it ([`Scope`]).
//! 2. All candidates get `Vary: Accept-Encoding`, compressed or not.
//! 3. The encoding with the highest weight is used; among equals the first one of the document.
//!    Short content that would not become shorter is not compressed.
//! 4. Facts that no longer hold are removed: the length, `Accept-Ranges`, and the strength of the
//!    entity tag (RFC 9110, 8.8.1).
//!
//! 5. A response keeps its encoder until it has been sent; the memory of encoders has limits
//!    (`memory`), beyond which responses are not compressed.
//!
//! A script excludes a response by `Content-Encoding` (also `identity`) or `no-transform` in
//! `Cache-Control`: the length of compressed secrets beside text chosen by an attacker can be
//! measured (BREACH).

mod encoder;
mod kept;
mod memory;
mod stream;

use std::net::IpAddr;

use bytes::Bytes;
use howdah_template::Patterns;

use self::encoder::Encoder;
use self::kept::Kept;
use self::memory::permit;
use self::stream::Compressed;
use crate::body::Body;
use crate::encoding::AcceptEncoding;
use crate::message::{Encoding, FieldBlock, Request, Response};

/// Maximum length in bytes of content that is compressed before it is sent, so that its length is
/// known.
const MAX_WHOLE: usize = 64 << 10;

/// Settings of compression.
#[derive(Debug, Clone)]
pub struct Compression {
    /// Media types that are compressed; if `None`, all but those of compressed formats.
    pub types: Option<Patterns>,
    /// The encodings offered, the preferred first; there is one at least.
    pub compressors: Vec<Compressor>,
}

/// An encoding that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressor {
    /// The encoding.
    pub encoding: Encoding,
    /// The compression level; the encoding's default if `None`.
    pub level: Option<i32>,
    /// Minimum length in bytes. Responses that are known to be shorter are not compressed.
    pub min_length: u64,
}

/// The part of a response that compression may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Nothing,
    /// The entity tag of a 304, for a client that has a compressed copy.
    Validators,
    Content,
}

/// Compresses a response, if the settings, the request and the response allow it.
pub fn apply(compression: &Compression, request: &Request, response: &mut Response) {
    match scope(compression, response) {
        Scope::Nothing => return,
        Scope::Validators => return revalidated(request, response),
        Scope::Content => vary(&mut response.fields),
    }
    let accept = AcceptEncoding::of(&request.fields);
    let length = response.body.len();
    let fits = |compressor: &&Compressor| length.is_none_or(|len| len >= compressor.min_length);
    let offered = compression.compressors.iter().filter(fits);
    let Some(compressor) = choose(&accept, offered) else { return };
    let copies = response.extras.as_mut().and_then(|extras| extras.copies.take());
    let copies = copies.filter(|copies| match &response.body {
        Body::Bytes(bytes) => copies.is_of(bytes),
        _ => false,
    });
    let known = copies.as_ref().and_then(|copies| copies.get(compressor.encoding));
    if let Some(known) = known {
        if !known.is_empty() {
            response.body = Body::Bytes(known);
            response.drop_trailer();
            describe(response, compressor.encoding);
        }
        return;
    }
    let client = request.connection.peer.map(|peer| peer.ip());
    let permit = if is_whole(&response.body) {
        None
    } else {
        match permit(compressor, &response.body, client) {
            Some(permit) => Some(permit),
            None => return,
        }
    };
    let keep = |content: &Bytes| {
        if let Some(copies) = &copies {
            copies.keep(compressor.encoding, content.clone());
        }
    };
    let Ok(mut encoder) = Encoder::new(compressor) else { return };
    let body = match std::mem::take(&mut response.body) {
        Body::Bytes(bytes) if bytes.len() <= MAX_WHOLE => {
            let compressed = encoder.write(&bytes).and_then(|mut start| {
                start.append(&mut encoder.finish()?);
                Ok(start)
            });
            match compressed {
                Ok(compressed) if compressed.len() < bytes.len() => {
                    // Its buffer may be much larger.
                    let compressed = Bytes::from(compressed.into_boxed_slice());
                    keep(&compressed);
                    Body::from(compressed)
                }
                _ => {
                    keep(&Bytes::new());
                    response.body = Body::Bytes(bytes);
                    return;
                }
            }
        }
        body => {
            let length = body.len();
            let stream = Box::new(Compressed::new(body, encoder, permit));
            match (copies, length) {
                (Some(copies), Some(length)) if copies.claim(compressor.encoding) => {
                    Body::Stream(Box::new(Kept::new(stream, copies, compressor.encoding, length)))
                }
                _ => Body::Stream(stream),
            }
        }
    };
    response.body = body;
    response.drop_trailer(); // it may describe the uncompressed body
    describe(response, compressor.encoding);
}

/// Compresses a response with gzip as Apache's mod_deflate does, which has decided to: its entity
/// tag stays strong and says so. A response without content keeps the tag of the compressed
/// content. `client` is the address of the client, `None` on a unix socket.
pub fn gzip_as_apache(client: Option<IpAddr>, response: &mut Response) {
    let compressor = Compressor { encoding: Encoding::Gzip, level: None, min_length: 0 };
    let permit = if response.status == 304 || is_whole(&response.body) {
        None
    } else {
        match permit(&compressor, &response.body, client) {
            Some(permit) => Some(permit),
            None => return,
        }
    };
    response.fields = changed(&response.fields, |name, value| {
        let is_tag = name.eq_ignore_ascii_case(b"etag") && value.ends_with(b"\"");
        if is_tag { Change::TagSuffix(b"-gzip\"") } else { Change::Keep }
    });
    if response.status == 304 {
        return;
    }
    let Ok(mut encoder) = Encoder::new(&compressor) else { return };
    response.body = match std::mem::take(&mut response.body) {
        Body::Bytes(bytes) if bytes.len() <= MAX_WHOLE => {
            let compressed = encoder.write(&bytes).and_then(|mut start| {
                start.append(&mut encoder.finish()?);
                Ok(start)
            });
            match compressed {
                Ok(compressed) => Body::from(Bytes::from(compressed)),
                Err(_) => {
                    response.body = Body::Bytes(bytes);
                    return;
                }
            }
        }
        body => Body::Stream(Box::new(Compressed::new(body, encoder, permit))),
    };
    response.drop_trailer();
    response.fields.push("Content-Encoding", "gzip");
}

/// Returns true for content that is compressed before it is sent.
fn is_whole(body: &Body) -> bool {
    matches!(body, Body::Bytes(bytes) if bytes.len() <= MAX_WHOLE)
}

fn scope(compression: &Compression, response: &mut Response) -> Scope {
    if response.status == 304 {
        return Scope::Validators;
    }
    // `is_marked` first: it removes the mark from responses to HEAD too.
    if is_marked(&mut response.fields)
        || matches!(response.status, ..200 | 204..=206)
        || response.body.is_empty()
    {
        return Scope::Nothing;
    }
    match response.fields.get("content-type") {
        Some(value) if is_compressed_type(compression, value) => Scope::Content,
        _ => Scope::Nothing,
    }
}

/// Returns true if the response forbids compression. Removes `Content-Encoding: identity`.
fn is_marked(fields: &mut FieldBlock) -> bool {
    /// Fields with a digest of the content.
    const DIGESTS: [&str; 4] = ["content-md5", "digest", "content-digest", "repr-digest"];
    if let Some(encoding) = fields.get("content-encoding") {
        if encoding.eq_ignore_ascii_case(b"identity") {
            // A mark for this module; clients must not get it (RFC 9110, 8.4.1).
            *fields = changed(fields, |name, _| {
                if name.eq_ignore_ascii_case(b"content-encoding") {
                    Change::Drop
                } else {
                    Change::Keep
                }
            });
        }
        return true;
    }
    let is_one_of = |name: &[u8], names: &[&str]| {
        names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
    };
    fields.iter().any(|(name, value)| {
        is_one_of(name, &DIGESTS)
            || name.eq_ignore_ascii_case(b"content-range")
            || (name.eq_ignore_ascii_case(b"cache-control") && has_element(value, b"no-transform"))
    })
}

/// Returns true if content of this media type is to be compressed. By default, types that are
/// compressed already are not.
fn is_compressed_type(compression: &Compression, value: &[u8]) -> bool {
    const DENSE: [&[u8]; 12] = [
        b"application/gzip",
        b"application/x-7z-compressed",
        b"application/x-bzip2",
        b"application/x-xz",
        b"application/zip",
        b"application/zstd",
        b"font/woff",
        b"font/woff2",
        b"image/avif",
        b"image/gif",
        b"image/jpeg",
        b"image/webp",
    ];
    let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let media_type = media_type.to_ascii_lowercase();
    if let Some(types) = &compression.types {
        return types.matches(&media_type);
    }
    !media_type.is_empty()
        && !DENSE.contains(&&*media_type)
        && media_type != b"image/png"
        && !media_type.starts_with(b"video/")
        && !media_type.starts_with(b"audio/")
}

/// Returns the encoding with the highest weight; `None` for no encoding.
fn choose<'c>(
    accept: &AcceptEncoding,
    offered: impl Iterator<Item = &'c Compressor>,
) -> Option<&'c Compressor> {
    let mut best = (accept.identity_weight(), None);
    for compressor in offered {
        let weight = accept.weight(compressor.encoding);
        // An encoding wins over the unencoded content at the same weight.
        if weight > 0 && (weight > best.0 || (best.1.is_none() && weight == best.0)) {
            best = (weight, Some(compressor));
        }
    }
    best.1
}

/// Weakens the entity tag of a 304 if the request has it in the weak form of a compressed copy.
fn revalidated(request: &Request, response: &mut Response) {
    vary(&mut response.fields);
    let Some(tag) = response.fields.get("etag").filter(|tag| tag.starts_with(b"\"")) else {
        return;
    };
    let weak = [b"W/", tag].concat();
    let asked = |value: &[u8]| memchr::memmem::find(value, &weak).is_some();
    if request.fields.get_all("if-none-match").any(asked) {
        response.fields = changed(&response.fields, weaken);
    }
}

/// Adapts the fields to the compressed content.
fn describe(response: &mut Response, encoding: Encoding) {
    response.fields = changed(&response.fields, |name, value| {
        if name.eq_ignore_ascii_case(b"accept-ranges") { Change::Drop } else { weaken(name, value) }
    });
    response.fields.push("Content-Encoding", encoding.name());
}

enum Change {
    Drop,
    Keep,
    /// Adds a prefix to the value.
    Prefix(&'static [u8]),
    /// Replaces the quote at the end of the value.
    TagSuffix(&'static [u8]),
}

/// Makes an entity tag weak, since bodies with the same strong tag must have the same bytes.
fn weaken(name: &[u8], value: &[u8]) -> Change {
    if name.eq_ignore_ascii_case(b"etag") && value.starts_with(b"\"") {
        Change::Prefix(b"W/")
    } else {
        Change::Keep
    }
}

/// Returns the fields after a change of each.
fn changed(fields: &FieldBlock, change: impl Fn(&[u8], &[u8]) -> Change) -> FieldBlock {
    let mut lines = Vec::with_capacity(fields.as_bytes().len() + 32);
    for (name, value) in fields.iter() {
        let (prefix, value, suffix): (&[u8], _, &[u8]) = match change(name, value) {
            Change::Drop => continue,
            Change::Keep => (b"", value, b""),
            Change::Prefix(prefix) => (prefix, value, b""),
            Change::TagSuffix(suffix) => (b"", value.strip_suffix(b"\"").unwrap_or(value), suffix),
        };
        for part in [name, b": ", prefix, value, suffix, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    FieldBlock::from_lines(lines.into())
}

/// Adds `Vary: Accept-Encoding`, unless the response has it.
fn vary(fields: &mut FieldBlock) {
    let has_vary = fields.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case(b"vary")
            && (has_element(value, b"accept-encoding") || has_element(value, b"*"))
    });
    if !has_vary {
        fields.push("Vary", "Accept-Encoding");
    }
}

/// Returns true if a list has an element, compared without regard to ASCII case.
fn has_element(list: &[u8], element: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(element))
}

#[cfg(test)]
mod tests;
