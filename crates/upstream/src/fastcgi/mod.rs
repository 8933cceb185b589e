//! Sites that a FastCGI server runs: PHP-FPM, php-cgi.
//!
//! 1. The body is taken from the client: memory, then an unlinked file. A slow client holds no
//!    process of the server, and the length is known. If it was told beforehand, the server gets
//!    the body as it comes where the configuration wants that.
//! 2. A connection is found ([`line`]). What the server has no room for waits here, first come,
//!    first served: a full backlog is no error.
//! 3. The request goes out as records (`conversation`): parameters as for a PHP of ours, some set
//!    by the site.
//! 4. What comes back before an empty line is the head; it is checked like that of a worker.
//! 5. The body (`answer`) is taken as fast as the server writes it and sent at the client's pace
//!    ([`crate::transfer::response_buffer`]).
//!
//! A request is sent a second time only under the conditions of [`crate::proxy`].

mod answer;
mod conversation;
pub mod head;
mod messages;
pub mod site;

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use howdah_http::exchange::Exchange;
use howdah_http::message::{After, Response};
use howdah_http::request_body::CollectError;
use howdah_http::respond;
use howdah_http::variables::{ShownRequestId, Source};
use howdah_php_pool::target::Script;
use howdah_php_pool::{params, response};
use howdah_wire::fastcgi::{Role, put_begin, put_params};
use howdah_wire::request::Params;

use self::answer::{Answer, Home};
use self::conversation::{Conversation, Part};
use self::messages::Messages;
use self::site::Site;
use crate::connections::backlog::Ticket;
use crate::connections::stream::Stream;
use crate::proxy::request::is_idempotent;
use crate::proxy::response::Malformed;
use crate::proxy::{Buffer, CLIENT_GONE, Failure, refuse, wish};
use crate::queue::Refused;
use crate::servers::upstream::{Busy, Server};
use crate::thread::ProxyThread;
use crate::transfer::response_buffer::Taking;
use crate::transfer::upload::{Content, Framing, Upload};

/// The number of the one request that a connection has at a time.
const REQUEST: u16 = 1;
/// Bytes that the parameters of most requests do not exceed.
const USUAL_PARAMS: usize = 2048;

/// A request on its way to a server; for the log, and for keeping the connection.
#[derive(Debug, Clone)]
struct Attempt {
    site: Arc<Site>,
    server: Arc<Server>,
    id: u64,
    method: Bytes,
    target: Bytes,
}

/// Has a server run a script; the response is there as soon as its head is.
pub async fn run(
    thread: &Rc<ProxyThread>,
    site: &Arc<Site>,
    script: &Script,
    buffer: &Buffer<'_>,
    exchange: &mut Exchange<'_>,
) -> Response {
    if let Some(status) = is_missing(thread, site, script) {
        return respond::error(status);
    }
    let id = ShownRequestId(exchange.request.id);
    let complain = |problem: fmt::Arguments<'_>| {
        let problem = format_args!("\"{site}\" request {id}: {problem}");
        thread.complain(&site.log_limit, problem);
    };
    // A server must be told how long it is.
    let streams = buffer.streams(site.request_buffering) && exchange.body_len().is_some();
    let content = match Content::take(exchange, buffer, streams).await {
        Ok(content) => content,
        Err(CollectError::Client(error)) => return refuse(error.status()),
        Err(CollectError::Disk(error)) => {
            complain(format_args!("the body cannot be kept: {error}"));
            return refuse(507);
        }
    };
    let ticket = tokio::select! {
        biased;
        ticket = site.gate.enter() => ticket,
        _ = exchange.client_gone() => return refuse(CLIENT_GONE),
    };
    let mut ticket = match ticket {
        Ok(ticket) => ticket,
        Err(refused) => {
            complain(format_args!("{refused}"));
            return refuse(503);
        }
    };
    thread.asks();
    let taking = buffer.taking(site.buffering);
    site.upstream.budget.save();
    let wish = wish(&site.upstream, exchange);
    let (mut tried, mut status) = (Vec::new(), 502);
    while tried.len() < site.upstream.tries {
        let busy = match site.upstream.server(thread, &tried, &wish).await {
            Ok(Some(busy)) => busy,
            Ok(None) => break,
            Err(refused) => {
                complain(format_args!("{refused}"));
                return refuse(503);
            }
        };
        tried.push(busy.index());
        let Some(server) = busy.server() else { break };
        let attempt = Attempt::new(site, server, exchange);
        let right = Right { _ticket: ticket, busy };
        match attempt.make(thread, right, script, &content, taking, exchange).await {
            Ok(response) => return response,
            Err(Missed { failure, may_repeat, right }) => {
                attempt.complain(thread, &failure);
                status = failure.status();
                let again = may_repeat && tried.len() < site.upstream.tries;
                match right {
                    Some(right) if again && site.upstream.budget.spend() => ticket = right._ticket,
                    _ => break,
                }
            }
        }
    }
    if tried.is_empty() {
        complain(format_args!("no server has a weight"));
    }
    refuse(status)
}

