//! Finds listening sockets in `/proc/net`. The search binds and connects no socket.
//!
//! Only sockets of the same network namespace are found. A socket on all IPv6 addresses may also
//! accept IPv4 connections, which `/proc` does not show; it counts for both.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::address::{is_udp, parse};

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listening {
    /// The address in the form of a document, without `unix:`.
    address: Endpoint,
    inode: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(String),
}

/// Another program listens on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken;

/// All listening sockets of this machine.
#[derive(Default)]
pub struct Ports(Vec<Listening>);

impl Ports {
    /// Reads `/proc/net`; empty if there is none.
    pub fn of_machine() -> Ports {
        let read = |name: &str| fs::read(Path::new("/proc/net").join(name)).unwrap_or_default();
        let mut all = Vec::new();
        for name in ["tcp", "tcp6"] {
            all.extend(String::from_utf8_lossy(&read(name)).lines().filter_map(tcp));
        }
        for name in ["udp", "udp6"] {
            all.extend(String::from_utf8_lossy(&read(name)).lines().filter_map(udp));
        }
        all.extend(String::from_utf8_lossy(&read("unix")).lines().filter_map(unix));
        Ports(all)
    }

    /// Returns a line about the process that listens on an address already, if there is one for
    /// which `is_own` is not true; an error if it is another program for sure.
    pub fn taken(
        &self,
        address: &str,
        is_own: impl Fn(u32) -> bool,
    ) -> Option<Result<String, Taken>> {
        let other = self.0.iter().find(|other| other.is_in_the_way(address))?;
        match holder(other.inode) {
            Some((_, pid)) if is_own(pid) => return None,
            // A server with another document, or with one of the control API.
            Some((name, _)) if name.starts_with("howdah") => {}
            Some(_) => return Some(Err(Taken)),
            None => {}
        }
        let (place, who) = self.listener(address)?;
        Some(Ok(format!(
            "{who} listens on {place} now; if that is not this server, it has to end first"
        )))
    }

    /// Returns the address that keeps another one from being bound, and the process that listens
    /// there.
    pub(crate) fn listener(&self, address: &str) -> Option<(String, String)> {
        let other = self.0.iter().find(|other| other.is_in_the_way(address))?;
        let place = match &other.address {
            Endpoint::Tcp(address) => address.to_string(),
            Endpoint::Udp(address) => format!("udp:{address}"),
            Endpoint::Unix(name) => format!("unix:{name}"),
        };
        let who = match holder(other.inode) {
            Some((name, pid)) => format!("{name} (process {pid})"),
            None => "a program".to_owned(),
        };
        Some((place, who))
    }
}

impl Listening {
    fn is_in_the_way(&self, address: &str) -> bool {
        let theirs = match (&self.address, address.strip_prefix("unix:")) {
            (Endpoint::Unix(theirs), Some(ours)) => return theirs == ours,
            (Endpoint::Tcp(theirs), None) if !is_udp(address) => theirs,
            (Endpoint::Udp(theirs), None) if is_udp(address) => theirs,
            _ => return false,
        };
        parse(address).is_some_and(|ours| {
            let is_same_port = theirs.port() == ours.port();
            let (theirs, ours) = (theirs.ip(), ours.ip());
            let has_same_address = if theirs.is_ipv4() == ours.is_ipv4() {
                theirs == ours || theirs.is_unspecified() || ours.is_unspecified()
            } else {
                ours.is_ipv4() && theirs.is_unspecified()
            };
            is_same_port && has_same_address
        })
    }
}

/// Reads a line of `/proc/net/tcp` or `tcp6`.
fn tcp(line: &str) -> Option<Listening> {
    let (address, inode) = inet(line, "0A")?; // it listens
    Some(Listening { address: Endpoint::Tcp(address), inode })
}

/// Reads a line of `/proc/net/udp` or `udp6`.
fn udp(line: &str) -> Option<Listening> {
    let (address, inode) = inet(line, "07")?; // it is not connected
    Some(Listening { address: Endpoint::Udp(address), inode })
}

/// Reads a line about a socket in this state, `sl local remote state ...`, with the inode as the
/// tenth field.
fn inet(line: &str, wanted: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let (local, state) = (fields.get(1)?, fields.get(3)?);
    let inode = fields.get(9)?.parse().ok()?;
    let (ip, port) = local.split_once(':')?;
    let address = SocketAddr::new(ip_address(ip)?, u16::from_str_radix(port, 16).ok()?);
    (*state == wanted).then_some((address, inode))
}

