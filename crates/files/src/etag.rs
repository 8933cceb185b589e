//! Entity tags of files (RFC 9110, 8.8.3).

use bytes::Bytes;
use howdah_http::encoding::Coding;

use super::resolve::Meta;

/// Returns the entity tag of a stored file. The tag is strong: `"<seconds>.<nanoseconds>-<size>"`,
/// the time of the last modification and the length, in hexadecimal. For a precompressed sibling,
/// its own time and size are used and `-br`, `-zstd` or `-gzip` is appended (`coding`).
pub(super) fn etag(meta: &Meta, coding: Coding) -> Bytes {
    let dash = if coding == Coding::Identity { "" } else { "-" };
    let Meta { modified, modified_nanos, size, .. } = meta;
    format!("\"{modified:x}.{modified_nanos:x}-{size:x}{dash}{}\"", coding.name()).into()
}
