//! Answers the supervisor's question whether the router works. All router threads take part, so
//! none can hang unnoticed. With the answer go the counts of sites.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_wire::messages::ToSupervisor;
use tokio::task::spawn_local;

use super::control_thread::ControlThread;

/// Length of the line about parts that are out, in bytes.
const MAX_SUMMARY: usize = 200;

impl ControlThread {
    /// Answers when all router threads have. Does not wait.
    pub(super) fn answer_ping(&self, number: u32, refused_since: u64) {
        self.refused_since.set(refused_since);
        let (usage, threads) = (Rc::clone(&self.usage), self.threads.clone());
        let link = Rc::clone(&self.link);
        let out = self.out.summary(MAX_SUMMARY);
        spawn_local(async move {
            let _ = usage.report().await;
            let (mut active, mut idle, mut requests) = (0, 0, 0);
            for counters in threads.iter().map(|thread| thread.counters()) {
                let busy = counters.active.load(Relaxed);
                active += busy;
                idle += counters.open().saturating_sub(busy);
                requests += counters.requests.load(Relaxed);
            }
            // If the supervisor has gone, this process ends soon.
            let _ = link.send(&ToSupervisor::Pong { number, active, idle, requests, out });
        });
    }
}
