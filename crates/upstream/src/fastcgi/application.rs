//! An application of type `fastcgi`, compiled from the configuration.

use std::fmt;
use std::sync::Arc;

use howdah_cgi::target::{Script, Targets};
use howdah_config::{self as config, ScriptExtensions, Template, Timeouts};

use super::connection_limit::ConnectionLimit;
use crate::log_limit::LogLimit;
use crate::servers::upstream::Upstream;

/// An application of type `fastcgi`.
#[derive(Debug)]
pub struct FastCgiApplication {
    /// Settings of the application.
    config: config::FastCgi,
    /// Its name in `applications`.
    pub name: Arc<str>,
    /// Servers that run the application.
    pub upstream: Arc<Upstream>,
    /// Targets, which select the script of a request.
    pub targets: Targets,
    /// Parameters that are added, or replace standard ones of the same name.
    pub params: Vec<(String, Template)>,
    /// Limit on the application's connections, of all threads together.
    pub connection_limit: Arc<ConnectionLimit>,
    /// Limit on log messages of the application and its servers.
    pub log_limit: Arc<LogLimit>,
    /// Maximum number of idle connections to each server.
    pub keepalive: usize,
    /// Timeouts of the servers.
    pub timeouts: Timeouts,
    /// Responses are read as fast as the server writes them.
    pub buffering: bool,
    /// The body of a request is read in full before a server gets it.
    pub request_buffering: bool,
}

impl FastCgiApplication {
    /// Returns the path of the application in the document, without its first slash.
    pub fn place(&self) -> String {
        config::path(["applications", &self.config.name]).trim_start_matches('/').to_owned()
    }

    /// Compiles an application whose servers are those of this upstream.
    pub fn new(config: &config::FastCgi, upstream: Arc<Upstream>) -> Self {
        // A process that waits on an idle connection accepts no other one: connections beyond the
        // idle ones could wait in the backlog forever.
        let all = config.keepalive.saturating_mul(upstream.servers.len());
        let max = config
            .limits
            .connections
            .map(|max| usize::try_from(max).unwrap_or(usize::MAX))
            .or((all > 0).then_some(all));
        FastCgiApplication {
            name: config.name.as_str().into(),
            config: config.clone(),
            targets: Targets::new(&config.targets, &ScriptExtensions::default()),
            params: config.params.clone(),
            connection_limit: Arc::new(ConnectionLimit::new(&config.limits, max)),
            log_limit: Arc::default(),
            keepalive: config.keepalive,
            timeouts: config.timeouts.clone().unwrap_or_else(|| upstream.config.timeouts.clone()),
            buffering: config.buffering,
            request_buffering: config.request_buffering,
            upstream,
        }
    }

    /// Returns the application `before` a configuration change if it is unchanged; otherwise this
    /// one, with the old connection limit if its settings are unchanged.
    pub fn following(
        mut self,
        before: Option<&Arc<FastCgiApplication>>,
    ) -> Arc<FastCgiApplication> {
        let Some(before) = before else { return Arc::new(self) };
        if before.config == self.config && Arc::ptr_eq(&before.upstream, &self.upstream) {
            return Arc::clone(before);
        }
        if before.connection_limit.has_settings_of(&self.connection_limit) {
            self.connection_limit = Arc::clone(&before.connection_limit);
        }
        self.log_limit = Arc::clone(&before.log_limit);
        Arc::new(self)
    }

    /// Returns true if a target runs the script for every path.
    pub fn is_fixed(&self, script: &Script) -> bool {
        self.targets.is_fixed(&script.file)
    }
}

impl fmt::Display for FastCgiApplication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.config.name)
    }
}
