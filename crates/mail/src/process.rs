//! The process: takes submissions from the supervisor, and ends when there are none.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use howdah_sys::packet::{self, Received};
use howdah_sys::sandbox::landlock::{Access, Domain, Grant};
use howdah_sys::sandbox::router_calls::ROUTER;
use howdah_sys::{reactor, signals};
use howdah_wire::messages::{FromMail, MAX_MESSAGE, ToMail};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc::unbounded_channel;

use crate::delivery::{Shared, Submission, carry_out, minute};
use crate::usage::Usage;

/// Time without submissions after which the process ends.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Files that the process opens itself.
const FILES: &[&str] = &[
    // Names of mail servers.
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    // The system's authorities.
    "/etc/ssl/certs",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/var/lib/ca-certificates",
    // Names of functions in a report of a panic.
    "/proc/self/exe",
];

/// Runs the process on the socket that the supervisor has passed. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    signals::ignore_pipe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    match runtime.and_then(|runtime| runtime.block_on(serve(socket, IDLE_TIME))) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("howdah: mail process: {error}");
            1
        }
    }
}

async fn serve(socket: OwnedFd, idle_time: Duration) -> io::Result<()> {
    let socket = Socket::new(socket)?;
    let first = socket.receive().await?;
    let Some((ToMail::Hello { sandbox, host, usage }, _)) = first else {
        return Err(io::Error::other("the supervisor's first message is not Hello"));
    };
    if sandbox {
        restrict();
    }
    let usage = Usage::of(usage).into();
    let shared = Rc::new(Shared { host, usage, ..Shared::default() });
    let (done, mut finished) = unbounded_channel();
    let mut in_progress = 0u32;
    loop {
        let is_idle = in_progress == 0;
        tokio::select! {
            message = socket.receive() => match message? {
                Some((ToMail::Deliver { number, application, user, route, is_to_file }, files)) => {
                    in_progress += 1;
                    let (shared, done) = (Rc::clone(&shared), done.clone());
                    tokio::task::spawn_local(async move {
                        let mut files = files.into_iter();
                        if let (Some(requests), Some(answers)) = (files.next(), files.next())
                            && let (Ok(requests), Ok(answers)) =
                                (Receiver::from_owned_fd(requests), sender(answers))
                        {
                            let file = files.next();
                            let submission = Submission {
                                application, user, route, requests, answers, file, is_to_file,
                            };
                            carry_out(submission, &shared).await;
                        }
                        let _ = done.send(number);
                    });
                }
                Some(_) => return Err(io::Error::other("the supervisor repeats Hello")),
                None => return Ok(()),
            },
            Some(number) = finished.recv() => {
                in_progress = in_progress.saturating_sub(1);
                socket.send(&FromMail::Done { number })?;
            }
            () = tokio::time::sleep(idle_time), if is_idle => {
                let usage = shared.usage.borrow().counts(minute());
                socket.send(&FromMail::Idle { usage })?;
            }
        }
    }
}

fn sender(end: OwnedFd) -> io::Result<Sender> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    rustix::fs::fcntl_setfl(&end, flags | rustix::fs::OFlags::NONBLOCK)?;
    Sender::from_owned_fd(end)
}

/// Gives up access to files that are not needed, and all system calls but those of the router. Must
/// be called before there is a second thread. Restrictions that the kernel lacks are logged by the
/// router.
fn restrict() {
    let files = FILES.iter().filter_map(|path| Grant::open(path, Access::Open).ok());
    let domain = Domain {
        files: Some(files.collect()),
        no_device_ioctl: true,
        no_bind_tcp: true,
        no_abstract_sockets: true,
    };
    let _ = domain.enter();
    let _ = ROUTER.install();
}

/// The socket to the supervisor.
struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    fn new(socket: OwnedFd) -> io::Result<Socket> {
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Socket(reactor::readable(socket)?))
    }

    /// Waits for a message; returns `None` when the other end is closed. Safe to cancel.
    async fn receive(&self) -> io::Result<Option<(ToMail, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.0.readable().await?;
            let (received, message) = packet::receive_next(self.0.get_ref(), MAX_MESSAGE)?;
            match received {
                Received::Empty => ready.clear_ready(),
                Received::Closed => return Ok(None),
                Received::Packet(_, descriptors) => {
                    let message = ToMail::decode(&message)
                        .map_err(|_| io::Error::other("the supervisor's message is malformed"))?;
                    return Ok(Some((message, descriptors)));
                }
            }
        }
    }

    /// Sends a message. The supervisor reads all of them; a full socket means that it has ended.
    fn send(&self, message: &FromMail) -> io::Result<()> {
        match packet::send(self.0.get_ref(), &message.encode(), &[]) {
            Err(rustix::io::Errno::PIPE) => Ok(()),
            result => Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests;
