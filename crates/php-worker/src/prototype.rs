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

use std::num::NonZeroU8;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use howdah_code_watch::{Filter, Watch};
use howdah_launch::known_start::check_roots;
use howdah_sys::packet::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_sys::shm::Mapping;
use howdah_sys::{futex, handlers, memory, process_memory, process_tree, signals, title};
use howdah_wire::messages::{
    ApplicationSpec, Exit, FromPrototype, MAX_MESSAGE, MAX_REPORT, Problem, ToPrototype,
};
use howdah_wire::queue::WorkerId;
use howdah_wire::region::Region;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::application::{Application, IGNORED_SIGNALS};
use crate::check;
use crate::document_root::Pins;
use crate::ffi::{IniFiles, Php};
use crate::loaded_files::LoadedFiles;
use crate::loading::{during_loading, load, use_sendmail};
use crate::origin::{self, Child, Event, Origin, Spawned};
use crate::resident::BOOT_FAILED;
use crate::supervisor::Supervisor;
use crate::{mail, start_variables, trace, uploads, usage};

/// Descriptor of the socket of requests.
pub const COMMANDS: i32 = 3;

/// Descriptor of the pipe of reports.
pub const REPORTS: i32 = 4;

/// An application whose PHP is not loaded yet.
pub struct Prototype {
    /// Specification of the application.
    pub spec: ApplicationSpec,
    region: Region<Mapping>,
    events: Vec<OwnedFd>,
    /// Roots and scripts as they are before PHP loads code.
    pins: Pins,
    /// Links whose changes restart the application, noticed from before PHP loads code.
    watch: Option<Watch>,
}

/// A prototype that has loaded PHP.
struct Loaded {
    supervisor: Supervisor,
    child_ended: OwnedFd,
    application: Application,
    origin: Origin,
    watch: Option<Watch>,
    is_ready: bool,
    workers: Vec<(WorkerId, u32)>,
    /// The process that looks at the files that the application was started from.
    file_check: Option<u32>,
}

/// Reason for which the prototype's loop ends.
enum LoopEnd {
    /// The supervisor has ended, or has closed its end of the socket.
    Orphaned,
    /// The application cannot run.
    Failed(Problem),
    /// This process is a new child.
    Child(Child),
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
        Ok((ToPrototype::Check { spec, tmp, variables }, _)) => {
            start_variables::set(variables);
            match during_loading(&supervisor, || check::run(&supervisor, &spec, &tmp)) {
                Ok(()) => {
                    let _ = supervisor.report(&FromPrototype::checked());
                    ExitCode::SUCCESS
                }
                Err(problem) => failed(&supervisor, problem),
            }
        }
        Ok((ToPrototype::Hello { spec, tmp, sendmail, variables, .. }, descriptors)) => {
            start_variables::set(variables);
            use_sendmail(&sendmail);
            let loaded = Prototype::new(spec, descriptors).and_then(|prototype| {
                check_roots(&prototype.spec.roots)?;
                let (php, notices) = during_loading(&supervisor, || load(&prototype.spec, &tmp))?;
                memory::release_start_memory();
                Ok((prototype, php, notices))
            });
            match loaded {
                Ok((prototype, php, notices)) => {
                    let files = LoadedFiles::of(&IniFiles::of_this_start().0);
                    prototype.serve(supervisor, php, notices, files)
                }
                Err(problem) => failed(&supervisor, problem),
            }
        }
        _ => {
            let problem = "the supervisor's first message is not the specification";
            failed(&supervisor, Problem::of(problem))
        }
    }
}

/// Watches the files and links whose changes restart the application.
fn watch(spec: &ApplicationSpec) -> Option<Watch> {
    let paths = spec.worker.as_ref().map_or(&[][..], |worker| &worker.watch);
    let roots = spec.roots.iter().map(|(_, root)| root);
    let scripts = spec.worker.iter().map(|worker| &worker.script);
    let leading = roots.chain(scripts).filter(|_| spec.releases);
    let links: Vec<_> =
        leading.flat_map(|path| howdah_code_watch::links(Path::new(path))).collect();
    if paths.is_empty() && links.is_empty() {
        return None;
    }
    let key = if paths.is_empty() { "releases" } else { "worker/watch" };
    let problem = |problem| eprintln!("application \"{}\": {key}: {problem}", spec.name);
    Watch::new(paths, &links, Filter::default()).map_err(problem).ok()
}

