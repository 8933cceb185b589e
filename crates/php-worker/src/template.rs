//! The template of a resident application: boots the worker script, then forks workers inside the
//! script's first call of `frankenphp_handle_request()`, so that they have booted already.
//!
//! The template has run code of the application. The prototype trusts it no more than a worker: it
//! has no descriptor of the prototype, and can only report children of the prototype as workers.
//! Workers are children of the prototype, and continue if the template ends.

use std::os::fd::OwnedFd;
use std::time::Instant;

use howdah_sys::packet::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_sys::{pipe, record_lock, title};
use howdah_wire::messages::{FromTemplate, MAX_MESSAGE, ToTemplate};
use howdah_wire::queue::WorkerId;
use rustix::event::{PollFd, PollFlags, poll};

use crate::application::Application;
use crate::open_files::{self, OpenFiles};
use crate::resident::{self, Serving};
use crate::socket::is_peer_closed;

/// OPcache marks the processes that use its memory by a lock on this byte of its lock file
/// (`accel_activate_add` in ext/opcache/ZendAccelerator.c). A process that is forked does not
/// inherit the lock, and another process could clear the memory while it runs from there.
const OPCACHE_USER: u64 = 1;

/// The template's ends of the connection to the prototype.
pub struct Connection {
    /// Requests of the prototype.
    pub commands: OwnedFd,
    /// Reports to the prototype.
    pub reports: OwnedFd,
}

/// A process that was forked to be a template. It becomes a worker in each fork of it.
enum State<'a> {
    Booting { connection: Connection, began: Instant, before: OpenFiles, warms_up: bool },
    Worker(Box<Serving<'a>>),
}

/// Runs a template, and in each fork of it a worker, and ends the process. `warms_up`: the
/// application's `warm_up` request is handled first.
pub fn run(application: &Application, connection: Connection, warms_up: bool) -> ! {
    // The template runs code of the application, as workers do.
    let _ = process::allow_tracing();
    title::set(&format!("howdah: \"{}\" template", application.spec.name));
    application.php.after_fork();
    let script = resident::script(application);
    let began = Instant::now();
    let before = OpenFiles::of_this_process();
    let mut state = Some(State::Booting { connection, began, before, warms_up });
    let template = std::process::id();
    let end = resident::run_script(application, script, &mut || {
        let Some(current) = state.take() else { process::exit_now(70) };
        if matches!(current, State::Booting { .. }) && std::process::id() != template {
            process::exit_now(0); // the script has forked it while it booted
        }
        let (next, goes_on) = current.step(application);
        state = Some(next);
        goes_on
    });
    match state {
        Some(State::Booting { connection, warms_up, .. }) => {
            let has_warmed_up = !warms_up && script.warm_up.is_some();
            let message = resident::boot_problem(application, script);
            connection.report(&FromTemplate::Failed { message, in_warm_up: has_warmed_up });
            process::exit_now(0)
        }
        Some(State::Worker(serving)) => serving.end(application, end),
        None => process::exit_now(0),
    }
}

impl<'a> State<'a> {
    /// Handles a call of `frankenphp_handle_request()`. Returns the state after it, and true if the
    /// script must call again.
    fn step(self, application: &'a Application) -> (Self, bool) {
        match self {
            State::Worker(mut serving) => {
                let goes_on = serving.serve();
                (State::Worker(serving), goes_on)
            }
            State::Booting { connection, began, before, warms_up: true } => {
                let script = resident::script(application);
                let target = script.warm_up.as_deref().unwrap_or("/");
                if !resident::warm_up(application, script, target) {
                    let message =
                        format!("the request for {target} that warms it up has ended its script");
                    connection.report(&FromTemplate::Failed { message, in_warm_up: true });
                    process::exit_now(0);
                }
                (State::Booting { connection, began, before, warms_up: false }, true)
            }
            State::Booting { connection, began, before, warms_up: false } => {
                let boot_us = began.elapsed().as_micros() as u64;
                let inherited = match shareable(application, &before) {
                    Ok(inherited) => inherited,
                    Err(reason) => {
                        connection.report(&FromTemplate::Unshareable { boot_us, reason });
                        process::exit_now(0);
                    }
                };
                connection.report(&FromTemplate::Booted { boot_us });
                let mut serving = Box::new(fork_workers(application, connection, &inherited));
                let goes_on = serving.serve();
                (State::Worker(serving), goes_on)
            }
        }
    }
}

