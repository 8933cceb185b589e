//! Assembles pages from parts ([`howdah_cache::esi`] has the syntax).
//!
//! 1. A page is assembled if its action has a cache with `esi`, and the page asks for it. It is
//!    stored as it is; the assembled page is not stored.
//! 2. Each include is a GET request of the same client to the same host, which the listener routes
//!    like any other: the client gets only content that it could request itself. A part may have
//!    parts.
//! 3. Depth, number of includes and bytes are limited for a page with all its parts, and the memory
//!    of all pages.
//! 4. Parts are asked for at the same time, as a browser would, up to a limit for the whole page.
//!    The first failure that counts ends the page; parts in progress are then given up.
//! 5. Of a part, only the body counts. The page loses its validators, and no other cache may store
//!    it.

use std::cell::RefCell;
use std::fs::File;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use howdah_cache::esi::{self, Include, Segment, TooMuch};
use howdah_http::body::{Body, Piece, file};
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::memory::{Charge, Owner, PAGES};
use howdah_http::message::{FieldBlock, Request, Response};
use howdah_http::respond;
use howdah_http::target::Target;
use howdah_http::turn::TURN_BYTES;
use howdah_routing::route::Decision;
use howdah_routing::snapshot::effects::Effects;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::checks;
use super::plain_request::plain_request;
use super::redirects;
use super::respond::produce;
use crate::context::Context;

/// Maximum depth of parts in parts.
const MAX_DEPTH: usize = 5;

/// Maximum bytes of a page with all its parts.
const MAX_BYTES: usize = 16 << 20;

/// Maximum number of parts that are asked for at once, for a page with all its parts: as many
/// connections as browsers have to a server, so that limits that suit browsers suit pages of parts.
const MAX_AT_ONCE: usize = 6;

/// Maximum bytes of a file that are read at once.
const FILE_STEP: usize = 256 << 10;

/// A page that is being assembled.
struct Assembly<'a> {
    listener: &'a str,
    budget: RefCell<Budget>,
    turns: Semaphore,
}

/// The rest of the limits of a page.
struct Budget {
    memory: Charge,
    /// There was no memory for the page.
    is_without_memory: bool,
    includes: usize,
    bytes: usize,
    /// A limit was exceeded: the page fails, even if its parts allow failures.
    is_exceeded: bool,
    /// Number of parts that were left out.
    left_out: usize,
    /// The reason for the first of them.
    first_problem: String,
}

impl Budget {
    fn new(owner: Owner) -> Budget {
        Budget {
            memory: Charge::new(&PAGES, owner),
            is_without_memory: false,
            includes: esi::MAX_INCLUDES,
            bytes: MAX_BYTES,
            is_exceeded: false,
            left_out: 0,
            first_problem: String::new(),
        }
    }

    fn take_include(&mut self) -> Result<(), String> {
        match self.includes.checked_sub(1) {
            Some(left) => {
                self.includes = left;
                Ok(())
            }
            None => Err(self.exceeded(TooMuch::Includes.to_string())),
        }
    }

    fn take_bytes(&mut self, len: usize) -> Result<(), String> {
        let Some(left) = self.bytes.checked_sub(len) else {
            return Err(self.exceeded(format!("more than {MAX_BYTES} bytes")));
        };
        // The bytes that are read, and the page that they are copied into.
        if !self.memory.hold(2 * (MAX_BYTES - left)) {
            self.is_without_memory = true;
            return Err(self.exceeded("there is no memory left for such pages".to_owned()));
        }
        self.bytes = left;
        Ok(())
    }

    fn exceeded(&mut self, what: String) -> String {
        self.is_exceeded = true;
        what
    }

    fn leave_out(&mut self, problem: String) {
        if self.left_out == 0 {
            self.first_problem = problem;
        }
        self.left_out += 1;
    }
}

