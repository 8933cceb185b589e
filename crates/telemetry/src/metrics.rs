//! Metrics: the newest wait to be sent. Each set of them has all totals, so older ones are not
//! needed once there are newer ones.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_sys::packets::from_sealed_memory;
use howdah_wire::metrics::{MAX_BYTES, MetricsTimes};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::delivery::{Delivery, Pauses};
use crate::otlp::metrics::Messages;
use crate::report::Report;
use crate::target::Target;

/// Metrics as a router has sent them.
pub(crate) struct Received {
    times: MetricsTimes,
    /// Families, each after its length.
    families: Vec<u8>,
}

/// Outcome of a message.
enum Outcome {
    Taken,
    /// It is not sent again: the server refuses it, or the process ends.
    Refused,
    /// There are newer metrics, or there is another server.
    Outdated,
}

/// State that the exporter shares with the receiver of metrics.
pub(crate) struct MetricsState {
    newest: RefCell<Option<Received>>,
    /// The server; `None` if there is none, or the supervisor has not named it yet.
    target: RefCell<Option<Rc<Target>>>,
    /// No more metrics follow.
    is_finishing: Cell<bool>,
    /// Notified of every change of this state.
    changed: Notify,
    report: Report,
}

impl MetricsState {
    /// Creates the state without metrics and without a server.
    pub(crate) fn new(report: Report) -> MetricsState {
        let (newest, target, is_finishing, changed) = Default::default();
        MetricsState { newest, target, is_finishing, changed, report }
    }

    /// Takes metrics of a router. What no router sends is ignored.
    pub(crate) fn add(&self, packet: &[u8], descriptors: Vec<OwnedFd>) {
        let Ok(times) = MetricsTimes::decode(packet) else { return };
        let memory = descriptors.into_iter().next();
        let Ok(families) = from_sealed_memory(memory, MAX_BYTES) else { return };
        self.newest.replace(Some(Received { times, families }));
        self.changed.notify_one();
    }

    /// Sends metrics to another server from now on.
    pub(crate) fn set_target(&self, target: Option<Target>) {
        self.target.replace(target.map(Rc::new));
        self.changed.notify_one();
    }

    /// Lets [`MetricsState::run`] return when it has tried to send the newest metrics.
    pub(crate) fn finish(&self) {
        self.is_finishing.set(true);
        self.changed.notify_one();
    }

    /// Sends the newest metrics until no more follow.
    pub(crate) async fn run(&self) {
        let (mut delivery, mut pauses) = (Delivery::default(), Pauses::default());
        while let Some(metrics) = self.next().await {
            self.send(metrics, &mut delivery, &mut pauses).await;
        }
    }

    async fn next(&self) -> Option<Received> {
        loop {
            let metrics = self.target.borrow().as_ref().and_then(|_| self.newest.take());
            if metrics.is_some() || self.is_finishing.get() {
                return metrics;
            }
            self.changed.notified().await;
        }
    }

    /// Sends metrics, in as many messages as they need.
    async fn send(&self, metrics: Received, delivery: &mut Delivery, pauses: &mut Pauses) {
        let Some(target) = self.target() else { return };
        let messages = Messages::new(&metrics.families, metrics.times, &target.route);
        for (message, points) in messages {
            match self.deliver(message.into(), points, &target, delivery, pauses).await {
                Outcome::Taken => {}
                Outcome::Refused => return,
                Outcome::Outdated => {
                    // If there are no newer ones, there is another server.
                    self.newest.borrow_mut().get_or_insert(metrics);
                    return;
                }
            }
        }
        *pauses = Pauses::default();
        self.report.succeeded(&target.name(), 0);
    }

    /// Sends a message with this number of data points, again and again if need be.
    async fn deliver(
        &self,
        message: Bytes,
        points: u64,
        target: &Rc<Target>,
        delivery: &mut Delivery,
        pauses: &mut Pauses,
    ) -> Outcome {
        loop {
            let failure = match delivery.attempt(target, message.clone()).await {
                Ok(refused) => {
                    if let Some((refused, reason)) = refused {
                        // The number is the server's claim.
                        let refused = u64::try_from(refused).unwrap_or(0).min(points);
                        let (server, now) = (target.name(), Instant::now());
                        self.report.partly_refused(&server, refused, &reason, now);
                    }
                    return Outcome::Taken;
                }
                Err(failure) => failure,
            };
            let pause = pauses.after(&failure).filter(|_| !self.is_finishing.get());
            let (name, now) = (target.name(), Instant::now());
            self.report.failed(&name, failure.problem(), pause.is_some(), 0, now);
            let Some(pause) = pause else { return Outcome::Refused };
            self.wait(pause, target).await;
            if self.newest.borrow().is_some() || self.has_other_target(target) {
                return Outcome::Outdated;
            }
        }
    }

    fn target(&self) -> Option<Rc<Target>> {
        self.target.borrow().clone()
    }

    fn has_other_target(&self, target: &Rc<Target>) -> bool {
        self.target.borrow().as_ref().is_none_or(|current| !Rc::ptr_eq(current, target))
    }

    /// Waits, but not after the end, or when there is another server.
    async fn wait(&self, pause: Duration, target: &Rc<Target>) {
        let interrupted = async {
            while !self.is_finishing.get() && !self.has_other_target(target) {
                self.changed.notified().await;
            }
        };
        let _ = timeout(pause, interrupted).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use howdah_sys::log::Log;
    use howdah_sys::packets::{to_memory, to_sealed_memory};

    use super::*;
    use crate::target::Signal;

    fn state() -> MetricsState {
        let log = Log::new(File::into(tempfile::tempfile().unwrap()));
        MetricsState::new(Report::new(Rc::new(log), Signal::Metrics))
    }

    #[test]
    fn the_newest_metrics_wait() {
        let state = state();
        for measured in 1..4 {
            let packet = MetricsTimes { started: 0, measured }.encode();
            let memory = to_sealed_memory(&measured.to_le_bytes()).unwrap();
            state.add(&packet, vec![memory]);
        }
        let newest = state.newest.take().unwrap();
        assert_eq!((newest.times.measured, newest.families), (3, 3_u64.to_le_bytes().to_vec()));
    }

    #[test]
    fn what_no_router_sends_is_ignored() {
        let state = state();
        let packet = MetricsTimes { started: 1, measured: 2 }.encode();
        state.add(&packet, Vec::new());
        state.add(&packet, vec![to_memory(b"x").unwrap()]);
        state.add(&packet, vec![File::open("/etc/passwd").unwrap().into()]);
        state.add(b"x", vec![to_sealed_memory(b"x").unwrap()]);
        assert!(state.newest.take().is_none());
    }
}
