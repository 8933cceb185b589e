//! What the router asks for.
//!
//! It gets what the running configuration names, or the one that is being applied
//! ([`Grants`](crate::Grants)), and nothing else: a router that strangers have taken over can
//! reach no file, address, user or program that it did not have anyway. What it asks for besides is
//! refused and reported. It can still end and start the processes of applications, answer visitors
//! as it likes, and read what the sites' user may read.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::memory;
use howdah_wire::messages::{FromSupervisor, Outcome, ToControl, ToSupervisor};
use howdah_wire::region::Geometry;

use super::{End, FAST_END, Tree};
use crate::grants::Grants;
use crate::{certificates, programs, router, store};

/// Longest configuration, in bytes. The control API accepts no more than a part of it.
pub(super) const MAX_DOCUMENT: u64 = 256 << 20;

/// How many refusals were reported, so that a router cannot fill the log.
#[derive(Debug)]
pub(super) struct Refusals {
    since: Instant,
    reported: u32,
}

impl Default for Refusals {
    fn default() -> Self {
        Refusals { since: Instant::now(), reported: 0 }
    }
}

/// Maximum number of refusals that are reported within [`REFUSALS_PERIOD`].
const MAX_REFUSALS: u32 = 20;
const REFUSALS_PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of instances of one application that run at the same time. A restart starts a new
/// one while the old ones finish what they have.
const MAX_INSTANCES: usize = 64;

impl Tree {
    pub(super) fn on_router_message(&mut self, message: ToSupervisor, descriptors: Vec<OwnedFd>) {
        match message {
            ToSupervisor::Bind { address, backlog } => self.bind(address, backlog),
            ToSupervisor::Unbind { address } => {
                if self.options.control.as_ref() != Some(&address) {
                    self.sockets.unbind(&address);
                }
                self.tell_router(&FromSupervisor::Unbound { address }, &[]);
            }
            ToSupervisor::Start { application, name, generation, geometry } => {
                self.start_named(application, &name, generation, geometry, &descriptors);
            }
            ToSupervisor::Spawn { application } => {
                let id = self.id(application);
                let spawned = match self.applications.get_mut(&id) {
                    Some(found) => found.spawn(),
                    None => Err("it does not run".to_owned()),
                };
                if let Err(message) = spawned {
                    self.tell_router(&FromSupervisor::NotStarted { application, message }, &[]);
                }
            }
            ToSupervisor::Kill { application, worker, signal } => {
                if let Some(found) = self.applications.get_mut(&self.id(application)) {
                    found.kill(worker, signal.into(), Instant::now());
                }
            }
            ToSupervisor::Trace { application, worker, number } => {
                let asked = match self.applications.get_mut(&self.id(application)) {
                    Some(found) => found.trace(worker, number, Instant::now()),
                    None => Err("it does not run".to_owned()),
                };
                if let Err(why) = asked {
                    let stack = Err(why);
                    self.tell_router(&FromSupervisor::Traced { application, number, stack }, &[]);
                }
            }
            ToSupervisor::Stop { application, grace_ms } => {
                let id = self.id(application);
                if let Some(found) = self.applications.get_mut(&id) {
                    found.end_within(Duration::from_millis(grace_ms), Instant::now());
                }
            }
            ToSupervisor::Measure { application } => {
                if let Some(found) = self.applications.get_mut(&self.id(application)) {
                    found.measure(Instant::now());
                }
            }
            ToSupervisor::StoreCertificate { name } => self.store_managed(name, descriptors),
            ToSupervisor::Serving {} => {
                if !self.served {
                    let started = self.started();
                    self.log.write(Level::Notice, format_args!("{started}"));
                }
                self.served = true;
                memory::forget_start();
                if let Some(on_serving) = self.options.on_serving.take() {
                    on_serving();
                }
            }
            // Once it has served, nothing but a request of the administrator's ends the server.
            ToSupervisor::Refuse { message } if !self.served => {
                let deadline = Some(Instant::now() + FAST_END);
                self.ending = Some(End { graceful: false, deadline, refused: Some(message) });
            }
            ToSupervisor::Finished {} if self.ending.is_some() => {
                let refused = self.ending.take().and_then(|end| end.refused);
                let deadline = Some(Instant::now());
                self.ending = Some(End { graceful: false, deadline, refused });
            }
            ToSupervisor::Refuse { .. } | ToSupervisor::Finished {} => {
                self.refuse("the end of the server");
            }
            ToSupervisor::OpenLog { path } => self.open_access_log(path),
            ToSupervisor::ReadFile { path } => self.read_tls_file(&path),
            ToSupervisor::OpenNameFiles {} => self.open_name_files(),
            ToSupervisor::Run { number, program, arguments, environment, timeout_ms } => {
                let timeout = Duration::from_millis(timeout_ms);
                let run = programs::Run { program, arguments, environment, timeout };
                self.run_program(number, &run);
            }
            ToSupervisor::Prepared { generation } => self.commit(generation),
            ToSupervisor::Applied { generation, outcome } => self.applied(generation, outcome),
        }
    }

