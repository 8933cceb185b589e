//! Listening sockets: opens them, or takes those over that another process has passed
//! ([`inherited`]).

mod access;
mod inherited;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, fchmod};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::process::umask;
use socket2::{Domain, SockAddr, Socket, Type};

pub(crate) use self::access::Access;
use self::inherited::{Listening, Unclaimed};
use crate::address::{file_of, is_udp, parse};
use crate::descriptor_store::DescriptorStore;
use crate::passed_socket::{Owner, name_of};
use crate::ports::Ports;
use crate::safe_path::SafePath;

/// Time after the start within which binding an address in use is retried: the addresses of a
/// killed server are in use until its last process has ended.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of connections that are closed at once at a socket without a listener.
const MAX_REFUSED: usize = 64;

/// Maximum number of connections that are closed because they were made under other permissions;
/// no backlog is longer (`net.core.somaxconn` is 4096 by default).
const MAX_DROPPED: usize = 1 << 16;

/// Size of the kernel's buffers of a socket to which the datagrams of all clients come.
const UDP_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The bits of a mode that permit to connect to a unix socket.
const WRITE_MODES: u32 = 0o222;

/// Open listening sockets, by their configured addresses.
#[derive(Debug)]
pub(crate) struct Sockets {
    open: HashMap<String, Listening>,
    /// Permissions of the configuration that is being applied.
    next: HashMap<String, Access>,
    /// Sockets that were passed to this process.
    unclaimed: Unclaimed,
    /// Keeps the sockets of the server while it is restarted.
    store: DescriptorStore,
    /// Time from which on an address in use is an error at once.
    retry_until: Instant,
    /// Another program has the address that was to be bound last.
    is_taken: bool,
}

/// An open listening socket.
pub(crate) struct OpenSocket<'a> {
    /// Name by which [`Sockets::inherit`] recognises it.
    pub(crate) name: String,
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) owner: Owner,
}

impl<'a> OpenSocket<'a> {
    fn new(name: String, open: &'a Listening) -> Self {
        OpenSocket { name, fd: open.socket.as_fd(), owner: open.owner }
    }
}

impl Sockets {
    /// Creates an empty set for a server that starts now.
    pub(crate) fn at_start() -> Self {
        Sockets::retrying_until(Instant::now() + STARTUP_TIMEOUT)
    }

    fn retrying_until(retry_until: Instant) -> Self {
        let store = DescriptorStore::default();
        Sockets {
            open: HashMap::new(),
            next: HashMap::new(),
            unclaimed: Unclaimed::default(),
            store,
            retry_until,
            is_taken: false,
        }
    }

    /// Stores the sockets that the server owns from now on.
    pub(crate) fn store_at(&mut self, store: DescriptorStore) {
        self.store = store;
    }

    /// Adds a listening socket that was passed to this process, with the name that the passing
    /// process has given it; for a socket of the server this is the address of its listener.
    /// [`Sockets::bind`] takes it for its address. Error: the reason why it cannot be a listener,
    /// and the remedy; it is closed then.
    pub(crate) fn inherit(&mut self, fd: OwnedFd, name: &str, owner: Owner) -> Result<(), String> {
        self.unclaimed.add(Listening::inherit(fd, &name.replace(':', "="), owner)?);
        Ok(())
    }

    /// Closes inherited sockets that no listener of the first configuration has, unless the service
    /// manager owns them: a later configuration may name their addresses. Returns a message for
    /// each unclaimed socket.
    pub(crate) fn settle_inherited(&mut self) -> Vec<String> {
        let closed = self.unclaimed.settle();
        self.release(&closed);
        let messages: Vec<_> = closed
            .iter()
            .map(|socket| {
                format!("inherited socket {socket} is closed: no listener has its address")
            })
            .collect();
        let files: Vec<_> = closed.iter().filter_map(Listening::file).collect();
        drop(closed);
        // Another server may have made a new socket at the same path.
        files.iter().for_each(|file| drop(remove_stale(Path::new(file))));
        let kept = self.unclaimed.iter().map(|socket| {
            format!(
                "connections to {socket}, which the service manager has opened, are closed: no \
                 listener of the configuration has this address; add one, or remove it from the \
                 socket unit"
            )
        });
        messages.into_iter().chain(kept).collect()
    }