/// Removes the fields from a request that ask for a part of a page that may have to be assembled. A
/// file never has to be.
pub fn prepare(decision: &Decision, effects: &Effects<'_>, request: &mut Request) {
    let is_file = matches!(decision, Decision::File(_));
    if is_on(effects) && !is_file && request.fields.get("range").is_some() {
        let is_of_ranges = |name: &[u8]| {
            name.eq_ignore_ascii_case(b"range") || name.eq_ignore_ascii_case(b"if-range")
        };
        request.fields.retain(|name| !is_of_ranges(name));
    }
}

/// Returns true if a response has to be assembled.
pub fn is_wanted(effects: &Effects<'_>, response: &Response) -> bool {
    is_on(effects) && !matches!(response.status, 206 | 304) && esi::is_marked(&response.fields)
}

fn is_on(effects: &Effects<'_>) -> bool {
    effects.cache.is_some_and(|cache| cache.settings.esi)
}

/// Replaces the body of a response to a client by the assembled page.
pub async fn assemble(
    context: &Context<'_>,
    listener: &str,
    exchange: &Exchange<'_>,
    response: &mut Response,
) {
    if &*exchange.request.method == b"HEAD" {
        // The length of the response to a GET is not known.
        response.body = Body::unsent(None);
        response.fields = fields(&response.fields, true);
        return;
    }
    let body = std::mem::take(&mut response.body);
    let budget = RefCell::new(Budget::new(exchange.request.owner()));
    let turns = Semaphore::new(MAX_AT_ONCE);
    let assembly = Assembly { listener, budget, turns };
    match assembly.page(context, exchange, body).await {
        Ok(assembled) => {
            let budget = assembly.budget.into_inner();
            let Budget { left_out, first_problem, .. } = &budget;
            if *left_out > 0 {
                let problem =
                    format_args!("{left_out} parts are left out, the first one: {first_problem}");
                context.log_error(&exchange.request, problem);
            }
            let has_parts = budget.includes < esi::MAX_INCLUDES;
            response.body = assembled.into();
            response.fields = fields(&response.fields, has_parts);
            response.drop_trailer();
        }
        Err(problem) => {
            context.log_error(
                &exchange.request,
                format_args!("the page cannot be assembled from its parts: {problem}"),
            );
            *response = respond::refuse(if assembly.budget.borrow().is_without_memory {
                RequestError::NoResources
            } else {
                RequestError::NoResponse
            });
        }
    }
}

