//! Facts about caches of responses.

use serde::{Deserialize, Serialize};

use crate::{Named, Word};

/// Counters of a cache since it was made, and its content.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStatus {
    /// Entries in memory.
    pub entries: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The maximum of this size.
    pub memory: u64,
    /// Requests answered with a fresh response.
    pub hits: u64,
    /// Requests answered with a stale response.
    pub stale: u64,
    /// Requests answered with the response to another request, which they have waited for.
    pub collapsed: u64,
    /// Requests without a stored response.
    pub misses: u64,
    /// Requests that the rules of the cache exclude.
    pub bypassed: u64,
    /// Stored responses that were validated.
    pub revalidated: u64,
    /// Responses that were stored.
    pub stored: u64,
    /// Responses that may not be stored.
    pub refused: u64,
    /// Purges.
    pub purges: u64,
    /// The store on the disk.
    #[serde(flatten)]
    pub disk: Option<DiskStatus>,
}

/// The store of a cache on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Entries on the disk.
    pub disk_entries: u64,
    /// Their size in bytes.
    pub disk_bytes: u64,
    /// The maximum of this size.
    pub disk_size: u64,
    /// 1 if the disk was read after the start, otherwise 0.
    pub disk_ready: u64,
    /// Responses that were read.
    pub disk_reads: u64,
    /// Failed operations.
    pub disk_errors: u64,
}

/// A stored response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheEntry {
    /// Host, path and query of the request that it was computed for.
    pub url: String,
    /// Status.
    pub status: u16,
    /// `fresh`, `stale`, `purged softly` or `validated before each use`.
    pub state: Word,
    /// Requests that it has answered since it came into memory.
    pub requests: u64,
    /// `memory`, `disk` or `memory and disk`.
    #[serde(rename = "where")]
    pub stored_in: Word,
    /// Bytes in memory, or on the disk if only that has it.
    pub bytes: u64,
    /// Age in seconds.
    pub age: u64,
    /// Seconds for which it is fresh, negative if it is not.
    pub ttl: i64,
    /// Lifetime in seconds.
    pub lifetime: u64,
    /// The source of the lifetime.
    pub decided_by: Word,
    /// Seconds for which it may be sent stale while it is refreshed.
    pub stale_while_revalidate: u64,
    /// Seconds for which it may be sent stale if it cannot be refreshed.
    pub stale_if_error: u64,
    /// Number of tags.
    pub tags: usize,
    /// Request fields that select it, with their values; null for absent ones.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub vary: Named<Option<String>>,
}

/// The state of a URL in a cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedUrl {
    /// Stored responses.
    pub entries: Vec<CacheEntry>,
    /// The disk has more than could be searched.
    #[serde(skip_serializing_if = "is_false")]
    pub partial: bool,
    /// The last request that was not answered from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_miss: Option<LastMiss>,
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// A request that was not answered from the cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastMiss {
    /// Seconds since the request.
    pub seconds: u64,
    /// Status of its response.
    pub status: u16,
    /// The decision, as in `Cache-Status`.
    pub cache_status: String,
    /// The field or the key of the configuration that decided; empty if the response was stored.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub decided_by: String,
}
