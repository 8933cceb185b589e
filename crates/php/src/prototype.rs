//! The prototype: loads PHP once, then forks workers and tells the supervisor how they fare.
//!
//! 1. Descriptor 3 is the socket on which the supervisor speaks; its first message is the
//!    specification. If that is only to be checked, [`check`] does so, and that is all. Descriptor 4
//!    is the pipe through which it is answered.
//! 2. PHP is loaded with the application's settings: `Ready`, or `Failed` and the end.
//! 3. Loop: fork a worker, measure some, read where a script is, reap those that have ended.
//! 4. When the supervisor has gone or wants no more, the workers and what they have started are
//!    killed, and the files that they leave are removed.
//!
//! It has one thread for its whole life: a fork copies only the calling thread, and locks that
//! others hold would stay held in the workers. Until it is a worker nobody can trace it: workers
//! have the same user, and must not get at what it has from the supervisor.

use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use howdah_sys::credentials::Credentials;
use howdah_sys::look::Looks;
use howdah_sys::packet::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_sys::shm::Mapping;
use howdah_sys::{family, futex, handlers, memory, peek, pipe, signals, title};
use howdah_wire::bytes::Malformed;
use howdah_wire::messages::{
    ApplicationSpec, Exit, FromPrototype, MAX_MESSAGE, MAX_REPORT, Problem, ToPrototype,
};
use howdah_wire::queue::Owner;
use howdah_wire::region::Region;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::document_root::Roots;
use crate::ffi::Php;
use crate::lock_directory::{self, LockDirectory};
use crate::memory::MemoryLimit;
use crate::script_directories::ScriptDirectories;
use crate::worker::Worker;
use crate::{check, mail, settings, trace, uploads, usage};

/// The descriptors that it is started with.
const COMMANDS: i32 = 3;
const REPORTS: i32 = 4;

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

/// The way to the supervisor and back.
pub struct Supervisor {
    commands: OwnedFd,
    reports: OwnedFd,
}

impl Supervisor {
    /// Reports something, or answers.
    pub fn tell(&self, message: &FromPrototype) -> rustix::io::Result<()> {
        pipe::send(&self.reports, &message.encode())
    }
}

