use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::*;
use crate::passed_socket::Owner;
use crate::sockets::Sockets;

/// Ids that no file of a test has otherwise.
const OTHER: u32 = 54_321;

fn access(uid: Option<u32>, gid: Option<u32>, mode: u32) -> Access {
    Access { uid, gid, mode, is_for_fastcgi: true }
}

fn facts(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn a_new_socket_has_the_permissions_of_its_listener() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o660, 0o600, 0o666, 0o620] {
        let path = dir.path().join("s");
        let mut sockets = Sockets::at_start();
        sockets.bind(&format!("unix:{}", path.display()), 1, mode).unwrap();
        assert_eq!(facts(&path).2, mode);
        sockets.close();
    }
}

#[test]
fn sockets_that_threads_make_at_once_have_their_permissions() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let path = dir.path().join(format!("s{thread}"));
            scope.spawn(move || {
                for _ in 0..1000 {
                    let mut sockets = Sockets::at_start();
                    sockets.bind(&format!("unix:{}", path.display()), 1, 0o660).unwrap();
                    assert_eq!(facts(&path).2, 0o660);
                    sockets.close();
                }
            });
        }
    });
}

#[test]
fn owner_and_group_are_given_and_taken_back() {
    if !howdah_requirements::root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let address = format!("unix:{}", path.display());
    let mut sockets = Sockets::at_start();
    sockets.bind(&address, 1, access(Some(OTHER), Some(OTHER), 0o640)).unwrap();
    assert_eq!(facts(&path), (OTHER, OTHER, 0o640));
    sockets.bind(&address, 1, access(None, Some(OTHER), 0o660)).unwrap();
    assert_eq!(facts(&path), (0, OTHER, 0o660));
    sockets.bind(&address, 1, access(None, Some(0), 0o600)).unwrap();
    assert_eq!(facts(&path), (0, 0, 0o600));
}

#[test]
fn a_change_takes_effect_when_it_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let address = format!("unix:{}", path.display());
    let mut sockets = Sockets::at_start();
    sockets.bind(&address, 1, 0o666).unwrap();
    for (is_committed, mode) in [(false, 0o666), (true, 0o600)] {
        sockets.prepare(&address, 1, Access::from(0o600)).unwrap();
        if !is_committed {
            sockets.forget_prepared();
        }
        assert_eq!(sockets.commit(), [""; 0]);
        assert_eq!(facts(&path).2, mode);
    }
}

/// An upgraded server, or one whose sockets the service manager has kept, may have been started
/// from another document.
#[test]
fn an_inherited_socket_of_the_server_gets_the_permissions_of_its_listener() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let passed = UnixListener::bind(&path).unwrap();
    let mut sockets = Sockets::at_start();
    sockets.inherit(passed.into(), "", Owner::Server).unwrap();
    sockets.bind(&format!("unix:{}", path.display()), 1, 0o660).unwrap();
    assert_eq!(facts(&path).2, 0o660);
}

/// Whoever connects over HTTP runs no code; a client of FastCGI chooses the script.
#[test]
fn connections_made_for_http_are_closed_when_the_socket_becomes_one_of_fastcgi() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let address = format!("unix:{}", path.display());
    let mut sockets = Sockets::at_start();
    sockets.bind(&address, 8, 0o666).unwrap();
    let waiting = UnixStream::connect(&path).unwrap();
    let fd = sockets.bind(&address, 8, access(None, None, 0o660)).unwrap();
    let fd = fd.try_clone_to_owned().unwrap();
    let accepted = || socket2::Socket::from(fd.try_clone().unwrap()).accept().is_ok();
    assert!(!accepted(), "the backlog is empty");
    assert_eq!(std::io::Read::read(&mut &waiting, &mut [0]).unwrap(), 0);
    let _later = UnixStream::connect(&path).unwrap();
    assert!(accepted());
}

#[test]
fn a_file_that_has_taken_the_place_of_a_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, secret) = (dir.path().join("s"), dir.path().join("secret"));
    let address = format!("unix:{}", path.display());
    let mut sockets = Sockets::at_start();
    sockets.bind(&address, 1, 0o600).unwrap();
    std::fs::write(&secret, "").unwrap();
    let before = facts(&secret);
    for is_link in [false, true] {
        std::fs::remove_file(&path).unwrap();
        if is_link {
            std::os::unix::fs::symlink(&secret, &path).unwrap();
        } else {
            std::fs::hard_link(&secret, &path).unwrap();
        }
        let error = sockets.bind(&address, 1, 0o666).unwrap_err();
        assert!(error.contains("no socket any more"), "{error}");
        assert_eq!(facts(&secret), before);
    }
}

#[test]
fn unknown_users_and_groups_are_named_with_their_places() {
    let base = SocketAccess { place: "/listeners/a/socket".to_owned(), ..SocketAccess::default() };
    let user = SocketAccess { user: Some("no-such-user".to_owned()), ..base.clone() };
    let group = SocketAccess { group: Some("no-such-group".to_owned()), ..base.clone() };
    for (access, expected) in [
        (user, "/listeners/a/socket/user: there is no user \"no-such-user\" on this system"),
        (group, "/listeners/a/socket/group: there is no group \"no-such-group\" on this system"),
    ] {
        let error = Access::look_up(&access, None).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let root = SocketAccess { user: Some("root".to_owned()), ..base.clone() };
    let found = Access::look_up(&root, Some(OTHER)).unwrap();
    assert_eq!((found.uid, found.gid), (Some(0), Some(0)), "the group of the user");
    for (is_for_fastcgi, gid) in [(true, Some(OTHER)), (false, None)] {
        let access = SocketAccess { is_for_fastcgi, ..base.clone() };
        assert_eq!(Access::look_up(&access, Some(OTHER)).unwrap().gid, gid);
    }
}

#[test]
fn an_access_comes_back_from_the_process_that_has_looked_it_up() {
    for access in [access(Some(1), None, 0o640), access(None, Some(7), 0o660), Access::from(0o666)]
    {
        assert_eq!(Access::decode(&access.encode()), Some(access));
    }
    for broken in ["", "1", "1 2 x true", "- - 1", "99999999999 - 1 true", "\u{ff}"] {
        assert_eq!(Access::decode(broken.as_bytes()), None, "{broken}");
    }
}
