//! Instances that take no more requests. An instance ends when its workers have ended. If they do
//! not end although they have no request, the supervisor ends the instance.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_php_pool::queue::{Instance, Queue};
use howdah_wire::messages::ToSupervisor;

use crate::process::link::Link;

/// Maximum time for workers without a request to end. They wake up for that at once; a worker that
/// does not is stopped, or its last script keeps it running.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two checks whether requests are left.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Retired instances by number.
#[derive(Debug, Default)]
pub(super) struct RetiredInstances(HashMap<u32, Retired>);

#[derive(Debug)]
struct Retired {
    /// Name of the application.
    name: String,
    queue: Arc<Queue>,
    instance: Arc<Instance>,
    /// The supervisor was asked to end it.
    is_ending: bool,
}

impl RetiredInstances {
    /// Adds an instance of the application `name`, whose requests wait in `queue`.
    pub(super) fn add(&mut self, name: String, queue: Arc<Queue>, instance: Arc<Instance>) {
        self.0.insert(instance.number, Retired { name, queue, instance, is_ending: false });
    }

    /// Adds an instance without workers that the supervisor was asked to unload.
    pub(super) fn add_unloaded(
        &mut self,
        name: String,
        queue: Arc<Queue>,
        instance: Arc<Instance>,
    ) {
        self.0.insert(instance.number, Retired { name, queue, instance, is_ending: true });
    }

    /// Removes an instance that has ended. Returns false if there is no such retired instance.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        self.0.remove(&number).is_some()
    }

    /// Returns all retired instances.
    pub(super) fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.0.values().map(|retired| &retired.instance)
    }

    /// Returns a retired instance with the name and the queue of its application.
    pub(super) fn get(&self, number: u32) -> Option<(&str, &Arc<Queue>, &Arc<Instance>)> {
        let retired = self.0.get(&number)?;
        Some((retired.name.as_str(), &retired.queue, &retired.instance))
    }

    /// Returns the name of the application of a retired instance.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.0.get(&number).map(|retired| retired.name.as_str())
    }

    /// Ends the instances without requests. Returns the time of the next check; `None` if no
    /// instance has requests.
    pub(super) fn end_idle(&mut self, link: &Link, now: Instant) -> io::Result<Option<Instant>> {
        let mut next = None;
        for retired in self.0.values_mut().filter(|retired| !retired.is_ending) {
            if retired.instance.has_requests() {
                next = Some(now + CHECK_INTERVAL);
                continue;
            }
            let grace_ms = LEAVE_TIMEOUT.as_millis() as u64;
            link.send(&ToSupervisor::Stop { application: retired.instance.number, grace_ms })?;
            retired.is_ending = true;
        }
        Ok(next)
    }
}
