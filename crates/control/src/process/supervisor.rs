//! The socket to the supervisor: changes, one at a time.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use howdah_sys::packets::{Packets, from_memory, to_memory};
use howdah_wire::messages::{ChangeOutcome, FromControl, Restart, ToControl};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use super::limits::{MAX_TEXT, STOPPING};

/// Maximum time for the look-up of users.
const USERS_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the list of users, in bytes.
const MAX_USERS: u64 = 4 << 20;

/// An answer with its descriptors.
type Answer = (ToControl, Vec<OwnedFd>);

/// The socket to the supervisor.
#[derive(Debug)]
pub struct Supervisor {
    packets: Packets,
    /// Held while a question is unanswered.
    asking: Mutex<()>,
    waiting: RefCell<Option<oneshot::Sender<Answer>>>,
    /// Waits for the users that applications name.
    waiting_for_users: RefCell<Option<oneshot::Sender<Result<String, String>>>>,
    upgrade: Upgrade,
}

/// The upgrade of the server.
#[derive(Debug, Default)]
struct Upgrade {
    is_in_progress: Cell<bool>,
    waiting: RefCell<Vec<oneshot::Sender<Result<Upgraded, String>>>>,
}

/// The process that has replaced the server.
#[derive(Debug, Clone)]
pub struct Upgraded {
    /// Its process id.
    pub pid: u32,
    /// Version of its program.
    pub version: String,
}

/// Failure of a change.
pub enum Failed {
    /// The reason.
    Because(String),
    /// An upgrade is in progress.
    Upgrading,
}

impl Supervisor {
    /// Takes over the socket.
    pub fn new(packets: Packets) -> Self {
        Supervisor {
            packets,
            asking: Mutex::default(),
            waiting: RefCell::default(),
            waiting_for_users: RefCell::default(),
            upgrade: Upgrade::default(),
        }
    }

    /// Receives the next message.
    pub async fn receive(&self) -> std::io::Result<Answer> {
        let gone = || std::io::Error::other("the supervisor has ended");
        let (packet, descriptors) = self.packets.receive().await?.ok_or_else(gone)?;
        let message = ToControl::decode(&packet)
            .map_err(|_| std::io::Error::other("the supervisor sent a malformed message"))?;
        Ok((message, descriptors))
    }

    /// Returns true if an upgrade is in progress, or has replaced the server.
    pub fn is_upgrading(&self) -> bool {
        self.upgrade.is_in_progress.get()
    }

    /// Records that an upgrade has begun.
    pub fn upgrade_begun(&self) {
        self.upgrade.is_in_progress.set(true);
    }

    /// Records the end of an upgrade. After success changes are still refused: this process serves
    /// the server that was replaced.
    pub fn upgrade_ended(&self, outcome: &Result<Upgraded, String>) {
        self.upgrade.is_in_progress.set(outcome.is_ok());
        for waiting in self.upgrade.waiting.take() {
            let _ = waiting.send(outcome.clone());
        }
    }

    /// Replaces the server. Error: the reason why it was not replaced.
    pub async fn upgrade(&self) -> Result<Upgraded, String> {
        let (done, ended) = oneshot::channel();
        self.upgrade.waiting.borrow_mut().push(done);
        self.tell(&FromControl::Upgrade {}).map_err(|error| error.to_string())?;
        ended.await.map_err(|_| STOPPING.to_owned())?
    }

    /// Passes an answer to the waiting question, if there is one.
    pub fn answered(&self, answer: ToControl, descriptors: Vec<OwnedFd>) {
        if let Some(waiting) = self.waiting.borrow_mut().take() {
            let _ = waiting.send((answer, descriptors));
        }
    }

    /// Looks up the users that applications of the running document name: lines of id, tab and name.
    /// One question at a time. Error: the reason why they are not known.
    pub async fn find_users(&self) -> Result<String, String> {
        let (done, answer) = oneshot::channel();
        *self.waiting_for_users.borrow_mut() = Some(done);
        self.tell(&FromControl::FindUsers {}).map_err(|error| error.to_string())?;
        let answer = timeout(USERS_TIMEOUT, answer).await;
        answer.map_err(|_| "the source of users does not answer")?.map_err(|_| STOPPING)?
    }

