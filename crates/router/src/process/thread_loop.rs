//! Runs a router thread: its runtime, and the loop that carries out commands of the control thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use howdah_http::drain::Drain;
use howdah_php_pool::pending::Failure;
use howdah_php_pool::thread::{ControlRequest, PhpThread};
use howdah_pipeline::listener::ListeningSocket;
use howdah_pipeline::thread::{Accepting, RouterThread, Shared, ThreadCommand, ThreadHandle};
use howdah_sys::log::Level;
use howdah_upstream::health_checks;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::session::datagrams;
use crate::{accept, connection, http3};

/// Maximum number of threads that read files and look up names for a router thread.
const MAX_BLOCKING_THREADS: usize = 4;

thread_local! {
    /// For the runtime's hooks, which take no argument.
    static PHP: RefCell<Option<Rc<PhpThread>>> = const { RefCell::new(None) };
}

/// Runs router thread `number` until it is told to quit. Ends the process if the runtime cannot be
/// started.
pub(super) fn run(
    number: u32,
    shared: Arc<Shared>,
    requests: UnboundedSender<ControlRequest>,
    handles: Arc<[ThreadHandle]>,
    commands: UnboundedReceiver<ThreadCommand>,
) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .on_thread_park(|| with_php(PhpThread::before_wait))
        .on_thread_unpark(|| with_php(PhpThread::after_wait))
        .build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            shared.log.write(Level::Alert, format_args!("cannot start a router thread: {error}"));
            std::process::exit(1);
        }
    };
    let php = PhpThread::new(number, Arc::clone(&shared.log), requests);
    PHP.set(Some(Rc::clone(&php)));
    let thread = RouterThread::new(number, shared, handles, php);
    runtime.block_on(carry_out_commands(thread, commands));
    PHP.set(None);
}

fn with_php(f: impl Fn(&PhpThread)) {
    PHP.with(|php| {
        if let Some(php) = php.borrow().as_ref() {
            f(php);
        }
    });
}

/// Returns when the thread must end at once.
async fn carry_out_commands(
    thread: Rc<RouterThread>,
    mut commands: UnboundedReceiver<ThreadCommand>,
) {
    spawn_local(Rc::clone(&thread.php).run_drainer());
    spawn_local(Rc::clone(&thread.php).run_ticks());
    spawn_local(Rc::clone(&thread.php).run_time_limits());
    spawn_local(Rc::clone(&thread.php).run_log_backlog());
    while let Some(command) = commands.recv().await {
        match command {
            ThreadCommand::Listen { name, socket } => listen(&thread, name, socket),
            ThreadCommand::ListenHttp3 { listener, name, socket } => {
                let served = Rc::clone(&thread);
                thread
                    .listeners
                    .listen(name, |stop| spawn_local(http3::serve(served, listener, socket, stop)));
            }
            ThreadCommand::Pause { name, done } => {
                thread.listeners.pause(&name).await;
                let _ = done.send(());
            }
            ThreadCommand::AnnounceRemoval { name, last, done } => {
                thread.listeners.announce_removal(name, last);
                let _ = done.send(());
            }
            ThreadCommand::RemoveListener { name, done } => remove_listener(&thread, name, done),
            ThreadCommand::ForgetDirectives { site } => thread.engines.forget(site),
            ThreadCommand::SendSpans(done) => {
                let _ = thread.send_spans();
                let _ = done.send(());
            }
            ThreadCommand::Ping(answer) => {
                if let Err(unread) = answer.send(thread.hand_over()) {
                    thread.count_again(unread);
                }
            }
            ThreadCommand::ListRequests { filter, done } => {
                let _ = done.send(thread.list_requests(&filter));
            }
            ThreadCommand::Serve(accepted) => connection::start(&thread, accepted),
            ThreadCommand::CheckHealth(upstreams) => {
                upstreams.iter().for_each(|upstream| health_checks::watch(&thread.proxy, upstream));
            }
            ThreadCommand::Attach { instance, queue } => {
                if let Err(error) = thread.php.attach(instance, queue) {
                    thread.shared.log.write(
                        Level::Alert,
                        format_args!("cannot receive responses of an application: {error}"),
                    );
                }
            }
            ThreadCommand::Detach { instance, reason } => thread.php.detach(instance, &reason),
            ThreadCommand::WorkerStarted { instance, worker } => {
                thread.php.worker_started(instance, worker);
            }
            ThreadCommand::WorkerDied { instance, worker, how } => {
                thread.php.worker_died(instance, worker, &how);
            }
            ThreadCommand::Fail { keys, reason } => {
                for key in keys.iter().filter(|key| key.thread() == thread.php.number()) {
                    thread.php.fail(*key, Failure::Stopped(reason.clone()));
                }
            }
            ThreadCommand::Leave(deadlines) => {
                thread.listeners.drains().iter().for_each(|drain| drain.hand_over(deadlines));
            }
            ThreadCommand::Quit { graceful: true, handed_over, finished } => {
                let (drains, accepting) = thread.listeners.close();
                drains.iter().for_each(|drain| match handed_over {
                    Some(deadlines) => drain.hand_over(deadlines),
                    None => drain.start(),
                });
                spawn_local(finish(Rc::clone(&thread), drains, accepting, finished));
            }
            ThreadCommand::Quit { graceful: false, finished, .. } => {
                // Tasks end with the runtime.
                let _tasks = thread.listeners.close();
                thread.flush_logs();
                let _ = finished.send(());
                return;
            }
        }
    }
}

fn listen(thread: &Rc<RouterThread>, name: Arc<str>, socket: ListeningSocket) {
    let thread = Rc::clone(thread);
    Rc::clone(&thread).listeners.listen(Arc::clone(&name), |stop| match socket {
        ListeningSocket::Connections(fd, family) => {
            spawn_local(accept::accept_connections(thread, name, (fd, family), stop))
        }
        ListeningSocket::Datagrams(fd) => spawn_local(datagrams::serve(thread, name, fd, stop)),
    });
}

/// Closes the connections of a listener as they become idle. Those that are idle are closed before
/// `done` is sent: they take no request that is sent later.
fn remove_listener(thread: &Rc<RouterThread>, name: Arc<str>, done: oneshot::Sender<()>) {
    let drain = thread.listeners.remove(&name);
    let thread = Rc::clone(thread);
    spawn_local(async move {
        drain.idle_closed().await;
        let _ = done.send(());
        drain.all_closed().await;
        thread.listeners.forget(&name, &drain);
    });
}

/// Waits until all connections are closed, then writes the access log.
async fn finish(
    thread: Rc<RouterThread>,
    drains: Vec<Drain>,
    accepting: Vec<Accepting>,
    finished: oneshot::Sender<()>,
) {
    // One may go on for its clients until the end.
    accepting.iter().for_each(Accepting::notify);
    for accepting in accepting {
        accepting.stop().await;
    }
    for drain in drains {
        drain.all_closed().await;
    }
    thread.flush_logs();
    let _ = finished.send(());
}
