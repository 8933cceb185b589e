//! The time that a connection lasts: idle timeouts, and requests that the client abandons.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::tasks::StreamEnd;
use crate::limits::Limits;
use crate::timer::Timer;

/// Number of abandoned streams, less those that ended with a response, above which a connection is
/// closed.
pub(crate) const MAX_ABANDONED: u32 = 100;

/// Maximum time without a request after the server has announced the end of the connection.
pub(crate) const SHUTDOWN_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeouts and counts of a connection.
pub(crate) struct Lifetime {
    limits: Rc<Limits>,
    timer: Timer,
    idle_timeout: Duration,
    idle_since: Instant,
    /// Number of abandoned streams, less those that ended with a response.
    abandoned: u32,
    /// The end of the connection was announced.
    is_ending: bool,
}

impl Lifetime {
    /// Begins the wait for the first request, whose timeout is that of a head.
    pub fn new(limits: &Rc<Limits>) -> Self {
        Lifetime {
            limits: Rc::clone(limits),
            timer: Timer::default(),
            idle_timeout: limits.header_timeout.min(limits.idle_timeout),
            idle_since: Instant::now(),
            abandoned: 0,
            is_ending: false,
        }
    }

    /// Ends the wait for the first request.
    pub fn set_begun(&mut self) {
        self.idle_timeout = self.limits.idle_timeout;
    }

    /// Records that the end of the connection was announced.
    pub fn set_ending(&mut self) {
        self.is_ending = true;
        self.idle_timeout = SHUTDOWN_IDLE_TIMEOUT;
        self.idle_since = Instant::now();
    }

    /// Returns true if the end of the connection was announced.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Counts the end of a stream.
    pub fn count(&mut self, end: StreamEnd) {
        self.idle_since = Instant::now();
        self.abandoned = match end {
            StreamEnd::Answered => self.abandoned.saturating_sub(1),
            StreamEnd::Abandoned => self.abandoned + 1,
            StreamEnd::Refused => self.abandoned,
        };
    }

    /// Returns true if the client cancels more requests than it lets complete.
    pub fn is_abused(&self) -> bool {
        self.abandoned > MAX_ABANDONED
    }

    /// Ready when the client has not taken the end of its last response for too long: for the time that
    /// it may be idle while the connection does not end.
    pub fn poll_unacknowledged(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll(cx, self.idle_since + self.limits.idle_timeout)
    }

    /// Ready at the first of two times: when the client has not taken the output since `blocked` for
    /// too long (then true), and when the connection has no request for too long.
    pub fn poll_timeout(
        &mut self,
        blocked: Option<Instant>,
        is_idle: bool,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        let blocked = blocked.map(|since| since + self.limits.send_timeout);
        let idle = is_idle.then(|| self.idle_since + self.idle_timeout);
        let Some(deadline) = blocked.into_iter().chain(idle).min() else {
            return Poll::Pending;
        };
        self.timer.poll(cx, deadline).map(|()| Some(deadline) == blocked)
    }
}
