//! An application as requests use it: settings, queue and scripts.

use std::sync::Arc;
use std::time::Duration;

use ::howdah_config as config;

use howdah_cgi::target::Targets;

use crate::queue::Queue;

/// Settings, queue and scripts of an application.
#[derive(Debug)]
pub struct Application {
    /// Name of the application.
    pub name: Arc<str>,
    /// Settings of the application.
    pub config: Arc<config::Application>,
    /// Queue of requests that wait for a worker.
    pub queue: Arc<Queue>,
    /// Scripts of the application.
    pub targets: Targets,
}

impl Application {
    /// Returns true if this many requests seem to need more workers, or spare workers are missing.
    /// The pool makes the decision.
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

    /// Returns the maximum run time of a script; `None` without a limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.config.limits.timeout
    }
}
