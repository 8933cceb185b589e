//! The prototype: loads PHP once, then forks workers and reports to the supervisor.
//!
//! 1. Descriptor 3 is the socket of requests; the first one is the specification. Descriptor 4 is
//!    the pipe of reports. For a dry run, [`check`] checks the specification and the process ends.
//! 2. PHP is loaded with the application's settings. The report is `Ready`, or `Failed` and the
//!    process ends.
//! 3. The loop forks workers, measures them, reads the stacks of their scripts, and reaps those
//!    that have ended.
//! 4. When the supervisor closes its end or has ended, the workers and the processes that they have
//!    started are killed, and their temporary files are removed.
//!
//! The prototype has one thread all its life: a fork copies only the calling thread, and a lock
//! that another thread holds would stay held in the workers. No process can trace it: workers have
//! the same user, and must not get its descriptors.

use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use howdah_sys::packet::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_sys::shm::Mapping;
use howdah_sys::spin::SpinPolicy;
use howdah_sys::{futex, handlers, memory, process_memory, process_tree, signals, title};
use howdah_wire::messages::{
    ApplicationSpec, Exit, FromPrototype, MAX_MESSAGE, MAX_REPORT, Problem, ToPrototype,
};
use howdah_wire::queue::WorkerId;
use howdah_wire::region::Region;
use rustix::event::{PollFd, PollFlags, poll};

use crate::document_root::Roots;
use crate::ffi::Php;
use crate::loading::{check_roots, during_loading, load};
use crate::memory::MemoryLimit;
use crate::script_directories::ScriptDirectories;
use crate::supervisor::Supervisor;
use crate::worker::Worker;
use crate::{check, mail, trace, uploads, usage};

/// Descriptor of the socket of requests.
pub const COMMANDS: i32 = 3;

/// Descriptor of the pipe of reports.
pub const REPORTS: i32 = 4;

/// Signals that a terminal or an administrator may send to a whole process group. They are ignored:
/// the supervisor ends prototypes and workers, by closing a socket or by SIGKILL.
pub const IGNORED_SIGNALS: [c_int; 7] = [
    signals::SIGHUP,
    signals::SIGINT,
    signals::SIGQUIT,
    signals::SIGTERM,
    signals::SIGUSR1,
    signals::SIGUSR2,
    signals::SIGPIPE,
];

/// An application whose PHP is not loaded yet.
pub struct Prototype {
    /// Specification of the application.
    pub spec: ApplicationSpec,
    region: Region<Mapping>,
    events: Vec<OwnedFd>,
}

/// A prototype that can start workers.
struct Loaded {
    supervisor: Supervisor,
    child_ended: OwnedFd,
    spec: ApplicationSpec,
    region: Region<Mapping>,
    events: Vec<OwnedFd>,
    php: Php,
    workers: Vec<(WorkerId, u32)>,
    upload_directory: PathBuf,
}

/// Reason for which the prototype's loop ends.
enum LoopEnd {
    /// The supervisor has ended, or has closed its end of the socket.
    Orphaned,
    /// This process is a new worker, with its end of its socket and the pipe of its output.
    Worker(WorkerId, OwnedFd, Option<OwnedFd>),
}

/// Runs the prototype to its end.
pub fn run() -> ExitCode {
    let inherited = (process::take_inherited(COMMANDS), process::take_inherited(REPORTS));
    let (Some(commands), Some(reports)) = inherited else {
        eprintln!("howdah-php is started by howdah: descriptors 3 and 4 are not both open");
        return ExitCode::from(2);
    };
    let supervisor = Supervisor { commands, reports };
    // In a process namespace of its own, the process has no parent.
    let parent = rustix::process::getppid();
    process::die_with_parent(parent.map(|parent| parent.as_raw_nonzero().get() as u32));
    process::close_on_exec_from(3);
    signals::reset();
    handlers::disarm(&IGNORED_SIGNALS);
    // Orphans of scripts become children of this process, and end with it.
    let _ = process_tree::adopt_orphans();
    match supervisor.first_message() {
        Ok((ToPrototype::Check { spec, tmp }, _)) => {
            match during_loading(&supervisor, || check::run(&supervisor, &spec, &tmp)) {
                Ok(version) => {
                    let _ = supervisor.report(&FromPrototype::Ready { version });
                    ExitCode::SUCCESS
                }
                Err(problem) => failed(&supervisor, problem),
            }
        }
        Ok((ToPrototype::Hello { spec, tmp, .. }, descriptors)) => {
            let loaded = Prototype::new(spec, descriptors).and_then(|prototype| {
                check_roots(&prototype.spec.roots)?;
                let (php, notices) = during_loading(&supervisor, || load(&prototype.spec, &tmp))?;
                memory::release_start_memory();
                Ok((prototype, php, notices))
            });
            match loaded {
                Ok((prototype, php, notices)) => prototype.serve(supervisor, php, notices),
                Err(problem) => failed(&supervisor, problem),
            }
        }
        _ => {
            let problem = "the supervisor's first message is not the specification";
            failed(&supervisor, Problem::of(problem))
        }
    }
}

