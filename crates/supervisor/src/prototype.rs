//! Applications: a prototype each, which has loaded PHP and forks the workers.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use howdah_sys::{family, packet, signals};
use howdah_wire::messages::{ApplicationSpec, Problem, ToPrototype};
use howdah_wire::queue::Owner;
use rustix::fs::{Gid, Uid};

use crate::control_groups::ControlGroups;
use crate::identity::Identity;
use crate::launch::New;
use crate::options::Options;
use crate::output::{self, Output};

/// An application's prototype and what is known of its workers.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// It has a process namespace of its own.
    hides_processes: bool,
    pub(crate) socket: OwnedFd,
    pub(crate) output: Option<Output>,
    /// PHP is loaded.
    pub(crate) ready: bool,
    /// When it must be gone; set once it was told to stop.
    pub(crate) deadline: Option<Instant>,
    /// It was told to end at once.
    pub(crate) dismissed: bool,
    /// Why it cannot run, as the prototype said.
    pub(crate) failure: Option<Problem>,
    workers: Workers,
    /// Where the kernel counts whom it kills for want of memory.
    pub(crate) out_of_memory: Option<PathBuf>,
    /// Who shall be able to open the pipes of its workers' output: `/dev/stderr` is such a way.
    /// `None` if both outputs are files and there are no pipes.
    output_of: Option<(Option<u32>, Option<u32>)>,
}

/// Numbers of workers, and which process has which: none until it is known to run.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    running: BTreeMap<u16, Running>,
    incarnations: BTreeMap<u16, u16>,
}

/// A worker from the moment that it is asked for.
#[derive(Debug)]
struct Running {
    owner: Owner,
    pid: Option<u32>,
    /// What its output is read from, until the router has it.
    output: Option<OwnedFd>,
}

/// There is no such worker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

impl Workers {
    /// Reserves the lowest free number; `None` if there are too many workers.
    pub(crate) fn reserve(&mut self) -> Option<Owner> {
        let index = (0..Owner::LIMIT).find(|index| !self.running.contains_key(index))?;
        let incarnation = self.incarnations.entry(index).or_default();
        *incarnation = incarnation.wrapping_add(1);
        let owner = Owner { index, incarnation: *incarnation };
        self.running.insert(index, Running { owner, pid: None, output: None });
        Some(owner)
    }

    fn get(&mut self, worker: Owner) -> Option<&mut Running> {
        self.running.get_mut(&worker.index).filter(|running| running.owner == worker)
    }

    /// A worker runs as this process. Returns what its output is read from.
    pub(crate) fn set_pid(&mut self, worker: Owner, pid: u32) -> Option<OwnedFd> {
        let running = self.get(worker)?;
        running.pid = Some(pid);
        running.output.take()
    }

    /// Whether this worker is the one that runs under its number.
    pub(crate) fn contains(&self, worker: Owner) -> bool {
        self.running.get(&worker.index).is_some_and(|running| running.owner == worker)
    }

    /// A worker has ended, or was not started; `Err` if there is none. Returns its process.
    pub(crate) fn release(&mut self, worker: Owner) -> Result<Option<u32>, Unknown> {
        match self.contains(worker) {
            true => Ok(self.running.remove(&worker.index).and_then(|running| running.pid)),
            false => Err(Unknown),
        }
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
        groups: &mut ControlGroups,
    ) -> Result<Self, String> {
        let Requirements { executable, identity } =
            requirements(options, spec).map_err(|problem| problem.to_string())?;
        let start = || -> std::io::Result<Self> {
            let (output, writer) = Output::new()?;
            let (ours, theirs) = packet::pair()?;
            let new = New {
                spec,
                identity: &identity,
                executable,
                socket: theirs,
                output: writer,
                only_looks: false,
            };
            let pid = new.start(groups)?;
            let out_of_memory = groups.watch(pid);
            let hello = ToPrototype::Hello { spec: spec.clone() };
            let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            packet::send(&ours, &hello.encode(), &descriptors)?;
            Ok(Application {
                name: spec.name.clone(),
                pid,
                hides_processes: spec.isolation.pid_namespace,
                socket: ours,
                output: Some(output),
                ready: false,
                deadline: None,
                dismissed: false,
                failure: None,
                workers: Workers::default(),
                out_of_memory,
                output_of: (spec.stdout.is_none() || spec.stderr.is_none())
                    .then(|| identity.outside()),
            })
        };
        start().map_err(|error| format!("cannot start a process: {error}"))
    }

