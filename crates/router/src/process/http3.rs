//! HTTP/3 of the process: its keys, the UDP sockets of listeners on their way to the threads, and their
//! datagrams on the way from the process that replaces this one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use aws_lc_rs::rand;
use howdah_pipeline::thread::{Http3Socket, Reading, ThreadCommand};
use howdah_quic::{Datagram, FormerProcess, Inbox, Keys, NewProcess, Owner, Target};
use howdah_text::hex;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::shutdown::CHECK_INTERVAL;
use super::threads::Threads;

/// What the threads need for HTTP/3 beside its sockets.
pub(super) struct Http3Process {
    keys: Keys,
    /// Whether this process reads its UDP sockets. Its receivers are the threads that do.
    reading: watch::Sender<Reading>,
    distributor: Rc<Distributor>,
}

/// Passes the datagrams of the new process to the threads of their connections.
struct Distributor {
    keys: Keys,
    former: Option<Arc<FormerProcess>>,
    /// Inboxes of all threads, by the names of the UDP sockets.
    inboxes: RefCell<HashMap<Box<str>, Arc<[Inbox]>>>,
}

impl Http3Process {
    /// Creates the state of this process from the secret of the server in hexadecimal, or from one of
    /// its own if that is empty, and the socket to the process that this one replaces.
    pub(super) fn new(secret: &str, former: Option<OwnedFd>) -> io::Result<Http3Process> {
        let mut bytes = [0; Keys::SECRET_LENGTH];
        rand::fill(&mut bytes).map_err(io::Error::other)?;
        if secret.len() == 2 * bytes.len() {
            let digits = secret.as_bytes().chunks(2);
            bytes.iter_mut().zip(digits).for_each(|(byte, digits)| {
                *byte = hex::byte(digits).unwrap_or(*byte);
            });
        }
        let keys = Keys::new(&bytes);
        let former = former.map(|socket| Arc::new(FormerProcess::new(socket)));
        let first = if former.is_some() { Reading::NotYet } else { Reading::Now };
        let reading = watch::Sender::new(first);
        if let Some(former) = former.clone() {
            let reading = reading.clone();
            spawn_local(async move {
                // After an error nobody would read them.
                let _ = former.reads_no_more().await;
                reading.send_if_modified(|now| {
                    let begins = *now == Reading::NotYet;
                    *now = if begins { Reading::Now } else { *now };
                    begins
                });
            });
        }
        let (inboxes, own) = (RefCell::default(), keys.clone());
        let distributor = Rc::new(Distributor { keys: own, former, inboxes });
        Ok(Http3Process { keys, reading, distributor })
    }

    /// Lets all threads serve HTTP/3 of a listener on the UDP socket with this name. One of them reads
    /// it.
    pub(super) fn listen(
        &self,
        threads: &Threads,
        listener: &str,
        name: &str,
        fd: OwnedFd,
    ) -> io::Result<()> {
        let (inboxes, arrivals): (Vec<_>, Vec<_>) = threads.iter().map(|_| Inbox::new()).unzip();
        let inboxes: Arc<[Inbox]> = inboxes.into();
        let mut all = self.distributor.inboxes.borrow_mut();
        all.retain(|_, inboxes| !inboxes.iter().all(Inbox::is_closed));
        all.insert(name.into(), Arc::clone(&inboxes));
        // Listeners for IPv4 and IPv6 have the same name but for the address.
        let reader = name.bytes().map(usize::from).sum::<usize>() % threads.len().max(1);
        for ((number, thread), arrivals) in threads.iter().enumerate().zip(arrivals) {
            let socket = Http3Socket {
                fd: fd.try_clone()?,
                arrivals,
                inboxes: Arc::clone(&inboxes),
                reading: (number == reader).then(|| self.reading.subscribe()),
                former: self.distributor.former.clone(),
                keys: self.keys.clone(),
                owner: Owner {
                    process: std::process::id(),
                    thread: u8::try_from(number).unwrap_or(u8::MAX),
                },
            };
            let (listener, name) = (listener.into(), name.into());
            thread.send(ThreadCommand::ListenHttp3 { listener, name, socket });
        }
        Ok(())
    }

    /// Leaves the UDP sockets to the process that replaces this one, and takes from it the datagrams of
    /// connections that this one has.
    pub(super) fn hand_over(&self, new: Option<OwnedFd>) {
        self.reading.send_replace(Reading::NoMore);
        let Some(new) = new.and_then(|socket| NewProcess::new(socket).ok()) else { return };
        let (reading, distributor) = (self.reading.clone(), Rc::clone(&self.distributor));
        spawn_local(async move {
            reading.closed().await;
            new.let_read();
            while let Some((socket, datagram)) = new.next().await {
                distributor.take(&socket, datagram);
            }
        });
    }

    /// Waits for the end of the process that this one has replaced: its connections get their datagrams
    /// through this one.
    pub(super) fn former_ended(&self) -> impl Future<Output = ()> + use<> {
        let former = self.distributor.former.clone();
        async move {
            while former.as_ref().is_some_and(|former| !former.has_ended()) {
                sleep(CHECK_INTERVAL).await;
            }
        }
    }
}

impl Distributor {
    fn take(&self, socket: &str, datagram: Datagram) {
        let Some(Target::Owner(owner)) = self.keys.target(&datagram.data) else { return };
        let (thread, datagram) = if owner.process == std::process::id() {
            (owner.thread, Some(datagram))
        } else if let Some(former) = &self.former {
            (0, former.pass(socket, datagram))
        } else {
            (0, Some(datagram)) // nobody has the connection, and any thread tells the client
        };
        let inboxes = self.inboxes.borrow();
        let inbox = inboxes.get(socket).and_then(|inboxes| inboxes.get(usize::from(thread)));
        if let Some((inbox, datagram)) = inbox.zip(datagram) {
            inbox.deliver(datagram);
        }
    }
}
