//! Media types by file name.
//!
//! The extension of a name starts at its last dot; a name without a dot is looked up whole, so that
//! `README` can have a type. Case is ignored. The order of lookup: configured types, the list
//! below, `mime_guess`. The list has the types that NGINX Unit and nginx send where `mime_guess`
//! differs or has none. A type is sent without `charset`, as both peers do. For an unknown type no
//! `Content-Type` is sent, as in Unit.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

/// Media types by extension; configured types take precedence over built-in ones.
#[derive(Debug, Clone, Default)]
pub struct MimeTypes {
    configured: HashMap<Box<[u8]>, Bytes>,
    /// Type of files whose type is not known; empty for none.
    default: Bytes,
    /// Built-in types that are not used, in lower case.
    removed: HashSet<Box<[u8]>>,
    /// No built-in type is used.
    has_own_only: bool,
}

impl MimeTypes {
    /// Creates the types from pairs of an extension with its dot (`.log`) or a whole name
    /// (`README`), and a type.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let configured = pairs.into_iter().map(|(extension, media_type)| {
            let extension = extension.to_ascii_lowercase().into_bytes().into_boxed_slice();
            (extension, Bytes::copy_from_slice(media_type.as_bytes()))
        });
        MimeTypes { configured: configured.collect(), ..MimeTypes::default() }
    }

    /// Sets the type of files whose type is not known.
    pub fn with_default(self, media_type: &str) -> Self {
        MimeTypes { default: Bytes::copy_from_slice(media_type.as_bytes()), ..self }
    }

    /// Takes these built-in types away.
    pub fn without<'a>(self, removed: impl IntoIterator<Item = &'a str>) -> Self {
        let removed = removed.into_iter().map(|it| it.to_ascii_lowercase().into_bytes().into());
        MimeTypes { removed: removed.collect(), ..self }
    }

    /// Takes all built-in types away.
    pub fn without_builtin(self) -> Self {
        MimeTypes { has_own_only: true, ..self }
    }

    /// Returns the type for the last segment of a path; empty if there is none.
    pub fn of(&self, path: &[u8]) -> Bytes {
        let name = match memchr::memrchr(b'/', path) {
            Some(slash) => path.get(slash + 1..).unwrap_or_default(),
            None => path,
        };
        let extension = match memchr::memrchr(b'.', name) {
            Some(dot) => name.get(dot..).unwrap_or_default(),
            None => name,
        }
        .to_ascii_lowercase();
        if let Some(media_type) = self.configured.get(&*extension) {
            return media_type.clone();
        }
        let Some(extension) =
            extension.strip_prefix(b".").and_then(|e| std::str::from_utf8(e).ok())
        else {
            return self.default.clone();
        };
        let listed = TYPES.iter().find(|(_, extensions)| extensions.contains(&extension));
        let media_type = match listed {
            Some((media_type, _)) => media_type,
            None => mime_guess::from_ext(extension).first_raw().unwrap_or_default(),
        };
        match media_type {
            _ if self.has_own_only || self.removed.contains(media_type.as_bytes()) => {
                self.default.clone()
            }
            "" => self.default.clone(),
            media_type => Bytes::from_static(media_type.as_bytes()),
        }
    }
}

