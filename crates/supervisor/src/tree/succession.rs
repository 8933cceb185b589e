//! The start of a server that replaces another one (an upgrade), until the old one has ended.
//!
//! 1. The router and the applications start from the state that the old server has handed over.
//!    Applications that run in the old server must run here too.
//! 2. This server reports that it serves ([`Tree::report_ready`]) and is on standby: the old server
//!    has the PID file, answers the control API and orders certificates.
//! 3. On the old server's word, or if it dies, this one takes over ([`Tree::take_over`]).
//! 4. When the old server has ended, its control groups belong to this one.

use howdah_sys::log::Level;
use howdah_wire::messages::{FromSuccessor, FromSupervisor};

use super::state::Tree;
use crate::certificates::Certificates;
use crate::grants::Grants;
use crate::handover::{Instruction, Predecessor};
use crate::options::Options;
use crate::passed_socket::InheritedSocket;
use crate::pid_file::PidFile;
use crate::prototype::missing_php;

/// Adds the sockets of the old server to the options. Error: the reason why this server cannot
/// replace it.
pub(super) fn inherit(
    predecessor: &Predecessor,
    options: &mut Options,
    grants: &Grants,
) -> Result<(), String> {
    for name in predecessor.with_php() {
        let spec = grants.applications.get(name);
        if let Some(problem) = spec.and_then(|spec| missing_php(options, spec)) {
            return Err(format!("application \"{name}\": {problem}"));
        }
    }
    let sockets = predecessor.take_listeners().into_iter();
    options.inherited.extend(sockets.map(|(fd, name, owner)| InheritedSocket { fd, name, owner }));
    // The default socket of the old server, whose name may have its process id.
    options.default_controls = match options.control {
        Some(_) => Vec::new(),
        None => predecessor.control().into_iter().collect(),
    };
    Ok(())
}

impl Tree {
    /// Begins to replace the old server, if there is one. Error: the state that it has handed over
    /// is malformed.
    pub(super) fn succeed(&mut self, predecessor: Option<Predecessor>) -> Result<(), String> {
        let Some(predecessor) = predecessor else { return Ok(()) };
        self.certificates = Certificates::inherit(predecessor.bundles())?;
        if let Some((since, reason)) = predecessor.refused() {
            self.document_state.source_read(reason, since);
        }
        self.http3_secret.inherit(predecessor.http3_secret().expose());
        self.former_router = predecessor.take_router_link();
        self.control_groups.share(true);
        self.upgrade.is_standby = true;
        self.usage.counts.stand_by();
        self.upgrade.predecessor = Some(predecessor);
        Ok(())
    }

    /// Reports that this server serves, if it is on standby. Returns true in this case.
    pub(super) fn report_ready(&mut self) -> bool {
        let Some(predecessor) = &self.upgrade.predecessor else { return false };
        if !self.upgrade.is_standby || self.has_served {
            return false;
        }
        predecessor.send(&FromSuccessor::Ready {});
        true
    }

    /// Reads the messages of the old server.
    pub(super) fn on_predecessor(&mut self) {
        let Some(predecessor) = self.upgrade.predecessor.clone() else { return };
        match predecessor.instruction() {
            Instruction::None => {}
            Instruction::Used(counts) => self.predecessor_counted(&counts),
            Instruction::TakeOver(mail, counts) => {
                self.inherit_mail_usage(mail);
                self.inherit_usage(&counts);
                self.take_over(&predecessor);
            }
            Instruction::Ended => {
                predecessor.forget();
                self.upgrade.predecessor = None;
                if self.upgrade.is_standby {
                    self.inherit_usage(b"[]");
                }
                self.control_groups.share(false);
                self.control_groups.adopt(predecessor.control_groups());
                if self.upgrade.is_standby && !self.has_served {
                    self.log.write(
                        Level::Alert,
                        "the old server has ended before this one served; this one continues",
                    );
                    self.upgrade.is_standby = false;
                    self.claim_pid_file_or_log();
                } else if self.upgrade.is_standby {
                    self.log.write(
                        Level::Alert,
                        "the old server has ended before it handed over; this one takes over",
                    );
                    self.claim_pid_file_or_log();
                    self.begin_to_own();
                }
                self.resume_upgrade();
            }
        }
    }

    /// Takes over from the old server, which has released its PID file.
    fn take_over(&mut self, predecessor: &Predecessor) {
        if !self.upgrade.is_standby {
            return;
        }
        match self.claim_pid_file() {
            Ok(()) => {
                predecessor.send(&FromSuccessor::TookOver {});
                self.begin_to_own();
            }
            Err(message) => {
                self.refuse_to_serve(message);
            }
        }
    }

    fn claim_pid_file(&mut self) -> Result<(), String> {
        let Some(path) = &self.options.pid else { return Ok(()) };
        let claimed = PidFile::claim(path)
            .map_err(|error| format!("cannot write the PID file {}: {error}", path.display()));
        self.pid_file = Some(claimed?);
        Ok(())
    }

    fn claim_pid_file_or_log(&mut self) {
        if let Err(problem) = self.claim_pid_file() {
            self.log.write(Level::Alert, problem);
        }
    }

    /// Orders certificates, answers the control API and logs the start.
    fn begin_to_own(&mut self) {
        self.upgrade.is_standby = false;
        self.send_to_router(&FromSupervisor::ReleaseRenewals {}, &[]);
        self.log_start();
    }

    /// Returns the names of the applications without which this server must not begin to serve.
    pub(super) fn required_applications(&self) -> Vec<String> {
        match &self.upgrade.predecessor {
            Some(predecessor) if !self.has_served => predecessor.running().to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns true if no certificate may be ordered: another server does, or is about to.
    pub(super) fn holds_renewals(&self) -> bool {
        self.upgrade.is_standby || self.upgrade.is_in_progress()
    }

    /// Closes a listening socket. The file of a unix socket stays if another server uses it.
    pub(super) fn close_socket(&mut self, address: &str) {
        if self.upgrade.is_standby {
            self.sockets.forget(address);
            return;
        }
        self.sockets.unbind(address);
        // As long as the old server has it open, the address is in use.
        if let Some(predecessor) = &self.upgrade.predecessor {
            predecessor.send(&FromSuccessor::Closed { address: address.to_owned() });
        }
    }

    /// Closes all listening sockets. Their files stay if another server uses them.
    pub(super) fn close_sockets(&mut self) {
        if !self.upgrade.is_standby && !self.upgrade.is_replaced() {
            self.sockets.close();
        }
    }

    /// Tells the old server that this one was told to end: the old one must not serve again.
    pub(super) fn tell_predecessor_of_end(&self, graceful: bool) {
        if let Some(predecessor) = &self.upgrade.predecessor {
            predecessor.send(&FromSuccessor::Stopping { graceful });
        }
    }
}
