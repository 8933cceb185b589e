//! The sockets of the pools: opened here, with their owners and modes, and kept for the next
//! program over a reload.
//!
//! `FPM_SOCKETS` passes them as php-fpm does: `ADDRESS=DESCRIPTOR,…`, in `FPM_SOCKETS`,
//! `FPM_SOCKETS_1` and so on, each with up to 256.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;

use howdah_sys::credentials::Credentials;
use howdah_sys::process;
use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::conf::{Conf, Invalid, Section, is_id, is_path, system};
use crate::log::{Level, Log};

/// Sockets in one variable.
const PER_VARIABLE: usize = 256;

/// Mode of a socket file without `listen.mode`.
const DEFAULT_MODE: u32 = 0o660;

/// An open listening socket.
#[derive(Debug)]
pub struct Listening {
    /// The name by which the next program finds it: a path, or an address and a port.
    pub key: String,
    /// The socket.
    pub socket: OwnedFd,
}

/// A listener of the document, and its socket.
#[derive(Debug)]
pub struct Listener {
    /// The pool that it leads to.
    pub pool: String,
    /// It is that of `pm.status_listen`.
    pub is_status: bool,
    /// The address in the document.
    pub name: String,
    /// The key of its socket.
    pub key: String,
}

/// Takes the sockets that the program before has passed. Must be called once, at the start.
pub fn inherited(variable: impl Fn(&str) -> Option<String>) -> Vec<Listening> {
    let mut found = Vec::new();
    for number in 0.. {
        let Some(value) = variable(&name(number)) else { break };
        for entry in value.split(',') {
            let Some((key, descriptor)) = entry.rsplit_once('=') else { continue };
            let descriptor = descriptor.parse::<i32>().ok().filter(|number| *number > 2);
            if let Some(socket) = descriptor.and_then(process::take_inherited) {
                found.push(Listening { key: key.to_owned(), socket });
            }
        }
    }
    found
}

/// Returns the variables that pass the sockets to the next program, and lets the descriptors stay
/// open in it.
pub fn passed(sockets: &[Listening]) -> Vec<(String, String)> {
    let entry = |listening: &Listening| {
        let _ = fcntl_setfd(&listening.socket, FdFlags::empty());
        format!("{}={}", listening.key, listening.socket.as_raw_fd())
    };
    let chunks = sockets.chunks(PER_VARIABLE).enumerate();
    let value = |chunk: &[Listening]| chunk.iter().map(entry).collect::<Vec<_>>().join(",");
    chunks.map(|(number, chunk)| (name(number), value(chunk))).collect()
}

/// Returns true for a variable of [`passed`].
pub fn is_variable(name: &str) -> bool {
    name == "FPM_SOCKETS" || name.starts_with("FPM_SOCKETS_")
}

fn name(number: usize) -> String {
    if number == 0 { "FPM_SOCKETS".to_owned() } else { format!("FPM_SOCKETS_{number}") }
}

/// Returns the listeners and the sockets of all pools, in their order: those of `kept` that have the
/// same addresses, and new ones. The others are closed.
pub fn open(
    conf: &Conf,
    kept: Vec<Listening>,
    log: &Log,
) -> Result<(Vec<Listener>, Vec<Listening>), Invalid> {
    for Listening { key, socket } in &kept {
        let number = socket.as_raw_fd();
        log.write(Level::Notice, format!("using inherited socket fd={number}, \"{key}\""));
    }
    let mut kept: Vec<Option<Listening>> = kept.into_iter().map(Some).collect();
    let (mut listeners, mut opened) = (Vec::new(), Vec::new());
    for pool in &conf.pools {
        for (address, is_status) in addresses(pool) {
            let keys = keys(address, log)?;
            let known =
                kept.iter_mut().find(|one| one.as_ref().is_some_and(|one| keys.contains(&one.key)));
            let (key, socket) = match known.and_then(Option::take) {
                Some(Listening { key, socket }) => (key, socket),
                None => listen_at(pool, address, keys, log)?,
            };
            let pool = pool.name.clone();
            let name = if is_path(&key) { format!("unix:{key}") } else { key.clone() };
            listeners.push(Listener { pool, is_status, name, key: key.clone() });
            opened.push(Listening { key, socket });
        }
    }
    for unused in kept.into_iter().flatten() {
        if is_path(&unused.key) {
            let _ = fs::remove_file(&unused.key);
        }
    }
    Ok((listeners, opened))
}

/// Returns the addresses that a pool listens at: its own, and that of its status.
fn addresses(pool: &Section) -> impl Iterator<Item = (&str, bool)> {
    let own = pool.text("listen").map(|address| (address, false));
    own.into_iter().chain(pool.text("pm.status_listen").map(|address| (address, true)))
}

