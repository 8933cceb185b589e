//! Searches in files of passwords and groups, which directives name and which may be large.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use crate::support::{is_space, trimmed, until, word};

/// Largest file that is searched, in bytes.
pub const MAX_SEARCHED_BYTES: usize = 16 << 20;

/// Maximum number of groups of a user.
const MAX_GROUPS: usize = 16_384;

/// Subject of a search in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// The stored form of a user's password; with a realm, that of a file of `htdigest`.
    Password {
        /// Name of the user.
        user: Vec<u8>,
        /// Realm of `htdigest`.
        realm: Option<Vec<u8>>,
    },
    /// The groups of a user.
    Groups {
        /// Name of the user.
        user: Vec<u8>,
    },
}

/// Result of a search: the stored password, or the names of the groups in lower case.
pub type Found = Arc<HashSet<Vec<u8>>>;

impl Query {
    /// Searches the content of a file.
    ///
    /// # Errors
    ///
    /// `FileTooLarge` if a user has more than [`MAX_GROUPS`] groups.
    pub fn answer(&self, content: &[u8]) -> io::Result<Found> {
        let mut found = HashSet::new();
        for line in entries(content) {
            let mut rest = &*line;
            match self {
                Query::Password { user, realm } => {
                    if until(&mut rest, b':') != user
                        || realm.as_ref().is_some_and(|realm| until(&mut rest, b':') != realm)
                    {
                        continue;
                    }
                    found.insert(until(&mut rest, b':').to_vec());
                    break;
                }
                Query::Groups { user } => {
                    let name = until(&mut rest, b':');
                    if has_word(rest, user) {
                        found.insert(trimmed(name).to_ascii_lowercase());
                    }
                    if found.len() > MAX_GROUPS {
                        return Err(io::ErrorKind::FileTooLarge.into());
                    }
                }
            }
        }
        Ok(found.into())
    }
}

/// Returns the lines of a file that are no comments, with continuation lines joined.
fn entries(content: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = Some(content);
    let next = move || {
        let (line, after) = joined(rest?);
        rest = after;
        Some(line)
    };
    std::iter::from_fn(next).filter(|line| line.first().is_some_and(|&byte| byte != b'#'))
}

/// Returns the first line, and the rest behind it.
fn joined(content: &[u8]) -> (Cow<'_, [u8]>, Option<&[u8]>) {
    let mut whole: Cow<'_, [u8]> = Cow::Borrowed(b"");
    let mut rest = content;
    loop {
        let end = memchr::memchr(b'\n', rest);
        let part = &rest[..end.unwrap_or(rest.len())];
        let after = end.map(|end| &rest[end + 1..]);
        let part = part.strip_suffix(b"\r").unwrap_or(part);
        let continued = part.strip_suffix(b"\\");
        match (whole.is_empty(), continued) {
            (true, None) => return (Cow::Borrowed(trimmed(part)), after),
            (_, None) => {
                whole.to_mut().extend_from_slice(part);
                return (trimmed(&whole).to_vec().into(), after);
            }
            (_, Some(part)) => whole.to_mut().extend_from_slice(part),
        }
        match after {
            Some(after) => rest = after,
            None => return (trimmed(&whole).to_vec().into(), None),
        }
    }
}

/// Returns true if a word of a line is this one.
fn has_word(line: &[u8], wanted: &[u8]) -> bool {
    if memchr::memchr3(b'"', b'\'', b'\\', line).is_some() {
        let mut rest = line;
        while !rest.is_empty() {
            let next = word(&mut rest);
            if next.is_empty() {
                return false;
            }
            if next == wanted {
                return true;
            }
        }
        return false;
    }
    let is_word = |at: usize| {
        let is_end = |byte: Option<&u8>| byte.is_none_or(|&byte| is_space(byte));
        is_end(at.checked_sub(1).and_then(|before| line.get(before)))
            && is_end(line.get(at + wanted.len()))
    };
    !wanted.is_empty() && memchr::memmem::find_iter(line, wanted).any(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(content: &str, user: &str) -> Vec<String> {
        let query = Query::Groups { user: user.into() };
        let found = query.answer(content.as_bytes()).unwrap();
        let mut names: Vec<_> =
            found.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn groups_have_their_members_on_one_line_or_several() {
        let file = "# a: ann\nStaff: bob ann\n all : \"ann\" cid\nx: anna\ny: an\\\r\nn dan\nz: \
                    dan \\\nann";
        assert_eq!(groups(file, "ann"), ["all", "staff", "y", "z"]);
        assert_eq!(groups(file, "dan"), ["y", "z"]);
        assert!(groups(file, "").is_empty() && groups(file, "b").is_empty());
    }

    #[test]
    fn the_first_line_of_a_user_counts() {
        let password = |content: &str, realm: Option<&str>| {
            let realm = realm.map(|realm| realm.as_bytes().to_vec());
            let query = Query::Password { user: b"u".to_vec(), realm };
            let found = query.answer(content.as_bytes()).unwrap();
            assert!(found.len() <= 1);
            found.iter().next().map(|text| String::from_utf8_lossy(text).into_owned())
        };
        assert_eq!(password("uu:0\nu:1:x\nu:2", None).as_deref(), Some("1"));
        assert_eq!(password("u:a:1\nu:b:2", Some("b")).as_deref(), Some("2"));
        assert_eq!(password("#u:1\n\n", None), None);
    }

    #[test]
    fn a_user_has_a_limited_number_of_groups() {
        let file: String = (0..=MAX_GROUPS).map(|number| format!("g{number}: u\n")).collect();
        let query = Query::Groups { user: b"u".to_vec() };
        assert_eq!(query.answer(file.as_bytes()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
