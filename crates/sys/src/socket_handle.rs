//! Unix sockets of upstreams, opened under the rule for symbolic links.
//!
//! The directory of a site's socket often belongs to a site, which can replace it by a link. The
//! router may connect to the sockets of all sites, so a link must not select another one. Every
//! link in the path is checked like one that leads out of a share ([`links`]): links of root are
//! followed, links of other users only to files that these may publish.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::links::{self, Route, WalkError, open_resolved};

/// An `O_PATH` descriptor of a socket.
#[derive(Debug)]
pub struct SocketHandle(File);

impl SocketHandle {
    /// Opens the socket of a path. A link that is not followed is
    /// [`io::ErrorKind::PermissionDenied`]; the message names it.
    pub fn find(path: &Path) -> io::Result<SocketHandle> {
        let name = path.as_os_str().as_bytes();
        let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::NO_SYMLINKS);
        match open_resolved(CWD, name, flags, resolve) {
            // The path has a link, or the kernel has no `openat2`.
            Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => SocketHandle::find_through_links(name),
            file => Ok(SocketHandle(file?)),
        }
    }

    fn find_through_links(name: &[u8]) -> io::Result<SocketHandle> {
        let is_absolute = name.starts_with(b"/");
        // The whole path is the root: every link is checked by its owner.
        let route = Route { follows_all: false, chroot: None, is_absolute, root: name, path: b"" };
        match links::walk(&route) {
            Ok(resolved) => Ok(SocketHandle(resolved.into_file())),
            Err(WalkError::Link(link)) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, link.socket_error()))
            }
            Err(WalkError::System(error)) if links::is_absent(error) => Err(Errno::NOENT.into()),
            Err(WalkError::System(Errno::LOOP | Errno::XDEV | Errno::PERM)) => {
                Err(Errno::ACCESS.into())
            }
            Err(WalkError::System(error)) => Err(error.into()),
            Err(WalkError::Absent | WalkError::Denied | WalkError::Loop) => {
                Err(Errno::ACCESS.into())
            }
        }
    }

    /// Returns the path to connect to; valid while this handle exists. It leads to the opened file
    /// even if the name has changed. The kernel refuses to connect if that file is not a socket.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    const ALICE: u32 = 54_321;
    const BOB: u32 = 54_322;

    fn connect(path: &Path) -> io::Result<UnixStream> {
        UnixStream::connect(SocketHandle::find(path)?.path())
    }

    fn give(path: &Path, owner: u32) {
        lchown(path, Some(owner), Some(owner)).unwrap();
    }

    /// Creates a listening socket in its own directory; the user owns both.
    fn socket_of(path: &Path, owner: u32) -> UnixListener {
        let directory = path.parent().unwrap();
        fs::create_dir_all(directory).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).unwrap();
        [path, directory].into_iter().for_each(|path| give(path, owner));
        listener
    }

    #[test]
    fn a_socket_is_connected_to_also_by_a_link_of_its_owner() {
        let root = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(root.path().join("app.sock")).unwrap();
        symlink("app.sock", root.path().join("link.sock")).unwrap();
        symlink(".", root.path().join("current")).unwrap();
        for name in ["app.sock", "link.sock", "current/link.sock", "./current/app.sock"] {
            connect(&root.path().join(name)).unwrap();
        }
    }

    #[test]
    fn what_is_no_socket_or_missing_cannot_be_connected_to() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        symlink("missing", root.path().join("link")).unwrap();
        symlink("loop", root.path().join("loop")).unwrap();
        let kind = |name: &str| connect(&root.path().join(name)).unwrap_err().kind();
        assert_eq!(kind("file"), io::ErrorKind::ConnectionRefused);
        assert_eq!(kind("missing"), io::ErrorKind::NotFound);
        assert_eq!(kind("file/below"), io::ErrorKind::NotADirectory);
        // The owner of a link does not learn whether its target exists.
        assert!(kind("link") == io::ErrorKind::PermissionDenied || howdah_requirements::is_root());
        assert_eq!(kind("loop"), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_link_to_the_socket_of_another_user_is_refused_wherever_it_is_in_the_path() {
        if !howdah_requirements::root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let _alice = socket_of(&at("a/app.sock"), ALICE);
        let _bob = socket_of(&at("b/private.sock"), BOB);
        for (target, name, owner) in [
            ("../b/private.sock", "a/file.sock", ALICE),
            ("../b", "a/run", ALICE),
            ("file.sock", "a/chain.sock", ALICE),
            ("a/file.sock", "roots-to-alices.sock", 0),
            ("b/private.sock", "roots.sock", 0),
            ("b", "roots", 0),
            ("a/app.sock", "alices.sock", ALICE),
        ] {
            symlink(target, at(name)).unwrap();
            give(&at(name), owner);
        }
        for name in
            ["a/app.sock", "b/private.sock", "roots.sock", "roots/private.sock", "alices.sock"]
        {
            connect(&at(name)).unwrap();
        }
        for name in ["a/file.sock", "a/run/private.sock", "a/chain.sock", "roots-to-alices.sock"] {
            let error = connect(&at(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}");
            let text = error.to_string();
            assert!(text.contains("of user 54321 leads to a target of user 54322"), "{text}");
        }
    }

    #[test]
    fn a_socket_that_is_replaced_after_it_was_found_is_not_the_one_connected_to() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("app.sock"), root.path().join("other.sock"));
        let _first = UnixListener::bind(&path).unwrap();
        let second = UnixListener::bind(&other).unwrap();
        let found = SocketHandle::find(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        UnixStream::connect(found.path()).unwrap();
        second.set_nonblocking(true).unwrap();
        assert_eq!(second.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
