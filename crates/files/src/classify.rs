//! Classifies a location: script, directory, regular file, or a reason to send no file. The steps:
//!
//! 1. A script, by its exact name.
//! 2. The allowed media types. This check needs no system call and reveals no fact about the disk.
//! 3. Names that are never sent.
//! 4. The file, or the first existing index of the directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::Bytes;

use super::hidden;
use super::outcome::ScriptPath;
use super::reason::NotServedReason;
use super::resolve::{Access, Kind, Opened, Opener};
use super::share::{FileLocation, Share};

/// Classifies one location with system calls.
pub(super) struct Classifier<'s, 'p> {
    pub opener: &'p Opener,
    pub share: &'s Share,
    pub place: &'p FileLocation<'p>,
}

/// Class of a location.
pub(super) enum Target<'s> {
    /// A directory; the path does not end in a slash.
    Directory,
    /// A directory without an index, which the share lists.
    Listing,
    /// An existing PHP script.
    Script(ScriptPath),
    /// A regular file; `index` is its name if it is the index of a directory, otherwise empty.
    File { index: &'s [u8], opened: Opened },
}

impl<'s> Classifier<'s, '_> {
    /// Classifies the location. Error: the reason to send no file.
    pub fn classify(&self) -> Result<Target<'s>, NotServedReason> {
        if !self.place.is_sound() {
            return Err(NotServedReason::NotFound);
        }
        if self.share.options().is_decided {
            return self.classify_decided();
        }
        if self.share.options().scripts
            && let Some(script) = self.find_script()?
        {
            return Ok(Target::Script(script));
        }
        self.classify_file()
    }

    /// Returns the script at the first prefix of the path that ends as a script's name and is a
    /// regular file, as Apache does. Directories may have names of scripts, too; any other kind of
    /// file ends the search.
    fn find_script(&self) -> Result<Option<ScriptPath>, NotServedReason> {
        let path = self.place.path;
        let extensions = &self.share.options().extensions;
        let inner = extensions.script_ends(path);
        let whole = extensions.is_script(path).then_some(path.len());
        for end in inner.chain(whole).filter(|end| *end > self.place.url_offset) {
            let (name, info) = path.split_at_checked(end).ok_or(NotServedReason::NotFound)?;
            let prefix = FileLocation { path: name, ..*self.place };
            if has_dot_segment(&prefix) {
                return Err(NotServedReason::NotFound);
            }
            match self.opener.open(self.share, &prefix, &[], Access::Inspect)?.kind {
                Kind::Regular => return Ok(Some(script_path(self.place, name, info))),
                Kind::Directory => {}
                Kind::Other => return Err(NotServedReason::NotFound),
            }
        }
        Ok(None)
    }

    fn classify_file(&self) -> Result<Target<'s>, NotServedReason> {
        let options = self.share.options();
        let path = self.place.path;
        let types = options.types.as_ref().filter(|_| !path.ends_with(b"/"));
        if types.is_some_and(|types| !types.matches(&options.mime.of(path))) {
            return Err(NotServedReason::TypeNotAllowed);
        }
        if has_dot_segment(self.place) {
            return Err(NotServedReason::NotFound);
        }
        if path.ends_with(b"/") {
            return self.find_index();
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if options.is_source(name) {
            return self.classify_directory(NotServedReason::NotFound);
        }
        let opened = match self.opener.open(self.share, self.place, &[], Access::Read) {
            Err(reason @ (NotServedReason::Forbidden | NotServedReason::Denied)) => {
                return self.classify_directory(reason);
            }
            opened => opened?,
        };
        match opened.kind {
            Kind::Regular => Ok(Target::File { index: b"", opened }),
            Kind::Directory => Ok(Target::Directory),
            Kind::Other => Err(NotServedReason::NotFound),
        }
    }

    fn classify_decided(&self) -> Result<Target<'s>, NotServedReason> {
        let name = self.place.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if self.share.options().is_source(name) {
            return self.classify_directory(NotServedReason::Forbidden);
        }
        let opened = self.opener.open(self.share, self.place, &[], Access::Read)?;
        match opened.kind {
            Kind::Regular => Ok(Target::File { index: b"", opened }),
            Kind::Directory => Ok(Target::Directory),
            Kind::Other => Err(NotServedReason::Forbidden),
        }
    }

    /// Classifies a location that cannot or must not be read as a file. It may still be a
    /// directory, which needs no read permission to be entered and may have any name.
    fn classify_directory(
        &self,
        otherwise: NotServedReason,
    ) -> Result<Target<'s>, NotServedReason> {
        match self.opener.open(self.share, self.place, &[], Access::Inspect)?.kind {
            Kind::Directory => Ok(Target::Directory),
            _ => Err(otherwise),
        }
    }

    /// Returns the first index of the directory that exists.
    fn find_index(&self) -> Result<Target<'s>, NotServedReason> {
        for name in self.share.options().index.iter().map(|name| name.as_bytes()) {
            let script = self.share.options().is_script(name);
            let access = if script { Access::Inspect } else { Access::Read };
            match self.opener.open(self.share, self.place, &[name], access) {
                Ok(opened) if opened.kind != Kind::Regular => {}
                Ok(_) if script => {
                    let name = [self.place.path, name].concat();
                    return Ok(Target::Script(script_path(self.place, &name, b"")));
                }
                Ok(opened) => return Ok(Target::File { index: name, opened }),
                Err(NotServedReason::NotFound) => {}
                Err(reason) => return Err(reason),
            }
        }
        if self.share.options().listing.is_none() {
            return Err(NotServedReason::NotFound);
        }
        match self.opener.open(self.share, self.place, &[], Access::Inspect)?.kind {
            Kind::Directory => Ok(Target::Listing),
            _ => Err(NotServedReason::NotFound),
        }
    }
}

/// Returns true if a segment starts with a dot. The URL's path is checked separately, because
/// `.well-known` is allowed at its start.
fn has_dot_segment(place: &FileLocation<'_>) -> bool {
    let before = place.path.get(..place.url_offset).unwrap_or_default();
    hidden::has_dot_segment(before) || hidden::has_dot_segment(place.url())
}

/// Splits a path: `name` is the script's part of it and `info` the rest.
fn script_path(place: &FileLocation<'_>, name: &[u8], info: &[u8]) -> ScriptPath {
    let file = [place.root, name].concat();
    ScriptPath {
        script_name: Bytes::copy_from_slice(name.get(place.url_offset..).unwrap_or_default()),
        path_info: Bytes::copy_from_slice(info),
        file: Path::new(OsStr::from_bytes(&file)).into(),
    }
}
