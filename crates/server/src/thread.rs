//! A router thread: one current-thread runtime, its connections, its cache of files, and the PHP
//! requests that it waits for.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use howdah_config::Config;
use howdah_files::Files;
use howdah_http::drain::{Drain, Draining};
use howdah_http::eviction::Client;
use howdah_http::exchange::Finished;
use howdah_http::limits::Limits;
use howdah_php_pool::pending::Failure;
use howdah_php_pool::queue::{Instance, Key, Queue};
use howdah_php_pool::thread::{Ask, PhpThread};
use howdah_sys::log::{Level, Log};
use howdah_tls::challenges::ChallengeStore;
use howdah_upstream::health;
use howdah_upstream::thread::ProxyThread;
use howdah_upstream::upstream::Upstream;
use howdah_wire::queue::Owner;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, spawn_local};

use crate::access_log;
use crate::access_log::Lines;
use crate::blame::Blames;
use crate::connection;
use crate::listener;
use crate::listener::{Accepted, Socket};
use crate::room::{Capacity, Shortage};
use crate::route::Scratch;
use crate::router::sandbox::Bounds;
use crate::snapshot::Snapshot;

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    /// The configuration that new requests take.
    pub snapshot: ArcSwap<Snapshot>,
    /// The log.
    pub log: Arc<Log>,
    /// Directory for temporary files.
    pub tmp: Arc<Path>,
    /// How many of the threads get new connections.
    pub threads: AtomicUsize,
    /// Limit of open files.
    pub capacity: Capacity,
    /// Where authorities look for proofs of names.
    pub door: Arc<ChallengeStore>,
    /// What is left to this process.
    pub(crate) bounds: Bounds,
}

/// What the control thread tells a router thread.
#[derive(Debug)]
pub enum Order {
    /// Accept connections; nothing new if this thread does already.
    Listen {
        /// The listener's name.
        name: Arc<str>,
        /// Its socket.
        socket: Socket,
    },
    /// Leave new connections to other threads; those that are open go on.
    Pause {
        /// The listener's name.
        name: Arc<str>,
        /// Told when this thread has closed the socket.
        done: oneshot::Sender<()>,
    },
    /// The next configuration will not have this listener.
    Removing {
        /// The listener's name.
        name: Arc<str>,
        /// The last configuration with it: requests that it accepted are decided by this one.
        last: Arc<Snapshot>,
        /// Told when that will be so.
        done: oneshot::Sender<()>,
    },
    /// The listener is gone, and all threads have paused: connections end when they are idle.
    Unlisten {
        /// The listener's name.
        name: Arc<str>,
        /// Told when those that are idle have ended.
        done: oneshot::Sender<()>,
    },
    /// Ask the servers of these upstreams again and again whether they are well.
    Watch(Vec<Arc<Upstream>>),
    /// Serve a connection that another thread has accepted.
    Connection(Accepted),
    /// An instance may answer requests.
    Attach {
        /// The instance.
        instance: Arc<Instance>,
        /// Its application's queue.
        queue: Arc<Queue>,
    },
    /// An instance has ended.
    Detach {
        /// Its number.
        instance: u32,
        /// Why.
        reason: String,
    },
    /// A worker's start has been reported.
    WorkerStarted {
        /// Its instance.
        instance: u32,
        /// The worker.
        worker: Owner,
    },
    /// A worker has died.
    WorkerDied {
        /// Its instance.
        instance: u32,
        /// The worker.
        worker: Owner,
        /// How, for the log.
        how: Arc<str>,
    },
    /// Queued requests have failed.
    Fail {
        /// The requests; those of other threads are passed over.
        keys: Arc<[Key]>,
        /// Why.
        reason: String,
    },
    /// End: at once, or when all connections have.
    Quit {
        /// Let requests finish.
        graceful: bool,
        /// Told when there is nothing left to do.
        finished: oneshot::Sender<()>,
    },
}

/// Another thread's handle of a router thread.
#[derive(Debug, Clone)]
pub struct Handle {
    orders: UnboundedSender<Order>,
    counters: Arc<Counters>,
}

