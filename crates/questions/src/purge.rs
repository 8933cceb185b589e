//! Subjects of purges of caches.

use serde::{Deserialize, Serialize};

use crate::bytes;

/// The entries to purge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purge {
    /// Every entry.
    All,
    /// The entries of a host, in lower case without port.
    Host(#[serde(with = "bytes")] Vec<u8>),
    /// The entries of a URL.
    Url {
        /// Host, in lower case without port.
        #[serde(with = "bytes")]
        host: Vec<u8>,
        /// Decoded path.
        #[serde(with = "bytes")]
        path: Vec<u8>,
        /// Query.
        #[serde(with = "bytes")]
        query: Vec<u8>,
    },
    /// The entries whose path begins with this one.
    Prefix {
        /// Host; all if `None`.
        #[serde(with = "bytes::option")]
        host: Option<Vec<u8>>,
        /// Beginning of the decoded path.
        #[serde(with = "bytes")]
        path: Vec<u8>,
    },
    /// The entries with one of these tags.
    Tags {
        /// Host; all if `None`.
        #[serde(with = "bytes::option")]
        host: Option<Vec<u8>>,
        /// The tags.
        #[serde(with = "bytes::list")]
        tags: Vec<Vec<u8>>,
    },
}
