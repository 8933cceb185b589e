//! One request: its body, and its response as frames in the slot's ring.
//!
//! Small pieces of output are buffered. Frames are published when the script flushes, when half of
//! the ring is full, and at the end: a response that fits the ring reaches the router as a whole,
//! with its length. A message for the log is published at once, so that it is not lost with the
//! worker; the router keeps the part of a response that this publishes until the script flushes or
//! ends. The router takes a longer one in parts while the worker writes. If the ring is full, the
//! worker waits for the router, which takes responses at the worker's speed and not at the
//! client's.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use howdah_sys::packet::Received;
use howdah_sys::shm::Mapping;
use howdah_sys::{futex, process};
use howdah_wire::frame::{CUT, Head, Kind, Log, Purge, RequestUsage};
use howdah_wire::messages::ToWorker;
use howdah_wire::profile::{Call, Recorder};
use howdah_wire::queue::Claim;
use howdah_wire::region::Region;
use howdah_wire::stream::{Wake, Writer};
use rustix::io::Errno;

use crate::body::Body;
use crate::socket::{is_peer_closed, receive_within};

/// Size of the buffer for small pieces of output, in bytes.
const BUFFER_BYTES: usize = 16 * 1024;
/// Minimum size of a piece of output that is not buffered, in bytes. PHP's `output_buffering` makes
/// pieces of this size.
const MIN_UNBUFFERED_BYTES: usize = 2 * 1024;
/// Interval at which a worker that waits for the router checks that it still runs.
const LIVENESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum length of a message in the log: the router writes no record above this size.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Maximum time for which samples of a script are kept.
const SAMPLES_INTERVAL: Duration = Duration::from_secs(1);

/// A call of a running script.
#[derive(Debug, Clone, Copy)]
pub struct ScriptCall<'a> {
    /// Name of the class, or empty.
    pub class: &'a [u8],
    /// Name of the function.
    pub name: &'a [u8],
    /// Path of the script; empty for a function of PHP.
    pub file: &'a [u8],
    /// The line that runs.
    pub line: u32,
    /// First line of the function.
    pub start: u32,
}

impl ScriptCall<'_> {
    /// Returns the name with which the function is shown. The name of an anonymous class ends at
    /// its NUL; that of a closure has its first line, as PHP 8.4 does it itself.
    fn full_name(&self) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.class.len() + self.name.len() + 2);
        if let Some(class) = self.class.split(|byte| *byte == 0).next()
            && !class.is_empty()
        {
            name.extend_from_slice(class);
            name.extend_from_slice(b"::");
        }
        match self.name.strip_suffix(b"{closure}") {
            Some(before) => {
                name.extend_from_slice(before);
                name.extend_from_slice(format!("{{closure:{}}}", self.start).as_bytes());
            }
            None => name.extend_from_slice(self.name),
        }
        name
    }
}

/// Samples of a script that were not sent.
#[derive(Debug)]
struct Samples {
    recorder: Recorder,
    sent: Instant,
}

/// The client has disconnected, or the router has ended: the response has no reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disconnected;

/// The stages of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    /// The head is not written yet.
    Head,
    /// The head is written.
    Body,
    /// An error response is written in place of the script's; its output is dropped.
    Replaced,
    /// The response is complete.
    Ended,
}

/// A request in its slot, as its worker sees it.
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
    /// The router was told not to wait for the end of the response.
    is_flushed: bool,
    buffered: Vec<u8>,
    head: Vec<u8>,
    status: CString,
    router_gone: bool,
    /// Samples of the script, if it is profiled.
    samples: Option<Box<Samples>>,
}