/// What a thread has done; written by that thread alone, read by others.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that it has served or serves.
    pub accepted: AtomicU64,
    /// Connections that have ended.
    pub closed: AtomicU64,
    /// Requests that are being answered.
    pub active: AtomicU64,
    /// Requests that came.
    pub requests: AtomicU64,
}

impl Counters {
    /// Number of open connections.
    pub fn open(&self) -> u64 {
        self.accepted.load(Relaxed).saturating_sub(self.closed.load(Relaxed))
    }
}

impl Handle {
    /// Gives an order. A thread that has ended takes none.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// What the thread has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// A router thread's own state.
pub struct Shard {
    /// What all threads share.
    pub shared: Arc<Shared>,
    /// Files.
    pub files: Files,
    /// Memory for deciding a request.
    pub scratch: RefCell<Scratch>,
    /// What it has logged about clients.
    pub blames: Blames,
    /// Lines of the access log that wait to be written.
    lines: RefCell<Lines>,
    /// When lines were last written.
    written: Cell<Option<Instant>>,
    /// PHP.
    pub php: Rc<PhpThread>,
    /// Other HTTP servers.
    pub proxy: Rc<ProxyThread>,
    /// FastCGI servers, whose connections are others.
    pub fastcgi: Rc<ProxyThread>,
    /// Room for more connections.
    pub shortage: Shortage,
    /// All threads, to hand connections over.
    pub handles: Arc<[Handle]>,
    /// Lets connections end whose listener is gone.
    drain: Drain,
    limits: RefCell<(Weak<Snapshot>, Rc<Limits>)>,
    /// What this thread has done.
    pub counters: Arc<Counters>,
    listening: RefCell<HashMap<Arc<str>, Listening>>,
    removed: RefCell<HashMap<Arc<str>, Removed>>,
    next_id: Cell<u64>,
}

/// A listener.
#[derive(Default)]
struct Listening {
    /// Accepts connections, unless that is left to other threads.
    task: Option<Accepting>,
    drain: Drain,
}

/// A task that accepts connections until it is told to stop.
struct Accepting {
    task: JoinHandle<()>,
    stop: Rc<Notify>,
}

impl Accepting {
    /// Accepts no more; the socket is closed when this returns.
    async fn stop(self) {
        self.stop.notify_one();
        let _ = self.task.await;
    }
}

/// A listener that has been removed while connections were open.
struct Removed {
    last: Arc<Snapshot>,
    drain: Drain,
}

thread_local! {
    /// For the runtime's hooks, which know nothing but the thread.
    static PHP: RefCell<Option<Rc<PhpThread>>> = const { RefCell::new(None) };
}

/// How many threads a configuration asks for; as many as there are processors if it does not say.
pub fn wanted(config: &Config) -> usize {
    /// A key of a PHP request has room for so many.
    const MOST: usize = 64;
    let wanted = config.settings.listen_threads.map(|threads| threads as usize);
    let wanted = wanted
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    wanted.clamp(1, MOST)
}

/// Starts `count` router threads.
pub fn start(
    count: u32,
    shared: &Arc<Shared>,
    ask: &UnboundedSender<Ask>,
) -> std::io::Result<Arc<[Handle]>> {
    let (handles, receivers): (Vec<_>, Vec<_>) = (0..count)
        .map(|_| {
            let (orders, receiver) = unbounded_channel();
            (Handle { orders, counters: Arc::default() }, receiver)
        })
        .unzip();
    let handles: Arc<[Handle]> = handles.into();
    for (number, receiver) in receivers.into_iter().enumerate() {
        let (shared, ask, handles) = (Arc::clone(shared), ask.clone(), Arc::clone(&handles));
        std::thread::Builder::new()
            .name(format!("router-{number}"))
            .spawn(move || run(number as u32, shared, ask, handles, receiver))?;
    }
    Ok(handles)
}

fn run(
    number: u32,
    shared: Arc<Shared>,
    ask: UnboundedSender<Ask>,
    handles: Arc<[Handle]>,
    orders: UnboundedReceiver<Order>,
) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
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
    let php = PhpThread::new(number, Arc::clone(&shared.log), ask);
    PHP.set(Some(Rc::clone(&php)));
    let proxy = ProxyThread::new(Arc::clone(&shared.log));
    let fastcgi = ProxyThread::new(Arc::clone(&shared.log));
    let limits = howdah_files::Limits::default();
    let shortage = Shortage::new(shared.capacity);
    let open = limits.open.min(shared.capacity.cached_files(handles.len() as u64));
    let files =
        Files::new(howdah_files::Limits { open, ..limits }).with_log(Arc::clone(&shared.log));
    let shard = Rc::new(Shard {
        shared,
        files,
        scratch: RefCell::default(),
        blames: Blames::default(),
        lines: RefCell::default(),
        written: Cell::new(None),
        php,
        proxy,
        fastcgi,
        shortage,
        counters: Arc::clone(&handles[number as usize].counters),
        handles,
        drain: Drain::new(),
        limits: RefCell::default(),
        listening: RefCell::default(),
        removed: RefCell::default(),
        // Unique among the threads, and not the same after a restart.
        next_id: Cell::new(u64::from(number) << 56 | boot_stamp() << 24),
    });
    runtime.block_on(shard.run(orders));
    PHP.set(None);
}

