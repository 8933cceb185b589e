//! Resources that the router gets because the configuration names them: listening sockets, logs,
//! TLS files, stored certificates and programs for DNS.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use howdah_wire::messages::FromSupervisor;

use super::state::Tree;
use crate::memory::{memory_file, read_memory_file};
use crate::programs::Run;
use crate::{cache_file, certificates, log_socket, store};

/// Mode of the unix sockets of listeners.
const LISTENER_MODE: u32 = 0o666;

impl Tree {
    pub(super) fn bind(&mut self, address: String, backlog: u32) {
        let is_control = self.options.control.as_ref() == Some(&address);
        let bound = if is_control {
            Err(format!("{address} is the address of the control API; choose another one"))
        } else if self.allows(|grants| grants.listeners.contains(&address)) {
            let socket = self.sockets.bind(&address, backlog, LISTENER_MODE);
            socket.and_then(|fd| fd.try_clone_to_owned().map_err(|error| error.to_string()))
        } else {
            Err(self.refuse(&address))
        };
        match bound {
            Ok(socket) => {
                self.send_to_router(&FromSupervisor::Bound { address }, &[socket.as_fd()]);
            }
            Err(message) => {
                self.send_to_router(&FromSupervisor::BindFailed { address, message }, &[]);
            }
        }
    }

    pub(super) fn unbind(&mut self, address: String) {
        if self.options.control.as_ref() != Some(&address) {
            self.close_socket(&address);
        }
        self.send_to_router(&FromSupervisor::Unbound { address }, &[]);
    }

    pub(super) fn open_access_log(&mut self, path: String) {
        let opened = if self.allows(|grants| grants.logs.contains(&path)) {
            store::open_log(Path::new(&path)).map_err(|error| error.to_string())
        } else if self.allows(|grants| grants.log_sockets.contains(&path)) {
            log_socket::connect(&path).map_err(|error| error.to_string())
        } else {
            Err(self.refuse(&path))
        };
        match opened {
            Ok(file) => {
                let opened = FromSupervisor::LogOpened { path, error: String::new() };
                self.send_to_router(&opened, &[file.as_fd()]);
            }
            Err(error) => {
                self.send_to_router(&FromSupervisor::LogOpened { path, error }, &[]);
            }
        }
    }

    pub(super) fn open_cache(&mut self, path: String) {
        let opened = match self.allows(|grants| grants.caches.contains(&path)) {
            true => cache_file::open(Path::new(&path)).map_err(|error| error.to_string()),
            false => Err(self.refuse(&path)),
        };
        let (file, error) = match opened {
            Ok(file) => (file, String::new()),
            Err(error) => (None, error),
        };
        let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        self.send_to_router(&FromSupervisor::CacheOpened { path, error }, &files);
    }

    pub(super) fn read_tls_file(&mut self, path: &str) {
        let read = match self.allows(|grants| grants.tls_files.contains(path)) {
            true => certificates::read_for_tls(Path::new(path)).map_err(|error| error.to_string()),
            false => Err(self.refuse(path)),
        };
        let in_memory =
            |text: Vec<u8>| memory_file("file", &text).map_err(|error| error.to_string());
        match read.and_then(in_memory) {
            Ok(file) => {
                let read = FromSupervisor::FileRead { error: String::new() };
                self.send_to_router(&read, &[file.as_fd()]);
            }
            Err(error) => self.send_to_router(&FromSupervisor::FileRead { error }, &[]),
        }
    }

    pub(super) fn run_program(&mut self, number: u32, run: &Run) {
        let started = match self.allows(|grants| grants.programs.contains(&run.program)) {
            true => {
                let router = self.router.as_ref().map_or(0, |router| router.pid);
                self.programs.start(run, (router, number), &self.log, Instant::now())
            }
            false => Err(self.refuse(&run.program)),
        };
        if let Err(error) = started {
            self.send_to_router(&FromSupervisor::Ran { number, error }, &[]);
        }
    }

    /// Stores a certificate bundle or an account that the router has obtained from an authority
    /// (ACME).
    pub(super) fn store_managed(&mut self, name: String, descriptors: Vec<OwnedFd>) {
        let stored = match self.allows(|grants| grants.managed.contains(&name)) {
            true => read_memory_file(descriptors, certificates::MAX_LENGTH)
                .and_then(|pem| self.certificates.store(name.clone(), pem))
                .map_err(|error| error.to_string()),
            false => Err(self.refuse(format_args!("the certificate \"{name}\""))),
        };
        if stored.is_ok() {
            self.send_renewed(&name);
            if let Some(router) = &mut self.router {
                router.certificates.insert(name);
            }
        }
        let error = stored.err().unwrap_or_default();
        self.send_to_router(&FromSupervisor::Stored { error }, &[]);
    }
}
