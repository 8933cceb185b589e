//! A share: what the configuration says about serving files from a place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use howdah_config::{Patterns, Symlinks};

use super::hidden;
use super::mime::MimeTypes;

/// Settings of a share, as the configuration has them.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names tried in turn in a directory. Empty names are passed over, as in Unit.
    pub index: Vec<String>,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Whether the path may cross into another mount.
    pub traverse_mounts: bool,
    /// Whether PHP files become [`Outcome::Script`](super::ServeOutcome::Script). They are never sent
    /// as files.
    pub scripts: bool,
    /// Whether `.br`, `.zst` and `.gz` siblings stand in for their files.
    pub precompressed: bool,
    /// Media types that may be sent, and the empty one for files of no known type. An index
    /// that stands in for its directory is not asked for its type, as in Unit.
    pub types: Option<Patterns>,
    /// Media types by name.
    pub mime: Arc<MimeTypes>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            index: vec!["index.html".to_owned()],
            symlinks: Symlinks::OwnerMatch,
            traverse_mounts: true,
            scripts: false,
            precompressed: true,
            types: None,
            mime: Arc::default(),
        }
    }
}

/// A compiled share. Caches tell shares apart by an identity that each one gets when it is made,
/// so a reconfigured share never meets the findings of its predecessor.
#[derive(Debug)]
pub struct Share {
    id: u64,
    root: Box<[u8]>,
    options: Options,
}

impl Share {
    /// A share whose document root is `root`.
    pub fn new(root: impl AsRef<Path>, mut options: Options) -> Self {
        use std::os::unix::ffi::OsStrExt;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        options.index.retain(|name| is_index_name(name, options.scripts));
        Share {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            root: root.as_ref().as_os_str().as_bytes().into(),
            options,
        }
    }

    /// Where the path of a request lies under the share's own root.
    pub fn place<'a>(&'a self, path: &'a [u8]) -> FileLocation<'a> {
        FileLocation { root: &self.root, path, url_offset: 0, chroot: b"" }
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What caches know the share by.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Whether lookups need the kernel's restricted path resolution.
    pub(super) fn is_restricted(&self) -> bool {
        self.options.symlinks == Symlinks::None || !self.options.traverse_mounts
    }
}

/// A place on the disk that a request asks for: `root` followed by `path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLocation<'a> {
    /// The part that the administrator wrote, without a slash at its end; may be empty.
    pub root: &'a [u8],
    /// The part that the request decides; starts with a slash. Hidden names are looked for here.
    pub path: &'a [u8],
    /// So many bytes of `path` come before the URL's path; a script's name starts after them.
    pub url_offset: usize,
    /// A directory that the lookup cannot leave, as Unit's `chroot`: `root` and `path` together
    /// must lead into it, and links are resolved as if it were `/`. Empty for none.
    pub chroot: &'a [u8],
}

impl<'a> FileLocation<'a> {
    /// Divides a share's file name whose variables have been filled in. Its first `fixed` bytes
    /// are the administrator's and the URL's path, if the name ends with it, starts at `url`. A
    /// segment that is only partly the administrator's counts as the request's. `None` if the
    /// request's part would not start with a slash.
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

    /// The URL's path.
    pub(super) fn url(&self) -> &'a [u8] {
        self.path.get(self.url_offset..).unwrap_or_default()
    }

    /// Whether the path can be looked up: it starts with a slash, also where the URL's part
    /// begins, and holds no `.` or `..` segment and no NUL. The protocol layer has made sure of that; this is the second lock.
    pub(super) fn is_sound(&self) -> bool {
        self.path.starts_with(b"/")
            && self.url().starts_with(b"/")
            && memchr::memchr(0, self.root).or(memchr::memchr(0, self.chroot)).is_none()
            && memchr::memchr(0, self.path).is_none()
            && !self.path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
    }
}

/// An index name stays in its directory, and is a script or no PHP source at all.
fn is_index_name(name: &str, scripts: bool) -> bool {
    let sound = !name.split('/').any(|segment| matches!(segment, "" | "." | ".."));
    let file_name = name.rsplit('/').next().unwrap_or_default().as_bytes();
    let runs = scripts && hidden::is_script_name(file_name);
    sound && !name.contains('\0') && (runs || !hidden::is_php_source(file_name))
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
