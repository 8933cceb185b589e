//! A connection: chooses the protocol that it speaks and serves its requests with the pipeline.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use howdah_config::CleartextHttp2;
use howdah_http::drain::{DrainRegistration, Phase, Signal};
use howdah_http::eviction::Client;
use howdah_http::exchange::Handler;
use howdah_http::h1::{self, Refusal};
use howdah_http::message::ConnectionInfo;
use howdah_http::{fastcgi, h2, respond};
use howdah_limits::at_once::Permit;
use howdah_limits::rules::{self, TooManyConnections};
use howdah_limits::sessions;
use howdah_pipeline::handler::RequestHandler;
use howdah_pipeline::listener::Accepted;
use howdah_pipeline::thread::RouterThread;
use howdah_routing::snapshot::Listener;
use howdah_sys::clock;
use howdah_tls::{HandshakeOutcome, TlsListener};
use pin_project_lite::pin_project;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::session::{self, count_handshake};
use crate::stream::Stream;

/// Maximum number of bytes read and dropped from a client that speaks another protocol.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024;

/// Starts the task of this thread that serves a connection to its end. The caller has counted the
/// connection as accepted; then it is counted as closed.
pub fn start(thread: &Rc<RouterThread>, accepted: Accepted) {
    let Accepted { stream, info, listener } = accepted;
    let drain = thread.listeners.connection(&listener);
    drain.accepted_from(Client::of(info.peer));
    let snapshot = thread.snapshot_for(&listener);
    let found = snapshot.listeners.get(&*listener);
    let balancers = found.and_then(|found| found.balancers.as_ref());
    let has_proxy_header = balancers.is_some_and(|balancers| balancers.matches(info.peer));
    if let Some(allow) = found.and_then(|found| found.fastcgi.as_ref()?.allow.as_ref())
        && !allow.matches(info.peer)
    {
        let problem = "connection closed: \"allow\" of the listener does not have the address";
        return RequestHandler::new(thread, &listener)
            .log_client_error(&info, format_args!("{problem}"));
    }
    let protocol = found.map_or(Protocol::Plain(CleartextHttp2::Never), Protocol::of);
    let handler = RequestHandler::new(thread, &listener);
    // The client behind a balancer is not known yet.
    let permits = match found.filter(|_| !has_proxy_header) {
        Some(found) => count(found, &info),
        None => Ok(Vec::new()),
    };
    let Ok(permits) = permits else { return };
    let stream = Stream::new(stream);
    // One task type per protocol: the task of a plain connection stays small.
    match protocol {
        protocol if has_proxy_header => {
            spawn(thread, permits, serve_proxied(handler, protocol, stream, info, drain));
        }
        Protocol::Tls(tls) => spawn(thread, permits, serve_tls(handler, tls, stream, info, drain)),
        Protocol::FastCgi => {
            spawn(thread, permits, fastcgi::serve(stream, info, handler, drain));
        }
        Protocol::Session(tls) => {
            spawn(thread, permits, session::serve(handler, tls, stream, info, drain, false));
        }
        Protocol::Plain(CleartextHttp2::Never) => {
            spawn(thread, permits, h1::serve(stream, info, handler, drain));
        }
        Protocol::Plain(http2) => {
            spawn(thread, permits, serve_cleartext(handler, http2, stream, info, drain));
        }
    }
}

/// Counts a connection of a listener by its limits.
pub(crate) fn count(
    listener: &Listener,
    info: &ConnectionInfo,
) -> Result<Vec<Permit>, TooManyConnections> {
    let now = clock::monotonic_us() * 1000;
    match listener.session {
        None => rules::connect(&*listener.limit, info.peer, now),
        Some(_) => sessions::begin(&listener.limit, info.peer, now),
    }
}

/// Serves a connection as a task, which holds the permits. Without any it is smaller.
pub(crate) fn spawn(
    thread: &Rc<RouterThread>,
    permits: Vec<Permit>,
    serving: impl Future<Output = ()> + 'static,
) {
    let thread = Rc::clone(thread);
    drop(if permits.is_empty() {
        spawn_local(InTurns { thread, task: serving })
    } else {
        spawn_local(InTurns {
            thread,
            task: async move {
                serving.await;
                drop(permits);
            },
        })
    });
}

pin_project! {
    /// A task of a thread that takes responses of scripts between the turns of its tasks.
    struct InTurns<F> {
        thread: Rc<RouterThread>,
        #[pin]
        task: F,
    }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.thread.php.begin_turn();
        this.task.poll(cx)
    }
}

/// The protocol of a listener's connections.
enum Protocol {
    Tls(Arc<TlsListener>),
    FastCgi,
    /// Another protocol than HTTP, with TLS or without.
    Session(Option<Arc<TlsListener>>),
    Plain(CleartextHttp2),
}

impl Protocol {
    fn of(listener: &Listener) -> Protocol {
        match &listener.tls {
            tls if listener.session.is_some() => Protocol::Session(tls.clone()),
            Some(tls) => Protocol::Tls(Arc::clone(tls)),
            None if listener.fastcgi.is_some() => Protocol::FastCgi,
            None => Protocol::Plain(listener.http2),
        }
    }
}