    /// Returns the socket for an address: the open one, an inherited one, or a new one. Who may
    /// connect to it is changed at once. Error: the problem and the remedy.
    pub(crate) fn bind(
        &mut self,
        address: &str,
        backlog: u32,
        access: impl Into<Access>,
    ) -> Result<BorrowedFd<'_>, String> {
        self.is_taken = false;
        let access = access.into();
        match self.open.get_mut(address) {
            Some(open) => change(address, open, access)?,
            None => {
                let open = match self.claim(address, backlog, access) {
                    Some(claimed) => claimed?,
                    None => owned(self.listen(address, backlog, access)?, access),
                };
                self.insert(address, open);
            }
        }
        Ok(self.open[address].socket.as_fd())
    }

    /// As [`Sockets::bind`], for a configuration that is being applied: who may connect to an open
    /// socket is changed by [`Sockets::commit`].
    pub(crate) fn prepare(
        &mut self,
        address: &str,
        backlog: u32,
        access: Access,
    ) -> Result<BorrowedFd<'_>, String> {
        let Some(open) = self.open.get(address) else {
            return self.bind(address, backlog, access);
        };
        self.is_taken = false;
        check_unit(address, open, access)?;
        self.next.insert(address.to_owned(), access);
        Ok(self.open[address].socket.as_fd())
    }

    /// Forgets what was prepared: another configuration is applied.
    pub(crate) fn forget_prepared(&mut self) {
        self.next.clear();
    }

    /// Changes who may connect to open sockets, as it was prepared. Returns the problems.
    pub(crate) fn commit(&mut self) -> Vec<String> {
        let next = std::mem::take(&mut self.next);
        let changed = next.iter().filter_map(|(address, access)| {
            let open = self.open.get_mut(address)?;
            change(address, open, *access).err()
        });
        changed.collect()
    }

    /// Opens the socket of an address anew if its file is gone. Returns false if it is there. A
    /// socket of the service manager is not the server's to open. Error: the problem and the
    /// remedy.
    pub(crate) fn restore(
        &mut self,
        address: &str,
        backlog: u32,
        mode: u32,
    ) -> Result<bool, String> {
        let is_own = self.open.get(address).is_some_and(|open| open.owner == Owner::Server);
        let Some(path) = file_of(address).filter(|_| is_own) else { return Ok(false) };
        let failed = |error: io::Error| explain(address, &error);
        if let Some(directory) = path.parent()
            && !directory.exists()
        {
            let place = SafePath::resolve(directory).map_err(failed)?;
            place.make_directory(Mode::from_raw_mode(0o700)).map_err(failed)?;
        }
        let place = SafePath::resolve(path).map_err(failed)?;
        // An existing file may be the socket of another server.
        if place.kind().map_err(failed)?.is_some() {
            return Ok(false);
        }
        let socket = listen(address, backlog, mode.into()).map_err(failed)?;
        name_of(address).iter().for_each(|name| self.store.remove(name));
        self.insert(address, owned(socket, mode.into()));
        Ok(true)
    }

    fn insert(&mut self, address: &str, socket: Listening) {
        if socket.owner == Owner::Server {
            self.store.keep(address, socket.socket.as_fd());
        }
        self.open.insert(address.to_owned(), socket);
    }

    /// Removes inherited sockets of the server from the store.
    fn release(&self, sockets: &[Listening]) {
        let own = sockets.iter().filter(|socket| socket.owner == Owner::Server);
        own.for_each(|socket| self.store.remove(&socket.name));
    }

    /// Takes the inherited socket for an address; `None` if there is none.
    fn claim(
        &mut self,
        address: &str,
        backlog: u32,
        access: Access,
    ) -> Option<Result<Listening, String>> {
        let mut claimed = self.unclaimed.take(address)?;
        // A socket whose file is gone cannot be connected to.
        if file_of(address).is_some() && file_mode(address).is_none() {
            self.release(&[claimed]);
            return None;
        }
        if let Err(problem) = change(address, &mut claimed, access) {
            return Some(Err(problem));
        }
        if claimed.owner == Owner::Server && !is_udp(address) {
            // The configuration may have another backlog than before.
            let _ = claimed.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX));
        }
        Some(Ok(claimed))
    }

    /// Opens a socket. If another one is in the way, retries for a while after the start.
    fn listen(&mut self, address: &str, backlog: u32, access: Access) -> Result<Socket, String> {
        loop {
            match listen(address, backlog, access) {
                Ok(socket) => return Ok(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let obstacles = self.unclaimed.clear_way(address);
                    if !obstacles.is_empty() {
                        self.release(&obstacles);
                        continue;
                    }
                    let mut all = self.unclaimed.iter().chain(self.open.values());
                    let is_obstacle = |socket: &&Listening| {
                        socket.owner == Owner::ServiceManager && socket.is_in_the_way_of(address)
                    };
                    if let Some(other) = all.find(is_obstacle) {
                        return Err(format!(
                            "{address}: the service manager has opened {other}; give the listener \
                             that address, or change the socket unit"
                        ));
                    }
                    if Instant::now() >= self.retry_until {
                        self.is_taken = true;
                        return Err(format!("{address}: {}", explain(address, &error)));
                    }
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(error) => return Err(format!("{address}: {}", explain(address, &error))),
            }
        }
    }

    /// Binds the first of some unix sockets on which no other server listens. All are in one
    /// directory; `None` if there are none. Error: the reason why the last one cannot be bound.
    pub(crate) fn bind_first(
        &mut self,
        addresses: &[String],
        backlog: u32,
        mode: u32,
    ) -> Result<Option<String>, String> {
        for address in addresses {
            if let Some(Ok(claimed)) = self.claim(address, backlog, mode.into()) {
                self.insert(address, claimed);
                return Ok(Some(address.clone()));
            }
        }
        let Some(first) = addresses.first() else { return Ok(None) };
        let directory = Path::new(first.strip_prefix("unix:").unwrap_or(first)).parent();
        // Without the lock, two servers that start at once could each take the other's new socket
        // for stale.
        let _lock = directory.and_then(|directory| {
            let lock = std::fs::File::open(directory).ok()?;
            let end = Instant::now() + STARTUP_TIMEOUT;
            while lock.try_lock().is_err() && Instant::now() < end {
                std::thread::sleep(RETRY_INTERVAL);
            }
            Some(lock)
        });
        let mut problem = String::new();
        for address in addresses {
            match listen(address, backlog, mode.into()) {
                Ok(socket) => {
                    self.insert(address, owned(socket, mode.into()));
                    return Ok(Some(address.clone()));
                }
                Err(error) => problem = format!("{address}: {}", explain(address, &error)),
            }
        }
        Err(problem)
    }

    /// Stops waiting for addresses: the router asks again.
    pub(crate) fn stop_waiting(&mut self) {
        self.retry_until = Instant::now();
    }

    /// Returns true if the last address could not be bound because another program has it.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Returns the sockets that no listener has, for [`Sockets::refuse`].
    pub(crate) fn unclaimed(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.unclaimed.iter().map(|socket| socket.socket.as_fd())
    }

    /// Closes connections that wait at sockets which no listener has. The service manager keeps
    /// these sockets open, so clients would wait for an answer without end.
    pub(crate) fn refuse(&self) {
        for socket in self.unclaimed.iter() {
            for _ in 0..MAX_REFUSED {
                if socket.socket.accept().is_err() {
                    break;
                }
            }
        }
    }

    /// Returns the open socket for an address.
    pub(crate) fn get(&self, address: &str) -> Option<BorrowedFd<'_>> {
        self.open.get(address).map(|open| open.socket.as_fd())
    }

    /// Returns all open sockets, for a server that takes them over.
    pub(crate) fn all(&self) -> Vec<OpenSocket<'_>> {
        let open = self.open.iter();
        let open =
            open.map(|(address, open)| OpenSocket::new(name_of(address).unwrap_or_default(), open));
        let unclaimed = self.unclaimed.iter().map(|open| OpenSocket::new(open.name.clone(), open));
        open.chain(unclaimed).collect()
    }

    /// Closes the socket of an address that another server uses too; its file stays.
    pub(crate) fn forget(&mut self, address: &str) {
        self.open.remove(address);
    }

    /// Closes all sockets; their files are those of another server.
    pub(crate) fn forget_all(&mut self) {
        self.open.clear();
    }

    /// Returns the addresses of all open sockets, sorted.
    pub(crate) fn addresses(&self) -> Vec<&str> {
        let mut addresses: Vec<_> = self.open.keys().map(String::as_str).collect();
        addresses.sort_unstable();
        addresses
    }

    /// Closes the socket of an address, and removes its file if it has one. A socket of the service
    /// manager stays open, because its address cannot be bound again.
    pub(crate) fn unbind(&mut self, address: &str) {
        match self.open.remove(address) {
            Some(socket) if socket.owner == Owner::ServiceManager => self.unclaimed.add(socket),
            Some(_) => {
                self.next.remove(address);
                name_of(address).iter().for_each(|name| self.store.remove(name));
                remove_file(address);
            }
            None => {}
        }
    }

    /// Closes all sockets and removes their files, unless the service manager owns them or keeps
    /// them for the next server.
    pub(crate) fn close(&mut self) {
        for (address, open) in self.open.drain() {
            if open.owner == Owner::Server && !self.store.exists() {
                remove_file(&address);
            }
        }
    }
}