/// Pins the roots and the worker script of an application.
fn pins(spec: &ApplicationSpec) -> Pins {
    let roots = spec.roots.iter().map(|(_, root)| root.as_str());
    let worker = spec.worker.iter();
    let worker = worker.flat_map(|worker| [worker.root.as_str(), worker.script.as_str()]);
    Pins::new(roots.chain(worker))
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
        let expected = 1 + spec.geometry.threads as usize;
        if descriptors.len() == expected + 1
            && let Some(socket) = descriptors.pop()
        {
            mail::keep(socket)?;
        }
        if descriptors.len() != expected {
            return Err(Problem::of("the specification came with a wrong number of descriptors"));
        }
        let events = descriptors.split_off(1);
        let region = descriptors
            .pop()
            .and_then(|fd| Mapping::map(fd).ok())
            .and_then(|mapping| Region::new(mapping, spec.geometry))
            .ok_or_else(|| Problem::of("the shared memory could not be mapped"))?;
        title::set(&format!("howdah: \"{}\" prototype", spec.name));
        // First of all: a link that changes from now on is noticed.
        let watch = watch(&spec);
        let pins = pins(&spec);
        Ok(Prototype { spec, region, events, pins, watch })
    }

    /// Reports that PHP is loaded, and serves the supervisor's requests to the end. `notices` are
    /// for the log, `files` those that PHP was started from.
    pub fn serve(
        self,
        supervisor: Supervisor,
        php: Php,
        notices: Vec<Problem>,
        mut files: LoadedFiles,
    ) -> ExitCode {
        let Prototype { mut spec, region, events, pins, watch } = self;
        let preloaded = php.setting("opcache.preload").filter(|script| !script.is_empty());
        let loads_once = spec.worker.is_some() || preloaded.is_some();
        let pins = if loads_once { pins } else { Pins::default() };
        let preloaded = preloaded.map(PathBuf::from);
        // PHP looks up a relative path in `include_path`.
        let preloaded = preloaded.filter(|script| script.is_absolute());
        let script = spec.worker.as_ref().map(|worker| PathBuf::from(&worker.script));
        let ini_file = spec.ini_file.as_ref().map(PathBuf::from);
        preloaded.into_iter().chain(script).chain(ini_file).for_each(|file| files.add(file));
        for notice in notices {
            eprintln!("application \"{}\": {notice}", spec.name);
        }
        if let Some(worker) = &mut spec.worker {
            for path in [&mut worker.root, &mut worker.script] {
                if let Some(real) = pins.target(path.as_bytes()) {
                    *path = String::from_utf8_lossy(real).into_owned();
                }
            }
        }
        memory::release_zero_pages();
        let Ok(child_ended) = signals::descriptor(&[signals::SIGCHLD]) else {
            return failed(&supervisor, Problem::of("it cannot receive signals"));
        };
        let upload_directory = php.upload_directory();
        uploads::remove_abandoned(&upload_directory);
        let origin = Origin::new(&spec);
        let application = Application { spec, region, events, php, upload_directory, files, pins };
        Loaded {
            supervisor,
            child_ended,
            application,
            origin,
            watch,
            is_ready: false,
            workers: Vec::new(),
            file_check: None,
        }
        .serve()
    }
}

impl Loaded {
    fn serve(mut self) -> ExitCode {
        let mut result = self.begin();
        loop {
            match result {
                Ok(()) => {}
                Err(LoopEnd::Child(child)) => {
                    let Loaded { supervisor, child_ended, application, origin, watch, .. } = self;
                    drop((supervisor, child_ended, origin, watch));
                    child.run(&application)
                }
                Err(LoopEnd::Failed(problem)) => {
                    let code = failed(&self.supervisor, problem);
                    self.end_processes();
                    return code;
                }
                Err(LoopEnd::Orphaned) => break,
            }
            result = self.turn();
        }
        self.end_processes();
        ExitCode::SUCCESS
    }

    /// Reports that the application can run; a resident one must have booted before.
    fn begin(&mut self) -> Result<(), LoopEnd> {
        match self.origin.begin().map_err(not_booted)? {
            Some(child) => Err(LoopEnd::Child(child)),
            None if self.origin.is_booting() => Ok(()),
            None => self.ready(),
        }
    }

    fn ready(&mut self) -> Result<(), LoopEnd> {
        if std::mem::replace(&mut self.is_ready, true) {
            return Ok(());
        }
        let version = self.application.php.version();
        let is_exposed = self.application.is_on("expose_php");
        let sends_messages = self.application.is_on("fastcgi.logging");
        self.report(&FromPrototype::Ready { version, is_exposed, sends_messages })
    }

