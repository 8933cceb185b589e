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
use howdah_tls::challenge_answers::{ChallengeStore, OnDemandRequest};
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
        *context.configured.borrow_mut() = all.iter().map(|acme| (*acme).clone()).collect();
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
        let too_many = || {
            let count = context.managed.borrow().values().filter(|one| one.is_on_demand).count();
            let problem =
                format!("there are {count} certificates on demand already (on_demand/max)");
            (count >= on_demand.max as usize).then_some(problem)
        };
        let is_configured = || context.configured.borrow().contains(acme);
        let was_configured = is_configured();
        let problem = match too_many() {
            Some(problem) => problem,
            None if context.certificate(stored_name).is_some() => return true,
            None => match context.on_demand.approves(on_demand, name).await {
                Ok(false) => return false,
                // While the endpoint was asked, another connection may have started the task, the
                // configuration may have changed, and other names may have been approved.
                Ok(true) if context.managed.borrow().contains_key(stored_name) => return true,
                Ok(true) if was_configured && !is_configured() => return false,
                Ok(true) => match too_many() {
                    Some(problem) => problem,
                    None => return true,
                },
                Err(problem) => format!("on_demand/ask: {problem}"),
            },
        };
        context.on_demand.refuse(name, UNDECIDED_BACKOFF, Instant::now());
        if context.on_demand.may_log(Instant::now()) {
            context.log(Level::Error, stored_name, &problem);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;

    /// An endpoint that approves all names, once it was asked for all of them.
    struct Endpoint {
        listener: TcpListener,
        asked: Vec<tokio::net::TcpStream>,
    }

    impl Endpoint {
        async fn is_asked(&mut self, count: usize) {
            while self.asked.len() < count {
                let (mut stream, _) = self.listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                self.asked.push(stream);
            }
        }

        async fn approves(&mut self) {
            for mut stream in self.asked.drain(..) {
                let approval = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(approval).await.unwrap();
            }
        }
    }

    /// Lets connections ask for these names at the same time, and calls `meanwhile` before the
    /// endpoint approves them. Returns the names that are ordered then; at most one may be.
    fn ordered(names: &[&str], meanwhile: impl FnOnce(&mut Renewer)) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let ask = format!("http://{}/", listener.local_addr().unwrap());
            let mut endpoint = Endpoint { listener, asked: Vec::new() };
            let config =
                config(&format!(r#"{{"acme": {{"on_demand": {{"ask": "{ask}", "max": 1}}}}}}"#));
            let acme = configured(&config).next().unwrap().clone();
            let (challenges, requests) = ChallengeStore::new();
            let log = Arc::new(Log::new(File::create("/dev/null").unwrap().into()));
            let mut renewer = Renewer::new(
                challenges,
                Commands::new(|_| {}),
                log,
                AcmeReports::default(),
                Certificates::default(),
                requests,
            );
            drop(renewer.hold()); // no order begins
            renewer.follow(&config);
            let connections: Vec<_> = names
                .iter()
                .map(|name| {
                    let (tasks, (done, _)) = (renewer.tasks.clone(), oneshot::channel());
                    let request =
                        OnDemandRequest { name: (*name).to_owned(), acme: acme.clone(), done };
                    tokio::task::spawn_local(async move { tasks.issue_on_demand(request).await })
                })
                .collect();
            endpoint.is_asked(names.len()).await;
            meanwhile(&mut renewer);
            endpoint.approves().await;
            for connection in connections {
                connection.await.unwrap();
            }
            renewer.tasks.context.managed.borrow().keys().cloned().collect()
        })
    }

    fn config(tls: &str) -> Config {
        let text = format!(
            r#"{{"listeners": {{"*:443": {{"pass": "routes", "tls": {tls}}}}}, "routes": []}}"#
        );
        howdah_config::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn names_that_are_approved_at_the_same_time_do_not_exceed_the_maximum() {
        assert_eq!(ordered(&["a.example.com", "b.example.com"], |_| {}).len(), 1);
        let same = ["a.example.com", "a.example.com"];
        assert_eq!(ordered(&same, |_| {}), [Acme::certificate_for("a.example.com")]);
    }

    #[test]
    fn a_name_that_is_approved_after_the_settings_were_removed_is_not_ordered() {
        let removed = |renewer: &mut Renewer| renewer.follow(&config(r#"{"certificate": "a"}"#));
        assert_eq!(ordered(&["a.example.com"], removed), [""; 0]);
    }
}
