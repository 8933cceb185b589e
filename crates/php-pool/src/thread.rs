//! A router thread's side of PHP: the requests that it waits for, and the instances that answer.
//!
//! Workers mark slots dirty; the thread looks at the marks whenever it has run out of other work
//! (before it would wait for events) and at each new PHP request. Only while it waits do workers
//! write its eventfd, so that under load no system call announces an answer.

mod events;
mod handle;
mod held_back;
mod limits;
pub(super) mod linger;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use howdah_http::variables::ShownRequestId;
use howdah_sys::log::{Level, Log};
use howdah_sys::{futex, reactor};
use howdah_wire::frame::Kind;
use howdah_wire::queue::{Claim, Owner};
use howdah_wire::stream::Reader;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;

use super::pending::{Event, Failure, Pending};
use super::status::Slow;
use crate::queue::{Instance, Key, Queue};

pub use handle::Handle;
use limits::Limit;

/// How long a worker may have a request before its start is reported. Reports come within
/// milliseconds; a name that is still unknown then was made up.
const UNREPORTED: Duration = Duration::from_secs(2);

/// Frames that are taken from a slot before others have their turn.
const FRAMES: usize = 64;

/// Turns of taking what a worker that has died left: its ring, at the least that a frame takes.
const TURNS: usize = 256;

/// What a router thread asks of the control thread.
#[derive(Debug)]
pub enum Ask {
    /// Kill a worker whose script has run longer than it may.
    Overdue(Slow),
    /// Kill a worker that writes nonsense.
    Kill {
        /// The instance.
        instance: u32,
        /// The worker.
        worker: Owner,
    },
    /// More requests than workers are there.
    Crowded,
}

/// For the log: which request it was.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Application.
    pub application: Arc<str>,
    /// Request id.
    pub id: u64,
    /// Method.
    pub method: Bytes,
    /// Request target.
    pub target: Bytes,
    /// The script.
    pub script: Arc<Path>,
    /// Who it is from, if a password proved it.
    pub user: Option<Bytes>,
    /// Bytes of its body.
    pub length: u64,
}

impl std::fmt::Display for RequestContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "\"{}\" request {}: {} {} ({})",
            self.application,
            ShownRequestId(self.id),
            String::from_utf8_lossy(&self.method),
            String::from_utf8_lossy(&self.target),
            self.script.display()
        )
    }
}

/// What becomes of records for the log if their application writes too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogLimit {
    /// They wait, and the worker with them.
    Wait,
    /// They are lost: the worker has died, and its slot is needed.
    Drop,
}

/// PHP on one router thread.
#[derive(Debug)]
pub struct PhpThread {
    thread: u32,
    log: Arc<Log>,
    ask: UnboundedSender<Ask>,
    entries: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    attached: RefCell<HashMap<u32, Rc<Attached>>>,
    buffer: RefCell<Vec<u8>>,
    /// Empty between two uses; keeps its memory.
    dirty: RefCell<Vec<(Rc<Attached>, u32)>>,
    drainer: RefCell<Option<Waker>>,
    limits: limits::Watch,
    held_back: held_back::HeldBack,
    linger: linger::Linger,
}

#[derive(Debug)]
struct Attached {
    instance: Arc<Instance>,
    queue: Arc<Queue>,
    event: AsyncFd<OwnedFd>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

#[derive(Debug)]
struct Entry {
    pending: Pending,
    reader: Reader,
    context: Arc<RequestContext>,
    limit: Limit,
    /// The worker has been given back, or there never was one.
    settled: bool,
    /// Somebody waits for the answer.
    held: bool,
    /// The worker has written nonsense or run too long: nothing more is taken from it.
    distrusted: bool,
    /// What the worker has asked for while its start had not been reported yet.
    asks: Option<Event>,
    /// Records for the log that were lost.
    unlogged: u32,
    /// Frames were left in the ring because too much waits for the client.
    stalled: Option<(Arc<Instance>, u32)>,
}

impl PhpThread {
    /// For router thread `thread`.
    pub fn new(thread: u32, log: Arc<Log>, ask: UnboundedSender<Ask>) -> Rc<Self> {
        Rc::new(PhpThread {
            thread,
            log,
            ask,
            entries: RefCell::default(),
            free: RefCell::default(),
            attached: RefCell::default(),
            buffer: RefCell::default(),
            dirty: RefCell::default(),
            drainer: RefCell::default(),
            limits: limits::Watch::default(),
            held_back: held_back::HeldBack::default(),
            linger: linger::Linger::default(),
        })
    }

    /// Number of this thread.
    pub fn number(&self) -> u32 {
        self.thread
    }

