//! Profiles of an application: which requests are sampled, and the tree of their stacks.
//!
//! The order to take samples is a parameter of each request that is sampled, so workers of other
//! applications never get one. Samples come from workers and are hostile: the memory of a profile
//! is limited, and what does not fit is counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use howdah_questions::{Profile as Answer, ProfileFrame, ProfileNode};
use howdah_wire::profile::{Frame, Order, Samples, Stack};

/// Maximum length of all names and paths, in bytes.
const MAX_STRING_BYTES: usize = 2 << 20;

/// Maximum number of different places in scripts.
const MAX_FRAMES: usize = 32 << 10;

/// Maximum number of nodes of the tree.
const MAX_NODES: usize = 128 << 10;

/// Maximum number of calls in all samples: it limits the processor time of a profile.
const MAX_CALLS: u64 = 100_000_000;

/// A running profile.
#[derive(Debug)]
pub struct Profile {
    order: Order,
    /// Only requests of this site; of all if `None`.
    site: Option<Box<str>>,
    /// Only requests whose target begins so.
    prefix: Box<[u8]>,
    requests: AtomicU64,
    tree: Mutex<Tree>,
}

impl Profile {
    /// Creates a profile without samples.
    pub fn new(order: Order, site: Option<&str>, prefix: &[u8]) -> Self {
        Profile {
            order,
            site: site.map(Into::into),
            prefix: prefix.into(),
            requests: AtomicU64::default(),
            tree: Mutex::default(),
        }
    }

    /// Returns the order for the workers.
    pub fn order(&self) -> Order {
        self.order
    }

    fn includes(&self, site: &str, target: &[u8]) -> bool {
        self.site.as_ref().is_none_or(|only| **only == *site) && target.starts_with(&self.prefix)
    }

    /// Adds a piece of samples.
    pub fn add(&self, samples: &Samples) {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).add(samples);
    }

    /// Writes what was found so far into `answer`, after what is there.
    pub fn report(&self, answer: &mut Answer) {
        answer.requests = answer.requests.saturating_add(self.requests.load(Relaxed));
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).report(answer);
    }
}

/// The profile of an application, if one is being made.
#[derive(Debug, Default)]
pub struct ProfileSlot {
    is_set: AtomicBool,
    profile: Mutex<Option<Arc<Profile>>>,
}

impl ProfileSlot {
    /// Starts a profile. Returns false if one is being made.
    pub fn start(&self, profile: &Arc<Profile>) -> bool {
        let mut slot = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return false;
        }
        *slot = Some(Arc::clone(profile));
        self.is_set.store(true, Release);
        true
    }

    /// Ends a profile.
    pub fn end(&self, profile: &Arc<Profile>) {
        let mut slot = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|other| Arc::ptr_eq(other, profile)) {
            *slot = None;
            self.is_set.store(false, Release);
        }
    }

    /// Returns the profile that a request of `site` for `target` belongs to, and counts the request.
    pub(crate) fn of_request(&self, site: &str, target: &[u8]) -> Option<Arc<Profile>> {
        if !self.is_set.load(Acquire) {
            return None;
        }
        let profile = self.profile.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        profile.includes(site, target).then(|| {
            profile.requests.fetch_add(1, Relaxed);
            profile
        })
    }
}

/// Stacks that share the memory of their outer calls. Numbers of nodes begin with 1.
#[derive(Debug, Default)]
struct Tree {
    strings: Vec<String>,
    string_bytes: usize,
    string_numbers: HashMap<String, u32>,
    frames: Vec<ProfileFrame>,
    frame_numbers: HashMap<ProfileFrame, u32>,
    nodes: Vec<ProfileNode>,
    node_numbers: HashMap<(u32, u32), u32>,
    ticks: u64,
    lost: u64,
    calls: u64,
}

