//! Applications that run on a FastCGI server: PHP-FPM, php-cgi.
//!
//! 1. The body is read from the client: into memory, then into an unlinked file. A slow client
//!    therefore occupies no process of the server, and the length is known. If the client sends the
//!    length and the configuration allows it, the body is streamed to the server.
//! 2. The request waits until the application may open another connection ([`connection_limit`]),
//!    and while the backlog of the server is full ([`crate::connections::backlog`]), both first
//!    come, first served.
//! 3. The request is sent as records (`conversation`), with the parameters that the router's own
//!    workers get; the application's settings can change them.
//! 4. The output before an empty line is the head ([`head`]); it is checked like that of a worker.
//! 5. The body (`body`) is read as fast as the server writes it and sent at the client's pace
//!    ([`crate::transfer::response_buffer`]).
//!
//! A request is sent a second time under the conditions of [`crate::proxy`], but not after the
//! first-byte timeout unless the configuration says so: the script may still be running.

pub mod application;
mod body;
pub mod connection_limit;
mod conversation;
pub mod head;
mod messages;
mod records;

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use howdah_cgi::target::Script;
use howdah_cgi::{head::CheckedHead, params as cgi_params};
use howdah_config::{ServerOptions, Timeouts};
use howdah_dns::stream::Stream;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response, ResponseExtras};
use howdah_http::respond::refuse;
use howdah_http::trace::TraceFields;
use howdah_http::variables::VariableSource;
use howdah_wire::fastcgi::{Role, put_begin, put_params};
use howdah_wire::request::Params;

use self::application::FastCgiApplication;
use self::body::{BodyContext, ResponseBody};
use self::connection_limit::ConnectionPermit;
use self::conversation::{Conversation, Part};
use self::head::HeadScan;
use self::messages::Messages;
use self::records::{REQUEST_ID, StdinRecords};
use crate::failure::{Failure, Malformed};
use crate::log_limit::LogLimit;
use crate::retry::{self, Attempt, Owner, Protocol, RequestContext, SendError};
use crate::servers::selection::ActiveRequest;
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::BufferSettings;
use crate::transfer::response_buffer::ResponseBuffering;
use crate::transfer::upload::Upload;

/// Initial capacity for the parameters, enough for most requests.
const USUAL_PARAMS: usize = 2048;

/// Runs a script on a server. Returns as soon as the head of the response is complete.
pub async fn run(
    thread: &Rc<UpstreamThread>,
    application: &Arc<FastCgiApplication>,
    script: &Script,
    buffer: &BufferSettings<'_>,
    options: &Arc<ServerOptions>,
    exchange: &mut Exchange<'_>,
) -> Response {
    if is_missing(thread, application, script) {
        return refuse(RequestError::NotFound);
    }
    exchange.request.handling.set_runner(Arc::clone(&application.name), None);
    let owner = (application, &*application.log_limit);
    // The server gets the length in the parameters.
    let is_streamed =
        buffer.streams_request(application.request_buffering) && exchange.body_len().is_some();
    let is_wanted = options.passes_body();
    let content = retry::read_content(thread, owner, buffer, is_streamed, is_wanted, exchange);
    let content = match content.await {
        Ok(content) => content,
        Err(error) => return refuse(error),
    };
    let permit = tokio::select! {
        biased;
        permit = application.connection_limit.acquire() => permit,
        _ = exchange.client_gone() => return refuse(RequestError::ClientGone),
    };
    let permit = match permit {
        Ok(permit) => permit,
        Err(error) => {
            let reason =
                error.with_key(&format!("{}/limits", FastCgiApplication::place(application)));
            retry::log_request(thread, owner, exchange, format_args!("{reason}"));
            return refuse(RequestError::Overloaded);
        }
    };
    thread.keep_awake();
    retry::run(&FastCgiRequest {
        context: RequestContext {
            thread,
            exchange,
            content: &content,
            owner: application,
            options,
        },
        script,
        timeouts: options.timeouts.applied_to(&application.timeouts),
        buffering: buffer.of_response(application.buffering),
        permit: Cell::new(Some(permit)),
    })
    .await
}

/// Returns true if a script cannot exist. A path names a script only if it ends in
/// `.php`: php-cgi would run any file. If the router can see the server's files, the script must be
/// a file, because PHP may otherwise take a part of the path as script (`cgi.fix_pathinfo`:
/// `/picture.jpg/x.php` runs the picture).
fn is_missing(thread: &UpstreamThread, application: &FastCgiApplication, script: &Script) -> bool {
    let name = script.file.as_os_str().as_bytes();
    if application.is_fixed(script) {
        return false;
    }
    if !name.ends_with(b".php") {
        return true;
    }
    let now = Instant::now();
    if thread.scripts().contains(&script.file, now) {
        return false;
    }
    match std::fs::metadata(&script.file) {
        Ok(metadata) if metadata.is_file() => {
            thread.scripts().insert(&script.file, now);
            false
        }
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => false,
        // Files of another machine, or of a chroot, are not here.
        Err(_) => script.root.is_dir(),
    }
}

/// Returns a request without the client's header fields but those of which there are parameters of
/// their own.
fn without_fields(request: &Request) -> Request {
    let mut bare = request.clone();
    bare.fields.retain(|name| name.eq_ignore_ascii_case(b"content-type"));
    bare
}

