//! Files that other users can neither change nor replace.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links in a path.
const MAX_LINKS: usize = 40;

/// Returns the path of a file without symbolic links. An error if other users than root and this
/// process's could change the file, or anything that the path leads through: a directory, or a
/// link. The result therefore holds later on too.
pub fn protected(file: &Path) -> io::Result<PathBuf> {
    if !file.is_absolute() {
        return Err(refuse(file, "does not begin with a slash"));
    }
    let mut real = PathBuf::from("/");
    let mut rest = parts(file);
    let mut links = 0;
    check(&real)?;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        if !fs::symlink_metadata(&next)?.is_symlink() {
            check(&next)?;
            real = next;
            continue;
        }
        check_owner(&next)?;
        links += 1;
        if links > MAX_LINKS {
            return Err(rustix::io::Errno::LOOP.into());
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        let mut target = parts(&target);
        target.append(&mut rest);
        rest = target;
    }
    Ok(real)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let names = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn check_owner(path: &Path) -> io::Result<fs::Metadata> {
    let found = fs::symlink_metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    match found.uid() {
        0 => Ok(found),
        owner if owner == own => Ok(found),
        _ => Err(refuse(path, "belongs to another user, who could change what is run")),
    }
}

fn check(path: &Path) -> io::Result<()> {
    let found = check_owner(path)?;
    // In a sticky directory such as /tmp users cannot replace files of others.
    let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
    if found.mode() & 0o022 != 0 && !is_sticky {
        Err(refuse(path, "can be changed by other users; take that right away from them"))
    } else {
        Ok(())
    }
}

fn refuse(path: &Path, problem: &str) -> io::Error {
    io::Error::other(format!("{} {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_link_in_a_directory_of_another_user_protects_nothing() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| fs::canonicalize(place.path()).unwrap().join(name);
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for directory in ["good", "bad"] {
            fs::create_dir(at(directory)).unwrap();
        }
        fs::write(at("good/php.ini"), "").unwrap();
        symlink(at("good/php.ini"), at("bad/php.ini")).unwrap();
        symlink("good", at("link")).unwrap();
        symlink("../good/php.ini", at("good/up")).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in
            ["good/php.ini", "bad/php.ini", "link/php.ini", "good/up", "bad/../good/php.ini"]
        {
            assert_eq!(protected(&at(path)).unwrap(), at("good/php.ini"), "{path}");
        }
        mode("bad", 0o777);
        for path in ["bad/php.ini", "bad/../good/php.ini"] {
            assert!(
                protected(&at(path)).unwrap_err().to_string().contains("can be changed"),
                "{path}"
            );
        }
        mode("bad", 0o1777);
        assert!(protected(&at("bad/php.ini")).is_ok(), "others cannot replace the link");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(at("bad/php.ini"), Some(12345), None).unwrap();
            assert!(protected(&at("bad/php.ini")).is_err(), "its owner can");
            chown(at("good"), Some(12345), None).unwrap();
            assert!(protected(&at("link/php.ini")).is_err());
        }
    }

    #[test]
    fn links_in_a_circle_are_an_error() {
        let place = tempfile::tempdir().unwrap();
        symlink("b", place.path().join("a")).unwrap();
        symlink("a", place.path().join("b")).unwrap();
        assert!(protected(&place.path().join("a")).is_err());
        assert!(protected(Path::new("relative")).is_err());
    }
}
