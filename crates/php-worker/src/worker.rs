//! A worker: takes requests from the shared queue, one at a time, until it is asked to leave, has
//! reached a limit, or the router has ended. The worker of a resident application does so inside
//! its worker script, see [`resident`](crate::resident).

use std::cell::{Cell, OnceCell};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use howdah_sys::packet::Received;
use howdah_sys::shm::Mapping;
use howdah_sys::spin::SpinPolicy;
use howdah_sys::{clock, futex, process};
use howdah_wire::frame::{OpcacheUsage, RequestUsage, Retirement};
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::{Work, WorkerId};
use howdah_wire::region::Region;
use howdah_wire::request::{RequestHeader, flags};
use rustix::time::{ClockId, clock_gettime};

use crate::body::Body;
use crate::document_root::Roots;
use crate::exchange::{Disconnected, Exchange, wake_thread};
use crate::ffi::Php;
use crate::memory::MemoryLimit;
use crate::owed_wakes::OwedWakes;
use crate::parameters::{self, Resolved, Unusable};
use crate::script_directories::ScriptDirectories;
use crate::script_extensions::ScriptExtensions;
use crate::socket::{is_peer_closed, receive_within};
use crate::uploads::Uploads;
use crate::web_server::{PathSettings, WebServerRequest};

/// Interval at which a sleeping worker checks that the router still runs. After the first one it
/// returns the memory of earlier requests to the kernel. The next request gets the memory again,
/// page by page: 1.4 ms for a page of WordPress.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The parameter by which scripts recognise a resident application, each with its NUL.
pub const RESIDENT_MARK: (&[u8], &[u8]) = (b"FRANKENPHP_WORKER\0", b"1\0");

/// Maximum size of parameters in a file, in bytes. The router's own limits are far below.
const MAX_PARAMS_BYTES: u32 = 16 << 20;

/// Maximum size of the buffer for parameters that is kept for the next request, in bytes.
const MAX_KEPT_PARAMS_BYTES: usize = 64 << 10;

/// A worker, with the resources from its prototype.
pub struct Worker<'a> {
    /// This worker's index and incarnation.
    pub owner: WorkerId,
    /// The router's messages: descriptors of requests.
    pub socket: OwnedFd,
    /// The queue and the slots.
    pub region: &'a Region<Mapping>,
    /// The eventfds of the router's threads.
    pub events: &'a [OwnedFd],
    /// PHP.
    pub php: &'a Php,
    /// Requests are handled by the worker script that is running.
    pub is_resident: bool,
    /// The router reads `.htaccess` files for this application.
    pub has_htaccess: bool,
    /// Names of settings of PHP that requests may have without `.htaccess` files.
    pub route_settings: &'a [String],
    /// Requests may come from a web server over FastCGI.
    pub takes_fastcgi: bool,
    /// How the paths of requests of web servers are read.
    pub path_settings: PathSettings,
    /// Number of requests after which the worker ends; 0: no limit.
    pub limit: u64,
    /// The limit of its private memory, checked after each request.
    pub memory: MemoryLimit,
    /// PHP's directory for uploaded files.
    pub upload_directory: &'a Path,
    /// Cache of document roots without symbolic links.
    pub roots: Roots,
    /// Directories from which scripts may run.
    pub script_directories: ScriptDirectories<'a>,
    /// Endings of the names of files that requests may run.
    pub script_extensions: ScriptExtensions<'a>,
    /// This worker's own directory in `upload_directory`, once a request with a body has come.
    pub uploads: OnceCell<Option<Uploads>>,
    /// The pipes of standard output and error: none, one of both, or one of each.
    pub outputs: Vec<BorrowedFd<'static>>,
    /// Router threads that are to be woken before this worker sleeps.
    pub owed: OwedWakes,
    /// True if the last request was the only one in the server.
    pub was_only_request: Cell<bool>,
    /// True if requests were served since memory was last returned to the kernel.
    pub keeps_memory: Cell<bool>,
    /// Decides whether to spin for the next request in that case.
    pub spin_policy: SpinPolicy,
}

/// State of a worker that it keeps from one request to the next.
#[derive(Default)]
pub struct Progress {
    /// Number of requests.
    served: u64,
    /// Processor time at which the next request begins, in microseconds.
    cpu: u64,
    buffers: Buffers,
}

/// Buffers that are reused for the next request.
#[derive(Default)]
struct Buffers {
    request: Vec<u8>,
    params: Vec<u8>,
    output: Vec<u8>,
}

