//! The server that this one replaces.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use howdah_sys::packet::{self, Received};
use howdah_sys::process;
use howdah_wire::messages::{
    FromSuccessor, HANDOVER_PROTOCOL, MAX_MESSAGE, MailUsage, Secret, ToSuccessor, take_mail_usage,
};

use super::{SOCKET, VARIABLE, VERSION, check_protocol};
use crate::memory::read_memory_file;
use crate::passed_socket::Owner;

/// The server that this one replaces, and the state that it has handed over.
#[derive(Debug, Clone)]
pub struct Predecessor(Rc<HandedOver>);

#[derive(Debug)]
struct HandedOver {
    /// `None` once the old server has ended.
    socket: RefCell<Option<Rc<OwnedFd>>>,
    listeners: RefCell<Vec<(OwnedFd, String, Owner)>>,
    document: Vec<u8>,
    bundles: Vec<u8>,
    pid: u32,
    origin: String,
    refused: Option<(u64, String)>,
    control: Option<String>,
    running: Vec<String>,
    with_php: Vec<String>,
    control_groups: Vec<String>,
    http3_secret: Secret,
    router_link: RefCell<Option<OwnedFd>>,
}

/// A message of the old server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// No message has arrived.
    None,
    /// This server takes over. With the recipients of the applications' mail, and the counts of
    /// sites as JSON.
    TakeOver(Vec<MailUsage>, Vec<u8>),
    /// Further counts of sites.
    Used(Vec<u8>),
    /// The old server has ended.
    Ended,
}

impl Predecessor {
    /// Returns the server that has started this process to be replaced by it; `None` if this is an
    /// ordinary start. Must be called once, at the start of the program. Error: the hand-over is
    /// not complete, or has another protocol.
    pub fn inherited() -> Result<Option<Predecessor>, String> {
        let own = std::process::id().to_string();
        if std::env::var_os(VARIABLE).is_none_or(|value| value != *own) {
            return Ok(None);
        }
        let socket = process::take_inherited(SOCKET).ok_or("descriptor 3 is not open")?;
        // The scripts of a server without root run as the user of this process.
        process::deny_tracing().map_err(|error| {
            format!("cannot keep other processes from tracing the server: {error}")
        })?;
        answer(
            &socket,
            &FromSuccessor::Hello { protocol: HANDOVER_PROTOCOL, version: VERSION.to_owned() },
        );
        let refused = |problem: String| {
            answer(&socket, &FromSuccessor::Failed { message: problem.clone() });
            problem
        };
        let handed = receive(&socket).map_err(refused)?;
        handed.socket.replace(Some(Rc::new(socket)));
        Ok(Some(Predecessor(Rc::new(handed))))
    }

    /// Returns the document that the old server serves.
    pub fn document(&self) -> &[u8] {
        &self.0.document
    }

    /// Returns the name of the document in error messages.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// Returns since when the document at its source is refused, in seconds since 1970, and why.
    pub(crate) fn refused(&self) -> Option<(u64, String)> {
        self.0.refused.clone()
    }

    /// Tells the old server that this one cannot serve. The message is one line with the problem
    /// and the remedy.
    pub fn fail(&self, message: &str) {
        self.send(&FromSuccessor::Failed { message: message.to_owned() });
    }

    /// Returns the process id of the old server.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Returns the address of the control API.
    pub(crate) fn control(&self) -> Option<String> {
        self.0.control.clone()
    }

    /// Returns the names of the applications that run in the old server.
    pub(crate) fn running(&self) -> &[String] {
        &self.0.running
    }

    /// Returns the names of the applications whose version of PHP the old server has.
    pub(crate) fn with_php(&self) -> &[String] {
        &self.0.with_php
    }

    /// Returns the directories of the control groups that the old server has created.
    pub(crate) fn control_groups(&self) -> &[String] {
        &self.0.control_groups
    }

    /// Returns the secret of HTTP/3.
    pub(crate) fn http3_secret(&self) -> &Secret {
        &self.0.http3_secret
    }

    /// Takes the end for this server's router of its socket to the former one.
    pub(crate) fn take_router_link(&self) -> Option<OwnedFd> {
        self.0.router_link.take()
    }

    /// Returns the certificate bundles, encoded.
    pub(crate) fn bundles(&self) -> &[u8] {
        &self.0.bundles
    }

    /// Takes the listening sockets: descriptor, name and owner.
    pub(crate) fn take_listeners(&self) -> Vec<(OwnedFd, String, Owner)> {
        self.0.listeners.take()
    }

    /// Returns the socket, to poll; `None` once the old server has ended.
    pub(crate) fn socket(&self) -> Option<Rc<OwnedFd>> {
        self.0.socket.borrow().clone()
    }

