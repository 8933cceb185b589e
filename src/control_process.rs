//! The control process: serves the control API.
//!
//! It is a process of its own so that the router, which reads what strangers send, has no part in
//! what the configuration says: the supervisor takes documents from this process alone. It runs
//! without privileges, opens no file, and ends when it has had nothing to do for a while; the
//! supervisor starts another one when somebody connects.
//!
//! 1. The supervisor's first message has the document, the certificates, the control socket, and a
//!    socket to the router.
//! 2. [`control_api`](crate::control_api) serves requests. What changes something goes to the
//!    supervisor, questions go to the router.
//! 3. A message of the supervisor's has the configuration read again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::Defaults;
use howdah_server::packets::{Packets, from_memory, to_memory};
use howdah_server::router::certificates;
use howdah_sys::log::Log;
use howdah_sys::process;
use howdah_sys::sandbox::landlock::Domain;
use howdah_sys::sandbox::router_calls::ROUTER;
use howdah_wire::messages::{FromControl, FromRouter, Outcome, ToControl, ToRouter};
use serde_json::Value;
use tokio::sync::{Mutex, Notify, oneshot};

use crate::control_api::{self, Front};

/// How long the process waits for another connection before it ends.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// The same if there is no control socket: it was started to read the configuration again.
const IDLE_TIME_WITHOUT_SOCKET: Duration = Duration::from_secs(1);

/// Longest document and longest answer of the router's, in bytes.
const MAX_TEXT: u64 = 256 << 20;

/// Runs the control process on the socket that the supervisor has passed. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    howdah_sys::signals::ignore_pipe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let served = runtime.and_then(|runtime| {
        let served = runtime.block_on(serve(socket));
        // Whatever is still being read by a helper thread is for nobody.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("howdah: control process: {error}");
            1
        }
    }
}

async fn serve(socket: OwnedFd) -> std::io::Result<()> {
    let supervisor = Rc::new(Supervisor::new(Packets::new(socket)?));
    let (hello, descriptors) = supervisor.receive().await?;
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next();
    let ToControl::Hello { address, origin, is_undone_by_reload, unit_defaults, token, sandbox } =
        hello
    else {
        return Err(std::io::Error::other("the supervisor's first message is no greeting"));
    };
    let Some(log) = next() else {
        return Err(std::io::Error::other("the supervisor's first message is no greeting"));
    };
    if sandbox {
        restrict();
    }
    let log = Arc::new(Log::new(log));
    let document = from_memory(next(), MAX_TEXT)?;
    let certificates = certificates::read(next())?;
    let router = next().ok_or_else(|| std::io::Error::other("there is no socket to the router"))?;
    let router = Rc::new(Router::new(Packets::new(router)?));
    tokio::task::spawn_local(Rc::clone(&router).listen());
    let listener = next();
    let idle_time = if listener.is_some() { IDLE_TIME } else { IDLE_TIME_WITHOUT_SOCKET };
    let activity = Rc::new(Activity::default());
    let front = Front {
        listener,
        address,
        token,
        document,
        defaults: Defaults::of(unit_defaults),
        certificates,
        supervisor: Rc::clone(&supervisor),
        router,
        activity: Rc::clone(&activity),
        undone_from: is_undone_by_reload.then(|| origin.clone()),
    };
    let api = control_api::start(front);
    let reload = Rc::new(Notify::new());
    {
        let (api, reload, log) = (Rc::clone(&api), Rc::clone(&reload), Arc::clone(&log));
        let (supervisor, activity) = (Rc::clone(&supervisor), Rc::clone(&activity));
        tokio::task::spawn_local(async move {
            loop {
                reload.notified().await;
                let _busy = activity.begin();
                api.reload_and_log(&origin, &log).await;
                let _ = supervisor.tell(&FromControl::Reloaded {});
            }
        });
    }
    loop {
        tokio::select! {
            message = supervisor.receive() => match message? {
                (ToControl::Reload {}, _) => reload.notify_one(),
                (ToControl::Renewed { name }, descriptors) => {
                    api.show_certificate(name, from_memory(descriptors.into_iter().next(), MAX_TEXT)?);
                }
                (ToControl::Reopened {}, descriptors) => {
                    if let Some(file) = descriptors.into_iter().next() {
                        process::output_streams(file.as_fd(), file.as_fd())?;
                        log.reopen(file);
                    }
                }
                (answer, descriptors) => supervisor.answered(answer, descriptors),
            },
            () = activity.idle(idle_time) => return Ok(()),
        }
    }
}

