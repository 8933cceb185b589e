//! The requests that wait for a worker, and their order.
//!
//! Each request belongs to a flow. Within a flow requests are in the order of their arrival, and
//! flows take turns (as in FQ-CoDel, RFC 8290, with requests for packets). A flow without waiting
//! requests that gets one is new, and new flows are served first. After its first turn it is an old
//! one until its turn comes, it has none, and all others have had a turn since its last. So the one
//! request of a visitor does not wait for the many of another, and not for those of clients that
//! send one after the other. So that flows that are always new do not starve old ones, an old one
//! is served after [`MAX_NEW_IN_A_ROW`] new ones. If all requests are of one flow, this is a simple
//! queue.
//!
//! A flow may have a maximum of running requests: it has no turn while it has so many.
//!
//! With a patience, a flow is overloaded if all its requests have waited longer than that, for as
//! long as that (CoDel, RFC 8289). Then requests that have waited longer are given up: their
//! clients have left or will have left before they are served, and the others need not wait for
//! them.

use std::collections::{HashMap, VecDeque};

/// Flow of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Identifies the flow.
    pub key: u64,
    /// Maximum number of its requests that run at once.
    pub max_running: Option<u32>,
}

/// A request that can wait. Times are in microseconds.
pub(super) trait Queued {
    /// Flow of the request.
    fn flow(&self) -> Flow;
    /// Time of its arrival.
    fn queued(&self) -> u64;
}

/// Waiting requests.
#[derive(Debug)]
pub(super) struct WaitingList<T> {
    flows: HashMap<u64, FlowQueue<T>>,
    /// Flows that have had no turn.
    new: VecDeque<u64>,
    /// Other flows, also flows without requests until their next turn.
    old: VecDeque<u64>,
    new_in_a_row: u32,
    /// Number of turns so far.
    turns: u64,
    /// Number of running requests of flows with a maximum.
    running: HashMap<u64, u32>,
    len: usize,
    /// Time that clients wait, in microseconds.
    patience: Option<u64>,
}

#[derive(Debug)]
struct FlowQueue<T> {
    requests: VecDeque<T>,
    /// Last time at which the flow was not overloaded.
    calm_at: u64,
    /// Number of its last turn.
    last_turn: u64,
}

/// Number of turns of new flows after which an old one has its turn.
const MAX_NEW_IN_A_ROW: u32 = 8;

/// Number of flows without requests that are always tolerated.
const MIN_EMPTY_FLOWS: usize = 64;

impl<T> Default for WaitingList<T> {
    fn default() -> Self {
        WaitingList {
            flows: HashMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            new_in_a_row: 0,
            turns: 0,
            running: HashMap::new(),
            len: 0,
            patience: None,
        }
    }
}

