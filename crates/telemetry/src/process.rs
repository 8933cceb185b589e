//! The process: takes messages of the supervisor, and spans of routers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use howdah_sys::log::Log;
use howdah_sys::sandbox::unprivileged;
use howdah_sys::{event_loop, process};
use howdah_wire::messages::ToTelemetry;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::export::{self, Shared, Target};
use crate::queue::Queue;
use crate::report::Report;
use crate::socket::Socket;

/// Maximum time for the last spans.
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
    let spans = descriptors.into_iter().next();
    let spans = Socket::new(spans.ok_or_else(|| io::Error::other("there is no socket of spans"))?)?;
    if sandbox {
        unprivileged::enter(unprivileged::FILES_OF_CLIENTS);
    }
    let shared = Rc::new(Shared {
        queue: Queue::default(),
        sending: Default::default(),
        target: Default::default(),
        interrupted: Notify::new(),
        report: Report::new(Log::standard_error()?),
    });
    let exporter = {
        let shared = Rc::clone(&shared);
        spawn_local(async move { export::run(&shared).await })
    };
    loop {
        tokio::select! {
            biased;
            message = supervisor.message() => match message? {
                Some((ToTelemetry::Configure { route }, files)) => {
                    let target = Target::new(route, files.into_iter().next());
                    shared.target.replace(Some(Rc::new(target)));
                    shared.queue.changed.notify_one();
                    shared.interrupted.notify_one();
                }
                Some((ToTelemetry::Reopened {}, files)) => {
                    let Some(log) = files.into_iter().next() else { continue };
                    process::set_output_streams(log.as_fd(), log.as_fd())?;
                    shared.report.log().reopen(log);
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
        }
    }
    while let Some(packet) = spans.receive_now() {
        shared.queue.add(&packet);
    }
    shared.queue.is_finishing.set(true);
    shared.queue.changed.notify_one();
    shared.interrupted.notify_one();
    if tokio::time::timeout(FINISH_TIME, exporter).await.is_err() {
        shared.queue.lose(shared.sending.get() + shared.queue.len() as u64);
    }
    shared.report.ended(shared.queue.lost());
    Ok(())
}
