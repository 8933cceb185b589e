//! Other servers with caches of the same site.

use std::fmt::Debug;

use crate::purge::Purge;

/// Other servers, which are told about each purge of a store.
pub trait Peers: Debug + Send + Sync {
    /// Passes a purge on; with an owner, one of its entries only. Does not wait.
    fn purged(&self, store: &str, owner: Option<&[u8]>, what: &Purge, is_soft: bool);
}