fn with_php(f: impl Fn(&PhpThread)) {
    PHP.with(|php| {
        if let Some(php) = php.borrow().as_ref() {
            f(php);
        }
    });
}

/// Seconds of the wall clock, 32 bits of them.
fn boot_stamp() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() & 0xffff_ffff)
}

impl Shard {
    async fn run(self: Rc<Self>, mut orders: UnboundedReceiver<Order>) {
        spawn_local(Rc::clone(&self.php).run_drainer());
        spawn_local(Rc::clone(&self.php).run_limits());
        spawn_local(Rc::clone(&self.php).run_held_back());
        while let Some(order) = orders.recv().await {
            match order {
                Order::Listen { name, socket } => self.listen(name, socket),
                Order::Pause { name, done } => {
                    self.pause(&name).await;
                    let _ = done.send(());
                }
                Order::Removing { name, last, done } => {
                    if let Some(listening) = self.listening.borrow().get(&name) {
                        let removed = Removed { last, drain: listening.drain.clone() };
                        self.removed.borrow_mut().insert(name, removed);
                    }
                    let _ = done.send(());
                }
                Order::Unlisten { name, done } => {
                    self.unlisten(name, done);
                }
                Order::Connection(accepted) => self.serve(accepted),
                Order::Watch(upstreams) => {
                    upstreams.iter().for_each(|upstream| health::watch(&self.proxy, upstream));
                }
                Order::Attach { instance, queue } => {
                    if let Err(error) = self.php.attach(instance, queue) {
                        self.shared.log.write(
                            Level::Alert,
                            format_args!("cannot take answers of an application: {error}"),
                        );
                    }
                }
                Order::Detach { instance, reason } => {
                    self.php.detach(instance, &reason);
                }
                Order::WorkerStarted { instance, worker } => {
                    self.php.worker_started(instance, worker);
                }
                Order::WorkerDied { instance, worker, how } => {
                    self.php.worker_died(instance, worker, &how);
                }
                Order::Fail { keys, reason } => {
                    for key in keys.iter().filter(|key| key.thread() == self.php.number()) {
                        self.php.fail(*key, Failure::Stopped(reason.clone()));
                    }
                }
                Order::Quit { graceful, finished } => {
                    let (drains, accepting) = self.close_listeners();
                    if graceful {
                        drains.iter().for_each(Drain::start);
                        let shard = Rc::clone(&self);
                        spawn_local(async move {
                            for accepting in accepting {
                                accepting.stop().await;
                            }
                            for drain in drains {
                                drain.emptied().await;
                            }
                            shard.flush_log();
                            let _ = finished.send(());
                        });
                    } else {
                        self.flush_log();
                        let _ = finished.send(());
                        return;
                    }
                }
            }
        }
    }

    fn listen(self: &Rc<Self>, name: Arc<str>, socket: Socket) {
        let mut listening = self.listening.borrow_mut();
        let listening = listening.entry(Arc::clone(&name)).or_default();
        listening.task.get_or_insert_with(|| {
            let stop = Rc::new(Notify::new());
            let accept = listener::accept(Rc::clone(self), name, socket, Rc::clone(&stop));
            Accepting { task: spawn_local(accept), stop }
        });
    }