    /// Reports that the router asked for something that it must not have. Returns what it is
    /// answered.
    fn refuse(&mut self, what: impl std::fmt::Display) -> String {
        let now = Instant::now();
        if now.saturating_duration_since(self.refusals.since) >= REFUSALS_PERIOD {
            self.refusals = Refusals { since: now, reported: 0 };
        }
        if self.refusals.reported < MAX_REFUSALS {
            self.refusals.reported += 1;
            let line =
                format_args!("the router asked for {what}, which the configuration does not allow");
            self.log.write(Level::Alert, line);
        }
        format!("{what} is not allowed by the configuration")
    }

    /// A line that says what has started.
    fn started(&self) -> String {
        let applications = self.changes.current.grants.applications.values();
        let php = applications.filter_map(|spec| self.options.php_for(&spec.php_version));
        let php: BTreeSet<_> = php.map(|program| format!("PHP {}", program.version)).collect();
        let control = self.options.control.as_deref();
        let mut listeners = self.sockets.addresses();
        listeners.retain(|address| Some(*address) != control);
        let listeners = match listeners.as_slice() {
            [] => "no listeners".to_owned(),
            [one] => format!("listener {one}"),
            all => format!("listeners {}", all.join(" ")),
        };
        let mut parts = vec![concat!("howdah ", env!("CARGO_PKG_VERSION")).to_owned()];
        parts.extend(php);
        parts.push(listeners);
        parts.extend(control.map(|control| format!("control {control}")));
        parts.push(format!("pid {}", std::process::id()));
        format!("started: {}", parts.join(", "))
    }

    fn allows(&self, names: impl Fn(&Grants) -> bool) -> bool {
        self.changes.allow(names)
    }

    fn bind(&mut self, address: String, backlog: u32) {
        let is_control = self.options.control.as_ref() == Some(&address);
        let bound = if is_control {
            Err(format!("{address} is the address of the control API; choose another one"))
        } else if self.allows(|grants| grants.listeners.contains(&address)) {
            let socket = self.sockets.bind(&address, backlog, 0o666);
            socket.and_then(|fd| fd.try_clone_to_owned().map_err(|error| error.to_string()))
        } else {
            Err(self.refuse(&address))
        };
        match bound {
            Ok(socket) => {
                self.tell_router(&FromSupervisor::Bound { address }, &[socket.as_fd()]);
            }
            Err(message) => {
                self.tell_router(&FromSupervisor::BindFailed { address, message }, &[]);
            }
        }
    }

    fn start_named(
        &mut self,
        number: u32,
        name: &str,
        generation: u32,
        geometry: Geometry,
        descriptors: &[OwnedFd],
    ) {
        let known = self.changes.application(name, generation, Instant::now()).cloned();
        let is_new = !self.applications.contains_key(&self.id(number));
        let message = match known.filter(|_| is_new) {
            Some(mut spec) => {
                let instances = self.applications.values().filter(|app| app.name == spec.name);
                if instances.count() < MAX_INSTANCES {
                    spec.geometry = geometry;
                    return self.start_application(number, &spec, descriptors);
                }
                format!("{MAX_INSTANCES} instances of it have not finished what they have")
            }
            None => self.refuse(format_args!("the application \"{name}\"")),
        };
        self.tell_router(&FromSupervisor::Ended { application: number, message }, &[]);
    }

