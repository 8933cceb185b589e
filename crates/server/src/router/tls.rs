//! What TLS listeners need, made ready before a configuration becomes the running one.
//!
//! Files are read by the supervisor, as keys usually belong to root. A listener whose settings are
//! the same stays, with its sessions, and only takes certificates that have changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::{Acme, Certificate, Config, Listener, UpstreamTls};
use howdah_sys::log::Level;
use howdah_tls::{Material, Source, TlsClient, TlsClients, TlsListener, client_sources, sources};

use super::apply::{Occasion, Parts};
use crate::check;
use crate::snapshot::Snapshot;
use crate::thread::Shared;

/// The TLS of listeners, by their names.
pub(super) type TlsListeners = HashMap<String, Arc<TlsListener>>;

/// When the files of listeners are looked at again, and what was wrong with them the last time.
pub(super) struct Watch {
    due: Instant,
    reported: HashSet<String>,
}

/// How often the files of listeners are looked at.
const PERIOD: Duration = Duration::from_secs(5);

impl Watch {
    pub fn new() -> Self {
        Watch { due: Instant::now() + PERIOD, reported: HashSet::new() }
    }

    /// Waits until it is time to look again, if any running listener has files.
    pub async fn wait(&mut self, shared: &Shared) {
        let has_files = |listener: &Listener| {
            let sources = listener.tls.as_ref().map(sources).unwrap_or_default();
            sources.iter().any(|source| matches!(source, Source::File(_)))
        };
        let snapshot = shared.snapshot.load();
        let has_own =
            snapshot.tls_clients.keys().any(|settings| watched(settings).next().is_some());
        if !has_own && !snapshot.config.listeners.iter().any(has_files) {
            drop(snapshot);
            return std::future::pending().await;
        }
        drop(snapshot);
        tokio::time::sleep_until(self.due.into()).await;
        self.due = Instant::now() + PERIOD;
    }
}

