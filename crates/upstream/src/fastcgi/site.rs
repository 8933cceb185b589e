//! A site of a FastCGI server, compiled from the configuration.

use std::fmt;
use std::sync::Arc;

use howdah_config::{self as config, Template, Timeouts};
use howdah_php_pool::target::{Script, Targets};

use crate::connections::backlog::Gate;
use crate::log_limit::LogLimit;
use crate::servers::upstream::Upstream;

/// A site that a FastCGI server runs.
#[derive(Debug)]
pub struct Site {
    /// Its part of the configuration.
    config: config::FastCgi,
    /// The servers that run it.
    pub upstream: Arc<Upstream>,
    /// Its scripts.
    pub targets: Targets,
    /// Parameters beside the usual ones or in their place.
    pub params: Vec<(String, Template)>,
    /// How many requests may be at the servers, and how many may wait.
    pub gate: Arc<Gate>,
    /// What its servers may bring into the log, and what is said of them there.
    pub log_limit: Arc<LogLimit>,
    /// Idle connections that are kept to each server.
    pub keepalive: usize,
    /// How long to wait for a server.
    pub timeouts: Timeouts,
    /// Whether answers are taken as fast as they come.
    pub buffering: bool,
    /// Whether a server hears of a request only when all of its body is there.
    pub request_buffering: bool,
}

impl Site {
    /// Compiles an application that this upstream runs.
    pub fn new(config: &config::FastCgi, upstream: Arc<Upstream>) -> Self {
        // A process that waits on a kept connection takes no other: more connections than are kept
        // might wait in the backlog for ever.
        let all = config.keepalive.saturating_mul(upstream.servers.len());
        let most = { config.limits.connections }
            .map(|most| usize::try_from(most).unwrap_or(usize::MAX))
            .or((all > 0).then_some(all));
        Site {
            config: config.clone(),
            upstream,
            targets: Targets::new(&config.targets),
            params: config.params.clone(),
            gate: Arc::new(Gate::new(&config.limits, most)),
            log_limit: Arc::default(),
            keepalive: config.keepalive,
            timeouts: config.timeouts.clone(),
            buffering: config.buffering,
            request_buffering: config.request_buffering,
        }
    }

    /// The one before, if that is the same; otherwise this one, in which the requests of the one
    /// before count if the bounds are the same.
    pub fn following(mut self, before: Option<&Arc<Site>>) -> Arc<Site> {
        let Some(before) = before else { return Arc::new(self) };
        if before.config == self.config && Arc::ptr_eq(&before.upstream, &self.upstream) {
            return Arc::clone(before);
        }
        if before.gate.is_like(&self.gate) {
            self.gate = Arc::clone(&before.gate);
        }
        self.log_limit = Arc::clone(&before.log_limit);
        Arc::new(self)
    }

    /// Its name in `applications`.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether a script is one that a target runs for every path.
    pub fn is_fixed(&self, script: &Script) -> bool {
        self.targets.is_fixed(&script.file)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.config.name)
    }
}
