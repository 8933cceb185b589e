use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener};

use super::*;

fn inherit(fd: impl Into<OwnedFd>, name: &str) -> Listening {
    Listening::inherit(fd.into(), name, Owner::Server).unwrap()
}

fn dual() -> (OwnedFd, u16) {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
    socket.set_only_v6(false).unwrap();
    socket.bind(&SocketAddr::from(([0; 8], 0)).into()).unwrap();
    socket.listen(1).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket.into(), port)
}

#[test]
fn only_sockets_that_listen_or_take_datagrams_are_taken() {
    let refusal = |fd: OwnedFd| Listening::inherit(fd, "", Owner::ServiceManager).unwrap_err();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(refusal(connection.into()).contains("Accept=no"));
    assert!(refusal(UnixDatagram::unbound().unwrap().into()).contains("its address is not"));
    assert!(refusal(tempfile::tempfile().unwrap().into()).contains("no socket"));
    assert!(refusal(rustix::pipe::pipe().unwrap().0).contains("no socket"));
    let unbound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    assert!(refusal(unbound.into()).contains("does not listen"));
    let unnamed = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    assert!(refusal(unnamed.into()).contains("ListenStream="));
}

#[test]
fn a_socket_for_datagrams_serves_no_listener_for_connections() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = udp.local_addr().unwrap().port();
    let udp = inherit(udp, "udp=*=53");
    assert_eq!(udp.matches(&format!("udp:127.0.0.1:{port}")), Some(Match::Address));
    assert_eq!(udp.matches("udp:*:53"), Some(Match::Name));
    assert_eq!(udp.matches(&format!("127.0.0.1:{port}")), None);
    assert!(udp.is_in_the_way_of(&format!("udp:*:{port}")));
    assert!(!udp.is_in_the_way_of(&format!("*:{port}")));
    assert_eq!(udp.to_string(), format!("udp:127.0.0.1:{port} (\"udp=*=53\")"));
    let tcp = inherit(TcpListener::bind("127.0.0.1:0").unwrap(), "*=53");
    assert_eq!(tcp.matches("udp:*:53"), None);
}

#[test]
fn a_socket_serves_the_address_that_it_is_bound_to() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let tcp = inherit(tcp, "");
    assert_eq!(tcp.matches(&format!("127.0.0.1:{port}")), Some(Match::Address));
    for other in [format!("127.0.0.2:{port}"), format!("*:{port}"), format!("[::1]:{port}")] {
        assert_eq!(tcp.matches(&other), None, "{other}");
    }
    assert_eq!(tcp.matches("unix:/s"), None);
    let any = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = any.local_addr().unwrap().port();
    let any = inherit(any, "");
    assert_eq!(any.matches(&format!("*:{port}")), Some(Match::Address));
    assert_eq!(any.matches(&format!("0.0.0.0:{port}")), Some(Match::Address));
    assert_eq!(any.matches(&format!("[::]:{port}")), None);
}

#[test]
fn a_unix_socket_serves_its_path_or_its_abstract_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let file = inherit(UnixListener::bind(&path).unwrap(), "");
    assert_eq!(file.matches(&format!("unix:{}", path.display())), Some(Match::Address));
    assert_eq!(file.matches(&format!("unix:@{}", path.display())), None);
    let name = format!("howdah-{}", path.display());
    let address = UnixAddress::from_abstract_name(&name).unwrap();
    let hidden = inherit(UnixListener::bind_addr(&address).unwrap(), "");
    assert_eq!(hidden.matches(&format!("unix:@{name}")), Some(Match::Address));
    assert_eq!(hidden.matches(&format!("unix:{name}")), None);
}

/// `ListenStream=80` in a socket unit opens one socket for IPv4 and IPv6.
#[test]
fn a_socket_for_both_families_serves_either_of_them() {
    let (fd, port) = dual();
    let socket = inherit(fd, "");
    assert_eq!(socket.matches(&format!("*:{port}")), Some(Match::Dual));
    assert_eq!(socket.matches(&format!("[::]:{port}")), Some(Match::Dual));
    assert_eq!(socket.matches(&format!("127.0.0.1:{port}")), None);
    assert_eq!(socket.matches(&format!("*:{}", port ^ 1)), None);
}

#[test]
fn a_name_takes_precedence_over_an_address() {
    let by_address = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = by_address.local_addr().unwrap().to_string();
    let by_name = TcpListener::bind("127.0.0.1:0").unwrap();
    let named = by_name.local_addr().unwrap().to_string();
    let mut unclaimed = Unclaimed::default();
    unclaimed.add(inherit(by_address, "web"));
    unclaimed.add(inherit(by_name, &name_of(&address).unwrap()));
    assert!(unclaimed.take(&address).unwrap().to_string().starts_with(&named));
    assert!(unclaimed.take(&address).unwrap().to_string().ends_with(" (\"web\")"));
    assert!(unclaimed.take(&address).is_none());
}

/// A listener's family follows from its address, and with it the trust in its connections.
#[test]
fn a_name_gives_no_socket_of_another_family() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(inherit(tcp, "unix=/s").matches("unix:/s"), None);
    let dir = tempfile::tempdir().unwrap();
    let unix = UnixListener::bind(dir.path().join("s")).unwrap();
    assert_eq!(inherit(unix, "*=80").matches("*:80"), None);
}
