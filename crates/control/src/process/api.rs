//! Serves the control API: requests become commands, which the supervisor and the router execute.
//!
//! Changes are serialised, from parsing their bodies as JSON until their configuration runs. So any
//! number of concurrent changes takes the memory of one, and of a small body for each connection.

mod certificates;
mod own_status;
mod question;
mod reload;
mod restart;
mod site_users;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Defaults;
use howdah_http::body::Body;
use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{BodyError, Exchange, Handler, RequestRecord};
use howdah_http::h1::{self, Io};
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, Response};
use howdah_questions::Question;
use howdah_sys::log::{Level, Log};
use howdah_sys::plain::without_numbers;
use howdah_tls::stored::Certificates;
use howdah_wire::messages::{ChangeOutcome, Restart, Secret};
use serde_json::{Map, Value};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::certificates::describe;
use self::question::unreadable;
pub use self::site_users::SiteUsers;
use self::site_users::UserProfiles;
use super::activity::Activity;
use super::connections::{ConnectionSlot, Connections};
use super::router::Router;
use super::supervisor::{Supervisor, Upgraded};
use crate::MAX_BODY;
use crate::certificate::list_certificates;
use crate::command::Command;
use crate::guard::{Transport, guard};
use crate::path::Path;
use crate::print::{print_part, with_members};
use crate::refusal::Refusal;
use crate::reply::{Done, Reply};
use crate::store::{Next, Prepared, Store};
use crate::token::Token;
use crate::translate::translate;

/// Maximum time between two requests of a connection.
const IDLE_TIME: Duration = Duration::from_secs(15);

/// Maximum time for a request, and for its head, on a connection without a valid token so far.
const UNAUTHORIZED_TIME: Duration = Duration::from_secs(2);

/// Maximum size in bytes of bodies that are read concurrently. Longer bodies are read one at a
/// time.
const SMALL_BODY: u64 = 64 << 10;

/// Maximum time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Maximum length in bytes of a target in the log.
const MAX_LOGGED_TARGET: usize = 256;

/// Options of the control API.
pub struct ApiOptions {
    /// The listening socket; `None` if the process only reads the configuration again.
    pub listener: Option<OwnedFd>,
    /// The address of the socket.
    pub address: String,
    /// Token that requests must carry.
    pub token: Option<Secret>,
    /// The document of the running configuration.
    pub document: Vec<u8>,
    /// Defaults of documents.
    pub defaults: Defaults,
    /// The stored certificate bundles.
    pub certificates: Certificates,
    /// The supervisor, which executes changes.
    pub supervisor: Rc<Supervisor>,
    /// The router, which answers questions.
    pub router: Rc<Router>,
    /// The work in progress.
    pub activity: Rc<Activity>,
    /// The source of the document, for messages.
    pub origin: String,
    /// A reload undoes changes, as they are not stored.
    pub is_undone_by_reload: bool,
    /// Since when the document at its source is refused, in seconds since 1970, and why.
    pub refused: Option<(u64, String)>,
    /// The server's log, which names each change.
    pub log: Arc<Log>,
}

/// Serves the control API until the process ends.
pub fn start(options: ApiOptions) -> Rc<Api> {
    let ApiOptions {
        listener,
        address,
        token,
        document,
        defaults,
        certificates,
        supervisor,
        router,
        activity,
        origin,
        is_undone_by_reload,
        refused,
        log,
    } = options;
    let empty = Store::empty().with_defaults(defaults);
    // A document that is no longer valid (after a downgrade) counts as empty.
    let store = empty.read(document, &origin).map_or(empty, |prepared| prepared.store);
    let api = Rc::new(Api {
        supervisor,
        router,
        activity,
        origin: origin.into(),
        is_undone_by_reload,
        refused: RefCell::new(refused),
        replaced: RefCell::default(),
        log,
        store: RefCell::new(Arc::new(store)),
        certificates: RefCell::new(describe(&certificates)),
        large: Mutex::new(()),
        changing: Mutex::new(()),
        restarting: Mutex::new(()),
        changes_waiting: Cell::default(),
        accepting: RefCell::default(),
        user_profiles: UserProfiles::default(),
        transport: if address.starts_with("unix:") { Transport::Unix } else { Transport::Tcp },
        token: token.map(|token| Token::new(token.expose().to_owned())),
    });
    if let Some(listener) = listener {
        api.listen(listener);
    }
    api
}

