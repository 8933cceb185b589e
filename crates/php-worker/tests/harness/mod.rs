//! A supervisor and a router in one: starts the real `howdah-php`, forks workers, and sends them
//! requests through a real region.

// Each test file uses another part of this module.
#![allow(dead_code)]

pub mod request;
pub mod resident;

pub use request::Request;

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use howdah_harness::time::Stopwatch;
use howdah_sys::pipe::{self, Received};
use howdah_sys::shm::{self, Mapping};
use howdah_sys::{futex, packet, process_tree};
use howdah_wire::frame::{Head, Kind, Log, Purge, RequestUsage};
use howdah_wire::messages::{
    ApplicationSpec, Exit, FromPrototype, MAX_REPORT, Stack, ToPrototype, ToWorker, Usage,
};
use howdah_wire::queue::{Claim, Producer, WorkerId};
use howdah_wire::region::{Geometry, Region};
use howdah_wire::stream::Reader;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Maximum time of each wait of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// An application.
pub struct Application {
    child: Child,
    commands: OwnedFd,
    reports: OwnedFd,
    reader: pipe::Reader,
    pub region: Region<Mapping>,
    producer: Producer,
    event: OwnedFd,
    pub workers: HashMap<WorkerId, Worker>,
    deaths: Vec<(WorkerId, u32, Exit)>,
    /// True if the last worker that died was waiting for a request.
    pub last_was_idle: bool,
    /// True if the last worker that was not started may be started soon.
    pub is_refusal_temporary: bool,
    pub version: String,
    /// Processes from which workers are forked, in the order in which the worker script has started
    /// in them; `None` for each start after which workers start it themselves.
    pub templates: Vec<Option<u32>>,
    pub root: tempfile::TempDir,
}

pub struct Worker {
    pub pid: u32,
    pub socket: OwnedFd,
}

/// Changes of the usual specification by a test.
pub type Adapt<'a> = &'a dyn Fn(&mut ApplicationSpec);

pub fn spec() -> ApplicationSpec {
    ApplicationSpec { geometry: Geometry::for_pool(4, 1), ..ApplicationSpec::new("test") }
}

/// Starts a prototype that must fail. Returns the error.
pub fn start_failing(adapt: Adapt<'_>) -> String {
    match Application::try_start(adapt) {
        Ok(_) => panic!("PHP started"),
        Err(message) => message,
    }
}

impl Application {
    /// Starts a prototype and `workers` workers.
    pub fn start(workers: u16) -> Self {
        Self::start_with(workers, &|_| ())
    }

    pub fn start_with(workers: u16, adapt: Adapt<'_>) -> Self {
        let mut application = Self::try_start(adapt).expect("PHP starts");
        for index in 0..workers {
            application.spawn(WorkerId { index, incarnation: 0 });
        }
        application
    }

