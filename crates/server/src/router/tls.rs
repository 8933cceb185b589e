//! Prepares TLS for listeners and for connections to other servers.
//!
//! The supervisor reads the files, as keys usually belong to root. A listener with unchanged
//! settings keeps its sessions and only takes changed certificates.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_config::{Config, Listener};
use howdah_tls::{
    CertificateFiles, Source, TlsClient, TlsClients, TlsListener, client_sources, sources,
};

use super::control_thread::ControlThread;
use crate::check;
use crate::snapshot::Snapshot;

/// TLS of listeners, by their names.
pub(super) type TlsListeners = HashMap<String, Arc<TlsListener>>;

impl ControlThread {
    /// Prepares the TLS of listeners. The error names the listener, the problem and what to do.
    pub(super) async fn prepare_tls_listeners(
        &mut self,
        current: &Snapshot,
        config: &Config,
    ) -> Result<TlsListeners, String> {
        let mut listeners = TlsListeners::new();
        for listener in &config.listeners {
            let running = current.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let place = |problem: String| format!("{}: {problem}", check::place(listener));
            if let Some(made) = self.prepare_tls_listener(listener, running).await.map_err(place)? {
                listeners.insert(listener.name.clone(), made);
            }
        }
        Ok(listeners)
    }

    async fn prepare_tls_listener(
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
            && running.has_settings(settings, &material)
        {
            running.renew(&material)?;
            return Ok(Some(Arc::clone(running)));
        }
        let made = TlsListener::new(settings, &material)?;
        Ok(Some(Arc::new(made.take_counters_of(running))))
    }

    /// Prepares the TLS of connections to other servers. The error names the place in the document,
    /// the problem and what to do.
    pub(super) async fn prepare_tls_clients(
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

    /// Collects certificates and keys. Stored ones that do not exist are left out.
    pub(super) async fn material(
        &mut self,
        sources: Vec<Source>,
    ) -> Result<CertificateFiles, String> {
        let mut material = CertificateFiles::default();
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
}