/// Reports that the application cannot run.
pub fn failed(supervisor: &Supervisor, mut problem: Problem) -> ExitCode {
    let message = &mut problem.message;
    message.truncate(message.floor_char_boundary(MAX_REPORT / 2));
    let _ = supervisor.report(&FromPrototype::Failed { problem });
    ExitCode::FAILURE
}

impl Prototype {
    /// Creates the state of an application. `descriptors` came with its specification.
    pub fn new(spec: ApplicationSpec, mut descriptors: Vec<OwnedFd>) -> Result<Self, Problem> {
        if descriptors.len() != 1 + spec.geometry.threads as usize {
            return Err(Problem::of("the specification came with a wrong number of descriptors"));
        }
        let events = descriptors.split_off(1);
        let region = descriptors
            .pop()
            .and_then(|fd| Mapping::map(fd).ok())
            .and_then(|mapping| Region::new(mapping, spec.geometry))
            .ok_or_else(|| Problem::of("the shared memory could not be mapped"))?;
        title::set(&format!("howdah: \"{}\" prototype", spec.name));
        Ok(Prototype { spec, region, events })
    }

    /// Reports that PHP is loaded, and serves the supervisor's requests to the end. `notices` are
    /// for the log.
    pub fn serve(self, supervisor: Supervisor, php: Php, notices: Vec<Problem>) -> ExitCode {
        let Prototype { spec, region, events } = self;
        for notice in notices {
            eprintln!("application \"{}\": {notice}", spec.name);
        }
        if let Some(problem) = mail::problem(&spec, &php) {
            // Logged when mail() fails, not now. The text contains no NUL, as no path does.
            let _ = php.set_mail_advice(&problem.to_string());
        }
        memory::release_zero_pages();
        let Ok(child_ended) = signals::descriptor(&[signals::SIGCHLD]) else {
            return failed(&supervisor, Problem::of("it cannot receive signals"));
        };
        if let Err(error) = supervisor.report(&FromPrototype::Ready { version: php.version() }) {
            eprintln!("application \"{}\": cannot report to the supervisor: {error}", spec.name);
            return ExitCode::FAILURE;
        }
        let upload_directory = php.upload_directory();
        uploads::remove_abandoned(&upload_directory);
        let workers = Vec::new();
        Loaded { supervisor, child_ended, spec, region, events, php, workers, upload_directory }
            .serve();
        ExitCode::SUCCESS
    }
}

impl Loaded {
    fn serve(mut self) {
        loop {
            let mut ready = [
                PollFd::new(&self.supervisor.commands, PollFlags::IN),
                PollFd::new(&self.child_ended, PollFlags::IN),
            ];
            if poll(&mut ready, None).is_err() {
                continue; // a signal interrupted the wait
            }
            let (message, child) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            let result = self.reap(child).and_then(|()| match message {
                true => self.receive(),
                false => Ok(()),
            });
            match result {
                Ok(()) => {}
                Err(LoopEnd::Worker(owner, socket, output)) => {
                    self.become_worker(owner, socket, output)
                }
                Err(LoopEnd::Orphaned) => break,
            }
        }
        process_tree::kill_descendants(std::process::id(), &[]);
        // Without /proc, the call above finds no processes.
        for (_, pid) in &self.workers {
            let _ = signals::send(*pid, signals::SIGKILL);
        }
        // Remove temporary files only after the worker that writes them has ended.
        while let Some((pid, _)) = process::wait() {
            uploads::remove(&self.upload_directory, pid);
        }
    }

    fn receive(&mut self) -> Result<(), LoopEnd> {
        let commands = &self.supervisor.commands;
        let mut buffer = vec![0; packet::next_length(commands, MAX_MESSAGE)];
        let (message, descriptors) = match packet::receive(commands, &mut buffer) {
            Ok(Received::Packet(len, descriptors)) => {
                (ToPrototype::decode(&buffer[..len]), descriptors)
            }
            Ok(Received::Empty) => return Ok(()),
            Ok(Received::Closed) | Err(_) => return Err(LoopEnd::Orphaned),
        };
        match message {
            Ok(ToPrototype::Spawn { worker }) => self.spawn(worker, descriptors),
            Ok(ToPrototype::Kill { worker, signal }) => {
                if let Some((_, pid)) = self.workers.iter().find(|(owner, _)| *owner == worker) {
                    // If the worker has ended meanwhile, its end is reported soon.
                    match i32::from(signal) {
                        // Also kills the programs that the script has started.
                        signals::SIGKILL => process_tree::kill(*pid),
                        signal => drop(signals::send(*pid, signal)),
                    }
                }
                Ok(())
            }
            Ok(ToPrototype::Measure { workers }) => self.measure(&workers),
            Ok(ToPrototype::Trace { worker, number }) => {
                let found = self.workers.iter().find(|(owner, _)| *owner == worker);
                let stack = match found {
                    Some((_, pid)) => {
                        trace::take(&process_memory::Process(*pid), &self.php.layout())
                    }
                    None => Err("its worker has ended".to_owned()),
                };
                self.report(&FromPrototype::Traced { number, stack })
            }
            // A second specification, or a message that this version does not know.
            Ok(ToPrototype::Hello { .. } | ToPrototype::Check { .. }) | Err(_) => Ok(()),
        }
    }