    fn try_start(adapt: Adapt<'_>) -> Result<Self, String> {
        let root = tempfile::tempdir().unwrap();
        let mut spec = spec();
        adapt(&mut spec);
        let region_fd = shm::create("region", spec.geometry.region_bytes()).unwrap();
        let region = Region::new(Mapping::map(&region_fd).unwrap(), spec.geometry).unwrap();
        let producer = Producer::new(&region);
        let events: Vec<OwnedFd> = (0..spec.geometry.threads)
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
            .collect();
        let (commands, theirs) = packet::one_way().unwrap();
        let (reports, writer) = pipe::new().unwrap();
        // The descriptors arrive as standard input and output, and the shell moves them to their
        // numbers. A test names another place for messages with the variable ERRORS.
        let script = match &spec.user {
            None => {
                r#"exec 3<&0 4>&1; [ -z "$ERRORS" ] || exec 2>"$ERRORS"; exec 0</dev/null 1>&2
                exec -a "$0" "$1" "                ""#
            }
            Some(_) => {
                r#"exec 3<&0 4>&1 0</dev/null 1>&2; exec setpriv --reuid="$2" --clear-groups "$1""#
            }
        };
        let child = Command::new("bash")
            .args(["-c", script])
            .arg(format!("howdah: \"{}\" prototype", spec.name))
            .arg(env!("CARGO_BIN_EXE_howdah-php"))
            .args(&spec.user)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("USER", "www")
            .env("HOME", "/srv")
            .envs(spec.environment.iter().cloned())
            .current_dir(root.path())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(writer))
            .spawn()
            .unwrap();
        let mut descriptors = vec![region_fd.as_fd()];
        descriptors.extend(events.iter().map(AsFd::as_fd));
        let tmp = "/tmp".to_owned();
        packet::send(
            &commands,
            &ToPrototype::Hello {
                spec,
                tmp,
                sendmail: String::new(),
                user: None,
                variables: Vec::new(),
            }
            .encode(),
            &descriptors,
        )
        .unwrap();
        let mut application = Application {
            child,
            commands,
            reports,
            reader: pipe::Reader::new(MAX_REPORT),
            region,
            producer,
            event: events.into_iter().next().unwrap(),
            workers: HashMap::new(),
            deaths: Vec::new(),
            last_was_idle: false,
            is_refusal_temporary: false,
            version: String::new(),
            templates: Vec::new(),
            root,
        };
        match application.receive() {
            FromPrototype::Ready { version, .. } => application.version = version,
            FromPrototype::Failed { problem } => return Err(problem.to_string()),
            other => panic!("{other:?}"),
        }
        Ok(application)
    }

    pub fn prototype(&self) -> u32 {
        self.child.id()
    }

    fn receive(&mut self) -> FromPrototype {
        loop {
            match self.reader.receive(&self.reports).unwrap() {
                Received::Message(message) => {
                    match FromPrototype::decode(&message).expect("a message") {
                        FromPrototype::Booted { template, .. } => self.templates.push(template),
                        FromPrototype::Fallback { .. } => {}
                        message => return message,
                    }
                }
                Received::Empty => wait_readable(&self.reports),
                Received::Closed => panic!("the prototype has gone"),
            }
        }
    }

    /// Forks a worker and waits until it runs.
    pub fn spawn(&mut self, owner: WorkerId) -> u32 {
        self.try_spawn(owner).unwrap_or_else(|message| panic!("{message}"))
    }

    /// Forks a worker and waits until it runs. Error: why it does not.
    pub fn try_spawn(&mut self, owner: WorkerId) -> Result<u32, String> {
        let (socket, theirs) = packet::one_way().unwrap();
        let spawn = ToPrototype::Spawn { worker: owner }.encode();
        packet::send(&self.commands, &spawn, &[theirs.as_fd()]).unwrap();
        loop {
            match self.receive() {
                FromPrototype::Started { worker, pid } if worker == owner => {
                    self.workers.insert(owner, Worker { pid, socket });
                    return Ok(pid);
                }
                FromPrototype::NotStarted { worker, is_temporary, message } if worker == owner => {
                    self.is_refusal_temporary = is_temporary;
                    return Err(message);
                }
                FromPrototype::Died { worker, pid, status, was_idle } => {
                    self.last_was_idle = was_idle;
                    self.deaths.push((worker, pid, status));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn tell(&self, message: &ToPrototype) {
        packet::send(&self.commands, &message.encode(), &[]).unwrap();
    }

    /// Waits until some worker has ended.
    pub fn death(&mut self) -> (WorkerId, u32, Exit) {
        if let Some(death) = self.deaths.pop() {
            return death;
        }
        match self.receive() {
            FromPrototype::Died { worker, pid, status, was_idle } => {
                self.last_was_idle = was_idle;
                (worker, pid, status)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Requests a measurement. Returns the usage of the workers and the memory that PHP lets a
    /// script allocate.
    pub fn measure(&mut self) -> (Vec<Usage>, Option<u64>) {
        let workers = self.workers.keys().copied().collect();
        self.tell(&ToPrototype::Measure { workers });
        match self.receive() {
            FromPrototype::Measured { workers, memory_limit, .. } => (workers, memory_limit),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the stack of a worker's script.
    pub fn trace(&mut self, worker: WorkerId) -> Stack {
        self.tell(&ToPrototype::Trace { worker, number: 7 });
        match self.receive() {
            FromPrototype::Traced { number: 7, stack } => stack,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a file below the document root and returns its path.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes `<?php` and `code` to a new file. Returns a request for it.
    pub fn script(&self, code: &str) -> Request {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}.php", NUMBER.fetch_add(1, Relaxed));
        let path = self.file(&name, &format!("<?php {code}"));
        Request::get(&path, self.root.path())
    }

    /// Runs a script and waits for the whole response.
    pub fn run(&mut self, code: &str) -> Answer {
        let request = self.script(code);
        self.send(&request).wait(self)
    }

    /// Publishes a request.
    pub fn send(&mut self, request: &Request) -> Pending {
        self.publish(&request.encoded(), request.files())
    }

    /// Publishes bytes as a request.
    pub fn publish(&mut self, encoded: &[u8], files: Vec<OwnedFd>) -> Pending {
        let slot = self.producer.take_slot().expect("a free slot");
        assert!(self.region.stage(slot, 0, encoded), "{} bytes do not fit", encoded.len());
        let (ticket, call) = self.producer.publish(&self.region, slot).unwrap();
        if let Some(call) = call {
            futex::wake_in(self.region.wake_word(), call.wake_set());
        }
        Pending { slot, ticket, reader: Reader::default(), files, answer: Answer::default() }
    }

    /// Returns the worker that has taken a request.
    pub fn owner(&self, pending: &Pending) -> Option<WorkerId> {
        match self.region.claim_of(pending.slot) {
            Claim::Taken(_, owner) => Some(owner),
            _ => None,
        }
    }

    /// Closes the prototype's socket, as the death of the supervisor does.
    pub fn hang_up(&mut self) {
        let (other, _) = packet::pair().unwrap();
        self.commands = other;
        let _ = self.child.wait();
    }

    /// What the kernel says of each worker: its state, the function in which it waits, and the
    /// system call with its arguments. For a test that waits in vain.
    fn states_of_workers(&self) -> String {
        let state = |(id, worker): (&WorkerId, &Worker)| {
            let read = |name: &str| {
                fs::read_to_string(format!("/proc/{}/{name}", worker.pid)).unwrap_or_default()
            };
            let status = read("status");
            let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or("ended");
            format!("{id:?} {state} {} {}", read("wchan"), read("syscall").trim_end())
        };
        self.workers.iter().map(state).collect::<Vec<_>>().join(", ")
    }

    pub fn kill(&self, owner: WorkerId, signal: i32) {
        self.tell(&ToPrototype::Kill { worker: owner, signal: signal as u8 });
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // With the programs of its scripts: they have the test's standard error, and a reader of it
        // through a pipe would wait for their end. A prototype that ends by itself may have stopped
        // them already.
        process_tree::kill(self.child.id());
        let _ = self.child.wait();
    }
}

/// Lets every user read a directory.
pub fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

pub fn wait_readable(fd: impl AsFd) {
    let mut ready = [PollFd::new(&fd, PollFlags::IN)];
    let patience = Timespec { tv_sec: TEST_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(poll(&mut ready, Some(&patience)), Ok(1), "nothing came");
}

/// A request without a complete response.
pub struct Pending {
    pub slot: u32,
    pub ticket: u32,
    reader: Reader,
    files: Vec<OwnedFd>,
    pub answer: Answer,
}

/// The response of a worker.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub reason: String,
    pub fields: Vec<String>,
    pub interim: Vec<(u16, Vec<String>)>,
    pub body: Vec<u8>,
    pub log: Vec<(u8, String)>,
    /// Each as `all soft: tags`, as far as it applies.
    pub purges: Vec<String>,
    pub ended: bool,
    pub done: Option<RequestUsage>,
    /// Length of the longest body frame.
    pub longest: usize,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let prefix = format!("{}:", name.to_lowercase());
        let line = self.fields.iter().find(|line| line.to_lowercase().starts_with(&prefix))?;
        Some(line[prefix.len()..].trim())
    }

    pub fn logged(&self, part: &str) -> bool {
        self.log.iter().any(|(_, message)| message.contains(part))
    }
}

impl Pending {
    /// Takes available frames. Returns true if there were any.
    pub fn poll(&mut self, application: &mut Application) -> bool {
        let mut any = false;
        let mut payload = Vec::new();
        loop {
            payload.clear();
            let region = &application.region;
            let kind = self.reader.next(region, self.slot, &mut payload).expect("sound frames");
            let Some(kind) = kind else { break };
            any = true;
            self.frame(Kind::from_byte(kind).expect("a known frame"), &payload, application);
            let region = &application.region;
            if self.reader.release(region, self.slot) {
                futex::wake(region.slot(self.slot).unwrap().space, 1);
            }
        }
        any
    }

    fn frame(&mut self, kind: Kind, payload: &[u8], application: &Application) {
        let answer = &mut self.answer;
        assert!(answer.done.is_none(), "{kind:?} after the end");
        let lines = |head: &Head<'_>| -> Vec<String> {
            head.fields().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
        };
        match kind {
            Kind::Head => {
                assert_eq!(answer.status, 0, "one head");
                let head = Head::decode(payload).unwrap();
                answer.status = head.status;
                answer.reason = String::from_utf8_lossy(head.reason).into_owned();
                answer.fields = lines(&head);
            }
            Kind::Informational => {
                assert_eq!(answer.status, 0, "interim before final");
                let head = Head::decode(payload).unwrap();
                answer.interim.push((head.status, lines(&head)));
            }
            Kind::Body => {
                assert!(answer.status != 0 && !answer.ended, "a body belongs behind a head");
                answer.longest = answer.longest.max(payload.len());
                answer.body.extend_from_slice(payload);
            }
            Kind::End => {
                assert!(answer.status != 0 && !answer.ended);
                answer.ended = true;
            }
            Kind::Done => {
                assert!(answer.ended);
                answer.done = Some(RequestUsage::decode(payload).unwrap());
            }
            Kind::Log => {
                let log = Log::decode(payload).unwrap();
                answer.log.push((log.severity, String::from_utf8_lossy(log.message).into_owned()));
            }
            Kind::Purge => {
                let purge = Purge::decode(payload).unwrap();
                let flags = [("all ", purge.is_all), ("soft ", purge.is_soft)];
                let mut text: String =
                    flags.iter().filter(|flag| flag.1).map(|flag| flag.0).collect();
                for tag in purge.tags() {
                    text += &format!("{},", String::from_utf8_lossy(tag));
                }
                answer.purges.push(text);
            }
            Kind::Flush | Kind::Samples => {}
            Kind::Status | Kind::Output => panic!("only the router knows"),
            Kind::Descriptors => {
                let Claim::Taken(ticket, owner) = application.region.claim_of(self.slot) else {
                    panic!("nobody has the slot")
                };
                assert_eq!(ticket, self.ticket);
                let files: Vec<_> = self.files.iter().map(AsFd::as_fd).collect();
                let message = ToWorker::Descriptors { ticket }.encode();
                packet::send(&application.workers[&owner].socket, &message, &files).unwrap();
            }
        }
    }

    /// Waits until `condition` holds for the response so far.
    pub fn until(&mut self, application: &mut Application, condition: impl Fn(&Answer) -> bool) {
        let start = Stopwatch::start();
        while !condition(&self.answer) {
            assert!(
                start.elapsed() < TEST_TIMEOUT,
                "gave up; so far: {:?}; workers: {}",
                self.answer,
                application.states_of_workers()
            );
            if self.poll(application) {
                continue;
            }
            if application.region.thread_sleeps(0, false) {
                application.region.take_dirty(0, |_| ());
                continue;
            }
            let mut ready = [PollFd::new(&application.event, PollFlags::IN)];
            let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
            let woken = poll(&mut ready, Some(&tick)) == Ok(1);
            if woken {
                let mut counter = [0; 8];
                let _ = rustix::io::read(&application.event, &mut counter);
            }
            application.region.thread_wakes(0);
            application.region.take_dirty(0, |_| ());
        }
    }

    /// Waits for the end of the response and frees the slot.
    pub fn wait(mut self, application: &mut Application) -> Answer {
        self.until(application, |answer| answer.done.is_some());
        application.producer.release(&application.region, self.slot);
        self.answer
    }

    /// Reports that the client has disconnected, as the router does.
    pub fn abort(&self, application: &Application) {
        let words = application.region.slot(self.slot).unwrap();
        words.aborted.store(1, std::sync::atomic::Ordering::SeqCst);
        words.space.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        futex::wake(words.space, 1);
    }
}
