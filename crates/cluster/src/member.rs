//! This server as a member of a cluster: follows the configuration, and has a thread for its
//! connections while it names a server.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::rand;
use howdah_cache::peers::Peers;
use howdah_cache::store::Store;
use howdah_config::{self as config, Settings};
use howdah_questions::ClusterStatus;
use howdah_sys::log::{Level, Log};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::connect::Connector;
use crate::counting::Counting;
use crate::receiving::Receiving;
use crate::state::State;

/// This server's part of a cluster.
#[derive(Debug)]
pub struct Cluster {
    log: Arc<Log>,
    member: ArcSwapOption<Member>,
}

/// The part under one configuration of the cluster.
#[derive(Debug)]
struct Member {
    settings: config::Cluster,
    counting: Arc<Counting>,
    receiving: Arc<Receiving>,
    /// The thread ends when this is dropped.
    _running: oneshot::Sender<()>,
}

impl Cluster {
    /// Creates a server that is alone.
    pub fn new(log: Arc<Log>) -> Cluster {
        Cluster { log, member: ArcSwapOption::empty() }
    }

    /// Takes over the settings and stores of a configuration that becomes the current one.
    pub fn follow(&self, settings: &Settings, stores: &HashMap<String, Arc<Store>>) {
        let current = self.member.load_full();
        let member = match &settings.cluster {
            None => None,
            Some(wanted) => match &current {
                Some(current) if current.settings == *wanted => Some(Arc::clone(current)),
                _ => self.start(wanted.clone(), settings).map(Arc::new),
            },
        };
        for store in stores.values() {
            store.set_peers(
                member.as_ref().map(|member| Arc::clone(&member.counting) as Arc<dyn Peers>),
            );
        }
        // Stores use the new one from here on. Messages that the old one has not sent yet must not
        // be lost.
        if let (Some(old), Some(new)) = (&current, &member)
            && !Arc::ptr_eq(old, new)
        {
            new.counting.take_purges_of(&old.counting);
        }
        if let Some(member) = &member {
            let stores = stores.iter().map(|(name, store)| (name.clone(), Arc::downgrade(store)));
            member.receiving.stores.store(Arc::new(stores.collect()));
        }
        self.member.store(member);
    }

    /// Returns the counting of requests of all servers together; `None` if this server is alone.
    pub fn counting(&self) -> Option<Arc<Counting>> {
        self.member.load().as_ref().map(|member| Arc::clone(&member.counting))
    }

    /// Returns the state of the connection, if the configuration names a server.
    pub fn report(&self) -> Option<ClusterStatus> {
        self.counting().map(|counting| counting.report())
    }

    fn start(&self, wanted: config::Cluster, settings: &Settings) -> Option<Member> {
        let started = self.try_start(wanted, settings);
        let problem = |error: &io::Error| {
            let line = format_args!("cluster: this server stays alone: {error}");
            self.log.write(Level::Alert, line);
        };
        started.inspect_err(problem).ok()
    }

    fn try_start(&self, wanted: config::Cluster, settings: &Settings) -> io::Result<Member> {
        let mut sender = [0; 16];
        rand::fill(&mut sender).map_err(io::Error::other)?;
        let state = Arc::new(State::new(Arc::clone(&self.log), wanted.server.to_string()));
        let connector = Arc::new(Connector::new(wanted.clone(), settings.resolver.clone()));
        let counting = Counting::new(Arc::clone(&connector), Arc::clone(&state), sender);
        let (counting, receiving) =
            (Arc::new(counting), Arc::new(Receiving::new(connector, state, sender)));
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let (running, ended) = oneshot::channel();
        let (counts, receives) = (Arc::clone(&counting), Arc::clone(&receiving));
        std::thread::Builder::new().name("cluster".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = ended => {}
                    () = counts.run() => {}
                    () = receives.run() => {}
                }
            });
        })?;
        Ok(Member { settings: wanted, counting, receiving, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use howdah_cache::purge::Purge;
    use howdah_config::CacheStore;

    use super::*;

    /// Returns settings with a server that cannot be reached.
    fn settings(timeout: f64) -> Settings {
        let server = r#""server": "unix:/nonexistent/howdah-valkey.sock""#;
        let text = format!(r#"{{"settings": {{"cluster": {{{server}, "timeout": {timeout}}}}}}}"#);
        howdah_config::parse(text.as_bytes()).unwrap().settings
    }

    #[test]
    fn purges_that_wait_are_sent_although_the_settings_change() {
        let cluster = Cluster::new(Arc::new(Log::new(File::create("/dev/null").unwrap().into())));
        let config =
            CacheStore { name: "pages".into(), memory: 1 << 20, max_object: 1 << 16, disk: None };
        let store = Store::new(config);
        let stores = HashMap::from([("pages".to_owned(), Arc::clone(&store))]);
        cluster.follow(&settings(0.02), &stores);
        let before = cluster.counting().unwrap();
        store.purge(&Purge::All, false, 0);
        assert_eq!(before.purges_waiting(), 1);
        cluster.follow(&settings(0.02), &stores);
        assert!(Arc::ptr_eq(&before, &cluster.counting().unwrap()), "nothing has changed");
        cluster.follow(&settings(0.03), &stores);
        store.purge(&Purge::Host(b"a.example".to_vec()), false, 0);
        assert_eq!(before.purges_waiting(), 0);
        assert_eq!(cluster.counting().unwrap().purges_waiting(), 2);
    }
}
