//! The prototype: loads PHP once, then forks workers and tells the supervisor how they fare.
//!
//! 1. Descriptor 3 is the supervisor's socket; its first message is the specification.
//!    If that is only to be checked, [`check`] does so, and that is all.
//! 2. PHP is loaded with the application's settings: `Ready`, or `Failed` and the end.
//! 3. Loop: fork a worker, send a signal to one, measure them, reap those that have ended.
//! 4. When the supervisor has gone or wants no more, the workers and what they have started are
//!    killed, and the files that they leave are removed.
//!
//! It has one thread for its whole life: a fork copies only the calling thread, and locks that
//! others hold would stay held in the workers.

use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use howdah_sys::look::Looks;
use howdah_sys::packet::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_sys::shm::Mapping;
use howdah_sys::{family, futex, handlers, memory, peek, signals, title};
use howdah_wire::bytes::Malformed;
use howdah_wire::messages::{
    ApplicationSpec, Exit, FromPrototype, MAX_MESSAGE, Problem, ToPrototype,
};
use howdah_wire::queue::Owner;
use howdah_wire::region::Region;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::document_root::Roots;
use crate::ffi::Php;
use crate::memory::MemoryLimit;
use crate::script_directories::ScriptDirectories;
use crate::worker::Worker;
use crate::{check, settings, trace, uploads, usage};

const SUPERVISOR: i32 = 3;

/// Most workers that are looked at in one measurement.
const MEASURED_AT_ONCE: usize = 64;

/// What a terminal or an administrator may send to a whole process group. The supervisor alone
/// decides what becomes of prototypes and workers, and ends them by closing a socket or by KILL.
const NOT_FOR_US: [c_int; 7] = [
    signals::SIGHUP,
    signals::SIGINT,
    signals::SIGQUIT,
    signals::SIGTERM,
    signals::SIGUSR1,
    signals::SIGUSR2,
    signals::SIGPIPE,
];

struct Prototype {
    supervisor: OwnedFd,
    child_ended: OwnedFd,
    spec: ApplicationSpec,
    region: Region<Mapping>,
    events: Vec<OwnedFd>,
    php: Php,
    workers: Vec<(Owner, u32)>,
    upload_directory: PathBuf,
}

/// Why the prototype's loop ends.
enum End {
    /// The supervisor has gone.
    Orphaned,
    /// This is the new process: a worker with its end of the socket and where its output goes.
    Worker(Owner, OwnedFd, Option<OwnedFd>),
}

/// Runs the prototype to its end.
pub fn run() -> ExitCode {
    let Some(supervisor) = process::take_inherited(SUPERVISOR) else {
        eprintln!("howdah-php is started by howdah: descriptor 3 is not open");
        return ExitCode::from(2);
    };
    // None in a process namespace of its own.
    let parent = rustix::process::getppid();
    process::die_with(parent.map(|parent| parent.as_raw_nonzero().get() as u32));
    process::close_on_exec_from(3);
    signals::reset();
    handlers::disarm(&NOT_FOR_US);
    // What scripts leave running stays below the application, and ends with it.
    let _ = family::adopt_orphans();
    let started = match first_message(&supervisor) {
        Ok((ToPrototype::Check { spec }, _)) => {
            return match during_loading(&supervisor, || check::run(&supervisor, &spec)) {
                Ok(version) => {
                    let ready = FromPrototype::Ready { version };
                    let _ = packet::send(&supervisor, &ready.encode(), &[]);
                    ExitCode::SUCCESS
                }
                Err(problem) => failed(&supervisor, problem),
            };
        }
        Ok((ToPrototype::Hello { spec }, descriptors)) => {
            Prototype::start(&supervisor, spec, descriptors)
        }
        _ => Err(Problem::of("the supervisor's first message is not the specification")),
    };
    match started {
        Ok((spec, region, events, php)) => {
            let Ok(child_ended) = signals::descriptor(&[signals::SIGCHLD]) else {
                return failed(&supervisor, Problem::of("a signal descriptor could not be made"));
            };
            let workers = Vec::new();
            let upload_directory = php.upload_directory();
            uploads::remove_abandoned(&upload_directory);
            memory::forget_start();
            Prototype {
                supervisor,
                child_ended,
                spec,
                region,
                events,
                php,
                workers,
                upload_directory,
            }
            .serve();
            ExitCode::SUCCESS
        }
        Err(problem) => failed(&supervisor, problem),
    }
}