/// Returns the keys that an address may have, the preferred one first.
fn keys(address: &str, log: &Log) -> Result<Vec<String>, Invalid> {
    if is_path(address) {
        return Ok(vec![address.to_owned()]);
    }
    let invalid = |text: String| {
        log.write(Level::Error, text);
        Err(Invalid)
    };
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => ("", address),
    };
    let Some(number) = port.parse::<u16>().ok().filter(|port| *port > 0) else {
        return invalid(format!("invalid port value '{port}'"));
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let ip = match host {
        // All addresses: those of IPv6, which take IPv4, too.
        "" => {
            let all = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
            return Ok(all.map(|ip: IpAddr| SocketAddr::from((ip, number)).to_string()).to_vec());
        }
        _ => match host.parse() {
            Ok(ip) => ip,
            Err(_) => match (host, number).to_socket_addrs().ok().and_then(|mut all| all.next()) {
                Some(found) => found.ip(),
                None => return invalid(format!("getaddrinfo: Name or service not known ({host})")),
            },
        },
    };
    Ok(vec![SocketAddr::from((ip, number)).to_string()])
}

/// Opens a socket at the first of these keys where that is possible.
fn listen_at(
    pool: &Section,
    address: &str,
    keys: Vec<String>,
    log: &Log,
) -> Result<(String, OwnedFd), Invalid> {
    let last = keys.len() - 1;
    for (number, key) in keys.into_iter().enumerate() {
        match listen(pool, &key, log) {
            Ok(socket) => return Ok((key, socket)),
            Err(_) if number < last => {
                let text = "Failed implicitly binding to ::, retrying with 0.0.0.0";
                log.write(Level::Notice, text);
            }
            Err(Unopened::Logged) => break,
            Err(Unopened::Because(error)) => {
                let error = system(&error);
                let text =
                    format!("unable to bind listening socket for address '{address}'{error}");
                log.write(Level::Error, text);
            }
        }
    }
    Err(Invalid)
}

/// Why a socket is not open.
enum Unopened {
    Because(std::io::Error),
    /// The log has the reason.
    Logged,
}

impl From<Invalid> for Unopened {
    fn from(_: Invalid) -> Self {
        Unopened::Logged
    }
}

/// Opens a socket.
fn listen(pool: &Section, key: &str, log: &Log) -> Result<OwnedFd, Unopened> {
    let failed = |text: String| {
        log.write(Level::Error, text);
        Unopened::Logged
    };
    let unable = Unopened::Because;
    // Not `listen.backlog`: connections are accepted at once, and their requests wait in the queue
    // of the application. A small backlog would only refuse those of a moment.
    let backlog = i32::MAX;
    let socket = if is_path(key) {
        if UnixStream::connect(key).is_ok() {
            let text = format!("Another FPM instance seems to already listen on {key}");
            return Err(failed(text));
        }
        if fs::symlink_metadata(key).is_ok_and(|found| found.file_type().is_socket()) {
            let _ = fs::remove_file(key);
        }
        let address = SockAddr::unix(key).map_err(unable)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(unable)?;
        // The mode is set before anyone can connect: connections wait for `listen`.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = socket.bind(&address);
        rustix::process::umask(before);
        bound.map_err(unable)?;
        permit(pool, Path::new(key), log)?;
        socket
    } else {
        let address: SocketAddr =
            key.parse().map_err(|_| unable(std::io::Error::other("address")))?;
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, None).map_err(unable)?;
        let _ = socket.set_reuse_address(true);
        socket.bind(&address.into()).map_err(unable)?;
        socket
    };
    socket.listen(backlog).map_err(|error| {
        let error = system(&error);
        failed(format!("failed to listen to address '{key}'{error}"))
    })?;
    Ok(socket.into())
}

/// Sets the owner, the group and the mode of a socket file, or its access control list.
fn permit(pool: &Section, path: &Path, log: &Log) -> Result<(), Invalid> {
    let name = &pool.name;
    let mode = pool.text("listen.mode").and_then(|mode| u32::from_str_radix(mode, 8).ok());
    let mode = mode.unwrap_or(DEFAULT_MODE) & 0o777;
    let users = ids(pool, "listen.acl_users", log)?;
    let groups = ids(pool, "listen.acl_groups", log)?;
    let fail = |what: &str, error: std::io::Error| {
        let (path, error) = (path.display(), system(&error));
        let text = format!("[pool {name}] failed to {what} the socket '{path}'{error}");
        log.write(Level::Error, text);
        Invalid
    };
    if !users.is_empty() || !groups.is_empty() {
        for (key, value) in
            ["listen.owner", "listen.group"].iter().filter_map(|key| Some((key, pool.text(key)?)))
        {
            let text = format!("[pool {name}] ACL set, {key} = '{value}' is ignored");
            log.write(Level::Warning, text);
        }
        set_mode(path, mode).map_err(|error| fail("chmod()", error))?;
        let list = access_list(mode, &users, &groups);
        let flags = rustix::fs::XattrFlags::empty();
        return rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags)
            .map_err(|error| fail("write the ACL of", error.into()));
    }
    let owner = ids(pool, "listen.owner", log)?.first().copied();
    let group = ids(pool, "listen.group", log)?.first().copied();
    // The group of the owner, unless another one is named.
    let group = group.or_else(|| {
        let owner = pool.text("listen.owner").filter(|owner| !is_id(owner))?;
        Credentials::look_up(owner, None).ok().map(|found| found.gid)
    });
    if owner.is_some() || group.is_some() {
        chown(path, owner, group).map_err(|error| fail("chown()", error))?;
    }
    set_mode(path, mode).map_err(|error| fail("chmod()", error))
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Returns the ids of the names in a list with commas.
fn ids(pool: &Section, key: &str, log: &Log) -> Result<Vec<u32>, Invalid> {
    let is_group = key.contains("group");
    let Some(list) = pool.text(key) else { return Ok(Vec::new()) };
    let id = |one: &str| {
        let found = match one.parse() {
            Ok(id) if is_id(one) => Some(id),
            _ if is_group => Credentials::gid_of(one).ok().flatten(),
            _ => Credentials::uid_of(one).ok().flatten(),
        };
        found.ok_or_else(|| {
            let (what, id) = if is_group { ("group", "gid") } else { ("user", "uid") };
            let text = format!("[pool {}] cannot get {id} for {what} '{one}'", pool.name);
            log.write(Level::Error, text);
            Invalid
        })
    };
    list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(id).collect()
}

