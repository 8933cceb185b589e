//! The server that this one replaces.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use howdah_sys::packet::{self, Received};
use howdah_sys::process;
use howdah_wire::messages::{FromSuccessor, HANDOVER_PROTOCOL, MAX_MESSAGE, ToSuccessor};

use super::{SOCKET, VARIABLE, VERSION, check_protocol};
use crate::memory::read_memory_file;
use crate::sockets::Owner;

/// The server that this one replaces, and what it has handed over.
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
    control: Option<String>,
    running: Vec<String>,
    with_php: Vec<String>,
    control_groups: Vec<String>,
}

/// A message of the old server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// None has arrived.
    None,
    /// This server takes over.
    TakeOver,
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
        process::deny_tracing()
            .map_err(|error| format!("cannot keep other processes from tracing the server: {error}"))?;
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

    /// Tells the old server that this one cannot serve. The message is one line with the problem
    /// and what to do.
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
            Some(Ok(Received::Packet(length, _))) => match ToSuccessor::decode(&buffer[..length]) {
                Ok(ToSuccessor::TakeOver {}) => Instruction::TakeOver,
                _ => Instruction::None,
            },
            Some(Ok(Received::Empty)) => Instruction::None,
            Some(Ok(Received::Closed) | Err(_)) | None => Instruction::Ended,
        }
    }

    /// Sends an answer. One that the old server cannot get any more is dropped.
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
    let mut listeners = Vec::new();
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
            Ok(ToSuccessor::Server {
                pid,
                origin,
                control,
                running,
                with_php,
                control_groups,
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
                    control,
                    running,
                    with_php,
                    control_groups,
                });
            }
            _ => return Err(MALFORMED.to_owned()),
        }
    }
}