fn first_message(supervisor: &OwnedFd) -> Result<(ToPrototype, Vec<OwnedFd>), Malformed> {
    let mut buffer = vec![0; MAX_MESSAGE];
    loop {
        let _ = poll(&mut [PollFd::new(supervisor, PollFlags::IN)], None);
        match packet::receive(supervisor, &mut buffer) {
            Ok(Received::Packet(len, descriptors)) => {
                return Ok((ToPrototype::decode(&buffer[..len])?, descriptors));
            }
            Ok(Received::Empty) => {} // a signal came
            Ok(Received::Closed) | Err(_) => return Err(Malformed),
        }
    }
}

/// The supervisor's socket while PHP is being loaded.
static LOADING: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Without its document root an application has nothing to run; better said once than with every
/// request.
pub fn check_roots(roots: &[(String, String)]) -> Result<(), Problem> {
    for (key, root) in roots {
        match std::fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(Problem::at(key, format_args!("{root} is not a directory"))),
            Err(error) => {
                return Err(Problem::at(key, format_args!("{root} cannot be used: {error}")));
            }
        }
    }
    Ok(())
}

/// Loads PHP; should that end the process, the supervisor is told.
fn during_loading<T>(supervisor: &OwnedFd, load: impl FnOnce() -> T) -> T {
    let set_loading = |socket| LOADING.lock().map(|mut loading| *loading = socket).is_ok();
    set_loading(supervisor.try_clone().ok());
    let loaded = load();
    set_loading(None);
    loaded
}

/// OPcache ends the process when it cannot start, for example without memory or without the
/// preload script; it writes the reason to standard error.
fn ended_by_php() {
    if let Some(supervisor) = LOADING.lock().ok().and_then(|mut socket| socket.take()) {
        let problem = Problem::of("PHP ended while it was being loaded; the log has what it said");
        let _ = packet::send(&supervisor, &FromPrototype::Failed { problem }.encode(), &[]);
    }
}

fn failed(supervisor: &OwnedFd, mut problem: Problem) -> ExitCode {
    let message = &mut problem.message;
    message.truncate(message.floor_char_boundary(MAX_MESSAGE / 2));
    let _ = packet::send(supervisor, &FromPrototype::Failed { problem }.encode(), &[]);
    ExitCode::FAILURE
}

type Started = (ApplicationSpec, Region<Mapping>, Vec<OwnedFd>, Php);

