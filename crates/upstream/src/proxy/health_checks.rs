//! Health checks: servers are asked again and again, whether requests come or not.
//!
//! A server counts as well until a check has failed as often as the document says. One task for
//! each server asks; it ends when the configuration has the upstream no longer.

use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use howdah_config::{Health, Timeouts};
use howdah_http::timer::Timer;
use tokio::time::{sleep, timeout};

use crate::connections::connection::Connection;
use crate::proxy::conversation::Conversation;
use crate::proxy::request;
use crate::servers::upstream::{Server, Upstream};
use crate::thread::ProxyThread;
use crate::transfer::upload::Upload;

/// Bytes of a body that are looked at.
const MOST_BODY: usize = 64 * 1024;

/// Asks the servers of an upstream on this thread from now on.
pub fn watch(thread: &Rc<ProxyThread>, upstream: &Arc<Upstream>) {
    if upstream.config.health.is_none() || upstream.is_watched() {
        return;
    }
    for index in 0..upstream.servers.len() {
        tokio::task::spawn_local(ask_on(Rc::clone(thread), Arc::downgrade(upstream), index));
    }
}

/// Asks one server until its upstream is gone.
async fn ask_on(thread: Rc<ProxyThread>, upstream: Weak<Upstream>, index: usize) {
    let mut row = Row::default();
    loop {
        let Some(upstream) = upstream.upgrade() else { return };
        let (Some(health), Some(server)) =
            (upstream.config.health.as_ref(), upstream.servers.get(index))
        else {
            return;
        };
        let problem = match timeout(health.timeout, ask(&upstream, server, health)).await {
            Ok(Ok(())) => None,
            Ok(Err(problem)) => Some(problem),
            Err(_) => Some("no answer came in time".to_owned()),
        };
        if let Some(well) = row.count(problem.is_none(), health)
            && upstream.checked(server, well)
        {
            let address = &server.address;
            match problem {
                Some(problem) => {
                    thread.note(
                        &upstream.log_limit,
                        format_args!("\"{upstream}\": {address} is unhealthy: {problem}"),
                    );
                }
                None => thread.note(
                    &upstream.log_limit,
                    format_args!("\"{upstream}\": {address} is healthy"),
                ),
            }
        }
        let interval = health.interval;
        drop(upstream);
        sleep(interval).await;
    }
}

/// Answers of one kind in a row.
#[derive(Debug, Default)]
struct Row {
    good: u32,
    bad: u32,
}

impl Row {
    /// Counts an answer. What the server is from now on, if there were enough.
    fn count(&mut self, good: bool, health: &Health) -> Option<bool> {
        if good {
            (self.good, self.bad) = (self.good.saturating_add(1), 0);
        } else {
            (self.good, self.bad) = (0, self.bad.saturating_add(1));
        }
        match good {
            true => (self.good >= health.rise).then_some(true),
            false => (self.bad >= health.fall).then_some(false),
        }
    }
}

/// Asks once. `Err` says what is wrong.
async fn ask(upstream: &Upstream, server: &Server, health: &Health) -> Result<(), String> {
    let connection = Connection::open(upstream, server, None).await;
    let stream = connection.map_err(|failure| failure.to_string())?;
    let host = health.host.clone().unwrap_or_else(|| request::host(&server.origin));
    // HTTP/1.0, so that the body comes as it is.
    let question =
        format!("GET {} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n", health.uri);
    let patient = Duration::from_secs(3600); // the caller limits the time
    let timeouts = Timeouts {
        connect: patient,
        send: patient,
        first_byte: patient,
        read: patient,
        idle: patient,
        tunnel: patient,
    };
    let question = Upload::head(question.into_bytes());
    let mut asked = Conversation::new(stream, question, false, &timeouts, Timer::default());
    let head = loop {
        let head = std::future::poll_fn(|cx| asked.poll_head(cx)).await;
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
        let come = asked.input().as_bytes();
        if memchr::memmem::find(come, wanted.as_bytes()).is_some() {
            return Ok(());
        }
        if come.len() >= MOST_BODY {
            break;
        }
        match std::future::poll_fn(|cx| asked.poll_more(cx)).await {
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
    fn so_many_answers_in_a_row_decide() {
        let health = Health {
            uri: "/".to_owned(),
            host: None,
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            status: (200, 399),
            body: None,
            rise: 2,
            fall: 3,
        };
        let mut row = Row::default();
        let answers = [false, false, true, false, false, false, true, true];
        let decided: Vec<_> = answers.iter().map(|good| row.count(*good, &health)).collect();
        let (ill, well) = (Some(false), Some(true));
        assert_eq!(decided, [None, None, None, None, None, ill, None, well]);
    }
}
