//! The files of a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::Error;

/// Maximum size of one file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum size of all files, in bytes.
const MAX_TOTAL_BYTES: u64 = 64 << 20;

/// Maximum number of files.
const MAX_FILES: usize = 10_000;

/// Maximum number of symbolic links in a path (Linux: 40).
const MAX_LINKS: usize = 40;

/// Reads the files of a configuration, from the file system or below a directory that stands for
/// its root.
///
/// Paths of a configuration are turned into paths of this machine by [`Source::locate`]; all other
/// methods take paths of this machine.
#[derive(Debug, Default)]
pub struct Source {
    root: Option<PathBuf>,
    files: BTreeSet<PathBuf>,
    bytes: u64,
    /// Files that are not on a disk.
    texts: BTreeMap<PathBuf, Vec<u8>>,
}

impl Source {
    /// A source whose absolute paths are read below `root` if there is one (`--root`).
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root, ..Self::default() }
    }

    /// Adds a file that is not on a disk. Patterns do not find it.
    pub fn with_file(mut self, path: PathBuf, text: Vec<u8>) -> Self {
        self.texts.insert(path, text);
        self
    }

    /// Returns where a path of the configuration is read: an absolute one below the root, where
    /// symbolic links lead to places below the root as well; a relative one below `directory`,
    /// which is a path of this machine.
    pub fn locate(&self, path: &Path, directory: &Path) -> PathBuf {
        match &self.root {
            _ if path.is_relative() => directory.join(path),
            None => path.to_owned(),
            Some(root) => below(root, path),
        }
    }

    /// Returns the text of a file. Text that is not UTF-8 and a NUL byte are errors, as are files
    /// above [the limits](MAX_FILE_BYTES).
    pub fn read(&mut self, path: &Path) -> Result<String, Error> {
        let is_on_disk = !self.texts.contains_key(path);
        let text = self.text(path)?;
        if is_on_disk {
            self.bytes += text.len() as u64;
            self.files.insert(path.to_owned());
        }
        if self.bytes > MAX_TOTAL_BYTES || self.files.len() > MAX_FILES {
            let message = format!(
                "the configuration has more than {MAX_FILES} files or {} MiB",
                MAX_TOTAL_BYTES >> 20
            );
            return Err(Error::file(path, message));
        }
        Ok(text)
    }

    /// As [`Source::read`], for a file that is no part of the configuration.
    pub fn text(&self, path: &Path) -> Result<String, Error> {
        let bytes = self.read_bytes(path)?;
        let text = String::from_utf8(readable_comments(bytes)).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            Error::at(path, line_of(valid), "the file is not text in UTF-8")
        })?;
        match text.find('\0') {
            Some(at) => Err(Error::at(
                path,
                line_of(&text.as_bytes()[..at]),
                "the file has a NUL byte, so it is no text",
            )),
            None => Ok(text),
        }
    }

    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, Error> {
        if let Some(text) = self.texts.get(path) {
            return Ok(text.clone());
        }
        let failed = |error: std::io::Error| Error::file(path, error.to_string());
        // A FIFO would block; metadata follows symbolic links.
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::file(path, "this is not a regular file"));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(failed)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        let length = bytes.len() as u64;
        if length > MAX_FILE_BYTES {
            return Err(Error::file(
                path,
                format!("the file is larger than {} MiB", MAX_FILE_BYTES >> 20),
            ));
        }
        Ok(bytes)
    }

    /// Returns true if there is a directory at this path.
    pub fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    /// Returns true if there is a file, a directory or something else at this path.
    pub fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Returns the names in a directory, sorted by bytes; none if there is no such directory.
    pub fn list(&self, directory: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        names.sort();
        names
    }

    /// Returns the existing paths that match a pattern with `*`, `?` and `[…]` in any part, sorted
    /// as glob(3) does in the locale C. A leading dot is matched by a dot alone. `pattern` is
    /// turned into a path as by [`Source::locate`].
    pub fn glob(&self, pattern: &str, directory: &Path) -> Vec<PathBuf> {
        let mut found = vec![match (&self.root, pattern.starts_with('/')) {
            (_, false) => directory.to_owned(),
            (Some(root), true) => root.clone(),
            (None, true) => PathBuf::from("/"),
        }];
        // The path of the configuration so far, so that links lead to places below the root.
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            let mut next = Vec::new();
            for base in found {
                if is_pattern(part) {
                    let matches = |path: &PathBuf| {
                        path.file_name()
                            .is_some_and(|name| is_match(part.as_bytes(), name.as_bytes()))
                    };
                    next.extend(
                        self.list(&base).into_iter().filter(matches).map(|path| self.follow(path)),
                    );
                } else {
                    let path = self.follow(base.join(unescaped(part)));
                    if path.symlink_metadata().is_ok() {
                        next.push(path);
                    }
                }
            }
            found = next;
        }
        found
    }

    /// Resolves a symbolic link at the end of a path below the root; other paths stay as they are.
    fn follow(&self, path: PathBuf) -> PathBuf {
        match &self.root {
            Some(root) => match path.strip_prefix(root) {
                Ok(inside) => below(root, inside),
                Err(_) => path,
            },
            None => path,
        }
    }
}

/// Returns true if a part of a path has a character of a pattern.
pub(crate) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Resolves a path as if `root` were the root directory: `..` does not leave it, and absolute
/// symbolic links begin at it.
fn below(root: &Path, path: &Path) -> PathBuf {
    let mut left: Vec<std::ffi::OsString> = parts(path);
    left.reverse();
    let mut inside = PathBuf::new();
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            inside.pop();
            continue;
        }
        let candidate = inside.join(&part);
        match fs::read_link(root.join(&candidate)) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                if target.is_absolute() {
                    inside = PathBuf::new();
                }
                left.extend(parts(&target).into_iter().rev());
            }
            _ => inside = candidate,
        }
    }
    root.join(inside)
}

