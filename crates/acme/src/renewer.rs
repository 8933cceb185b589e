//! Manages one renewal task for each certificate that the configuration names or a connection
//! needs.
//!
//! The tasks run on the control thread, and yield to each other wherever they wait.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::{Acme, Config};
use howdah_sys::log::{Level, Log};
use howdah_tls::challenges::{ChallengeStore, OnDemandRequest};
use howdah_tls::stored::Certificates;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Notify, oneshot};

use super::accounts::Accounts;
use super::commands::Commands;
use super::context::{ManagedCertificate, RenewalContext};
use super::on_demand::is_public_name;
use super::renewal::Renewal;
use super::status::AcmeReports;

/// Time for which a name is refused if `on_demand.ask` fails or `on_demand.max` is reached.
const UNDECIDED_BACKOFF: Duration = Duration::from_secs(5);

/// Starts and stops renewal tasks.
pub struct Renewer {
    tasks: Tasks,
}

#[derive(Clone)]
struct Tasks {
    context: Rc<RenewalContext>,
    accounts: Rc<Accounts>,
}

impl Renewer {
    /// Creates the renewer. `requests` has the names without a certificate that connections ask
    /// for.
    pub fn new(
        challenges: Arc<ChallengeStore>,
        commands: Commands,
        log: Arc<Log>,
        reports: AcmeReports,
        certificates: Certificates,
        mut requests: Receiver<OnDemandRequest>,
    ) -> Self {
        let context = RenewalContext::new(challenges, commands, log, reports, certificates);
        let tasks = Tasks { context: Rc::new(context), accounts: Rc::default() };
        let on_demand = tasks.clone();
        tokio::task::spawn_local(async move {
            while let Some(request) = requests.recv().await {
                let tasks = on_demand.clone();
                tokio::task::spawn_local(async move { tasks.issue_on_demand(request).await });
            }
        });
        Renewer { tasks }
    }

    /// Lets no order begin until [`Renewer::release`]. The future waits until none is in progress.
    pub fn hold(&self) -> impl Future<Output = ()> + use<> {
        let gate = self.tasks.context.gate.clone();
        gate.close();
        async move { gate.idle().await }
    }

    /// Lets orders begin again.
    pub fn release(&self) {
        self.tasks.context.gate.open();
    }

    /// Starts and stops tasks as the new configuration requires. An unchanged configuration makes
    /// all tasks try again immediately.
    pub fn follow(&mut self, config: &Config) {
        let all: Vec<&Acme> = configured(config).collect();
        let context = &self.tasks.context;
        let mut removed = Vec::new();
        context.managed.borrow_mut().retain(|name, managed| {
            let stays = all.iter().any(|acme| {
                let is_named = managed.is_on_demand || acme.certificate().as_ref() == Some(name);
                is_named && **acme == managed.settings
            });
            if !stays {
                managed.task.abort();
                removed.push(name.clone());
            }
            stays
        });
        removed.iter().for_each(|name| context.reports.remove(name));
        // Several listeners may name a certificate, such as those of IPv4 and IPv6.
        let mut followed = HashSet::new();
        for acme in all {
            let Some(name) = acme.certificate() else { continue };
            if !followed.insert(name.clone()) {
                continue;
            }
            if let Some(managed) = context.managed.borrow().get(&name) {
                managed.wake.notify_one();
                continue;
            }
            self.tasks.start(name, acme, acme.domains.clone(), None);
        }
    }
}

fn configured(config: &Config) -> impl Iterator<Item = &Acme> {
    config.listeners.iter().filter_map(|listener| listener.tls.as_ref()).flat_map(|tls| &tls.acme)
}

impl Tasks {
    /// Starts the task of a certificate; it is on demand if a connection waits for it.
    fn start(
        &self,
        name: String,
        acme: &Acme,
        domains: Vec<String>,
        waiting: Option<oneshot::Sender<()>>,
    ) {
        let (wake, is_on_demand) = (Rc::new(Notify::new()), waiting.is_some());
        let renewal = Renewal {
            context: Rc::clone(&self.context),
            accounts: Rc::clone(&self.accounts),
            name: name.clone(),
            acme: acme.clone(),
            domains,
            wake: Rc::clone(&wake),
            is_on_demand,
        };
        let managed = ManagedCertificate {
            settings: acme.clone(),
            task: tokio::task::spawn_local(renewal.run()),
            wake,
            waiting: waiting.into_iter().collect(),
            is_on_demand,
        };
        self.context.managed.borrow_mut().insert(name, managed);
    }

    /// Serves a connection that asks for a name without a certificate:
    ///
    /// 1. Refuse names that are not public, and names that were refused recently.
    /// 2. If the certificate is being ordered, wait for it like other connections.
    /// 3. If the certificate is stored, hand it to the listeners.
    /// 4. Otherwise check `on_demand.max` and `on_demand.ask`, and start the renewal task.
    async fn issue_on_demand(&self, request: OnDemandRequest) {
        let OnDemandRequest { name, acme, done } = request;
        let (context, now) = (&self.context, Instant::now());
        if acme.on_demand.is_none()
            || !is_public_name(&name)
            || context.on_demand.is_refused(&name, now)
        {
            return;
        }
        let stored_name = Acme::certificate_for(&name);
        let is_managed = context.managed.borrow().contains_key(&stored_name);
        if !is_managed && !self.may_manage(&acme, &name, &stored_name).await {
            return;
        }
        // Another connection may have started the task meanwhile.
        let is_issued = context.certificate(&stored_name).is_some();
        if let Some(managed) = context.managed.borrow_mut().get_mut(&stored_name) {
            if !is_issued {
                managed.waiting.push(done);
                return;
            }
        } else if !is_issued {
            return self.start(stored_name, &acme, vec![name], Some(done));
        } else {
            let (no_connection, _) = oneshot::channel();
            self.start(stored_name.clone(), &acme, vec![name], Some(no_connection));
        }
        // The certificate is stored, but the listener does not have it yet.
        context.commands.use_certificate(stored_name).await;
        let _ = done.send(());
    }

    /// Returns true if an on-demand certificate may be managed from now on. A stored one was
    /// approved before; its task asks again before it renews.
    async fn may_manage(&self, acme: &Acme, name: &str, stored_name: &str) -> bool {
        let (context, Some(on_demand)) = (&self.context, &acme.on_demand) else { return false };
        let count = context.managed.borrow().values().filter(|one| one.is_on_demand).count();
        let problem = if count >= on_demand.max as usize {
            format!("there are {count} certificates on demand already (on_demand/max)")
        } else if context.certificate(stored_name).is_some() {
            return true;
        } else {
            match context.on_demand.approves(on_demand, name).await {
                Ok(is_approved) => return is_approved,
                Err(problem) => format!("on_demand/ask: {problem}"),
            }
        };
        context.on_demand.refuse(name, UNDECIDED_BACKOFF, Instant::now());
        if context.on_demand.may_log(Instant::now()) {
            context.log(Level::Error, stored_name, &problem);
        }
        false
    }
}
