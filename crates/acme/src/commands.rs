//! Requests of certificate renewal to the router. The control thread executes them in order,
//! together with those of the control API.

use std::fmt;
use std::rc::Rc;

use tokio::sync::oneshot;

/// A request and the channel for its result.
#[derive(Debug)]
pub enum Command {
    /// Use and store a certificate or an account.
    KeepCertificate {
        /// Name in the certificate store.
        name: String,
        /// Text in PEM.
        pem: Secret,
        /// Error: the reason why the text is not stored. It is used nevertheless.
        done: oneshot::Sender<Result<(), String>>,
    },
    /// Give listeners a stored on-demand certificate.
    UseCertificate {
        /// Name in the certificate store.
        name: String,
        /// Completed when the listeners have it.
        done: oneshot::Sender<()>,
    },
    /// Read a file that only the supervisor may read.
    ReadFile {
        /// Path.
        path: String,
        /// Content, or the reason why it cannot be read.
        done: oneshot::Sender<Result<Vec<u8>, String>>,
    },
    /// Run a configured program to its end.
    Run {
        /// The program and its arguments.
        run: Run,
        /// Error: the reason why it failed.
        done: oneshot::Sender<Result<(), String>>,
    },
}

/// A run of the configured DNS program (`dns.program`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Path of the program.
    pub program: String,
    /// Arguments, without the program's name.
    pub arguments: Vec<String>,
    /// Environment variables: names and values.
    pub environment: Vec<(String, String)>,
    /// Timeout in milliseconds.
    pub timeout_ms: u64,
}

/// A text that `Debug` does not show.
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Sends commands to the control thread.
#[derive(Clone)]
pub struct Commands(Rc<dyn Fn(Command)>);

const GONE: &str = "the server is being stopped";

impl Commands {
    /// Creates the sender. `send` queues a command; it drops the command while the server stops.
    pub fn new(send: impl Fn(Command) + 'static) -> Self {
        Commands(Rc::new(send))
    }

    /// Sends [`Command::KeepCertificate`].
    pub(super) async fn keep_certificate(&self, name: String, pem: Vec<u8>) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        (self.0)(Command::KeepCertificate { name, pem: Secret(pem), done });
        outcome.await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }

    /// Sends [`Command::UseCertificate`].
    pub(super) async fn use_certificate(&self, name: String) {
        let (done, outcome) = oneshot::channel();
        (self.0)(Command::UseCertificate { name, done });
        let _ = outcome.await;
    }

    /// Sends [`Command::ReadFile`].
    pub(super) async fn read_file(&self, path: String) -> Result<Vec<u8>, String> {
        let (done, outcome) = oneshot::channel();
        (self.0)(Command::ReadFile { path, done });
        outcome.await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }

    /// Sends [`Command::Run`].
    pub(super) async fn run(&self, run: Run) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        (self.0)(Command::Run { run, done });
        outcome.await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }
}