    /// Passes the users that were found to the question that waits for them.
    pub fn users_found(&self, error: String, descriptors: Vec<OwnedFd>) {
        let Some(waiting) = self.waiting_for_users.borrow_mut().take() else { return };
        let read = || {
            let lines = from_memory(descriptors.into_iter().next(), MAX_USERS)?;
            String::from_utf8(lines).map_err(std::io::Error::other)
        };
        let found = if error.is_empty() { read().map_err(|it| it.to_string()) } else { Err(error) };
        let _ = waiting.send(found);
    }

    /// Sends a message that has no answer.
    pub fn tell(&self, message: &FromControl) -> std::io::Result<()> {
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
        answer.await.map_err(|_| STOPPING.to_owned())
    }

    /// Applies a configuration and stores it, and restarts applications that it has not changed.
    pub async fn apply(&self, document: &[u8], restart: Restart) -> ChangeOutcome {
        let asked = async {
            let memory = to_memory(document).map_err(|error| error.to_string())?;
            self.ask(&FromControl::Apply { restart }, &[memory.as_fd()]).await
        };
        match asked.await {
            Ok((ToControl::Applied { outcome }, _)) => outcome,
            Ok(_) => ChangeOutcome::NotApplied(STOPPING.to_owned()),
            Err(problem) => ChangeOutcome::NotApplied(problem),
        }
    }

    /// Another change waits for the one that is being made.
    pub fn hurry(&self) {
        // A supervisor that has ended is noticed elsewhere.
        let _ = self.tell(&FromControl::Hurry {});
    }

    /// Reads the configuration again from its source at the start of the server. Error: the reason
    /// why it cannot be read. With `tables`, reads only the tables of the running configuration.
    pub async fn read_document(&self, tables: bool) -> Result<Vec<u8>, String> {
        document_read(self.ask(&FromControl::ReadDocument { tables }, &[]).await?)
    }

    /// Compiles the sites of a document that names no files. Error: the mistakes.
    pub async fn compile_document(&self, document: &[u8]) -> Result<Vec<u8>, String> {
        let memory = to_memory(document).map_err(|error| error.to_string())?;
        document_read(self.ask(&FromControl::CompileDocument {}, &[memory.as_fd()]).await?)
    }

    /// Stores a valid certificate bundle (PEM). Error: the reason why it is not stored.
    pub async fn store_certificate(&self, name: String, pem: &[u8]) -> Result<(), Failed> {
        let memory = to_memory(pem).map_err(|error| Failed::Because(error.to_string()))?;
        let store = FromControl::StoreCertificate { name };
        stored(self.ask(&store, &[memory.as_fd()]).await)
    }

    /// Deletes a certificate bundle. Error: the reason why it is not deleted.
    pub async fn delete_certificate(&self, name: String) -> Result<(), Failed> {
        stored(self.ask(&FromControl::DeleteCertificate { name }, &[]).await)
    }
}

/// Returns the document of an answer.
fn document_read(answer: Answer) -> Result<Vec<u8>, String> {
    match answer {
        (ToControl::DocumentRead { error }, descriptors) if error.is_empty() => {
            let read = from_memory(descriptors.into_iter().next(), MAX_TEXT);
            read.map_err(|error| error.to_string())
        }
        (ToControl::DocumentRead { error }, _) => Err(error),
        _ => Err(STOPPING.to_owned()),
    }
}

fn stored(answer: Result<Answer, String>) -> Result<(), Failed> {
    match answer.map_err(Failed::Because)?.0 {
        ToControl::Stored { is_upgrading: true, .. } => Err(Failed::Upgrading),
        ToControl::Stored { error, .. } if error.is_empty() => Ok(()),
        ToControl::Stored { error, .. } => Err(Failed::Because(error)),
        _ => Err(Failed::Because(STOPPING.to_owned())),
    }
}
