//! The obstacle that keeps a user from a file, and the command that removes it: for administrators,
//! in the log and in the output of commands.
//!
//! The permission bits of each directory on the path are compared with the user, as the kernel
//! does. They do not show access control lists, security modules and sandboxes.
//!
//! The owner of a site may mislead an administrator with a link: no command is shown that opens the
//! target of a link outside of its directory, files of the system or private keys.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::credentials::Credentials;

/// An access of a user to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Look at it: all directories above it are entered.
    Look,
    /// Enter it; it is a directory.
    Enter,
    /// Read it. A directory is also entered.
    Read,
}

/// An obstacle that keeps a user from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The path without links; of the directory that cannot be entered, or of the file.
    pub path: PathBuf,
    user: String,
    kind: Kind,
    /// The link that leads to the path from outside of its directory.
    link: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Permission bits that are missing, and whose they are: `u`, `g` or `o`.
    Bits { whose: char, missing: u32 },
    /// The bits permit it.
    Other,
}

impl Obstacle {
    /// Finds the obstacle that keeps `user` from a file; `None` if its permissions permit it, or it
    /// does not exist.
    pub fn find(path: &Path, user: &Credentials, wanted: Wanted) -> Option<Obstacle> {
        if user.uid == 0 {
            return None;
        }
        let absolute = std::path::absolute(path).ok()?;
        let mut rest: VecDeque<OsString> = names(&absolute);
        let (mut at, mut links) = (PathBuf::from("/"), Vec::new());
        while let Some(name) = rest.pop_front() {
            if let Some(obstacle) = Obstacle::at(&at, &fs::metadata(&at).ok()?, user, 0o1) {
                return Some(obstacle.behind(&links));
            }
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            if fs::symlink_metadata(&next).ok()?.is_symlink() {
                let target = fs::read_link(&next).ok().filter(|_| links.len() < MAX_LINKS)?;
                links.push(next);
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                names(&target).into_iter().rev().for_each(|name| rest.push_front(name));
            } else {
                at = next;
            }
        }
        let metadata = fs::metadata(&at).ok()?;
        let bits = match wanted {
            Wanted::Look => 0,
            Wanted::Enter => 0o1,
            Wanted::Read if metadata.is_dir() => 0o5,
            Wanted::Read => 0o4,
        };
        Some(Obstacle::at(&at, &metadata, user, bits)?.behind(&links))
    }

    /// Returns why the kernel has refused `user` a file: like [`Obstacle::find`], but there is an
    /// answer if the permissions permit it.
    pub fn explain(path: &Path, user: &Credentials, wanted: Wanted) -> Obstacle {
        Obstacle::find(path, user, wanted).unwrap_or_else(|| Obstacle {
            path: path.to_owned(),
            user: user.name.clone(),
            kind: Kind::Other,
            link: None,
        })
    }

    /// Notes which of the links on its way leads out of the directory that has it.
    fn behind(mut self, links: &[PathBuf]) -> Obstacle {
        let leads_out =
            |link: &&PathBuf| !link.parent().is_some_and(|own| self.path.starts_with(own));
        self.link = links.iter().find(leads_out).cloned();
        self
    }

