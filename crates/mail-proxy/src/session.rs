//! A session: the client up to its login, the question about it, the login behind, and the bytes both
//! ways.

mod attempt;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use howdah_config::{Shown, Target};
use howdah_dns::clients::ClientNames;
use howdah_dns::either::Either;
use howdah_http::drain::{DrainRegistration, Phase, Signal};
use howdah_http::forward::{Activity, Forwarded, forward};
use howdah_http::message::{ConnectionInfo, Request, Response};
use howdah_http::timer::after;
use howdah_limits::at_once::Permit;
use howdah_limits::rules::Rule;
use howdah_limits::sessions;
use howdah_stream::hops::{Ends, Hop};
use howdah_stream::pace::pace;
use howdah_sys::log::Level;
use howdah_tls::challenge_answers::ChallengeStore;
use howdah_tls::{HandshakeOutcome, TlsConnection, TlsListener};
use howdah_upstream::connections::connection::Connection;
use howdah_upstream::servers::selection::ActiveRequest;
use howdah_upstream::thread::UpstreamThread;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use zeroize::Zeroizing;

use crate::capabilities;
use crate::front::Front;
use crate::input::{Input, MAX_LINE_BYTES};
use crate::login::{Encryption, Event, Method, Offer};
use crate::proxy::MailProxy;

/// The whole time before the login is this many times the longest silence.
const LOGIN_FACTOR: u32 = 5;

/// Maximum number of failed logins of a session.
const MAX_FAILURES: u32 = 10;

/// Longest delay of the reply to a failed login, if the authentication server names none.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Maximum number of bytes of a read before the login.
const READ_BYTES: usize = 2048;

/// Time in which the last words of this server are to be taken.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A connection of a client, whose encryption may begin later.
pub type ClientStream<S> = Either<S, Box<TlsConnection<S>>>;

/// Lets an application answer requests.
pub trait Scripts {
    /// Returns the response of an application, without its body.
    fn ask<'s>(
        &'s self,
        application: &'s Target,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = Response> + 's>>;
}

/// What a session needs of its server.
pub struct Context<'a> {
    /// The thread's connections to other servers.
    pub thread: &'a Rc<UpstreamThread>,
    /// The settings.
    pub proxy: &'a MailProxy,
    /// Signals of the end of the server.
    pub drain: &'a DrainRegistration,
    /// TLS that the client may begin; `None` if it cannot.
    pub starttls: Option<(&'a Arc<TlsListener>, bool)>,
    /// Proofs for certificates.
    pub challenges: &'a ChallengeStore,
    /// The connection on which the session has come; `None` for a unix socket.
    pub client: Option<Ends>,
    /// The header of the PROXY protocol has named the client.
    pub is_proxied: bool,
    /// Limits of the listener.
    pub limit: &'a [Rule],
    /// Begin of the session.
    pub started_at: std::time::Instant,
    /// Time for a handshake.
    pub handshake_timeout: Duration,
    /// Results of look-ups of names.
    pub names: &'a ClientNames,
    /// The servers of DNS in place of the machine's; empty for those.
    pub resolver: &'a [SocketAddr],
    /// The applications that decide about logins.
    pub scripts: &'a dyn Scripts,
    /// Takes lines about the client.
    pub log: &'a dyn Fn(Level, &ConnectionInfo, fmt::Arguments<'_>),
}

/// Result of a session.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The status, as of a request: 200 after a login.
    pub status: u16,
    /// Bytes that have passed after the login.
    pub forwarded: Option<Forwarded>,
}

/// The end of a session before or instead of its login.
enum End {
    /// The client has gone, or the status stands for the reason.
    Status(u16),
    /// The server ends.
    Draining,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Status(499)
    }
}

/// A server behind at which the client is logged in.
struct Behind {
    connection: Connection,
    /// Bytes for the client that have arrived.
    reply: Vec<u8>,
    /// Counts the session at its server.
    active: Option<ActiveRequest>,
    /// The connection among those of this server to itself.
    hop: Hop,
    /// Count the session by the limits of logins.
    permits: Vec<Permit>,
}

