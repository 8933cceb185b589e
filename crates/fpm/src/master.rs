//! The master process: what php-fpm's own is to the service manager and to administrators.
//!
//! 1. The configuration is read, sockets are opened, or taken from the program before.
//! 2. A child becomes the supervisor of the pools, with the document and the sockets.
//! 3. When it serves, supervisors from before a reload are told to finish their requests.
//! 4. Signals, until the end: `TERM` and `INT` end at once, `QUIT` after the requests, `USR1` opens
//!    the logs again, `USR2` starts this program anew in this process, with the sockets and beside
//!    the supervisor that serves.
//!
//! The sockets stay open here, so that no connection is lost while a supervisor is replaced.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use howdah_sys::log::json;
use howdah_sys::process::{self, Forked};
use howdah_sys::service_manager::Notifier;
use howdah_sys::{environment, signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command_line::Arguments;
use crate::conf::Conf;
use crate::document::{Php, clients, document};
use crate::log::{Level, Log};
use crate::records::Records;
use crate::sockets::{self, Listener, Listening};

mod heartbeat;
mod reload;
mod reports;
mod supervisor;
mod variables;

use heartbeat::Heartbeat;
use reports::Reports;
pub use reports::{Numbers, report};
use supervisor::Supervisor;
use variables::Variables;

/// Exit status of php-fpm after a mistake in its configuration (`EX_CONFIG`).
pub const BAD_CONFIGURATION: u8 = 78;

/// Pause before a supervisor that has ended is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Time after which a supervisor that was told to end is killed: its own limit is less.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Time without a line after which the supervisor is told to end.
const QUIET_TIME: Duration = Duration::from_millis(40);

/// What a supervisor starts with, in its own process.
#[derive(Debug)]
pub struct Start {
    /// The document.
    pub document: Vec<u8>,
    /// Listening sockets.
    pub sockets: Vec<OwnedFd>,
    /// Lines of [`report`] are written here: one as soon as it serves, then its numbers.
    pub reports: OwnedFd,
}

/// The service manager.
#[derive(Debug, Default)]
pub struct Manager {
    /// Receiver of notifications; `None` without one.
    pub notifier: Option<Notifier>,
    /// The service manager ends a server of which it hears nothing for this time.
    pub watchdog: Option<Duration>,
}

/// How this process was started.
#[derive(Debug)]
pub struct Invocation {
    /// Path of the program.
    pub program: String,
    /// All arguments, the program's name first.
    pub arguments: Vec<String>,
}

/// Runs the server. `supervise` runs a supervisor in a child until its end. Returns the exit status.
pub fn run(
    arguments: &Arguments,
    file: &Path,
    php: &Php,
    invocation: &Invocation,
    manager: Manager,
    supervise: &dyn Fn(Start) -> Result<(), String>,
) -> u8 {
    let variables = Variables::take();
    let mut log = Log::default();
    let Ok(conf) = Conf::load(file, arguments, &mut log) else {
        log.write(Level::Error, "FPM initialization failed");
        return BAD_CONFIGURATION;
    };
    if arguments.tests > 0 {
        if conf.test(arguments, &log).is_ok() {
            // php-fpm ends with an empty line.
            let _ = writeln!(io::stderr());
            return 0;
        }
        log.write(Level::Error, "FPM initialization failed");
        return BAD_CONFIGURATION;
    }
    let kept = sockets::inherited(|name| variables.get(name));
    let is_reload = !variables.former.is_empty();
    let Ok((listeners, sockets)) = sockets::open(&conf, kept, &log) else {
        log.write(Level::Error, "FPM initialization failed");
        return BAD_CONFIGURATION;
    };
    // Once for its problems, and again below: in the background, this process has another id.
    let made = || document(&conf, &listeners, php, arguments, &variables.own);
    if let Err(problem) = made() {
        log.write(Level::Error, problem);
        log.write(Level::Error, "FPM initialization failed");
        return BAD_CONFIGURATION;
    }
    let mut detached = None;
    if conf.global.number("daemonize", 1) == 1 && !is_reload {
        match detach() {
            Ok(waiting) => detached = Some(waiting),
            Err(error) => {
                log.write(Level::Error, format!("failed to daemonize: {error}"));
                return BAD_CONFIGURATION;
            }
        }
    }
    let document = made().map(|document| document.to_string().into_bytes()).unwrap_or_default();
    let events = signals::descriptor(&[
        signals::SIGCHLD,
        signals::SIGTERM,
        signals::SIGINT,
        signals::SIGQUIT,
        signals::SIGUSR1,
        signals::SIGUSR2,
    ]);
    let Ok(events) = events else {
        log.write(Level::Error, "failed to init signals");
        return BAD_CONFIGURATION;
    };
    let heartbeat = Heartbeat::new(&conf, manager.watchdog, &log);
    if is_reload || detached.is_some() {
        log.started();
    }
    let former = variables.former.into_iter().map(|(pid, output)| Supervisor {
        pid,
        output,
        is_serving: true,
        reports: Reports::default(),
        records: Records::new(&conf),
    });
    let mut master = Master {
        former: former.collect(),
        arguments,
        file,
        php,
        invocation,
        notifier: manager.notifier,
        heartbeat,
        supervise,
        conf,
        log,
        listeners,
        sockets,
        document,
        environment: variables.own,
        current: None,
        detached,
        has_served: false,
        is_to_reopen: false,
        stopping: None,
        restart_at: None,
    };
    master.run(&events)
}

/// Warns about `listen.allowed_clients` that are no addresses. php-fpm's processes say so when they
/// start; here it is process `pid`.
fn warn_about_clients(conf: &Conf, pid: u32, records: &Records, log: &Log) {
    for pool in &conf.pools {
        let Some(list) = pool.text("listen.allowed_clients") else { continue };
        let all = list.split(',').map(str::trim).filter(|one| !one.is_empty());
        let say = |text: &str| records.say(&pool.name, pid, Level::Error, text, log);
        for wrong in all.filter(|one| one.parse::<std::net::IpAddr>().is_err()) {
            say(&format!("Wrong IP address '{wrong}' in listen.allowed_clients"));
        }
        if clients(pool).is_some_and(|clients| clients.is_empty()) {
            say("There are no allowed addresses");
        }
    }
}

/// Goes to the background: the parent waits until something is written to the descriptor that is
/// returned, and exits.
fn detach() -> io::Result<OwnedFd> {
    let (wait, serving) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    if let Forked::Parent(_) = process::fork()? {
        drop(serving);
        let mut word = [0];
        let serves = rustix::io::retry_on_intr(|| rustix::io::read(&wait, &mut word));
        process::exit_now(if serves == Ok(1) { 0 } else { BAD_CONFIGURATION.into() });
    }
    drop(wait);
    rustix::process::setsid()?;
    Ok(serving)
}

struct Master<'a> {
    arguments: &'a Arguments,
    file: &'a Path,
    php: &'a Php,
    invocation: &'a Invocation,
    notifier: Option<Notifier>,
    heartbeat: Heartbeat,
    supervise: &'a dyn Fn(Start) -> Result<(), String>,
    conf: Conf,
    log: Log,
    listeners: Vec<Listener>,
    sockets: Vec<Listening>,
    document: Vec<u8>,
    environment: Vec<(String, String)>,
    current: Option<Supervisor>,
    /// Supervisors from before reloads, which finish their requests.
    former: Vec<Supervisor>,
    /// The parent of a server in the background waits for a byte.
    detached: Option<OwnedFd>,
    has_served: bool,
    /// The logs are to be opened again as soon as the supervisor serves.
    is_to_reopen: bool,
    /// The time at which the supervisor is killed; `Some(None)` waits for its requests.
    stopping: Option<Option<Instant>>,
    restart_at: Option<Instant>,
}