    /// Waits for something to do, and does it.
    fn turn(&mut self) -> Result<(), LoopEnd> {
        let mut ready = vec![
            PollFd::new(&self.supervisor.commands, PollFlags::IN),
            PollFd::new(&self.child_ended, PollFlags::IN),
        ];
        ready.extend(
            self.watch
                .as_ref()
                .map(|watch| PollFd::from_borrowed_fd(watch.descriptor(), PollFlags::IN)),
        );
        let has_watch = self.watch.is_some();
        ready.extend(self.origin.reports().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout = self.time_left(Instant::now());
        if poll(&mut ready, timeout.as_ref()).is_err() {
            return Ok(()); // a signal interrupted the wait
        }
        let is_ready = |index: usize| ready.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let (message, child) = (is_ready(0), is_ready(1));
        let (files, template) = (has_watch && is_ready(2), is_ready(2 + usize::from(has_watch)));
        if template {
            self.on_template()?;
        }
        self.reap(child)?;
        let now = Instant::now();
        let events = self.origin.expire(now);
        self.handle(events)?;
        self.report_changes(files, now)?;
        if message { self.receive() } else { Ok(()) }
    }

    /// Returns the time until there is something to do without an event; `None` for any time.
    fn time_left(&self, now: Instant) -> Option<Timespec> {
        let changes = self.watch.as_ref().filter(|_| self.is_ready).and_then(Watch::due);
        let due = self.origin.due().into_iter().chain(changes).min()?;
        // A millisecond more: the time must have passed then.
        (due.saturating_duration_since(now) + Duration::from_millis(1)).try_into().ok()
    }

    /// Reports changed files. `are_noticed`: there are events.
    fn report_changes(&mut self, are_noticed: bool, now: Instant) -> Result<(), LoopEnd> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        if are_noticed {
            watch.receive(now);
        }
        // A change during the boot is reported after it.
        match self.is_ready.then(|| watch.take_changed(now)).flatten() {
            Some(path) => {
                let path = path.to_string_lossy().into_owned();
                self.report(&FromPrototype::Changed { path })
            }
            None => Ok(()),
        }
    }

    /// Handles the reports of the template.
    fn on_template(&mut self) -> Result<(), LoopEnd> {
        let events = self.origin.receive();
        self.handle(events)
    }

    fn handle(&mut self, events: Vec<Event>) -> Result<(), LoopEnd> {
        for event in events {
            match event {
                Event::Booted { boot_us, template, without } => {
                    self.ready()?;
                    self.report(&FromPrototype::Booted { boot_us, template, without })?;
                }
                // The log has its name already.
                Event::Notice(message) => eprintln!("{message}"),
                Event::NotBooted { message } if !self.is_ready => return Err(not_booted(message)),
                Event::NotBooted { message } => eprintln!("{message}"),
                Event::FellBack { problem } => {
                    self.ready()?;
                    self.report(&FromPrototype::Fallback { problem: Some(problem) })?;
                    for (worker, descriptors) in self.origin.take_requests() {
                        self.spawn(worker, descriptors)?;
                    }
                }
                Event::WorksAgain => self.report(&FromPrototype::Fallback { problem: None })?,
                Event::Boot => match self.origin.begin() {
                    Ok(None) => {}
                    Ok(Some(child)) => return Err(LoopEnd::Child(child)),
                    Err(problem) => {
                        let events = self.origin.not_begun(problem);
                        self.handle(events)?;
                    }
                },
                Event::Started { worker, pid } => self.started(worker, pid)?,
                Event::NotStarted { worker, refusal } => {
                    self.report(&refusal.report(worker))?;
                }
                Event::Ended { worker, pid, exit } => {
                    self.workers.retain(|(running, _)| *running != worker);
                    self.ended(worker, pid, exit, false)?;
                }
            }
        }
        Ok(())
    }

    fn started(&mut self, worker: WorkerId, pid: u32) -> Result<(), LoopEnd> {
        self.workers.push((worker, pid));
        self.report(&FromPrototype::Started { worker, pid })
    }

    /// Ends all processes below this one, and removes their temporary files.
    fn end_processes(&self) {
        process_tree::kill_descendants(std::process::id(), &[]);
        // Without /proc, the call above finds no processes.
        let template = self.origin.template();
        for pid in self.workers.iter().map(|(_, pid)| *pid).chain(template) {
            let _ = signals::send(pid, signals::SIGKILL);
        }
        // Remove temporary files only after the worker that writes them has ended.
        while let Some((pid, _)) = process::wait() {
            uploads::remove(&self.application.upload_directory, pid);
        }
    }

