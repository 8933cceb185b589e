//! The files that this process has open.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use howdah_sys::process;
use rustix::fs::{Mode, OFlags};
use rustix::net::SocketAddrUnix;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

/// Devices whose descriptors carry no data from one process to another.
const HARMLESS: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// The files of the open descriptors, by descriptor, without [`HARMLESS`] devices and `/proc`.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenFiles(BTreeMap<i32, String>);

impl OpenFiles {
    /// Returns the files that are open now.
    pub fn of_this_process() -> Self {
        let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let file = |entry: fs::DirEntry| {
            let target = fs::read_link(entry.path()).ok()?;
            let is_harmless = HARMLESS.iter().any(|path| target == Path::new(path));
            if is_harmless || target.starts_with("/proc/") {
                return None;
            }
            let fd = entry.file_name().to_str()?.parse().ok()?;
            Some((fd, target.display().to_string()))
        };
        OpenFiles(entries.filter_map(file).collect())
    }

    /// Returns a file that is open now and was not open `before`.
    pub fn opened_since(&self, before: &OpenFiles) -> Option<&str> {
        self.since(before).map(|(_, target)| target).next()
    }

    /// Returns a file that was not open `before` and that two processes must not share: each use by
    /// one of them would have an effect on the other. Files that are only appended to can be shared
    /// (see [`reopen`]), paths (`O_PATH`), and the running `script`, which PHP keeps open after it
    /// has read it.
    pub fn unshareable_since(&self, before: &OpenFiles, script: &str) -> Option<String> {
        let mut new = self.since(before).filter(|(_, target)| *target != script);
        let (fd, target) = new.find(|(fd, target)| !is_shareable(*fd, target))?;
        Some(match peer(fd) {
            Some(peer) => format!("a connection to {peer}"),
            None => target.to_owned(),
        })
    }

    /// Returns the descriptors of regular files that were not open `before` and that are only
    /// appended to. To open anything else again, such as a named pipe without a reader, could
    /// block.
    pub fn appended_since(&self, before: &OpenFiles) -> Vec<i32> {
        let is_regular = |fd: i32| {
            fs::metadata(format!("/proc/self/fd/{fd}")).is_ok_and(|found| found.is_file())
        };
        let new = self.since(before).map(|(fd, target)| (fd, flags(fd), target));
        let appended =
            new.filter(|(fd, flags, target)| is_appended_to(*flags, target) && is_regular(*fd));
        appended.map(|(fd, ..)| fd).collect()
    }

    fn since(&self, before: &OpenFiles) -> impl Iterator<Item = (i32, &str)> {
        let is_new = |(fd, target): &(i32, &str)| before.0.get(fd).is_none_or(|old| old != target);
        self.0.iter().map(|(fd, target)| (*fd, target.as_str())).filter(is_new)
    }
}

/// Returns the address that a descriptor of this process is connected to: the number of a socket
/// does not help an administrator.
fn peer(fd: i32) -> Option<String> {
    let this = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).ok()?;
    let socket = rustix::process::pidfd_getfd(this, fd, PidfdGetfdFlags::empty()).ok()?;
    let address = rustix::net::getpeername(&socket).ok()??;
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return Some(address.to_string());
    }
    let path = SocketAddrUnix::try_from(address).ok()?;
    Some(path.path()?.to_string_lossy().into_owned())
}

fn is_shareable(fd: i32, target: &str) -> bool {
    let flags = flags(fd);
    is_appended_to(flags, target) || flags.contains(OFlags::PATH)
}

/// Returns the flags that a file was opened with; none if they are not known.
fn flags(fd: i32) -> OFlags {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    OFlags::from_bits_retain(flags.unwrap_or_default())
}

fn is_appended_to(flags: OFlags, target: &str) -> bool {
    target.starts_with('/')
        && flags.contains(OFlags::APPEND)
        && flags.intersection(OFlags::RWMODE) == OFlags::WRONLY
}

/// Opens the file of a descriptor that a fork has inherited once more, under the same number: locks
/// by flock(2) belong to the open file description, so two processes that share it do not exclude
/// each other.
pub fn reopen(fd: i32) -> io::Result<()> {
    let flags = flags(fd) & (OFlags::APPEND | OFlags::RWMODE | OFlags::NONBLOCK);
    let path = format!("/proc/self/fd/{fd}");
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
    process::duplicate_to(&file, fd)
}

/// Returns the descriptor of OPcache's lock file, whose name differs between versions of PHP.
pub fn opcache_lock() -> Option<i32> {
    let open = OpenFiles::of_this_process();
    let mut locks = open.0.iter().filter(|(_, target)| is_opcache_lock(target)).map(|(fd, _)| *fd);
    let lock = locks.next()?;
    locks.next().is_none().then_some(lock)
}

fn is_opcache_lock(target: &str) -> bool {
    target.contains("/.ZendSem.") || target.starts_with("/memfd:opcache_lock")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    /// Other tests of a program open and close files meanwhile, so this one has a process of its
    /// own.
    #[test]
    fn files_that_two_processes_must_not_share_are_found() {
        const ALONE: &str = "HOWDAH_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "open_files::tests::files_that_two_processes_must_not_share_are_found";
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.env(ALONE, "1").args(["--exact", name, "--test-threads=1"]);
            let output = again.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let before = OpenFiles::of_this_process();
        assert_eq!(before.opened_since(&before), None);
        let appended = File::options().create(true).append(true).open(path("log")).unwrap();
        let null = File::open("/dev/null").unwrap();
        let now = OpenFiles::of_this_process();
        assert_eq!(now.opened_since(&before), path("log").to_str());
        assert_eq!(now.unshareable_since(&before, ""), None);
        let written = File::create(path("written")).unwrap();
        let now = OpenFiles::of_this_process();
        let written_path = path("written").display().to_string();
        assert_eq!(now.unshareable_since(&before, ""), Some(written_path.clone()));
        assert_eq!(now.unshareable_since(&before, &written_path), None);
        drop((appended, null, written));
        let sockets = UnixStream::pair().unwrap();
        let now = OpenFiles::of_this_process();
        assert!(now.unshareable_since(&before, "").unwrap().starts_with("socket:"));
        drop(sockets);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let database = UnixListener::bind(path("database.sock")).unwrap();
        let addresses =
            [tcp.local_addr().unwrap().to_string(), path("database.sock").display().to_string()];
        for (number, address) in addresses.iter().enumerate() {
            let before = OpenFiles::of_this_process();
            let connection: OwnedFd = match number {
                0 => TcpStream::connect(address).unwrap().into(),
                _ => UnixStream::connect(address).unwrap().into(),
            };
            let found = OpenFiles::of_this_process().unshareable_since(&before, "");
            assert_eq!(found, Some(format!("a connection to {address}")));
            drop(connection);
        }
        drop((tcp, database));
        assert!(is_opcache_lock("/tmp/.ZendSem.x1 (deleted)"));
        assert!(!is_opcache_lock("/tmp/ZendSem"));
    }
}
