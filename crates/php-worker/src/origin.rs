//! The process from which an application's workers are forked: the prototype, or, for a resident
//! application, a template in which the worker script has booted.
//!
//! The prototype trusts a template no more than a worker: it runs code of the application. Each of
//! its reports answers a request, or is a violation, after which it is killed. If it ends, the next
//! request for a worker starts another one; the workers continue.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::pipe::{self, Reader, Received};
use howdah_sys::process::{self, Exit, Forked};
use howdah_sys::{handlers, packet, signals};
use howdah_wire::messages::{ApplicationSpec, FromTemplate, MAX_REPORT, ToTemplate, WorkerScript};
use howdah_wire::queue::WorkerId;

mod event;
mod fallback;

pub use self::event::{Child, Event, Spawned};
use crate::application::{Application, IGNORED_SIGNALS};
use crate::refusal::Refusal;
use crate::resident;
use crate::template::{self, Connection};

/// Time within which a template must fork a worker. The supervisor gives the prototype a second,
/// and asks again after a refusal.
const FORK_TIMEOUT: Duration = Duration::from_millis(800);

/// Time after which a template that has not forked a worker is killed. Until then it is only slow:
/// on a busy machine it waits for a processor, and its boot must not be lost by that.
const HUNG_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which the worker script must ask for its first request. A change of the
/// configuration waits at most a minute for its applications; this message says more.
const BOOT_TIMEOUT: Duration = Duration::from_secs(50);

/// Reason why there is no worker then.
const SLOW: &str = "its template has not forked it in time";

/// Pause before the second boot in a row that fails; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Maximum number of ended children that are remembered until the template has reported whether
/// they are workers. There are fewer, unless its script starts processes and leaves them.
const MAX_REAPED: usize = 64;

/// The process from which workers are forked.
pub struct Origin {
    script: Option<WorkerScript>,
    kind: Kind,
    /// The `warm_up` request is handled by templates.
    warms_up: bool,
    /// Boots that have failed in a row because of the script.
    failures: u32,
    /// Time before which no template is started, and why.
    pause: Option<(Instant, Refusal)>,
    /// Workers run a script for each request until the worker script works, see [`fallback`].
    has_fallen_back: bool,
    /// The worker script has worked, or there is something instead.
    has_been_ready: bool,
    /// Workers that the template, or the next one, is to fork.
    requests: Vec<Request>,
    /// Children that have ended and may be workers.
    reaped: VecDeque<(u32, Exit)>,
}

enum Kind {
    /// The prototype; each worker starts a script for each request.
    Prototype,
    /// The prototype; each worker boots the worker script.
    BootingWorkers,
    /// A template; `None` while there is none.
    Template(Option<Template>),
}

struct Template {
    pid: u32,
    started: Instant,
    commands: OwnedFd,
    reports: OwnedFd,
    reader: Reader,
    has_booted: bool,
    /// The template has closed its pipe.
    is_closed: bool,
    /// How the template has ended; workers that it was forking may still report.
    end: Option<Refusal>,
}

/// A worker that a template is to fork.
struct Request {
    worker: WorkerId,
    /// Its socket and the pipes of its output; empty once it is refused.
    descriptors: Vec<OwnedFd>,
    since: Instant,
    /// The template has been asked for it.
    is_sent: bool,
    /// The supervisor has been told that the worker does not exist, and has closed its socket.
    is_refused: bool,
}

impl Origin {
    /// Creates the origin of an application's workers.
    pub fn new(spec: &ApplicationSpec) -> Self {
        Origin {
            script: spec.worker.clone(),
            kind: match spec.worker {
                Some(_) => Kind::Template(None),
                None => Kind::Prototype,
            },
            warms_up: spec.worker.as_ref().is_some_and(|script| script.warm_up.is_some()),
            failures: 0,
            pause: None,
            has_fallen_back: false,
            has_been_ready: false,
            requests: Vec::new(),
            reaped: VecDeque::new(),
        }
    }

