//! Starts the control process.
//!
//! The control process serves the control API, so that the router, which reads untrusted input, has
//! no part in changes of the configuration. It is started when a connection waits at the control
//! socket, or to read the configuration again, and ends by itself after some idle time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_sys::log::Log;
use howdah_sys::packet;
use howdah_wire::messages::ToControl;

use crate::certificates::Certificates;
use crate::memory::memory_file;
use crate::options::Options;
use crate::unprivileged::{self, Kind};

/// A running control process.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) pid: u32,
    pub(crate) socket: OwnedFd,
    pub(crate) started: Instant,
}

/// Returns the first message. `refused`: since when the document at its source is refused, and why.
/// `has_site_users`: there is a socket for users of sites.
pub(crate) fn hello(
    options: &Options,
    refused: Option<(u64, String)>,
    has_site_users: bool,
) -> ToControl {
    ToControl::Hello {
        address: options.control.clone().unwrap_or_default(),
        origin: options.origin.clone(),
        is_undone_by_reload: options.reload_document.is_some() && options.state.is_none(),
        unit_defaults: options.unit_defaults,
        token: options.control_token.clone(),
        sandbox: options.sandbox,
        refused,
        has_site_users,
    }
}

/// The sockets of a control process.
pub(crate) struct ControlSockets<'a> {
    /// Its end of the socket to the router.
    pub(crate) router: BorrowedFd<'a>,
    /// The socket for users of sites.
    pub(crate) site_users: Option<BorrowedFd<'a>>,
    /// The listening socket of the control API.
    pub(crate) listener: Option<BorrowedFd<'a>>,
}

/// Starts the control process.
pub(crate) fn start(
    options: &Options,
    hello: &ToControl,
    document: &[u8],
    certificates: &Certificates,
    log: &Log,
    sockets: &ControlSockets<'_>,
) -> io::Result<Control> {
    let (pid, socket) = unprivileged::start(Kind::Control, options, log)?;
    let document = memory_file("document", document)?;
    let bundles = memory_file("certificates", &certificates.encode(|_| true))?;
    let log = log.handle()?;
    let mut descriptors = vec![log.as_fd(), document.as_fd(), bundles.as_fd(), sockets.router];
    descriptors.extend(sockets.site_users);
    descriptors.extend(sockets.listener);
    packet::send(&socket, &hello.encode(), &descriptors)?;
    Ok(Control { pid, socket, started: Instant::now() })
}