    /// Reads the next message.
    pub(crate) fn instruction(&self) -> Instruction {
        let mut buffer = [0; 256];
        let received = self.socket().map(|socket| packet::receive(&*socket, &mut buffer));
        match received {
            Some(Ok(Received::Packet(length, descriptors))) => {
                match ToSuccessor::decode(&buffer[..length]) {
                    Ok(ToSuccessor::TakeOver {}) => {
                        let mut files = descriptors.into_iter();
                        let mut next = || {
                            let file = files.next().into_iter().collect();
                            read_memory_file(file, u64::MAX).unwrap_or_default()
                        };
                        let mail = take_mail_usage(&next()).unwrap_or_default();
                        Instruction::TakeOver(mail, next())
                    }
                    Ok(ToSuccessor::Used {}) => {
                        let counts = read_memory_file(descriptors, u64::MAX);
                        Instruction::Used(counts.unwrap_or_default())
                    }
                    _ => Instruction::None,
                }
            }
            Some(Ok(Received::Empty)) => Instruction::None,
            Some(Ok(Received::Closed) | Err(_)) | None => Instruction::Ended,
        }
    }

    /// Sends an answer. One that the old server can no longer get is dropped.
    pub(crate) fn send(&self, message: &FromSuccessor) {
        if let Some(socket) = self.socket() {
            answer(&socket, message);
        }
    }

    /// Closes the socket: the old server has ended.
    pub(crate) fn forget(&self) {
        self.0.socket.take();
    }
}

fn answer(socket: &OwnedFd, message: &FromSuccessor) {
    let _ = packet::send(socket.as_fd(), &message.encode(), &[]);
}