async fn accept(api: &Rc<Api>, listener: OwnedFd) -> std::io::Result<()> {
    let connections = Rc::new(Connections::new(super::limits::MAX_CONNECTIONS));
    if api.transport == Transport::Unix {
        let listener = UnixListener::from_std(listener.into())?;
        loop {
            connections.room().await;
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            serve(api, stream, None, &connections);
        }
    }
    let listener = TcpListener::from_std(listener.into())?;
    loop {
        connections.room().await;
        let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
        serve(api, stream, Some(peer), &connections);
    }
}

/// Serves a connection, which keeps its slot until it ends. Without a token, the permissions of the
/// socket make its clients trusted.
fn serve(
    api: &Rc<Api>,
    stream: impl Io + 'static,
    peer: Option<SocketAddr>,
    connections: &Rc<Connections>,
) {
    let (api, busy) = (Rc::clone(api), api.activity.begin());
    let place = connections.enter(api.token.is_none());
    let info = Arc::new(ConnectionInfo { peer, ..ConnectionInfo::default() });
    tokio::task::spawn_local(async move {
        let client = Client { api: &api, place: &place };
        place.run_unless_closed(h1::serve(stream, info, &client, Drain::new().register())).await;
        drop(busy);
    });
}

/// Returns the problem that a reply reports.
fn problem(reply: &Reply) -> Option<&str> {
    let word = |name: &str| reply.body().get(name).and_then(Value::as_str);
    word("error").map(|title| word("detail").unwrap_or(title))
}

/// Returns an accepted connection. After a failure, such as a lack of descriptors, waits for 100
/// ms.
async fn accepted<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Ok(accepted) => Some(accepted),
        Err(_) => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// The control API.
pub struct Api {
    supervisor: Rc<Supervisor>,
    router: Rc<Router>,
    activity: Rc<Activity>,
    /// The source of the document.
    origin: Arc<str>,
    is_undone_by_reload: bool,
    refused: RefCell<Option<(u64, String)>>,
    replaced: RefCell<Option<(u64, String)>>,
    log: Arc<Log>,
    store: RefCell<Arc<Store>>,
    /// Descriptions of the certificate bundles, by name.
    certificates: RefCell<Map<String, Value>>,
    /// Held while a long body is read.
    large: Mutex<()>,
    /// Held during a change, from before its body is parsed: a tree takes several times the memory
    /// of its text.
    changing: Mutex<()>,
    /// Held for a moment by a restart of an application.
    restarting: Mutex<()>,
    /// Number of changes that wait for [`Self::changing`].
    changes_waiting: Cell<usize>,
    /// The task that accepts connections.
    accepting: RefCell<Option<JoinHandle<()>>>,
    user_profiles: UserProfiles,
    transport: Transport,
    token: Option<Token>,
}

impl Api {
    async fn answer(&self, exchange: &mut Exchange<'_>, place: &ConnectionSlot) -> Reply {
        let fields = exchange.request.fields.iter();
        if let Err(refusal) = guard(fields, self.transport, self.token.as_ref()) {
            return refusal.into();
        }
        place.trust();
        let _large = match exchange.body_len() {
            Some(length) if length <= SMALL_BODY => None,
            _ => Some(self.large.lock().await),
        };
        let body = match timeout(BODY_TIME, read(exchange)).await {
            Ok(Ok(body)) => body,
            Ok(Err(refusal)) => return refusal.into(),
            Err(_) => return Refusal::Unreadable { status: 408 }.into(),
        };
        let request = &exchange.request;
        let (method, target) = (request.method.to_vec(), request.target.to_vec());
        if let Ok(Command::Upgrade) = translate(&method, &target, b"") {
            return self.upgrade().await;
        }
        let changing = match &*request.method {
            b"GET" => None,
            _ => Some(self.turn().await),
        };
        if method != b"GET" && self.supervisor.is_upgrading() {
            return Refusal::Upgrading.into();
        }
        let asked = (method.clone(), target.clone());
        let command = match on_helper_thread(move || translate(&method, &target, &body)).await {
            Ok(command) => command,
            Err(refusal) => return refusal.into(),
        };
        let is_logged = command.is_logged();
        // An application that does not start, and a profile, must not delay all changes.
        let _changing = changing.filter(|_| {
            let is_slow = matches!(
                command,
                Command::Ask { question: Question::Restart { .. } | Question::Profile(_), .. }
            );
            !is_slow
        });
        let reply = self.carry_out_for(exchange, command).await;
        if is_logged {
            self.log_outcome(&asked.0, &asked.1, &reply);
        }
        reply
    }