struct Prototype {
    supervisor: Supervisor,
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
    let inherited = (process::take_inherited(COMMANDS), process::take_inherited(REPORTS));
    let (Some(commands), Some(reports)) = inherited else {
        eprintln!("howdah-php is started by howdah: descriptors 3 and 4 are not both open");
        return ExitCode::from(2);
    };
    let supervisor = Supervisor { commands, reports };
    // None in a process namespace of its own.
    let parent = rustix::process::getppid();
    process::die_with(parent.map(|parent| parent.as_raw_nonzero().get() as u32));
    process::close_on_exec_from(3);
    signals::reset();
    handlers::disarm(&NOT_FOR_US);
    // What scripts leave running stays below the application, and ends with it.
    let _ = family::adopt_orphans();
    let started = match first_message(&supervisor) {
        Ok((ToPrototype::Check { spec, tmp }, _)) => {
            return match during_loading(&supervisor, || check::run(&supervisor, &spec, &tmp)) {
                Ok(version) => {
                    let _ = supervisor.tell(&FromPrototype::Ready { version });
                    ExitCode::SUCCESS
                }
                Err(problem) => failed(&supervisor, problem),
            };
        }
        Ok((ToPrototype::Hello { spec, tmp }, descriptors)) => {
            Prototype::start(&supervisor, spec, &tmp, descriptors)
        }
        _ => Err(Problem::of("the supervisor's first message is not the specification")),
    };
    match started {
        Ok((spec, region, events, php)) => {
            let Ok(child_ended) = signals::descriptor(&[signals::SIGCHLD]) else {
                eprintln!("application \"{}\": a signal descriptor could not be made", spec.name);
                return ExitCode::FAILURE;
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

fn first_message(supervisor: &Supervisor) -> Result<(ToPrototype, Vec<OwnedFd>), Malformed> {
    let mut buffer = vec![0; MAX_MESSAGE];
    loop {
        let _ = poll(&mut [PollFd::new(&supervisor.commands, PollFlags::IN)], None);
        match packet::receive(&supervisor.commands, &mut buffer) {
            Ok(Received::Packet(len, descriptors)) => {
                return Ok((ToPrototype::decode(&buffer[..len])?, descriptors));
            }
            Ok(Received::Empty) => {} // a signal came
            Ok(Received::Closed) | Err(_) => return Err(Malformed),
        }
    }
}

/// The way to the supervisor while PHP is being loaded.
static LOADING: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// The directory of OPcache's lock file while PHP is loaded; `None` if there is none.
static LOCK_DIRECTORY: Mutex<Option<LockDirectory>> = Mutex::new(None);

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
        // A directory can be looked at without the right to use what is in it.
        if let Err(error) = std::fs::metadata(Path::new(root).join(".")) {
            let user = Credentials::current().name;
            return Err(Problem::at(
                key,
                format_args!(
                    "the user \"{user}\" cannot enter {root}: {error}; permit it, as with chmod o+x, or \
                     choose another \"user\""
                ),
            ));
        }
    }
    Ok(())
}

/// Loads PHP; should that end the process, the supervisor is told.
fn during_loading<T>(supervisor: &Supervisor, load: impl FnOnce() -> T) -> T {
    let set_loading = |reports| LOADING.lock().map(|mut loading| *loading = reports).is_ok();
    set_loading(supervisor.reports.try_clone().ok());
    let loaded = load();
    set_loading(None);
    loaded
}

/// OPcache ends the process when it cannot start, for example without memory or without the
/// preload script; it writes the reason to standard error.
fn ended_by_php() {
    if let Some(reports) = LOADING.lock().ok().and_then(|mut reports| reports.take()) {
        let advice = match remove_lock_directory() {
            Some(_) => "the log has what it said",
            None => lock_directory::ADVICE,
        };
        let problem = format_args!("PHP ended while it was being loaded; {advice}");
        let problem = Problem::of(problem);
        let _ = pipe::send(&reports, &FromPrototype::Failed { problem }.encode());
    }
}

/// Returns the directory if there was one; when that is dropped, it is gone.
fn remove_lock_directory() -> Option<LockDirectory> {
    LOCK_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn failed(supervisor: &Supervisor, mut problem: Problem) -> ExitCode {
    let message = &mut problem.message;
    message.truncate(message.floor_char_boundary(MAX_REPORT / 2));
    let _ = supervisor.tell(&FromPrototype::Failed { problem });
    ExitCode::FAILURE
}

type Started = (ApplicationSpec, Region<Mapping>, Vec<OwnedFd>, Php);

impl Prototype {
    fn start(
        supervisor: &Supervisor,
        spec: ApplicationSpec,
        tmp: &str,
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
        let (php, notices) = during_loading(supervisor, || load(&spec, tmp))?;
        for notice in notices {
            eprintln!("application \"{}\": {notice}", spec.name);
        }
        if let Some(problem) = mail::problem(&spec, &php) {
            // Who does not send mail need not be told. The text has no NUL: no path has one.
            let _ = php.advise_on_mail(&problem.to_string());
        }
        let ready = FromPrototype::Ready { version: php.version() };
        supervisor
            .tell(&ready)
            .map_err(|error| Problem::of(format_args!("the supervisor: {error}")))?;
        Ok((spec, region, events, php))
    }

    fn serve(mut self) {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let mut ready = [
                PollFd::new(&self.supervisor.commands, PollFlags::IN),
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
        let (message, descriptors) = match packet::receive(&self.supervisor.commands, buffer) {
            Ok(Received::Packet(len, descriptors)) => {
                (ToPrototype::decode(&buffer[..len]), descriptors)
            }
            Ok(Received::Empty) => return Ok(()),
            Ok(Received::Closed) | Err(_) => return Err(End::Orphaned),
        };
        match message {
            Ok(ToPrototype::Spawn { worker }) => self.spawn(worker, descriptors),
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
            Ok(ToPrototype::Measure { workers }) => self.measure(&workers),
            Ok(ToPrototype::Trace { worker, number }) => {
                let found = self.workers.iter().find(|(owner, _)| *owner == worker);
                let stack = match found {
                    Some((_, pid)) => trace::take(&peek::Process(*pid), &self.php.layout()),
                    None => Err("its worker has ended".to_owned()),
                };
                self.tell(&FromPrototype::Traced { number, stack })
            }
            // A second specification, or something newer than this program.
            Ok(ToPrototype::Hello { .. } | ToPrototype::Check { .. }) | Err(_) => Ok(()),
        }
    }

    fn spawn(&mut self, worker: Owner, descriptors: Vec<OwnedFd>) -> Result<(), End> {
        let mut descriptors = descriptors.into_iter();
        let forked = match descriptors.next() {
            Some(socket) => fork().map(|side| (side, socket)),
            None => Err("its socket did not arrive".to_owned()),
        };
        match forked {
            Ok((Forked::Child, socket)) => Err(End::Worker(worker, socket, descriptors.next())),
            Ok((Forked::Parent(pid), _)) => {
                self.workers.push((worker, pid));
                self.tell(&FromPrototype::Started { worker, pid })
            }
            Err(message) => self.tell(&FromPrototype::NotStarted { worker, message }),
        }
    }

    /// Says what some workers cost.
    fn measure(&mut self, which: &[Owner]) -> Result<(), End> {
        let known = |worker: &Owner| self.workers.iter().find(|(owner, _)| owner == worker);
        let usage = |(worker, pid): &(Owner, u32)| usage::of(*worker, *pid);
        let workers = which.iter().filter_map(known).filter_map(usage).collect();
        let (base, memory_limit) = (usage::of_self(), self.php.memory_limit());
        self.tell(&FromPrototype::Measured { base, memory_limit, workers })
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
        // From here on it is the script's own: core files, debuggers, and the prototype's look at
        // where it is and what it costs.
        let _ = process::allow_tracing();
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
            let was_idle = self.region.is_asleep(worker);
            if let Some(call) = self.region.ended(worker) {
                futex::wake_in(self.region.wake_word(), call.wake_set());
            }
            uploads::remove(&self.upload_directory, pid);
            let status = match exit {
                process::Exit::Status(status) => Exit::Status(status),
                process::Exit::Signal(signal) => Exit::Signal(signal),
            };
            self.tell(&FromPrototype::Died { worker, pid, status, was_idle })?;
        }
        Ok(())
    }

    fn tell(&self, message: &FromPrototype) -> Result<(), End> {
        self.supervisor.tell(message).map_err(|_| End::Orphaned)
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
        process::die_with(Some(prototype));
        signals::reset();
        handlers::disarm(&NOT_FOR_US);
    }
    Ok(side)
}

/// Loads PHP for an application; `tmp` is the server's directory for temporary files. Tells what is
/// not as it may have been meant.
pub fn load(spec: &ApplicationSpec, tmp: &str) -> Result<(Php, Vec<Problem>), Problem> {
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
    let lock_directory = LockDirectory::make(tmp);
    let lock_path = lock_directory.as_ref().and_then(LockDirectory::path).map(str::to_owned);
    *LOCK_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = lock_directory;
    let php = Php::start(&ini, ini_file, lock_path.as_deref(), ended_by_php);
    remove_lock_directory();
    let php = php.map_err(Problem::of)?;
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
