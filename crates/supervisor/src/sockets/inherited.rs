//! Listening sockets that another process has opened and passed to this one.
//!
//! A socket waits here until a listener with its address or its name claims it. It does not matter
//! here which process has passed it and how.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, fstat};
use socket2::{Domain, Socket, Type};

use super::parse;

/// The process that opens a socket and removes its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The server. A socket that it does not use is closed.
    Server,
    /// The service manager, for a socket unit. It keeps the socket open as long as the unit is
    /// active, so the server cannot bind the address itself and keeps the socket for later
    /// listeners.
    ServiceManager,
}

/// An open listening socket.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) socket: Socket,
    /// Name that the passing process has given the socket; empty without one.
    pub(super) name: String,
    pub(super) owner: Owner,
}

/// Local address of a socket.
#[derive(Debug, PartialEq, Eq)]
enum Local {
    Tcp {
        address: SocketAddr,
        /// True if an IPv6 socket accepts IPv4 connections, too.
        is_dual: bool,
    },
    File(String),
    Abstract(String),
}

/// Quality of the match between a socket and a listener's address; the lowest is taken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    /// The name of the socket is the listener's address.
    Name,
    Address,
    /// The socket accepts IPv4 and IPv6, the listener has one of them.
    Dual,
}

impl Listening {
    /// Takes a descriptor that was passed to this process. Error: the reason why it cannot be a
    /// listener, and what to do.
    pub(super) fn inherit(fd: OwnedFd, name: &str, owner: Owner) -> Result<Self, String> {
        let refused = |error: io::Error| format!("it cannot be used: {error}");
        let kind = fstat(&fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind != Ok(FileType::Socket) {
            return Err("it is no socket; pass listening sockets only".to_owned());
        }
        let socket = Socket::from(fd);
        if socket.r#type().map_err(refused)? != Type::STREAM {
            return Err("it is no stream socket; use ListenStream= for it".to_owned());
        }
        if !socket.is_listener().map_err(refused)? {
            return Err(
                "it does not listen; it may be a single connection, which Accept=no in the \
                        socket unit avoids"
                    .to_owned(),
            );
        }
        if Local::of(&socket).map_err(refused)?.is_none() {
            return Err("its address is neither of TCP nor of a unix socket".to_owned());
        }
        // The blocking mode belongs to the open socket, which the passing process may share.
        socket.set_nonblocking(true).map_err(refused)?;
        socket.set_cloexec(true).map_err(refused)?;
        Ok(Listening { socket, name: name.to_owned(), owner })
    }

    fn matches(&self, address: &str) -> Option<Match> {
        let local = Local::of(&self.socket).ok()??;
        let unix = address.strip_prefix("unix:");
        let is_tcp = matches!(local, Local::Tcp { .. });
        if is_tcp == unix.is_none() && name_of(address).as_deref() == Some(self.name.as_str()) {
            return Some(Match::Name);
        }
        match &local {
            Local::File(path) => (unix == Some(path)).then_some(Match::Address),
            Local::Abstract(name) => {
                let wanted = unix.and_then(|name| name.strip_prefix('@'));
                (wanted == Some(name)).then_some(Match::Address)
            }
            Local::Tcp { address: local, is_dual } => match parse(address)? {
                wanted if wanted == *local && !is_dual => Some(Match::Address),
                wanted if wanted == *local => Some(Match::Dual),
                wanted => {
                    let is_any = wanted.ip().is_unspecified() && local.ip().is_unspecified();
                    let can = *is_dual && is_any && wanted.port() == local.port();
                    can.then_some(Match::Dual)
                }
            },
        }
    }

    /// Returns true if another socket cannot be bound to an address while this one is open.
    pub(super) fn is_in_the_way_of(&self, address: &str) -> bool {
        let (Ok(Some(Local::Tcp { address: local, is_dual })), Some(wanted)) =
            (Local::of(&self.socket), parse(address))
        else {
            return false;
        };
        let has_both_families = local.is_ipv4() == wanted.is_ipv4() || is_dual && wanted.is_ipv4();
        let is_any = wanted.ip().is_unspecified() || local.ip().is_unspecified();
        local.port() == wanted.port() && has_both_families && (is_any || local.ip() == wanted.ip())
    }
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Local::of(&self.socket) {
            Ok(Some(Local::Tcp { address, .. })) => write!(f, "{address}")?,
            Ok(Some(Local::File(path))) => write!(f, "unix:{path}")?,
            Ok(Some(Local::Abstract(name))) => write!(f, "unix:@{name}")?,
            Ok(None) | Err(_) => write!(f, "a closed address")?,
        }
        match self.name.as_str() {
            "" => Ok(()),
            name => write!(f, " (\"{name}\")"),
        }
    }
}