/// Gives up all files and all system calls that the router does not need either. It is called before
/// there is a second thread. What the kernel cannot restrict, it cannot for the router either, and
/// the router says so in the log.
fn restrict() {
    let nothing = Domain {
        files: Some(Vec::new()),
        no_device_ioctl: true,
        no_bind_tcp: true,
        no_abstract_sockets: true,
    };
    let _ = nothing.enter();
    let _ = ROUTER.install();
}

/// What the process has in hand.
#[derive(Debug, Default)]
pub struct Activity {
    count: Cell<usize>,
    last_end: Cell<Option<Instant>>,
}

/// Something that is in hand until this is dropped.
#[derive(Debug)]
pub struct Busy(Rc<Activity>);

impl Activity {
    /// Begins something.
    pub fn begin(self: &Rc<Self>) -> Busy {
        self.count.set(self.count.get() + 1);
        Busy(Rc::clone(self))
    }

    /// Waits until nothing has been in hand for this long.
    async fn idle(&self, time: Duration) {
        let begun = Instant::now();
        loop {
            let due = self.last_end.get().map_or(begun, |last| last.max(begun)) + time;
            if self.count.get() == 0 && due <= Instant::now() {
                return;
            }
            let due = due.max(Instant::now() + Duration::from_millis(100));
            tokio::time::sleep_until(due.into()).await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.last_end.set(Some(Instant::now()));
    }
}

type Answer = (ToControl, Vec<OwnedFd>);

/// The socket to the supervisor.
#[derive(Debug)]
pub struct Supervisor {
    packets: Packets,
    /// Held by whoever has asked and waits for the answer.
    asking: Mutex<()>,
    waiting: RefCell<Option<oneshot::Sender<Answer>>>,
}

const GONE: &str = "the server is being stopped";

impl Supervisor {
    fn new(packets: Packets) -> Self {
        Supervisor { packets, asking: Mutex::default(), waiting: RefCell::default() }
    }

    async fn receive(&self) -> std::io::Result<Answer> {
        let gone = || std::io::Error::other("the supervisor has gone");
        let (packet, descriptors) = self.packets.receive().await?.ok_or_else(gone)?;
        let message = ToControl::decode(&packet)
            .map_err(|_| std::io::Error::other("the supervisor sent a malformed message"))?;
        Ok((message, descriptors))
    }

    fn answered(&self, answer: ToControl, descriptors: Vec<OwnedFd>) {
        if let Some(waiting) = self.waiting.borrow_mut().take() {
            let _ = waiting.send((answer, descriptors));
        }
    }

    fn tell(&self, message: &FromControl) -> std::io::Result<()> {
        self.packets.send(&message.encode(), &[])
    }