    fn spawn(&mut self, worker: WorkerId, descriptors: Vec<OwnedFd>) -> Result<(), LoopEnd> {
        let mut descriptors = descriptors.into_iter();
        let forked = match descriptors.next() {
            Some(socket) => fork().map(|side| (side, socket)),
            None => Err("its socket did not arrive".to_owned()),
        };
        match forked {
            Ok((Forked::Child, socket)) => Err(LoopEnd::Worker(worker, socket, descriptors.next())),
            Ok((Forked::Parent(pid), _)) => {
                self.workers.push((worker, pid));
                self.report(&FromPrototype::Started { worker, pid })
            }
            Err(message) => self.report(&FromPrototype::NotStarted { worker, message }),
        }
    }

    /// Reports memory and processor time of some workers.
    fn measure(&mut self, requested: &[WorkerId]) -> Result<(), LoopEnd> {
        let known = |worker: &WorkerId| self.workers.iter().find(|(owner, _)| owner == worker);
        let usage = |(worker, pid): &(WorkerId, u32)| usage::of(*worker, *pid);
        let workers = requested.iter().filter_map(known).filter_map(usage).collect();
        let (base, memory_limit) = (usage::of_self(), self.php.memory_limit());
        self.report(&FromPrototype::Measured { base, memory_limit, workers })
    }

    /// Becomes a worker. Closes the descriptors of the prototype first.
    fn become_worker(self, owner: WorkerId, socket: OwnedFd, output: Option<OwnedFd>) -> ! {
        let Loaded {
            supervisor,
            child_ended,
            spec,
            region,
            events,
            php,
            workers: _,
            upload_directory,
        } = self;
        drop((supervisor, child_ended));
        // Permits core dumps, debuggers, and the prototype's measurements and stack traces.
        let _ = process::allow_tracing();
        title::set(&format!("howdah: \"{}\" application", spec.name));
        let output = output.and_then(|pipe| redirect_output(&spec, &pipe));
        php.after_fork();
        // Without it, a script that forks would mix its response with that of the child.
        let _ = process::track_forks();
        let limit = spec.requests;
        // Opened in the worker: /proc/self/statm belongs to the process that opens it.
        let memory = MemoryLimit::new(spec.memory);
        Worker {
            owner,
            socket,
            region: &region,
            events: &events,
            php: &php,
            limit,
            memory,
            upload_directory: &upload_directory,
            roots: Roots::default(),
            script_directories: ScriptDirectories::new(&spec),
            uploads: OnceCell::new(),
            output,
            was_only_request: Cell::new(false),
            keeps_memory: Cell::new(false),
            spin_policy: SpinPolicy::default(),
        }
        .run();
        process::exit_now(0)
    }

    fn reap(&mut self, child_ended: bool) -> Result<(), LoopEnd> {
        if !child_ended {
            return Ok(());
        }
        while signals::next(&self.child_ended).is_some() {}
        while let Some((pid, exit)) = process::reap() {
            let Some(index) = self.workers.iter().position(|(_, worker)| *worker == pid) else {
                continue;
            };
            let (worker, _) = self.workers.swap_remove(index);
            let was_idle = self.region.is_asleep(worker);
            if let Some(call) = self.region.ended(worker) {
                futex::wake_in(self.region.wake_word(), call.wake_set());
            }
            uploads::remove(&self.upload_directory, pid);
            let status = match exit {
                process::Exit::Status(status) => Exit::Status(status),
                process::Exit::Signal(signal) => Exit::Signal(signal),
            };
            self.report(&FromPrototype::Died { worker, pid, status, was_idle })?;
        }
        Ok(())
    }

    fn report(&self, message: &FromPrototype) -> Result<(), LoopEnd> {
        self.supervisor.report(message).map_err(|_| LoopEnd::Orphaned)
    }
}

/// Redirects standard output and error to a pipe, unless they are files. Returns one that is
/// redirected.
fn redirect_output(spec: &ApplicationSpec, pipe: &OwnedFd) -> Option<BorrowedFd<'static>> {
    let mut redirected = None;
    for (file, target) in
        [(&spec.stdout, rustix::stdio::stdout()), (&spec.stderr, rustix::stdio::stderr())]
    {
        if file.is_none() && process::duplicate_to(pipe, target.as_raw_fd()).is_ok() {
            redirected = Some(target);
        }
    }
    redirected
}

fn fork() -> Result<Forked, String> {
    let threads = process::thread_count();
    if threads != 1 {
        return Err(format!(
            "a PHP extension has started {} threads while it was loaded; PHP cannot be forked \
             then: remove the extension",
            threads - 1
        ));
    }
    let prototype = std::process::id();
    let side = process::fork().map_err(|error| format!("a worker could not be forked: {error}"))?;
    if side == Forked::Child {
        process::die_with_parent(Some(prototype));
        signals::reset();
        handlers::disarm(&IGNORED_SIGNALS);
    }
    Ok(side)
}