    /// Waits until no other change is made. One that waits for a slow application has less time
    /// from then on.
    async fn turn(&self) -> MutexGuard<'_, ()> {
        if let Ok(turn) = self.changing.try_lock() {
            return turn;
        }
        let _waiting = Waiting::new(&self.changes_waiting);
        self.supervisor.hurry();
        self.changing.lock().await
    }

    /// Logs a change, or the reason why it was refused. Bodies may contain secrets.
    fn log_outcome(&self, method: &[u8], target: &[u8], reply: &Reply) {
        let target = &target[..target.len().min(MAX_LOGGED_TARGET)];
        let asked = [method, target].map(String::from_utf8_lossy).join(" ");
        match problem(reply) {
            None => self.log.write(Level::Notice, format_args!("control API: {asked}: done")),
            Some(problem) => {
                self.log.write(Level::Warn, format_args!("control API: {asked}: {problem}"));
            }
        }
    }

    async fn carry_out(&self, command: Command) -> Reply {
        let needs_router = !matches!(
            command,
            Command::GetConfig(_) | Command::GetCompiled | Command::GetCertificates(_)
        );
        if needs_router && let Err(detail) = self.router.answers().await {
            return Refusal::NoAnswer { detail }.into();
        }
        match command {
            Command::Change(change) => {
                let store = Arc::clone(&self.store.borrow());
                let prepared = match on_helper_thread(move || store.prepare(change)).await {
                    Ok(Next::Apply(prepared)) => Ok(*prepared),
                    Ok(Next::Compile(document)) => self.compile(document).await,
                    Err(refusal) => Err(refusal),
                };
                let prepared = match prepared {
                    Ok(prepared) => prepared,
                    Err(refusal) => return refusal.into(),
                };
                match self.apply(prepared, Restart::Nothing).await {
                    Ok(()) => self.reconfigured(),
                    Err(refusal) => refusal.into(),
                }
            }
            Command::GetConfig(path) => self.store.borrow().get(&path),
            Command::GetCompiled => Reply::value(self.store.borrow().document().clone()),
            Command::Ask { question, part } => self.ask(question, &part).await,
            Command::GetEverything => match self.status().await {
                Ok(status) => self.everything(&status),
                Err(detail) => Refusal::NoAnswer { detail }.into(),
            },
            Command::GetCertificates(path) => list_certificates(&self.certificates.borrow(), &path),
            Command::PutCertificate { name, bundle } => self.put_certificate(&name, bundle).await,
            Command::DeleteCertificate(name) => self.delete_certificate(&name).await,
            Command::Reload { restart } => self.carry_out_reload(restart).await,
            Command::Upgrade => self.upgrade().await,
        }
    }

    /// Compiles the sites of a document.
    async fn compile(&self, document: Vec<u8>) -> Result<Prepared, Refusal> {
        let compiled = self.supervisor.compile_document(&document).await;
        drop(document);
        let compiled = compiled.map_err(|mistakes| Refusal::InvalidSites { mistakes })?;
        let store = Arc::clone(&self.store.borrow());
        on_helper_thread(move || store.prepared(compiled)).await
    }

    /// Returns certificates, configuration and status in one tree.
    fn everything(&self, status: &[u8]) -> Reply {
        let whole = Path::default();
        let everything = print_part(status, &whole).and_then(|status| {
            let members = [
                ("certificates", serde_json::to_string(&*self.certificates.borrow())?),
                ("config", self.store.borrow().sent().to_string()),
                ("status", status.unwrap_or_default()),
            ];
            Reply::part(&with_members(b"{}".into(), members), &whole)
        });
        match everything {
            Ok(everything) => everything.unwrap_or_else(|| Refusal::StatusUnavailable.into()),
            Err(error) => Refusal::NoAnswer { detail: unreadable(error) }.into(),
        }
    }

    /// Returns the response to a change.
    fn reconfigured(&self) -> Reply {
        let reply = Reply::from(Done::Reconfigured);
        if !self.is_undone_by_reload {
            return reply;
        }
        reply.noting(format!(
            "{} was not changed: a reload (SIGHUP, howdah reload) or a restart reads it again and \
             undoes this change",
            self.origin
        ))
    }

    /// Applies a configuration, and restarts applications that it has not changed.
    async fn apply(&self, prepared: Prepared, restart: Restart) -> Result<(), Refusal> {
        let (text, store) = (prepared.text, Arc::new(prepared.store));
        // The change is sent first.
        let hurry = async {
            if self.changes_waiting.get() > 0 {
                self.supervisor.hurry();
            }
        };
        let (outcome, ()) = tokio::join!(biased; self.supervisor.apply(&text, restart), hurry);
        if matches!(outcome, ChangeOutcome::Done | ChangeOutcome::NotRestarted(_)) {
            self.store.replace(Arc::clone(&store));
        }
        match outcome {
            ChangeOutcome::Done => Ok(()),
            ChangeOutcome::NotApplied(detail) => Err(store.not_applied(&detail)),
            ChangeOutcome::NotStored(detail) => Err(Refusal::NotStored { detail }),
            ChangeOutcome::NotRestarted(detail) => Err(Refusal::NotRestarted { detail }),
            ChangeOutcome::Upgrading => Err(Refusal::Upgrading),
        }
    }

    /// Replaces the server. Changes in progress are completed first; those that come meanwhile are
    /// refused, so this one does not hold their lock.
    async fn upgrade(&self) -> Reply {
        let changing = self.turn().await;
        if self.supervisor.is_upgrading() {
            return Refusal::Upgrading.into();
        }
        self.supervisor.upgrade_begun();
        drop(changing);
        match self.supervisor.upgrade().await {
            Ok(Upgraded { pid, version }) => Reply::from(Done::Upgraded).upgraded_to(pid, &version),
            Err(detail) => Refusal::NotUpgraded { detail }.into(),
        }
    }

    /// Accepts connections from this socket, and no others.
    pub fn listen(self: &Rc<Self>, listener: OwnedFd) {
        let api = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = accept(&api, listener).await {
                eprintln!("howdah: control API: {error}");
            }
        });
        self.stop_accepting();
        self.accepting.replace(Some(task));
    }

    /// Accepts no more connections: the server that has replaced this one does.
    pub fn stop_accepting(&self) {
        if let Some(task) = self.accepting.take() {
            task.abort();
        }
    }
}

