//! Heads of answers that depend on a file alone: they are made once, not for each request.
//!
//! Most files of most sites are sent under directives that do not look at the request
//! ([`is_constant`](howdah_htaccess::config::DirConfig::is_constant)), or under none. The head of
//! the response is kept with the facts about the site's directories, and dropped when one of them,
//! its directives or the file changes.

use howdah_http::message::{FieldBlock, Request};

/// The head of an answer with a whole file.
#[derive(Debug, Clone)]
pub struct Head {
    /// Fields of the file, before directives.
    pub of_file: FieldBlock,
    /// Fields that were sent.
    pub sent: FieldBlock,
}

impl Head {
    /// Returns its memory in bytes. The file cache may have dropped the fields of the file.
    pub fn bytes(&self) -> usize {
        self.of_file.as_bytes().len() + self.sent.as_bytes().len() + size_of::<Head>()
    }

    /// Returns the fields to send with a file that has these.
    pub fn fields(self, of_file: &FieldBlock) -> Option<FieldBlock> {
        // The same block: the file cache has not read the file again.
        let (known, now) = (self.of_file.as_bytes(), of_file.as_bytes());
        (std::ptr::eq(known.as_ptr(), now.as_ptr()) && known.len() == now.len())
            .then_some(self.sent)
    }
}

/// Returns the path of a request that a kept head may answer: for a whole file, without conditions,
/// and with a path that is decoded already.
pub fn path_of(request: &Request) -> Option<&[u8]> {
    if !matches!(&*request.method, b"GET" | b"HEAD") {
        return None;
    }
    let end = memchr::memchr(b'?', &request.target).unwrap_or(request.target.len());
    let path = &request.target[..end];
    let is_partial = |(name, _): (&[u8], &[u8])| {
        name.eq_ignore_ascii_case(b"range")
            || name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-"))
    };
    let is_plain = *path == *request.path && !path.ends_with(b"/");
    (is_plain && !request.fields.iter().any(is_partial)).then_some(path)
}

#[cfg(test)]
mod tests {
    use howdah_http::fixture::request;

    use super::*;

    #[test]
    fn only_whole_files_with_plain_paths_have_such_heads() {
        let path = |method: &'static str, target: &str, field: &str| {
            let mut request = request(target, &[(field, "x")]);
            request.method = method.into();
            path_of(&request).map(<[u8]>::to_vec)
        };
        let known = Some(b"/a.txt".to_vec());
        assert_eq!(path("GET", "/a.txt?v=1", "Accept"), known);
        assert_eq!(path("HEAD", "/a.txt", "Accept"), known);
        for (method, target, field) in [
            ("POST", "/a.txt", "Accept"),
            ("GET", "/a%2etxt", "Accept"),
            ("GET", "//a.txt", "Accept"),
            ("GET", "/a/", "Accept"),
            ("GET", "/a.txt", "rAnge"),
            ("GET", "/a.txt", "If-Modified-Since"),
            ("GET", "/a.txt", "if-none-match"),
        ] {
            assert_eq!(path(method, target, field), None, "{method} {target} {field}");
        }
    }
}
