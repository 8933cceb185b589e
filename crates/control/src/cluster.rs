//! `cluster` in `/status`: the server through which several servers share purges and limits.

use serde_json::{Value, json};

/// State of that server, and counters since the configuration named it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Its address.
    pub server: String,
    /// It answers in time.
    pub is_connected: bool,
    /// Requests that it has counted.
    pub counted: u64,
    /// Requests that were counted for this server alone, as it did not answer.
    pub alone: u64,
    /// Purges that were passed on.
    pub purges_sent: u64,
    /// Purges that came from other servers.
    pub purges_received: u64,
    /// Messages and answers that were invalid.
    pub invalid: u64,
    /// Number of times that everything was purged, as purges may have been missed.
    pub missed: u64,
}

/// Returns the object of `/status`.
pub(crate) fn to_value(cluster: &ClusterStatus) -> Value {
    json!({
        "server": cluster.server,
        "connected": cluster.is_connected,
        "requests": { "counted": cluster.counted, "alone": cluster.alone },
        "purges": {
            "sent": cluster.purges_sent,
            "received": cluster.purges_received,
            "missed": cluster.missed,
        },
        "invalid": cluster.invalid,
    })
}