fn receive(socket: &OwnedFd) -> Result<HandedOver, String> {
    let mut buffer = vec![0; MAX_MESSAGE];
    let mut next = || match packet::receive(socket, &mut buffer) {
        Ok(Received::Packet(length, descriptors)) => Ok((buffer[..length].to_vec(), descriptors)),
        Ok(Received::Empty | Received::Closed) => {
            Err("the server has not handed over its state".to_owned())
        }
        Err(error) => Err(format!("cannot receive the state of the server: {error}")),
    };
    const MALFORMED: &str = "the server has handed over a malformed state";
    let (packet, _) = next()?;
    match ToSuccessor::decode(&packet) {
        Ok(ToSuccessor::Hello { protocol, version }) => check_protocol(protocol, &version)?,
        _ => return Err(MALFORMED.to_owned()),
    }
    let (mut listeners, mut refused) = (Vec::new(), None);
    loop {
        let (packet, descriptors) = next()?;
        match ToSuccessor::decode(&packet) {
            Ok(ToSuccessor::Listeners { sockets }) if sockets.len() == descriptors.len() => {
                let sockets = sockets.into_iter().zip(descriptors);
                listeners.extend(sockets.map(|((name, is_of_manager), fd)| {
                    let owner = if is_of_manager { Owner::ServiceManager } else { Owner::Server };
                    (fd, name, owner)
                }));
            }
            Ok(ToSuccessor::Refused { since, reason }) => refused = Some((since, reason)),
            Ok(ToSuccessor::Server {
                pid,
                origin,
                control,
                running,
                with_php,
                control_groups,
                http3_secret,
            }) => {
                let read = |descriptor: Option<OwnedFd>| {
                    read_memory_file(descriptor.into_iter().collect(), u64::MAX)
                        .map_err(|error: io::Error| format!("{MALFORMED}: {error}"))
                };
                let mut descriptors = descriptors.into_iter();
                let document = read(descriptors.next())?;
                let bundles = read(descriptors.next())?;
                return Ok(HandedOver {
                    socket: RefCell::default(),
                    listeners: RefCell::new(listeners),
                    document,
                    bundles,
                    pid,
                    origin,
                    refused,
                    control,
                    running,
                    with_php,
                    control_groups,
                    http3_secret,
                    router_link: RefCell::new(descriptors.next()),
                });
            }
            _ => return Err(MALFORMED.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use howdah_wire::messages::put_mail_usage;

    use super::*;
    use crate::handover::State;
    use crate::memory::memory_file;
    use crate::sockets::OpenSocket;

    fn state(listeners: Vec<OpenSocket<'_>>) -> State<'_> {
        State {
            listeners,
            document: b"{}",
            bundles: b"bundles".to_vec(),
            origin: "site.json".to_owned(),
            refused: Some((7, "é".repeat(MAX_MESSAGE))),
            control: None,
            running: vec!["blog".to_owned()],
            with_php: Vec::new(),
            control_groups: Vec::new(),
            http3_secret: "00".repeat(32),
        }
    }

    #[test]
    fn everything_arrives_although_the_sender_has_ended() {
        let (ours, theirs) = packet::pair().unwrap();
        let any = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = |index: usize| OpenSocket {
            name: format!("127.0.0.1={index}"),
            fd: any.as_fd(),
            owner: if index == 0 { Owner::ServiceManager } else { Owner::Server },
        };
        // More than one packet can carry.
        state((0..200).map(open).collect()).send(&ours, any.as_fd()).unwrap();
        drop(ours);
        let handed = receive(&theirs).unwrap();
        assert_eq!((handed.document, handed.bundles), (b"{}".to_vec(), b"bundles".to_vec()));
        assert_eq!(
            (handed.running, handed.origin.as_str()),
            (vec!["blog".to_owned()], "site.json")
        );
        assert_eq!(handed.http3_secret.expose().len(), 64);
        assert!(handed.router_link.into_inner().is_some());
        let (since, reason) = handed.refused.unwrap();
        assert!(since == 7 && reason.starts_with("éé") && reason.len() <= 4096, "{since} {reason}");
        let sockets = handed.listeners.into_inner();
        assert_eq!(sockets.len(), 200);
        assert_eq!((&*sockets[199].1, sockets[199].2), ("127.0.0.1=199", Owner::Server));
        assert_eq!(sockets[0].2, Owner::ServiceManager);
    }

    #[test]
    fn what_mail_was_counted_comes_with_the_word_to_take_over() {
        let (ours, theirs) = packet::pair().unwrap();
        state(Vec::new()).send(&ours, theirs.as_fd()).unwrap();
        let handed = receive(&theirs).unwrap();
        handed.socket.replace(Some(Rc::new(theirs)));
        let predecessor = Predecessor(Rc::new(handed));
        let take_over = ToSuccessor::TakeOver {}.encode();
        let minutes = vec![(7, 3), (9, 1)];
        let usage = vec![MailUsage { application: "blog".to_owned(), minutes }; 5000];
        let mail = memory_file("mail", &put_mail_usage(&usage)).unwrap();
        let counts = memory_file("usage", b"[]").unwrap();
        packet::send(&ours, &take_over, &[mail.as_fd(), counts.as_fd()]).unwrap();
        assert_eq!(predecessor.instruction(), Instruction::TakeOver(usage, b"[]".to_vec()));
        packet::send(&ours, &ToSuccessor::Used {}.encode(), &[counts.as_fd()]).unwrap();
        assert_eq!(predecessor.instruction(), Instruction::Used(b"[]".to_vec()));
        // A server of an earlier version counts for itself.
        packet::send(&ours, &take_over, &[]).unwrap();
        assert_eq!(predecessor.instruction(), Instruction::TakeOver(Vec::new(), Vec::new()));
    }

    #[test]
    fn a_hand_over_that_is_not_complete_or_malformed_is_refused() {
        let refused = |packets: &[(Vec<u8>, usize)]| {
            let (ours, theirs) = packet::pair().unwrap();
            for (bytes, descriptors) in packets {
                let descriptors: Vec<BorrowedFd<'_>> = vec![ours.as_fd(); *descriptors];
                packet::send(&ours, bytes, &descriptors).unwrap();
            }
            drop(ours);
            receive(&theirs).map(drop).unwrap_err()
        };
        let hello = |protocol| {
            let version = "9.1.0".to_owned();
            (ToSuccessor::Hello { protocol, version }.encode(), 0)
        };
        let good = hello(HANDOVER_PROTOCOL);
        let sockets = vec![("*=80".to_owned(), false)];
        let listeners = ToSuccessor::Listeners { sockets }.encode();
        let take_over = ToSuccessor::TakeOver {}.encode();
        let server = ToSuccessor::Server {
            pid: 1,
            origin: String::new(),
            control: None,
            running: Vec::new(),
            with_php: Vec::new(),
            control_groups: Vec::new(),
            http3_secret: Secret::new(String::new()),
        };
        let server = server.encode();
        assert!(refused(&[]).contains("has not handed over"));
        assert!(refused(&[hello(HANDOVER_PROTOCOL + 1)]).contains("9.1.0"));
        assert!(refused(&[(vec![0xff; 40], 0)]).contains("malformed"));
        assert!(refused(std::slice::from_ref(&good)).contains("has not handed over"));
        assert!(refused(&[good.clone(), (listeners, 2)]).contains("malformed"));
        assert!(refused(&[good.clone(), (take_over, 0)]).contains("malformed"));
        // A document that is no memory file, or none.
        for descriptors in [0, 2] {
            assert!(refused(&[good.clone(), (server.clone(), descriptors)]).contains("malformed"));
        }
    }
}