/// Returns an access control list in the kernel's form (`linux/posix_acl_xattr.h`): these users and
/// groups may read and write, beside those of the mode.
fn access_list(mode: u32, users: &[u32], groups: &[u32]) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NO_ID: u32 = u32::MAX;
    const READ_AND_WRITE: u16 = 6;
    const OWNER: u16 = 1;
    const USER: u16 = 2;
    const OWN_GROUP: u16 = 4;
    const GROUP: u16 = 8;
    const MASK: u16 = 16;
    const OTHER: u16 = 32;
    let bits = |shift: u32| (mode >> shift & 7) as u16;
    let (mut users, mut groups) = (users.to_vec(), groups.to_vec());
    for list in [&mut users, &mut groups] {
        list.sort_unstable();
        list.dedup();
    }
    let mut entries = vec![(OWNER, bits(6), NO_ID)];
    entries.extend(users.into_iter().map(|id| (USER, READ_AND_WRITE, id)));
    entries.push((OWN_GROUP, bits(3), NO_ID));
    entries.extend(groups.into_iter().map(|id| (GROUP, READ_AND_WRITE, id)));
    entries.push((MASK, bits(3) | READ_AND_WRITE, NO_ID));
    entries.push((OTHER, bits(0), NO_ID));
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_ports_and_addresses_with_ports() {
        let log = Log::default();
        let key = |address: &str| keys(address, &log);
        assert_eq!(key("/run/a.sock").unwrap(), ["/run/a.sock"]);
        assert_eq!(key("127.0.0.1:9000").unwrap(), ["127.0.0.1:9000"]);
        assert_eq!(key("[::1]:9000").unwrap(), ["[::1]:9000"]);
        assert_eq!(key("9000").unwrap(), ["[::]:9000", "0.0.0.0:9000"]);
        for wrong in ["127.0.0.1:", "127.0.0.1:x", "127.0.0.1:0", "0", "127.0.0.1:65536"] {
            assert_eq!(key(wrong), Err(Invalid), "{wrong}");
        }
    }

    #[test]
    fn sockets_pass_to_the_next_program_by_their_names() {
        let sockets: Vec<_> = (0..300)
            .map(|number| Listening {
                key: format!("/run/{number}=a.sock"),
                socket: fs::File::open("/dev/null").unwrap().into(),
            })
            .collect();
        let variables = passed(&sockets);
        assert_eq!(variables.len(), 2);
        assert!(variables.iter().all(|(name, _)| is_variable(name)));
        assert!(variables[0].1.starts_with("/run/0=a.sock="));
        assert!(variables[1].1.starts_with("/run/256=a.sock="));
    }

    #[test]
    fn hostile_variables_take_no_descriptor() {
        for value in ["", "a", "a=", "a=x", "a=0", "a=2", "a=-5", "a=99999", ",,=,"] {
            let found = inherited(|name| (name == "FPM_SOCKETS").then(|| value.to_owned()));
            assert!(found.is_empty(), "{value}");
        }
    }

    #[test]
    fn an_access_control_list_is_in_the_kernels_form_and_order() {
        let list = access_list(0o660, &[33, 5, 33], &[7]);
        let entries: Vec<_> = list[4..]
            .chunks(8)
            .map(|one| (one[0], one[2], u32::from_le_bytes(one[4..].try_into().unwrap())))
            .collect();
        let none = u32::MAX;
        let expected = [
            (1, 6, none),
            (2, 6, 5),
            (2, 6, 33),
            (4, 6, none),
            (8, 6, 7),
            (16, 6, none),
            (32, 0, none),
        ];
        assert_eq!(entries, expected);
    }
}