/// Reads the header of the PROXY protocol that a balancer sends, and serves its client.
async fn serve_proxied(
    handler: RequestHandler,
    protocol: Protocol,
    mut stream: Stream,
    mut info: Arc<ConnectionInfo>,
    drain: DrainRegistration,
) {
    let header = {
        let header = pin!(timeout(handler.limits().header_timeout, stream.proxy_header()));
        drain.unless_evicted(header).await
    };
    let Some(header) = header else { return };
    let Some(header) = header.ok().flatten() else {
        return handler.log_client_error(
            &info,
            format_args!("the connection does not begin with a PROXY protocol header"),
        );
    };
    if let Some((client, target)) = header.addresses {
        let shown = ConnectionInfo { peer: Some(client), local: Some(target), ..(*info).clone() };
        info = Arc::new(ConnectionInfo { tls: header.tls, ..shown });
    }
    let _permits = {
        let (snapshot, listener) = handler.listener_snapshot();
        match snapshot.listeners.get(listener).map(|found| count(found, &info)) {
            Some(Ok(permits)) => permits,
            Some(Err(_)) => return,
            None => Vec::new(),
        }
    };
    match protocol {
        Protocol::Tls(tls) => serve_tls(handler, tls, stream, info, drain).await,
        Protocol::FastCgi => fastcgi::serve(stream, info, handler, drain).await,
        Protocol::Session(tls) => {
            let is_proxied = header.addresses.is_some();
            Box::pin(session::serve(handler, tls, stream, info, drain, is_proxied)).await;
        }
        Protocol::Plain(CleartextHttp2::Never) => h1::serve(stream, info, handler, drain).await,
        Protocol::Plain(http2) => serve_cleartext(handler, http2, stream, info, drain).await,
    }
}

/// Serves HTTP/2 if the client begins with its preface. Otherwise serves HTTP/1, or closes the
/// connection if only HTTP/2 is served.
async fn serve_cleartext(
    handler: RequestHandler,
    http2: CleartextHttp2,
    mut stream: Stream,
    info: Arc<ConnectionInfo>,
    drain: DrainRegistration,
) {
    if begins_with_http2(&handler, &mut stream, &drain).await {
        h2::serve(Box::new(stream), info, || handler.for_stream(), drain).await;
        return;
    }
    if http2 != CleartextHttp2::Only {
        h1::serve(stream, info, &handler, drain).await;
        return;
    }
    // Closing a socket with unread bytes would send a reset.
    let _ = stream.shutdown().await;
    let (mut rest, mut nowhere) = (stream.take(MAX_DISCARDED_BYTES), tokio::io::sink());
    let rest = tokio::io::copy(&mut rest, &mut nowhere);
    let rest = pin!(timeout(handler.limits().header_timeout, rest));
    let _ = drain.unless_evicted(rest).await;
}

/// Returns true if the client begins with the preface of HTTP/2 before the header timeout.
async fn begins_with_http2(
    handler: &RequestHandler,
    stream: &mut Stream,
    drain: &DrainRegistration,
) -> bool {
    let header_timeout = tokio::time::sleep(handler.limits().header_timeout);
    let drained = poll_fn(|cx| match drain.poll_waiting(Phase::Incomplete, cx) {
        Signal::None => Poll::Pending,
        Signal::Drain if drain.may_begin() => Poll::Pending,
        Signal::Drain | Signal::Evict => Poll::Ready(()),
    });
    let give_up = async {
        tokio::select! {
            () = header_timeout => {}
            () = drained => {}
        }
    };
    stream.begins_with(h2::PREFACE, give_up).await
}

/// Completes the TLS handshake and serves the protocol that it has chosen.
async fn serve_tls(
    handler: RequestHandler,
    tls: Arc<TlsListener>,
    stream: Stream,
    info: Arc<ConnectionInfo>,
    drain: DrainRegistration,
) {
    let time = handler.limits().header_timeout;
    let challenges = &handler.thread().shared.challenges;
    let mut handshake = Box::pin(howdah_tls::handshake(&tls, stream, &drain, time, challenges));
    let Some(shaken) = drain.unless_evicted(handshake.as_mut()).await else { return };
    drop(handshake);
    match shaken {
        HandshakeOutcome::Encrypted(stream, facts) => {
            stream.transport().acknowledge();
            // A reference to the facts would keep room for them in the task.
            count_handshake(&tls, facts.protocol, facts.is_resumed);
            let handshake = Some(Arc::new(facts));
            let info = Arc::new(ConnectionInfo { tls: true, handshake, ..(*info).clone() });
            if stream.session().alpn_protocol() == Some(b"h2") {
                h2::serve(stream, info, || handler.for_stream(), drain).await;
            } else {
                h1::serve(*stream, info, &handler, drain).await;
            }
        }
        HandshakeOutcome::NotTls(stream, bytes) => {
            let refusal = Refusal::PlainOnTls;
            let advice = "TLS is spoken here: ask for https, not http";
            let response = respond::refuse_with_advice(refusal, advice);
            let refused = h1::refuse(stream, info, &handler, drain, &bytes, refusal, response);
            Box::pin(refused).await;
        }
        HandshakeOutcome::ChallengeAnswered => {}
        HandshakeOutcome::Failed(error) => {
            tls.counters().failed.fetch_add(1, Relaxed);
            handler.log_client_error(&info, format_args!("TLS handshake: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_tls::TlsConnection;

    fn size<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_that_waits_is_a_small_task() {
        // Memory of a task: the runtime adds 104 bytes and rounds up to a multiple of 128.
        let size = size(h1::serve::<Stream, RequestHandler>);
        assert!(size <= 280, "{size} bytes");
    }

    #[test]
    fn a_connection_with_tls_has_little_beside_the_library_s_state() {
        fn size<A, B, C, D, E, F: Future>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
            size_of::<F>()
        }
        let (size, state) = (size(serve_tls), size_of::<TlsConnection<Stream>>());
        assert!(size <= state + 640, "{size} bytes, {state} of them are the library's");
    }
}