    /// A worker runs. Returns the id that its process has here, as the prototype may know it by
    /// another one, and what its output is read from.
    pub(crate) fn worker_started(
        &mut self,
        worker: Owner,
        known_as: u32,
    ) -> Result<(u32, Option<OwnedFd>), Unknown> {
        if !self.workers.contains(worker) {
            return Err(Unknown);
        }
        let pid = match self.hides_processes {
            true => family::child_known_as(self.pid, known_as).unwrap_or(known_as),
            false => known_as,
        };
        Ok((pid, self.workers.set_pid(worker, pid)))
    }

    /// Asks for another worker. `Err` says why there can be none.
    pub(crate) fn spawn(&mut self) -> Result<(), String> {
        let worker = self.workers.reserve().ok_or("there are too many workers")?;
        self.ask_for(worker).map_err(|error| {
            let _ = self.workers.release(worker);
            error.to_string()
        })
    }

    fn ask_for(&mut self, worker: Owner) -> std::io::Result<()> {
        let spawn = ToPrototype::Spawn { worker };
        let Some((user, group)) = self.output_of else { return self.tell(&spawn) };
        // Made here, so that no worker can ever make reading it block.
        let (output, theirs) = output::pipe()?;
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        if user.is_some() || group.is_some() {
            let _ = rustix::fs::fchown(&theirs, user, group);
        }
        packet::send(&self.socket, &spawn.encode(), &[theirs.as_fd()])?;
        if let Some(running) = self.workers.get(worker) {
            running.output = Some(output);
        }
        Ok(())
    }

    /// Sends a signal to a worker if it is still this one.
    pub(crate) fn kill(&self, worker: Owner, signal: u8) {
        if self.workers.contains(worker) {
            let _ = self.tell(&ToPrototype::Kill { worker, signal });
        }
    }

    /// Asks what its workers cost; one that does not listen is about to be reported as ended.
    pub(crate) fn measure(&self) {
        let _ = self.tell(&ToPrototype::Measure {});
    }

    /// Asks where a worker's script is; `Err` says why that cannot be asked.
    pub(crate) fn trace(&self, worker: Owner, number: u32) -> Result<(), String> {
        if !self.workers.contains(worker) {
            return Err("its worker has ended".to_owned());
        }
        self.tell(&ToPrototype::Trace { worker, number }).map_err(|error| error.to_string())
    }

    /// A worker has ended, or was not started. Returns its process.
    pub(crate) fn worker_ended(&mut self, worker: Owner) -> Result<Option<u32>, Unknown> {
        self.workers.release(worker)
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

/// What a prototype is started with.
pub(crate) struct Requirements {
    pub(crate) executable: File,
    pub(crate) identity: Identity,
}

/// Looks for what an application needs.
pub(crate) fn requirements(
    options: &Options,
    spec: &ApplicationSpec,
) -> Result<Requirements, Problem> {
    let program = options.php_for(&spec.php_version);
    let program = program.ok_or_else(|| Problem::at("type", missing(options, spec)))?;
    let executable = File::open(&program.path).map_err(|error| {
        Problem::of(format_args!("cannot open {}: {error}", program.path.display()))
    })?;
    let identity = Identity::of(spec, options.user.as_ref(), options.private_user)?;
    Ok(Requirements { executable, identity })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_with_another_incarnation() {
        let mut workers = Workers::default();
        let first = workers.reserve().unwrap();
        assert_eq!(workers.reserve().unwrap().index, 1);
        workers.set_pid(first, 7);
        assert_eq!(workers.release(first), Ok(Some(7)));
        let again = workers.reserve().unwrap();
        assert_eq!(again.index, first.index);
        assert_ne!(again.incarnation, first.incarnation);
        assert_eq!(workers.release(first), Err(Unknown), "the old cannot end the new one");
    }
}