/// Descriptors of files with locks, which each worker needs for itself.
struct Inherited {
    /// OPcache's lock file, if OPcache runs.
    opcache: Option<i32>,
    /// Files that the script appends to.
    appended: Vec<i32>,
}

/// Returns the files that each fork of this process must open or lock itself. Error: the state that
/// they would share although they must not. `before` are the files that were open before the boot.
fn shareable(application: &Application, before: &OpenFiles) -> Result<Inherited, String> {
    let threads = process::thread_count();
    if threads != 1 {
        return Err(format!("it has started {} threads", threads - 1));
    }
    if process::has_children() {
        return Err("it has started a process, and has not waited for its end".to_owned());
    }
    let script = std::fs::canonicalize(&resident::script(application).script);
    let script = script.map(|path| path.display().to_string()).unwrap_or_default();
    let open = OpenFiles::of_this_process();
    if let Some(file) = open.unshareable_since(before, &script) {
        return Err(format!("it has opened {file}"));
    }
    let opcache = match (application.php.opcache().is_some(), open_files::opcache_lock()) {
        (true, None) => return Err("OPcache's lock file is not known".to_owned()),
        (true, lock) => lock,
        (false, _) => None,
    };
    Ok(Inherited { opcache, appended: open.appended_since(before) })
}

/// Forks workers until the prototype ends. Returns in each of them.
fn fork_workers<'a>(
    application: &'a Application,
    connection: Connection,
    inherited: &Inherited,
) -> Serving<'a> {
    let prototype = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    loop {
        let Some((worker, descriptors)) = connection.receive() else { process::exit_now(0) };
        let mut descriptors = descriptors.into_iter();
        let Some(socket) = descriptors.next() else {
            let message = "its socket did not arrive".to_owned();
            connection.report(&FromTemplate::NotForked { worker, message });
            continue;
        };
        match process::fork_detached() {
            Ok(Forked::Parent(_)) => {}
            Err(error) => {
                let message = format!("a worker could not be forked: {error}");
                connection.report(&FromTemplate::NotForked { worker, message });
            }
            Ok(Forked::Child) => {
                // The handlers of signals stay those that PHP has set for this script.
                process::die_with_parent(Some(prototype));
                // The worker itself reports that it runs. If the template is killed meanwhile,
                // there is no worker that the prototype does not know: it reads until all ends are
                // closed.
                let pid = std::process::id();
                connection.report(&FromTemplate::Forked { worker, pid });
                drop(connection);
                if is_peer_closed(&socket) {
                    process::exit_now(0); // it was forked too late, and has been refused meanwhile
                }
                let worker = application.worker(worker, socket, descriptors.collect(), true);
                if let Some(lock) = inherited.opcache
                    && record_lock::share(lock, OPCACHE_USER).is_err()
                {
                    eprintln!("a worker ends: it cannot take OPcache's lock");
                    process::exit_now(1);
                }
                if let Some(error) =
                    inherited.appended.iter().find_map(|fd| open_files::reopen(*fd).err())
                {
                    eprintln!(
                        "a worker ends: it cannot open a file that the script has open: {error}"
                    );
                    process::exit_now(1);
                }
                return Serving::new(worker);
            }
        }
    }
}

impl Connection {
    /// Waits for a request to fork a worker. `None` if the prototype has ended.
    fn receive(&self) -> Option<(WorkerId, Vec<OwnedFd>)> {
        loop {
            let _ = poll(&mut [PollFd::new(&self.commands, PollFlags::IN)], None);
            let mut buffer = [0; 64];
            match packet::receive(&self.commands, &mut buffer) {
                Ok(Received::Packet(len, descriptors)) => {
                    let ToTemplate::Fork { worker } = ToTemplate::decode(&buffer[..len]).ok()?;
                    return Some((worker, descriptors));
                }
                Ok(Received::Empty) => {} // a signal interrupted the wait
                Ok(Received::Closed) | Err(_) => return None,
            }
        }
    }

    fn report(&self, message: &FromTemplate) {
        debug_assert!(message.encode().len() < MAX_MESSAGE);
        if pipe::send(&self.reports, &message.encode()).is_err() {
            process::exit_now(0);
        }
    }
}
