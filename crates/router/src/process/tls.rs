//! Prepares TLS for listeners and for connections to other servers.
//!
//! The supervisor reads the files, as keys usually belong to root. A listener with unchanged
//! settings keeps its sessions and only takes changed certificates.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_config::{Certificate, Config, Listener, Tls};
use howdah_routing::snapshot::Snapshot;
use howdah_tls::{
    CertificateFiles, Source, TlsClient, TlsClients, TlsListener, client_sources, sources,
};

use super::certificate_reload::stale;
use super::control_thread::ControlThread;
use super::out::PartKind;
use super::trigger::Trigger;
use crate::check;

/// TLS of listeners, by their names.
pub(super) type TlsListeners = HashMap<String, Arc<TlsListener>>;

/// The TLS of a listener that cannot be used.
struct Refused {
    /// The part of `tls` that has the problem, such as `/certificate/1`; empty for the whole.
    part: String,
    /// The problem, and the remedy.
    problem: String,
}

impl Refused {
    fn whole(problem: String) -> Refused {
        Refused { part: String::new(), problem }
    }
}

impl ControlThread {
    /// Prepares the TLS of listeners. The error names the listener, the problem and the remedy.
    pub(super) async fn prepare_tls_listeners(
        &mut self,
        current: &Snapshot,
        config: &Config,
        trigger: Trigger,
    ) -> Result<TlsListeners, String> {
        let mut listeners = TlsListeners::new();
        for listener in &config.listeners {
            let running = current.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let before = current.config.listeners.iter().find(|one| one.name == listener.name);
            let before = before.and_then(|before| before.tls.as_ref());
            let made = self.prepare_tls_listener(listener, running, before, trigger).await;
            let made = made.map_err(|Refused { part, problem }| {
                let place = check::place(listener);
                let of_site = self.pools.places.explain(&format!("{place}{part}"), &problem);
                of_site.unwrap_or_else(|| format!("{place}: {problem}"))
            });
            if let Some(made) = made? {
                listeners.insert(listener.name.clone(), made);
            }
        }
        Ok(listeners)
    }

    async fn prepare_tls_listener(
        &mut self,
        listener: &Listener,
        running: Option<&Arc<TlsListener>>,
        before: Option<&Tls>,
        trigger: Trigger,
    ) -> Result<Option<Arc<TlsListener>>, Refused> {
        let Some(settings) = &listener.tls else { return Ok(None) };
        self.stale_tls.retain(|one| (one.kind, &one.name) != (PartKind::Listener, &listener.name));
        for ca in check::authorities(settings) {
            // The file is read again when it is needed.
            if let Err(problem) = self.read_file(&ca.to_string_lossy()).await
                && !trigger.tolerates_new()
                && before.is_none_or(|before| before.acme != settings.acme)
            {
                return Err(Refused::whole(problem));
            }
        }
        let material = self.material(sources(settings)).await;
        if let Some(running) = running
            && running.has_settings(settings, &material)
        {
            running.renew(&material);
            return Ok(Some(Arc::clone(running)));
        }
        let made = match TlsListener::without_unusable(settings, &material) {
            Ok(made) => made,
            Err(problem) if trigger.tolerates_new() || before == Some(settings) => {
                if let Some(running) = running.filter(|_| before == Some(settings)) {
                    if running.closed_because().is_none() {
                        self.stale_tls.push(stale(PartKind::Listener, &listener.name, &problem));
                    }
                    return Ok(Some(Arc::clone(running)));
                }
                TlsListener::closed(settings, problem).map_err(Refused::whole)?
            }
            Err(problem) => return Err(Refused::whole(problem)),
        };
        let is_known = |certificate: &Certificate| {
            before.is_some_and(|before| before.certificates.contains(certificate))
        };
        if !trigger.tolerates_new()
            && let Some(new) =
                made.unusable().into_iter().find(|unusable| !is_known(&unusable.certificate))
        {
            let part = check::part(settings, &new.certificate);
            return Err(Refused { part, problem: new.problem });
        }
        if let Some(running) = running {
            made.take_earlier_of(running);
        }
        Ok(Some(Arc::new(made.take_counters_of(running))))
    }

    /// Prepares the TLS of connections to other servers. The error names the place in the document,
    /// the problem and the remedy.
    pub(super) async fn prepare_tls_clients(
        &mut self,
        current: &Snapshot,
        config: &Config,
        trigger: Trigger,
    ) -> Result<TlsClients, String> {
        let mut clients = TlsClients::new();
        for (name, settings) in config.upstream_tls() {
            if clients.contains_key(&settings) {
                continue;
            }
            self.stale_tls.retain(|one| (one.kind, &one.name) != (PartKind::Upstream, &name));
            let place = |problem: String| format!("{name}: {problem}");
            let material = self.material(client_sources(&settings)).await;
            let running = current.tls_clients.get(&settings);
            let client = match running.filter(|running| running.is_of(&settings, &material)) {
                Some(running) => Arc::clone(running),
                None => match TlsClient::new(&settings, &material) {
                    Ok(client) => Arc::new(client),
                    Err(problem) => match running {
                        Some(running) => {
                            if running.problem().is_none() {
                                self.stale_tls.push(stale(PartKind::Upstream, &name, &problem));
                            }
                            Arc::clone(running) // with the earlier files
                        }
                        None if trigger.tolerates_new() => {
                            Arc::new(TlsClient::unusable(&settings, problem))
                        }
                        None => return Err(place(problem)),
                    },
                },
            };
            clients.insert(settings, client);
        }
        Ok(clients)
    }

    /// Collects certificates and keys. Stored ones that do not exist are left out; files that
    /// cannot be read are recorded with the problem.
    pub(super) async fn material(&mut self, sources: Vec<Source>) -> CertificateFiles {
        let mut material = CertificateFiles::default();
        for source in sources {
            match &source {
                Source::Stored(name) => {
                    let stored = self.certificates.get(name).map(|pem| pem.to_vec());
                    stored.into_iter().for_each(|pem| material.add(source.clone(), pem));
                }
                Source::File(path) => match self.read_file(&path.to_string_lossy()).await {
                    Ok(text) => material.add(source, text),
                    Err(problem) => material.fail(source, problem),
                },
            }
        }
        material
    }
}
