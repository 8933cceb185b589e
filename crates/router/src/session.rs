//! Sessions of other protocols than HTTP: their bytes are passed to a server.
//!
//! A session keeps the configuration with which it begins. A listener that is removed and a server
//! that is to end leave it alone: it goes on until its ends finish, or are silent for too long.

pub(crate) mod datagrams;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_config::{MailProtocol, Session, StartTls, Target};
use howdah_http::drain::{DrainRegistration, Phase, Signal};
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Handler, RequestRecord};
use howdah_http::forward::{End, Forwarded, forward};
use howdah_http::handling::Handling;
use howdah_http::message::{
    ConnectionFields, ConnectionInfo, FieldBlock, Fields, Request, Response, Version,
};
use howdah_http::timer::after;
use howdah_limits::bandwidth::Bandwidth;
use howdah_limits::sessions;
use howdah_mail_proxy::proxy::MailProxy;
use howdah_mail_proxy::session;
use howdah_pipeline::handler::RequestHandler;
use howdah_routing::snapshot::action::CompiledPass;
use howdah_stream::client_hello::{ClientHello, MAX_HELLO_BYTES};
use howdah_stream::connect::connect;
use howdah_stream::hops::Ends;
use howdah_stream::pace::pace;
use howdah_stream::steps::{Decision, Facts, Hello, choose};
use howdah_tls::{HandshakeOutcome, TlsListener};
use howdah_upstream::servers::upstream::Upstream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use crate::stream::Stream;

/// How a client has come.
#[derive(Debug, Clone, Copy)]
struct Came {
    /// The connection itself; `None` for a unix socket.
    ends: Option<Ends>,
    /// A balancer has named the client.
    is_proxied: bool,
}

/// Maximum time until the hello of a client has arrived that steps need.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a connection of a listener whose connections are passed on. `is_proxied` if a balancer has
/// named the client.
pub(crate) async fn serve(
    handler: RequestHandler,
    tls: Option<Arc<TlsListener>>,
    stream: Stream,
    info: Arc<ConnectionInfo>,
    drain: DrainRegistration,
    is_proxied: bool,
) {
    stream.keep_alive();
    let came = Came { ends: stream.ends().map(Ends::new), is_proxied };
    let proxy = mail_proxy(&handler);
    let starttls = tls.as_ref().and_then(|tls| tls.starttls());
    let (Some(tls), None) = (&tls, starttls) else {
        let starttls = tls.as_ref().zip(starttls.map(|begin| begin == StartTls::Required));
        return match proxy {
            Some(proxy) => {
                mail(handler, &proxy, stream, info, drain, starttls, came).await;
            }
            None => pass_on(handler, stream, info, drain, None, came).await,
        };
    };
    let time = handler.limits().header_timeout;
    let challenges = &handler.thread().shared.challenges;
    let mut handshake = Box::pin(howdah_tls::handshake(tls, stream, &drain, time, challenges));
    let Some(shaken) = drain.unless_evicted(handshake.as_mut()).await else { return };
    drop(handshake);
    match shaken {
        HandshakeOutcome::Encrypted(stream, facts) => {
            stream.transport().acknowledge();
            count_handshake(tls, facts.protocol, facts.is_resumed);
            let hello = ClientHello {
                server_name: facts.server_name.clone().into_bytes(),
                // None is agreed on.
                protocols: Vec::new(),
            };
            let handshake = Some(Arc::new(facts));
            let info = Arc::new(ConnectionInfo { tls: true, handshake, ..(*info).clone() });
            match proxy {
                Some(proxy) => {
                    mail(handler, &proxy, stream, info, drain, None, came).await;
                }
                None => pass_on(handler, stream, info, drain, Some(hello), came).await,
            }
        }
        HandshakeOutcome::NotTls(..) => {
            handler.log_client_error(&info, format_args!("the client does not speak TLS"));
        }
        HandshakeOutcome::ChallengeAnswered => {}
        HandshakeOutcome::Failed(error) => {
            tls.counters().failed.fetch_add(1, Relaxed);
            handler.log_client_error(&info, format_args!("TLS handshake: {error}"));
        }
    }
}

/// Returns the proxy of mail of a listener, if it has one.
fn mail_proxy(handler: &RequestHandler) -> Option<Arc<MailProxy>> {
    let (snapshot, name) = handler.listener_snapshot();
    match snapshot.listeners.get(name)?.session.as_ref()? {
        Session::Mail(name) => snapshot.mail.get(name).cloned(),
        Session::Tcp | Session::Udp => None,
    }
}

/// The applications of a listener.
struct Applications<'h>(&'h RequestHandler);