    fn at(path: &Path, metadata: &Metadata, user: &Credentials, bits: u32) -> Option<Obstacle> {
        let (whose, shift) = if metadata.uid() == user.uid {
            ('u', 6)
        } else if metadata.gid() == user.gid || user.groups.contains(&metadata.gid()) {
            ('g', 3)
        } else {
            ('o', 0)
        };
        let missing = bits & !(metadata.mode() >> shift);
        (missing != 0).then(|| Obstacle {
            path: path.to_owned(),
            user: user.name.clone(),
            kind: Kind::Bits { whose, missing },
            link: None,
        })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, path) = (&self.user, Typed(&self.path));
        let Kind::Bits { whose, missing } = self.kind else {
            return write!(
                f,
                "the user \"{user}\" may not open {path}, although its permissions allow it; an \
                 access control list, AppArmor or SELinux denies it, or the file was not there \
                 when the server was started (then restart it)"
            );
        };
        let (verb, rights) = match missing {
            0o1 => ("enter", "x"),
            0o4 => ("read", "r"),
            _ => ("read", "rx"),
        };
        write!(f, "the user \"{user}\" may not {verb} {path}")?;
        let is_home_of_root = self.path == Path::new("/root");
        let is_secret = is_home_of_root || is_of_system(&self.path) || is_private_key(&self.path);
        match (&self.link, whose) {
            (Some(link), _) if is_secret => write!(
                f,
                ", where the link {} leads: the site should not have that file, so remove the link",
                Typed(link)
            ),
            (Some(link), _) => write!(
                f,
                ", where the link {} leads: permit it there if that is part of the site, or \
                 remove the link",
                Typed(link)
            ),
            (None, _) if is_home_of_root => f.write_str(
                ", and should not: it is the directory of the administrator; move the site to \
                 another one, such as /srv/NAME",
            ),
            (None, _) if is_secret => {
                f.write_str(", and should not: it is a file of the system or a private key")
            }
            (None, 'o') => write!(
                f,
                "; permit it with chmod o+{rights} {path} (for this user alone: setfacl -m \
                 u:{user}:{rights} {path})"
            ),
            (None, whose) => write!(f, "; permit it with chmod {whose}+{rights} {path}"),
        }
    }
}

/// Returns true for files of the system, which no site has.
fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|directory| path.starts_with(directory))
}

/// Returns true for files that have private keys by their names.
fn is_private_key(path: &Path) -> bool {
    let is_key = |name: &OsStr| KEY_ENDINGS.iter().any(|ending| name.eq_ignore_ascii_case(ending));
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    path.extension().is_some_and(is_key)
        || name.starts_with(b"id_")
        || path.components().any(|component| component.as_os_str() == ".ssh")
}

/// Directories of the system.
const SYSTEM: [&str; 7] = ["/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/lib/howdah"];

/// Endings of files with private keys.
const KEY_ENDINGS: [&str; 5] = ["key", "p12", "pem", "pfx", "ppk"];

/// A path as it is typed in a shell.
struct Typed<'a>(&'a Path);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
        if text.chars().all(is_plain) {
            f.write_str(&text)
        } else {
            write!(f, "'{}'", text.replace('\'', r"'\''"))
        }
    }
}