/// The status for a script that cannot be there. A path names a script only if it ends in `.php`:
/// php-cgi would run anything. And where the server's files are ours too, the script must be a
/// file, because PHP may otherwise take a part of the path for it (`cgi.fix_pathinfo`:
/// `/picture.jpg/x.php` runs the picture).
fn is_missing(thread: &ProxyThread, site: &Site, script: &Script) -> Option<u16> {
    let name = script.file.as_os_str().as_bytes();
    if site.is_fixed(script) {
        return None;
    }
    if !name.ends_with(b".php") {
        return Some(404);
    }
    let now = Instant::now();
    if thread.scripts().has(&script.file, now) {
        return None;
    }
    match std::fs::metadata(&script.file) {
        Ok(metadata) if metadata.is_file() => {
            thread.scripts().found(&script.file, now);
            None
        }
        Ok(_) => Some(404),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        // Another machine's files, or those of a chroot, are not here.
        Err(_) => script.root.is_dir().then_some(404),
    }
}

/// The records of a request up to its body, and the body if it is short.
fn encode(site: &Site, script: &Script, content: &Content, exchange: &Exchange<'_>) -> Vec<u8> {
    let request = &exchange.request;
    let mut params = Params::with_capacity(USUAL_PARAMS);
    params::write(&mut params, request, script, None, content.len().unwrap_or(0));
    let source = Source::of(request, exchange.begun);
    let own: Vec<(&[u8], Vec<u8>)> = { site.params.iter() }
        .map(|(name, template)| (name.as_bytes(), source.expand(template)))
        .collect();
    let usual = params.iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name));
    let added = own.iter().filter(|(_, value)| !value.is_empty());
    let mut out = Vec::with_capacity(params.as_bytes().len() + 64);
    put_begin(Role::Responder, site.keepalive > 0, REQUEST, &mut out);
    put_params(REQUEST, usual.chain(added.map(|(name, value)| (*name, &value[..]))), &mut out);
    out
}

/// A connection that the site may have, and the server it goes to.
struct Right {
    _ticket: Ticket,
    busy: Busy,
}

/// Why an attempt has failed.
struct Missed {
    failure: Failure,
    /// Another server may be asked.
    may_repeat: bool,
    /// The right to a connection, if it is left.
    right: Option<Right>,
}

impl Missed {
    fn finally(failure: Failure) -> Self {
        Missed { failure, may_repeat: false, right: None }
    }
}

impl Attempt {
    fn new(site: &Arc<Site>, server: &Arc<Server>, exchange: &Exchange<'_>) -> Self {
        Attempt {
            site: Arc::clone(site),
            server: Arc::clone(server),
            id: exchange.request.id,
            method: exchange.request.method.clone(),
            target: exchange.request.target.clone(),
        }
    }