impl session::Scripts for Applications<'_> {
    fn ask<'s>(
        &'s self,
        application: &'s Target,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = Response> + 's>> {
        Box::pin(self.0.ask(application, request))
    }
}

/// Serves a session of mail.
async fn mail<S: AsyncRead + AsyncWrite + Unpin>(
    handler: RequestHandler,
    proxy: &Arc<MailProxy>,
    stream: S,
    info: Arc<ConnectionInfo>,
    drain: DrainRegistration,
    starttls: Option<(&Arc<TlsListener>, bool)>,
    came: Came,
) {
    let started_at = Instant::now();
    handler.begin_session();
    let thread = handler.thread();
    let protocol = match proxy.config.protocol {
        MailProtocol::Imap => "IMAP",
        MailProtocol::Pop3 => "POP3",
        MailProtocol::Smtp => "SMTP",
    };
    let mut session = describe(&info, thread.request_id(), ("LOGIN", &proxy.name, protocol));
    session.handling.set_site(Arc::clone(&proxy.name));
    let (resolver, limit) = {
        let (snapshot, name) = handler.listener_snapshot();
        let limit = snapshot.listeners.get(name).map(|listener| Arc::clone(&listener.limit));
        (snapshot.config.settings.resolver.clone(), limit.unwrap_or_default())
    };
    let context = session::Context {
        thread: &thread.proxy,
        proxy,
        drain: &drain,
        starttls,
        challenges: &thread.shared.challenges,
        client: came.ends,
        is_proxied: came.is_proxied,
        limit: &limit,
        started_at,
        handshake_timeout: handler.limits().header_timeout,
        names: &thread.shared.client_names,
        resolver: &resolver,
        scripts: &Applications(&handler),
        log: &|level, info, line| handler.log_client(level, info, line),
    };
    let outcome = Box::pin(session::serve(&context, stream, &mut session)).await;
    let nothing = Forwarded { from_client: 0, to_client: 0, end: End::Client };
    let forwarded = outcome.forwarded.unwrap_or(nothing);
    report(&handler, &session, started_at, outcome.status, &forwarded);
}

/// Counts a completed handshake of a listener.
pub(crate) fn count_handshake(tls: &TlsListener, protocol: &str, is_resumed: bool) {
    let counters = tls.counters();
    counters.handshakes.fetch_add(1, Relaxed);
    counters.resumed.fetch_add(u64::from(is_resumed), Relaxed);
    counters.tls12.fetch_add(u64::from(protocol == "TLSv1.2"), Relaxed);
}

/// Chooses the upstream of a connection and passes its bytes on. `hello` is that of a handshake with
/// this server.
async fn pass_on<S: AsyncRead + AsyncWrite + Unpin>(
    handler: RequestHandler,
    mut stream: S,
    info: Arc<ConnectionInfo>,
    drain: DrainRegistration,
    hello: Option<ClientHello>,
    came: Came,
) {
    let started_at = Instant::now();
    let chosen = choose_upstream(&handler, &mut stream, &info, &drain, hello).await;
    drain.set_busy();
    handler.begin_session();
    let name = chosen.as_ref().map_or("-", |(upstream, _)| &upstream.name);
    let id = handler.thread().request_id();
    let session = describe(&info, id, ("CONNECT", name, "TCP"));
    let mut forwarded = Forwarded { from_client: 0, to_client: 0, end: End::Client };
    let error = match chosen {
        Err(error) => Some(error),
        Ok((upstream, input)) => {
            session.handling.set_site(Arc::clone(&upstream.name));
            let thread = &handler.thread().proxy;
            match connect(thread, &upstream, &session, started_at, came.ends).await {
                Err(error) => Some(error),
                Ok(mut connected) => {
                    let idle = upstream.config.timeouts.tunnel;
                    let pace = pace(
                        &upstream.config.bandwidth,
                        bandwidths(&handler, &session, started_at),
                    );
                    drop(upstream);
                    let server = &mut connected.connection;
                    forwarded = forward(&mut stream, server, input, pace, |activity, _| {
                        after(activity.idle_since, idle)
                    })
                    .await;
                    None
                }
            }
        }
    };
    let status = error.map_or(200, RequestError::status);
    report(&handler, &session, started_at, status, &forwarded);
}

/// Returns the bandwidths that a session shares with others of its listener.
fn bandwidths(handler: &RequestHandler, session: &Request, started_at: Instant) -> Vec<Bandwidth> {
    let (snapshot, name) = handler.listener_snapshot();
    let listener = snapshot.listeners.get(name);
    listener.map_or_else(Vec::new, |found| sessions::bandwidths(&found.limit, session, started_at))
}