    fn open_access_log(&mut self, path: String) {
        let opened = match self.allows(|grants| grants.logs.contains(&path)) {
            true => store::open_log(Path::new(&path)).map_err(|error| error.to_string()),
            false => Err(self.refuse(&path)),
        };
        match opened {
            Ok(file) => {
                let opened = FromSupervisor::LogOpened { path, error: String::new() };
                self.tell_router(&opened, &[file.as_fd()]);
            }
            Err(error) => {
                self.tell_router(&FromSupervisor::LogOpened { path, error }, &[]);
            }
        }
    }

    fn read_tls_file(&mut self, path: &str) {
        let read = match self.allows(|grants| grants.tls_files.contains(path)) {
            true => certificates::read_for_tls(Path::new(path)).map_err(|error| error.to_string()),
            false => Err(self.refuse(path)),
        };
        let memory = |text: Vec<u8>| router::memory("file", &text).map_err(|e| e.to_string());
        match read.and_then(memory) {
            Ok(text) => {
                let read = FromSupervisor::FileRead { error: String::new() };
                self.tell_router(&read, &[text.as_fd()]);
            }
            Err(error) => self.tell_router(&FromSupervisor::FileRead { error }, &[]),
        }
    }

    fn run_program(&mut self, number: u32, run: &programs::Run) {
        let started = match self.allows(|grants| grants.programs.contains(&run.program)) {
            true => {
                let router = self.router.as_ref().map_or(0, |router| router.pid);
                self.programs.start(run, (router, number), &self.log, Instant::now())
            }
            false => Err(self.refuse(&run.program)),
        };
        if let Err(error) = started {
            self.tell_router(&FromSupervisor::Ran { number, error }, &[]);
        }
    }

    /// Stores what the router got from an authority.
    fn store_managed(&mut self, name: String, descriptors: Vec<OwnedFd>) {
        let stored = match self.allows(|grants| grants.managed.contains(&name)) {
            true => read_memory(descriptors, certificates::MAX_LENGTH)
                .and_then(|pem| self.certificates.store(name.clone(), pem))
                .map_err(|error| error.to_string()),
            false => Err(self.refuse(format_args!("the certificate \"{name}\""))),
        };
        if stored.is_ok() {
            self.show_renewed(&name);
            if let Some(router) = &mut self.router {
                router.certificates.insert(name);
            }
        }
        let error = stored.err().unwrap_or_default();
        self.tell_router(&FromSupervisor::Stored { error }, &[]);
    }

    /// Everything is ready for a configuration: it is stored, and runs from now on.
    fn commit(&mut self, generation: u32) {
        let Some(document) = self.changes.prepared(generation) else {
            self.refuse("a configuration that is not being applied");
            return;
        };
        let stored = match &self.options.state {
            Some(state) => store::save_document(state, document),
            None => Ok(()),
        };
        let error = stored.err().map_or(String::new(), |error| error.to_string());
        if error.is_empty() {
            self.changes.commit(Instant::now());
        }
        self.tell_router(&FromSupervisor::Commit { generation, error }, &[]);
    }

    fn applied(&mut self, generation: u32, outcome: Outcome) {
        match self.changes.end(generation) {
            true => self.tell_control(&ToControl::Applied { outcome }, &[]),
            false => drop(self.refuse("a configuration that is not being applied")),
        }
    }
}

/// The bytes that came as a descriptor. It must be of memory (memfd): a file of a file system that
/// its sender provides could keep this process waiting.
pub(super) fn read_memory(descriptors: Vec<OwnedFd>, most: u64) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let file = descriptors.into_iter().next().map(std::fs::File::from);
    let file = file.ok_or_else(|| std::io::Error::other("nothing was sent"))?;
    rustix::fs::fcntl_get_seals(&file)
        .map_err(|_| std::io::Error::other("what was sent is no memory"))?;
    let metadata = file.metadata()?;
    if metadata.len() > most {
        return Err(std::io::Error::other(format!("it has more than {most} bytes")));
    }
    let mut bytes = vec![0; metadata.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
