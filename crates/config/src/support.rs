//! What this version of Howdah carries out of what a document can say.
//!
//! A key that is understood but has no effect would be a trap: a site that relies on it would run
//! without it. So such keys are refused until the server carries them out. [`AVAILABLE`] is the one
//! place to change when it does.

/// A group of keys that a version of Howdah may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// `access_log`.
    AccessLog,
    /// `settings.http.compression`.
    Compression,
    /// `forwarded` and `client_ip` of a listener.
    Forwarded,
    /// `settings.listen_threads`.
    ListenThreads,
    /// All conditions of a `match` but `uri`.
    MatchConditions,
    /// `settings.http.static.mime_types`.
    MimeTypes,
    /// `proxy` of an action.
    Proxy,
    /// `response_headers` of an action.
    ResponseHeaders,
    /// `rewrite` of an action.
    Rewrite,
    /// `limits.shm` of an application.
    SharedMemoryLimit,
    /// `upstreams`.
    Upstreams,
    /// `settings.http.websocket`.
    WebSocket,
}

/// The features of this version.
const AVAILABLE: &[Feature] = &[
    Feature::AccessLog,
    Feature::Compression,
    Feature::Forwarded,
    Feature::ListenThreads,
    Feature::MatchConditions,
    Feature::MimeTypes,
    Feature::Proxy,
    Feature::ResponseHeaders,
    Feature::Rewrite,
    Feature::Upstreams,
];

/// Which features a document may use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Support {
    /// Those of this version.
    ThisVersion,
    /// All, so that the reading of keys can be tested before the server has them.
    #[cfg(test)]
    Everything,
}

impl Support {
    pub fn has(self, feature: Feature) -> bool {
        match self {
            Support::ThisVersion => AVAILABLE.contains(&feature),
            #[cfg(test)]
            Support::Everything => true,
        }
    }
}