/// Returns a socket that the server has opened itself.
fn owned(socket: Socket, access: Access) -> Listening {
    Listening { socket, name: String::new(), owner: Owner::Server, access: Some(access) }
}

/// Changes who may connect to an open socket. Those who have connected to serve HTTP must not be
/// served over FastCGI, so their connections are closed.
fn change(address: &str, open: &mut Listening, access: Access) -> Result<(), String> {
    check_unit(address, open, access)?;
    let before = open.access.replace(access);
    if before == Some(access) {
        return Ok(());
    }
    if open.owner == Owner::Server
        && let Some(path) = file_of(address)
    {
        let changed = SafePath::resolve(path).and_then(|place| access.change(&place));
        if let Err(error) = changed {
            open.access = before;
            return Err(format!("{address}: {error}"));
        }
    }
    if access.is_for_fastcgi && before.is_some_and(|before| !before.is_for_fastcgi) {
        for _ in 0..MAX_DROPPED {
            if open.socket.accept().is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Checks that the file of a socket unit permits no others to connect: it is not the server's to
/// change.
fn check_unit(address: &str, open: &Listening, access: Access) -> Result<(), String> {
    let Access { mode, .. } = access;
    let is_of_unit = open.owner == Owner::ServiceManager;
    if is_of_unit && file_mode(address).is_some_and(|found| found & WRITE_MODES & !mode != 0) {
        return Err(format!(
            "{address}: its mode permits others to connect; set SocketMode={mode:04o} in the \
             socket unit"
        ));
    }
    Ok(())
}

/// Returns the permissions of the file of a unix socket; `None` if there is none.
fn file_mode(address: &str) -> Option<u32> {
    SafePath::resolve(file_of(address)?).and_then(|place| place.socket_mode()).ok()?
}

fn remove_file(address: &str) {
    if let Some(Ok(place)) = file_of(address).map(SafePath::resolve) {
        let _ = remove_socket(&place);
    }
}

/// Removes a file if it is a socket.
fn remove_socket(place: &SafePath) -> io::Result<()> {
    match place.kind()? {
        Some(FileType::Socket) => place.remove(),
        _ => Ok(()),
    }
}

/// Returns the message for an address that cannot be bound, with the remedy.
pub(crate) fn explain(address: &str, error: &io::Error) -> String {
    let directory = file_of(address).and_then(Path::parent).map(|directory| {
        if directory.as_os_str().is_empty() {
            "this directory".to_owned()
        } else {
            directory.display().to_string()
        }
    });
    match (error.kind(), directory) {
        (io::ErrorKind::AddrInUse, _) => {
            let program = Ports::of_machine().listener(address);
            let program = program.map(|(place, who)| format!(" ({who} on {place})"));
            let program = program.unwrap_or_default();
            format!("another program listens there{program}; stop it or choose another address")
        }
        (io::ErrorKind::NotFound, Some(directory)) => {
            format!("{directory} does not exist; make it, or choose another directory")
        }
        (io::ErrorKind::PermissionDenied, Some(directory)) => {
            format!("not permitted to make a socket in {directory}; choose another directory")
        }
        (io::ErrorKind::PermissionDenied, None) => {
            "not permitted; ports below 1024 need root, or choose another address".to_owned()
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            "no network interface of this machine has this address".to_owned()
        }
        _ => error.to_string(),
    }
}

fn listen(address: &str, backlog: u32, access: Access) -> io::Result<Socket> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    if let Some(name) = address.strip_prefix("unix:") {
        return listen_unix(name, backlog, access);
    }
    let parsed = parse(address).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "not of the form ADDRESS:PORT")
    })?;
    let is_udp = is_udp(address);
    let kind = if is_udp { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(parsed), kind, None)?;
    if is_udp {
        // An optimisation, so failures are ignored. The larger size needs a privilege.
        let _ = socket.set_recv_buffer_size(UDP_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(UDP_BUFFER_BYTES);
        let _ = set_socket_recv_buffer_size_force(&socket, UDP_BUFFER_BYTES);
    } else {
        // Of datagrams, each of two sockets at an address would take some.
        socket.set_reuse_address(true)?;
    }
    if parsed.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&parsed.into())?;
    if !is_udp {
        socket.listen(backlog)?;
    }
    Ok(socket)
}