    /// Accepts no more connections; the socket is closed when this returns.
    async fn pause(&self, name: &str) {
        let task = self.listening.borrow_mut().get_mut(name).and_then(|found| found.task.take());
        if let Some(accepting) = task {
            accepting.stop().await;
        }
    }

    /// Ends the connections of a listener. Those that are idle have ended when `done` is told: they
    /// take no request that is sent later.
    fn unlisten(self: &Rc<Self>, name: Arc<str>, done: oneshot::Sender<()>) {
        let listening = self.listening.borrow_mut().remove(&name);
        let drain = listening.map(|listening| listening.drain).unwrap_or_default();
        drain.start();
        let shard = Rc::clone(self);
        spawn_local(async move {
            drain.heard().await;
            let _ = done.send(());
            drain.emptied().await;
            let mut removed = shard.removed.borrow_mut();
            // A listener of this name may have come and gone once more.
            if removed.get(&name).is_some_and(|found| found.drain.is(&drain)) {
                removed.remove(&name);
            }
        });
    }

    /// What lets the connections end, and what still accepts others.
    fn close_listeners(&self) -> (Vec<Drain>, Vec<Accepting>) {
        let drains = self.drains();
        let listening = self.listening.take();
        (drains, listening.into_values().filter_map(|listening| listening.task).collect())
    }

    /// Signals of all connections of this thread.
    pub fn drains(&self) -> Vec<Drain> {
        let mut drains = vec![self.drain.clone()];
        drains.extend(self.listening.borrow().values().map(|listening| listening.drain.clone()));
        drains.extend(self.removed.borrow().values().map(|removed| removed.drain.clone()));
        drains
    }

    /// The signal that a connection of this listener ends by.
    fn draining(&self, listener: &str) -> Draining {
        if let Some(listening) = self.listening.borrow().get(listener) {
            return listening.drain.connection();
        }
        let removed = self.removed.borrow();
        removed.get(listener).map_or(&self.drain, |removed| &removed.drain).connection()
    }

    /// The configuration that decides the next request of a listener.
    pub fn snapshot_for(&self, listener: &str) -> Arc<Snapshot> {
        let current = self.shared.snapshot.load_full();
        if current.listeners.contains_key(listener) {
            return current;
        }
        let removed = self.removed.borrow();
        removed.get(listener).map_or(current, |removed| Arc::clone(&removed.last))
    }

    /// Serves a connection on this thread.
    pub fn serve(self: &Rc<Self>, accepted: Accepted) {
        let draining = self.draining(&accepted.listener);
        draining.accepted_from(Client::of(accepted.info.peer));
        connection::serve(self, accepted, draining);
    }

    /// The limits of the current configuration.
    pub fn limits(&self) -> Rc<Limits> {
        let snapshot = self.shared.snapshot.load();
        let mut cached = self.limits.borrow_mut();
        if !std::ptr::eq(cached.0.as_ptr(), Arc::as_ptr(&snapshot)) {
            *cached = (Arc::downgrade(&snapshot), Rc::new(snapshot.limits()));
        }
        Rc::clone(&cached.1)
    }

    /// Puts a line for a request in the access log, if there is one: at once, or together with
    /// others if lines were written a moment ago.
    pub fn log(self: &Rc<Self>, record: &Finished<'_>) {
        let snapshot = self.shared.snapshot.load();
        let Some(log) = &snapshot.access_log else { return };
        if self.lines.borrow_mut().add(log, record, &self.shared.log) {
            let age = self.written.get().map_or(access_log::DELAY, |at| at.elapsed());
            let Some(wait) = access_log::DELAY.checked_sub(age).filter(|wait| !wait.is_zero())
            else {
                return self.flush_log();
            };
            let shard = Rc::clone(self);
            spawn_local(async move {
                tokio::time::sleep(wait).await;
                shard.flush_log();
            });
        }
    }

    fn flush_log(&self) {
        self.written.set(Some(Instant::now()));
        self.lines.borrow_mut().flush(&self.shared.log);
    }

    /// A request id.
    pub fn request_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        id
    }
}
