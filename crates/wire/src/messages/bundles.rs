//! Encoding of certificate bundles in one block of memory.

use crate::bytes::{Decoder, Encode, Malformed};

/// Encodes certificate bundles: names and texts. They contain private keys, so they are not part of
/// any message, which a log could show.
pub fn put_bundles<'a>(bundles: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, pem) in bundles {
        out.put_bytes(name.as_bytes());
        out.put_bytes(pem);
    }
    out
}

/// Decodes bundles that [`put_bundles`] has encoded.
pub fn take_bundles(bytes: &[u8]) -> Result<Vec<(&str, &[u8])>, Malformed> {
    let mut from = Decoder(bytes);
    let mut bundles = Vec::new();
    while !from.0.is_empty() {
        bundles.push((from.text()?, from.bytes()?));
    }
    Ok(bundles)
}