/// A change that waits; its client may give up meanwhile.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Reads a body to its end.
async fn read(exchange: &mut Exchange<'_>) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    // A part of a body may be valid JSON: `3` of `30`.
    let unreadable =
        |error: BodyError| Refusal::Unreadable { status: RequestError::Body(error).status() };
    while let Some(bytes) = exchange.read_body().await.map_err(unreadable)? {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_BODY {
            return Err(Refusal::BodyTooLarge);
        }
    }
    Ok(body)
}

/// Runs long work on another thread, so that connections are served meanwhile.
async fn on_helper_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let failed =
        |_| Refusal::NotApplied { detail: "the server has failed; see its log".to_owned() };
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// The client of one connection.
struct Client<'a> {
    api: &'a Api,
    place: &'a ConnectionSlot,
}

impl Handler for Client<'_> {
    fn limits(&self) -> Rc<Limits> {
        let usual =
            Limits { max_body: MAX_BODY as u64, idle_timeout: IDLE_TIME, ..Limits::default() };
        Rc::new(if self.place.is_trusted() {
            usual
        } else {
            Limits { idle_timeout: UNAUTHORIZED_TIME, header_timeout: UNAUTHORIZED_TIME, ..usual }
        })
    }

    fn next_id(&self) -> u64 {
        0 // these requests appear in no log
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        response(self.api.answer(exchange, self.place).await)
    }

    fn error(&self, error: RequestError) -> Response {
        response(Refusal::Unreadable { status: error.status() }.into())
    }

    fn log_request(&self, _record: &RequestRecord<'_>) {}
}

fn response(reply: Reply) -> Response {
    let (challenge, seconds) = (reply.authenticate(), reply.retry_after());
    let (status, allow) = (reply.status(), reply.allow());
    let text = match status {
        200 => reply.into_text(),
        _ => without_numbers(&reply.into_text()).into_owned(),
    };
    let mut response = Response::new(status, Body::from(bytes::Bytes::from(text)))
        .with("Content-Type", "application/json");
    if let Some(challenge) = challenge {
        response = response.with("WWW-Authenticate", challenge);
    }
    if let Some(seconds) = seconds {
        response = response.with("Retry-After", seconds);
    }
    match allow {
        Some(allow) => response.with("Allow", allow),
        None => response,
    }
}