impl Assembly<'_> {
    /// Returns the content of a page with its parts. Error: the reason for the log.
    async fn page(
        &self,
        context: &Context<'_>,
        exchange: &Exchange<'_>,
        body: Body,
    ) -> Result<Bytes, String> {
        let page = self.read(body).await?;
        self.parts(context, exchange, page, 0).await
    }

    /// Replaces the includes of a page.
    async fn parts(
        &self,
        context: &Context<'_>,
        exchange: &Exchange<'_>,
        page: Bytes,
        depth: usize,
    ) -> Result<Bytes, String> {
        let mut parser = esi::Parser::new(&page);
        let step = |parser: &mut esi::Parser<'_>| {
            parser.step().map_err(|much| self.budget.borrow_mut().exceeded(much.to_string()))
        };
        while !step(&mut parser)? {
            yield_now().await; // other requests have a turn
        }
        let segments = parser.into_segments();
        if let [] | [Segment::Text(_)] = &*segments {
            return Ok(segments.first().map_or(Bytes::new(), |segment| text(&page, segment)));
        }
        let pieces = segments.iter().map(|segment| match segment {
            Segment::Text(_) => Part::Ready(text(&page, segment)),
            Segment::Include(include) => {
                Part::Asked(Box::pin(self.part(context, exchange, include, depth + 1)))
            }
        });
        Ok(all(pieces.collect()).await?.concat().into())
    }

    /// Returns the content of an include: of its first address, or else of its second one.
    async fn part(
        &self,
        context: &Context<'_>,
        exchange: &Exchange<'_>,
        include: &Include,
        depth: usize,
    ) -> Result<Bytes, String> {
        let mut problem = String::new();
        for address in [Some(&include.src), include.alt.as_ref()].into_iter().flatten() {
            let shown = String::from_utf8_lossy(address);
            if depth > MAX_DEPTH {
                problem = format!("{shown} is deeper than {MAX_DEPTH} parts in parts");
                break;
            }
            self.budget.borrow_mut().take_include()?;
            match self.ask(context, exchange, address, depth).await {
                Ok(part) => return Ok(part),
                Err(why) => problem = format!("{shown}: {why}"),
            }
        }
        let mut budget = self.budget.borrow_mut();
        if include.continues && !budget.is_exceeded {
            budget.leave_out(problem);
            return Ok(Bytes::new());
        }
        Err(problem)
    }

    /// Returns the content of an address. Error: the reason for the log.
    async fn ask(
        &self,
        context: &Context<'_>,
        exchange: &Exchange<'_>,
        address: &[u8],
        depth: usize,
    ) -> Result<Bytes, String> {
        let mut request = request(&exchange.request, address)?;
        // Until the part has come; its own parts need turns, too.
        let turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        // Its limits and added fields are its own.
        let own = Context::new(context.thread, context.routing.snapshot, exchange.started_at);
        let (mut routed, step) = own.routing.route(self.listener, &mut request);
        let connection = exchange.without_body();
        let mut asked = Exchange::new(request, exchange.started_at, &connection);
        let decision = checks::check(&own, step, &mut routed, &mut asked).await;
        let answered = produce(&own, decision, &mut routed, &mut asked);
        let (mut response, instruction) = answered.await;
        if let Some(instruction) = instruction {
            redirects::follow(&own, instruction, &mut routed, &asked, &mut response).await;
        }
        if !matches!(response.status, 200..=299) || response.status == 206 {
            return Err(format!("the status is {}", response.status));
        }
        if response.fields.get("content-encoding").is_some_and(|coding| coding != b"identity") {
            return Err("it is encoded".to_owned());
        }
        let has_parts = is_wanted(&routed.effects, &response);
        let part = self.read(response.body).await?;
        drop(turn);
        if has_parts { self.parts(&own, &asked, part, depth).await } else { Ok(part) }
    }

    /// Returns the bytes of a body, which count against the budget. Error: the reason for the log.
    async fn read(&self, body: Body) -> Result<Bytes, String> {
        let take = |len: usize| self.budget.borrow_mut().take_bytes(len);
        match body {
            Body::Empty => Ok(Bytes::new()),
            Body::Bytes(bytes) => take(bytes.len()).map(|()| bytes),
            Body::Pieces(pieces) => {
                let mut all = BytesMut::new();
                for piece in pieces {
                    take(usize::try_from(piece.len()).unwrap_or(usize::MAX))?;
                    match piece {
                        Piece::Bytes(bytes) => all.extend_from_slice(&bytes),
                        Piece::File { file, offset, len } => {
                            read_file(&file, offset, len, &mut all).await?;
                        }
                    }
                }
                Ok(all.freeze())
            }
            Body::Stream(mut stream) => {
                let (mut all, mut turn) = (BytesMut::new(), 0);
                while let Some(next) = poll_fn(|cx| stream.poll_next(cx)).await {
                    let bytes = next.map_err(|error| format!("its body is cut: {error}"))?;
                    take(bytes.len())?;
                    all.extend_from_slice(&bytes);
                    turn += bytes.len();
                    if turn >= TURN_BYTES {
                        turn = 0;
                        yield_now().await; // other requests have a turn
                    }
                }
                if stream.is_cut() {
                    return Err("an error has ended its script".to_owned());
                }
                Ok(all.freeze())
            }
        }
    }
}