    /// Starts a template if there must be one and is none. Returns the template in the new process.
    pub fn begin(&mut self) -> Result<Option<Child>, String> {
        let Kind::Template(template @ None) = &mut self.kind else { return Ok(None) };
        let error = |error: std::io::Error| format!("no template can be started: {error}");
        let (commands, their_commands) = packet::one_way().map_err(|e| error(e.into()))?;
        let (reports, their_reports) = pipe::new().map_err(|e| error(e.into()))?;
        match fork()? {
            Forked::Child => {
                let connection = Connection { commands: their_commands, reports: their_reports };
                Ok(Some(Child::Template { connection, warms_up: self.warms_up }))
            }
            Forked::Parent(pid) => {
                *template = Some(Template {
                    pid,
                    started: Instant::now(),
                    commands,
                    reports,
                    reader: Reader::new(MAX_REPORT),
                    has_booted: false,
                    is_closed: false,
                    end: None,
                });
                Ok(None)
            }
        }
    }

    /// Returns true while the worker script boots in a template.
    pub fn is_booting(&self) -> bool {
        let Kind::Template(template) = &self.kind else { return false };
        template.as_ref().is_none_or(|template| !template.has_booted)
    }

    /// Returns the process id of the template, if one runs.
    pub fn template(&self) -> Option<u32> {
        match &self.kind {
            Kind::Template(Some(template)) if template.end.is_none() => Some(template.pid),
            _ => None,
        }
    }

    /// Returns the pipe of the template's reports, if there may be one.
    pub fn reports(&self) -> Option<&OwnedFd> {
        match &self.kind {
            Kind::Template(Some(template)) if !template.is_closed => Some(&template.reports),
            _ => None,
        }
    }

    /// Returns the time at which [`Origin::expire`] has something to do.
    pub fn due(&self) -> Option<Instant> {
        let boot = match &self.kind {
            Kind::Template(Some(template)) if !template.has_booted => {
                Some(template.started + BOOT_TIMEOUT)
            }
            _ => None,
        };
        self.requests.iter().map(Request::due).chain(boot).chain(self.fallback_due()).min()
    }

    /// Starts a worker, or asks the template for it. `descriptors`: its socket and the pipes of its
    /// output. Error: why there can be none.
    pub fn spawn(
        &mut self,
        worker: WorkerId,
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) -> Result<Spawned, Refusal> {
        if matches!(self.kind, Kind::Template(_)) && !self.has_fallen_back {
            if self.requests.iter().any(|request| request.is_refused) {
                return Err(Refusal::temporary(SLOW));
            }
            let (is_sent, is_refused) = (false, false);
            self.requests.push(Request { worker, descriptors, since: now, is_sent, is_refused });
            let result = self.request_workers(now);
            if result.is_err() {
                self.requests.retain(|request| request.worker != worker);
            }
            return result;
        }
        let boots = matches!(self.kind, Kind::BootingWorkers) && !self.has_fallen_back;
        let mut descriptors = descriptors.into_iter();
        let socket = descriptors
            .next()
            .ok_or_else(|| Refusal::from("its socket did not arrive".to_owned()))?;
        match fork()? {
            Forked::Parent(pid) => Ok(Spawned::Parent(pid)),
            Forked::Child => {
                let outputs = descriptors.collect();
                Ok(Spawned::Child(Child::Worker { worker, socket, outputs, boots }))
            }
        }
    }

    /// Asks the template for the workers that it has not been asked for. If there is none, starts
    /// one, which gets the requests when it has booted. Error: why there can be none now.
    fn request_workers(&mut self, now: Instant) -> Result<Spawned, Refusal> {
        match &self.kind {
            Kind::Template(Some(template)) if template.has_booted && template.end.is_none() => {
                for request in self.requests.iter_mut().filter(|request| !request.is_sent) {
                    request.send(&template.commands)?;
                }
            }
            Kind::Template(None) => {
                if let Some((end, why)) = &self.pause
                    && *end > now
                {
                    return Err(why.clone());
                }
                if let Some(child) = self.begin()? {
                    return Ok(Spawned::Child(child));
                }
            }
            _ => {}
        }
        Ok(Spawned::Requested)
    }