/// What is ready.
enum Source {
    Signals,
    Current,
    Reports,
    Former(usize),
}

impl Master<'_> {
    fn run(&mut self, events: &OwnedFd) -> u8 {
        if let Err(problem) = self.begin() {
            self.log.write(Level::Error, problem);
            self.log.write(Level::Error, "FPM initialization failed");
            return BAD_CONFIGURATION;
        }
        loop {
            for source in self.wait(events) {
                match source {
                    Source::Signals => {
                        while let Some(signal) = signals::next(events) {
                            if let Some(status) = self.on_signal(signal) {
                                return status;
                            }
                        }
                    }
                    Source::Current => {
                        if let Some(current) = &mut self.current {
                            current.read(&self.log);
                        }
                    }
                    Source::Reports => self.on_report(),
                    Source::Former(number) => {
                        if let Some(former) = self.former.get_mut(number) {
                            former.read(&self.log);
                        }
                    }
                }
            }
            let now = Instant::now();
            if self.restart_at.is_some_and(|at| at <= now) {
                self.restart_at = None;
                if let Err(problem) = self.begin() {
                    self.log.write(Level::Alert, problem);
                    self.restart_at = Some(now + RESTART_PAUSE);
                }
            }
            if self.heartbeat.is_due(now) && self.stopping.is_none() {
                self.beat(now);
            }
            if let Some(Some(deadline)) = self.stopping
                && deadline <= now
            {
                self.send_all(signals::SIGKILL);
                self.stopping = Some(Some(now + END_TIMEOUT));
            }
            if self.has_crashed_too_often() {
                self.reload();
            }
        }
    }

    /// Starts a supervisor.
    fn begin(&mut self) -> Result<(), String> {
        let failed = |error: io::Error| format!("the supervisor cannot be started: {error}");
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (output, writer) = pipe().map_err(|error| failed(error.into()))?;
        let (reports, reporter) = pipe().map_err(|error| failed(error.into()))?;
        // One that another event was about may have ended meanwhile: no read must wait.
        // Nor must the supervisor wait for this process.
        for end in [&output, &reports, &reporter] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK)
                .map_err(|error| failed(error.into()))?;
        }
        let own = std::process::id();
        match process::fork().map_err(failed)? {
            Forked::Parent(pid) => {
                let reports = Reports::new(reports);
                let records = Records::new(&self.conf);
                let is_serving = false;
                self.current = Some(Supervisor { pid, output, is_serving, reports, records });
                Ok(())
            }
            Forked::Child => {
                signals::reset();
                signals::ignore_pipe();
                process::die_with_parent(Some(own));
                let result = self.become_supervisor(writer, reporter);
                if let Err(problem) = &result {
                    let log = howdah_sys::log::Log::standard_error();
                    let _ = log.map(|log| log.write(howdah_sys::log::Level::Alert, problem));
                }
                process::exit_now(i32::from(result.is_err()));
            }
        }
    }

    fn become_supervisor(&mut self, writer: OwnedFd, reports: OwnedFd) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        process::set_output_streams(writer.as_fd(), writer.as_fd()).map_err(failed)?;
        drop(writer);
        let level = if self.log.takes(Level::Debug) { "debug" } else { "info" };
        let mut variables = self.environment.clone();
        for (name, value) in
            [(json::FORMAT_VARIABLE, json::FORMAT), (howdah_sys::log::LEVEL_VARIABLE, level)]
        {
            variables.retain(|(known, _)| known != name);
            variables.push((name.to_owned(), value.to_owned()));
        }
        environment::replace(&variables).map_err(failed)?;
        self.former.clear();
        self.detached = None;
        let sockets = std::mem::take(&mut self.sockets);
        let sockets = sockets.into_iter().map(|listening| listening.socket).collect();
        let document = std::mem::take(&mut self.document);
        (self.supervise)(Start { document, sockets, reports })
    }

    fn wait(&self, events: &OwnedFd) -> Vec<Source> {
        let mut sources = vec![(Source::Signals, events.as_fd())];
        if let Some(current) = &self.current {
            sources.push((Source::Current, current.output.as_fd()));
            let reports = current.reports.pipe.as_ref();
            sources.extend(reports.map(|reports| (Source::Reports, reports.as_fd())));
        }
        for (number, former) in self.former.iter().enumerate() {
            sources.push((Source::Former(number), former.output.as_fd()));
        }
        let due = self.restart_at.into_iter().chain(self.stopping.flatten());
        let due = due.chain(self.heartbeat.due).min();
        let timeout = due.map(|due| {
            let left = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        let flags = PollFlags::IN;
        let mut polled: Vec<_> =
            sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, flags)).collect();
        let _ = poll(&mut polled, timeout.as_ref());
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let ready = sources.into_iter().zip(ready).filter(|(_, is_ready)| *is_ready);
        ready.map(|((source, _), _)| source).collect()
    }

    /// Reads what the supervisor reports.
    fn on_report(&mut self) {
        if self.current.as_mut().is_some_and(|current| current.reports.read()) {
            self.on_serving();
        }
    }

    /// The supervisor serves.
    fn on_serving(&mut self) {
        for former in &self.former {
            let _ = signals::send(former.pid, signals::SIGQUIT);
        }
        if let Some(current) = &mut self.current {
            current.is_serving = true;
        }
        if std::mem::take(&mut self.is_to_reopen) {
            self.send_to_serving(signals::SIGUSR1);
        }
        if self.has_served {
            return; // it takes the place of one that has ended
        }
        self.has_served = true;
        self.write_pid();
        let pid = std::process::id();
        self.log.started();
        self.log.write(Level::Notice, format!("fpm is running, pid {pid}"));
        self.log.write(Level::Notice, "ready to handle connections");
        self.heartbeat.start(Instant::now(), &self.log);
        if let Some(current) = &self.current {
            warn_about_clients(&self.conf, current.pid, &current.records, &self.log);
        }
        if let Some(detached) = self.detached.take() {
            let null = fs::File::options().read(true).write(true).open("/dev/null");
            let error = self.log.file().map(AsFd::as_fd);
            let _ = null.map(|null| {
                process::set_standard_streams(null.as_fd(), error.unwrap_or(null.as_fd()))
            });
            let _ = rustix::io::write(&detached, b"1");
        }
        let main = pid.to_string();
        let status = "Ready to handle connections";
        self.notify(&[("READY", "1"), ("STATUS", status), ("MAINPID", &main)]);
    }

    fn on_signal(&mut self, signal: i32) -> Option<u8> {
        match signal {
            signals::SIGCHLD => return self.reap(),
            signals::SIGTERM | signals::SIGINT => self.stop(true),
            signals::SIGQUIT => self.stop(false),
            signals::SIGUSR1 => self.reopen(),
            signals::SIGUSR2 => self.reload(),
            _ => {}
        }
        None
    }

    fn stop(&mut self, is_fast: bool) {
        let is_fast_already = matches!(self.stopping, Some(Some(_)));
        if is_fast_already || self.stopping.is_some() && !is_fast {
            return;
        }
        self.drain();
        let word = if is_fast { "Terminating ..." } else { "Finishing ..." };
        self.log.write(Level::Notice, word);
        self.notify(&[("STOPPING", "1"), ("STATUS", word)]);
        self.restart_at = None;
        self.stopping = Some(is_fast.then(|| Instant::now() + END_TIMEOUT));
        self.send_all(if is_fast { signals::SIGTERM } else { signals::SIGQUIT });
        if self.current.is_none() && self.former.is_empty() {
            // `reap` ends the server; nothing will report a child.
            let _ = signals::send(std::process::id(), signals::SIGCHLD);
        }
    }

    /// Writes lines about requests that are answered already, before those about the end.
    fn drain(&mut self) {
        let wait = |output: &OwnedFd| {
            let mut polled = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
            let quiet = Timespec { tv_sec: 0, tv_nsec: QUIET_TIME.subsec_nanos().into() };
            poll(&mut polled, Some(&quiet)).is_ok_and(|ready| ready > 0)
        };
        let until = Instant::now() + 5 * QUIET_TIME;
        while let Some(current) = &mut self.current
            && Instant::now() < until
            && wait(&current.output)
            && current.read(&self.log)
        {}
    }

    fn send_all(&self, signal: i32) {
        for supervisor in self.current.iter().chain(&self.former) {
            let _ = signals::send(supervisor.pid, signal);
        }
    }

    fn send_to_serving(&self, signal: i32) {
        let supervisors = self.current.iter().chain(&self.former);
        for supervisor in supervisors.filter(|supervisor| supervisor.is_serving) {
            let _ = signals::send(supervisor.pid, signal);
        }
    }

    fn reopen(&mut self) {
        match self.log.reopen() {
            Ok(()) => self.log.write(Level::Notice, "error log file re-opened"),
            Err(error) => {
                let error = crate::conf::system(&error);
                self.log.write(Level::Error, format!("failed to open error_log{error}"));
            }
        }
        self.is_to_reopen = self.current.as_ref().is_none_or(|current| !current.is_serving);
        self.send_to_serving(signals::SIGUSR1);
        self.log.write(Level::Notice, "access log file re-opened");
    }

    /// Reaps children. Returns the exit status if the server ends.
    fn reap(&mut self) -> Option<u8> {
        while let Some((pid, exit)) = process::reap() {
            if let Some(at) = self.former.iter().position(|former| former.pid == pid) {
                self.former.remove(at).read_rest(&self.log);
            } else if let Some(mut current) = self.current.take_if(|current| current.pid == pid) {
                current.read_rest(&self.log);
                if self.stopping.is_some() {
                    continue;
                }
                if !self.has_served {
                    self.log.write(Level::Error, "FPM initialization failed");
                    self.send_all(signals::SIGTERM);
                    return Some(BAD_CONFIGURATION);
                }
                let text = format!("the supervisor of the pools, process {pid}, has ended");
                self.log.write(Level::Alert, format!("{text} ({exit:?}); it is started again"));
                self.restart_at = Some(Instant::now() + RESTART_PAUSE);
            }
        }
        let is_over = self.stopping.is_some() && self.current.is_none() && self.former.is_empty();
        is_over.then(|| {
            self.remove_files();
            self.log.write(Level::Notice, "exiting, bye-bye!");
            0
        })
    }

    fn remove_files(&self) {
        for listening in self.sockets.iter().filter(|one| one.key.starts_with('/')) {
            let _ = fs::remove_file(&listening.key);
        }
        if let Some(pid) = self.conf.global.text("pid") {
            let _ = fs::remove_file(pid);
        }
    }

    fn write_pid(&self) {
        let Some(path) = self.conf.global.text("pid") else { return };
        let _ = fs::remove_file(path);
        if let Err(error) = fs::write(path, std::process::id().to_string()) {
            let error = crate::conf::system(&error);
            self.log.write(Level::Error, format!("Unable to create the PID file ({path}).{error}"));
        }
    }

    /// Tells the service manager what the server does; that it works only if its supervisor was
    /// heard of.
    fn beat(&mut self, now: Instant) {
        let current = self.current.as_ref().filter(|current| current.reports.is_recent(now));
        let (numbers, slow) = current.map_or_else(Default::default, |current| {
            (current.reports.numbers.unwrap_or_default(), current.records.slow_requests())
        });
        let is_alive = current.is_some();
        let status = self.heartbeat.beat(now, numbers, slow);
        let mut fields = vec![("READY", "1")];
        if is_alive && self.heartbeat.watchdog.is_some() {
            fields.push(("WATCHDOG", "1"));
        }
        fields.push(("STATUS", &status));
        self.notify(&fields);
    }

    fn notify(&self, fields: &[(&str, &str)]) {
        if let Some(notifier) = &self.notifier
            && notifier.send(fields).is_err()
        {
            self.log.write(Level::Notice, "failed to notify status to systemd");
        }
    }
}