impl Tree {
    fn add(&mut self, samples: &Samples) {
        self.ticks = self.ticks.saturating_add(samples.lost.into());
        self.lost = self.lost.saturating_add(samples.lost.into());
        let frames: Vec<_> =
            samples.frames.iter().map(|frame| self.frame(&samples.strings, *frame)).collect();
        samples.stacks.iter().for_each(|stack| self.stack(stack, &frames));
    }

    /// Adds a stack. If the tree is full, its ticks count for the last of its calls that has a
    /// node.
    fn stack(&mut self, stack: &Stack, frames: &[Option<u32>]) {
        let ticks = u64::from(stack.ticks);
        self.ticks = self.ticks.saturating_add(ticks);
        self.calls = self.calls.saturating_add(stack.calls.len() as u64);
        let mut node = 0;
        let has_room = self.calls <= MAX_CALLS;
        let mut is_whole = has_room;
        for call in stack.calls.iter().take_while(|_| has_room) {
            let frame = usize::try_from(*call).ok().and_then(|call| *frames.get(call)?);
            match frame.and_then(|frame| self.node(node, frame)) {
                Some(next) => node = next,
                None => {
                    is_whole = false;
                    break;
                }
            }
        }
        if !is_whole {
            self.lost = self.lost.saturating_add(ticks);
        }
        if let Some(ProfileNode(_, _, own)) = self.nodes.get_mut((node as usize).wrapping_sub(1)) {
            *own = own.saturating_add(ticks);
        }
    }

    fn node(&mut self, parent: u32, frame: u32) -> Option<u32> {
        if let Some(number) = self.node_numbers.get(&(parent, frame)) {
            return Some(*number);
        }
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        self.nodes.push(ProfileNode(parent, frame, 0));
        let number = self.nodes.len() as u32;
        self.node_numbers.insert((parent, frame), number);
        Some(number)
    }

    fn frame(&mut self, strings: &[Vec<u8>], frame: Frame) -> Option<u32> {
        let [name, file] = [frame.name, frame.file]
            .map(|number| self.string(strings.get(usize::try_from(number).ok()?)?));
        let found = ProfileFrame(name?, file?, frame.line);
        if let Some(number) = self.frame_numbers.get(&found) {
            return Some(*number);
        }
        if self.frames.len() >= MAX_FRAMES {
            return None;
        }
        let number = self.frames.len() as u32;
        self.frames.push(found);
        self.frame_numbers.insert(found, number);
        Some(number)
    }

    /// Returns the number of a text. Control characters are replaced.
    fn string(&mut self, bytes: &[u8]) -> Option<u32> {
        let text = String::from_utf8_lossy(bytes);
        let text: String =
            text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        if let Some(number) = self.string_numbers.get(&text) {
            return Some(*number);
        }
        // An entry takes memory beside its bytes.
        let length = self.string_bytes + text.len() + 16;
        if length > MAX_STRING_BYTES {
            return None;
        }
        self.string_bytes = length;
        let number = self.strings.len() as u32;
        self.strings.push(text.clone());
        self.string_numbers.insert(text, number);
        Some(number)
    }

    fn report(&self, answer: &mut Answer) {
        let base = [answer.strings.len(), answer.frames.len(), answer.nodes.len()];
        let [strings, frames, nodes] = base.map(|length| length as u32);
        answer.ticks = answer.ticks.saturating_add(self.ticks);
        answer.lost = answer.lost.saturating_add(self.lost);
        answer.strings.extend(self.strings.iter().cloned());
        answer.frames.extend(self.frames.iter().map(|ProfileFrame(name, file, line)| {
            ProfileFrame(name + strings, file + strings, *line)
        }));
        answer.nodes.extend(self.nodes.iter().map(|ProfileNode(parent, frame, own)| {
            let parent = if *parent == 0 { 0 } else { parent + nodes };
            ProfileNode(parent, frame + frames, *own)
        }));
    }
}

#[cfg(test)]
mod tests;
