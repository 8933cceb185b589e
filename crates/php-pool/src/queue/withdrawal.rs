//! Requests that leave the queue before a worker has taken them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use howdah_sys::clock;
use howdah_wire::queue::Claim;

use super::{Inner, Queue, RequestKey, Withdrawal};

impl Queue {
    /// Withdraws a request whose client has gone.
    pub fn withdraw(&self, key: RequestKey) -> Withdrawal {
        let mut inner = self.lock();
        if inner.withdraw_waiting(key) {
            return Withdrawal::NotStarted;
        }
        // A worker took it meanwhile, or the region is corrupt; the end of the worker settles both.
        let Some((serving, slot)) = inner.find(key) else { return Withdrawal::Ended };
        let instance = Arc::clone(&serving.instance);
        match instance.region.claim_of(slot) {
            Claim::Taken(_, owner) => {
                if let Some(words) = instance.region.slot(slot) {
                    words.aborted.store(1, Release);
                }
                Withdrawal::Running(instance, owner)
            }
            _ => Withdrawal::Ended,
        }
    }

    /// Withdraws a request unless a worker has taken it. Returns true if none has, and none will
    /// take it: a caller that looked first would refuse requests that run.
    pub fn withdraw_waiting(&self, key: RequestKey) -> bool {
        self.lock().withdraw_waiting(key)
    }

    /// Gives up a request that has waited too long in an overloaded queue. Returns true if it did.
    pub fn give_up(&self, key: RequestKey) -> bool {
        let mut inner = self.lock();
        let now = clock::monotonic_us();
        let is_given_up = inner.waiting.give_up(now, |waiting| waiting.key == key).is_some();
        inner.counters.given_up += u64::from(is_given_up);
        is_given_up
    }
}

impl Inner {
    fn withdraw_waiting(&mut self, key: RequestKey) -> bool {
        if self.waiting.remove(|waiting| waiting.key == key).is_some() {
            return true;
        }
        let Some((serving, slot)) = self.find(key) else { return false };
        let instance = Arc::clone(&serving.instance);
        match instance.region.claim_of(slot) {
            Claim::Queued(ticket) if instance.region.cancel(slot, ticket) => {
                self.release(&instance, slot);
                self.feed();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::Ordering::Acquire;
    use std::sync::{Barrier, OnceLock};

    use howdah_wire::queue::{Work, WorkerId};
    use howdah_wire::region::Geometry;

    use super::*;
    use crate::instance::Instance;
    use crate::queue::Flow;
    use crate::request::RequestContext;

    const WORKER: WorkerId = WorkerId { index: 0, incarnation: 1 };

    fn submit(queue: &Queue, number: u32) -> RequestKey {
        let context = RequestContext {
            application: "app".into(),
            site: "app".into(),
            id: 1,
            trace: None,
            method: Default::default(),
            target: Default::default(),
            script: Path::new("a.php").into(),
            user: None,
            length: 0,
            times: OnceLock::new(),
            process: OnceLock::new(),
            usage: Default::default(),
            failure: Default::default(),
            has_started_php: Default::default(),
            flow: Flow::default(),
            profile: None,
            messages: None,
            purger: None,
        };
        let key = RequestKey::new(0, number, 0);
        queue.submit(key, b"request".to_vec(), Arc::new(context)).unwrap();
        key
    }

    /// Either a worker runs a request, or it is withdrawn: the first event decides.
    #[test]
    fn a_request_is_not_both_taken_and_withdrawn() {
        let queue = Queue::new(10, false, None);
        let (instance, _memory) = Instance::create(1, Geometry::for_pool(1, 1)).unwrap();
        let instance = Arc::new(instance);
        queue.set_instance(Some(Arc::clone(&instance)));
        let together = Barrier::new(2);
        let rounds = 1_000;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut taken = Vec::new();
                for _ in 0..rounds {
                    together.wait();
                    taken.push(match instance.region.take(WORKER) {
                        Work::Request { slot, .. } => Some(slot),
                        _ => None,
                    });
                    together.wait();
                    // Settled by the other thread.
                    together.wait();
                }
                taken
            });
            let mut withdrawn = Vec::new();
            for number in 1..=rounds {
                let key = submit(&queue, number);
                together.wait();
                withdrawn.push(queue.withdraw_waiting(key));
                together.wait();
                for (slot, _) in instance.slots_of(0).collect::<Vec<_>>() {
                    let aborted =
                        instance.region.slot(slot).map(|words| words.aborted.load(Acquire));
                    assert_eq!(aborted, Some(0), "its client waits for it");
                    queue.release(&instance, slot);
                }
                together.wait();
            }
            let taken = worker.join().unwrap();
            for (taken, withdrawn) in taken.into_iter().zip(withdrawn) {
                assert_ne!(taken.is_some(), withdrawn);
            }
        });
    }
}
