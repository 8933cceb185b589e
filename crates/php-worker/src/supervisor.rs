//! The connection to the supervisor.

use std::os::fd::OwnedFd;

use howdah_sys::packet::Received;
use howdah_sys::{packet, pipe};
use howdah_wire::bytes::Malformed;
use howdah_wire::messages::{FromPrototype, MAX_MESSAGE, ToPrototype};
use rustix::event::{PollFd, PollFlags, poll};

use crate::start_variables;

/// The socket of requests and the pipe of reports.
pub struct Supervisor {
    /// Requests of the supervisor.
    pub commands: OwnedFd,
    /// Reports to the supervisor.
    pub reports: OwnedFd,
}

impl Supervisor {
    /// Sends a report.
    pub fn report(&self, message: &FromPrototype) -> rustix::io::Result<()> {
        pipe::send(&self.reports, &message.encode())
    }

    /// Waits for the first message and returns it with its descriptors.
    pub fn first_message(&self) -> Result<(ToPrototype, Vec<OwnedFd>), Malformed> {
        loop {
            let _ = poll(&mut [PollFd::new(&self.commands, PollFlags::IN)], None);
            match packet::receive_next(&self.commands, MAX_MESSAGE) {
                Ok((Received::Packet(_, descriptors), message)) => {
                    let decoded = ToPrototype::decode(&message);
                    // It may have variables of the server.
                    start_variables::overwrite(message);
                    return Ok((decoded?, descriptors));
                }
                Ok((Received::Empty, _)) => {} // a signal interrupted the wait
                Ok((Received::Closed, _)) | Err(_) => return Err(Malformed),
            }
        }
    }
}
