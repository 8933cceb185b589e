//! Takes the frames of responses from the slots that workers have marked dirty.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::futex;
use howdah_wire::frame::Kind;

use super::attached::AttachedInstance;
use super::php_thread::PhpThread;
use crate::pending::Event;
use crate::request::RequestKey;

/// Maximum number of frames taken from a slot in one turn.
const MAX_FRAMES_PER_TURN: usize = 64;

/// Interval of the checks whether applications may log again.
const LOG_RATE_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Treatment of a log record while its application exceeds its log rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FullLog {
    /// The record waits in the ring, and the worker with it.
    Wait,
    /// The record is lost: the worker has died, and its slot is needed.
    DropRecord,
}

impl PhpThread {
    /// Takes the frames that workers have written. Cheap if there are none.
    pub fn drain(&self) {
        let mut slots = self.dirty.take();
        for attached in self.attached.borrow().values() {
            attached.instance.region.take_dirty(self.number, |slot| {
                slots.push((Rc::clone(attached), slot));
            });
        }
        slots.retain(|(attached, slot)| self.drain_slot(attached, *slot, FullLog::Wait));
        if !slots.is_empty() {
            self.wake_drainer(); // the next turn comes after all other tasks
        }
        self.dirty.replace(slots);
    }

    /// Resumes the slots whose applications may log again, for as long as the thread runs.
    pub async fn run_log_backlog(self: Rc<Self>) {
        loop {
            self.log_backlog.added.notified().await;
            tokio::time::sleep(LOG_RATE_CHECK_INTERVAL).await;
            let slots = self.log_backlog.slots.take();
            let (ready, rest): (Vec<_>, Vec<_>) =
                slots.into_iter().partition(|(attached, _)| attached.queue.log_rate.has_room());
            for (attached, slot) in &rest {
                self.log_backlog.push(attached, *slot);
            }
            if !ready.is_empty() {
                self.dirty.borrow_mut().extend(ready);
                self.wake_drainer();
            }
        }
    }

    /// Takes one turn of frames from a slot. Returns true if there may be more: a script that
    /// writes as fast as its frames are taken must not occupy the thread.
    pub(super) fn drain_slot(
        &self,
        attached: &Rc<AttachedInstance>,
        slot: u32,
        full_log: FullLog,
    ) -> bool {
        let Some(key) = attached.instance.key(slot) else { return false };
        if key.thread() != self.number {
            return false;
        }
        let mut buffer = self.buffer.take();
        let mut has_more = true;
        for _ in 0..MAX_FRAMES_PER_TURN {
            buffer.clear();
            has_more = match self.take_frame(attached, slot, key, &mut buffer, full_log) {
                None => false,
                Some(Ok(event)) => !self.on_event(attached, slot, key, event),
                Some(Err(problem)) => {
                    self.reject_worker(attached, slot, key, problem);
                    false
                }
            };
            if !has_more {
                break;
            }
        }
        self.buffer.replace(buffer);
        let has_waiter = self.with_entry(key, |entry| {
            !entry.is_settled && entry.reader.release(&attached.instance.region, slot)
        });
        if has_waiter == Some(true)
            && let Some(words) = attached.instance.region.slot(slot)
        {
            futex::wake(words.space, 1);
        }
        self.remove_if_finished(key);
        has_more
    }

    /// Takes one frame. `None` if there is none to take now. Error: a frame that no valid worker
    /// writes.
    fn take_frame(
        &self,
        attached: &Rc<AttachedInstance>,
        slot: u32,
        key: RequestKey,
        buffer: &mut Vec<u8>,
        full_log: FullLog,
    ) -> Option<Result<Event, String>> {
        self.with_entry(key, |entry| {
            if entry.is_rejected {
                return None;
            }
            if !entry.pending.has_room() && !entry.is_overdue {
                entry.stalled = Some((Arc::clone(&attached.instance), slot));
                return None;
            }
            let (reader, region) = (&mut entry.reader, &attached.instance.region);
            let frame = match reader.peek(region, slot) {
                Ok(frame) => frame?,
                Err(corrupt) => return Some(Err(corrupt.0.to_owned())),
            };
            if frame.kind == Kind::Log as u8 && !attached.queue.log_rate.has_room() {
                match full_log {
                    FullLog::Wait => {
                        self.log_backlog.push(attached, slot);
                        return None;
                    }
                    FullLog::DropRecord => {
                        reader.take(region, slot, frame, buffer);
                        entry.lost_records += 1;
                        return Some(Ok(Event::None));
                    }
                }
            }
            if entry.is_overdue && frame.kind != Kind::Log as u8 {
                // The slot stays the worker's, which is being killed, until it is dead.
                if frame.kind == Kind::Done as u8 {
                    return None;
                }
                reader.take(region, slot, frame, buffer);
                return Some(Ok(Event::None));
            }
            Some(if frame.kind == Kind::Body as u8 {
                let take = |out: &mut Vec<u8>| reader.take(region, slot, frame, out);
                entry.pending.body(frame.len, frame.behind, take)
            } else {
                reader.take(region, slot, frame, buffer);
                entry.pending.frame(frame.kind, buffer)
            })
        })
        .flatten()
    }
}
