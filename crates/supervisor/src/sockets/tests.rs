use super::*;

fn settled() -> Sockets {
    Sockets::retrying_until(Instant::now())
}

#[test]
fn who_starts_waits_for_the_end_of_a_server_that_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [tcp.local_addr().unwrap().to_string(), format!("unix:{}", path.display())];
    let ending = std::thread::spawn(move || {
        std::thread::sleep(RETRY_INTERVAL * 5);
        drop((unix, tcp));
    });
    let mut sockets = Sockets::retrying_until(Instant::now() + Duration::from_secs(60));
    for address in &addresses {
        sockets.bind(address, 1, 0o600).unwrap();
    }
    ending.join().unwrap();
}

#[test]
fn an_address_in_use_is_explained() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = settled().bind(&address, 1, 0o666).unwrap_err();
    assert!(error.starts_with(&address) && error.contains("another program"), "{error}");
}

#[test]
fn a_socket_file_that_cannot_be_made_is_explained_by_its_directory() {
    let refusal = |address| settled().bind(address, 1, 0o600).unwrap_err();
    let error = refusal("unix:/nonexistent/s");
    assert!(error.starts_with("unix:/nonexistent/s: /nonexistent does not exist"), "{error}");
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    assert!(explain("unix:/run/s", &denied).contains("a socket in /run;"));
    assert!(explain("unix:s", &denied).contains("a socket in this directory;"));
    assert!(explain("*:80", &denied).contains("need root"));
}

#[test]
fn the_same_address_gives_the_same_socket() {
    let mut sockets = settled();
    let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
    let first = inode(sockets.bind("127.0.0.1:0", 1, 0).unwrap());
    assert_eq!(first, inode(sockets.bind("127.0.0.1:0", 1, 0).unwrap()));
}

#[test]
fn a_socket_file_left_behind_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}/s", dir.path().display());
    drop(std::os::unix::net::UnixListener::bind(&address[5..]).unwrap());
    let mut sockets = settled();
    sockets.bind(&address, 1, 0o600).unwrap();
    let error = settled().bind(&address, 1, 0o600).unwrap_err();
    assert!(error.contains("another program"), "{error}");
    sockets.unbind(&address);
    assert!(!Path::new(&address[5..]).exists());
}

fn local_address(fd: BorrowedFd<'_>) -> String {
    let socket = Socket::from(fd.try_clone_to_owned().unwrap());
    socket.local_addr().unwrap().as_socket().unwrap().to_string()
}

#[test]
fn an_inherited_socket_is_taken_with_the_connections_that_wait_in_it() {
    let before = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = before.local_addr().unwrap().to_string();
    let _client = std::net::TcpStream::connect(&address).unwrap();
    let mut sockets = settled();
    sockets.inherit(before.into(), "", Owner::Server).unwrap();
    let fd = sockets.bind(&address, 1, 0).unwrap().try_clone_to_owned().unwrap();
    assert!(std::net::TcpListener::from(fd).accept().is_ok());
    assert_eq!(sockets.settle_inherited(), [""; 0], "it is not closed");
    assert!(std::net::TcpStream::connect(&address).is_ok());
}

#[test]
fn a_socket_that_no_listener_has_is_closed_and_named_unless_it_is_of_a_socket_unit() {
    let mut sockets = settled();
    let mut pass = |owner| {
        let passed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap().to_string();
        sockets.inherit(passed.into(), "web", owner).unwrap();
        address
    };
    let (own, manager) = (pass(Owner::Server), pass(Owner::ServiceManager));
    let messages = sockets.settle_inherited().join("\n");
    assert!(messages.contains(&format!("{own} (\"web\") is closed")), "{messages}");
    assert!(messages.contains(&format!("to {manager} (\"web\")")), "{messages}");
    assert!(std::net::TcpStream::connect(&own).is_err());
    // A later configuration takes it, gives it up, and takes it again.
    for _ in 0..2 {
        sockets.bind(&manager, 1, 0).unwrap();
        sockets.unbind(&manager);
    }
    assert!(std::net::TcpStream::connect(&manager).is_ok(), "its address cannot be bound again");
}

#[test]
fn an_unclaimed_socket_of_the_server_is_not_in_the_way_of_a_new_address() {
    let before = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = before.local_addr().unwrap().port();
    let mut sockets = settled();
    sockets.inherit(before.into(), "", Owner::Server).unwrap();
    let address = format!("127.0.0.1:{port}");
    assert_eq!(local_address(sockets.bind(&address, 1, 0).unwrap()), address);
}