/// A request for the FastCGI servers of an application.
struct FastCgiRequest<'a, 'c> {
    context: RequestContext<'a, 'c, Arc<FastCgiApplication>>,
    script: &'a Script,
    timeouts: Timeouts,
    buffering: ResponseBuffering<'a>,
    /// Moves into the body of the response.
    permit: Cell<Option<ConnectionPermit>>,
}

impl Owner for Arc<FastCgiApplication> {
    fn place(&self) -> Option<String> {
        Some(FastCgiApplication::place(self))
    }

    fn log_limit(&self) -> &LogLimit {
        &self.log_limit
    }

    fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

impl Protocol for FastCgiRequest<'_, '_> {
    type Owner = Arc<FastCgiApplication>;
    type Connection = Stream;
    /// Records before the body.
    type Encoded = Vec<u8>;
    type Answer = (Conversation<Attempt<Arc<FastCgiApplication>>>, head::Found);

    /// The script may still be running.
    const RETRIES_AFTER_TIMEOUT: bool = false;

    fn context(&self) -> &RequestContext<'_, '_, Arc<FastCgiApplication>> {
        &self.context
    }

    fn encode(&self, _server: &Server) -> Result<Vec<u8>, Failure> {
        let RequestContext { exchange, content, .. } = self.context;
        let (application, request) = (self.context.owner, &exchange.request);
        let mut params = Params::with_capacity(USUAL_PARAMS);
        let (length, trace) = (content.len().unwrap_or(0), TraceFields::for_attempt(request));
        let source = VariableSource::of(request, exchange.started_at);
        let bare = (!self.context.options.passes_headers()).then(|| without_fields(request));
        let request = bare.as_ref().unwrap_or(request);
        cgi_params::write(&mut params, request, self.script, None, length, trace.as_ref());
        cgi_params::write_fpm_settings(&mut params, request, self.script);
        let own: Vec<(&[u8], Vec<u8>)> = application
            .params
            .iter()
            .map(|(name, template)| (name.as_bytes(), source.expand(template)))
            .collect();
        let usual = params.iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name));
        let added = own.iter().filter(|(_, value)| !value.is_empty());
        let all = usual.chain(added.map(|(name, value)| (*name, &value[..])));
        let mut records = Vec::with_capacity(params.as_bytes().len() + 64);
        put_begin(Role::Responder, application.keepalive > 0, REQUEST_ID, &mut records);
        put_params(REQUEST_ID, all, &mut records);
        Ok(records)
    }

    /// Takes an idle connection if the request is repeatable; otherwise closes one, so that its
    /// process accepts the new connection.
    fn take_idle(&self, server: &Server, is_repeatable: bool) -> Option<Stream> {
        server.fastcgi_connections().take().filter(|_| is_repeatable)
    }

    async fn connect(&self, server: &Server) -> Result<Stream, Failure> {
        let (limit, queue) = (self.timeouts.connect, &self.context.owner.connection_limit.queue);
        self.context.thread.backlog().connect(&server.address, limit, queue).await
    }

    async fn send(
        &self,
        attempt: &Attempt<Arc<FastCgiApplication>>,
        connection: Stream,
        records: Vec<u8>,
    ) -> Result<Self::Answer, SendError> {
        let RequestContext { thread, exchange, content, .. } = self.context;
        let upload = Upload::new(records, content, StdinRecords, exchange);
        let messages = Messages::new(attempt.clone(), thread.log(), &self.context.owner.log_limit);
        let (timeouts, timer) = (&self.timeouts, thread.timer());
        let mut conversation = Conversation::new(connection, upload, timeouts, timer, messages);
        match self.read_head(&mut conversation).await {
            Ok(head) => Ok((conversation, head)),
            Err(failure) => Err(SendError { failure, has_input: conversation.has_input() }),
        }
    }

    fn status((_, found): &Self::Answer) -> u16 {
        found.head.status
    }

    fn respond(
        &self,
        attempt: &Attempt<Arc<FastCgiApplication>>,
        (conversation, found): Self::Answer,
        active: ActiveRequest,
    ) -> Result<Response, Failure> {
        let RequestContext { thread, content, .. } = self.context;
        let context = BodyContext {
            thread: Rc::clone(thread),
            attempt: attempt.clone(),
            _permit: self.permit.take(),
            _active: active,
        };
        let body = ResponseBody::new(conversation, found.rest, found.head.length, context);
        let body = self.buffering.body(body, &found.head.fields);
        let CheckedHead { status, reason, fields, .. } = found.head;
        let extras = ResponseExtras::of(None, content.rest());
        Ok(Response { reason, fields, extras, ..Response::new(status, body) })
    }
}

impl FastCgiRequest<'_, '_> {
    /// Waits for the head of the response.
    async fn read_head(
        &self,
        conversation: &mut Conversation<Attempt<Arc<FastCgiApplication>>>,
    ) -> Result<head::Found, Failure> {
        let RequestContext { exchange, content, .. } = self.context;
        let mut scan = HeadScan::default();
        loop {
            match content.wait_for(exchange, |cx| conversation.poll_part(cx)).await? {
                Part::Output(bytes) => {
                    if let Some(found) = scan.push(bytes)? {
                        conversation.set_has_head();
                        return Ok(found);
                    }
                }
                Part::End => {
                    return Err(Malformed(
                        "the script ended before its header lines were complete",
                    )
                    .into());
                }
            }
        }
    }
}
