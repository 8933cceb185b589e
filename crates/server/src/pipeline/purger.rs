//! Purges that scripts ask for with `howdah_cache_purge()`.

use std::sync::Arc;
use std::time::SystemTime;

use howdah_cache::freshness::seconds_since_1970;
use howdah_cache::memory::Owner;
use howdah_cache::purge::Purge;
use howdah_cache::store::Store;
use howdah_http::message::Request;
use howdah_php_pool::request::Purger;

use crate::snapshot::action::ActionCache;

/// The cache of the action that a request has met. Its script may purge responses of its application
/// and the request's host.
#[derive(Debug)]
pub struct CachePurger {
    store: Arc<Store>,
    owner: Arc<Owner>,
    host: Vec<u8>,
}

impl CachePurger {
    /// Returns what the script of a request may purge.
    pub fn new(cache: &ActionCache, origin: &[u8], request: &Request) -> CachePurger {
        let (store, owner) = (Arc::clone(&cache.store), cache.store.owner(origin));
        CachePurger { store, owner, host: request.host.to_vec() }
    }
}

impl Purger for CachePurger {
    fn purge(&self, is_all: bool, is_soft: bool, tags: Vec<Vec<u8>>) {
        let host = self.host.clone();
        let what = match is_all {
            true => Purge::Host(host),
            false => Purge::Tags { host: Some(host), tags },
        };
        self.store.purge_of(&self.owner, &what, is_soft, seconds_since_1970(SystemTime::now()));
    }
}
