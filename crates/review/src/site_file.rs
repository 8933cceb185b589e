//! Files of a site that may belong to another user than that of the command.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use howdah_sys::regular_file;

/// Returns at most `limit` bytes of a regular file. A link out of the site is followed only if it
/// is root's, or its target has the same owner, which is not root: otherwise `.htaccess ->
/// /etc/shadow` would show its owner a file that only root may read.
///
/// # Errors
///
/// As [`regular_file::open`]; [`io::ErrorKind::PermissionDenied`] for a link that is not followed.
pub fn read(root: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = regular_file::open(path)?;
    // The name of the opened file: the path may lead elsewhere by now.
    let opened = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let owner = metadata.uid();
    let is_owners = || fs::symlink_metadata(path).is_ok_and(|link| link.uid() == owner);
    if !opened.starts_with(root)
        && (owner == 0 || !is_owners())
        && !is_link_of_root(root, path, &opened)
    {
        let problem = "it is a link out of the site to a file of another user, and is not followed";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns true if a path in the site is a link of root to this file: only the administrator can
/// have made it.
fn is_link_of_root(root: &Path, path: &Path, target: &Path) -> bool {
    let is_in_site =
        |directory: &Path| fs::canonicalize(directory).is_ok_and(|real| real.starts_with(root));
    let is_roots = |link: fs::Metadata| link.is_symlink() && link.uid() == 0;
    fs::symlink_metadata(path).is_ok_and(is_roots)
        && path.parent().is_some_and(is_in_site)
        && fs::canonicalize(path).is_ok_and(|real| real == target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_site_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let directory = fs::canonicalize(directory.path()).unwrap();
        let root = directory.join("site");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("inside"), "inside").unwrap();
        std::os::unix::fs::symlink("inside", root.join("link")).unwrap();
        std::os::unix::fs::symlink("/proc/version", root.join("out")).unwrap();
        // A link of root is the administrator's; others may make theirs only as themselves.
        let _ = std::os::unix::fs::lchown(root.join("out"), Some(65534), None);
        assert_eq!(read(&root, &root.join("link"), 3).unwrap(), b"ins");
        let error = read(&root, &root.join("out"), 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