impl Parts<'_> {
    /// `Err` names the listener, what is wrong and what to do.
    pub(super) async fn prepare_tls(
        &mut self,
        current: &Snapshot,
        config: &Config,
    ) -> Result<TlsListeners, String> {
        let mut listeners = TlsListeners::new();
        for listener in &config.listeners {
            let running = current.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let place = |problem: String| format!("{}: {problem}", check::place(listener));
            if let Some(made) = self.prepare_one(listener, running).await.map_err(place)? {
                listeners.insert(listener.name.clone(), made);
            }
        }
        Ok(listeners)
    }

    async fn prepare_one(
        &mut self,
        listener: &Listener,
        running: Option<&Arc<TlsListener>>,
    ) -> Result<Option<Arc<TlsListener>>, String> {
        let Some(settings) = &listener.tls else { return Ok(None) };
        for ca in check::authorities(settings) {
            self.read_file(&ca.to_string_lossy()).await?; // it is read again when it is needed
        }
        let material = self.material(sources(settings)).await?;
        if let Some(running) = running
            && running.is_of(settings, &material)
        {
            running.renew(&material)?;
            return Ok(Some(Arc::clone(running)));
        }
        let made = TlsListener::new(settings, &material)?;
        Ok(Some(Arc::new(made.in_place_of(running))))
    }

    /// Makes ready how TLS is spoken with other servers. `Err` names the place, what is wrong and
    /// what to do.
    pub(super) async fn prepare_clients(
        &mut self,
        current: &Snapshot,
        config: &Config,
    ) -> Result<TlsClients, String> {
        let mut clients = TlsClients::new();
        for (place, settings) in config.upstream_tls() {
            if clients.contains_key(&settings) {
                continue;
            }
            let place = |problem: String| format!("{place}: {problem}");
            let material = self.material(client_sources(&settings)).await.map_err(place)?;
            let running = current.tls_clients.get(&settings);
            let client = match running.filter(|running| running.is_of(&settings, &material)) {
                Some(running) => Arc::clone(running),
                None => Arc::new(TlsClient::new(&settings, &material).map_err(place)?),
            };
            clients.insert(settings, client);
        }
        Ok(clients)
    }

    /// The texts that are needed, as far as they are there.
    async fn material(&mut self, sources: Vec<Source>) -> Result<Material, String> {
        let mut material = Material::default();
        for source in sources {
            let text = match &source {
                Source::Stored(name) => self.certificates.get(name).map(|pem| pem.to_vec()),
                Source::File(path) => Some(self.read_file(&path.to_string_lossy()).await?),
            };
            if let Some(text) = text {
                material.add(source, text);
            }
        }
        Ok(material)
    }

    /// Gives the listeners that use it a certificate that has changed in the store.
    pub(super) async fn renew_stored(&mut self, name: &str) {
        let shared = Arc::clone(self.shared);
        let snapshot = shared.snapshot.load_full();
        for listener in &snapshot.config.listeners {
            let running = snapshot.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let (Some(running), Some(settings)) = (running, &listener.tls) else { continue };
            let is_used = sources(settings).contains(&Source::Stored(name.to_owned()));
            let on_demand = settings.acme.iter().any(|acme| acme.on_demand.is_some());
            let renewed = match self.certificates.get(name).cloned() {
                _ if is_used => match self.material(sources(settings)).await {
                    Ok(material) => running.renew(&material).map(|_| ()),
                    Err(problem) => Err(problem),
                },
                Some(pem) if on_demand && name.starts_with(Acme::PREFIX) => running.add(&pem),
                _ => Ok(()),
            };
            if let Err(problem) = renewed {
                shared.log.write(
                    Level::Alert,
                    format_args!(
                        "listener {}: {problem}; the old certificates stay",
                        listener.name
                    ),
                );
            }
        }
    }

    /// Takes what has changed in the files of listeners. What cannot be read or does not fit
    /// together leaves the old certificates in use, and is reported once.
    pub(super) async fn renew_tls(mut self, watch: &mut Watch) {
        let shared = Arc::clone(self.shared);
        let snapshot = shared.snapshot.load_full();
        let mut outdated = false;
        let mut problems = HashSet::new();
        for listener in &snapshot.config.listeners {
            let running = snapshot.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let (Some(running), Some(settings)) = (running, &listener.tls) else { continue };
            if !sources(settings).iter().any(|source| matches!(source, Source::File(_))) {
                continue;
            }
            let renewed = match self.material(sources(settings)).await {
                Ok(material) if running.is_of(settings, &material) => running.renew(&material),
                // With other authorities for clients it is another listener.
                Ok(material) => TlsListener::new(settings, &material).map(|_| {
                    outdated = true;
                    false
                }),
                Err(problem) => Err(problem),
            };
            match renewed {
                Ok(true) => shared.log.write(
                    Level::Notice,
                    format_args!("listener {}: new certificates are in use", listener.name),
                ),
                Ok(false) => {}
                Err(problem) => {
                    let name = &listener.name;
                    problems
                        .insert(format!("listener {name}: {problem}; the old certificates stay"));
                }
            }
        }
        for (settings, running) in &snapshot.tls_clients {
            if watched(settings).next().is_none() {
                continue;
            }
            let material = self.material(client_sources(settings)).await;
            match material.and_then(|material| match running.is_of(settings, &material) {
                true => Ok(false),
                false => TlsClient::new(settings, &material).map(|_| true),
            }) {
                Ok(is_new) => outdated |= is_new,
                Err(problem) => {
                    problems.insert(format!("{problem}; servers are still known by the old one"));
                }
            }
        }
        if outdated
            && let Err(problem) = self.apply(snapshot.config.clone(), Occasion::Renewal).await
        {
            problems.insert(format!("new certificates are not in use: {problem}"));
        }
        for problem in problems.difference(&watch.reported) {
            shared.log.write(Level::Alert, format_args!("{problem}"));
        }
        watch.reported = problems;
    }
}

/// The files of settings for other servers that are looked at again. Those that the system trusts
/// change with its packages, and count from the next change of the configuration.
fn watched(settings: &UpstreamTls) -> impl Iterator<Item = Source> {
    let own = settings.authorities.is_some();
    let own = own || matches!(settings.certificate, Some(Certificate::Files { .. }));
    client_sources(settings).into_iter().filter(move |_| own)
}
