//! The dashboard process: serves the page to clients of the action `dashboard`.
//!
//! The supervisor starts it while the document has this action. Its clients are routers, which pass
//! on what clients of their listeners send; an attacker may have taken them over. So it has nothing
//! that a router does not have, but the token, which is for this page alone: it asks the router and
//! nobody else ([`Reader`]), it has no buttons, no files, and no way to the control process.
//!
//! 1. The supervisor's first message has the token, the listening socket, and a socket to the
//!    router.
//! 2. Connections of processes that do not have the router's user are closed.
//! 3. `api` answers, as in `howdah dashboard`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_control::{Connections, Reader};
use howdah_sys::packets::Packets;
use howdah_sys::sandbox::unprivileged;
use howdah_sys::{process, signals};
use howdah_wire::messages::{Secret, ToDashboard};
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::address::Place;
use crate::api::Api;
use crate::server::{MAX_CONNECTIONS, MAX_QUESTIONS, answer, watch};
use crate::{Control, Problem, sampler};

/// Runs the process on the socket that the supervisor has passed. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    signals::ignore_pipe();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_QUESTIONS)
        .build_local(LocalOptions::default());
    let served = runtime.and_then(|runtime| {
        let served = runtime.block_on(serve(socket));
        // Threads may wait for answers.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("howdah: dashboard process: {error}");
            1
        }
    }
}

async fn serve(socket: OwnedFd) -> io::Result<()> {
    let supervisor = Packets::new(socket)?;
    let first = receive(&supervisor).await?;
    let Some((ToDashboard::Hello { token, router_user, sandbox }, descriptors)) = first else {
        return Err(io::Error::other("the supervisor's first message is not Hello"));
    };
    let mut descriptors = descriptors.into_iter();
    let (Some(listener), Some(router)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::Error::other("the supervisor's first message has no sockets"));
    };
    if sandbox {
        unprivileged::enter(&[]);
    }
    let reader = Rc::new(Reader::new(router)?);
    let control = Arc::new(Questions { ask: ask(&reader), token });
    let begun = Instant::now();
    let control: Arc<dyn Control> = control;
    let samples = sampler::start(Arc::clone(&control), begun).map_err(io::Error::other)?;
    let api = Rc::new(Api::new(Place::Listener, true, control, begun, None));
    watch(&api, samples);
    accept(&api, listener, router_user)?;
    while let Some((message, descriptors)) = receive(&supervisor).await? {
        let descriptor = descriptors.into_iter().next();
        match (message, descriptor) {
            (ToDashboard::RouterReplaced {}, Some(router)) => reader.replace(router)?,
            (ToDashboard::Reopened {}, Some(log)) => {
                process::set_output_streams(log.as_fd(), log.as_fd())?;
            }
            _ => return Err(io::Error::other("the supervisor sent an unexpected message")),
        }
    }
    Ok(())
}

async fn receive(supervisor: &Packets) -> io::Result<Option<(ToDashboard, Vec<OwnedFd>)>> {
    let Some((packet, descriptors)) = supervisor.receive().await? else { return Ok(None) };
    let message = ToDashboard::decode(&packet)
        .map_err(|_| io::Error::other("the supervisor sent a malformed message"))?;
    Ok(Some((message, descriptors)))
}

/// Accepts connections of the router's user. Other users can reach the socket, too: its name is no
/// secret.
fn accept(api: &Rc<Api>, listener: OwnedFd, router_user: u32) -> io::Result<()> {
    let listener = StdListener::from(listener);
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let (api, connections) = (Rc::clone(api), Rc::new(Connections::new(MAX_CONNECTIONS)));
    spawn_local(async move {
        loop {
            connections.room().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    if stream.peer_cred().is_ok_and(|peer| peer.uid() == router_user) {
                        answer(&api, stream, None, &connections);
                    }
                }
                // Such as a lack of descriptors.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(())
}

/// A question of a thread: its target, the time that it has, and where the answer goes.
type Question = (String, Duration, oneshot::Sender<Result<Value, Problem>>);

/// Asks the questions of other threads. Returns where they are sent.
fn ask(reader: &Rc<Reader>) -> mpsc::Sender<Question> {
    let (sender, mut questions) = mpsc::channel::<Question>(1);
    let reader = Rc::clone(reader);
    spawn_local(async move {
        while let Some((target, limit, answered)) = questions.recv().await {
            let reader = Rc::clone(&reader);
            spawn_local(async move {
                let answer = timeout(limit, reader.get(target.as_bytes())).await;
                let _ = answered.send(match answer {
                    Ok(answer) => answer.map_err(Problem::Refused),
                    Err(_) => Err(Problem::Unreachable("the router does not answer".to_owned())),
                });
            });
        }
    });
    sender
}

/// Answers of the router.
struct Questions {
    ask: mpsc::Sender<Question>,
    token: Option<Secret>,
}

impl Control for Questions {
    fn address(&self) -> &str {
        "this listener"
    }

    fn request(
        &self,
        method: &str,
        target: &str,
        _body: &[u8],
        timeout: Duration,
    ) -> Result<Value, Problem> {
        if method != "GET" {
            return Err(Problem::Refused("this page changes nothing".to_owned()));
        }
        let gone = || Problem::Unreachable("the server is being stopped".to_owned());
        let (answered, answer) = oneshot::channel();
        let question = (target.to_owned(), timeout, answered);
        self.ask.blocking_send(question).map_err(|_| gone())?;
        answer.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }

    fn token(&self) -> Option<&str> {
        self.token.as_ref().map(Secret::expose)
    }
}
