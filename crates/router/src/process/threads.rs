//! Starts the router threads and sends them commands.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::num::NonZero;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use howdah_config::Config;
use howdah_php_pool::thread::ControlRequest;
use howdah_pipeline::listener::ListeningSocket;
use howdah_pipeline::thread::{Shared, ThreadCommand, ThreadHandle};
use howdah_routing::snapshot::Snapshot;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::thread_loop;

/// Maximum number of threads: the key of a PHP request has room for as many.
const MAX_THREADS: usize = 64;

/// Returns the number of threads that a configuration asks for; default: the number of processors.
pub(super) fn thread_count(config: &Config) -> usize {
    let configured = config.settings.listen_threads.map(|threads| threads as usize);
    let count =
        configured.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get));
    count.clamp(1, MAX_THREADS)
}

/// Handles of all router threads.
#[derive(Debug, Clone)]
pub(super) struct Threads(Arc<[ThreadHandle]>);

impl Deref for Threads {
    type Target = [ThreadHandle];

    fn deref(&self) -> &[ThreadHandle] {
        &self.0
    }
}

impl Threads {
    /// Starts `count` threads. They send their requests to the control thread through `requests`.
    pub(super) fn start(
        count: usize,
        shared: &Arc<Shared>,
        requests: &UnboundedSender<ControlRequest>,
    ) -> io::Result<Self> {
        let (handles, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| ThreadHandle::new()).unzip();
        let handles: Arc<[ThreadHandle]> = handles.into();
        for (number, commands) in receivers.into_iter().enumerate() {
            let (shared, requests) = (Arc::clone(shared), requests.clone());
            let handles = Arc::clone(&handles);
            std::thread::Builder::new().name(format!("router-{number}")).spawn(move || {
                thread_loop::run(number as u32, shared, requests, handles, commands);
            })?;
        }
        Ok(Threads(handles))
    }

    /// Sends a command to each thread.
    pub(super) fn send(&self, command: impl Fn() -> ThreadCommand) {
        self.iter().for_each(|thread| thread.send(command()));
    }
}

/// Sends a command to each of these threads. The future waits until all have carried it out, and
/// returns their answers; a thread that has ended has none.
pub(super) fn send_and_wait<T>(
    threads: &[ThreadHandle],
    command: impl Fn(oneshot::Sender<T>) -> ThreadCommand,
) -> impl Future<Output = Vec<T>> {
    let send = |thread: &ThreadHandle| {
        let (done, wait) = oneshot::channel();
        thread.send(command(done));
        wait
    };
    let waits: Vec<_> = threads.iter().map(send).collect();
    async {
        let mut answers = Vec::with_capacity(waits.len());
        for wait in waits {
            answers.extend(wait.await);
        }
        answers
    }
}

/// Lets each of these threads accept connections of a listener. Datagrams go to one of them, which
/// has the sessions of their clients.
pub(super) fn listen(
    threads: &[ThreadHandle],
    snapshot: &Snapshot,
    name: &str,
    fd: OwnedFd,
) -> io::Result<()> {
    let is_server_first = snapshot.listeners.get(name).is_some_and(|one| one.session.is_some());
    let socket = ListeningSocket::new(name, fd, is_server_first);
    let threads = match socket {
        ListeningSocket::Connections(..) => threads,
        ListeningSocket::Datagrams(_) => {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            let chosen = hasher.finish() as usize % threads.len().max(1);
            threads.get(chosen..=chosen).unwrap_or_default()
        }
    };
    let name: Arc<str> = name.into();
    for thread in threads {
        let socket = socket.try_clone()?;
        thread.send(ThreadCommand::Listen { name: Arc::clone(&name), socket });
    }
    Ok(())
}