    /// Asks one server, over an idle connection if there is one.
    async fn make(
        &self,
        thread: &Rc<ProxyThread>,
        right: Right,
        script: &Script,
        content: &Content,
        taking: Taking<'_>,
        exchange: &Exchange<'_>,
    ) -> Result<Response, Missed> {
        let repeatable = content.is_empty() && is_idempotent(&self.method);
        // A server may close an idle connection just when a request is on its way. One that must
        // not be repeated gets a new connection, and the process of an idle one to take it.
        if let Some(stream) = self.server.kept().take()
            && repeatable
        {
            let request = encode(&self.site, script, content, exchange);
            let mut conversation = self.conversation(thread, stream, request, content, exchange);
            match self.head(&mut conversation, content, exchange).await {
                // The server has closed the connection as we were going to use it.
                Err(Failure::Closed | Failure::Read(_) | Failure::Send(_))
                    if !conversation.answered() => {}
                Err(failure) => {
                    self.note(thread, &right, &failure);
                    return Err(Missed::finally(failure));
                }
                Ok(head) => {
                    return Ok(self.respond(thread, conversation, head, right, content, taking));
                }
            }
        }
        let connected = tokio::select! {
            biased;
            connected = thread.lines().connect(&self.server.address, &self.site) => connected,
            _ = exchange.client_gone() => return Err(Missed::finally(Failure::ClientGone)),
        };
        let stream = match connected {
            Ok(stream) => stream,
            Err(failure) => {
                self.note(thread, &right, &failure);
                let may_repeat = !matches!(failure, Failure::Refused(_));
                return Err(Missed { failure, may_repeat, right: Some(right) });
            }
        };
        let request = encode(&self.site, script, content, exchange);
        let mut conversation = self.conversation(thread, stream, request, content, exchange);
        match self.head(&mut conversation, content, exchange).await {
            Ok(head) => Ok(self.respond(thread, conversation, head, right, content, taking)),
            Err(failure) => {
                self.note(thread, &right, &failure);
                let broken =
                    matches!(failure, Failure::Closed | Failure::Read(_) | Failure::Send(_));
                let may_repeat = broken && repeatable && !conversation.answered();
                Err(Missed { failure, may_repeat, right: Some(right) })
            }
        }
    }

    fn conversation(
        &self,
        thread: &ProxyThread,
        stream: Stream,
        request: Vec<u8>,
        content: &Content,
        exchange: &Exchange<'_>,
    ) -> Conversation<Attempt> {
        let upload = Upload::new(request, content, Framing::Records(REQUEST), exchange);
        let messages = Messages::new(self.clone(), thread.log(), &self.site.log_limit);
        Conversation::new(stream, upload, &self.site.timeouts, thread.timer(), messages)
    }

    /// Waits for the head of the answer.
    async fn head(
        &self,
        conversation: &mut Conversation<Attempt>,
        content: &Content,
        exchange: &Exchange<'_>,
    ) -> Result<head::Found, Failure> {
        let mut scan = head::Scan::default();
        loop {
            match content.pass_on(exchange, |cx| conversation.poll_part(cx)).await? {
                Part::Output(bytes) => {
                    if let Some(found) = scan.push(bytes)? {
                        conversation.has_head();
                        return Ok(found);
                    }
                }
                Part::End => return Err(Malformed("the script ended before its head did").into()),
            }
        }
    }

    fn respond(
        &self,
        thread: &Rc<ProxyThread>,
        conversation: Conversation<Attempt>,
        found: head::Found,
        right: Right,
        content: &Content,
        taking: Taking<'_>,
    ) -> Response {
        if right.busy.answered() {
            let back = format_args!("\"{}\": {} is back", self.site, self.server.address);
            thread.note(&self.site.log_limit, back);
        }
        let home = Home { thread: Rc::clone(thread), attempt: self.clone(), _right: right };
        let answer = Answer::new(conversation, found.rest, found.head.length, home);
        let body = taking.body(answer, &found.head.fields);
        let response::CheckedHead { status, reason, fields, .. } = found.head;
        let after =
            content.rest().map(|feed| Box::new(After { feed: Some(feed), ..After::default() }));
        Response { reason, fields, after, ..Response::new(status, body) }
    }

    /// Notes that a server has failed.
    fn note(&self, thread: &ProxyThread, right: &Right, failure: &Failure) {
        if failure.is_clients() || matches!(failure, Failure::Refused(_)) {
            return;
        }
        if let Some(time) = right.busy.failed() {
            let (site, address, seconds) = (&self.site, &self.server.address, time.as_secs());
            let left = format_args!("\"{site}\": {address} is left alone for {seconds} s");
            thread.note(&site.log_limit, left);
        }
    }

    fn complain(&self, thread: &ProxyThread, failure: &Failure) {
        if !failure.is_clients() {
            thread.complain(&self.site.log_limit, format_args!("{self}: {failure}"));
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        let (method, target) = (text(&self.method), text(&self.target));
        let (site, id, address) = (&self.site, ShownRequestId(self.id), &self.server.address);
        write!(f, "\"{site}\" request {id}: {method} {target} ({address})")
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}
