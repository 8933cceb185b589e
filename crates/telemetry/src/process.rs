//! The process: takes messages of the supervisor, and spans and metrics of routers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use howdah_sys::log::Log;
use howdah_sys::sandbox::unprivileged;
use howdah_sys::{event_loop, process};
use howdah_wire::lost_spans::LostSpans;
use howdah_wire::messages::ToTelemetry;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::export::{self, Shared};
use crate::metrics::MetricsState;
use crate::queue::Queue;
use crate::report::Report;
use crate::socket::Socket;
use crate::target::{Signal, Target};

/// Maximum time for the last spans and metrics.
const FINISH_TIME: Duration = Duration::from_secs(2);

/// Runs the process on the socket that the supervisor has passed. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    event_loop::run("telemetry process", serve(socket))
}

async fn serve(socket: OwnedFd) -> io::Result<()> {
    let supervisor = Socket::new(socket)?;
    let first = supervisor.message().await?;
    let Some((ToTelemetry::Hello { sandbox }, descriptors)) = first else {
        return Err(io::Error::other("the supervisor's first message is not Hello"));
    };
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(|| io::Error::other("a socket is missing"));
    let (spans, metrics) = (Socket::new(next()?)?, Socket::new(next()?)?);
    let lost = LostSpans::new(descriptors.next());
    if sandbox {
        unprivileged::enter(unprivileged::FILES_OF_CLIENTS);
    }
    let log = Rc::new(Log::standard_error()?);
    let shared = Rc::new(Shared {
        queue: Queue::new(lost),
        sending: Default::default(),
        target: Default::default(),
        interrupted: Notify::new(),
        report: Report::new(Rc::clone(&log), Signal::Spans),
    });
    let newest = Rc::new(MetricsState::new(Report::new(Rc::clone(&log), Signal::Metrics)));
    let exporters = {
        let (shared, newest) = (Rc::clone(&shared), Rc::clone(&newest));
        spawn_local(async move { tokio::join!(newest.run(), export::run(&shared)) })
    };
    loop {
        tokio::select! {
            biased;
            message = supervisor.message() => match message? {
                Some((ToTelemetry::Configure { route }, files)) => {
                    let (target, target_of_metrics) = Target::of(route, files.into_iter().next());
                    newest.set_target(target_of_metrics);
                    shared.target.replace(Some(Rc::new(target)));
                    shared.queue.changed.notify_one();
                    shared.interrupted.notify_one();
                }
                Some((ToTelemetry::Reopened {}, files)) => {
                    let Some(file) = files.into_iter().next() else { continue };
                    process::set_output_streams(file.as_fd(), file.as_fd())?;
                    log.reopen(file);
                }
                Some((ToTelemetry::Finish {}, _)) => break,
                Some((ToTelemetry::Hello { .. }, _)) => {
                    return Err(io::Error::other("the supervisor repeats Hello"));
                }
                None => return Ok(()),
            },
            packet = spans.receive() => match packet? {
                Some((packet, _)) => shared.queue.add(&packet),
                None => break,
            },
            packet = metrics.receive() => match packet? {
                Some((packet, descriptors)) => newest.add(&packet, descriptors),
                None => break,
            },
        }
    }
    while let Some((packet, _)) = spans.receive_now() {
        shared.queue.add(&packet);
    }
    while let Some((packet, descriptors)) = metrics.receive_now() {
        newest.add(&packet, descriptors);
    }
    newest.finish();
    shared.queue.is_finishing.set(true);
    shared.queue.changed.notify_one();
    shared.interrupted.notify_one();
    if tokio::time::timeout(FINISH_TIME, exporters).await.is_err() {
        shared.queue.lose(shared.sending.get() + shared.queue.len() as u64);
    }
    shared.report.ended(shared.queue.lost());
    Ok(())
}
