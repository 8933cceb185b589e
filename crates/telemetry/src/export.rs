//! Sends spans, message by message, and tries again where OTLP permits it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::connection::Refused;
use crate::delivery::{Delivery, Pauses};
use crate::otlp;
use crate::queue::Queue;
use crate::report::Report;
use crate::target::Target;

/// Maximum time for which a span waits for others of its message.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Maximum time for which a message is tried again. Then its spans are lost, so that a server which
/// refuses one message does not get only old ones.
const MAX_TRYING_TIME: Duration = Duration::from_secs(300);

/// State that the exporter shares with the receiver of spans.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    /// Number of spans in the message that is being sent.
    pub(crate) sending: Cell<u64>,
    /// The server; `None` until the supervisor has named it.
    pub(crate) target: RefCell<Option<Rc<Target>>>,
    /// Notified of another server, and of the end; ends the pause before another attempt.
    pub(crate) interrupted: Notify,
    pub(crate) report: Report,
}

/// Sends spans until no more follow and all are sent, or lost.
pub(crate) async fn run(shared: &Shared) {
    let mut delivery = Delivery::default();
    while let Some((target, spans)) = next_batch(shared).await {
        shared.sending.set(spans.len() as u64);
        let message = otlp::spans::encode(&target.route.attributes, &spans);
        let message = Bytes::from(message);
        let taker = deliver(shared, target, &mut delivery, message, spans.len()).await;
        shared.sending.set(0);
        if let Some(target) = taker {
            shared.report.succeeded(&target.name(), shared.queue.lost());
        }
    }
}

/// Waits for the spans of a message. `None` if no more follow.
async fn next_batch(shared: &Shared) -> Option<(Rc<Target>, Vec<Box<[u8]>>)> {
    let queue = &shared.queue;
    loop {
        let is_finishing = queue.is_finishing.get();
        let target = shared.target.borrow().clone();
        let size = target.as_ref().map_or(1, |target| target.route.batch_size.max(1) as usize);
        match target {
            Some(target) if queue.len() > 0 => {
                if !queue.fills_message(size) && !is_finishing {
                    let enough = async {
                        while !queue.fills_message(size) && !queue.is_finishing.get() {
                            queue.changed.notified().await;
                        }
                    };
                    let _ = timeout(BATCH_TIME, enough).await;
                }
                return Some((target, queue.take(size)));
            }
            _ if is_finishing => return None,
            _ => queue.changed.notified().await,
        }
    }
}

/// Sends a message, again and again if need be. Returns the server that has taken it; otherwise its
/// spans are lost.
async fn deliver(
    shared: &Shared,
    mut target: Rc<Target>,
    delivery: &mut Delivery,
    message: Bytes,
    spans: usize,
) -> Option<Rc<Target>> {
    let (started, mut pauses) = (Instant::now(), Pauses::default());
    loop {
        let failure = match delivery.attempt(&target, message.clone()).await {
            Ok(refused) => {
                count_refused(shared, &target, refused);
                return Some(target);
            }
            Err(failure) => failure,
        };
        let queue = &shared.queue;
        let is_over = || queue.is_finishing.get() || started.elapsed() >= MAX_TRYING_TIME;
        let pause = pauses.after(&failure).filter(|_| !is_over());
        if pause.is_none() {
            queue.lose(spans as u64);
        }
        let (name, now) = (target.name(), Instant::now());
        shared.report.failed(&name, failure.problem(), pause.is_some(), queue.lost(), now);
        tokio::select! {
            () = sleep(pause?) => {}
            () = shared.interrupted.notified() => {}
        }
        // The server may have changed meanwhile.
        if let Some(current) = &*shared.target.borrow() {
            target = Rc::clone(current);
        }
    }
}

fn count_refused(shared: &Shared, target: &Target, refused: Refused) {
    let Some((refused, reason)) = refused else { return };
    // The number is the server's claim.
    let refused = u64::try_from(refused).unwrap_or(0).min(shared.sending.get());
    shared.queue.lose(refused);
    shared.report.partly_refused(&target.name(), refused, &reason, Instant::now());
}