impl<T: Queued> WaitingList<T> {
    /// Creates an empty list. Requests of overloaded flows are given up after `patience`
    /// microseconds.
    pub fn new(patience: Option<u64>) -> Self {
        WaitingList { patience, ..WaitingList::default() }
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no request waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if another request of a flow would take room from others: the list has half of
    /// `limit` requests, and the flow has its share of them.
    pub fn is_greedy(&self, flow: Flow, limit: usize) -> bool {
        let own = self.flows.get(&flow.key).map_or(0, |flow| flow.requests.len());
        self.len >= limit / 2 && own > 0 && own * self.flows.len() >= self.len
    }

    /// Returns the time of arrival of the oldest request.
    pub fn oldest(&self) -> Option<u64> {
        self.flows.values().filter_map(|flow| flow.requests.front()).map(T::queued).min()
    }

    /// Adds a request at the end of its flow.
    pub fn push(&mut self, request: T) {
        let (key, now) = (request.flow().key, request.queued());
        let is_idle = self.flows.get(&key).is_some_and(|flow| flow.requests.is_empty());
        if is_idle && self.old.contains(&key) && !self.has_had_a_turn_lately(key) {
            // Its place among the old flows is behind those of others.
            self.old.retain(|other| *other != key);
            self.new.push_back(key);
        }
        self.flow(key, now).requests.push_back(request);
        self.len += 1;
    }

    /// Adds requests in front of those of their flows, the youngest first. They have stopped
    /// running.
    pub fn take_back(&mut self, requests: impl IntoIterator<Item = T>) {
        for request in requests {
            self.ended(request.flow());
            let (key, now) = (request.flow().key, request.queued());
            self.flow(key, now).requests.push_front(request);
            self.len += 1;
        }
    }

    /// Takes the next request, which runs from now on.
    pub fn next(&mut self, now: u64) -> Option<T> {
        self.drop_empty_flows();
        let is_turn_of_old = self.new_in_a_row >= MAX_NEW_IN_A_ROW;
        let request = (if is_turn_of_old {
            self.next_old(now).or_else(|| self.next_new(now))
        } else {
            self.next_new(now).or_else(|| self.next_old(now))
        })?;
        self.len -= 1;
        let flow = request.flow();
        if flow.max_running.is_some() {
            *self.running.entry(flow.key).or_insert(0) += 1;
        }
        Some(request)
    }

    /// Notes the end of a request that ran.
    pub fn ended(&mut self, flow: Flow) {
        if flow.max_running.is_some()
            && let Some(running) = self.running.get_mut(&flow.key)
        {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&flow.key);
            }
        }
    }

    /// Removes the request that `is_it` finds.
    pub fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        for flow in self.flows.values_mut() {
            if let Some(at) = flow.requests.iter().position(&is_it) {
                self.len -= 1;
                return flow.requests.remove(at);
            }
        }
        None
    }

    /// Removes the request that `is_it` finds, if it has waited too long in an overloaded flow.
    pub fn give_up(&mut self, now: u64, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let patience = self.patience?;
        let is_long = |since: u64| now.saturating_sub(since) >= patience;
        for flow in self.flows.values_mut().filter(|flow| is_long(flow.calm_at)) {
            let is_hopeless = |request: &T| is_it(request) && is_long(request.queued());
            if let Some(at) = flow.requests.iter().position(is_hopeless) {
                self.len -= 1;
                return flow.requests.remove(at);
            }
        }
        None
    }

    /// Removes all requests.
    pub fn drain(&mut self) -> Vec<T> {
        self.len = 0;
        self.flows.values_mut().flat_map(|flow| flow.requests.drain(..)).collect()
    }

    /// Returns the queue of a flow, which is new if there is none.
    fn flow(&mut self, key: u64, now: u64) -> &mut FlowQueue<T> {
        self.flows.entry(key).or_insert_with(|| {
            self.new.push_back(key);
            FlowQueue { requests: VecDeque::new(), calm_at: now, last_turn: 0 }
        })
    }

    fn next_new(&mut self, now: u64) -> Option<T> {
        for _ in 0..self.new.len() {
            let key = self.new.pop_front()?;
            match self.turn(key, now) {
                Turn::Request(request) => {
                    self.old.push_back(key);
                    self.new_in_a_row = self.new_in_a_row.saturating_add(1);
                    return Some(request);
                }
                Turn::Full => self.new.push_back(key),
                Turn::Empty => drop(self.flows.remove(&key)),
            }
        }
        None
    }

    fn next_old(&mut self, now: u64) -> Option<T> {
        for _ in 0..self.old.len() {
            let key = self.old.pop_front()?;
            match self.turn(key, now) {
                Turn::Request(request) => {
                    self.old.push_back(key);
                    self.new_in_a_row = 0;
                    return Some(request);
                }
                Turn::Full => self.old.push_back(key),
                // Its client may just have been served, and send the next request: that is not to
                // be served before those of all others.
                Turn::Empty if self.has_had_a_turn_lately(key) => self.old.push_back(key),
                Turn::Empty => drop(self.flows.remove(&key)),
            }
        }
        None
    }

    /// Returns true if there may be flows that have had no turn since the last one of this flow.
    fn has_had_a_turn_lately(&self, key: u64) -> bool {
        let since = |flow: &FlowQueue<T>| self.turns.saturating_sub(flow.last_turn);
        self.flows.get(&key).is_some_and(|flow| since(flow) < self.flows.len() as u64)
    }

    fn turn(&mut self, key: u64, now: u64) -> Turn<T> {
        let Some(flow) = self.flows.get_mut(&key) else { return Turn::Empty };
        let Some(first) = flow.requests.front() else { return Turn::Empty };
        let running = || self.running.get(&key).copied().unwrap_or(0);
        if first.flow().max_running.is_some_and(|max| running() >= max) {
            return Turn::Full;
        }
        let is_short = self.patience.is_none_or(|p| now.saturating_sub(first.queued()) < p);
        let Some(first) = flow.requests.pop_front() else { return Turn::Empty };
        if is_short || flow.requests.is_empty() {
            flow.calm_at = now;
        }
        self.turns += 1;
        flow.last_turn = self.turns;
        Turn::Request(first)
    }

    /// Forgets flows without requests if there are many: clients with a new key for each request
    /// would leave one for each.
    fn drop_empty_flows(&mut self) {
        if self.flows.len() > 2 * self.len + MIN_EMPTY_FLOWS {
            self.flows.retain(|_, flow| !flow.requests.is_empty());
            self.new.retain(|key| self.flows.contains_key(key));
            self.old.retain(|key| self.flows.contains_key(key));
        }
    }
}

enum Turn<T> {
    Request(T),
    /// The flow has its maximum of running requests.
    Full,
    /// No request of the flow waits.
    Empty,
}

#[cfg(test)]
mod tests;
