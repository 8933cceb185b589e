//! The control API's questions to caches, and its purges.

use std::sync::Arc;

use howdah_cache::purge::Purge;
use howdah_cache::store::Store;
use howdah_questions::{CacheEntry, CachedUrl, Named};
use howdah_sys::clock::wall_seconds;

use super::command::Commands;

/// Number of entries of each cache in a list of those that are requested most.
const MAX_TOP: usize = 100;

impl Commands {
    /// Purges stored responses. Returns false if there is no cache of this name, or none at all.
    pub fn purge_caches(&self, cache: Option<&str>, purge: &Purge, is_soft: bool) -> bool {
        let stores = self.stores(cache);
        stores.iter().for_each(|store| store.purge(purge, is_soft, wall_seconds()));
        !stores.is_empty()
    }

    /// Returns the entries that were requested most, by cache; `None` as for a purge.
    pub async fn top_of_caches(&self, cache: Option<&str>) -> Option<Named<Vec<CacheEntry>>> {
        let stores = self.stores(cache);
        let top =
            |store: &Arc<Store>| (store.config().name.clone(), store.top(MAX_TOP, wall_seconds()));
        // Entries are read from the disk.
        let all = move || (!stores.is_empty()).then(|| stores.iter().map(top).collect());
        tokio::task::spawn_blocking(all).await.ok().flatten()
    }

    /// Returns the state of a URL in each cache; `None` as for a purge.
    pub async fn inspect_caches(
        &self,
        cache: Option<&str>,
        host: Vec<u8>,
        path: Vec<u8>,
        query: Vec<u8>,
    ) -> Option<Named<CachedUrl>> {
        let stores = self.stores(cache);
        let found = move |store: &Arc<Store>| {
            (store.config().name.clone(), store.inspect(&host, &path, &query, wall_seconds()))
        };
        let all = move || (!stores.is_empty()).then(|| stores.iter().map(found).collect());
        tokio::task::spawn_blocking(all).await.ok().flatten()
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
