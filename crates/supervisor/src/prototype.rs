//! Applications: a prototype each, which has loaded PHP and forks the workers.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

use howdah_sys::credentials::{self, Credentials};
use howdah_sys::{packet, process, signals};
use howdah_wire::messages::{ApplicationSpec, ToPrototype};
use howdah_wire::queue::Owner;

use crate::options::Options;
use crate::output::{self, Output};

/// An application's prototype and what is known of its workers.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) socket: OwnedFd,
    pub(crate) output: Option<Output>,
    /// PHP is loaded.
    pub(crate) ready: bool,
    /// When it must be gone; set once it was told to stop.
    pub(crate) deadline: Option<Instant>,
    /// It was told to end at once.
    pub(crate) dismissed: bool,
    /// Why it cannot run, as the prototype said.
    pub(crate) failure: Option<String>,
    workers: Workers,
}

/// Numbers of workers, and which process has which.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    running: BTreeMap<u16, Owner>,
    incarnations: BTreeMap<u16, u16>,
}

impl Workers {
    /// Reserves the lowest free number; `None` if there are too many workers.
    pub(crate) fn reserve(&mut self) -> Option<Owner> {
        let index = (0..Owner::LIMIT).find(|index| !self.running.contains_key(index))?;
        let incarnation = self.incarnations.entry(index).or_default();
        *incarnation = incarnation.wrapping_add(1);
        let owner = Owner { index, incarnation: *incarnation };
        self.running.insert(index, owner);
        Some(owner)
    }

    /// Whether this worker is the one that runs under its number.
    pub(crate) fn contains(&self, worker: Owner) -> bool {
        self.running.get(&worker.index) == Some(&worker)
    }

    /// A worker has ended.
    pub(crate) fn release(&mut self, worker: Owner) -> bool {
        self.contains(worker) && self.running.remove(&worker.index).is_some()
    }

    /// Whether no worker is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

impl Application {
    /// Starts a prototype. The error is for the log and the control API.
    pub(crate) fn start(
        options: &Options,
        spec: &ApplicationSpec,
        descriptors: &[OwnedFd],
    ) -> Result<Self, String> {
        let program = options.php_for(&spec.php_version).ok_or_else(|| missing(options, spec))?;
        let executable = File::open(&program.path)
            .map_err(|error| format!("cannot open {}: {error}", program.path.display()))?;
        let user = user_of(options, spec)?;
        let start = || -> std::io::Result<Self> {
            let (output, writer) = Output::new()?;
            let (ours, theirs) = packet::pair()?;
            let parent = std::process::id();
            let pid = match process::fork()? {
                process::Forked::Parent(pid) => pid,
                process::Forked::Child => {
                    let error = become_prototype(
                        spec,
                        user.as_ref(),
                        &executable,
                        &theirs,
                        &writer,
                        parent,
                    );
                    eprintln!("cannot start: {error}");
                    process::exit_now(127);
                }
            };
            let hello = ToPrototype::Hello { spec: spec.clone() };
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            packet::send(&ours, &hello.encode(), &descriptors)?;
            rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::NONBLOCK)?;
            Ok(Application {
                name: spec.name.clone(),
                pid,
                socket: ours,
                output: Some(output),
                ready: false,
                deadline: None,
                dismissed: false,
                failure: None,
                workers: Workers::default(),
            })
        };
        start().map_err(|error| format!("cannot start a process: {error}"))
    }

    /// Asks for another worker. `Err` says why there can be none.
    pub(crate) fn spawn(&mut self) -> Result<(), String> {
        let worker = self.workers.reserve().ok_or("there are too many workers")?;
        self.tell(&ToPrototype::Spawn { worker }).map_err(|error| {
            self.workers.release(worker);
            error.to_string()
        })
    }

    /// Sends a signal to a worker if it is still this one.
    pub(crate) fn kill(&self, worker: Owner, signal: u8) {
        if self.workers.contains(worker) {
            let _ = self.tell(&ToPrototype::Kill { worker, signal });
        }
    }

    /// A worker has ended; `false` if it was none of ours.
    pub(crate) fn worker_ended(&mut self, worker: Owner) -> bool {
        self.workers.release(worker)
    }

    /// Whether this worker is known.
    pub(crate) fn has_worker(&self, worker: Owner) -> bool {
        self.workers.contains(worker)
    }

    /// Whether all workers have left.
    pub(crate) fn is_idle(&self) -> bool {
        self.workers.is_empty()
    }

