//! Listeners whose addresses could not be listened on, as another program had them, are opened once
//! that is possible.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use howdah_config::Config;
use howdah_wire::messages::ToSupervisor;

use super::control_thread::ControlThread;
use super::prepare::DEFAULT_BACKLOG;
use super::threads::listen;
use crate::http3;

impl ControlThread {
    /// Asks for the sockets of closed listeners again. Returns the time of the next attempt.
    pub(super) fn reopen_listeners(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        let snapshot = self.shared.snapshot.load();
        for address in self.closed.begin_due(now) {
            let backlog = backlog(&snapshot.config, &address);
            self.link.send(&ToSupervisor::Bind { address, backlog })?;
        }
        Ok(self.closed.due())
    }

    /// Takes the socket of a listener that was closed.
    pub(super) fn on_bound(&mut self, address: &str, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let Some(socket) = descriptors.into_iter().next() else { return Ok(()) };
        if self.closed.opened(address) {
            let count = self.shared.threads.load(Relaxed).min(self.threads.len());
            let snapshot = self.shared.snapshot.load();
            if let Some(listener) = http3::listener_of(&snapshot, address) {
                return self.http3.listen(&self.threads, listener, address, socket);
            }
            return listen(&self.threads[..count], &snapshot, address, socket);
        }
        let snapshot = self.shared.snapshot.load();
        let is_http3 = http3::listener_of(&snapshot, address).is_some();
        if !is_http3 && !snapshot.listeners.contains_key(address) {
            // The listener was removed meanwhile.
            self.link.send(&ToSupervisor::Unbind { address: address.to_owned() })?;
        }
        Ok(())
    }
}

/// Returns the backlog of a listener with this name.
pub(super) fn backlog(config: &Config, address: &str) -> u32 {
    let listener = config.listeners.iter().find(|listener| listener.name == address);
    listener.and_then(|listener| listener.backlog).unwrap_or(DEFAULT_BACKLOG)
}