/// Held while the umask differs, which all threads of a process share.
static UMASK: Mutex<()> = Mutex::new(());

fn listen_unix(name: &str, backlog: i32, access: Access) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if let Some(name) = name.strip_prefix('@') {
        let mut path = vec![0];
        path.extend_from_slice(name.as_bytes());
        socket.bind(&SockAddr::unix(std::str::from_utf8(&path).map_err(io::Error::other)?)?)?;
    } else {
        let path = Path::new(name);
        remove_stale(path)?;
        // The mode of the socket, less the umask, becomes that of its file. So the file has the
        // right mode from the start, and its path need not be resolved a second time, when it could
        // lead elsewhere.
        fchmod(&socket, Mode::from_raw_mode(access.mode))?;
        let address = SockAddr::unix(path)?;
        let changing = UMASK.lock();
        let before = umask(Mode::empty());
        let bound = socket.bind(&address);
        umask(before);
        drop(changing);
        bound?;
        // Nobody can connect before `listen`.
        let place = SafePath::resolve(path)?;
        if let Err(error) = access.give(&place) {
            let _ = remove_socket(&place);
            return Err(error);
        }
    }
    socket.listen(backlog)?;
    Ok(socket)
}

/// Removes the file of a socket without a listener.
fn remove_stale(path: &Path) -> io::Result<()> {
    let place = SafePath::resolve(path)?;
    if place.kind()? != Some(FileType::Socket) {
        return Ok(());
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove_socket(&place),
        _ => Ok(()), // bind reports that the address is in use
    }
}
