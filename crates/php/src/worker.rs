//! A worker: takes requests from the shared queue, one at a time, until it is asked to leave, has
//! served as many as it may, or the router has gone.

use std::cell::{Cell, OnceCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use howdah_sys::look::Looks;
use howdah_sys::packet::{self, Received};
use howdah_sys::shm::Mapping;
use howdah_sys::{clock, futex, process};
use howdah_wire::frame::Done;
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::{Owner, Work};
use howdah_wire::region::Region;
use howdah_wire::request::{Fixed, flags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::body::Body;
use crate::document_root::Roots;
use crate::exchange::{Exchange, Gone};
use crate::ffi::Php;
use crate::memory::MemoryLimit;
use crate::parameters::{self, Resolved, Unusable};
use crate::script_directories::ScriptDirectories;
use crate::uploads::Uploads;

/// How long to sleep before looking whether the router is still there.
const LIVENESS: Duration = Duration::from_secs(5);
/// Most bytes of parameters in a file. The router's own limits are far below.
const MAX_PARAMS: u32 = 16 << 20;

/// Memory for parameters that is kept from one request to the next.
const KEEP_PARAMS: usize = 64 << 10;

/// What a worker has from its prototype.
pub struct Worker<'a> {
    /// Who this is.
    pub owner: Owner,
    /// The router's messages: descriptors of requests.
    pub socket: OwnedFd,
    /// The queue and the slots.
    pub region: &'a Region<Mapping>,
    /// What wakes the router's threads.
    pub events: &'a [OwnedFd],
    /// PHP.
    pub php: &'a Php,
    /// Requests to serve; 0: any number.
    pub limit: u64,
    /// How much memory it may have for itself between two requests.
    pub memory: MemoryLimit,
    /// Where PHP puts uploaded files.
    pub upload_directory: &'a Path,
    /// Where document roots lead.
    pub roots: Roots,
    /// Where scripts may run.
    pub script_directories: ScriptDirectories<'a>,
    /// This worker's own directory there, once a request with a body has come.
    pub uploads: OnceCell<Option<Uploads>>,
    /// The pipe that standard output, standard error or both lead to.
    pub output: Option<BorrowedFd<'static>>,
    /// No other request was in the server when the last one came.
    pub alone: Cell<bool>,
    /// How it went to look for the next one in that case.
    pub looks: Looks,
}

/// Memory that serves one request after the other.
#[derive(Default)]
struct Memory {
    request: Vec<u8>,
    params: Vec<u8>,
    output: Vec<u8>,
}

/// Why a request is answered without PHP.
enum Refused {
    /// With this status.
    Status(u16),
    /// By nobody: the client or the router has gone.
    Gone,
}

impl Worker<'_> {
    /// Serves until it is time to leave.
    pub fn run(&self) {
        let mut memory = Memory::default();
        let mut served = 0;
        let mut cpu = cpu_time_us();
        loop {
            match self.next_work(&mut cpu) {
                Some(Work::Request { slot, ticket, thread }) => {
                    if let Some(words) = self.region.slot(slot) {
                        words.started.store(clock::monotonic_us(), Ordering::Release);
                    }
                    served += 1;
                    let last = self.limit != 0 && served >= self.limit;
                    if !self.serve(slot, ticket, thread, last, &mut cpu, &mut memory) {
                        return;
                    }
                }
                Some(Work::Idle) => {}
                Some(Work::Leave) | None => return,
            }
        }
    }

    /// Waits for work; `None` if the router has gone. A look for it moves `cpu`, from where the
    /// processor time of the next request is counted.
    fn next_work(&self, cpu: &mut u64) -> Option<Work> {
        let work = self.region.take(self.owner);
        if work != Work::Idle {
            return Some(work);
        }
        if self.alone.take() && self.looks.are_due() && self.region.stay_awake() {
            self.looks.until(|| self.region.has_entries());
            *cpu = cpu_time_us();
            let work = self.region.take(self.owner);
            if let Some(call) = self.region.awake(self.owner) {
                futex::wake_in(self.region.wake_word(), call.wake_set());
            }
            return Some(work);
        }
        let sequence = self.region.going_to_sleep(self.owner);
        // Whoever publishes from now on wakes this worker; what was published before shows here.
        let mut work = self.region.take(self.owner);
        if work == Work::Idle {
            let word = self.region.wake_word();
            futex::wait_in(word, sequence, self.owner.wait_set(), Some(LIVENESS));
            work = self.region.take(self.owner);
        }
        if let Some(call) = self.region.awake(self.owner) {
            futex::wake_in(self.region.wake_word(), call.wake_set());
        }
        (work != Work::Idle || !peer_closed(&self.socket)).then_some(work)
    }

    /// Serves one request; `false` if this was the last one.
    fn serve(
        &self,
        slot: u32,
        ticket: u32,
        thread: u64,
        last: bool,
        cpu: &mut u64,
        memory: &mut Memory,
    ) -> bool {
        let mut exchange = Exchange::new(self.region, self.events, &self.socket, slot, thread);
        exchange.reuse(std::mem::take(&mut memory.output));
        self.region.request(slot, &mut memory.request);
        let Memory { request, params, .. } = memory;
        let result = self.handle(request, params, ticket, &mut exchange);
        let (peak_memory, broken) = match result {
            Ok(outcome) => outcome,
            Err(Refused::Status(status)) => {
                let _ = exchange.replace(status);
                (0, false)
            }
            Err(Refused::Gone) => (0, false),
        };
        let before = std::mem::replace(cpu, cpu_time_us());
        let leaving = last
            || broken
            || exchange.router_gone()
            || self.memory.is_exceeded()
            || process::is_copy();
        let cpu_us = cpu.saturating_sub(before);
        memory.output = exchange.done(Done { peak_memory, cpu_us, leaving }, self.output);
        if memory.params.capacity() > KEEP_PARAMS {
            memory.params = Vec::new();
        }
        !leaving
    }

    /// Runs PHP; returns the peak of its memory and whether it must not go on.
    fn handle<'m>(
        &self,
        request: &'m [u8],
        params: &'m mut Vec<u8>,
        ticket: u32,
        exchange: &mut Exchange<'m>,
    ) -> Result<(u64, bool), Refused>
    where
        Self: 'm,
    {
        let malformed = |exchange: &mut Exchange<'_>, what: &str| {
            exchange.log(3, format!("the request cannot be run: {what}").as_bytes());
        };
        let Ok((fixed, rest)) = Fixed::decode(request) else {
            malformed(exchange, "its encoding is broken");
            return Err(Refused::Status(500));
        };
        self.alone.set(fixed.flags & flags::ALONE != 0);
        let mut files = self.descriptors(fixed.flags, ticket, exchange)?.into_iter();
        let encoded = if fixed.flags & flags::PARAMS_FILE != 0 {
            read_params(files.next(), fixed.params_len, params).ok_or_else(|| {
                malformed(exchange, "its parameters cannot be read");
                Refused::Status(500)
            })?
        } else {
            rest
        };
        if self.script_directories.allow(encoded, fixed.params) == Ok(false) {
            exchange.log(3, b"Access to the script denied: not in script_directories");
            return Err(Refused::Status(403));
        }
        let now_us = clock::monotonic_us();
        let resolved = Resolved::new(encoded, fixed.params, &self.roots, now_us);
        let decoded = resolved.as_ref().map_err(|unusable| *unusable);
        let decoded = decoded.and_then(|found| parameters::decode(encoded, fixed.params, found));
        let (list, inline) = match decoded {
            Ok(decoded) => decoded,
            Err(Unusable::Nul) => return Err(Refused::Status(400)),
            Err(Unusable::Malformed) => {
                malformed(exchange, "its parameters are broken");
                return Err(Refused::Status(500));
            }
        };
        let Ok(length) = i64::try_from(fixed.body_len) else {
            malformed(exchange, "its body has an impossible length");
            return Err(Refused::Status(500));
        };
        let inline = if fixed.flags & flags::PARAMS_FILE != 0 { rest } else { inline };
        exchange.set_body(if fixed.flags & flags::BODY_FILE == 0 {
            match usize::try_from(fixed.body_len).ok().and_then(|len| inline.get(..len)) {
                Some(bytes) => Body::Inline(bytes),
                None => {
                    malformed(exchange, "its body is shorter than announced");
                    return Err(Refused::Status(500));
                }
            }
        } else if let Some(file) = files.next() {
            Body::File { file, at: 0, len: fixed.body_len }
        } else {
            malformed(exchange, "its body did not arrive");
            return Err(Refused::Status(500));
        });
        if length > 0 {
            self.prepare_uploads();
        }
        let outcome = self.php.handle(&list, length, exchange);
        Ok((outcome.peak_memory, outcome.broken()))
    }

    /// Gives uploaded files a place of their own.
    fn prepare_uploads(&self) {
        self.uploads.get_or_init(|| {
            let uploads = Uploads::new(self.upload_directory).ok()?;
            self.php.upload_to(&uploads.path);
            Some(uploads)
        });
    }

    /// The descriptors that a request has announced.
    fn descriptors(
        &self,
        announced: u32,
        ticket: u32,
        exchange: &mut Exchange<'_>,
    ) -> Result<Vec<OwnedFd>, Refused> {
        if announced & (flags::BODY_FILE | flags::PARAMS_FILE) == 0 {
            return Ok(Vec::new());
        }
        exchange.ask_for_descriptors().map_err(|Gone| Refused::Gone)?;
        let mut buffer = [0; 64];
        loop {
            match receive_within(&self.socket, Duration::from_secs(1), &mut buffer) {
                Ok(Received::Packet(len, descriptors)) => match ToWorker::decode(&buffer[..len]) {
                    Ok(ToWorker::Descriptors { ticket: of }) if of == ticket => {
                        return Ok(descriptors);
                    }
                    // For a request that was given up meanwhile.
                    _ => continue,
                },
                Ok(Received::Empty) if exchange.aborted() => return Err(Refused::Gone),
                Ok(Received::Empty) => continue,
                // The router has gone. Nobody waits for this worker any more.
                Ok(Received::Closed) | Err(_) => process::exit_now(0),
            }
        }
    }
}

/// Reads all parameters from the start of a file.
fn read_params(file: Option<OwnedFd>, len: u32, out: &mut Vec<u8>) -> Option<&[u8]> {
    if len > MAX_PARAMS {
        return None;
    }
    out.clear();
    out.resize(len as usize, 0);
    let file = std::fs::File::from(file?);
    std::os::unix::fs::FileExt::read_exact_at(&file, out, 0).ok()?;
    Some(out)
}

/// Waits for a packet; not longer than `patience`, after which it is `Empty`.
pub fn receive_within(
    socket: &OwnedFd,
    patience: Duration,
    buffer: &mut [u8],
) -> rustix::io::Result<Received> {
    let patience =
        Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience)) {
        Ok(0) => Ok(Received::Empty),
        _ => packet::receive(socket, buffer),
    }
}

/// Whether the other side of a socket has closed it.
pub fn peer_closed(socket: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let closed = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    poll(&mut ready, Some(&now)).is_ok_and(|n| n > 0) && ready[0].revents().intersects(closed)
}

fn cpu_time_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