    /// Asks something of the control thread.
    pub fn ask(&self, ask: Ask) {
        let _ = self.ask.send(ask);
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    // -- requests --

    /// Registers a request that is about to be queued.
    ///
    /// Its script is ended when it has run for `timeout`; the time in the queue does not count.
    pub fn register(
        self: &Rc<Self>,
        pending: Pending,
        context: Arc<RequestContext>,
        timeout: Option<Duration>,
    ) -> Handle {
        self.limits.begin(timeout);
        self.linger.begin();
        let mut entries = self.entries.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            entries.push(Slot::default());
            entries.len() as u32 - 1
        });
        let slot = &mut entries[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(Entry {
            pending,
            reader: Reader::default(),
            context,
            limit: Limit::new(timeout),
            settled: false,
            held: true,
            distrusted: false,
            asks: None,
            unlogged: 0,
            stalled: None,
        });
        let key = Key::new(self.thread, slot.generation, index);
        Handle::new(Rc::clone(self), key)
    }

    fn with_entry<T>(&self, key: Key, f: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entries = self.entries.borrow_mut();
        let index = key.index();
        let slot = entries.get_mut(index)?;
        if Key::new(self.thread, slot.generation, index as u32) != key {
            return None;
        }
        slot.entry.as_mut().map(f)
    }

    /// Forgets a request when its worker is free and nobody waits for it.
    fn forget_if_over(&self, key: Key) {
        if self.with_entry(key, |entry| entry.settled && !entry.held) == Some(true) {
            let entry = self.entries.borrow_mut()[key.index()].entry.take();
            self.free.borrow_mut().push(key.index() as u32);
            self.limits.end(entry.as_ref().and_then(|entry| entry.limit.timeout));
            self.linger.end();
            drop(entry);
        }
    }

    // -- instances --

    /// An instance may answer requests of this thread from now on.
    pub fn attach(&self, instance: Arc<Instance>, queue: Arc<Queue>) -> std::io::Result<()> {
        let eventfd = instance.eventfds()[self.thread as usize].try_clone()?;
        let event = reactor::readable(eventfd)?;
        let attached = Rc::new(Attached { instance, queue, event });
        self.attached.borrow_mut().insert(attached.instance.number, Rc::clone(&attached));
        self.wake_drainer();
        Ok(())
    }

    /// An instance has ended, and its workers with it: what they had in hand has failed.
    pub fn detach(&self, number: u32, how: &str) {
        let Some(attached) = self.attached.borrow_mut().remove(&number) else { return };
        self.settle(&attached, &Failure::Died(how.to_owned()), |_, _| true);
    }

    /// A worker has been reported; it may have taken a request before.
    pub fn worker_started(&self, number: u32, worker: Owner) {
        let attached = self.attached.borrow().get(&number).cloned();
        let Some(attached) = attached else { return };
        for (slot, key, claim) in attached.queue.claims_of(&attached.instance, self.thread) {
            if matches!(claim, Claim::Taken(_, owner) if owner == worker)
                && let Some(Some(event)) = self.with_entry(key, |entry| entry.asks.take())
            {
                self.on_event(&attached, slot, key, event);
            }
        }
    }

