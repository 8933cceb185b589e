//! Starting the router: an unprivileged process of the same program.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_sys::{packet, process, signals};
use howdah_wire::messages::FromSupervisor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::certificates::Certificates;
use crate::options::Options;

/// Process title of the router; by it the program knows what it is started as.
pub const TITLE: &str = "howdah: router";

/// A running router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) pid: u32,
    pub(crate) socket: OwnedFd,
    pub(crate) started: Instant,
}

/// Starts the router with a document and certificate bundles.
pub(crate) fn start(
    options: &Options,
    document: &[u8],
    certificates: &Certificates,
    log: BorrowedFd<'_>,
    control: Option<BorrowedFd<'_>>,
    now: Instant,
) -> std::io::Result<Router> {
    let (ours, theirs) = packet::pair()?;
    let parent = std::process::id();
    let pid = match process::fork()? {
        process::Forked::Parent(pid) => pid,
        process::Forked::Child => {
            let error = become_router(options, &theirs, log, parent);
            eprintln!("howdah: cannot start the router: {error}");
            process::exit_now(127);
        }
    };
    let hello = FromSupervisor::Hello {
        php: options
            .php
            .iter()
            .map(|program| (program.version.clone(), program.path.display().to_string()))
            .collect(),
        origin: options.origin.clone(),
        tmp: options.tmp.display().to_string(),
        control: options.control.clone().unwrap_or_default(),
    };
    let document = memory("document", document)?;
    let certificates = memory("certificates", &certificates.encode())?;
    let mut descriptors = vec![log, document.as_fd(), certificates.as_fd()];
    descriptors.extend(control);
    packet::send(&ours, &hello.encode(), &descriptors)?;
    rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
    Ok(Router { pid, socket: ours, started: now })
}

/// Bytes as a descriptor.
pub(crate) fn memory(name: &str, bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    Ok(file.into())
}

fn become_router(
    options: &Options,
    socket: &OwnedFd,
    log: BorrowedFd<'_>,
    parent: u32,
) -> std::io::Error {
    let prepare = || -> std::io::Result<()> {
        signals::reset();
        process::close_on_exec_from(3);
        process::standard_streams(log, log)?;
        process::place(socket, 3)?;
        rustix::process::setpgid(None, None)?;
        raise_open_files()?;
        process::bound_capabilities();
        if let Some(user) = &options.user {
            user.assume()?;
        }
        process::drop_capabilities()?;
        process::no_new_privileges()?;
        process::die_with(Some(parent));
        Ok(())
    };
    // The path of this program may lead through directories that the router's user cannot enter;
    // the link of the kernel does not.
    match prepare() {
        Ok(()) => process::exec("/proc/self/exe", &[TITLE], &[]),
        Err(error) => error,
    }
}

/// Every connection is an open file: as many as the system allows, instead of the 1,024 that are
/// customary for programs that call `select`. Prototypes keep that limit for this reason.
fn raise_open_files() -> std::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?)
}
