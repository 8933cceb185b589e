//! HTTP/3 of the process: its keys, and the UDP sockets of listeners on their way to the threads.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aws_lc_rs::rand;
use howdah_pipeline::thread::{Http3Socket, ThreadCommand};
use howdah_quic::{Inbox, Keys};
use howdah_text::hex;

use super::threads::Threads;

/// What the threads need for HTTP/3 beside its sockets.
#[derive(Debug)]
pub(super) struct Http3Identity {
    /// Keys of the server.
    keys: Keys,
    /// Number of this process, which differs from those of others with the same keys.
    generation: u16,
}

impl Http3Identity {
    /// Creates the identity of this process from the secret of the server in hexadecimal, or from one
    /// of its own if that is empty.
    pub(super) fn new(secret: &str) -> io::Result<Http3Identity> {
        let (mut bytes, mut generation) = ([0; Keys::SECRET_LENGTH], [0; 2]);
        rand::fill(&mut bytes)
            .and_then(|()| rand::fill(&mut generation))
            .map_err(io::Error::other)?;
        if secret.len() == 2 * bytes.len() {
            let digits = secret.as_bytes().chunks(2);
            bytes.iter_mut().zip(digits).for_each(|(byte, digits)| {
                *byte = hex::byte(digits).unwrap_or(*byte);
            });
        }
        let generation = u16::from_ne_bytes(generation);
        Ok(Http3Identity { keys: Keys::new(&bytes), generation })
    }
}

/// Lets all threads serve HTTP/3 of a listener on the UDP socket with this name. One of them reads it.
pub(super) fn listen_http3(
    threads: &Threads,
    listener: &str,
    name: &str,
    fd: OwnedFd,
    identity: &Http3Identity,
) -> io::Result<()> {
    let (inboxes, arrivals): (Vec<_>, Vec<_>) = threads.iter().map(|_| Inbox::new()).unzip();
    let inboxes: Arc<[Inbox]> = inboxes.into();
    // Listeners for IPv4 and IPv6 have the same name but for the address.
    let reader = name.bytes().map(usize::from).sum::<usize>() % threads.len().max(1);
    for ((number, thread), arrivals) in threads.iter().enumerate().zip(arrivals) {
        let socket = Http3Socket {
            fd: fd.try_clone()?,
            arrivals,
            inboxes: Arc::clone(&inboxes),
            is_reader: number == reader,
            keys: identity.keys.clone(),
            generation: identity.generation,
        };
        let (listener, name) = (listener.into(), name.into());
        thread.send(ThreadCommand::ListenHttp3 { listener, name, socket });
    }
    Ok(())
}
