//! What the router gives up when it knows its first document, before it has a second thread and before
//! a byte of a client is read.
//!
//! 1. Landlock: it reads what [`Reach`] lists, writes temporary files, executes nothing, binds no TCP
//!    socket, and neither signals nor traces another process.
//! 2. Filters of system calls: what is in no list of [`router_calls`](howdah_sys::sandbox::router_calls)
//!    does not exist.
//!
//! A kernel without one of them still serves; that is one line in the log.

mod protection;
mod reach;

use std::path::Path;

use howdah_config::Config;
use howdah_sys::log::{Level, Log};
use howdah_sys::sandbox::landlock::{self, Domain};
use howdah_sys::sandbox::router_calls::ROUTER;
use howdah_sys::sandbox::seccomp;

pub use self::protection::{Protected, Protection, Restriction};
use self::reach::Reach;

/// What is left to the router.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// The files that it can open; `None`: whatever its user can.
    reach: Option<Reach>,
    protection: Protection,
    /// What is not as it should be, and why.
    missing: Vec<String>,
}

/// Restricts this process, which must have one thread. `wanted` is false if the administrator wants
/// it otherwise; `tmp` is the directory for temporary files.
pub(super) fn router(wanted: bool, tmp: &str, config: &Config) -> Bounds {
    let protection = Protection::at_start();
    let mut bounds = Bounds { reach: None, protection, missing: Vec::new() };
    match wanted {
        true => {
            let missing = [bounds.enter_domain(Path::new(tmp), config), bounds.filter_calls()];
            bounds.missing = missing.into_iter().filter_map(Result::err).collect();
        }
        false => bounds.missing.push("the router has none, as --no-sandbox says".to_owned()),
    }
    bounds
}

impl Bounds {
    fn enter_domain(&mut self, tmp: &Path, config: &Config) -> Result<(), String> {
        let version = self.protection.landlock;
        if version == 0 {
            return Err(
                "this kernel has no Landlock, or it is switched off, so that processes of \
                        the same user can trace and signal each other"
                    .to_owned(),
            );
        }
        let (reach, files) = Reach::of(config, tmp);
        let domain = Domain {
            files: Some(files),
            no_device_ioctl: true,
            no_bind_tcp: true,
            // Servers behind the proxy may listen there.
            no_abstract_sockets: false,
        };
        domain
            .enter()
            .map_err(|error| format!("the router's files are not restricted: {error}"))?;
        self.reach = Some(reach);
        let restrictions = &mut self.protection.router.restrictions;
        restrictions.extend([Restriction::Tracing, Restriction::Files]);
        if version >= landlock::BIND_TCP {
            restrictions.push(Restriction::Bind);
        }
        if version < landlock::SIGNALS {
            return Err(format!(
                "version {version} of this kernel's Landlock does not know signals (Linux 6.12 does), \
                 so that processes of the same user can signal each other"
            ));
        }
        restrictions.push(Restriction::Signals);
        Ok(())
    }

    fn filter_calls(&mut self) -> Result<(), String> {
        match ROUTER.install() {
            Ok(()) => {
                self.protection.router.restrictions.push(Restriction::SystemCalls);
                Ok(())
            }
            Err(_) if !seccomp::is_available() => {
                Err("this kernel cannot filter system calls".to_owned())
            }
            Err(error) => Err(format!("the router's system calls are not filtered: {error}")),
        }
    }

    /// Refuses a document that names files which the router cannot open any more.
    pub(super) fn check(&self, config: &Config) -> Result<(), String> {
        self.reach.as_ref().map_or(Ok(()), |reach| reach.check(config))
    }

    /// Says in the log what is missing of what protects the processes from each other.
    pub(super) fn tell(&self, log: &Log) {
        if !self.missing.is_empty() {
            log.write(Level::Warn, format_args!("sandbox: {}", self.missing.join("; ")));
        }
        for (key, path) in self.reach.iter().flat_map(|reach| &reach.missing) {
            let path = path.display();
            let line = format_args!(
                "{key}: there is no {path}; the router cannot read what comes there until the \
                 server is restarted"
            );
            log.write(Level::Warn, line);
        }
    }

    /// What protects the processes of the server from each other.
    pub(crate) fn protection(&self) -> &Protection {
        &self.protection
    }
}