/// Returns the names of a path, with `..` and without `.` and the root.
fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Returns a part of a pattern without the backslashes that escape characters.
fn unescaped(part: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut left = part.bytes();
    while let Some(byte) = left.next() {
        bytes.push(if byte == b'\\' { left.next().unwrap_or(byte) } else { byte });
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

/// Returns true if a name matches a pattern of fnmatch(3) without a slash.
pub(crate) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    // Positions after the last star, to which a mismatch returns: linear in both for each star.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => class(&pattern[p..], name[n]),
            Some(b'\\') if p + 1 < pattern.len() => (pattern[p + 1] == name[n]).then_some(2),
            Some(byte) => (*byte == name[n]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((after, at))) => {
                p = after;
                n = at + 1;
                star = Some((after, at + 1));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of a bracket expression that matches a byte. Without its end, `[` is a
/// character like others.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = if negated { 2 } else { 1 };
    let mut at = start;
    let mut found = false;
    loop {
        match pattern.get(at) {
            None => return (byte == b'[').then_some(1),
            Some(b']') if at > start => break,
            Some(low) => {
                let high = match (pattern.get(at + 1), pattern.get(at + 2)) {
                    (Some(b'-'), Some(high)) if *high != b']' => {
                        at += 2;
                        *high
                    }
                    _ => *low,
                };
                found |= (*low..=high).contains(&byte);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at + 1)
}

/// Replaces bytes of comments that are no UTF-8, as in files of another encoding.
fn readable_comments(bytes: Vec<u8>) -> Vec<u8> {
    if std::str::from_utf8(&bytes).is_ok() {
        return bytes;
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let Err(error) = std::str::from_utf8(line) else { return line.into() };
        if is_in_comment(&line[..error.valid_up_to()]) {
            return String::from_utf8_lossy(line).into_owned().into_bytes().into();
        }
        std::borrow::Cow::Borrowed(line)
    });
    lines.collect::<Vec<_>>().concat()
}

/// Returns true if what follows this beginning of a line is a comment.
fn is_in_comment(front: &[u8]) -> bool {
    let start = front.iter().position(|byte| !byte.is_ascii_whitespace());
    if start.is_some_and(|at| matches!(front[at], b'#' | b';')) {
        return true;
    }
    // A comment behind a directive, unless the sign is in quotation marks or in a word.
    front.iter().enumerate().any(|(at, byte)| {
        let before = &front[..at];
        let are_closed = |quote: u8| before.iter().filter(|byte| **byte == quote).count() % 2 == 0;
        *byte == b'#'
            && before.last().is_some_and(u8::is_ascii_whitespace)
            && are_closed(b'"')
            && are_closed(b'\'')
    })
}

/// Returns the number of the line after these bytes, from 1.
fn line_of(before: &[u8]) -> u32 {
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(lines).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn absolute_paths_and_links_are_read_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let enabled = root.path().join("etc/nginx/sites-enabled");
        let available = root.path().join("etc/nginx/sites-available");
        fs::create_dir_all(&enabled).unwrap();
        fs::create_dir_all(&available).unwrap();
        fs::write(available.join("shop"), "server {}").unwrap();
        symlink("/etc/nginx/sites-available/shop", enabled.join("shop")).unwrap();
        symlink("../../../../../../etc/nginx/sites-available/shop", enabled.join("up")).unwrap();
        let mut source = Source::new(Some(root.path().to_owned()));
        let found = source.glob("/etc/nginx/sites-enabled/*", Path::new("/unused"));
        assert_eq!(found, [available.join("shop"), available.join("shop")]);
        assert_eq!(source.read(&found[0]).unwrap(), "server {}");
        assert_eq!(source.locate(Path::new("x.conf"), &enabled), enabled.join("x.conf"));
    }

    #[test]
    fn a_loop_of_links_is_an_error_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        let mut source = Source::new(Some(root.path().to_owned()));
        let path = source.locate(Path::new("/a"), Path::new("/"));
        assert!(source.read(&path).is_err());
    }

    #[test]
    fn patterns_match_as_those_of_the_shell() {
        let matches = |pattern: &str, name: &str| is_match(pattern.as_bytes(), name.as_bytes());
        assert!(matches("*.conf", "a.conf"));
        assert!(matches("*", "a"));
        assert!(!matches("*.conf", ".conf"));
        assert!(!matches("*.conf", "a.conf~"));
        assert!(matches("[a-c]?[!x]", "b1y"));
        assert!(!matches("[a-c]?[!x]", "b1x"));
        assert!(matches("[]]", "]"));
        assert!(matches("a[", "a["));
        assert!(matches("\\*", "*"));
        assert!(!matches("\\*", "a"));
    }

    #[test]
    fn text_that_is_none_is_an_error_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, b"a\nb\xff").unwrap();
        assert_eq!(Source::default().read(&path).unwrap_err().line, Some(2));
        fs::write(&path, b"a\n\n\0").unwrap();
        assert_eq!(Source::default().read(&path).unwrap_err().line, Some(3));
        assert!(Source::default().read(directory.path()).is_err());
    }

    proptest! {
        #[test]
        fn matching_any_bytes_ends(pattern in "[a*?\\[\\]!\\\\-]{0,20}", name in "[ab.]{0,20}") {
            is_match(pattern.as_bytes(), name.as_bytes());
        }
    }
}
