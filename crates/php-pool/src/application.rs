//! An application as requests see it: its settings, its queue and its scripts.

use std::sync::Arc;
use std::time::Duration;

use ::howdah_config as config;

use crate::queue::Queue;
use crate::target::Targets;

/// An application as requests see it.
#[derive(Debug)]
pub struct Application {
    /// Name.
    pub name: Arc<str>,
    /// Its part of the configuration.
    pub config: config::Application,
    /// Requests that wait for a worker.
    pub queue: Arc<Queue>,
    /// Its scripts.
    pub targets: Targets,
}

impl Application {
    /// Returns true if more workers seem to be needed for this many requests, or spare ones are missing.
    /// The pool decides.
    pub fn wants_workers(&self, requests: u32, workers: u32) -> bool {
        match self.config.processes {
            config::Processes::Automatic => {
                workers < self.queue.max_workers() && requests > workers
            }
            config::Processes::Dynamic(dynamic) => {
                workers < dynamic.max && requests + dynamic.spare > workers
            }
            config::Processes::Static(count) => workers < count,
        }
    }

    /// Maximum run time of a script; `None` without a limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.config.limits.timeout
    }
}