/// Appends a range of a file, which may have been truncated since its length was read.
async fn read_file(
    file: &Arc<File>,
    mut offset: u64,
    len: u64,
    all: &mut BytesMut,
) -> Result<(), String> {
    let end = offset.saturating_add(len);
    while offset < end {
        let count = usize::try_from(end - offset).unwrap_or(FILE_STEP).min(FILE_STEP);
        let read = file::read(file, offset, count).await;
        let bytes = read.map_err(|_| "its file cannot be read to its end".to_owned())?;
        offset = offset.saturating_add(bytes.len() as u64);
        all.extend_from_slice(&bytes);
    }
    Ok(())
}

/// The content of a segment, or a request for it.
enum Part<'a> {
    Ready(Bytes),
    Asked(Pin<Box<dyn Future<Output = Result<Bytes, String>> + 'a>>),
}

/// Waits for all parts at once. Returns their contents in order, or the first failure.
///
/// All are polled with the waker of the task, because requests of one connection watch it with one
/// waker. Their number is limited, and those without a turn return at once.
async fn all(mut parts: Vec<Part<'_>>) -> Result<Vec<Bytes>, String> {
    poll_fn(|cx| {
        let mut is_ready = true;
        for part in &mut parts {
            let Part::Asked(asked) = part else { continue };
            match asked.as_mut().poll(cx) {
                Poll::Ready(content) => match content {
                    Ok(content) => *part = Part::Ready(content),
                    Err(problem) => return Poll::Ready(Err(problem)),
                },
                Poll::Pending => is_ready = false,
            }
        }
        if is_ready { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await?;
    let content = |part| match part {
        Part::Ready(content) => content,
        Part::Asked(_) => Bytes::new(),
    };
    Ok(parts.into_iter().map(content).collect())
}

fn text(page: &Bytes, segment: &Segment) -> Bytes {
    match segment {
        Segment::Text(range) if range.end <= page.len() => page.slice(range.clone()),
        _ => Bytes::new(),
    }
}

/// Returns the request for a part: that of the client, for another target.
fn request(original: &Request, address: &[u8]) -> Result<Request, String> {
    const NOT_OF_PARTS: [&[u8]; 2] = [b"accept-encoding", b"upgrade"];
    let host = original.fields.get("host").unwrap_or(&original.host);
    let target = esi::target(address, host).ok_or("it is no path of this host")?;
    let parsed = Target::parse(target).map_err(|error| error.reason().to_owned())?;
    let mut request = plain_request(original);
    request.method = Bytes::from_static(b"GET");
    request.path = Bytes::copy_from_slice(parsed.path(target));
    request.query = Bytes::copy_from_slice(target.get(parsed.query).unwrap_or_default());
    request.target = Bytes::copy_from_slice(target);
    request.fragment = Bytes::new();
    (request.user, request.error, request.additions) = (None, None, None);
    request.captures = Default::default();
    request
        .fields
        .retain(|name| !NOT_OF_PARTS.iter().any(|other| name.eq_ignore_ascii_case(other)));
    Ok(request)
}

/// Returns the fields of an assembled page.
fn fields(stored: &FieldBlock, has_parts: bool) -> FieldBlock {
    const OF_PAGE: [&[u8]; 5] =
        [b"surrogate-control", b"content-length", b"etag", b"last-modified", b"accept-ranges"];
    const OF_CACHES: [&[u8]; 5] =
        [b"cache-control", b"expires", b"pragma", b"age", b"cdn-cache-control"];
    let is_in =
        |names: &[&[u8]], name: &[u8]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    let mut lines = Vec::with_capacity(stored.as_bytes().len() + 40);
    for (name, value) in stored.iter() {
        if !(is_in(&OF_PAGE, name) || has_parts && is_in(&OF_CACHES, name)) {
            for part in [name, b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
    }
    if has_parts {
        // The parts have lifetimes of their own, and may be for this client alone.
        lines.extend_from_slice(b"Cache-Control: private, no-cache\r\n");
    }
    FieldBlock::from_lines(lines.into())
}
