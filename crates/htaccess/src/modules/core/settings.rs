//! Values of settings of responses.

use crate::words::Words;

/// `ServerSignature`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// No signature.
    Off,
    /// Software, name and port.
    On,
    /// The name links to the administrator.
    Email,
}

/// Parts of a file that make up its entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EtagParts {
    /// Number of the file.
    pub inode: bool,
    /// Time of the last change.
    pub modified: bool,
    /// Size.
    pub size: bool,
    /// A digest of the content, in place of the others.
    pub digest: bool,
}

/// Setting of `FileETag` directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EtagSetting {
    /// `None` without a setting; 0 for `FileETag None`.
    set: Option<u8>,
    added: u8,
    removed: u8,
}

const INODE: u8 = 1;
const MODIFIED: u8 = 2;
const SIZE: u8 = 4;
const DIGEST: u8 = 8;
const ALL: u8 = INODE | MODIFIED | SIZE;
const DEFAULT: u8 = MODIFIED | SIZE;

impl EtagSetting {
    /// Adds the words of a directive. The error is the text that Apache logs.
    pub(super) fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let mut words = Words::new(line);
        let mut is_first = true;
        while !words.rest().is_empty() {
            let word = words.take();
            let (action, name) = match word.split_first() {
                Some((&action @ (b'+' | b'-'), name)) => (Some(action), name),
                _ => (None, word.as_slice()),
            };
            if action.is_none() && is_first {
                *self = EtagSetting::default();
                is_first = false;
            }
            let text = String::from_utf8_lossy(name);
            let part = match name.to_ascii_lowercase().as_slice() {
                b"none" | b"all" if action.is_some() => {
                    return Err(format!(
                        "FileETag keyword '{text}' cannot be used with '+' or '-'"
                    ));
                }
                b"none" => 0,
                b"all" => ALL,
                b"size" => SIZE,
                b"lmtime" | b"mtime" | b"lastmodified" => MODIFIED,
                b"inode" => INODE,
                b"digest" => DIGEST,
                _ => return Err(format!("Unknown keyword '{text}' for FileETag directive")),
            };
            match action {
                Some(b'+') => {
                    self.added |= part;
                    self.removed &= !part;
                }
                Some(_) => {
                    self.removed |= part;
                    self.added &= !part;
                }
                None => {
                    self.set = Some(self.set.unwrap_or(0) | part);
                    (self.added, self.removed) = (0, 0);
                }
            }
        }
        Ok(())
    }

    /// Returns the setting of a directory with that of one below it.
    pub(super) fn merged(self, child: EtagSetting) -> EtagSetting {
        if child.set.is_some() {
            return child;
        }
        let added = self.added & !child.removed | child.added;
        let removed = self.removed & !child.added | child.removed;
        let has_change = added | removed != 0;
        let set = match self.set {
            None if !has_change => None,
            set => Some(set.unwrap_or(0) & !removed | added),
        };
        EtagSetting { set, added, removed }
    }

    /// Returns the parts; `None` if files have no entity tag.
    pub fn parts(self) -> Option<EtagParts> {
        let bits = match (self.set, self.added) {
            (None, 0) => DEFAULT,
            (set, added) => set.unwrap_or(0) & !self.removed | added,
        };
        let has = |part: u8| bits & part != 0;
        let parts = EtagParts {
            inode: has(INODE),
            modified: has(MODIFIED),
            size: has(SIZE),
            digest: has(DIGEST),
        };
        (bits != 0).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(line: &str) -> EtagSetting {
        let mut setting = EtagSetting::default();
        setting.add(line.as_bytes()).unwrap();
        setting
    }

    #[test]
    fn entity_tags_have_time_and_size_by_default() {
        let parts = EtagSetting::default().parts().unwrap();
        assert!(parts.modified && parts.size && !parts.inode && !parts.digest);
    }

    #[test]
    fn none_removes_them() {
        assert_eq!(setting("None").parts(), None);
        assert!(setting("MTime").merged(setting("None")).parts().is_none());
        assert!(setting("INode Size").parts().unwrap().inode);
    }

    #[test]
    fn unknown_words_are_errors() {
        assert!(EtagSetting::default().add(b"Foo").is_err());
        assert!(EtagSetting::default().add(b"+None").is_err());
    }
}