    /// A worker has died: the request that it had has failed, unless it was complete.
    pub fn worker_died(self: &Rc<Self>, number: u32, worker: Owner, how: &str) {
        let attached = self.attached.borrow().get(&number).cloned();
        let Some(attached) = attached else { return };
        let failure = Failure::Died(how.to_owned());
        self.settle(&attached, &failure, |_, claim| match claim {
            Claim::Taken(_, owner) => owner == worker,
            Claim::Queued(_) => false,
            // No honest worker leaves a slot that somebody waits for in such a state.
            Claim::Free | Claim::Cancelled(_) => true,
        });
        // A name that nobody has: of a worker that has just been forked in the place of this
        // one, or written there by this one.
        let unknown = |attached: &Attached, claim| match claim {
            Claim::Taken(_, owner) => !attached.instance.has_worker(owner),
            _ => false,
        };
        let claims = attached.queue.claims_of(&attached.instance, self.thread);
        let doubtful: Vec<_> =
            claims.iter().filter(|(_, _, claim)| unknown(&attached, *claim)).map(|c| c.1).collect();
        if doubtful.is_empty() {
            return;
        }
        let thread = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(UNREPORTED).await;
            thread.settle(&attached, &failure, |key, claim| {
                doubtful.contains(&key) && unknown(&attached, claim)
            });
        });
    }

    fn settle(
        &self,
        attached: &Rc<Attached>,
        failure: &Failure,
        dead: impl Fn(Key, Claim) -> bool,
    ) {
        for (slot, key, claim) in attached.queue.claims_of(&attached.instance, self.thread) {
            if !dead(key, claim) {
                continue;
            }
            // What the dead have left is no more than a ring holds; the living may write to it.
            let _ = (0..TURNS).all(|_| self.drain_slot(attached, slot, LogLimit::Drop));
            if attached.instance.key(slot) != Some(key) {
                continue; // its last frames settled it
            }
            attached.queue.release(&attached.instance, slot);
            let context = self.with_entry(key, |entry| {
                entry.settled = true;
                entry.pending.fail(failure.clone());
                (!entry.distrusted).then(|| Arc::clone(&entry.context))
            });
            let unlogged =
                self.with_entry(key, |entry| (entry.unlogged, Arc::clone(&entry.context)));
            if let Some((records @ 1.., context)) = unlogged {
                let what = "parts of messages that its worker left are not logged: too many came";
                self.log.write(Level::Error, format_args!("{context}: {records} {what}"));
            }
            // Why one was killed that is not trusted any more has been told.
            if let (Some(Some(context)), Failure::Died(how)) = (context, failure) {
                self.log.write(Level::Error, format_args!("{context}: {how}"));
            }
            self.forget_if_over(key);
        }
    }

    /// A queued request has failed with its application.
    pub fn fail(&self, key: Key, failure: Failure) {
        self.with_entry(key, |entry| {
            entry.settled = true;
            entry.pending.fail(failure);
        });
        self.forget_if_over(key);
    }

    // -- answers --

    /// Takes what workers have answered. Cheap when there is nothing.
    pub fn drain(&self) {
        let mut slots = self.dirty.take();
        for attached in self.attached.borrow().values() {
            attached.instance.region.take_dirty(self.thread, |slot| {
                slots.push((Rc::clone(attached), slot));
            });
        }
        slots.retain(|(attached, slot)| self.drain_slot(attached, *slot, LogLimit::Wait));
        if !slots.is_empty() {
            self.wake_drainer(); // after all others had a turn
        }
        self.dirty.replace(slots);
    }

    /// Takes frames of a slot; `true` if there may be more than are taken at once: a script that
    /// writes as fast as they are taken must not keep the thread from everybody else.
    fn drain_slot(&self, attached: &Rc<Attached>, slot: u32, log_limit: LogLimit) -> bool {
        let Some(key) = attached.instance.key(slot) else { return false };
        if key.thread() != self.thread {
            return false;
        }
        let mut buffer = self.buffer.take();
        let mut more = true;
        for _ in 0..FRAMES {
            buffer.clear();
            let step = self.with_entry(key, |entry| {
                if entry.distrusted {
                    return Ok(None);
                }
                if !entry.pending.has_room() {
                    entry.stalled = Some((Arc::clone(&attached.instance), slot));
                    return Ok(None);
                }
                let (reader, region) = (&mut entry.reader, &attached.instance.region);
                let frame = reader.peek(region, slot).map_err(|corrupt| corrupt.0.to_owned())?;
                let Some(frame) = frame else { return Ok(None) };
                if frame.kind == Kind::Log as u8 && !attached.queue.log_rate.has_room() {
                    match log_limit {
                        LogLimit::Wait => {
                            self.held_back.put(attached, slot);
                            return Ok(None);
                        }
                        LogLimit::Drop => {
                            reader.take(region, slot, frame, &mut buffer);
                            entry.unlogged += 1;
                            return Ok(Some(Event::None));
                        }
                    }
                }
                let event = if frame.kind == Kind::Body as u8 {
                    let take = |out: &mut Vec<u8>| reader.take(region, slot, frame, out);
                    entry.pending.body(frame.len, frame.behind, take)
                } else {
                    reader.take(region, slot, frame, &mut buffer);
                    entry.pending.frame(frame.kind, &buffer)
                };
                event.map(Some)
            });
            match step {
                None | Some(Ok(None)) => more = false,
                Some(Ok(Some(event))) => more = !self.on_event(attached, slot, key, event),
                Some(Err(nonsense)) => {
                    self.distrust(attached, slot, key, nonsense);
                    more = false;
                }
            }
            if !more {
                break;
            }
        }
        self.buffer.replace(buffer);
        let wake = self.with_entry(key, |entry| {
            !entry.settled && entry.reader.release(&attached.instance.region, slot)
        });
        if wake == Some(true)
            && let Some(words) = attached.instance.region.slot(slot)
        {
            futex::wake(words.space, 1);
        }
        self.forget_if_over(key);
        more
    }

    // -- sleeping and waking --

    /// Before the thread waits for events: workers write its eventfd from now on. If there is
    /// something to take already, the drainer runs instead.
    pub fn before_wait(&self) {
        let attached = self.attached.borrow();
        self.linger.until(|| {
            attached.values().any(|attached| attached.instance.region.is_dirty(self.thread))
        });
        let mut dirty = false;
        for attached in attached.values() {
            dirty |= attached.instance.region.thread_sleeps(self.thread);
        }
        drop(attached);
        if dirty {
            self.after_wait();
            self.wake_drainer();
        }
    }

    /// After the thread has waited.
    pub fn after_wait(&self) {
        for attached in self.attached.borrow().values() {
            attached.instance.region.thread_wakes(self.thread);
        }
    }

    fn wake_drainer(&self) {
        if let Some(waker) = self.drainer.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Takes answers for as long as the thread runs.
    pub async fn run_drainer(self: Rc<Self>) {
        poll_fn(|cx| {
            self.drainer.replace(Some(cx.waker().clone()));
            self.poll_events(cx);
            self.drain();
            Poll::<()>::Pending
        })
        .await;
    }

    /// Registers interest in every eventfd. They are edge triggered, so nobody reads them.
    fn poll_events(&self, cx: &mut Context<'_>) {
        for attached in self.attached.borrow().values() {
            while let Poll::Ready(Ok(mut ready)) = attached.event.poll_read_ready(cx) {
                ready.clear_ready();
            }
        }
    }
}