/// Most links that are followed, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns the names of a path, and `..`.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn user(uid: u32) -> Credentials {
        let (gid, groups) = (uid, Vec::new());
        Credentials { uid, gid, groups, name: format!("user-{uid}"), home: "/".to_owned() }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_directory_that_is_closed_is_named_and_what_to_type() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (closed, stranger) = (dir.join("it's closed"), user(4_000_000));
        let file = closed.join("site/file");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        symlink(&file, dir.join("link")).unwrap();
        let modes = [(dir.as_path(), 0o711), (&closed, 0o700), (file.parent().unwrap(), 0o711)];
        modes.iter().for_each(|(path, mode)| set_mode(path, *mode));
        set_mode(&file, 0o640);
        let shown = format!("'{}/it'\\''s closed'", dir.display());
        for path in [file.clone(), dir.join("link"), dir.join("../").join(&file)] {
            let found = Obstacle::find(&path, &stranger, Wanted::Read).unwrap();
            let text = format!(
                "the user \"user-4000000\" may not enter {shown}; permit it with chmod o+x \
                 {shown} (for this user alone: setfacl -m u:user-4000000:x {shown})"
            );
            assert_eq!(found.to_string(), text);
        }
        set_mode(&closed, 0o711);
        let found = Obstacle::find(&file, &stranger, Wanted::Read).unwrap();
        assert!(
            found.to_string().contains("may not read") && found.to_string().contains("chmod o+r '")
        );
        assert_eq!(Obstacle::find(&file, &stranger, Wanted::Look), None);
        let site = file.parent().unwrap();
        assert_eq!(Obstacle::find(site, &stranger, Wanted::Enter), None);
        let found = Obstacle::find(site, &stranger, Wanted::Read).unwrap();
        assert!(found.to_string().contains("chmod o+r '"), "{found}");
    }

    #[test]
    fn a_member_of_the_group_gets_the_rights_of_the_group() {
        let dir = tempfile::tempdir().unwrap();
        let group = fs::metadata(dir.path()).unwrap().gid();
        set_mode(dir.path(), 0o700);
        let member = Credentials { groups: vec![group], ..user(4_000_000) };
        let text = Obstacle::find(dir.path(), &member, Wanted::Read).unwrap().to_string();
        assert!(text.contains("; permit it with chmod g+rx ") && !text.contains("o+"), "{text}");
    }

    #[test]
    fn nobody_is_led_by_a_link_to_open_what_is_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (site, other, stranger) = (dir.join("site"), dir.join("other"), user(4_000_000));
        fs::create_dir_all(site.join("releases/1")).unwrap();
        fs::create_dir(&other).unwrap();
        [&dir, &site, &site.join("releases"), &site.join("releases/1")]
            .iter()
            .for_each(|path| set_mode(path, 0o711));
        for file in [site.join("releases/1/a"), other.join("b"), site.join("server.key")] {
            fs::write(&file, "").unwrap();
            set_mode(&file, 0o600);
        }
        set_mode(&other, 0o711);
        symlink("releases/1", site.join("current")).unwrap();
        symlink("../other", site.join("linked")).unwrap();
        symlink("/etc/shadow", site.join("shadow")).unwrap();
        let text = |name: &str| {
            Obstacle::find(&site.join(name), &stranger, Wanted::Read).unwrap().to_string()
        };
        // A deployment's link stays in its directory.
        let inside = text("current/a");
        assert!(inside.contains(&format!("chmod o+r {}/releases/1/a", site.display())), "{inside}");
        let link = format!(
            "may not read {}/b, where the link {}/linked leads",
            other.display(),
            site.display()
        );
        let outside = text("linked/b");
        assert!(outside.contains(&link) && !outside.contains("chmod"), "{outside}");
        set_mode(&other, 0o700);
        let outside = text("linked/b");
        assert!(outside.contains("may not enter") && !outside.contains("chmod"), "{outside}");
        let system = text("shadow");
        let link = format!("where the link {}/shadow leads", site.display());
        assert!(system.contains("may not read /etc/shadow") && system.contains(&link), "{system}");
        let key = text("server.key");
        assert!(key.contains("private key"), "{key}");
        for text in [system, key] {
            assert!(!text.contains("chmod") && !text.contains("setfacl"), "{text}");
        }
    }

    #[test]
    fn nobody_is_led_to_open_the_directory_of_the_administrator() {
        let kind = Kind::Bits { whose: 'o', missing: 0o1 };
        let path = PathBuf::from("/root");
        let found = Obstacle { path, user: "shop".to_owned(), kind, link: None };
        let text = found.to_string();
        assert!(text.contains("may not enter /root") && text.contains("move the site"), "{text}");
        assert!(!text.contains("chmod") && !text.contains("setfacl"), "{text}");
        let text = Obstacle { link: Some("/srv/shop/a".into()), ..found }.to_string();
        assert!(text.ends_with("so remove the link"), "{text}");
    }

    #[test]
    fn the_bits_of_the_owner_count_for_the_owner() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o077);
        let owner = user(fs::metadata(&file).unwrap().uid());
        let found = Obstacle::find(&file, &owner, Wanted::Read);
        match owner.uid {
            0 => assert_eq!(found, None),
            _ => assert!(found.unwrap().to_string().contains("chmod u+r")),
        }
    }

    #[test]
    fn what_permissions_do_not_show_and_what_is_not_there() {
        let (root, missing) = (Path::new("/"), Path::new("/nonexistent/file"));
        assert_eq!(Obstacle::find(missing, &user(4_000_000), Wanted::Read), None);
        let text = Obstacle::explain(root, &user(4_000_000), Wanted::Enter).to_string();
        assert!(text.contains("although its permissions allow it"), "{text}");
    }
}