/// Returns the upstream of a connection, and the bytes that were read to choose it.
async fn choose_upstream<S: AsyncRead + AsyncWrite + Unpin>(
    handler: &RequestHandler,
    stream: &mut S,
    info: &ConnectionInfo,
    drain: &DrainRegistration,
    hello: Option<ClientHello>,
) -> Result<(Arc<Upstream>, Vec<u8>), RequestError> {
    let known = hello.as_ref().map_or(Hello::Unread, Hello::Read);
    let mut input = Vec::new();
    let upstream = match decide(handler, info, known)? {
        Some(upstream) => upstream,
        None => {
            let read = pin!(timeout(HELLO_TIMEOUT, read_hello(stream, &mut input, drain)));
            let Some(read) = drain.unless_evicted(read).await else {
                return Err(RequestError::ClientGone);
            };
            let hello = match read {
                Ok(Some(hello)) => hello,
                Ok(None) => return Err(RequestError::ClientGone),
                Err(_) => {
                    let problem = format_args!("no TLS handshake came in time, which steps need");
                    handler.log_client_error(info, problem);
                    return Err(RequestError::ClientGone);
                }
            };
            let hello = hello.as_ref().map_or(Hello::None, Hello::Read);
            decide(handler, info, hello)?.ok_or(RequestError::NoResponse)?
        }
    };
    Ok((upstream, input))
}

/// Returns the upstream that the steps of a listener choose; `None` if they need the client's hello.
fn decide(
    handler: &RequestHandler,
    info: &ConnectionInfo,
    hello: Hello<'_>,
) -> Result<Option<Arc<Upstream>>, RequestError> {
    let (snapshot, name) = handler.listener_snapshot();
    let pass = snapshot.listeners.get(name).map(|listener| &listener.pass);
    let Some(CompiledPass::Fixed(target)) = pass else { return Err(RequestError::NoResponse) };
    let facts = Facts { peer: info.peer, local: info.local, hello };
    match choose(&snapshot.config.streams, target, &facts) {
        Decision::Upstream(name) => {
            snapshot.upstreams.get(name).cloned().map(Some).ok_or(RequestError::NoResponse)
        }
        Decision::NeedsHello => Ok(None),
        Decision::Close => Err(RequestError::Forbidden),
    }
}

/// Reads up to the end of the client's hello. Returns `Some(None)` if the client does not speak TLS,
/// and `None` if it has gone, or its listener has.
async fn read_hello<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut Vec<u8>,
    drain: &DrainRegistration,
) -> Option<Option<ClientHello>> {
    loop {
        let count = {
            let mut limited = (&mut *stream).take((MAX_HELLO_BYTES - input.len()) as u64);
            let mut reading = pin!(limited.read_buf(input));
            poll_fn(|cx| match reading.as_mut().poll(cx) {
                Poll::Pending => match drain.poll_waiting(Phase::Incomplete, cx) {
                    Signal::None => Poll::Pending,
                    Signal::Drain | Signal::Evict => Poll::Ready(None),
                },
                ready => ready.map(Result::ok),
            })
            .await?
        };
        // A client may send little and finish: what it has sent is no hello then.
        match (count, input.is_empty()) {
            (0, true) => return None,
            (0, false) => return Some(None),
            _ => {}
        }
        match ClientHello::read(input) {
            Ok(None) => {}
            Ok(Some(hello)) => return Some(Some(hello)),
            Err(_) => return Some(None),
        }
    }
}

/// Describes a session for variables and logs, by the parts of a request line.
fn describe(
    info: &Arc<ConnectionInfo>,
    id: u64,
    (method, target, protocol): (&'static str, &str, &'static str),
) -> Request {
    Request {
        method: Bytes::from_static(method.as_bytes()),
        target: Bytes::copy_from_slice(target.as_bytes()),
        fragment: Bytes::new(),
        path: Bytes::new(),
        query: Bytes::new(),
        version: Version::Session(protocol),
        host: Bytes::new(),
        fields: Fields::default(),
        connection: Arc::clone(info),
        user: None,
        id,
        error: None,
        captures: Default::default(),
        additions: None,
        handling: Handling::default(),
    }
}

fn report(
    handler: &RequestHandler,
    session: &Request,
    started_at: Instant,
    status: u16,
    forwarded: &Forwarded,
) {
    handler.log_session(&RequestRecord {
        connection: &session.connection,
        request: Some(session),
        refused_line: b"",
        refusal: None,
        status,
        fields: &FieldBlock::default(),
        connection_fields: ConnectionFields::default(),
        received: forwarded.from_client,
        sent: forwarded.to_client,
        body_sent: forwarded.to_client,
        elapsed: started_at.elapsed(),
        outcome: forwarded.end.into(),
    });
}