impl Prototype {
    fn start(
        supervisor: &OwnedFd,
        spec: ApplicationSpec,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Started, Problem> {
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
        check_roots(&spec.roots)?;
        let (php, notices) = during_loading(supervisor, || load(&spec))?;
        for notice in notices {
            eprintln!("application \"{}\": {notice}", spec.name);
        }
        let ready = FromPrototype::Ready { version: php.version() };
        packet::send(supervisor, &ready.encode(), &[])
            .map_err(|error| Problem::of(format_args!("the supervisor: {error}")))?;
        Ok((spec, region, events, php))
    }

    fn serve(mut self) {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let mut ready = [
                PollFd::new(&self.supervisor, PollFlags::IN),
                PollFd::new(&self.child_ended, PollFlags::IN),
            ];
            if poll(&mut ready, None).is_err() {
                continue; // a signal came
            }
            let (message, child) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            let result = self.reap(child).and_then(|()| match message {
                true => self.receive(&mut buffer),
                false => Ok(()),
            });
            match result {
                Ok(()) => {}
                Err(End::Worker(owner, socket, output)) => {
                    self.become_worker(owner, socket, output)
                }
                Err(End::Orphaned) => break,
            }
        }
        family::kill_descendants(std::process::id(), &[]);
        // Those that cannot be found without /proc.
        for (_, pid) in &self.workers {
            let _ = signals::send(*pid, signals::SIGKILL);
        }
        // Only when they have ended do they write no more.
        while let Some((pid, _)) = process::wait() {
            uploads::remove(&self.upload_directory, pid);
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<(), End> {
        let (message, descriptors) = match packet::receive(&self.supervisor, buffer) {
            Ok(Received::Packet(len, descriptors)) => {
                (ToPrototype::decode(&buffer[..len]), descriptors)
            }
            Ok(Received::Empty) => return Ok(()),
            Ok(Received::Closed) | Err(_) => return Err(End::Orphaned),
        };
        match message {
            Ok(ToPrototype::Spawn { worker }) => self.spawn(worker, descriptors.into_iter().next()),
            Ok(ToPrototype::Kill { worker, signal }) => {
                if let Some((_, pid)) = self.workers.iter().find(|(owner, _)| *owner == worker) {
                    // It may have ended meanwhile: then its death is about to be reported.
                    match i32::from(signal) {
                        // With what it waits for: the end of a script is the end of its programs.
                        signals::SIGKILL => family::kill(*pid),
                        signal => drop(signals::send(*pid, signal)),
                    }
                }
                Ok(())
            }
            Ok(ToPrototype::Measure {}) => self.measure(),
            Ok(ToPrototype::Trace { worker, number }) => {
                let found = self.workers.iter().find(|(owner, _)| *owner == worker);
                let stack = match found {
                    Some((_, pid)) => trace::take(&peek::Process(*pid), &self.php.layout()),
                    None => Err("its worker has ended".to_owned()),
                };
                self.tell(&FromPrototype::Traced { number, stack }, None)
            }
            // A second specification, or something newer than this program.
            Ok(ToPrototype::Hello { .. } | ToPrototype::Check { .. }) | Err(_) => Ok(()),
        }
    }

    fn spawn(&mut self, worker: Owner, output: Option<OwnedFd>) -> Result<(), End> {
        match fork() {
            Ok(Side::Worker(socket)) => Err(End::Worker(worker, socket, output)),
            Ok(Side::Prototype(pid, router)) => {
                self.workers.push((worker, pid));
                self.tell(&FromPrototype::Started { worker, pid }, Some(&router))
            }
            Err(message) => self.tell(&FromPrototype::NotStarted { worker, message }, None),
        }
    }

    /// Says what workers cost: not of more at once than it can look at in a few milliseconds, and
    /// of others the next time.
    fn measure(&mut self) -> Result<(), End> {
        let some = self.workers.len().min(MEASURED_AT_ONCE);
        let usage = |(worker, pid): &(Owner, u32)| usage::of(*worker, *pid);
        let workers = self.workers[..some].iter().filter_map(usage).collect();
        self.workers.rotate_left(some);
        let (base, memory_limit) = (usage::of_self(), self.php.memory_limit());
        self.tell(&FromPrototype::Measured { base, memory_limit, workers }, None)
    }

    /// Goes on as a worker. What belongs to the prototype alone is closed here.
    fn become_worker(self, owner: Owner, socket: OwnedFd, output: Option<OwnedFd>) -> ! {
        let Prototype {
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
        title::set(&format!("howdah: \"{}\" application", spec.name));
        let output = output.and_then(|pipe| lead_output(&spec, &pipe));
        php.forked();
        // Without, a script that forks would mix up its answer, as it does elsewhere.
        let _ = process::notice_copies();
        let limit = spec.requests;
        // Opened in the worker: the file is about whoever opens it.
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
            alone: Cell::new(false),
            looks: Looks::default(),
        }
        .run();
        process::exit_now(0)
    }

    fn reap(&mut self, child_ended: bool) -> Result<(), End> {
        if !child_ended {
            return Ok(());
        }
        while signals::next(&self.child_ended).is_some() {}
        while let Some((pid, exit)) = process::reap() {
            let Some(index) = self.workers.iter().position(|(_, worker)| *worker == pid) else {
                continue;
            };
            let (worker, _) = self.workers.swap_remove(index);
            if let Some(call) = self.region.ended(worker) {
                futex::wake_in(self.region.wake_word(), call.wake_set());
            }
            uploads::remove(&self.upload_directory, pid);
            let status = match exit {
                process::Exit::Status(status) => Exit::Status(status),
                process::Exit::Signal(signal) => Exit::Signal(signal),
            };
            self.tell(&FromPrototype::Died { worker, pid, status }, None)?;
        }
        Ok(())
    }

    fn tell(&self, message: &FromPrototype, descriptor: Option<&OwnedFd>) -> Result<(), End> {
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        packet::send(&self.supervisor, &message.encode(), &descriptors).map_err(|_| End::Orphaned)
    }
}

/// Leads standard output and error into a pipe unless they are files; returns one that is.
fn lead_output(spec: &ApplicationSpec, pipe: &OwnedFd) -> Option<BorrowedFd<'static>> {
    let mut led = None;
    for (file, target) in
        [(&spec.stdout, rustix::stdio::stdout()), (&spec.stderr, rustix::stdio::stderr())]
    {
        if file.is_none() && process::place(pipe, target.as_raw_fd()).is_ok() {
            led = Some(target);
        }
    }
    led
}

/// Which side of a fork this is, and what it keeps of the socket pair.
enum Side {
    /// The prototype: the worker's process id and the router's end.
    Prototype(u32, OwnedFd),
    /// The worker: its own end.
    Worker(OwnedFd),
}

fn fork() -> Result<Side, String> {
    let threads = process::thread_count();
    if threads != 1 {
        return Err(format!(
            "a PHP extension has started {} threads while it was loaded; PHP cannot be forked \
             then: remove the extension",
            threads - 1
        ));
    }
    let (router, socket) =
        packet::pair().map_err(|error| format!("a socket pair could not be made: {error}"))?;
    let prototype = std::process::id();
    match process::fork().map_err(|error| format!("a worker could not be forked: {error}"))? {
        Forked::Parent(pid) => Ok(Side::Prototype(pid, router)),
        Forked::Child => {
            process::die_with(Some(prototype));
            signals::reset();
            handlers::disarm(&NOT_FOR_US);
            Ok(Side::Worker(socket))
        }
    }
}

/// Loads PHP for an application. Tells what is not as it may have been meant.
pub fn load(spec: &ApplicationSpec) -> Result<(Php, Vec<Problem>), Problem> {
    let mut notices = Vec::new();
    let mut ini_file = spec.ini_file.as_deref();
    match ini_file.map(|file| (file, std::fs::File::open(file))) {
        // PHP, and so Unit, goes on without: documents that name such a file are in use.
        Some((file, Err(error))) if error.kind() == ErrorKind::NotFound => {
            let notice = format_args!("there is no {file}; php.ini of the system is used");
            notices.push(Problem::at("options/file", notice));
            ini_file = None;
        }
        Some((file, Err(error))) => {
            let problem = format_args!("{file} cannot be read: {error}");
            return Err(Problem::at("options/file", problem));
        }
        _ => {}
    }
    let ini = settings::text(spec)?;
    let php = Php::start(&ini, ini_file, ended_by_php).map_err(Problem::of)?;
    notices.extend(settings::apply(spec, &php).into_iter().map(|name| {
        let notice = format_args!("PHP has no setting \"{name}\"");
        Problem::at(format!("options/admin/{name}"), notice)
    }));
    let uploads = php.upload_directory();
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = accessat(CWD, &uploads, wanted, AtFlags::EACCESS) {
        notices.push(Problem::of(format_args!(
            "uploaded files cannot be put in {}: {error}; let the application's user write there, or \
             name another directory in PHP's upload_tmp_dir",
            uploads.display()
        )));
    }
    Ok((php, notices))
}
