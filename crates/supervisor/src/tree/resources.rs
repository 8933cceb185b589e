//! Resources that the router gets because the configuration names them: listening sockets, logs,
//! TLS files, stored certificates and programs for DNS.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use howdah_wire::messages::FromSupervisor;

use super::state::Tree;
use crate::certificates;
use crate::file_task::{Outcome, Task};
use crate::memory::read_memory_file;
use crate::programs::Run;
use crate::sockets::Access;

impl Tree {
    pub(super) fn bind(&mut self, address: String, backlog: u32) {
        let Some((access, _)) = self.changes.socket_access(&address) else {
            return self.bind_as(address, backlog, Ok(Access::from(0)));
        };
        if access.user.is_some() || access.group.is_some() {
            let access = access.clone();
            return self.begin_for_router(Task::LookUpAccess { address, backlog, access });
        }
        let access = Access::look_up(access, self.options.user.as_ref().map(|user| user.gid));
        self.bind_as(address, backlog, access);
    }

    /// Binds the socket of a listener whose users were looked up.
    pub(super) fn bind_as(
        &mut self,
        address: String,
        backlog: u32,
        access: Result<Access, String>,
    ) {
        let is_next = self.changes.socket_access(&address).is_some_and(|(_, is_next)| is_next);
        let bound = if self.options.is_own_address(&address) {
            Err(format!("{address} is the address of the control API; choose another one"))
        } else if self.shutdown.is_some() {
            // The router has not been told yet when it asks; the socket would stay open to the end.
            Err("the server is being stopped".to_owned())
        } else if self.allows(|grants| grants.listeners.contains_key(&address)) {
            let socket = access.and_then(|access| {
                if is_next {
                    self.sockets.prepare(&address, backlog, access)
                } else {
                    self.sockets.bind(&address, backlog, access)
                }
            });
            socket.and_then(|fd| fd.try_clone_to_owned().map_err(|error| error.to_string()))
        } else {
            Err(self.refuse(&address))
        };
        match bound {
            Ok(socket) => {
                self.send_to_router(&FromSupervisor::Bound { address }, &[socket.as_fd()]);
            }
            Err(message) => {
                let is_taken = self.sockets.is_taken();
                let failed = FromSupervisor::BindFailed { address, message, is_taken };
                self.send_to_router(&failed, &[]);
            }
        }
    }

    pub(super) fn unbind(&mut self, address: String) {
        if !self.options.is_own_address(&address) {
            self.close_socket(&address);
        }
        self.unbound.push(address);
        self.confirm_unbound();
    }

    /// Confirms that addresses are free, once no process has a copy of their sockets.
    pub(super) fn confirm_unbound(&mut self) {
        if self.unbound.is_empty() || self.file_helpers.may_have_sockets() {
            return;
        }
        for address in std::mem::take(&mut self.unbound) {
            self.send_to_router(&FromSupervisor::Unbound { address }, &[]);
        }
    }

    pub(super) fn open_access_log(&mut self, path: String) {
        if self.allows(|grants| grants.logs.contains(&path)) {
            self.begin_for_router(Task::OpenLog(path));
        } else if self.allows(|grants| grants.log_sockets.contains(&path)) {
            self.begin_for_router(Task::ConnectLog(path));
        } else {
            let error = self.refuse(&path);
            self.send_to_router(&FromSupervisor::LogOpened { path, error }, &[]);
        }
    }

    pub(super) fn open_cache(&mut self, path: String) {
        if self.allows(|grants| grants.caches.contains(&path)) {
            return self.begin_for_router(Task::OpenCache(path));
        }
        let error = self.refuse(&path);
        self.send_to_router(&FromSupervisor::CacheOpened { path, error }, &[]);
    }

    pub(super) fn read_tls_file(&mut self, path: String) {
        if self.allows(|grants| grants.tls_files.contains(&path)) {
            return self.begin_for_router(Task::ReadTls(path));
        }
        let error = self.refuse(&path);
        self.send_to_router(&FromSupervisor::FileRead { error }, &[]);
    }

    pub(super) fn run_program(&mut self, number: u32, run: &Run) {
        let started = if self.allows(|grants| grants.programs.contains(&run.program)) {
            let router = self.router.as_ref().map_or(0, |router| router.pid);
            self.programs.start(run, (router, number), &self.log, Instant::now())
        } else {
            Err(self.refuse(&run.program))
        };
        if let Err(error) = started {
            self.send_to_router(&FromSupervisor::Ran { number, error }, &[]);
        }
    }

    /// Stores a certificate bundle or an account that the router has obtained from an authority
    /// (ACME).
    pub(super) fn store_managed(&mut self, name: String, descriptors: Vec<OwnedFd>) {
        let read = if self.allows(|grants| grants.managed.contains(&name)) {
            read_memory_file(descriptors, certificates::MAX_LENGTH)
                .map_err(|error| error.to_string())
        } else {
            Err(self.refuse(format_args!("the certificate \"{name}\"")))
        };
        match read {
            Ok(pem) => self.begin_for_router(Task::StoreCertificate { name, pem }),
            Err(error) => self.send_to_router(&FromSupervisor::Stored { error }, &[]),
        }
    }

    /// Tells the router, and the control process, that a managed bundle was stored.
    pub(super) fn managed_stored(&mut self, name: String, outcome: Outcome) {
        if outcome.is_ok() {
            self.send_renewed(&name);
            if let Some(router) = &mut self.router {
                router.certificates.insert(name);
            }
        }
        let error = outcome.err().unwrap_or_default();
        self.send_to_router(&FromSupervisor::Stored { error }, &[]);
    }
}
