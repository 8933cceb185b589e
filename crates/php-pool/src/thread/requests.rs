//! Table of a router thread's requests, with reusable indexes.

use std::sync::Arc;
use std::time::Duration;

use howdah_wire::stream::Reader;

use super::time_limit::TimeLimit;
use crate::instance::Instance;
use crate::pending::{Event, PendingResponse};
use crate::request::{RequestContext, RequestKey};

/// Entries by index. The generation of a key distinguishes the current request of an index from
/// earlier ones.
#[derive(Debug, Default)]
pub(super) struct RequestTable {
    slots: Vec<TableSlot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct TableSlot {
    generation: u32,
    entry: Option<Entry>,
}

/// A request, from its registration until its worker is free and its handle is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    pub pending: PendingResponse,
    pub reader: Reader,
    pub context: Arc<RequestContext>,
    pub limit: TimeLimit,
    /// The worker is free again, or no worker has taken the request.
    pub is_settled: bool,
    /// A connection waits for the response.
    pub has_handle: bool,
    /// The worker wrote invalid frames: no more are taken from it.
    pub is_rejected: bool,
    /// The script ran too long: only messages for the log are taken until its worker is dead.
    pub is_overdue: bool,
    /// Event that waits for the report of the worker's start.
    pub deferred: Option<Event>,
    /// Number of log records that were lost.
    pub lost_records: u32,
    /// Slot whose frames were left in the ring because the client is too slow.
    pub stalled: Option<(Arc<Instance>, u32)>,
}

impl Entry {
    pub fn new(
        pending: PendingResponse,
        context: Arc<RequestContext>,
        timeout: Option<Duration>,
    ) -> Self {
        Entry {
            pending,
            reader: Reader::default(),
            context,
            limit: TimeLimit::new(timeout),
            is_settled: false,
            has_handle: true,
            is_rejected: false,
            is_overdue: false,
            deferred: None,
            lost_records: 0,
            stalled: None,
        }
    }
}

impl RequestTable {
    /// Adds an entry of router thread `thread`.
    pub fn insert(&mut self, thread: u32, entry: Entry) -> RequestKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TableSlot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(entry);
        RequestKey::new(thread, slot.generation, index)
    }

    /// Returns the entry of this key; `None` if it was removed.
    pub fn get_mut(&mut self, key: RequestKey) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(key.index())?;
        if RequestKey::new(key.thread(), slot.generation, key.index() as u32) != key {
            return None;
        }
        slot.entry.as_mut()
    }

    /// Removes the entry of this key.
    pub fn remove(&mut self, key: RequestKey) -> Option<Entry> {
        self.get_mut(key)?;
        self.free.push(key.index() as u32);
        self.slots[key.index()].entry.take()
    }
}