    async fn ask(
        &self,
        message: &FromControl,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Answer, String> {
        let _asking = self.asking.lock().await;
        let (done, answer) = oneshot::channel();
        *self.waiting.borrow_mut() = Some(done);
        self.packets.send(&message.encode(), descriptors).map_err(|error| error.to_string())?;
        answer.await.map_err(|_| GONE.to_owned())
    }

    /// Makes a configuration the running one, and stores it. With `restart` all applications are
    /// restarted.
    pub async fn apply(&self, document: &[u8], restart: bool) -> Outcome {
        let asked = async {
            let memory = to_memory(document).map_err(|error| error.to_string())?;
            self.ask(&FromControl::Apply { restart }, &[memory.as_fd()]).await
        };
        match asked.await {
            Ok((ToControl::Applied { outcome }, _)) => outcome,
            Ok(_) => Outcome::NotApplied(GONE.to_owned()),
            Err(problem) => Outcome::NotApplied(problem),
        }
    }

    /// Reads the configuration again from where the server had it at its start. `Err` says why it
    /// cannot be read.
    pub async fn read_document(&self) -> Result<Vec<u8>, String> {
        match self.ask(&FromControl::ReadDocument {}, &[]).await? {
            (ToControl::DocumentRead { error }, descriptors) if error.is_empty() => {
                let read = from_memory(descriptors.into_iter().next(), MAX_TEXT);
                read.map_err(|error| error.to_string())
            }
            (ToControl::DocumentRead { error }, _) => Err(error),
            _ => Err(GONE.to_owned()),
        }
    }

    /// Stores a certificate bundle (PEM) that was checked. `Err` says why it is not stored.
    pub async fn store_certificate(&self, name: String, pem: &[u8]) -> Result<(), String> {
        let memory = to_memory(pem).map_err(|error| error.to_string())?;
        let store = FromControl::StoreCertificate { name };
        stored(self.ask(&store, &[memory.as_fd()]).await?)
    }

    /// Deletes a certificate bundle. `Err` says why it is still there.
    pub async fn delete_certificate(&self, name: String) -> Result<(), String> {
        stored(self.ask(&FromControl::DeleteCertificate { name }, &[]).await?)
    }
}

fn stored(answer: Answer) -> Result<(), String> {
    match answer.0 {
        ToControl::Stored { error } if error.is_empty() => Ok(()),
        ToControl::Stored { error } => Err(error),
        _ => Err(GONE.to_owned()),
    }
}

/// The text that the router has answered with, if there is one; `Err` says what went wrong.
type Found = Result<Option<OwnedFd>, String>;

/// The socket to the router.
#[derive(Debug)]
pub struct Router {
    packets: Packets,
    last: Cell<u32>,
    waiting: RefCell<HashMap<u32, oneshot::Sender<Found>>>,
}

impl Router {
    fn new(packets: Packets) -> Self {
        Router { packets, last: Cell::default(), waiting: RefCell::default() }
    }

    async fn listen(self: Rc<Self>) {
        while let Ok(Some((packet, descriptors))) = self.packets.receive().await {
            let Ok(FromRouter::Answer { number, error }) = FromRouter::decode(&packet) else {
                break;
            };
            if let Some(waiting) = self.waiting.borrow_mut().remove(&number) {
                let memory = descriptors.into_iter().next();
                let _ = waiting.send(if error.is_empty() { Ok(memory) } else { Err(error) });
            }
        }
        self.waiting.borrow_mut().clear();
    }

    async fn ask(&self, question: impl FnOnce(u32) -> ToRouter) -> Result<Option<Value>, String> {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let (done, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(number, done);
        let packet = question(number).encode();
        self.packets.send(&packet, &[]).map_err(|error| error.to_string())?;
        let Some(memory) = answer.await.map_err(|_| GONE.to_owned())?? else { return Ok(None) };
        let text = from_memory(Some(memory), MAX_TEXT).map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map(Some).map_err(|error| error.to_string())
    }

    /// What `/status` shows; null if the router does not answer.
    pub async fn status(&self) -> Value {
        self.ask(|number| ToRouter::Status { number }).await.ok().flatten().unwrap_or_default()
    }

    /// What applications do, by their names: the one of this name, or all.
    pub async fn pools(&self, name: Option<String>) -> Value {
        let asked = self.ask(|number| ToRouter::Pools { number, name });
        asked.await.ok().flatten().unwrap_or_default()
    }

    /// How the number of an application's processes came about; `None` if it does not run.
    pub async fn tuning(&self, name: String) -> Option<Value> {
        self.ask(|number| ToRouter::Tuning { number, name }).await.ok().flatten()
    }

    /// Replaces all processes of an application. `Err` says why there are no new ones; then the old
    /// ones go on.
    pub async fn restart(&self, name: String) -> Result<(), String> {
        self.ask(|number| ToRouter::Restart { number, name }).await.map(drop)
    }
}