/// Serves a session to its end. `request` describes it for variables and logs; it gets the name of
/// the user and the facts of the handshake.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    context: &Context<'_>,
    stream: S,
    request: &mut Request,
) -> Outcome {
    let MailProxy { config, offer, backend, capabilities: known, .. } = context.proxy;
    let mut offer = offer.clone();
    if let Some(backend) = backend.as_ref().filter(|_| config.asks_capabilities) {
        let (thread, client) = (context.thread, context.client);
        let asker = (config.protocol, &*offer.server_name, context.proxy.starttls());
        let asked = capabilities::of_backend(thread, backend, known, asker, request, client);
        match unless_drained(context.drain, Box::pin(asked)).await {
            Ok(Some(names)) => offer.capabilities = names.to_vec(),
            // The usual ones are told.
            Ok(None) => {}
            Err(_) => return Outcome { status: 503, forwarded: None },
        }
    }
    let mut session = Session::new(context, offer, stream, request);
    // Its memory is given back when the client is logged in: sessions last for hours.
    let logged_in = Box::pin(session.log_in()).await;
    let behind = match logged_in {
        Ok(behind) => behind,
        Err(end) => {
            let status = Box::pin(session.say_bye(end)).await;
            return Outcome { status, forwarded: None };
        }
    };
    let Session { client, mut input, front, .. } = session;
    drop(front);
    let Some(mut client) = client else { return Outcome { status: 499, forwarded: None } };
    let Behind { mut connection, reply, active, hop: _hop, permits: _permits } = behind;
    let rest = input.rest();
    drop(input);
    let replying = async {
        client.write_all(&reply).await?;
        client.flush().await
    };
    let replied = timeout(context.proxy.config.client_timeout, replying).await;
    if !replied.is_ok_and(|replied| replied.is_ok()) {
        return Outcome { status: 499, forwarded: None };
    }
    drop(reply);
    let idle = context.proxy.config.session_timeout;
    let shared = sessions::bandwidths(context.limit, request, context.started_at);
    let own = backend.as_ref().map(|backend| backend.config.bandwidth).unwrap_or_default();
    let pace = pace(&own, shared);
    let deadline =
        |activity: Activity, _: &mut std::task::Context<'_>| after(activity.idle_since, idle);
    let forwarded = forward(&mut client, &mut connection, rest, pace, deadline).await;
    drop(active);
    Outcome { status: 200, forwarded: Some(forwarded) }
}

