//! Asks for the status, once a second or less often if the server is slow to answer.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use howdah_questions::Status;
use tokio::sync::mpsc::{Receiver, channel};

use crate::{Control, Problem};

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Share of the time that the server may be busy with answers: one part in so many.
const SHARE: u32 = 10;

/// A sample and the time since the start.
pub(crate) type Sample = (Result<Status, Problem>, Duration);

/// Starts to ask, and returns the samples.
///
/// # Errors
/// There can be no further thread.
pub(crate) fn start(control: Arc<dyn Control>, begun: Instant) -> Result<Receiver<Sample>, String> {
    let (sender, receiver) = channel(1);
    let ask = move || {
        loop {
            let asked = Instant::now();
            let answer = control.request("GET", "/status", b"", TIMEOUT).and_then(|answer| {
                serde_json::from_value(answer).map_err(|error| {
                    Problem::Refused(format!("the status cannot be read: {error}"))
                })
            });
            let took = asked.elapsed();
            if sender.blocking_send((answer, asked.duration_since(begun))).is_err() {
                return;
            }
            // Whole seconds since the start, so that each of them has a sample.
            let pause = INTERVAL.max(took * SHARE);
            let next = asked.duration_since(begun).as_secs() + pause.as_secs().max(1);
            let next = begun + Duration::from_secs(next) + Duration::from_millis(1);
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    };
    let thread = thread::Builder::new().name("sampler".to_owned()).spawn(ask);
    thread.map_err(|error| format!("a thread cannot be started: {error}"))?;
    Ok(receiver)
}