    /// Takes the reports of the template.
    pub fn receive(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let Kind::Template(Some(template)) = &mut self.kind else { return events };
            match template.reader.receive(&template.reports) {
                Ok(Received::Message(message)) => match FromTemplate::decode(&message) {
                    Ok(message) => self.on_report(message, &mut events),
                    Err(_) => self.violated("it sent a malformed message", &mut events),
                },
                Ok(Received::Empty) => return events,
                Ok(Received::Closed) => {
                    template.is_closed = true;
                    match template.end.take() {
                        Some(how) => self.ended(&how, &mut events),
                        // The template is ending: its exit status follows.
                        None => template.kill(),
                    }
                    return events;
                }
                Err(_) => self.violated("it sent a message that is too long", &mut events),
            }
        }
    }

    fn on_report(&mut self, message: FromTemplate, events: &mut Vec<Event>) {
        let Kind::Template(Some(template)) = &mut self.kind else { return };
        match message {
            FromTemplate::Booted { .. } | FromTemplate::Unshareable { .. }
                if !template.has_booted && self.has_fallen_back =>
            {
                self.works_again(events);
            }
            FromTemplate::Booted { boot_us } if !template.has_booted => {
                template.has_booted = true;
                self.has_been_ready = true;
                self.failures = 0;
                self.pause = None;
                events.push(Event::Booted {
                    boot_us,
                    template: Some(template.pid),
                    without: String::new(),
                });
                if let Err(problem) = self.request_workers(Instant::now()) {
                    self.refuse(problem, events);
                }
            }
            FromTemplate::Unshareable { boot_us, reason } if !template.has_booted => {
                self.kind = Kind::BootingWorkers;
                self.has_been_ready = true;
                self.failures = 0;
                self.refuse(Refusal::temporary("it is started without a template"), events);
                events.push(Event::Booted { boot_us, template: None, without: reason });
            }
            FromTemplate::Failed { message, in_warm_up: true } if !template.has_booted => {
                self.warms_up = false;
                self.kind = Kind::Template(None);
                events.push(Event::Notice(format!("it is started without warm_up: {message}")));
                events.push(Event::Boot);
            }
            FromTemplate::Failed { message, .. } if !template.has_booted => {
                self.fail(message.into(), events);
            }
            FromTemplate::Forked { worker, pid } => match self.take(worker) {
                // The worker notices that its socket is closed, and ends.
                Some(Request { is_refused: true, .. }) => {}
                Some(_) => {
                    events.push(Event::Started { worker, pid });
                    if let Some(index) = self.reaped.iter().position(|(other, _)| *other == pid)
                        && let Some((_, exit)) = self.reaped.remove(index)
                    {
                        events.push(Event::Ended { worker, pid, exit });
                    }
                }
                None => self.violated("it sent a worker that was not requested", events),
            },
            FromTemplate::NotForked { worker, message } => match self.take(worker) {
                Some(Request { is_refused: true, .. }) => {}
                Some(_) => events.push(Event::NotStarted { worker, refusal: message.into() }),
                None => self.violated("it sent a failure that was not requested", events),
            },
            _ => self.violated("it sent a message out of order", events),
        }
        if !self.requests.iter().any(|request| request.is_sent) {
            self.reaped.clear();
            if let Kind::Template(Some(Template { end: Some(how), .. })) = &self.kind {
                let how = how.clone();
                self.ended(&how, events);
            }
        }
    }

    /// Takes the request for a worker that the template has been asked for.
    fn take(&mut self, worker: WorkerId) -> Option<Request> {
        let is_meant = |request: &Request| request.worker == worker && request.is_sent;
        let index = self.requests.iter().position(is_meant)?;
        Some(self.requests.remove(index))
    }

    /// Refuses all workers that were requested.
    fn refuse(&mut self, why: impl Into<Refusal>, events: &mut Vec<Event>) {
        let why = why.into();
        let open = self.requests.drain(..).filter(|request| !request.is_refused);
        let refused = |Request { worker, .. }| Event::NotStarted { worker, refusal: why.clone() };
        events.extend(open.map(refused));
    }

    /// Handles the end of a child that is not known as a worker.
    pub fn reaped(&mut self, pid: u32, exit: Exit) -> Vec<Event> {
        let mut events = Vec::new();
        if self.template() == Some(pid) {
            // Its last reports are still in the pipe.
            events = self.receive();
            let how = match exit {
                Exit::Status(status) => format!("its template exited with status {status}").into(),
                // An administrator may have killed it, or memory ran out: its script may work.
                Exit::Signal(signal) if i32::from(signal) == signals::SIGKILL => {
                    Refusal::temporary("its template exited on signal 9")
                }
                Exit::Signal(signal) => format!("its template exited on signal {signal}").into(),
            };
            match &mut self.kind {
                // The template may have forked workers that have not reported yet.
                Kind::Template(Some(template))
                    if !template.is_closed
                        && self.requests.iter().any(|request| request.is_sent) =>
                {
                    template.end = Some(how);
                }
                _ => self.ended(&how, &mut events),
            }
        } else if self.requests.iter().any(|request| request.is_sent) {
            self.reaped.truncate(MAX_REAPED - 1);
            self.reaped.push_front((pid, exit));
        }
        events
    }

    /// Refuses the workers that the template has not forked in time, and kills a template that
    /// hangs.
    pub fn expire(&mut self, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        self.check_fallback(now, &mut events);
        if let Kind::Template(Some(template)) = &self.kind
            && !template.has_booted
            && template.started + BOOT_TIMEOUT <= now
        {
            let what = "its script has not called frankenphp_handle_request() within 50 seconds";
            self.violated(what, &mut events);
            return events;
        }
        for request in self.requests.iter_mut().filter(|request| request.due() <= now) {
            if request.is_refused {
                // Late for the second time.
                self.violated("it does not answer", &mut events);
                return events;
            }
            let message =
                if request.is_sent { SLOW } else { "its worker script is being started again" };
            request.is_refused = true;
            request.descriptors.clear();
            let refusal = Refusal::temporary(message);
            events.push(Event::NotStarted { worker: request.worker, refusal });
        }
        self.requests.retain(|request| request.is_sent || !request.is_refused);
        events
    }

    /// Kills a template after a protocol violation; `what` describes it.
    fn violated(&mut self, what: &str, events: &mut Vec<Event>) {
        let how = Refusal::from(format!("its template was killed: {what}"));
        if let Kind::Template(Some(template)) = &self.kind {
            template.kill();
            if template.has_booted {
                self.refuse(how.clone(), events);
            }
        }
        self.ended(&how, events);
    }

    /// Forgets a template that has ended or has been killed. Workers that it has not forked are
    /// left to the next one.
    fn ended(&mut self, how: &Refusal, events: &mut Vec<Event>) {
        let Kind::Template(found) = &mut self.kind else { return };
        let Some(template) = found.take() else { return };
        self.reaped.clear();
        self.requests.retain_mut(|request| {
            request.is_sent = false;
            !request.is_refused
        });
        if template.has_booted {
            events.push(Event::Notice(how.message.clone()));
            if !self.requests.is_empty() {
                events.push(Event::Boot);
            }
        } else {
            self.fail(how.clone(), events);
        }
    }

    /// Handles a boot that has failed.
    fn fail(&mut self, why: Refusal, events: &mut Vec<Event>) {
        self.kind = Kind::Template(None);
        let (pause, refusal) = if why.is_temporary() {
            (FIRST_PAUSE, Refusal::temporary("its worker script is started again in a moment"))
        } else {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(MAX_PAUSE);
            self.failures += 1;
            let message = "its worker script does not work; it is started again later";
            (pause, message.to_owned().into())
        };
        self.pause = Some((Instant::now() + pause, refusal));
        if self.has_fallback() {
            return self.fall_back(why.message, events);
        }
        let message = why.message.clone();
        self.refuse(why, events);
        events.push(Event::NotBooted { message });
    }
}

