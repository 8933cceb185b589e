//! A site of a FastCGI server, compiled from the configuration.

use std::fmt;
use std::sync::Arc;

use howdah_config::{self as config, Template, Timeouts};

use super::kept::Kept;
use super::line::Gate;
use crate::php::target::{Script, Targets};
use crate::proxy::known::Known;
use crate::proxy::upstream::Upstream;

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
    pub gate: Gate,
    /// Idle connections.
    pub kept: Kept,
    /// Whether connections are kept.
    pub keeps: bool,
    /// How long to wait for a server.
    pub timeouts: Timeouts,
    /// Whether answers are taken as fast as they come.
    pub buffering: bool,
    /// Whether a server hears of a request only when all of its body is there.
    pub request_buffering: bool,
}

impl Site {
    /// Compiles an application; `upstream` finds the members of `upstreams`.
    pub fn new(
        config: &config::FastCgi,
        known: &Known,
        upstream: impl FnOnce(&str) -> Option<Arc<Upstream>>,
    ) -> Option<Site> {
        let upstream = match &config.servers {
            config::Servers::One(address) => {
                Arc::new(Upstream::of(address, &known.addresses(address)))
            }
            config::Servers::Upstream(name) => upstream(name)?,
        };
        let kept = Kept::new(upstream.servers.len(), config.keepalive, &config.timeouts);
        // A process that waits on a kept connection takes no other: more connections than are kept
        // might wait in the backlog for ever.
        let all = config.keepalive.saturating_mul(upstream.servers.len());
        let most = { config.limits.connections }
            .map(|most| usize::try_from(most).unwrap_or(usize::MAX))
            .or((all > 0).then_some(all));
        Some(Site {
            config: config.clone(),
            upstream,
            targets: Targets::new(&config.targets),
            params: config.params.clone(),
            gate: Gate::new(&config.limits, most),
            kept,
            keeps: config.keepalive > 0,
            timeouts: config.timeouts.clone(),
            buffering: config.buffering,
            request_buffering: config.request_buffering,
        })
    }

    /// Its name in `applications`.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether another one is configured alike and has the same servers.
    pub fn is_like(&self, other: &Site) -> bool {
        let same_servers = match self.config.servers {
            config::Servers::One(_) => self.upstream.config == other.upstream.config,
            config::Servers::Upstream(_) => Arc::ptr_eq(&self.upstream, &other.upstream),
        };
        self.config == other.config && same_servers
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
