//! Connects a worker's output with its application's queue and with the log.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use howdah_sys::log::{Level, Log, OfApplication, Subject};
use howdah_wire::queue::WorkerId;

use super::instance::Instance;
use super::queue::Queue;
use super::request::{RequestContext, RequestKey};
use super::worker_output::RequestSource;

pub use super::worker_output::Output;

/// The worker that an output belongs to.
#[derive(Debug)]
pub struct OutputOwner {
    /// Name of the application.
    pub application: Arc<str>,
    /// Process id of the worker.
    pub pid: u32,
    /// Name of the worker in the region.
    pub worker: WorkerId,
    /// Queue of the application.
    pub queue: Arc<Queue>,
    /// Instance of the worker.
    pub instance: Weak<Instance>,
    /// Log for the output.
    pub log: Arc<Log>,
}

/// Reads a worker's output until all writing ends of the pipe are closed. `stdout` is the pipe of
/// standard output, if that is another one.
pub fn watch(
    pipe: OwnedFd,
    stdout: Option<OwnedFd>,
    owner: OutputOwner,
) -> std::io::Result<Arc<Output>> {
    Output::watch(pipe, stdout, Arc::new(owner))
}

impl RequestSource for OutputOwner {
    fn application(&self) -> &str {
        &self.application
    }

    fn current_request(&self) -> Option<(RequestKey, Arc<RequestContext>)> {
        self.queue.request_of(&self.instance.upgrade()?, self.worker)
    }

    fn log(&self, context: Option<&RequestContext>, message: fmt::Arguments<'_>) {
        let source = format_args!("application \"{}\"", self.application);
        let application = OfApplication(&self.application);
        let about: &dyn Subject = match context {
            Some(context) => context,
            None => &application,
        };
        let (rate, about) = (&self.queue.log_rate, self.log.about(about));
        about.write_limited(rate, &source, self.pid, Level::Error, message);
    }

    fn log_pause(&self) -> Duration {
        self.queue.log_rate.wait()
    }
}