#[test]
fn a_socket_of_the_service_manager_that_is_in_the_way_is_named() {
    let passed = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = passed.local_addr().unwrap().port();
    let mut sockets = settled();
    sockets.inherit(passed.into(), "web", Owner::ServiceManager).unwrap();
    for _ in 0..2 {
        let error = sockets.bind(&format!("127.0.0.1:{port}"), 1, 0).unwrap_err();
        assert!(error.contains(&format!("has opened 0.0.0.0:{port} (\"web\")")), "{error}");
        sockets.bind(&format!("*:{port}"), 1, 0).unwrap();
    }
}

#[test]
fn the_file_of_a_socket_belongs_to_the_process_that_has_made_it() {
    let dir = tempfile::tempdir().unwrap();
    let pass = |sockets: &mut Sockets, name: &str, owner| {
        let path = dir.path().join(name);
        let passed = std::os::unix::net::UnixListener::bind(&path).unwrap();
        sockets.inherit(passed.into(), "", owner).unwrap();
        let address = format!("unix:{}", path.display());
        sockets.bind(&address, 1, 0o777).unwrap();
        (path, address)
    };
    let mut sockets = settled();
    let (manager, address) = pass(&mut sockets, "manager", Owner::ServiceManager);
    sockets.unbind(&address);
    let (own, address) = pass(&mut sockets, "own", Owner::Server);
    sockets.unbind(&address);
    assert!(manager.exists() && !own.exists());
}

#[test]
fn the_file_of_a_socket_that_no_listener_has_is_removed_unless_another_server_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    let (unused, replaced) = (dir.path().join("unused"), dir.path().join("replaced"));
    let listen = |path| std::os::unix::net::UnixListener::bind(path).unwrap();
    let mut sockets = settled();
    sockets.inherit(listen(&unused).into(), "", Owner::Server).unwrap();
    sockets.inherit(listen(&replaced).into(), "", Owner::Server).unwrap();
    std::fs::remove_file(&replaced).unwrap();
    let _other = listen(&replaced);
    assert_eq!(sockets.settle_inherited().len(), 2);
    assert!(!unused.exists() && replaced.exists());
}

#[test]
fn an_inherited_unix_socket_without_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let passed = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut sockets = settled();
    sockets.inherit(passed.into(), "", Owner::Server).unwrap();
    sockets.bind(&format!("unix:{}", path.display()), 1, 0o600).unwrap();
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
}

/// systemd's default mode of a socket's file is 0666; all users could control the server.
#[test]
fn a_control_socket_that_everybody_can_connect_to_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let passed = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&path, mode).unwrap();
    let mut sockets = settled();
    sockets.inherit(passed.into(), "", Owner::ServiceManager).unwrap();
    let error = sockets.bind(&format!("unix:{}", path.display()), 1, 0o600).unwrap_err();
    assert!(error.contains("SocketMode=0600"), "{error}");
}

#[test]
fn a_default_control_socket_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let addresses = ["a", "b"].map(|name| format!("unix:{}/{name}", dir.path().display()));
    let passed = std::os::unix::net::UnixListener::bind(&addresses[1][5..]).unwrap();
    let mut sockets = settled();
    sockets.inherit(passed.into(), "", Owner::Server).unwrap();
    assert_eq!(sockets.bind_first(&addresses, 1, 0o600), Ok(Some(addresses[1].clone())));
}

#[test]
fn the_first_socket_that_is_free_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let addresses = ["a", "b"].map(|name| format!("unix:{}/{name}", dir.path().display()));
    drop(std::os::unix::net::UnixListener::bind(&addresses[0][5..]).unwrap());
    let mut servers: Vec<_> = (0..3).map(|_| settled()).collect();
    let mut bound = servers.iter_mut().map(|sockets| sockets.bind_first(&addresses, 1, 0o600));
    assert_eq!(bound.next().unwrap().as_ref(), Ok(&Some(addresses[0].clone())), "it was left");
    assert_eq!(bound.next().unwrap().as_ref(), Ok(&Some(addresses[1].clone())));
    assert!(bound.next().unwrap().unwrap_err().contains("another program"));
    assert_eq!(settled().bind_first(&[], 1, 0o600), Ok(None));
    servers.iter_mut().for_each(Sockets::close);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
