//! Stops the router.
//!
//! Before a graceful shutdown there may be a time in which connections are still accepted, and each
//! response closes its connection ([`ControlThread::leave`]): load balancers learn of the end.
//!
//! A fast shutdown drops everything. A graceful one has two steps, and a request for a fast one
//! ends either at once:
//!
//! If another server has taken the listeners over (an upgrade), connections have more time, see
//! [`Drain::hand_over`](howdah_http::drain::Drain::hand_over).
//!
//! 1. New connections are refused, and those that are open end with the request in progress.
//!    Applications run on meanwhile: queued requests are served, workers that die are replaced,
//!    scripts beyond their time are ended.
//! 2. Workers end. A script may continue after its response is complete; it is waited for. A worker
//!    that does not end although it has no request is not.

use std::io;
use std::time::{Duration, Instant};

use howdah_http::drain::HandedOver;
use howdah_http::tunnel;
use howdah_pipeline::thread::ThreadCommand;
use howdah_sys::log::Level;
use howdah_wire::messages::{FromSupervisor, HAND_OVER_TIMEOUT, ToSupervisor};

use super::control_thread::{ControlThread, sleep_until};
use super::threads::send_and_wait;

/// Interval between two checks whether workers are left, or the former router.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Time for which idle connections wait for their last request after a hand-over.
const IDLE_GRACE: Duration = Duration::from_secs(3);

/// The kind of shutdown to continue with.
#[derive(PartialEq, Eq)]
enum Mode {
    Unchanged,
    Fast,
}

impl ControlThread {
    /// Lets clients know that the server ends after this time. Meanwhile everything goes on.
    pub(super) fn leave(&mut self, time: Duration) {
        self.is_leaving = true;
        let Some(until) = Instant::now().checked_add(time) else { return };
        let deadlines = HandedOver {
            idle_until: until.into(),
            tunnels_until: until.checked_add(tunnel::DRAINING).map(Into::into),
            is_accepting: true,
        };
        self.threads.send(|| ThreadCommand::Leave(deadlines));
    }

    /// Stops, and waits until the supervisor ends this process.
    pub(super) async fn shut_down(mut self, graceful: bool, is_replaced: bool) -> io::Result<()> {
        let timeout = self.shared.snapshot.load().config.settings.shutdown_timeout;
        let timeout = timeout.or_else(|| is_replaced.then_some(HAND_OVER_TIMEOUT));
        let now = Instant::now();
        let deadline = timeout.filter(|_| graceful).and_then(|timeout| now.checked_add(timeout));
        let handed_over = is_replaced.then(|| HandedOver {
            idle_until: (now + IDLE_GRACE).into(),
            tunnels_until: deadline.map(Into::into),
            is_accepting: false,
        });
        if graceful {
            self.usage.report_until_end();
        } else {
            self.usage.report_last().await;
        }
        let mode = self.finish_connections(graceful, handed_over, deadline).await?;
        if mode == Mode::Unchanged && graceful {
            self.finish_scripts(deadline).await?;
        }
        self.usage.report_last().await;
        self.close_caches().await;
        self.shared.log.write(Level::Notice, "exiting");
        self.link.send(&ToSupervisor::Finished {})?;
        while self.link.receive().await?.is_some() {}
        Ok(())
    }

    async fn finish_connections(
        &mut self,
        graceful: bool,
        handed_over: Option<HandedOver>,
        deadline: Option<Instant>,
    ) -> io::Result<Mode> {
        let threads = self.threads.clone();
        let quit = move |finished| ThreadCommand::Quit { graceful, handed_over, finished };
        let former_ended = self.http3.former_ended();
        let finished = async move {
            send_and_wait(&threads, quit).await;
            if graceful {
                // Until the last thread had stopped accepting, it could hand connections over to
                // threads that had finished already. Those connections are before this command in
                // the queue.
                send_and_wait(&threads, quit).await;
                former_ended.await;
            }
        };
        tokio::pin!(finished);
        loop {
            let due = self.pools.tick()?;
            tokio::select! {
                () = &mut finished => return Ok(Mode::Unchanged),
                () = sleep_until(deadline) => {
                    self.log_cut_connections();
                    return Ok(Mode::Fast);
                }
                mode = self.handle_next(due) => {
                    if mode? == Mode::Fast {
                        return Ok(Mode::Fast);
                    }
                }
            }
        }
    }

    /// Logs how many connections the deadline closes.
    fn log_cut_connections(&self) {
        let open: u64 = self.threads.iter().map(|thread| thread.counters().open()).sum();
        self.shared.log.write(
            Level::Warn,
            format_args!("{open} connections are closed, as settings/shutdown_timeout has passed"),
        );
    }

    async fn finish_scripts(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.pools.close();
        let mut idle_since = None;
        while self.pools.has_workers(&mut idle_since) {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                break;
            }
            let due = now + CHECK_INTERVAL;
            if self.handle_next(Some(due)).await? == Mode::Fast {
                break;
            }
        }
        Ok(())
    }

    /// Handles the next message of the supervisor or request of a thread; returns without one when
    /// `due`. Safe to cancel.
    async fn handle_next(&mut self, due: Option<Instant>) -> io::Result<Mode> {
        tokio::select! {
            message = self.link.receive() => match message? {
                None | Some((FromSupervisor::Quit { graceful: false, .. }, _)) => {
                    return Ok(Mode::Fast);
                }
                Some((message, descriptors)) => self.on_message(message, descriptors)?,
            },
            Some(request) = self.thread_requests.recv() => self.pools.on_thread_request(request)?,
            () = sleep_until(due) => {}
        }
        Ok(Mode::Unchanged)
    }
}
