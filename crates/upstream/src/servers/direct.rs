//! Servers that an action or an application names directly by their address.
//!
//! Each becomes an upstream, with one server for each address of its name. Actions that name the
//! same server share its upstream, and so its state.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_config::{self as config, Address};

use crate::servers::addresses::ResolvedServers;
use crate::servers::upstream::Upstream;

/// Upstreams by their name in the log and the id of their TLS settings.
pub type DirectUpstreamTable = HashMap<(Arc<str>, u64), Arc<Upstream>>;

/// Compiles the directly named servers of a configuration.
#[derive(Debug)]
pub struct DirectUpstreams<'c> {
    known: &'c ResolvedServers,
    before: Option<&'c DirectUpstreamTable>,
    found: DirectUpstreamTable,
}

impl<'c> DirectUpstreams<'c> {
    /// Creates an empty table. `before` has the upstreams of the previous configuration.
    pub fn new(known: &'c ResolvedServers, before: Option<&'c DirectUpstreamTable>) -> Self {
        DirectUpstreams { known, before, found: DirectUpstreamTable::new() }
    }

    /// Returns the upstream of a `proxy`.
    pub fn proxy(&mut self, proxy: &config::Proxy) -> Arc<Upstream> {
        let tls = self.known.client(proxy.tls.as_ref());
        self.share(Upstream::proxy(proxy, &self.known.addresses(&proxy.address), tls))
    }

    /// Returns the upstream of a server that decides about logins of mail.
    pub fn authentication(&mut self, server: &config::MailAuthentication) -> Arc<Upstream> {
        let settings = server.is_https.then(config::UpstreamTls::default);
        let tls = self.known.client(settings.as_ref());
        let addresses = self.known.addresses(&server.address);
        self.share(Upstream::authentication(server, &addresses, tls))
    }

    /// Returns the upstream of an application of type `fastcgi`.
    pub fn fastcgi(&mut self, address: &Address) -> Arc<Upstream> {
        self.share(Upstream::fastcgi(address, &self.known.addresses(address)))
    }

    /// Returns the upstream of the action `dashboard`; it has no server if there is no process.
    pub fn dashboard(&mut self) -> Arc<Upstream> {
        self.share(Upstream::dashboard(self.known.dashboard.as_ref()))
    }

    /// Returns all upstreams.
    pub fn into_table(self) -> DirectUpstreamTable {
        self.found
    }

    fn share(&mut self, upstream: Upstream) -> Arc<Upstream> {
        let key = (upstream.name.clone(), upstream.tls_id());
        let before = self.found.get(&key).or_else(|| self.before?.get(&key));
        let upstream = upstream.following(before);
        self.found.insert(key, Arc::clone(&upstream));
        upstream
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::servers::selection::Affinity;
    use crate::thread::UpstreamThread;

    /// Compiles the servers of a proxy and of an application at these addresses.
    fn compile(
        ends: &[u8],
        before: Option<&DirectUpstreamTable>,
    ) -> ([Arc<Upstream>; 2], DirectUpstreamTable) {
        let addresses = ends.iter().map(|end| IpAddr::from([127, 0, 0, *end]).into()).collect();
        let known = ResolvedServers {
            names: [("app.test".to_owned(), addresses)].into(),
            ..ResolvedServers::default()
        };
        let address = Address::Name("app.test".to_owned(), 80);
        let mut direct_upstreams = DirectUpstreams::new(&known, before);
        let [one, two] = [0; 2].map(|_| {
            direct_upstreams.proxy(&config::Proxy {
                address: address.clone(),
                tls: None,
                keepalive: 0,
            })
        });
        assert!(Arc::ptr_eq(&one, &two), "who names the same server shares it");
        ([one, direct_upstreams.fastcgi(&address)], direct_upstreams.into_table())
    }

    #[tokio::test]
    async fn addresses_that_a_name_keeps_keep_what_is_known_of_them() {
        let log = tempfile::tempfile().unwrap();
        let thread = UpstreamThread::new(Arc::new(howdah_sys::log::Log::new(log.into())));
        let (before, table) = compile(&[1, 2], None);
        for upstream in &before {
            let failing = upstream.acquire(thread.selector(), &[0], &Affinity::default()).await;
            assert!(failing.unwrap().unwrap().failed().is_some());
        }
        let (same, table) = compile(&[1, 2], Some(&table));
        let (after, _) = compile(&[2, 3], Some(&table));
        for ((before, same), after) in before.iter().zip(&same).zip(&after) {
            assert!(Arc::ptr_eq(before, same));
            let report = after.report();
            let known: Vec<_> = report
                .servers
                .iter()
                .map(|(name, s)| (name.as_str(), &*s.state, s.failures))
                .collect();
            assert_eq!(known, [("127.0.0.2:80", "failing", 1), ("127.0.0.3:80", "up", 0)]);
            assert!(Arc::ptr_eq(
                before.servers[1].fastcgi_connections(),
                after.servers[0].fastcgi_connections()
            ));
        }
    }
}
