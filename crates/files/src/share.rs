//! A share: the settings for serving files from a directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use howdah_config::{ListingFormat, Patterns, Prefix, ScriptExtensions, Symlinks};

use super::hidden;
use super::mime::MimeTypes;

/// Settings of a share.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names tried in turn in a directory. Empty names are skipped, as in Unit.
    pub index: Vec<String>,
    /// Part of the URL's path that is not looked up; directories are redirected to with it.
    pub prefix: Option<Prefix>,
    /// Rule for symbolic links.
    pub symlinks: Symlinks,
    /// Allows paths into other mounts.
    pub traverse_mounts: bool,
    /// Returns PHP files as [`Outcome::Script`](super::ServeOutcome::Script). They are never sent
    /// as files.
    pub scripts: bool,
    /// Endings of the names of files that are scripts.
    pub extensions: ScriptExtensions,
    /// Endings of files that are never sent, beyond those of PHP source, since an application runs
    /// them.
    pub sources: Vec<String>,
    /// Names of files that are never sent, beyond those of PHP source, since an application runs
    /// them.
    pub source_names: Option<Patterns>,
    /// The caller has decided that a path is sent: directories have no index, any method is
    /// answered like GET, and of the rules for names only that for source of scripts applies.
    pub is_decided: bool,
    /// Sends the `.br`, `.zst` and `.gz` siblings of files to clients that accept them.
    pub precompressed: bool,
    /// Media types that may be sent; the empty type stands for files of unknown type. The type of
    /// an index file is not checked, as in Unit.
    pub types: Option<Patterns>,
    /// Media types by name.
    pub mime: Arc<MimeTypes>,
    /// Lists directories without an index.
    pub listing: Option<ListingFormat>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            index: vec!["index.html".to_owned()],
            prefix: None,
            symlinks: Symlinks::OwnerMatch,
            traverse_mounts: true,
            scripts: false,
            extensions: ScriptExtensions::default(),
            sources: Vec::new(),
            source_names: None,
            is_decided: false,
            precompressed: true,
            types: None,
            mime: Arc::default(),
            listing: None,
        }
    }
}

impl Options {
    /// Returns true if the file at this path runs as a script.
    pub(super) fn is_script(&self, path: &[u8]) -> bool {
        self.scripts && self.extensions.is_script(path)
    }

    /// Returns true if a file of this name is never sent.
    pub fn is_source(&self, name: &[u8]) -> bool {
        hidden::is_php_source(name)
            || hidden::is_source_of(&self.sources, name)
            || self.source_names.as_ref().is_some_and(|names| names.matches(name))
    }
}

/// A compiled share. Each one has a unique id in the keys of the caches, so a reconfigured share
/// never gets cached results of its predecessor.
#[derive(Debug, Clone)]
pub struct Share {
    id: u64,
    root: Arc<[u8]>,
    options: Arc<Options>,
}

impl Share {
    /// Creates a share with the document root `root`.
    pub fn new(root: impl AsRef<Path>, mut options: Options) -> Self {
        use std::os::unix::ffi::OsStrExt;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let index = std::mem::take(&mut options.index);
        options.index = index.into_iter().filter(|name| is_index_name(name, &options)).collect();
        Share {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            root: root.as_ref().as_os_str().as_bytes().into(),
            options: Arc::new(options),
        }
    }

    /// Returns the location of a request's path under the share's own root.
    pub fn place<'a>(&'a self, path: &'a [u8]) -> FileLocation<'a> {
        FileLocation { root: &self.root, path, url_offset: 0, chroot: b"" }
    }

    /// Returns the settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the id of the share in cache keys.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns true if lookups need the kernel's restricted path resolution.
    pub(super) fn is_restricted(&self) -> bool {
        self.options.symlinks == Symlinks::None || !self.options.traverse_mounts
    }
}

/// Location of a file on the disk: `root` followed by `path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLocation<'a> {
    /// Part from the configuration, without a slash at its end; may be empty.
    pub root: &'a [u8],
    /// Part from the request; starts with a slash. The rules for hidden names apply to it.
    pub path: &'a [u8],
    /// Length in bytes of the part of `path` before the URL's path; the name of a script starts
    /// there.
    pub url_offset: usize,
    /// Directory that the lookup cannot leave, as Unit's `chroot`: `root` and `path` together must
    /// lead into it, and links are resolved as if it were `/`. Empty for none.
    pub chroot: &'a [u8],
}

impl<'a> FileLocation<'a> {
    /// Splits a share's file name after the expansion of its variables. Its first `fixed` bytes
    /// come from the configuration; the URL's path, if the name ends with it, starts at `url`. A
    /// segment that comes from both counts as the request's. `None` if the request's part would not
    /// start with a slash.
    pub fn split(
        name: &'a [u8],
        fixed: usize,
        url: Option<usize>,
        chroot: &'a [u8],
    ) -> Option<Self> {
        let root_end = match name.get(fixed) {
            Some(b'/') => fixed,
            _ => memchr::memrchr(b'/', name.get(..fixed)?)?,
        };
        let (root, path) = name.split_at_checked(root_end)?;
        let url_offset = url.map_or(0, |url| url.saturating_sub(root_end));
        Some(FileLocation { root, path, url_offset, chroot })
    }

    /// Returns the URL's path.
    pub(super) fn url(&self) -> &'a [u8] {
        self.path.get(self.url_offset..).unwrap_or_default()
    }

    /// Returns true if the path and its URL part are absolute, no segment is `.` or `..`, and
    /// there is no NUL. The protocol layer has checked this already; defence in depth.
    pub(super) fn is_sound(&self) -> bool {
        self.path.starts_with(b"/")
            && self.url().starts_with(b"/")
            && memchr::memchr(0, self.root).or(memchr::memchr(0, self.chroot)).is_none()
            && memchr::memchr(0, self.path).is_none()
            && !self.path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
    }
}

/// Returns true if an index name stays in its directory, and is either a script that runs or no PHP
/// source.
fn is_index_name(name: &str, options: &Options) -> bool {
    let sound = !name.split('/').any(|segment| matches!(segment, "" | "." | ".."));
    let file_name = name.rsplit('/').next().unwrap_or_default().as_bytes();
    sound && !name.contains('\0') && (options.is_script(file_name) || !options.is_source(file_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_divided_where_the_request_takes_over() {
        let split = |name: &'static str, fixed, url| {
            FileLocation::split(name.as_bytes(), fixed, url, b"").map(|place| {
                let text = |bytes: &'static [u8]| std::str::from_utf8(bytes).unwrap();
                (text(place.root), text(place.path), text(place.url()))
            })
        };
        assert_eq!(split("/www/a/b", 4, Some(4)), Some(("/www", "/a/b", "/a/b")));
        assert_eq!(split("/www//a", 5, Some(5)), Some(("/www/", "/a", "/a")));
        assert_eq!(split("/www/host/a", 5, Some(9)), Some(("/www", "/host/a", "/a")));
        assert_eq!(split("/www/site-x/a", 10, Some(11)), Some(("/www", "/site-x/a", "/a")));
        assert_eq!(split("/a/index.html", 0, None), Some(("", "/a/index.html", "/a/index.html")));
        assert_eq!(split("/www/one.html", 13, None), Some(("/www", "/one.html", "/one.html")));
        assert_eq!(split("./a", 1, Some(1)), Some((".", "/a", "/a")));
        assert_eq!(split("a", 0, None), None);
        assert_eq!(split("", 0, None), None);
        assert_eq!(split("/a", 9, None), None);
    }
}
