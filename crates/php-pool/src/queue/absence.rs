//! Workers that take no request although requests wait.

use std::collections::HashSet;

use howdah_sys::clock;
use howdah_wire::queue::{Claim, WorkerId};

use super::Queue;
use crate::instance::Worker;

impl Queue {
    /// Returns the workers that have no request although requests wait for one: process id and
    /// number of requests so far. Empty if none waits. In worker mode a script may continue after a
    /// response, and a worker without any request so far may still start its script: that one is
    /// left out.
    pub fn unavailable_workers(&self, is_resident: bool) -> Vec<(WorkerId, u32, u64)> {
        let inner = self.lock();
        let Some(serving) = &inner.serving else { return Vec::new() };
        let (mut running, mut is_waiting) = (HashSet::new(), !inner.waiting.is_empty());
        for slot in 0..serving.infos.len() as u32 {
            match serving.instance.region.claim_of(slot) {
                Claim::Taken(_, worker) => drop(running.insert(worker)),
                Claim::Queued(_) => is_waiting |= serving.infos[slot as usize].is_some(),
                _ => {}
            }
        }
        if !is_waiting {
            return Vec::new();
        }
        let workers = serving.instance.workers();
        let has_started = |worker: &Worker| !is_resident || worker.last.requests() > 0;
        let idle =
            workers.iter().filter(|(id, worker)| !running.contains(*id) && has_started(worker));
        idle.map(|(id, worker)| (*id, worker.pid, worker.last.requests())).collect()
    }

    /// Returns true if a worker sleeps although a request has been waiting in a slot for
    /// `waited_us` microseconds: the worker that was called for it has not woken.
    pub fn is_neglected(&self, waited_us: u64) -> bool {
        let inner = self.lock();
        let Some(serving) = &inner.serving else { return false };
        let region = &serving.instance.region;
        let (now, mut slots) = (clock::monotonic_us(), 0..serving.infos.len());
        region.has_sleepers()
            && slots.any(|slot| {
                let info = serving.infos[slot].as_ref();
                let is_queued = matches!(region.claim_of(slot as u32), Claim::Queued(_));
                is_queued && info.is_some_and(|info| info.times(0, now).waited >= waited_us)
            })
    }
}
