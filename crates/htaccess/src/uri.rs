//! Paths of requests: division, normal form, decoding, full URLs.

use howdah_text::hex;
use howdah_text::percent::is_unreserved;

use crate::record::Record;
use crate::support::escape_path;

/// Divides a target into path and query, without scheme, host and fragment. Slashes at the start
/// become one.
pub fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut target = target;
    if !target.starts_with(b"/")
        && let Some(at) = memchr::memmem::find(target, b"://")
        && target[..at].iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    {
        let rest = &target[at + 3..];
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        target = &rest[end..];
        if !target.starts_with(b"/") {
            let query = target.strip_prefix(b"?").map(without_fragment);
            return (b"/", query);
        }
    }
    while target.starts_with(b"//") {
        target = &target[1..];
    }
    match target.iter().position(|byte| matches!(byte, b'?' | b'#')) {
        Some(at) if target[at] == b'?' => {
            (&target[..at], Some(without_fragment(&target[at + 1..])))
        }
        Some(at) => (&target[..at], None),
        None => (target, None),
    }
}

fn without_fragment(query: &[u8]) -> &[u8] {
    memchr::memchr(b'#', query).map_or(query, |at| &query[..at])
}

/// Decodes a path and brings it into normal form: no `.` and `..`, no two slashes in a row
/// (Apache's `ap_normalize_path` and `ap_unescape_url_ex`).
///
/// # Errors
///
/// The status: 400 for a bad escape, a path without a slash at its start and one that leaves the
/// root; 404 for an encoded slash or NUL.
pub fn decoded(path: &[u8]) -> Result<Vec<u8>, u16> {
    if path == b"*" {
        return Ok(path.to_vec());
    }
    if !path.starts_with(b"/") {
        return Err(400);
    }
    let is_plain = memchr::memchr(b'%', path).is_none()
        && memchr::memmem::find(path, b"//").is_none()
        && memchr::memmem::find(path, b"/.").is_none();
    if is_plain {
        return Ok(path.to_vec());
    }
    let path = normal(&unreserved(path)?)?;
    unescaped(&path)
}

/// Decodes letters, digits and `-._~`.
fn unreserved(path: &[u8]) -> Result<Vec<u8>, u16> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let value = hex::byte(after).ok_or(400_u16)?;
            if is_unreserved(value) {
                decoded.push(value);
                rest = &after[2..];
                continue;
            }
        }
        decoded.push(byte);
    }
    Ok(decoded)
}

/// Returns a path without empty segments, `.` and `..`.
///
/// # Errors
///
/// 400 if it leads above the root.
pub fn normal(path: &[u8]) -> Result<Vec<u8>, u16> {
    let mut normal = vec![b'/'];
    let mut rest = path.get(1..).unwrap_or_default();
    while !rest.is_empty() {
        let end = memchr::memchr(b'/', rest).map_or(rest.len(), |at| at + 1);
        let (segment, after) = rest.split_at(end);
        rest = after;
        match segment {
            b"/" | b"." | b"./" => {}
            b".." | b"../" => {
                if normal.len() == 1 {
                    return Err(400);
                }
                normal.pop();
                let end = memchr::memrchr(b'/', &normal).map_or(0, |at| at + 1);
                normal.truncate(end);
            }
            segment => normal.extend_from_slice(segment),
        }
    }
    Ok(normal)
}

fn unescaped(path: &[u8]) -> Result<Vec<u8>, u16> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    let mut is_bad = false;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let value = hex::byte(after).ok_or(400_u16)?;
        is_bad |= matches!(value, 0 | b'/');
        decoded.push(value);
        rest = &after[2..];
    }
    if is_bad { Err(404) } else { Ok(decoded) }
}

/// Returns the full URL of a path that is escaped already (Apache's `ap_construct_url`).
pub fn construct_url(record: &Record, path: &[u8]) -> Vec<u8> {
    let connection = &record.connection;
    let (scheme, default) = if connection.is_https { ("https", 443) } else { ("http", 80) };
    let mut url = format!("{scheme}://").into_bytes();
    url.extend_from_slice(&connection.server_name);
    if connection.server_port != default {
        url.extend_from_slice(format!(":{}", connection.server_port).as_bytes());
    }
    url.extend_from_slice(path);
    url
}

/// Escapes a path for a URL (Apache's `ap_escape_uri`).
pub fn escaped(path: &[u8]) -> Vec<u8> {
    escape_path(path, true)
}

/// Returns the path up to its last slash, with it.
pub fn parent(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(&[], |at| &path[..=at])
}

/// Returns the length of the script's part of a path that ends in `path_info` (Apache's
/// `ap_find_path_info`).
pub fn script_length(uri: &[u8], path_info: &[u8]) -> usize {
    let (mut at, mut info) = (uri.len(), path_info.len());
    while at > 0 {
        at -= 1;
        if info == 0 {
            break;
        }
        info -= 1;
        if uri[at] != path_info[info] {
            break;
        }
        if path_info[info] == b'/' {
            while at > 0 && uri[at - 1] == b'/' {
                at -= 1;
            }
        }
    }
    at + memchr::memchr(b'/', &uri[at..]).unwrap_or(uri.len() - at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> Result<String, u16> {
        decoded(text.as_bytes()).map(|path| String::from_utf8_lossy(&path).into_owned())
    }

    #[test]
    fn targets_are_divided() {
        assert_eq!(split(b"/a?b#c"), (b"/a".as_slice(), Some(b"b".as_slice())));
        assert_eq!(split(b"//a#c?d"), (b"/a".as_slice(), None));
        assert_eq!(split(b"http://host/a?b"), (b"/a".as_slice(), Some(b"b".as_slice())));
        assert_eq!(split(b"http://host"), (b"/".as_slice(), None));
    }

    #[test]
    fn paths_are_brought_into_normal_form() {
        assert_eq!(path("/a//b/./c/../d").unwrap(), "/a/b/d");
        assert_eq!(path("/a/..").unwrap(), "/");
        assert_eq!(path("/a/%2e%2E/b%20c").unwrap(), "/b c");
        assert_eq!(path("/..").unwrap_err(), 400);
        assert_eq!(path("/a/../../b").unwrap_err(), 400);
    }

    #[test]
    fn encoded_slashes_are_not_found() {
        assert_eq!(path("/a%2fb").unwrap_err(), 404);
        assert_eq!(path("/a%00").unwrap_err(), 404);
        assert_eq!(path("/a%2").unwrap_err(), 400);
        assert_eq!(path("/a%3fb").unwrap(), "/a?b");
        assert_eq!(path("/a%252fb").unwrap(), "/a%2fb");
    }

    #[test]
    fn the_path_info_is_found_in_the_path() {
        assert_eq!(script_length(b"/a.php/x/y", b"/x/y"), 6);
        assert_eq!(script_length(b"/a.php//x", b"/x"), 6);
        assert_eq!(script_length(b"/other", b"/x/y"), 6);
        assert_eq!(script_length(b"/b/x", b"/x"), 2);
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_root(text in "(/|\\.|%2e|%2f|a|%){0,20}") {
            if let Ok(path) = decoded(text.as_bytes()) {
                prop_assert!(!path.ends_with(b"/..") && memchr::memmem::find(&path, b"/../").is_none());
            }
        }

        #[test]
        fn the_script_is_within_the_path(uri in "[/a]{0,8}", info in "[/a]{0,8}") {
            prop_assert!(script_length(uri.as_bytes(), info.as_bytes()) <= uri.len());
        }
    }
}