impl Template {
    /// Kills the template, unless it has ended.
    fn kill(&self) {
        if self.end.is_none() {
            let _ = signals::send(self.pid, signals::SIGKILL);
        }
    }
}

impl Request {
    /// Returns the time at which the worker is refused, or at which the template hangs.
    fn due(&self) -> Instant {
        self.since + if self.is_refused { HUNG_TIMEOUT } else { FORK_TIMEOUT }
    }

    /// Asks a template for the worker.
    fn send(&mut self, commands: &OwnedFd) -> Result<(), Refusal> {
        let borrowed: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
        let message = ToTemplate::Fork { worker: self.worker }.encode();
        // An error means that the template has ended, which is noticed soon.
        packet::send(commands, &message, &borrowed).map_err(|error| {
            Refusal::temporary(&format!("its template does not take requests: {error}"))
        })?;
        self.is_sent = true;
        Ok(())
    }
}

impl Child {
    /// Runs the process to its end.
    pub fn run(self, application: &Application) -> ! {
        match self {
            Child::Worker { worker, socket, outputs, boots } => {
                let worker = application.worker(worker, socket, outputs, boots);
                if boots {
                    resident::run(application, worker)
                }
                worker.run();
                process::exit_now(0)
            }
            Child::FileCheck => {
                process::exit_now(application.files.changed().map_or(0, |file| file.get().into()))
            }
            Child::Template { connection, warms_up } => {
                template::run(application, connection, warms_up)
            }
        }
    }
}

/// Forks this process. Error: the reason why that is not possible.
pub fn fork() -> Result<Forked, String> {
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