    fn receive(&mut self) -> Result<(), LoopEnd> {
        let commands = &self.supervisor.commands;
        let (message, descriptors) = match packet::receive_next(commands, MAX_MESSAGE) {
            Ok((Received::Packet(_, descriptors), message)) => {
                (ToPrototype::decode(&message), descriptors)
            }
            Ok((Received::Empty, _)) => return Ok(()),
            Ok((Received::Closed, _)) | Err(_) => return Err(LoopEnd::Orphaned),
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
                        let layout = self.application.php.layout();
                        trace::take(&process_memory::Process(*pid), &layout)
                    }
                    None => Err("its worker has ended".to_owned()),
                };
                self.report(&FromPrototype::Traced { number, stack })
            }
            Ok(ToPrototype::CheckFiles {}) => self.check_files(),
            // A second specification, or a message that this version does not know.
            Ok(ToPrototype::Hello { .. } | ToPrototype::Check { .. }) | Err(_) => Ok(()),
        }
    }

    /// Lets another process look at the files that the application was started from: a drive may
    /// not answer, and this process must.
    fn check_files(&mut self) -> Result<(), LoopEnd> {
        match origin::fork() {
            Ok(Forked::Child) => Err(LoopEnd::Child(Child::FileCheck)),
            Ok(Forked::Parent(pid)) => {
                self.file_check = Some(pid);
                Ok(())
            }
            Err(problem) => {
                let changed = Some(format!("unknown whether a file has changed ({problem})"));
                self.report(&FromPrototype::FilesChecked { changed })
            }
        }
    }

    fn spawn(&mut self, worker: WorkerId, descriptors: Vec<OwnedFd>) -> Result<(), LoopEnd> {
        match self.origin.spawn(worker, descriptors, Instant::now()) {
            Ok(Spawned::Parent(pid)) => self.started(worker, pid),
            Ok(Spawned::Child(child)) => Err(LoopEnd::Child(child)),
            Ok(Spawned::Requested) => Ok(()),
            Err(refusal) => self.report(&refusal.report(worker)),
        }
    }

    /// Reports memory and processor time of some workers.
    fn measure(&mut self, requested: &[WorkerId]) -> Result<(), LoopEnd> {
        let known = |worker: &WorkerId| self.workers.iter().find(|(owner, _)| owner == worker);
        let usage = |(worker, pid): &(WorkerId, u32)| usage::of(*worker, *pid);
        let workers = requested.iter().filter_map(known).filter_map(usage).collect();
        let template = self.origin.template().map_or(0, usage::pss);
        let base = usage::of_self().saturating_add(template);
        let memory_limit = self.application.php.memory_limit();
        self.report(&FromPrototype::Measured { base, memory_limit, workers })
    }

    fn reap(&mut self, child_ended: bool) -> Result<(), LoopEnd> {
        if !child_ended {
            return Ok(());
        }
        while signals::next(&self.child_ended).is_some() {}
        while let Some((pid, exit)) = process::reap() {
            if self.file_check == Some(pid) {
                self.file_check = None;
                let number = match exit {
                    process::Exit::Status(status) => NonZeroU8::new(status),
                    process::Exit::Signal(_) => Some(NonZeroU8::MAX),
                };
                let changed = number.map(|number| self.application.files.name(number));
                self.report(&FromPrototype::FilesChecked { changed })?;
                continue;
            }
            match self.workers.iter().position(|(_, worker)| *worker == pid) {
                Some(index) => {
                    let (worker, _) = self.workers.swap_remove(index);
                    let was_idle = self.application.region.is_asleep(worker);
                    self.ended(worker, pid, exit, was_idle)?;
                    if exit == process::Exit::Status(BOOT_FAILED) {
                        let events = self.origin.worker_not_booted();
                        self.handle(events)?;
                    }
                }
                None => {
                    let events = self.origin.reaped(pid, exit);
                    self.handle(events)?;
                }
            }
        }
        Ok(())
    }

    /// Reports the end of a worker.
    fn ended(
        &mut self,
        worker: WorkerId,
        pid: u32,
        exit: process::Exit,
        was_idle: bool,
    ) -> Result<(), LoopEnd> {
        let region = &self.application.region;
        if let Some(call) = region.ended(worker) {
            futex::wake_in(region.wake_word(), call.wake_set());
        }
        uploads::remove(&self.application.upload_directory, pid);
        let status = match exit {
            process::Exit::Status(status) => Exit::Status(status),
            process::Exit::Signal(signal) => Exit::Signal(signal),
        };
        self.report(&FromPrototype::Died { worker, pid, status, was_idle })
    }

    fn report(&self, message: &FromPrototype) -> Result<(), LoopEnd> {
        self.supervisor.report(message).map_err(|_| LoopEnd::Orphaned)
    }
}

fn not_booted(message: String) -> LoopEnd {
    LoopEnd::Failed(Problem::at("worker", message))
}
