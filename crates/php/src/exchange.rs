//! One request in hand: what PHP reads from it, and its answer as frames in the slot's ring.
//!
//! Small pieces of output are collected; everything is shown to the router when the script
//! flushes, when the ring is full, and at the end: so the router gets an answer that fits the ring
//! as a whole, and knows its length. Of a longer one it takes a part while the worker writes the
//! next. Where the ring is full the worker waits for the router, which takes answers at the worker's
//! speed and not at the client's.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use howdah_sys::packet::Received;
use howdah_sys::shm::Mapping;
use howdah_sys::{futex, process};
use howdah_wire::frame::{Done, Head, Kind, Log};
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::Claim;
use howdah_wire::region::Region;
use howdah_wire::stream::Writer;

use crate::body::Body;
use crate::worker::{peer_closed, receive_within};

/// What small pieces of output are collected into.
const COLLECT: usize = 16 * 1024;
/// Pieces from this size on, such as those of PHP's `output_buffering`, are not copied once more.
const LARGE: usize = 2 * 1024;
/// How long to wait for room in the ring before looking whether the router is still there.
const LIVENESS: Duration = Duration::from_secs(1);

/// The client has gone, or the router: nobody reads the answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// How far the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    /// Nothing is written.
    Head,
    /// The head is written.
    Body,
    /// The head could not be sent; an error is written in its place, and the rest is dropped.
    Replaced,
    /// The response is complete.
    Ended,
}

/// The worker's end of one slot.
#[derive(Debug)]
pub struct Exchange<'a> {
    region: &'a Region<Mapping>,
    events: &'a [OwnedFd],
    socket: &'a OwnedFd,
    slot: u32,
    thread: u64,
    writer: Writer,
    body: Body<'a>,
    stage: Stage,
    collected: Vec<u8>,
    head: Vec<u8>,
    status: CString,
    router_gone: bool,
}

impl<'a> Exchange<'a> {
    /// For a slot that this worker has taken.
    pub fn new(
        region: &'a Region<Mapping>,
        events: &'a [OwnedFd],
        socket: &'a OwnedFd,
        slot: u32,
        thread: u64,
    ) -> Self {
        Exchange {
            region,
            events,
            socket,
            slot,
            thread,
            writer: Writer::new(slot, thread),
            body: Body::Inline(&[]),
            stage: Stage::Head,
            collected: Vec::new(),
            head: Vec::new(),
            status: CString::default(),
            router_gone: false,
        }
    }

    /// Says where [`Exchange::read`] reads from.
    pub fn set_body(&mut self, body: Body<'a>) {
        self.body = body;
    }

    /// Gives memory from an earlier request to this one.
    pub fn reuse(&mut self, mut memory: Vec<u8>) {
        memory.clear();
        self.collected = memory;
    }

    /// Whether the router was found dead.
    pub fn router_gone(&self) -> bool {
        self.router_gone
    }

    /// Whether the client has gone.
    pub fn aborted(&self) -> bool {
        self.router_gone
            || self.region.slot(self.slot).is_none_or(|words| words.aborted.load(Acquire) != 0)
    }

    /// Reads the request's body; fewer bytes than asked for only at its end.
    pub fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> usize {
        self.body.read(buffer)
    }

    /// Takes output of the script.
    pub fn write(&mut self, data: &[u8]) -> Result<(), Gone> {
        if self.stage > Stage::Body {
            return Ok(());
        }
        if self.aborted() {
            return Err(Gone);
        }
        if data.len() < LARGE {
            if self.collected.len() + data.len() > COLLECT {
                self.put_collected()?;
            }
            self.collected.extend_from_slice(data);
            return Ok(());
        }
        self.put_collected()?;
        self.need_head()?;
        data.chunks(Writer::max_payload(self.region)).try_for_each(|c| self.put(Kind::Body, c))
    }

    /// Shows the router everything written so far.
    pub fn flush(&mut self) -> Result<(), Gone> {
        if self.stage == Stage::Ended {
            return Ok(());
        }
        self.put_collected()?;
        self.publish();
        if self.aborted() { Err(Gone) } else { Ok(()) }
    }

    /// Begins the head of a response.
    pub fn head_begin(&mut self, status: u16, reason: &[u8]) {
        self.head.clear();
        Head::put(&mut self.head, status, reason);
    }

    /// Adds a header line to it.
    pub fn head_field(&mut self, line: &[u8]) {
        Head::put_field(&mut self.head, line);
    }

    /// Writes the head. An interim one is shown at once, the final one with what follows it.
    pub fn head_end(&mut self, informational: bool) -> Result<(), Gone> {
        if self.stage != Stage::Head {
            return Ok(());
        }
        let head = std::mem::take(&mut self.head);
        let max = Writer::max_payload(self.region);
        let result = if head.len() > max {
            self.log(
                3,
                format!(
                    "the response has {} bytes of header fields, at most {max} are possible",
                    head.len()
                )
                .as_bytes(),
            );
            if informational { Ok(()) } else { self.replace(500) }
        } else if informational {
            self.put(Kind::Informational, &head).map(|()| self.publish())
        } else {
            self.stage = Stage::Body;
            self.put(Kind::Head, &head)
        };
        self.head = head;
        result
    }

    /// Answers with a status of our own; what PHP writes from now on is dropped.
    pub fn replace(&mut self, status: u16) -> Result<(), Gone> {
        if self.stage != Stage::Head {
            return Ok(());
        }
        self.stage = Stage::Replaced;
        let mut head = Vec::new();
        Head::put(&mut head, status, b"");
        self.put(Kind::Head, &head)
    }

    /// Ends the response while the script goes on; `false` if it was complete before.
    pub fn finish(&mut self) -> bool {
        if self.stage == Stage::Ended {
            return false;
        }
        self.end();
        self.publish();
        true
    }