impl<'a> Exchange<'a> {
    /// Creates the exchange of a request in a slot that this worker has taken.
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
            is_flushed: false,
            buffered: Vec::new(),
            head: Vec::new(),
            status: CString::default(),
            router_gone: false,
            samples: None,
        }
    }

    /// Takes samples from now on.
    pub fn start_profile(&mut self) {
        let samples = Samples { recorder: Recorder::default(), sent: Instant::now() };
        self.samples = Some(Box::new(samples));
    }

    /// Returns true if samples are taken.
    pub fn is_profiled(&self) -> bool {
        self.samples.is_some()
    }

    /// Takes a sample of the script: its calls, the innermost first, which stand for `ticks`. Sends
    /// samples once a second, before they become too many, and with the last one.
    pub fn sample<'c>(
        &mut self,
        calls: impl Iterator<Item = ScriptCall<'c>>,
        ticks: u32,
        is_last: bool,
    ) {
        let max = Writer::max_payload(self.region);
        let Some(samples) = &mut self.samples else { return };
        let names: Vec<_> = calls.map(|call| (call.full_name(), call.file, call.line)).collect();
        if ticks != 0 {
            let calls = names.iter().map(|(name, file, line)| Call { name, file, line: *line });
            samples.recorder.add(calls, ticks);
        }
        if is_last
            || samples.recorder.is_half_full(max)
            || samples.sent.elapsed() > SAMPLES_INTERVAL
        {
            samples.sent = Instant::now();
            self.send_samples();
            self.publish();
        }
    }

    fn send_samples(&mut self) {
        let max = Writer::max_payload(self.region);
        let piece = self.samples.as_mut().and_then(|samples| samples.recorder.take(max));
        if let Some(piece) = piece {
            // Without a router, nobody waits for them.
            let _ = self.put(Kind::Samples, &piece);
        }
    }

    /// Sets the body that [`Exchange::read`] reads.
    pub fn set_body(&mut self, body: Body<'a>) {
        self.body = body;
    }

    /// Reuses the buffer of an earlier request.
    pub fn reuse(&mut self, mut memory: Vec<u8>) {
        memory.clear();
        self.buffered = memory;
    }

    /// Returns true if the router was found to have ended.
    pub fn router_gone(&self) -> bool {
        self.router_gone
    }

    /// Returns true if the client has closed its connection, or the router has ended.
    pub fn aborted(&self) -> bool {
        self.router_gone
            || self.region.slot(self.slot).is_none_or(|words| words.aborted.load(Acquire) != 0)
    }

    /// Reads the request's body. Returns fewer bytes than requested only at its end.
    pub fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> usize {
        self.body.read(buffer)
    }

    /// Appends output of the script to the response.
    pub fn write(&mut self, data: &[u8]) -> Result<(), Disconnected> {
        if self.stage > Stage::Body {
            return Ok(());
        }
        if self.aborted() {
            return Err(Disconnected);
        }
        if data.len() < MIN_UNBUFFERED_BYTES {
            if self.buffered.len() + data.len() > BUFFER_BYTES {
                self.put_buffered()?;
            }
            self.buffered.extend_from_slice(data);
            return Ok(());
        }
        self.put_buffered()?;
        self.ensure_head()?;
        data.chunks(Writer::max_payload(self.region)).try_for_each(|c| self.put(Kind::Body, c))
    }

    /// Publishes everything that the script has written.
    pub fn flush(&mut self) -> Result<(), Disconnected> {
        if self.stage == Stage::Ended {
            return Ok(());
        }
        self.put_buffered()?;
        if !self.is_flushed && self.stage != Stage::Head {
            self.put(Kind::Flush, &[])?;
            self.is_flushed = true;
        }
        self.publish();
        if self.aborted() { Err(Disconnected) } else { Ok(()) }
    }

    /// Begins the head of a response.
    pub fn head_begin(&mut self, status: u16, reason: &[u8]) {
        self.head.clear();
        Head::put(&mut self.head, status, reason);
    }

    /// Adds a line to the head.
    pub fn head_field(&mut self, line: &[u8]) {
        Head::put_field(&mut self.head, line);
    }

    /// Writes the head. An interim one is published at once, the final one with its body.
    pub fn head_end(&mut self, informational: bool) -> Result<(), Disconnected> {
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

    /// Responds with a status in place of the script; PHP's further output is dropped.
    pub fn replace(&mut self, status: u16) -> Result<(), Disconnected> {
        if self.stage != Stage::Head {
            return Ok(());
        }
        self.stage = Stage::Replaced;
        let mut head = Vec::new();
        Head::put(&mut head, status, b"");
        self.put(Kind::Head, &head)
    }

    /// Ends the response while the script continues. Returns false if it was complete before.
    pub fn finish(&mut self) -> bool {
        if self.stage == Stage::Ended {
            return false;
        }
        self.end(false);
        self.publish();
        true
    }

    /// Sends a record for the log at once; of a message above [`MAX_MESSAGE_BYTES`], the beginning
    /// and how much is missing.
    pub fn log(&mut self, severity: u8, message: &[u8]) {
        let (message, cut) = message.split_at_checked(MAX_MESSAGE_BYTES).unwrap_or((message, &[]));
        let note = match cut.len() {
            0 => String::new(),
            more => format!("… ({more} more bytes)"),
        };
        let part = Writer::max_payload(self.region).saturating_sub(8).max(1);
        let note = Some(note.as_bytes()).filter(|note| !note.is_empty());
        let mut chunks = message.chunks(part).chain(note).peekable();
        let mut payload = Vec::new();
        while let Some(chunk) = chunks.next() {
            payload.clear();
            Log { severity, message: chunk, more: chunks.peek().is_some() }.put(&mut payload);
            if self.put(Kind::Log, &payload).is_err() {
                break;
            }
        }
        self.publish();
    }

    /// Asks the router to purge cached responses: all of the host, or those with one of `tags`,
    /// which end in a line feed each.
    pub fn purge(&mut self, is_all: bool, is_soft: bool, tags: &[u8]) {
        let max = Writer::max_payload(self.region) - 1;
        let (mut payload, mut part, mut count) = (Vec::new(), Vec::new(), 0);
        let mut send = |exchange: &mut Self, tags: &mut Vec<u8>| {
            payload.clear();
            Purge { is_all, is_soft, tags }.put(&mut payload);
            tags.clear();
            exchange.put(Kind::Purge, &payload).is_ok()
        };
        for tag in tags.split_inclusive(|byte| *byte == b'\n').filter(|tag| tag.len() < max) {
            if count == Purge::MAX_TAGS || part.len() + tag.len() > max {
                count = 0;
                if !send(self, &mut part) {
                    return;
                }
            }
            count += 1;
            part.extend_from_slice(tag);
        }
        if send(self, &mut part) {
            self.publish();
        }
    }

    /// Requests the descriptors of the request from the router.
    pub fn request_descriptors(&mut self) -> Result<(), Disconnected> {
        self.put(Kind::Descriptors, &[])?;
        self.publish();
        Ok(())
    }

    /// Returns the application's status from the router, as JSON; empty if the router does not
    /// answer.
    pub fn status(&mut self) -> &CStr {
        let json = self.request_status().unwrap_or_default();
        self.status = CString::new(json).unwrap_or_default(); // JSON has no NUL
        &self.status
    }

    fn request_status(&mut self) -> Option<Vec<u8>> {
        let descriptors =
            self.request_from_router(Kind::Status, |ticket| ToWorker::Status { ticket })?;
        let mut file = File::from(descriptors.into_iter().next()?);
        file.rewind().ok()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        Some(text)
    }

    /// Sends the router a frame and waits for the answer. Returns the answer's descriptors; `None`
    /// if the router has ended.
    fn request_from_router(
        &mut self,
        kind: Kind,
        answer: fn(u32) -> ToWorker,
    ) -> Option<Vec<OwnedFd>> {
        let Claim::Taken(ticket, _) = self.region.claim_of(self.slot) else { return None };
        self.put(kind, &[]).ok()?;
        self.publish();
        let mut buffer = [0; 64];
        loop {
            match receive_within(self.socket, LIVENESS_CHECK_INTERVAL, &mut buffer) {
                Ok(Received::Packet(len, descriptors)) => match ToWorker::decode(&buffer[..len]) {
                    Ok(message) if message == answer(ticket) => return Some(descriptors),
                    _ => continue, // for an earlier request
                },
                Ok(Received::Empty) => continue,
                Ok(Received::Closed) | Err(_) => {
                    self.router_gone = true;
                    return None;
                }
            }
        }
    }

    /// Makes the router read all of the pipes of standard output and error, before another request
    /// writes to them.
    fn drain_output(&mut self, outputs: &[BorrowedFd<'_>]) {
        let has_more = |output| rustix::io::ioctl_fionread(output).is_ok_and(|left| left > 0);
        if outputs.iter().any(has_more) && !self.router_gone && !process::is_forked_copy() {
            let _ =
                self.request_from_router(Kind::Output, |ticket| ToWorker::OutputTaken { ticket });
        }
    }

    /// Ends the request and returns the slot to the router. `is_cut`: an error has ended the
    /// script. `outputs` are the pipes of standard output and error. Returns the buffer, to be
    /// reused, and whether the router thread still has to be woken.
    pub fn done(
        mut self,
        done: RequestUsage,
        is_cut: bool,
        outputs: &[BorrowedFd<'_>],
    ) -> (Vec<u8>, bool) {
        // Close the file of the body before the router counts the request as finished.
        self.body = Body::Inline(&[]);
        if self.stage == Stage::Head {
            // PHP sends a head at the end of every request that it begins; this request was not
            // begun.
            let _ = self.replace(500);
        }
        if self.stage != Stage::Ended {
            self.end(is_cut);
        }
        self.drain_output(outputs);
        self.send_samples();
        let mut payload = Vec::new();
        done.put(&mut payload);
        let mut may_wait = false;
        if self.put(Kind::Done, &payload).is_ok() && !process::is_forked_copy() {
            match self.writer.publish_last(self.region) {
                Wake::NotNeeded => {}
                Wake::Needed => wake_thread(self.events, self.thread),
                Wake::MayWait => may_wait = true,
            }
        }
        (self.buffered, may_wait)
    }

    fn end(&mut self, is_cut: bool) {
        let _ = self.ensure_head();
        let _ = self.put_buffered();
        self.buffered.clear();
        let _ = self.put(Kind::End, if is_cut { CUT } else { &[] });
        self.stage = Stage::Ended;
    }

    /// Writes a head with status 200 if there is none: a body or an end must not come first. PHP
    /// sends the head; this is for extensions that prevent that.
    fn ensure_head(&mut self) -> Result<(), Disconnected> {
        if self.stage != Stage::Head {
            return Ok(());
        }
        self.head_begin(200, b"");
        self.head_end(false)
    }

    fn put_buffered(&mut self) -> Result<(), Disconnected> {
        if self.buffered.is_empty() {
            return Ok(());
        }
        self.ensure_head()?;
        let buffered = std::mem::take(&mut self.buffered);
        let result = buffered
            .chunks(Writer::max_payload(self.region))
            .try_for_each(|chunk| self.put(Kind::Body, chunk));
        self.buffered = buffered;
        self.buffered.clear();
        result
    }

    /// Writes one frame, waiting for room if there is none. Body frames are dropped when the client
    /// has closed its connection; the router needs all others to free the slot.
    fn put(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Disconnected> {
        if process::is_forked_copy() {
            return Ok(()); // the script has forked: the response belongs to the parent
        }
        while !self.writer.put(self.region, kind as u8, payload) {
            if self.router_gone || (kind == Kind::Body && self.aborted()) {
                return Err(Disconnected);
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
            futex::wait(words.space, sequence, Some(LIVENESS_CHECK_INTERVAL));
        }
        self.router_gone = is_peer_closed(self.socket);
    }

    fn publish(&mut self) {
        if self.writer.unpublished() == 0
            || process::is_forked_copy()
            || !self.writer.publish(self.region)
        {
            return;
        }
        wake_thread(self.events, self.thread);
    }
}

/// Wakes a router thread that sleeps.
pub fn wake_thread(events: &[OwnedFd], thread: u64) {
    if let Some(event) = usize::try_from(thread).ok().and_then(|number| events.get(number)) {
        match rustix::io::write(event, &1u64.to_ne_bytes()) {
            // Only a hostile worker can have filled the counter; the router notices that.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            // The script has closed the descriptor. The router would not notice the responses of
            // this worker, but notices its end.
            Err(_) => process::exit_now(1),
        }
    }
}