impl Local {
    /// Returns the local address; `None` if no listener can have it.
    fn of(socket: &Socket) -> io::Result<Option<Local>> {
        let address = socket.local_addr()?;
        if let Some(path) = address.as_pathname() {
            return Ok(path.to_str().map(|path| Local::File(path.to_owned())));
        }
        if let Some(name) = address.as_abstract_namespace() {
            let name = std::str::from_utf8(name).ok();
            return Ok(name.map(|name| Local::Abstract(name.to_owned())));
        }
        let Some(address) = address.as_socket() else { return Ok(None) };
        let is_dual = socket.domain()? == Domain::IPV6 && !socket.only_v6()?;
        Ok(Some(Local::Tcp { address, is_dual }))
    }
}

/// Sockets that no listener has claimed.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(Vec<Listening>);

impl Unclaimed {
    pub(super) fn add(&mut self, socket: Listening) {
        self.0.push(socket);
    }

    /// Removes and returns the socket that is best for an address.
    pub(super) fn take(&mut self, address: &str) -> Option<Listening> {
        let ranks = self.0.iter().enumerate();
        let ranks = ranks.filter_map(|(at, socket)| Some((socket.matches(address)?, at)));
        let (_, at) = ranks.min()?;
        Some(self.0.remove(at))
    }

    /// Removes and returns sockets of this server that keep an address from being bound.
    pub(super) fn clear_way(&mut self, address: &str) -> Vec<Listening> {
        self.remove(|socket| socket.owner == Owner::Server && socket.is_in_the_way_of(address))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Listening> {
        self.0.iter()
    }

    /// Removes and returns the sockets that the server owns.
    pub(super) fn settle(&mut self) -> Vec<Listening> {
        self.remove(|socket| socket.owner == Owner::Server)
    }

    fn remove(&mut self, is_removed: impl Fn(&Listening) -> bool) -> Vec<Listening> {
        let (removed, kept) = self.0.drain(..).partition(is_removed);
        self.0 = kept;
        removed
    }
}

/// Returns the name of a listener's socket at the service manager: the address with `=` for each
/// colon, which such a name cannot have (sd_pid_notify_with_fds(3)). `None` if the address has other
/// characters that it cannot have, or is too long.
pub(crate) fn name_of(address: &str) -> Option<String> {
    let can = address.len() <= 255 && address.bytes().all(|b| matches!(b, b' '..=b'~'));
    can.then(|| address.replace(':', "="))
}

#[cfg(test)]
mod tests {
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
    fn only_listening_stream_sockets_are_taken() {
        let refusal = |fd: OwnedFd| Listening::inherit(fd, "", Owner::ServiceManager).unwrap_err();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(refusal(connection.into()).contains("Accept=no"));
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(refusal(udp.into()).contains("ListenStream="));
        assert!(refusal(UnixDatagram::unbound().unwrap().into()).contains("ListenStream="));
        assert!(refusal(tempfile::tempfile().unwrap().into()).contains("no socket"));
        assert!(refusal(rustix::pipe::pipe().unwrap().0).contains("no socket"));
        let unbound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        assert!(refusal(unbound.into()).contains("does not listen"));
        let unnamed = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        assert!(refusal(unnamed.into()).contains("ListenStream="));
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

    #[test]
    fn names_have_only_characters_that_the_service_manager_accepts() {
        assert_eq!(name_of("[::1]:80").unwrap(), "[==1]=80");
        assert_eq!(name_of("unix:/run/a b").unwrap(), "unix=/run/a b");
        assert_eq!(name_of("unix:/run/é"), None);
        assert_eq!(name_of("unix:/run/\n"), None);
        assert_eq!(name_of(&"a".repeat(256)), None);
    }
}
