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

use super::access::Access;
use crate::address::{is_udp, parse};
use crate::passed_socket::{Owner, name_of};

/// An open listening socket.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) socket: Socket,
    /// Name that the passing process has given the socket; empty without one.
    pub(super) name: String,
    pub(super) owner: Owner,
    /// The permissions of its file, if this process has set them.
    pub(super) access: Option<Access>,
}

/// Local address of a socket.
#[derive(Debug, PartialEq, Eq)]
enum Local {
    Inet {
        address: SocketAddr,
        /// True if an IPv6 socket accepts IPv4 connections, too.
        is_dual: bool,
        /// True for UDP, false for TCP.
        is_udp: bool,
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
    /// listener, and the remedy.
    pub(super) fn inherit(fd: OwnedFd, name: &str, owner: Owner) -> Result<Self, String> {
        let refused = |error: io::Error| format!("it cannot be used: {error}");
        let kind = fstat(&fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind != Ok(FileType::Socket) {
            return Err("it is no socket; pass listening sockets only".to_owned());
        }
        let socket = Socket::from(fd);
        let kind = socket.r#type().map_err(refused)?;
        let is_udp = kind == Type::DGRAM;
        if !is_udp && kind != Type::STREAM {
            return Err("it is neither for connections nor for datagrams; use ListenStream= or \
                        ListenDatagram= for it"
                .to_owned());
        }
        if !is_udp && !socket.is_listener().map_err(refused)? {
            return Err(
                "it does not listen; it may be a single connection, which Accept=no in the \
                        socket unit avoids"
                    .to_owned(),
            );
        }
        match Local::of(&socket).map_err(refused)? {
            Some(Local::Inet { .. }) => {}
            Some(_) if !is_udp => {}
            _ => return Err("its address is not of TCP, UDP or a unix stream socket".to_owned()),
        }
        // The blocking mode belongs to the open socket, which the passing process may share.
        socket.set_nonblocking(true).map_err(refused)?;
        socket.set_cloexec(true).map_err(refused)?;
        Ok(Listening { socket, name: name.to_owned(), owner, access: None })
    }

    fn matches(&self, address: &str) -> Option<Match> {
        let local = Local::of(&self.socket).ok()??;
        let unix = address.strip_prefix("unix:");
        let is_same_kind = match local {
            Local::Inet { is_udp: is_own, .. } => unix.is_none() && is_own == is_udp(address),
            Local::File(_) | Local::Abstract(_) => unix.is_some(),
        };
        if !is_same_kind {
            return None;
        }
        if name_of(address).as_deref() == Some(self.name.as_str()) {
            return Some(Match::Name);
        }
        match &local {
            Local::File(path) => (unix == Some(path)).then_some(Match::Address),
            Local::Abstract(name) => {
                let wanted = unix.and_then(|name| name.strip_prefix('@'));
                (wanted == Some(name)).then_some(Match::Address)
            }
            Local::Inet { address: local, is_dual, .. } => match parse(address)? {
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

    /// Returns the path of a unix socket that has one.
    pub(super) fn file(&self) -> Option<String> {
        match Local::of(&self.socket) {
            Ok(Some(Local::File(path))) => Some(path),
            _ => None,
        }
    }

    /// Returns true if another socket cannot be bound to an address while this one is open.
    pub(super) fn is_in_the_way_of(&self, address: &str) -> bool {
        let (Ok(Some(Local::Inet { address: local, is_dual, is_udp: is_own })), Some(wanted)) =
            (Local::of(&self.socket), parse(address))
        else {
            return false;
        };
        if is_own != is_udp(address) {
            return false;
        }
        let has_both_families = local.is_ipv4() == wanted.is_ipv4() || is_dual && wanted.is_ipv4();
        let is_any = wanted.ip().is_unspecified() || local.ip().is_unspecified();
        local.port() == wanted.port() && has_both_families && (is_any || local.ip() == wanted.ip())
    }
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Local::of(&self.socket) {
            Ok(Some(Local::Inet { address, is_udp: false, .. })) => write!(f, "{address}")?,
            Ok(Some(Local::Inet { address, is_udp: true, .. })) => write!(f, "udp:{address}")?,
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
        let is_udp = socket.r#type()? == Type::DGRAM;
        Ok(Some(Local::Inet { address, is_dual, is_udp }))
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

#[cfg(test)]
mod tests;