struct Session<'a, S> {
    context: &'a Context<'a>,
    request: &'a mut Request,
    /// `None` while TLS begins, and after it has failed.
    client: Option<ClientStream<S>>,
    front: Front,
    input: Input,
    out: Vec<u8>,
    /// Name of the client; `None` until it is looked up.
    client_name: Option<Option<String>>,
    attempts: u32,
    failures: u32,
    deadline: Instant,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Session<'a, S> {
    fn new(context: &'a Context<'a>, offer: Offer, stream: S, request: &'a mut Request) -> Self {
        let proxy = context.proxy;
        let encryption = match context.starttls {
            _ if request.connection.handshake.is_some() => Encryption::On,
            None => Encryption::None,
            Some((_, false)) => Encryption::Optional,
            Some((_, true)) => Encryption::Required,
        };
        let salt = salt(&proxy.offer.server_name);
        Session {
            front: Front::new(proxy.config.protocol, offer, encryption, salt),
            context,
            request,
            client: Some(Either::A(stream)),
            input: Input::default(),
            out: Vec::new(),
            client_name: None,
            attempts: 0,
            failures: 0,
            deadline: Instant::now() + proxy.config.client_timeout * LOGIN_FACTOR,
        }
    }

    /// Speaks with the client until it is logged in.
    async fn log_in(&mut self) -> Result<Behind, End> {
        self.front.greet(&mut self.out);
        loop {
            match self.front.step(&mut self.input, &mut self.out) {
                None => {
                    self.flush().await?;
                    self.read().await?;
                }
                Some(Event::Close) => {
                    self.flush().await?;
                    return Err(End::Status(if self.attempts == 0 { 400 } else { 401 }));
                }
                Some(Event::StartTls) => self.start_tls().await?,
                Some(Event::Refused(user)) => {
                    self.attempts += 1;
                    self.log_failure(&user, Method::Plain, "it asks to act as another user");
                    self.delay_refusal().await?;
                }
                Some(Event::Login(login)) => {
                    self.flush().await?;
                    if let Some(behind) = self.try_login(*login).await? {
                        return Ok(behind);
                    }
                }
            }
        }
    }

    /// Writes the replies that wait.
    async fn flush(&mut self) -> Result<(), End> {
        let Some(client) = self.client.as_mut().filter(|_| !self.out.is_empty()) else {
            return Ok(());
        };
        let out = std::mem::take(&mut self.out);
        let writing = async {
            client.write_all(&out).await?;
            client.flush().await
        };
        let limit = self.context.proxy.config.client_timeout;
        Ok(timeout(limit, writing).await.map_err(|_| End::Status(408))??)
    }

    /// Reads once.
    async fn read(&mut self) -> Result<(), End> {
        let limit = self.context.proxy.config.client_timeout;
        let deadline = self.deadline.min(Instant::now() + limit);
        timeout_at(deadline, self.read_once()).await.map_err(|_| End::Status(408))?
    }

    async fn read_once(&mut self) -> Result<(), End> {
        let client = self.client.as_mut().ok_or(End::Status(499))?;
        let mut room = Zeroizing::new([0; READ_BYTES]);
        let count = unless_drained(self.context.drain, client.read(&mut room[..])).await??;
        if count == 0 {
            return Err(End::Status(499));
        }
        self.input.push(room.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Waits before a reply. The client's own time goes on afterwards.
    async fn pause(&mut self, time: Duration) -> Result<(), End> {
        self.deadline += time;
        unless_drained(self.context.drain, sleep(time)).await
    }

    /// As [`Session::pause`], for as long as the client stays: an authentication server may have it
    /// wait without end.
    async fn pause_for_client(&mut self, time: Duration) -> Result<(), End> {
        let end = Instant::now() + time;
        while self.input.len() < MAX_LINE_BYTES {
            match timeout_at(end, self.read_once()).await {
                Ok(read) => read?,
                Err(_) => {
                    self.deadline += time;
                    return Ok(());
                }
            }
        }
        self.pause(end - Instant::now()).await
    }

    /// Begins TLS. Bytes that came before the handshake may be those of anybody on the way, so they
    /// end the session.
    async fn start_tls(&mut self) -> Result<(), End> {
        self.flush().await?;
        let Context { drain, challenges, log, handshake_timeout, .. } = *self.context;
        let Some((tls, _)) = self.context.starttls else { return Err(End::Status(400)) };
        let info = Arc::clone(&self.request.connection);
        if !self.input.is_empty() {
            log(Level::Notice, &info, format_args!("the client has sent more behind STARTTLS"));
            return Err(End::Status(400));
        }
        let Some(Either::A(plain)) = self.client.take() else { return Err(End::Status(400)) };
        let shaking = howdah_tls::handshake(tls, plain, drain, handshake_timeout, challenges);
        match Box::pin(shaking).await {
            HandshakeOutcome::Encrypted(stream, facts) => {
                let counters = tls.counters();
                counters.handshakes.fetch_add(1, Relaxed);
                counters.resumed.fetch_add(u64::from(facts.is_resumed), Relaxed);
                counters.tls12.fetch_add(u64::from(facts.protocol == "TLSv1.2"), Relaxed);
                let handshake = Some(Arc::new(facts));
                self.request.connection =
                    Arc::new(ConnectionInfo { tls: true, handshake, ..(*info).clone() });
                self.client = Some(Either::B(stream));
                self.front.secured(salt(&self.context.proxy.offer.server_name));
                (self.attempts, self.failures) = (0, 0);
                Ok(())
            }
            HandshakeOutcome::Failed(error) => {
                tls.counters().failed.fetch_add(1, Relaxed);
                log(Level::Info, &info, format_args!("TLS handshake: {error}"));
                Err(End::Status(400))
            }
            HandshakeOutcome::NotTls(..) | HandshakeOutcome::ChallengeAnswered => {
                Err(End::Status(400))
            }
        }
    }

    /// Replies to a failed login, the later the more there were.
    async fn delay_refusal(&mut self) -> Result<(), End> {
        self.failures += 1;
        self.pause(MAX_DELAY.min(Duration::from_secs(self.failures.into()))).await?;
        self.flush().await?;
        if self.failures >= MAX_FAILURES { Err(End::Status(401)) } else { Ok(()) }
    }

    /// Tells the client that this server cannot serve.
    async fn fail(&mut self) -> End {
        self.front.fail(&mut self.out);
        match self.flush().await {
            Ok(()) => End::Status(502),
            Err(end) => end,
        }
    }

    /// Logs a failed login, in a line that has no other purpose.
    fn log_failure(&self, user: &[u8], method: Method, reason: &str) {
        let protocol = self.context.proxy.config.protocol.name();
        let (user, method) = (String::from_utf8_lossy(user), method.name());
        let separator = if reason.is_empty() { "" } else { ": " };
        let line = format_args!(
            "{protocol} login of \"{}\" by {method} failed{separator}{}",
            Shown(&user),
            Shown(reason)
        );
        (self.context.log)(Level::Notice, &self.request.connection, line);
    }

    fn log_problem(&self, server: &str, problem: &str) {
        let name = &self.context.proxy.name;
        let line = format_args!("\"{name}\" {server}: {}", Shown(problem));
        (self.context.log)(Level::Error, &self.request.connection, line);
    }

    /// Says the last words to the client. Returns the status of the session.
    async fn say_bye(&mut self, end: End) -> u16 {
        let status = match end {
            End::Status(status) => status,
            End::Draining => {
                self.front.bye(&mut self.out);
                503
            }
        };
        let words = std::mem::take(&mut self.out);
        if let Some(client) = &mut self.client {
            let bye = async {
                client.write_all(&words).await?;
                client.shutdown().await
            };
            let _ = timeout(LAST_WORDS, bye).await;
        }
        status
    }
}

/// Does `work` unless the server is to end, or the connection to be closed, before.
async fn unless_drained<T>(
    drain: &DrainRegistration,
    work: impl Future<Output = T>,
) -> Result<T, End> {
    let mut work = pin!(work);
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => match drain.poll_waiting(Phase::Incomplete, cx) {
            Signal::None => Poll::Pending,
            Signal::Drain | Signal::Evict => Poll::Ready(Err(End::Draining)),
        },
    })
    .await
}

/// Makes a challenge that nobody can foresee (RFC 1939, 7).
fn salt(server_name: &str) -> Vec<u8> {
    let mut random = [0; 8];
    // A failure leaves the time alone, which is unique enough for APOP.
    let _ = aws_lc_rs::rand::fill(&mut random);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let number = u64::from_le_bytes(random);
    format!("<{number}.{}@{server_name}>", now.as_nanos()).into_bytes()
}
