//! Sends spans, message by message, and tries again where OTLP permits it.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_tls::AnonymousClient;
use howdah_wire::messages::TelemetryRoute;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::connection::{Connection, Failure};
use crate::otlp;
use crate::queue::Queue;
use crate::report::Report;

/// Maximum time for which a span waits for others of its message.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Maximum time of an attempt after the connection.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// First pause before another attempt; each further one is twice as long.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause that the server has not asked for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Maximum time for which a message is tried again. Then its spans are lost, so that a server which
/// refuses one message does not get only old ones.
const MAX_TRYING_TIME: Duration = Duration::from_secs(300);

/// A server, and how to connect to it.
pub(crate) struct Target {
    pub(crate) route: TelemetryRoute,
    /// The client of TLS; an error is why there is none.
    tls: Result<Option<AnonymousClient>, String>,
}

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

impl Target {
    /// Creates the target of a server. `authorities`: the file that the document names.
    pub(crate) fn new(route: TelemetryRoute, authorities: Option<OwnedFd>) -> Target {
        let tls = if route.is_tls {
            let protocol: &[u8] = if route.is_grpc { b"h2" } else { b"http/1.1" };
            let client = match &route.authorities {
                Some(path) => AnonymousClient::of_file(path, authorities)
                    .map_err(|problem| format!("\"authorities\": {problem}")),
                None => AnonymousClient::of_system(),
            };
            client.map(|client| Some(client.speaking(protocol)))
        } else {
            Ok(None)
        };
        Target { route, tls }
    }

    /// Returns the server's name in messages.
    fn name(&self) -> String {
        let TelemetryRoute { host, port, is_tls, .. } = &self.route;
        let scheme = if *is_tls { "https" } else { "http" };
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    }
}

/// Sends spans until no more follow and all are sent, or lost.
pub(crate) async fn run(shared: &Shared) {
    let mut connection = None;
    while let Some((target, spans)) = next_batch(shared).await {
        shared.sending.set(spans.len() as u64);
        let message = otlp::encode(&target.route.attributes, &spans);
        let is_sent =
            deliver(shared, &target, &mut connection, Bytes::from(message), spans.len()).await;
        shared.sending.set(0);
        if is_sent {
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

/// A connection, and the server that it leads to.
type Open = Option<(Rc<Target>, Connection)>;

/// Sends a message, again and again if need be. Returns true if the server has taken it; otherwise
/// its spans are lost.
async fn deliver(
    shared: &Shared,
    target: &Rc<Target>,
    open: &mut Open,
    message: Bytes,
    spans: usize,
) -> bool {
    let (started, mut pause) = (Instant::now(), MIN_PAUSE);
    // The server may have changed meanwhile.
    let mut target = Rc::clone(target);
    loop {
        let failure = match attempt(shared, &target, open, message.clone()).await {
            Ok(()) => return true,
            Err(failure) => failure,
        };
        let queue = &shared.queue;
        let is_last = match &failure {
            Failure::Permanent(_) => true,
            Failure::Temporary(..) => {
                queue.is_finishing.get() || started.elapsed() >= MAX_TRYING_TIME
            }
        };
        if is_last {
            queue.lose(spans as u64);
        }
        shared.report.failed(&target.name(), failure.problem(), queue.lost(), Instant::now());
        let Failure::Temporary(_, wanted) = failure else { return false };
        if is_last {
            return false;
        }
        let wait = wanted.unwrap_or(pause);
        pause = (2 * pause).min(MAX_PAUSE);
        tokio::select! {
            () = sleep(wait) => {}
            () = shared.interrupted.notified() => {}
        }
        if let Some(current) = &*shared.target.borrow() {
            target = Rc::clone(current);
        }
    }
}

/// Sends a message once. A connection that was kept may have been closed by the server meanwhile;
/// then another one follows at once.
async fn attempt(
    shared: &Shared,
    target: &Rc<Target>,
    open: &mut Open,
    message: Bytes,
) -> Result<(), Failure> {
    let tls = match &target.tls {
        Ok(client) => client.as_ref(),
        Err(problem) => return Err(Failure::Temporary(problem.clone(), None)),
    };
    let kept = open.take_if(|(known, _)| Rc::ptr_eq(known, target));
    *open = None;
    let mut result = None;
    if let Some((_, mut connection)) = kept {
        result = Some(export(&mut connection, target, message.clone()).await);
        if matches!(result, Some(Ok(_))) {
            *open = Some((Rc::clone(target), connection));
        }
    }
    let result = match result {
        // It may be that of the server, which then answers the same again.
        None | Some(Err(Failure::Temporary(_, None))) => {
            let mut connection = Connection::open(&target.route, tls).await?;
            let result = export(&mut connection, target, message).await;
            *open = Some((Rc::clone(target), connection));
            result
        }
        Some(result) => result,
    };
    match result {
        Ok(refused) => {
            if let Some((refused, reason)) = refused {
                // The number is the server's claim.
                let refused = u64::try_from(refused).unwrap_or(0).min(shared.sending.get());
                shared.queue.lose(refused);
                shared.report.partly_refused(&target.name(), refused, &reason, Instant::now());
            }
            Ok(())
        }
        Err(failure) => {
            *open = None;
            Err(failure)
        }
    }
}

async fn export(
    connection: &mut Connection,
    target: &Target,
    message: Bytes,
) -> Result<crate::connection::Refused, Failure> {
    let exported = timeout(EXPORT_TIMEOUT, connection.export(&target.route, message)).await;
    exported.unwrap_or_else(|_| {
        let seconds = EXPORT_TIMEOUT.as_secs();
        Err(Failure::Temporary(format!("no answer within {seconds} s"), None))
    })
}
