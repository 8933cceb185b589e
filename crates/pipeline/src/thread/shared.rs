//! State that all router threads share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arc_swap::ArcSwap;
use howdah_cluster::Cluster;
use howdah_dns::clients::ClientNames;
use howdah_files::DenialLog;
use howdah_routing::request_log::RequestLog;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Log;
use howdah_tls::challenge_answers::ChallengeStore;

use super::spans::SpanSocket;
use crate::descriptors::DescriptorLimit;
use crate::listings::Listings;
use crate::metrics::MetricsSource;
use crate::probes::Readiness;

/// State that all router threads share.
#[derive(Debug)]
pub struct Shared {
    /// The current configuration, compiled.
    pub snapshot: ArcSwap<Snapshot>,
    /// The error log.
    pub log: Arc<Log>,
    /// The same, for lines that requests cause.
    pub request_log: RequestLog,
    /// The same, for files that the server may not open.
    pub denials: Arc<DenialLog>,
    /// Directory for temporary files.
    pub tmp: Arc<Path>,
    /// Number of threads that accept connections; the first ones.
    pub threads: AtomicUsize,
    /// Limit of open files of the process.
    pub descriptors: DescriptorLimit,
    /// Responses to challenges of ACME servers.
    pub challenges: Arc<ChallengeStore>,
    /// Listings of directories.
    pub listings: Listings,
    /// Names of clients that `.htaccess` files compare.
    pub client_names: ClientNames,
    /// Purges and limits that several servers share.
    pub cluster: Cluster,
    /// Text of the metrics, which the control thread writes.
    pub metrics: MetricsSource,
    /// Whether visitors can be served.
    pub readiness: Readiness,
    /// The socket of the telemetry process.
    pub spans: SpanSocket,
}