    /// Takes a record for the log.
    pub fn log(&mut self, severity: u8, message: &[u8]) {
        let part = Writer::max_payload(self.region).saturating_sub(8).max(1);
        let mut chunks = message.chunks(part).peekable();
        let mut payload = Vec::new();
        while let Some(chunk) = chunks.next() {
            payload.clear();
            Log { severity, message: chunk, more: chunks.peek().is_some() }.put(&mut payload);
            if self.put(Kind::Log, &payload).is_err() {
                break;
            }
        }
    }

    /// Asks for the descriptors of the request.
    pub fn ask_for_descriptors(&mut self) -> Result<(), Gone> {
        self.put(Kind::Descriptors, &[])?;
        self.publish();
        Ok(())
    }

    /// What the router knows of the application, as JSON; empty if it does not answer.
    pub fn status(&mut self) -> &CStr {
        let json = self.ask_for_status().unwrap_or_default();
        self.status = CString::new(json).unwrap_or_default(); // JSON has no NUL
        &self.status
    }

    fn ask_for_status(&mut self) -> Option<Vec<u8>> {
        let descriptors = self.ask(Kind::Status, |ticket| ToWorker::Status { ticket })?;
        let mut file = File::from(descriptors.into_iter().next()?);
        file.rewind().ok()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        Some(text)
    }

    /// Asks the router for something and waits for the answer to this request; `None` if it has
    /// gone.
    fn ask(&mut self, kind: Kind, answer: fn(u32) -> ToWorker) -> Option<Vec<OwnedFd>> {
        let Claim::Taken(ticket, _) = self.region.claim_of(self.slot) else { return None };
        self.put(kind, &[]).ok()?;
        self.publish();
        let mut buffer = [0; 64];
        loop {
            match receive_within(self.socket, LIVENESS, &mut buffer) {
                Ok(Received::Packet(len, descriptors)) => match ToWorker::decode(&buffer[..len]) {
                    Ok(message) if message == answer(ticket) => return Some(descriptors),
                    _ => continue, // for a request that was given up
                },
                Ok(Received::Empty) => continue,
                Ok(Received::Closed) | Err(_) => {
                    self.router_gone = true;
                    return None;
                }
            }
        }
    }

    /// Has the router take what this request has left in the pipe of its output, before another
    /// request can write to it.
    fn hand_over(&mut self, output: BorrowedFd<'_>) {
        let left = rustix::io::ioctl_fionread(output);
        if left.is_ok_and(|left| left > 0) && !self.router_gone && !process::is_copy() {
            let _ = self.ask(Kind::Output, |ticket| ToWorker::OutputTaken { ticket });
        }
    }

    /// Ends the request: the slot is the router's again. `output` is the pipe that standard output
    /// and error lead to. Returns memory to use again.
    pub fn done(mut self, done: Done, output: Option<BorrowedFd<'_>>) -> Vec<u8> {
        // What the router counts as over must not hold a file of its any more.
        self.body = Body::Inline(&[]);
        if self.stage == Stage::Head {
            // PHP has not even sent a head, which it does at the end of every request it begins.
            let _ = self.replace(500);
        }
        if self.stage != Stage::Ended {
            self.end();
        }
        if let Some(output) = output {
            self.hand_over(output);
        }
        let mut payload = Vec::new();
        done.put(&mut payload);
        if self.put(Kind::Done, &payload).is_ok() {
            self.publish();
        }
        self.collected
    }

    fn end(&mut self) {
        let _ = self.need_head();
        let _ = self.put_collected();
        self.collected.clear();
        let _ = self.put(Kind::End, &[]);
        self.stage = Stage::Ended;
    }

    /// A body or an end without a head would be nonsense to the router. PHP sends the head first;
    /// this is for the day when an extension makes it not do so.
    fn need_head(&mut self) -> Result<(), Gone> {
        if self.stage != Stage::Head {
            return Ok(());
        }
        self.head_begin(200, b"");
        self.head_end(false)
    }

    fn put_collected(&mut self) -> Result<(), Gone> {
        if self.collected.is_empty() {
            return Ok(());
        }
        self.need_head()?;
        let collected = std::mem::take(&mut self.collected);
        let result = collected
            .chunks(Writer::max_payload(self.region))
            .try_for_each(|chunk| self.put(Kind::Body, chunk));
        self.collected = collected;
        self.collected.clear();
        result
    }

    /// Writes one frame, waiting for room if there is none. Body frames are dropped when the
    /// client has gone; the others are what the router needs to have its slot back.
    fn put(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Gone> {
        if process::is_copy() {
            return Ok(()); // a script has forked: the answer is its own, not that of the copy
        }
        while !self.writer.put(self.region, kind as u8, payload) {
            if self.router_gone || (kind == Kind::Body && self.aborted()) {
                return Err(Gone);
            }
            self.publish();
            self.wait_for_room(payload.len());
        }
        let half = u64::from(self.region.geometry().response_bytes) / 2;
        if self.writer.has_published() && self.writer.unpublished() > half {
            self.publish();
        }
        Ok(())
    }

    fn wait_for_room(&mut self, payload: usize) {
        let Some(sequence) = self.writer.wait_for_room(self.region, payload) else { return };
        if let Some(words) = self.region.slot(self.slot) {
            futex::wait(words.space, sequence, Some(LIVENESS));
        }
        self.router_gone = peer_closed(self.socket);
    }

    fn publish(&mut self) {
        if self.writer.unpublished() == 0 || process::is_copy() || !self.writer.publish(self.region)
        {
            return;
        }
        if let Some(event) = usize::try_from(self.thread).ok().and_then(|n| self.events.get(n)) {
            // The counter cannot overflow in practice; if it could, the thread would be awake.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }
}
