//! Files of sites: made and replaced as a whole, so that the server reads the old or the new one.
//!
//! A file of a site chooses a user. So its directory must be one that nobody else can change, and no
//! link is followed in it.

use std::fs::{DirBuilder, File, Permissions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fsync, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::failure::Failure;

/// Makes the directory of sites, if there is none.
pub(super) fn make_directory(directory: &Path) -> Result<(), Failure> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Ok(()) => {
            let open = Permissions::from_mode(0o755);
            std::fs::set_permissions(directory, open).map_err(|error| failed(directory, error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(directory, error)),
    }
}

/// Makes a file. Fails if there is one of this name.
pub(super) fn create(file: &Path, text: &[u8]) -> Result<(), Failure> {
    let (directory, name) = open(file)?;
    let new = write(&directory, file, &name, text, 0o644)?;
    let renamed = renameat_with(&directory, &new, &directory, &name, RenameFlags::NOREPLACE);
    finish(&directory, &new, file, renamed)
}

/// Replaces a file, which keeps its mode without what lets others change it.
pub(super) fn replace(file: &Path, text: &[u8]) -> Result<(), Failure> {
    let (directory, name) = open(file)?;
    let there = std::fs::symlink_metadata(file).map_err(|error| failed(file, error))?;
    if !there.is_file() {
        let what = if there.is_symlink() { "a link" } else { "no regular file" };
        return Err(Failure::Failed(format!(
            "{}: it is {what}, and is not replaced; change the file that it stands for",
            file.display()
        )));
    }
    let new = write(&directory, file, &name, text, there.mode() & 0o755)?;
    finish(&directory, &new, file, renameat(&directory, &new, &directory, &name))
}

/// Removes a file.
pub(super) fn remove(file: &Path) -> Result<(), Failure> {
    let (directory, name) = open(file)?;
    unlinkat(&directory, &*name, AtFlags::empty()).map_err(|error| failed(file, error.into()))?;
    let _ = fsync(&directory);
    Ok(())
}

/// Gives a file another name in its directory. Fails if there is a file of that name.
pub(super) fn rename(file: &Path, new: &Path) -> Result<(), Failure> {
    let ((directory, name), (to, new_name)) = (open(file)?, open(new)?);
    renameat_with(&directory, &*name, &to, &*new_name, RenameFlags::NOREPLACE)
        .map_err(|error| explained(new, error))?;
    let _ = fsync(&directory);
    Ok(())
}

/// Opens the directory of a file, which only this user and root may be able to change.
fn open(file: &Path) -> Result<(OwnedFd, String), Failure> {
    let above = file.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        openat(CWD, above, flags, Mode::empty()).map_err(|error| failed(above, error.into()))?;
    let directory = File::from(directory);
    let metadata = directory.metadata().map_err(|error| failed(above, error))?;
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = metadata.uid() != own && metadata.uid() != 0;
    if is_foreign || metadata.mode() & 0o022 != 0 {
        let path = above.display();
        return Err(Failure::Failed(format!(
            "{path}: others can change it, and a site chooses the user that PHP runs as; type: \
             chown root:root {path} && chmod go-w {path}"
        )));
    }
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok((directory.into(), name.to_owned()))
}

/// Writes a file beside the one of this name. Returns its name, which no pattern of sites has.
fn write(
    directory: &OwnedFd,
    file: &Path,
    name: &str,
    text: &[u8],
    mode: u32,
) -> Result<String, Failure> {
    let new = format!(".{name}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // One of a former process with this number, which was killed.
    let _ = unlinkat(directory, &*new, AtFlags::empty());
    let opened = openat(directory, &*new, flags, Mode::from_raw_mode(0o600));
    let mut opened = File::from(opened.map_err(|error| failed(file, error.into()))?);
    let written = opened
        .write_all(text)
        .and_then(|()| opened.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| opened.sync_all());
    match written {
        Ok(()) => Ok(new),
        Err(error) => {
            let _ = unlinkat(directory, &*new, AtFlags::empty());
            Err(failed(file, error))
        }
    }
}

/// Stores the new name, or removes the file that could not get it.
fn finish(
    directory: &OwnedFd,
    new: &str,
    file: &Path,
    renamed: Result<(), Errno>,
) -> Result<(), Failure> {
    if let Err(error) = renamed {
        let _ = unlinkat(directory, new, AtFlags::empty());
        return Err(explained(file, error));
    }
    let _ = fsync(directory);
    Ok(())
}

fn explained(file: &Path, error: Errno) -> Failure {
    match error {
        Errno::EXIST => Failure::Failed(format!("{}: there is such a file", file.display())),
        error => failed(file, error.into()),
    }
}

/// Returns the failure of an access to a file.
pub(super) fn failed(file: &Path, error: std::io::Error) -> Failure {
    let advice = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; run the command as root: sudo howdah site",
        _ => "",
    };
    Failure::Failed(format!("{}: {error}{advice}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_made_once_and_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.json");
        create(&file, b"1").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o644);
        assert!(create(&file, b"2").is_err());
        fs::set_permissions(&file, Permissions::from_mode(0o660)).unwrap();
        replace(&file, b"3").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        let other = directory.path().join("b.json");
        create(&other, b"4").unwrap();
        assert!(rename(&file, &other).is_err());
        remove(&other).unwrap();
        rename(&file, &other).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"3");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_not_followed_and_a_shared_directory_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let (file, target) = (directory.path().join("a.json"), directory.path().join("target"));
        fs::write(&target, "kept").unwrap();
        symlink(&target, &file).unwrap();
        assert!(create(&file, b"1").is_err());
        assert!(replace(&file, b"1").is_err());
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let Err(Failure::Failed(problem)) = create(&directory.path().join("b.json"), b"1") else {
            panic!()
        };
        assert!(problem.contains("chmod go-w"), "{problem}");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    }
}
