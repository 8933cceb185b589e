//! `compression`: responses that are compressed while they are sent.
//!
//! 1. A response is a candidate if it has content of a media type that is compressed, and neither
//!    it nor an action of its request says that it must stay as it is ([`Reach`]).
//! 2. All candidates say that they depend on `Accept-Encoding`, whatever becomes of them.
//! 3. The client's favourite encoding is used; among equals the one that comes first in the
//!    document. Short content that does not become shorter is sent as it is.
//! 4. What no longer describes the content is taken out: its length, the offer of ranges, and the
//!    strength of its entity tag (RFC 9110, 8.8.1).
//!
//! A response is left alone if the script marked it, by `Content-Encoding` (also `identity`) or
//! by `no-transform` in `Cache-Control`: the length of compressed secrets beside text that a
//! stranger chose can be measured (BREACH).

mod encoder;
mod stream;

use bytes::Bytes;
use howdah_config::{Compression, Compressor, Encoding};

use self::encoder::Encoder;
use self::stream::Compressed;
use crate::body::Body;
use crate::encoding::AcceptEncoding;
use crate::message::{FieldBlock, Request, Response};

/// Content up to this size is compressed at once, so that its length can be told.
const WHOLE: usize = 64 << 10;

/// What the configuration and the response say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing is to be changed.
    Never,
    /// Only the fields of a 304, for a client that has a compressed copy.
    Validators,
    /// The content may be compressed.
    Content,
}

/// Compresses a response, if the request accepts that and nothing speaks against it.
pub fn apply(compression: &Compression, request: &Request, response: &mut Response) {
    match reach(compression, response) {
        Reach::Never => return,
        Reach::Validators => return revalidated(request, response),
        Reach::Content => vary(&mut response.fields),
    }
    let accept = AcceptEncoding::of(&request.fields);
    let length = response.body.len();
    let fits = |compressor: &&Compressor| length.is_none_or(|len| len >= compressor.min_length);
    let offered = compression.compressors.iter().filter(fits);
    let Some(compressor) = choose(&accept, offered) else { return };
    let Ok(mut encoder) = Encoder::new(compressor) else { return };
    let body = match std::mem::take(&mut response.body) {
        Body::Bytes(bytes) if bytes.len() <= WHOLE => {
            let compressed = encoder.write(&bytes).and_then(|mut start| {
                start.append(&mut encoder.finish()?);
                Ok(start)
            });
            match compressed {
                Ok(compressed) if compressed.len() < bytes.len() => {
                    Body::from(Bytes::from(compressed))
                }
                _ => {
                    response.body = Body::Bytes(bytes);
                    return;
                }
            }
        }
        body => Body::Stream(Box::new(Compressed::new(body, encoder))),
    };
    response.body = body;
    response.drop_trailer(); // it may describe what the body was
    describe(response, compressor.encoding);
}

fn reach(compression: &Compression, response: &mut Response) -> Reach {
    if !compression.enabled || compression.compressors.is_empty() {
        return Reach::Never;
    }
    if response.status == 304 {
        return Reach::Validators;
    }
    // In this order: an answer to HEAD loses the mark too.
    if is_marked(&mut response.fields)
        || matches!(response.status, ..200 | 204..=206)
        || response.body.is_empty()
    {
        return Reach::Never;
    }
    match response.fields.get("content-type") {
        Some(value) if is_compressed_type(compression, value) => Reach::Content,
        _ => Reach::Never,
    }
}

/// Whether the response says that it must stay as it is.
fn is_marked(fields: &mut FieldBlock) -> bool {
    /// They describe the content byte for byte, so it must not change.
    const DIGESTS: [&str; 4] = ["content-md5", "digest", "content-digest", "repr-digest"];
    if let Some(encoding) = fields.get("content-encoding") {
        if encoding.eq_ignore_ascii_case(b"identity") {
            // Our mark, and no encoding that a client should be told of (RFC 9110, 8.4.1).
            *fields =
                changed(fields, |name, _| match name.eq_ignore_ascii_case(b"content-encoding") {
                    true => Change::Drop,
                    false => Change::Keep,
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

/// Whether content of this type is to be compressed. What is compressed by its nature never is.
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

/// The encoding that the request likes best.
fn choose<'c>(
    accept: &AcceptEncoding,
    offered: impl Iterator<Item = &'c Compressor>,
) -> Option<&'c Compressor> {
    let mut best = (accept.identity_weight(), None);
    for compressor in offered {
        let weight = accept.weight(compressor.encoding);
        // The content itself gives way to an encoding of the same weight.
        if weight > 0 && (weight > best.0 || (best.1.is_none() && weight == best.0)) {
            best = (weight, Some(compressor));
        }
    }
    best.1
}

/// A client that has a compressed copy asks with its weak tag, and is answered with it.
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

/// Makes the fields those of the compressed content.
fn describe(response: &mut Response, encoding: Encoding) {
    response.fields = changed(&response.fields, |name, value| {
        match name.eq_ignore_ascii_case(b"accept-ranges") {
            true => Change::Drop,
            false => weaken(name, value),
        }
    });
    response.fields.push("Content-Encoding", encoding.name());
}

enum Change {
    Drop,
    Keep,
    /// Put this in front of the value.
    Prefix(&'static [u8]),
}

/// Two bodies with the same strong tag would have to be the same byte for byte.
fn weaken(name: &[u8], value: &[u8]) -> Change {
    match name.eq_ignore_ascii_case(b"etag") && value.starts_with(b"\"") {
        true => Change::Prefix(b"W/"),
        false => Change::Keep,
    }
}

fn changed(fields: &FieldBlock, change: impl Fn(&[u8], &[u8]) -> Change) -> FieldBlock {
    let mut lines = Vec::with_capacity(fields.as_bytes().len() + 32);
    for (name, value) in fields.iter() {
        let prefix: &[u8] = match change(name, value) {
            Change::Drop => continue,
            Change::Keep => b"",
            Change::Prefix(prefix) => prefix,
        };
        for part in [name, b": ", prefix, value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    FieldBlock::from_lines(lines.into())
}

/// Tells caches that the response depends on what the request accepts.
fn vary(fields: &mut FieldBlock) {
    let told = fields.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case(b"vary")
            && (has_element(value, b"accept-encoding") || has_element(value, b"*"))
    });
    if !told {
        fields.push("Vary", "Accept-Encoding");
    }
}

/// Whether a list has an element, in any case.
fn has_element(list: &[u8], element: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(element))
}

#[cfg(test)]
mod tests;
