//! What the control API asks caches, and has them purge.

use std::sync::Arc;
use std::time::SystemTime;

use howdah_cache::freshness::seconds_since_1970;
use howdah_cache::purge::Purge;
use howdah_cache::report::{EntryReport, UrlReport};
use howdah_cache::store::Store;
use howdah_http::authority;
use howdah_http::target::Target;

use super::command::Commands;

/// Number of entries of each cache in a list of those that are requested most.
const MAX_TOP: usize = 100;

/// What is purged: the responses that all given conditions are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgeOrder {
    /// Every response.
    pub is_all: bool,
    /// Host, as in a URL.
    pub host: Option<String>,
    /// Path and query, as in a request.
    pub target: Option<String>,
    /// The target is the beginning of paths.
    pub is_prefix: bool,
    /// Responses with one of these tags.
    pub tags: Vec<String>,
    /// They become stale instead of being removed.
    pub is_soft: bool,
}

impl PurgeOrder {
    /// Returns the purge. Error: the reason why there is none.
    fn read(self) -> Result<Purge, String> {
        let host = self.host.as_deref().map(plain_host).transpose()?;
        if self.is_all {
            return Ok(Purge::All);
        }
        if !self.tags.is_empty() {
            let tags = self.tags.into_iter().map(String::into_bytes).collect();
            return Ok(Purge::Tags { host, tags });
        }
        match (host, self.target) {
            (Some(host), None) => Ok(Purge::Host(host)),
            (Some(host), Some(target)) => {
                let (path, query) = path_and_query(&target)?;
                match self.is_prefix {
                    true => Ok(Purge::Prefix { host: Some(host), path }),
                    false => Ok(Purge::Url { host, path, query }),
                }
            }
            (None, _) => Err("the purge names neither a host nor tags".to_owned()),
        }
    }
}

/// Names of caches, each with what is known about a URL.
pub type UrlReports = Vec<(String, UrlReport)>;

impl Commands {
    /// Purges stored responses. Returns false if there is no cache of this name, or none at all.
    pub fn purge_caches(&self, cache: Option<&str>, order: PurgeOrder) -> Result<bool, String> {
        let is_soft = order.is_soft;
        let what = order.read()?;
        let stores = self.stores(cache);
        stores.iter().for_each(|store| store.purge(&what, is_soft, now()));
        Ok(!stores.is_empty())
    }

    /// Returns the entries that were requested most, by cache; `None` as for a purge.
    pub async fn top_of_caches(
        &self,
        cache: Option<&str>,
    ) -> Option<Vec<(String, Vec<EntryReport>)>> {
        let stores = self.stores(cache);
        let top = |store: &Arc<Store>| (store.config().name.clone(), store.top(MAX_TOP, now()));
        // Entries are read from the disk.
        let all = move || (!stores.is_empty()).then(|| stores.iter().map(top).collect());
        tokio::task::spawn_blocking(all).await.ok().flatten()
    }

    /// Returns what is known about a URL, by cache; `None` as for a purge.
    pub async fn inspect_caches(
        &self,
        cache: Option<&str>,
        host: &str,
        target: &str,
    ) -> Result<Option<UrlReports>, String> {
        let (path, query) = path_and_query(target)?;
        let host = plain_host(host)?;
        let stores = self.stores(cache);
        let found = move |store: &Arc<Store>| {
            (store.config().name.clone(), store.inspect(&host, &path, &query, now()))
        };
        let all = move || (!stores.is_empty()).then(|| stores.iter().map(found).collect());
        tokio::task::spawn_blocking(all).await.map_err(|_| "the search has failed".to_owned())
    }

    /// Returns the stores of the current configuration, sorted by name.
    pub(super) fn stores(&self, cache: Option<&str>) -> Vec<Arc<Store>> {
        let snapshot = self.shared().snapshot.load();
        let named = snapshot.caches.iter().filter(|(name, _)| cache.is_none_or(|one| one == *name));
        let mut stores: Vec<_> = named.map(|(_, store)| Arc::clone(store)).collect();
        stores.sort_by(|one, other| one.config().name.cmp(&other.config().name));
        stores
    }
}

/// Returns a host as requests have it.
fn plain_host(text: &str) -> Result<Vec<u8>, String> {
    let range = authority::host(text.as_bytes(), true).filter(|range| !range.is_empty());
    let host = range.and_then(|range| text.get(range));
    let host = host.ok_or_else(|| format!("\"{text}\" is no host"))?;
    Ok(host.to_ascii_lowercase().into_bytes())
}

/// Returns the decoded path and the query of a target.
fn path_and_query(target: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let target = target.as_bytes();
    let parsed = Target::parse(target).map_err(|error| error.reason().to_owned())?;
    let query = target.get(parsed.query.clone()).unwrap_or_default().to_vec();
    Ok((parsed.path(target).to_vec(), query))
}

fn now() -> u64 {
    seconds_since_1970(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(host: &str, target: Option<&str>, is_prefix: bool) -> Result<Purge, String> {
        let (host, target) = (Some(host.to_owned()), target.map(str::to_owned));
        PurgeOrder { host, target, is_prefix, ..PurgeOrder::default() }.read()
    }

    #[test]
    fn a_purge_names_hosts_and_paths_as_requests_do() {
        let host = || b"a.org".to_vec();
        assert_eq!(read("A.org.:8080", None, false), Ok(Purge::Host(host())));
        let url = Purge::Url { host: host(), path: b"/a b".to_vec(), query: b"x=%20".to_vec() };
        assert_eq!(read("a.org", Some("/c/../%61%20b?x=%20"), false), Ok(url));
        let prefix = Purge::Prefix { host: Some(host()), path: b"/blog/".to_vec() };
        assert_eq!(read("a.org", Some("/blog/"), true), Ok(prefix));
        for (host, target) in [("a.org", "/%0"), ("a.org", "/.."), ("", "/"), ("a b", "/")] {
            assert!(read(host, Some(target), false).is_err(), "{host} {target}");
        }
        assert!(PurgeOrder::default().read().is_err());
    }
}