/// Types that differ from those of `mime_guess` or are missing there.
const TYPES: &[(&str, &[&str])] = &[
    ("text/html", &["html", "htm", "shtml"]),
    ("text/css", &["css"]),
    ("text/plain", &["txt"]),
    ("text/markdown", &["md"]),
    ("text/x-rst", &["rst"]),
    // RFC 9239 made it text/javascript; the peers still send the obsolete application/javascript.
    ("text/javascript", &["js", "mjs", "cjs"]),
    ("application/json", &["json", "map"]),
    ("application/manifest+json", &["webmanifest"]),
    ("application/xml", &["xml"]),
    ("application/rss+xml", &["rss"]),
    ("application/atom+xml", &["atom"]),
    ("application/pdf", &["pdf"]),
    ("application/wasm", &["wasm"]),
    ("application/zip", &["zip"]),
    ("application/gzip", &["gz"]),
    ("application/x-httpd-php", &["php"]),
    (
        "application/octet-stream",
        &["exe", "bin", "dll", "iso", "img", "msi", "msp", "msm", "dmg", "deb", "rpm"],
    ),
    ("image/svg+xml", &["svg"]),
    ("image/webp", &["webp"]),
    ("image/png", &["png"]),
    ("image/apng", &["apng"]),
    ("image/jpeg", &["jpeg", "jpg"]),
    ("image/gif", &["gif"]),
    ("image/x-icon", &["ico"]),
    ("image/avif", &["avif"]),
    ("image/avif-sequence", &["avifs"]),
    ("image/jxl", &["jxl"]),
    ("font/woff", &["woff"]),
    ("font/woff2", &["woff2"]),
    ("font/otf", &["otf"]),
    ("font/ttf", &["ttf"]),
    ("audio/mpeg", &["mp3"]),
    ("audio/ogg", &["ogg"]),
    ("audio/midi", &["midi", "mid"]),
    ("audio/flac", &["flac"]),
    ("audio/aac", &["aac"]),
    ("audio/wav", &["wav"]),
    ("video/mpeg", &["mpeg", "mpg"]),
    ("video/mp4", &["mp4"]),
    ("video/mp2t", &["ts"]),
    ("video/webm", &["webm"]),
    ("video/x-msvideo", &["avi"]),
    // Unit has no type for logs; sites that need one configure it.
    ("", &["log"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_last_extension_in_any_case() {
        let types = MimeTypes::default();
        for (path, media_type) in [
            ("/index.html", "text/html"),
            ("/a.b/X.JPG", "image/jpeg"),
            ("/x.js", "text/javascript"),
            ("/x.tar.gz", "application/gzip"),
            ("/x.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ("/x.log", ""),
            ("/README", ""),
            ("/html", ""),
            ("/x.html/file", ""),
            ("/x.", ""),
            ("/x.nosuchtype", ""),
            ("/x.ф", ""),
            ("", ""),
        ] {
            assert_eq!(types.of(path.as_bytes()), media_type, "{path}");
        }
        assert_eq!(types.of(b"/x.\xff\xfe"), "");
    }

    #[test]
    fn built_in_types_may_be_taken_away() {
        let own = || MimeTypes::new([(".png", "image/png"), (".x", "x/y")]).with_default("d/e");
        let types = own().without(["text/HTML", "image/png", "application/zip"]);
        for (path, media_type) in [
            ("/a.html", "d/e"),
            ("/a.htm", "d/e"),
            ("/a.css", "text/css"),
            ("/a.png", "image/png"),
            ("/a.zip", "d/e"),
            ("/a.x", "x/y"),
        ] {
            assert_eq!(types.of(path.as_bytes()), media_type, "{path}");
        }
        let types = own().without_builtin();
        for (path, media_type) in [("/a.html", "d/e"), ("/a.docx", "d/e"), ("/a.png", "image/png")]
        {
            assert_eq!(types.of(path.as_bytes()), media_type, "{path}");
        }
    }

    #[test]
    fn configured_types_come_first_and_may_name_whole_files() {
        let types =
            MimeTypes::new([("readme", "text/x-readme"), (".html", "text/plain"), ("ile", "x/y")]);
        assert_eq!(types.of(b"/README"), "text/x-readme");
        assert_eq!(types.of(b"/a/index.html"), "text/plain");
        assert_eq!(types.of(b"/file"), "");
        assert_eq!(types.of(b"/x.css"), "text/css");
        let types = types.with_default("application/octet-stream");
        for path in ["/x", "/x.log", "/x.nosuchtype"] {
            assert_eq!(types.of(path.as_bytes()), "application/octet-stream", "{path}");
        }
        assert_eq!(types.of(b"/x.css"), "text/css");
    }
}
