//! State that the tasks of all certificates share.
//!
//! The supervisor stores texts on the disk; the tasks send it their requests through [`Commands`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use howdah_config::Acme;
use howdah_sys::log::{Level, Log};
use howdah_tls::challenge_answers::ChallengeStore;
use howdah_tls::stored::Certificates;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::certificate::IssuedCertificate;
use super::commands::{Commands, Run};
use super::gate::Gate;
use super::on_demand::OnDemandPolicy;
use super::status::AcmeReports;

/// Maximum number of simultaneous orders.
const MAX_CONCURRENT_ORDERS: usize = 4;

/// Shared state of the renewal tasks.
pub(super) struct RenewalContext {
    pub challenges: Arc<ChallengeStore>,
    pub commands: Commands,
    pub reports: AcmeReports,
    pub on_demand: OnDemandPolicy,
    pub order_permits: Semaphore,
    pub gate: Gate,
    /// Managed certificates by their names in the store.
    pub managed: RefCell<HashMap<String, ManagedCertificate>>,
    /// ACME settings of the current configuration.
    pub configured: RefCell<Vec<Acme>>,
    log: Arc<Log>,
    /// Stored certificates and accounts. Only the tasks change those that they manage.
    store: RefCell<Certificates>,
}

/// A certificate with a renewal task.
pub(super) struct ManagedCertificate {
    pub settings: Acme,
    pub task: JoinHandle<()>,
    /// Ends the task's sleep.
    pub wake: Rc<Notify>,
    /// Connections that wait for the first certificate.
    pub waiting: Vec<oneshot::Sender<()>>,
    pub is_on_demand: bool,
}

impl RenewalContext {
    pub fn new(
        challenges: Arc<ChallengeStore>,
        commands: Commands,
        log: Arc<Log>,
        reports: AcmeReports,
        store: Certificates,
    ) -> Self {
        RenewalContext {
            challenges,
            commands,
            reports,
            on_demand: OnDemandPolicy::new(),
            order_permits: Semaphore::new(MAX_CONCURRENT_ORDERS),
            gate: Gate::default(),
            managed: RefCell::default(),
            configured: RefCell::default(),
            log,
            store: RefCell::new(store),
        }
    }

    /// Returns the stored text of this name.
    pub fn stored(&self, name: &str) -> Option<Arc<[u8]>> {
        self.store.borrow().get(name).cloned()
    }

    /// Returns the stored certificate of this name; `None` also if it cannot be parsed.
    pub fn certificate(&self, name: &str) -> Option<IssuedCertificate> {
        self.stored(name).and_then(|pem| IssuedCertificate::parse(&pem).ok())
    }

    /// Uses and stores a text. If storing fails, the text is used until the server stops.
    pub async fn store(&self, name: &str, text: Vec<u8>) {
        self.store.borrow_mut().insert(name.to_owned(), text.as_slice().into());
        if let Err(problem) = self.commands.keep_certificate(name.to_owned(), text).await {
            let line = format!("it cannot be stored, and is lost at the next start: {problem}");
            self.log(Level::Alert, name, &line);
        }
    }

    /// Removes the stored text of this name from use.
    pub fn forget(&self, name: &str) {
        self.store.borrow_mut().remove(name);
    }

    /// Reads a file with the supervisor's rights.
    pub async fn read_file(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.commands.read_file(path.to_string_lossy().into_owned()).await
    }

    /// Runs a program and waits for its end.
    pub async fn run(&self, run: Run) -> Result<(), String> {
        self.commands.run(run).await
    }

    /// Runs a program and logs its failure.
    pub fn run_in_background(&self, run: Run) {
        let (commands, log) = (self.commands.clone(), Arc::clone(&self.log));
        tokio::task::spawn_local(async move {
            let program = run.program.clone();
            if let Err(problem) = commands.run(run).await {
                log.write(Level::Error, format_args!("{program}: {problem}"));
            }
        });
    }

    /// Logs a message about the certificate or account of this name.
    pub fn log(&self, level: Level, name: &str, message: &str) {
        self.log.write(level, format_args!("certificate {name}: {message}"));
    }
}