    /// Ends it: with its workers, and with what they leave removed. The second time it is killed.
    pub(crate) fn dismiss(&mut self) {
        let told = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        if self.dismissed || told.is_err() {
            let _ = signals::send(self.pid, signals::SIGKILL);
        }
        self.dismissed = true;
    }

    fn tell(&self, message: &ToPrototype) -> std::io::Result<()> {
        Ok(packet::send(&self.socket, &message.encode(), &[])?)
    }
}

fn missing(options: &Options, spec: &ApplicationSpec) -> String {
    let wanted = match spec.php_version.as_str() {
        "" => "PHP".to_owned(),
        version => format!("PHP {version}"),
    };
    let have: Vec<_> = options.php.iter().map(|program| program.version.as_str()).collect();
    if have.is_empty() {
        format!(
            "{wanted} is not available: no howdah-php program could be run beside howdah; \
             install the package libphp8.2-embed"
        )
    } else {
        format!("{wanted} is not available; there is PHP {}", have.join(", "))
    }
}

/// The user that the application runs as; `None` if it stays the supervisor's.
fn user_of(options: &Options, spec: &ApplicationSpec) -> Result<Option<Credentials>, String> {
    let user = match (&spec.user, &spec.group) {
        (None, None) => return Ok(options.user.clone()),
        (Some(user), group) => Credentials::look_up(user, group.as_deref()),
        (None, Some(group)) => {
            let name = options.user.clone().unwrap_or_else(Credentials::current).name;
            Credentials::look_up(&name, Some(group))
        }
    }
    .map_err(|error| error.to_string())?;
    let current = Credentials::current();
    if credentials::is_root() {
        Ok(Some(user))
    } else if (user.uid, user.gid) == (current.uid, current.gid) {
        Ok(None)
    } else {
        Err(format!(
            "cannot run as user \"{}\": only a server started by root can change users",
            user.name
        ))
    }
}

fn become_prototype(
    spec: &ApplicationSpec,
    user: Option<&Credentials>,
    executable: &File,
    socket: &OwnedFd,
    output: &OwnedFd,
    parent: u32,
) -> std::io::Error {
    let prepare = || -> std::io::Result<()> {
        signals::reset();
        process::close_on_exec_from(3);
        process::standard_streams(output.as_fd(), output.as_fd())?;
        rustix::process::setpgid(None, None)?;
        process::bound_capabilities();
        if let Some(user) = user {
            user.assume()?;
        }
        process::drop_capabilities()?;
        process::no_new_privileges()?;
        process::die_with(parent);
        redirect(spec)?;
        if let Some(directory) = &spec.working_directory {
            std::env::set_current_dir(directory).map_err(|error| {
                std::io::Error::other(format!("working directory {directory}: {error}"))
            })?;
        }
        Ok(())
    };
    if let Err(error) = prepare() {
        return error;
    }
    // The descriptor of the program must not lie where the socket goes.
    let program = match rustix::io::fcntl_dupfd_cloexec(executable, 10) {
        Ok(program) => program,
        Err(error) => return error.into(),
    };
    if let Err(error) = process::place(socket, 3) {
        return error;
    }
    let title = format!("howdah: \"{}\" prototype", spec.name);
    // Spaces that give the longer titles of the workers room.
    let arguments = [title.as_str(), "                "];
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    process::exec(&path, &arguments, &environment(spec, user))
}

/// What the application asked for, and who it is: `USER` and `HOME` as PHP-FPM sets them.
fn environment(spec: &ApplicationSpec, user: Option<&Credentials>) -> Vec<(String, String)> {
    let current;
    let user = match user {
        Some(user) => user,
        None => {
            current = Credentials::current();
            &current
        }
    };
    let mut environment = spec.environment.clone();
    for (name, value) in [("USER", &user.name), ("HOME", &user.home)] {
        if !environment.iter().any(|(n, _)| n == name) {
            environment.push((name.to_owned(), value.clone()));
        }
    }
    environment
}

fn redirect(spec: &ApplicationSpec) -> std::io::Result<()> {
    for (path, target) in [(&spec.stdout, 1), (&spec.stderr, 2)] {
        if let Some(path) = path {
            let file = output::open(path)
                .map_err(|error| std::io::Error::other(format!("{path}: {error}")))?;
            process::place(&file, target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_with_another_incarnation() {
        let mut workers = Workers::default();
        let first = workers.reserve().unwrap();
        assert_eq!(workers.reserve().unwrap().index, 1);
        assert!(workers.release(first));
        let again = workers.reserve().unwrap();
        assert_eq!(again.index, first.index);
        assert_ne!(again.incarnation, first.incarnation);
        assert!(!workers.release(first), "the old process cannot end the new one");
    }
}
