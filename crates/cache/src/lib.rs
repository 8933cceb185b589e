//! The response cache: a shared cache of HTTP (RFC 9111).
//!
//! | module | content |
//! | --- | --- |
//! | `directives`, `structured`, `control` | instructions of requests and responses |
//! | `freshness`, `vary`, `storing`, `reuse` | rules for storing and using responses |
//! | `respond`, `status` | responses from stored ones, and their statements about the cache |
//! | `key`, `place`, `search` | keys of stored responses, and names for purges |
//! | `entry`, `store`, `purge` | stored responses, in memory that all threads share |
//! | `disk` | the file that a store may have besides |
//! | `memory`, `sieve` | that memory, its division among applications, and the order of eviction |
//! | `cause`, `decisions`, `report` | answers to questions of administrators |
//! | `esi` | pages that are assembled from parts |
//! | `peers` | other servers that are told about purges |
//! | `flight`, `tee` | requests that wait for another's response; bodies that are sent and stored |
//!
//! The rules take time and messages as arguments; the crate asks no application or server. Every
//! message is untrusted: memory is bounded, and no text of a client has an effect on the responses
//! of others unless it is part of the key.
#![forbid(unsafe_code)]

pub mod cause;
pub mod control;
pub mod decisions;
pub mod directives;
pub mod disk;
pub mod entry;
pub mod esi;
pub mod flight;
pub mod freshness;
pub mod inquiry;
pub mod invalidation;
pub mod key;
pub mod memory;
pub mod peers;
pub mod place;
pub mod purge;
pub mod purge_request;
pub mod report;
pub mod respond;
pub mod reuse;
pub mod search;
mod sieve;
pub mod space;
pub mod status;
pub mod store;
pub mod storing;
pub mod structured;
pub mod tee;
#[cfg(test)]
mod testing;
pub mod variances;
pub mod vary;
