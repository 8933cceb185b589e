//! The control API's front: takes requests on the control socket, has them translated, carries
//! the commands out on the running server, and answers.
//!
//! Runs on the router's control thread. Changes wait for one another from the moment that they
//! read the document to the moment that theirs is the running one.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_control::{
    ApplicationStatus, Command, Connections, Done, MAX_BODY, Module, Processes, Refusal, Reply,
    Status, Store, Transport, guard, translate,
};
use howdah_server::body::Body;
use howdah_server::exchange::{BodyError, Exchange, Finished, Handler};
use howdah_server::http1::{self, Drain};
use howdah_server::limits::Limits;
use howdah_server::message::{ConnectionInfo, Response};
use howdah_server::router::{ApplyError, Commands, Control, Report};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Mutex;

/// Serves the control API for as long as the router runs.
pub fn start(control: Control) {
    let Control { listener, address, document, commands } = control;
    let api = Rc::new(Api {
        commands,
        store: RefCell::new(Store::new(document)),
        changing: Mutex::new(()),
        transport: match address.starts_with("unix:") {
            true => Transport::Unix,
            false => Transport::Tcp,
        },
    });
    tokio::task::spawn_local(async move {
        if let Err(error) = accept(&api, listener).await {
            eprintln!("howdah: control API at {address}: {error}");
        }
    });
}

async fn accept(api: &Rc<Api>, listener: OwnedFd) -> std::io::Result<()> {
    let drain = Drain::new();
    let info =
        |peer: Option<SocketAddr>| Arc::new(ConnectionInfo { peer, local: None, tls: false });
    if api.transport == Transport::Unix {
        let listener = UnixListener::from_std(listener.into())?;
        loop {
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            let (api, draining) = (Rc::clone(api), drain.connection());
            let info = info(None);
            tokio::task::spawn_local(async move {
                http1::serve(stream, info, &*api, draining).await;
            });
        }
    }
    let listener = TcpListener::from_std(listener.into())?;
    loop {
        let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
        let (api, draining) = (Rc::clone(api), drain.connection());
        let info = info(Some(peer));
        tokio::task::spawn_local(async move {
            http1::serve(stream, info, &*api, draining).await;
        });
    }
}

/// A failure to accept (no descriptors left) passes; trying again at once would only burn time.
async fn accepted<T>(result: std::io::Result<T>) -> Option<T> {
    match result {
        Ok(accepted) => Some(accepted),
        Err(_) => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

struct Api {
    commands: Commands,
    store: RefCell<Store>,
    /// Held by whoever changes the document.
    changing: Mutex<()>,
    transport: Transport,
}

impl Api {
    async fn answer(&self, exchange: &mut Exchange<'_>) -> Reply {
        match self.command(exchange).await {
            Ok(command) => self.carry_out(command).await,
            Err(refusal) => refusal.into(),
        }
    }

    async fn command(&self, exchange: &mut Exchange<'_>) -> Result<Command, Refusal> {
        guard(exchange.request.fields.iter(), self.transport)?;
        let mut body = Vec::new();
        // Of a body that was cut, what has come may be JSON by itself: `3` of `30`.
        let unreadable = |error: BodyError| Refusal::Unreadable { status: error.status() };
        while let Some(bytes) = exchange.read_body().await.map_err(unreadable)? {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_BODY {
                return Err(Refusal::BodyTooLarge);
            }
        }
        translate(&exchange.request.method, &exchange.request.target, &body)
    }

    async fn carry_out(&self, command: Command) -> Reply {
        match command {
            Command::Change(change) => {
                let _changing = self.changing.lock().await;
                let prepared = match self.store.borrow().prepare(change) {
                    Ok(prepared) => prepared,
                    Err(refusal) => return refusal.into(),
                };
                match self.commands.apply(prepared.config, prepared.text).await {
                    Ok(()) => {
                        self.store.replace(prepared.store);
                        Done::Reconfigured.into()
                    }
                    Err(ApplyError::NotApplied(detail)) => Refusal::NotApplied { detail }.into(),
                    Err(ApplyError::NotStored(detail)) => Refusal::NotStored { detail }.into(),
                }
            }
            Command::GetConfig(path) => self.store.borrow().get(&path),
            Command::GetStatus(path) => self.status().await.get(&path),
            Command::GetEverything => {
                let status = self.status().await.to_value();
                Reply::value(serde_json::json!({
                    "certificates": {},
                    "config": self.store.borrow().document(),
                    "status": status,
                }))
            }
            Command::GetCertificates(path) => {
                howdah_control::list_certificates(&serde_json::Map::new(), &path)
            }
            Command::PutCertificate { .. } => {
                let detail = "this version of Howdah has no TLS".to_owned();
                Refusal::CertificateNotStored { detail }.into()
            }
            Command::DeleteCertificate(_) => Refusal::NoSuchCertificate.into(),
            Command::RestartApplication { name } => {
                if !self.store.borrow().has_application(&name) {
                    return Refusal::NoSuchApplication { name }.into();
                }
                match self.commands.restart(name).await {
                    Ok(()) => Done::Restarted.into(),
                    Err(detail) => Refusal::NotRestarted { detail }.into(),
                }
            }
            Command::Reload => {
                for application in self.status().await.applications {
                    if let Err(detail) = self.commands.restart(application.name).await {
                        return Refusal::NotRestarted { detail }.into();
                    }
                }
                Done::Reloaded.into()
            }
            _ => Refusal::NoSuchPath.into(),
        }
    }

    async fn status(&self) -> Status {
        status_of(self.commands.report().await)
    }
}

fn status_of(report: Report) -> Status {
    Status {
        modules: report.php.into_iter().map(|(version, path)| Module { version, path }).collect(),
        connections: Connections {
            accepted: report.accepted,
            active: report.active,
            idle: report.idle,
            closed: report.closed,
        },
        requests: report.requests,
        applications: report
            .applications
            .into_iter()
            .map(|application| ApplicationStatus {
                name: application.name,
                processes: Processes {
                    running: application.running,
                    starting: application.starting,
                    idle: application.idle,
                },
                active_requests: application.active,
            })
            .collect(),
    }
}

impl Handler for Api {
    fn limits(&self) -> Rc<Limits> {
        Rc::new(Limits { max_body: MAX_BODY as u64, ..Limits::default() })
    }

    fn next_id(&self) -> u64 {
        0 // these requests appear in no log
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        response(&self.answer(exchange).await)
    }

    fn error(&self, status: u16) -> Response {
        response(&Refusal::Unreadable { status }.into())
    }

    fn finished(&self, _record: &Finished<'_>) {}
}

fn response(reply: &Reply) -> Response {
    let response = Response::new(reply.status(), Body::from(bytes::Bytes::from(reply.text())))
        .with("Content-Type", "application/json");
    match reply.allow() {
        Some(allow) => response.with("Allow", allow),
        None => response,
    }
}