/// Reads an address in words of 32 bits, each in the byte order of the machine.
fn ip_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at..at + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for (index, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(8 * index)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

/// Reads a line of `/proc/net/unix`: `num references protocol flags type state inode path`.
fn unix(line: &str) -> Option<Listening> {
    const ACCEPTS: u32 = 0x1_0000;
    let mut fields = line.splitn(8, ' ').skip(3);
    let flags = u32::from_str_radix(fields.next()?, 16).ok()?;
    // The inode is padded with spaces, which the path may have too.
    let rest = line.splitn(7, ' ').nth(6)?.trim_start();
    let (inode, path) = rest.split_once(' ')?;
    let inode = inode.parse().ok()?;
    (flags & ACCEPTS != 0).then(|| Listening { address: Endpoint::Unix(path.to_owned()), inode })
}

/// Returns the name and id of the process with a socket, if this user may see it.
fn holder(inode: u64) -> Option<(String, u32)> {
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let numbers = owners_first(numbers.collect());
    let has = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|to| to == *socket)
    };
    let pid = numbers.into_iter().find(has)?;
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some((name.trim_end().chars().filter(|c| !c.is_control()).collect(), pid))
}

/// Orders processes that have the same socket. A service manager keeps copies of the sockets of its
/// services (systemd: socket units and `FileDescriptorStoreMax=`); the process that accepts
/// connections is another one.
fn owners_first(mut processes: Vec<u32>) -> Vec<u32> {
    const SERVICE_MANAGER: u32 = 1;
    processes.sort_unstable_by_key(|pid| (*pid == SERVICE_MANAGER, *pid));
    processes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_belongs_to_a_service_rather_than_to_the_service_manager() {
        assert_eq!(owners_first(vec![90, 1, 12]), [12, 90, 1]);
        assert_eq!(owners_first(vec![1]), [1]);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (_, who) =
            Ports::of_machine().listener(&socket.local_addr().unwrap().to_string()).unwrap();
        assert!(who.ends_with(&format!("(process {})", std::process::id())), "{who}");
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn sockets_that_listen_are_read() {
        let line =
            "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1";
        let address = Endpoint::Tcp("127.0.0.1:8080".parse().unwrap());
        assert_eq!(tcp(line), Some(Listening { address, inode: 77 }));
        let line = "1: 00000000000000000000000001000000:0050 \
                    00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
                    00000000 0 0 78 1";
        assert_eq!(tcp(line).unwrap().address, Endpoint::Tcp("[::1]:80".parse().unwrap()));
        let connected =
            "2: 0100007F:1F90 0100007F:802F 01 00000000:00000000 00:00000000 00000000 0 0 0 3";
        assert_eq!(tcp(connected), None);
        assert_eq!(tcp("sl local_address rem_address st"), None);
        let line =
            "0: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 79 2 0 0";
        let address = Endpoint::Udp("127.0.0.1:53".parse().unwrap());
        assert_eq!((udp(line), tcp(line)), (Some(Listening { address, inode: 79 }), None));
    }

    #[test]
    fn unix_sockets_that_listen_are_read() {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 4242 /run/a b.sock";
        let address = Endpoint::Unix("/run/a b.sock".to_owned());
        assert_eq!(unix(line), Some(Listening { address, inode: 4242 }));
        let padded = "0000000000000000: 00000002 00000000 00010000 0001 01    42 @name";
        assert_eq!(unix(padded).unwrap().address, Endpoint::Unix("@name".to_owned()));
        let connected = "0000000000000000: 00000003 00000000 00000000 0001 03 4242 /run/a.sock";
        assert_eq!(unix(connected), None);
        assert_eq!(unix("Num RefCount Protocol Flags Type St Inode Path"), None);
    }

    #[test]
    fn addresses_of_all_interfaces_are_in_the_way_of_one() {
        let is_in_the_way = |theirs: &str, ours: &str| {
            let address = match theirs.strip_prefix("unix:") {
                Some(name) => Endpoint::Unix(name.to_owned()),
                None => match theirs.strip_prefix("udp:") {
                    Some(theirs) => Endpoint::Udp(theirs.parse().unwrap()),
                    None => Endpoint::Tcp(theirs.parse().unwrap()),
                },
            };
            let theirs = Listening { address, inode: 1 };
            theirs.is_in_the_way(ours)
        };
        for (theirs, ours) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "*:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "*:80"),
            ("[::]:80", "[::1]:80"),
            ("unix:/run/x", "unix:/run/x"),
            ("unix:@x", "unix:@x"),
            ("udp:0.0.0.0:53", "udp:127.0.0.1:53"),
        ] {
            assert!(is_in_the_way(theirs, ours), "{theirs} {ours}");
        }
        for (theirs, ours) in [
            ("127.0.0.1:80", "127.0.0.1:81"),
            ("127.0.0.1:80", "127.0.0.2:80"),
            ("0.0.0.0:80", "[::]:80"),
            ("[::1]:80", "*:80"),
            ("unix:@x", "unix:x"),
            ("unix:/run/x", "*:80"),
            ("udp:0.0.0.0:53", "*:53"),
            ("0.0.0.0:53", "udp:*:53"),
        ] {
            assert!(!is_in_the_way(theirs, ours), "{theirs} {ours}");
        }
    }
}
