//! Active health checks: an HTTP request to each server, or only a connection, in regular intervals.
//!
//! A server becomes unhealthy after `fall` failed checks in a row, and healthy again after `rise`
//! successful ones. Each server has a task, which ends when the configuration no longer has the
//! upstream. For failures of requests see [`crate::servers::passive_health`].

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use howdah_config::{Health, Timeouts};
use howdah_http::timer::Timer;
use tokio::time::{sleep, timeout};

use crate::http2;
use crate::proxy::conversation::Conversation;
use crate::proxy::framing::Framing;
use crate::proxy::request;
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::upload::Upload;

/// Maximum number of bytes of a body that are searched.
const MAX_BODY: usize = 64 * 1024;

/// Starts the checks of an upstream on this thread, unless they are already running.
pub fn watch(thread: &Rc<UpstreamThread>, upstream: &Arc<Upstream>) {
    if upstream.config.health.is_none() || !upstream.claim_health_checks() {
        return;
    }
    for index in 0..upstream.servers.len() {
        tokio::task::spawn_local(check_repeatedly(
            Rc::clone(thread),
            Arc::downgrade(upstream),
            index,
        ));
    }
}

/// Checks one server until its upstream is gone.
async fn check_repeatedly(thread: Rc<UpstreamThread>, upstream: Weak<Upstream>, index: usize) {
    let mut streak = Streak::default();
    loop {
        let Some(upstream) = upstream.upgrade() else { return };
        let (Some(health), Some(server)) =
            (upstream.config.health.as_ref(), upstream.servers.get(index))
        else {
            return;
        };
        let check = async {
            if health.is_connect {
                let connected = upstream.connect_session(server, None).await;
                connected.map(drop).map_err(|failure| failure.to_string())
            } else if upstream.config.http2 {
                http2::health::check(&upstream, server, health, MAX_BODY).await
            } else {
                check(&upstream, server, health).await
            }
        };
        let problem = match timeout(health.timeout, check).await {
            Ok(Ok(())) => None,
            Ok(Err(problem)) => Some(problem),
            Err(_) => Some("no answer came in time".to_owned()),
        };
        if let Some(is_healthy) = streak.count(problem.is_none(), health)
            && upstream.set_healthy(server, is_healthy)
        {
            let (address, limit) = (&server.address, &upstream.log_limit);
            match problem {
                Some(problem) => thread.log_notice(
                    limit,
                    format_args!("\"{upstream}\": {address} is unhealthy: {problem}"),
                ),
                None => {
                    thread.log_notice(limit, format_args!("\"{upstream}\": {address} is healthy"))
                }
            }
        }
        let interval = health.interval;
        drop(upstream);
        sleep(interval).await;
    }
}

/// Number of checks with the same result in a row.
#[derive(Debug, Default)]
struct Streak {
    successes: u32,
    failures: u32,
}

impl Streak {
    /// Counts a check. Returns `Some(true)` (healthy) or `Some(false)` (unhealthy) after enough
    /// equal results, otherwise `None`.
    fn count(&mut self, has_succeeded: bool, health: &Health) -> Option<bool> {
        if has_succeeded {
            (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
            (self.successes >= health.rise).then_some(true)
        } else {
            (self.successes, self.failures) = (0, self.failures.saturating_add(1));
            (self.failures >= health.fall).then_some(false)
        }
    }
}

/// Timeout longer than any check; the caller limits its time.
const NO_LIMIT: Duration = Duration::from_secs(3600);

/// Checks a server once. Error: the problem.
async fn check(upstream: &Upstream, server: &Server, health: &Health) -> Result<(), String> {
    let connection = upstream.connect(server, None).await;
    let stream = connection.map_err(|failure| failure.to_string())?;
    let host = health.host.clone().unwrap_or_else(|| request::host(&server.origin));
    // HTTP/1.0, so that the response is not chunked.
    let head = format!("GET {} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n", health.uri);
    let timeouts = Timeouts {
        connect: NO_LIMIT,
        send: NO_LIMIT,
        first_byte: NO_LIMIT,
        read: NO_LIMIT,
        idle: NO_LIMIT,
        tunnel: NO_LIMIT,
    };
    let upload = Upload::without_body(head.into_bytes(), Framing::Length);
    let mut conversation = Conversation::new(stream, upload, false, &timeouts, Timer::default());
    let head = loop {
        let head = std::future::poll_fn(|cx| conversation.poll_head(cx)).await;
        let head = head.map_err(|failure| failure.to_string())?;
        if head.status >= 200 {
            break head;
        }
    };
    let (low, high) = health.status;
    if !(low..=high).contains(&head.status) {
        return Err(format!("the status is {}", head.status));
    }
    let Some(wanted) = &health.body else { return Ok(()) };
    loop {
        let input = conversation.input().as_bytes();
        if memchr::memmem::find(input, wanted.as_bytes()).is_some() {
            return Ok(());
        }
        if input.len() >= MAX_BODY {
            break;
        }
        match std::future::poll_fn(|cx| conversation.poll_more(cx)).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(failure) => return Err(failure.to_string()),
        }
    }
    Err(format!("the body does not contain \"{wanted}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rise_and_fall_count_checks_in_a_row() {
        let health = Health {
            uri: "/".to_owned(),
            host: None,
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            status: (200, 399),
            body: None,
            grpc: None,
            is_connect: false,
            rise: 2,
            fall: 3,
        };
        let mut streak = Streak::default();
        let checks = [false, false, true, false, false, false, true, true];
        let decided: Vec<_> = checks.iter().map(|check| streak.count(*check, &health)).collect();
        let (unhealthy, healthy) = (Some(false), Some(true));
        assert_eq!(decided, [None, None, None, None, None, unhealthy, None, healthy]);
    }
}
