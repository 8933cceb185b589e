//! Restricts the router process when it knows its first document, before it has a second thread and
//! before a byte of a client is read.
//!
//! 1. Landlock: it reads the files in [`AllowedFiles`], writes temporary files, executes no
//!    program, binds no TCP socket, and neither signals nor traces another process.
//! 2. A filter of system calls: those in no list of
//!    [`router_calls`](howdah_sys::sandbox::router_calls) do not exist.
//!
//! A kernel without one of them still serves; that is one line in the log.

mod allowed_files;
mod protection;

use std::path::Path;

use howdah_config::{Config, RouterPath};
use howdah_sys::log::{Level, Log};
use howdah_sys::sandbox::landlock::{self, Domain};
use howdah_sys::sandbox::router_calls::ROUTER;
use howdah_sys::sandbox::seccomp;

use self::allowed_files::AllowedFiles;
pub use self::protection::{ProcessProtection, Protection, Restriction};
use crate::disk_progress::DiskProgress;

/// The restrictions of the router.
#[derive(Debug)]
pub(super) struct RouterSandbox {
    /// Files that the router can open; `None`: all that its user can.
    files: Option<AllowedFiles>,
    protection: Protection,
    /// Restrictions that are missing, each with the reason.
    missing: Vec<String>,
}

impl RouterSandbox {
    /// Restricts this process, which must have one thread, unless the administrator has turned the
    /// sandbox off. `tmp` is the directory for temporary files.
    pub(super) fn enter(is_enabled: bool, tmp: &str, config: &Config) -> Self {
        let protection = Protection::at_start();
        let mut sandbox = RouterSandbox { files: None, protection, missing: Vec::new() };
        if is_enabled {
            let results = [sandbox.enter_domain(Path::new(tmp), config), sandbox.filter_calls()];
            sandbox.missing = results.into_iter().filter_map(Result::err).collect();
        } else {
            sandbox.missing.push("the router has none because of --no-sandbox".to_owned())
        }
        sandbox
    }

    fn enter_domain(&mut self, tmp: &Path, config: &Config) -> Result<(), String> {
        let version = self.protection.landlock;
        if version == 0 {
            return Err("this kernel has no Landlock, or it is disabled, so that processes of \
                        the same user can trace and signal each other"
                .to_owned());
        }
        let (files, grants) = AllowedFiles::of(config, tmp);
        let domain = Domain {
            files: Some(grants),
            no_device_ioctl: true,
            no_bind_tcp: true,
            // Upstream servers may listen on them.
            no_abstract_sockets: false,
        };
        domain
            .enter()
            .map_err(|error| format!("the router's files are not restricted: {error}"))?;
        self.files = Some(files);
        let restrictions = &mut self.protection.router.restrictions;
        restrictions.extend([Restriction::Tracing, Restriction::Files]);
        if version >= landlock::BIND_TCP {
            restrictions.push(Restriction::Bind);
        }
        if version < landlock::SIGNALS {
            return Err(format!(
                "version {version} of this kernel's Landlock cannot restrict signals (Linux 6.12 \
                 can), so that processes of the same user can signal each other"
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

    /// Refuses a document with a directory for temporary files that the router cannot use. The
    /// error includes the remedy.
    pub(super) fn check(
        &self,
        temporary: Option<&Path>,
        progress: &DiskProgress,
    ) -> Result<(), String> {
        self.files.as_ref().map_or(Ok(()), |files| files.check(temporary, progress))
    }

    /// Returns those of these paths of which it is not known that the router may read them.
    pub(super) fn out_of_reach(&self, paths: Vec<RouterPath>) -> Vec<RouterPath> {
        let Some(files) = &self.files else { return Vec::new() };
        paths.into_iter().filter(|named| files.may_be_out_of_reach(named)).collect()
    }

    /// Returns those that the router could not read as they are written.
    pub(super) fn out_of_reach_by_name(&self, paths: &[RouterPath]) -> Vec<RouterPath> {
        let Some(files) = &self.files else { return Vec::new() };
        paths.iter().filter(|named| files.is_out_of_reach_by_name(named)).cloned().collect()
    }

    /// Returns which of these paths exists although the router may not read it; `None` if none
    /// does.
    pub(super) fn appeared(&self, paths: &[RouterPath]) -> Option<String> {
        self.files.as_ref().and_then(|files| files.appeared(paths))
    }

    /// Logs the restrictions that are missing, and the files of the document that do not exist.
    pub(super) fn log_missing(&self, log: &Log) {
        if !self.missing.is_empty() {
            log.write(Level::Warn, format_args!("sandbox: {}", self.missing.join("; ")));
        }
        for (key, path) in self.files.iter().flat_map(|files| &files.missing) {
            let path = path.display();
            let line = format_args!("{key}: there is no {path}; it is served once it exists");
            log.write(Level::Warn, line);
        }
    }

    /// Returns the isolation of the server's processes from each other.
    pub(super) fn protection(&self) -> &Protection {
        &self.protection
    }
}