/// Outcome of a request.
#[derive(Default)]
struct Outcome {
    /// `memory_get_peak_usage(true)` in bytes.
    peak_memory: u64,
    /// State of OPcache, if it was read.
    opcache: Option<OpcacheUsage>,
    /// Reason for which the worker must leave, if PHP has one.
    retirement: Option<Retirement>,
    /// PHP must not be called again.
    is_php_broken: bool,
    /// An error has ended the script.
    is_cut: bool,
}

/// Reason why a request is answered without PHP.
enum Refused {
    /// The response has this status.
    Status(u16),
    /// There is no response: the client has disconnected, or the router has ended.
    Disconnected,
}

impl Worker<'_> {
    /// Serves requests until the worker must leave.
    pub fn run(&self) {
        let mut progress = self.begin();
        while self.serve_next(&mut progress) {}
    }

    /// Returns the state before the first request.
    pub fn begin(&self) -> Progress {
        Progress { cpu: cpu_time_us(), ..Progress::default() }
    }

    /// Waits for a request and serves it. Returns false if the worker must leave.
    pub fn serve_next(&self, progress: &mut Progress) -> bool {
        loop {
            match self.next_work(&mut progress.cpu) {
                Some(Work::Request { slot, ticket, thread }) => {
                    let now_us = clock::monotonic_us();
                    if let Some(words) = self.region.slot(slot) {
                        words.started.store(now_us, Ordering::Release);
                    }
                    if self.owed.are_many() {
                        self.wake_threads();
                    }
                    progress.served += 1;
                    self.keeps_memory.set(true);
                    return self.serve(slot, ticket, thread, progress);
                }
                Some(Work::Idle) => {}
                Some(Work::Exit) | None => return false,
            }
        }
    }

    /// Waits for work; `None` if the router has ended. Sets `cpu` to the processor time at which
    /// the next request begins: time spent spinning is not counted for a request.
    fn next_work(&self, cpu: &mut u64) -> Option<Work> {
        let work = self.region.take(self.owner);
        if matches!(work, Work::Request { .. }) {
            return Some(work);
        }
        self.wake_threads();
        if work == Work::Exit {
            return Some(work);
        }
        if self.was_only_request.take()
            && self.spin_policy.should_spin()
            && self.region.begin_spin(self.owner)
        {
            self.spin_policy.until(|| self.region.has_entries());
            *cpu = cpu_time_us();
            let work = self.region.take(self.owner);
            if let Some(call) = self.region.end_sleep(self.owner) {
                futex::wake_in(self.region.wake_word(), call.wake_set());
            }
            return Some(work);
        }
        let sequence = self.region.begin_sleep(self.owner);
        // A request published from now on wakes this worker; one published before is found here.
        let mut work = self.region.take(self.owner);
        let mut has_timed_out = false;
        if work == Work::Idle {
            let word = self.region.wake_word();
            let limit = Some(IDLE_CHECK_INTERVAL);
            has_timed_out = futex::wait_in(word, sequence, self.owner.wait_set(), limit);
            work = self.region.take(self.owner);
        }
        if let Some(call) = self.region.end_sleep(self.owner) {
            futex::wake_in(self.region.wake_word(), call.wake_set());
        }
        if has_timed_out {
            if work == Work::Idle && self.keeps_memory.take() {
                self.php.release_memory();
            }
            *cpu = cpu_time_us();
        }
        (work != Work::Idle || !is_peer_closed(&self.socket)).then_some(work)
    }

    fn wake_threads(&self) {
        for thread in self.owed.take().filter(|thread| self.region.take_sleep(*thread)) {
            wake_thread(self.events, thread);
        }
    }

    /// Serves one request. Returns false if this was the worker's last one.
    fn serve(&self, slot: u32, ticket: u32, thread: u64, progress: &mut Progress) -> bool {
        let Progress { served, cpu, buffers } = progress;
        let mut exchange = Exchange::new(self.region, self.events, &self.socket, slot, thread);
        exchange.reuse(std::mem::take(&mut buffers.output));
        self.region.request(slot, &mut buffers.request);
        let Buffers { request, params, .. } = buffers;
        let result = self.handle(request, params, ticket, *cpu, &mut exchange);
        if exchange.is_profiled() {
            self.php.end_profile();
        }
        let outcome = result.unwrap_or_else(|refused| {
            if let Refused::Status(status) = refused {
                let _ = exchange.replace(status);
            }
            Outcome::default()
        });
        let before = std::mem::replace(cpu, cpu_time_us());
        let retirement = outcome.retirement.or_else(|| self.retirement(*served, &exchange));
        let cpu_us = cpu.saturating_sub(before);
        let Outcome { peak_memory, opcache, .. } = outcome;
        let usage = RequestUsage { peak_memory, cpu_us, retirement, opcache };
        let (output, may_wait) = exchange.done(usage, outcome.is_cut, &self.outputs);
        buffers.output = output;
        let is_last = retirement.is_some() || outcome.is_php_broken;
        if may_wait && !self.owed.add(thread) && self.region.take_sleep(thread) {
            wake_thread(self.events, thread);
        }
        if is_last {
            self.wake_threads();
        }
        if buffers.params.capacity() > MAX_KEPT_PARAMS_BYTES {
            buffers.params = Vec::new();
        }
        if outcome.is_php_broken || (self.is_resident && process::is_forked_copy()) {
            process::exit_now(0); // PHP must not be called again, not even to go on with a script
        }
        retirement.is_none()
    }

    /// Returns the reason for which the worker must leave after its request number `served`.
    fn retirement(&self, served: u64, exchange: &Exchange<'_>) -> Option<Retirement> {
        if exchange.router_gone() || process::is_forked_copy() {
            Some(Retirement::Broken)
        } else if self.limit != 0 && served >= self.limit {
            Some(Retirement::Requests)
        } else if self.memory.is_exceeded() {
            Some(Retirement::Memory)
        } else {
            None
        }
    }

    /// Runs PHP for a request that began at this processor time.
    fn handle<'m>(
        &self,
        request: &'m [u8],
        params: &'m mut Vec<u8>,
        ticket: u32,
        cpu_us: u64,
        exchange: &mut Exchange<'m>,
    ) -> Result<Outcome, Refused>
    where
        Self: 'm,
    {
        let Ok((header, rest)) = RequestHeader::decode(request) else {
            return Err(malformed(exchange, "its encoding is broken"));
        };
        self.was_only_request.set(header.flags & flags::IS_ONLY_REQUEST != 0);
        let mut files = self.descriptors(header.flags, ticket, exchange)?.into_iter();
        let has_params_file = header.flags & flags::PARAMS_FILE != 0;
        let encoded = if has_params_file {
            read_params(files.next(), header.params_len, params)
                .ok_or_else(|| malformed(exchange, "its parameters cannot be read"))?
        } else {
            rest
        };
        let web_server = self.of_web_server(encoded, header.params, exchange)?;
        if web_server.is_none()
            && self.script_directories.allow(encoded, header.params) == Ok(false)
        {
            exchange.log(3, b"Access to the script denied: not in script_directories");
            return Err(Refused::Status(403));
        }
        let given = encoded;
        let (encoded, count) = match &web_server {
            None => (encoded, header.params),
            Some(request) => (request.params.as_bytes(), request.params.len()),
        };
        let now_us = clock::monotonic_us();
        let resolved = match &web_server {
            None => Resolved::new(encoded, count, &self.roots, now_us),
            // Paths are those that the web server has chosen.
            Some(_) => Ok(Resolved::default()),
        };
        let decoded = resolved.as_ref().map_err(|unusable| *unusable);
        let decoded = decoded.and_then(|found| parameters::decode(encoded, count, found));
        let (mut list, _) = match decoded {
            Ok(decoded) => decoded,
            Err(Unusable::Nul) => return Err(Refused::Status(400)),
            Err(Unusable::Malformed) => {
                return Err(malformed(exchange, "its parameters are broken"));
            }
        };
        if !self.has_htaccess {
            list = list.without_htaccess(self.route_settings);
        }
        match (&web_server, self.script_extensions.allow(encoded, count)) {
            (Some(request), _) => {
                if !list.set_web_server(request.script_text(), request.uri_text()) {
                    return Err(Refused::Status(400));
                }
                let is_script = |path| self.script_extensions.allow_path(path);
                list.limit_name(request.script().is_none_or(is_script));
            }
            (None, Ok(Some(is_allowed))) => list.limit_name(is_allowed),
            (None, Ok(None)) => {}
            (None, Err(_)) => return Err(malformed(exchange, "its parameters are broken")),
        }
        list.set_start(cpu_us);
        if let Some(order) = list.profile {
            if self.php.profile(order, self.region.ended_profile()) {
                exchange.start_profile();
            } else {
                exchange.log(4, b"the script cannot be profiled: there is no thread for its clock");
            }
        }
        let Ok(length) = i64::try_from(header.body_len) else {
            return Err(malformed(exchange, "its body has an impossible length"));
        };
        let inline = if has_params_file {
            rest
        } else {
            // The body is behind the parameters.
            given.get(header.params_len as usize..).unwrap_or_default()
        };
        let body = body(&header, inline, &mut files);
        let body = body.map_err(|problem| malformed(exchange, problem))?;
        exchange.set_body(body);
        if length > 0 {
            self.prepare_uploads();
        }
        if !self.is_resident {
            let result = self.php.handle(&list, length, exchange);
            let retirement = result.is_broken().then_some(Retirement::Broken);
            let peak_memory = result.peak_memory;
            let (opcache, is_cut) = (result.opcache(), result.is_cut());
            return Ok(Outcome { peak_memory, opcache, retirement, is_php_broken: false, is_cut });
        }
        list.push(RESIDENT_MARK.0, RESIDENT_MARK.1);
        let result = self.php.handle_resident(&list, length, Some(exchange));
        let (retirement, is_php_broken) = (result.end(), result.is_broken());
        let (peak_memory, opcache) = (result.peak_memory, result.opcache());
        let is_cut = result.is_cut();
        Ok(Outcome { peak_memory, opcache, retirement, is_php_broken, is_cut })
    }

    /// Returns the request of a web server over FastCGI; `None` if it is none.
    fn of_web_server(
        &self,
        encoded: &[u8],
        count: u32,
        exchange: &mut Exchange<'_>,
    ) -> Result<Option<WebServerRequest>, Refused> {
        // Without a listener for it, the reserved parameter is an error of the router.
        if !self.takes_fastcgi || self.is_resident {
            return Ok(None);
        }
        let read = WebServerRequest::read(encoded, count, self.path_settings);
        let Some(request) = read.map_err(|_| malformed(exchange, "its parameters are broken"))?
        else {
            return Ok(None);
        };
        let place = match request.script() {
            Some(script) if !self.script_directories.contain(script) => "script_directories",
            Some(_) if !request.is_below_root() => "the root of the application",
            _ => return Ok(Some(request)),
        };
        let script = String::from_utf8_lossy(request.script().unwrap_or_default());
        let line = format!("Access to the script '{script}' has been denied (not in {place})");
        exchange.log(3, line.as_bytes());
        Err(Refused::Status(403))
    }

    /// Creates this worker's directory for uploaded files, once.
    fn prepare_uploads(&self) {
        self.uploads.get_or_init(|| {
            let uploads = Uploads::new(self.upload_directory).ok()?;
            self.php.set_upload_directory(&uploads.path);
            Some(uploads)
        });
    }

    /// Receives the descriptors that a request has announced.
    fn descriptors(
        &self,
        announced: u32,
        ticket: u32,
        exchange: &mut Exchange<'_>,
    ) -> Result<Vec<OwnedFd>, Refused> {
        if announced & (flags::BODY_FILE | flags::PARAMS_FILE) == 0 {
            return Ok(Vec::new());
        }
        exchange.request_descriptors().map_err(|Disconnected| Refused::Disconnected)?;
        let mut buffer = [0; 64];
        loop {
            match receive_within(&self.socket, Duration::from_secs(1), &mut buffer) {
                Ok(Received::Packet(len, descriptors)) => match ToWorker::decode(&buffer[..len]) {
                    Ok(ToWorker::Descriptors { ticket: of }) if of == ticket => {
                        return Ok(descriptors);
                    }
                    // Descriptors for an earlier request.
                    _ => continue,
                },
                Ok(Received::Empty) if exchange.aborted() => return Err(Refused::Disconnected),
                Ok(Received::Empty) => continue,
                // The router has ended, so the result is not needed.
                Ok(Received::Closed) | Err(_) => process::exit_now(0),
            }
        }
    }
}

