//! Checks at the start that the server's user can read a site, and that symbolic links on the path
//! to it are followed. Otherwise every request would be answered with 403.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use howdah_config::Config;
use howdah_sys::credentials::Credentials;

/// Checks that `user` can read `directory` and enter all directories above it. The error names the
/// directory without permission and what to do.
pub fn check(directory: &Path, user: &Credentials) -> Result<(), String> {
    if user.uid == 0 {
        return Ok(());
    }
    let path = fs::canonicalize(directory)
        .map_err(|error| format!("cannot serve {}: {error}", directory.display()))?;
    let ancestors: Vec<_> = path.ancestors().collect();
    for ancestor in ancestors.into_iter().rev() {
        let metadata = fs::metadata(ancestor).map_err(|error| {
            format!("cannot read the attributes of {}: {error}", ancestor.display())
        })?;
        let wanted = if ancestor == path { 0o5 } else { 0o1 };
        if allowed(&metadata, user) & wanted != wanted {
            return Err(format!(
                "cannot serve {}: the user \"{}\" may not read {}; permit it with chmod o+rx, \
                 move the site, or choose another user with --user",
                directory.display(),
                user.name,
                ancestor.display()
            ));
        }
    }
    Ok(())
}

/// Checks that the server follows all symbolic links on the path to a site's document root. The
/// error names the link and what to do.
pub fn check_links(directory: &Path, config: &Config) -> Result<(), String> {
    let served = config.action_paths();
    let link = served.iter().find_map(|s| howdah_files::refused_link(&s.file, s.is_directory));
    link.map_or(Ok(()), |link| {
        let directory = directory.display();
        Err(format!("cannot serve {directory}: {link}; name the directory itself"))
    })
}

/// Returns the permission bits that apply to the user.
fn allowed(metadata: &fs::Metadata, user: &Credentials) -> u32 {
    let mode = metadata.mode();
    if metadata.uid() == user.uid {
        mode >> 6 & 0o7
    } else if metadata.gid() == user.gid || user.groups.contains(&metadata.gid()) {
        mode >> 3 & 0o7
    } else {
        mode & 0o7
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_directory_that_is_closed_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        let site = closed.join("site");
        fs::create_dir_all(&site).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let stranger = Credentials {
            uid: 4_000_000,
            gid: 4_000_000,
            groups: Vec::new(),
            name: "stranger".to_owned(),
            home: "/".to_owned(),
        };
        let error = check(&site, &stranger).unwrap_err();
        assert!(error.contains("\"stranger\"") && error.contains("closed;"), "{error}");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(check(&site, &stranger), Ok(()));
    }
}
