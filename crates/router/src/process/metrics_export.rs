//! Sends the metrics of the server to the telemetry process, at the interval of the document. That
//! process takes them or not: nothing waits for it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_metrics::{Format, page};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;
use howdah_sys::packet;
use howdah_sys::packets::to_sealed_memory;
use howdah_wire::metrics::{MAX_BYTES, MetricsTimes};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::MissedTickBehavior;

use super::command::Commands;
use super::metrics::facts;

/// Minimum time between two lines about metrics that are lost.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// The interval of the current document; `None` if metrics are not sent.
pub(super) type Interval = Option<Duration>;

/// Returns the interval of a document.
pub(super) fn interval(snapshot: &Snapshot) -> Interval {
    let telemetry = snapshot.config.settings.telemetry.as_ref();
    telemetry.and_then(|one| one.metrics.as_ref()).map(|metrics| metrics.interval)
}

/// Sends metrics until the sender of the interval is dropped: at once when there is another
/// interval, and then at each of its ends.
pub(super) fn start(
    mut interval: watch::Receiver<Interval>,
    socket: Option<OwnedFd>,
    commands: Commands,
) {
    // The supervisor has logged why there is none.
    let Some(socket) = socket else { return };
    spawn_local(async move {
        let mut logged_at = None;
        loop {
            let current = *interval.borrow_and_update();
            let sending = async {
                let Some(pause) = current else { return std::future::pending().await };
                let mut timer = tokio::time::interval(pause);
                timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    timer.tick().await;
                    if let Err(error) = send(&socket, &commands).await {
                        log(&error, &mut logged_at, &commands);
                    }
                }
            };
            tokio::select! {
                () = sending => {}
                changed = interval.changed() => if changed.is_err() { return },
            }
        }
    });
}

/// Sends the metrics of this moment.
async fn send(socket: &OwnedFd, commands: &Commands) -> io::Result<()> {
    let (status, process) = facts(commands).await;
    let times = MetricsTimes {
        started: nanoseconds(commands.started.0),
        measured: nanoseconds(SystemTime::now()),
    };
    let totals = commands.usage.totals.borrow();
    let families = page(&status, &totals, &process, Format::Protobuf);
    if families.len() as u64 > MAX_BYTES {
        let problem = format!("they have more than {} MiB", MAX_BYTES >> 20);
        return Err(io::Error::other(problem));
    }
    let memory = to_sealed_memory(&families)?;
    packet::send(socket, &times.encode(), &[memory.as_fd()]).map_err(|error| match error {
        rustix::io::Errno::AGAIN => {
            io::Error::other("the telemetry process has not taken the last ones")
        }
        error => error.into(),
    })
}

fn log(error: &io::Error, logged_at: &mut Option<Instant>, commands: &Commands) {
    if logged_at.is_none_or(|at| at.elapsed() >= LINE_INTERVAL) {
        *logged_at = Some(Instant::now());
        let line = format_args!("telemetry: metrics are not sent: {error}");
        commands.shared.log.write(Level::Warn, line);
    }
}

/// Returns a time in nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