/// Reads all parameters from the start of a file.
fn read_params(file: Option<OwnedFd>, len: u32, out: &mut Vec<u8>) -> Option<&[u8]> {
    if len > MAX_PARAMS_BYTES {
        return None;
    }
    out.clear();
    out.resize(len as usize, 0);
    let file = std::fs::File::from(file?);
    std::os::unix::fs::FileExt::read_exact_at(&file, out, 0).ok()?;
    Some(out)
}

/// Logs why a request cannot be run: an error of the router.
fn malformed(exchange: &mut Exchange<'_>, problem: &str) -> Refused {
    exchange.log(3, format!("the request cannot be run: {problem}").as_bytes());
    Refused::Status(500)
}

/// Returns the body of a request: the start of `inline`, or the next of its files.
fn body<'m>(
    header: &RequestHeader,
    inline: &'m [u8],
    files: &mut impl Iterator<Item = OwnedFd>,
) -> Result<Body<'m>, &'static str> {
    if header.flags & flags::BODY_FILE == 0 {
        let bytes = usize::try_from(header.body_len).ok().and_then(|len| inline.get(..len));
        return bytes.map(Body::Inline).ok_or("its body is shorter than announced");
    }
    let file = files.next().ok_or("its body did not arrive")?;
    Ok(Body::File { file, at: 0, len: header.body_len })
}

/// Returns the processor time of this process in microseconds.
fn cpu_time_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
