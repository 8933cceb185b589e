//! Runs one request in PHP: from reading its body to its response head.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use howdah_cgi::target::Script;
use howdah_cgi::{head, params};
use howdah_config::include::SHARED;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_http::request_body::{self, CollectError, RequestBody};
use howdah_http::respond::refuse;
use howdah_http::spool::{self, Spool};
use howdah_http::trace::{Trace, TraceFields};
use howdah_sys::clock;
use howdah_wire::profile::Order;
use howdah_wire::request::{HEADER_BYTES, Params, RequestHeader, Reserved, flags};
use tokio::time::Instant;

use super::pending::{Next, PendingResponse};
use super::request::{Flow, Purger, RequestContext};
use super::response;
use super::thread::{PhpThread, RequestHandle, is_server_idle};
use crate::application::Application;
use crate::queue::QueueError;

/// Size in bytes of a slot for an encoded request (`Geometry::for_pool`).
const SLOT_BYTES: usize = 32 * 1024;

/// Initial capacity in bytes for encoded parameters: wrk's request needs 790, that of a browser
/// without cookies 1,160.
const USUAL_PARAMS_BYTES: usize = 1000;

/// Minimum time between two looks at an overloaded queue.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Buffer for the body of a request until a worker takes it.
#[derive(Debug)]
pub struct BodyBuffer {
    /// Maximum number of bytes kept in memory.
    pub memory: u64,
    /// Directory for the files of longer bodies and of responses.
    pub directory: Arc<Path>,
}

/// Runs a script; returns its response when the head is complete. The request waits in `flow`;
/// the script may purge responses from the caches of `purger`.
pub async fn run(
    thread: &Rc<PhpThread>,
    buffer: BodyBuffer,
    application: &Arc<Application>,
    script: &Script,
    flow: Flow,
    purger: Option<Arc<dyn Purger>>,
    exchange: &mut Exchange<'_>,
) -> Response {
    let BodyBuffer { memory, directory } = buffer;
    let mut context = RequestContext {
        application: Arc::clone(&application.name),
        site: exchange.request.handling.site().unwrap_or_else(|| Arc::clone(&application.name)),
        id: exchange.request.id,
        trace: Trace::of(&exchange.request).and_then(|trace| trace.parent.map(|_| trace.id)),
        method: exchange.request.method.clone(),
        target: exchange.request.target.clone(),
        script: Arc::clone(&script.file),
        user: exchange.request.user.clone(),
        length: 0,
        times: OnceLock::new(),
        process: OnceLock::new(),
        usage: OnceLock::new(),
        failure: OnceLock::new(),
        has_started_php: OnceLock::new(),
        profile: None,
        messages: exchange.request.handling.messages(),
        flow,
        purger,
    };
    let is_shared = application.name.starts_with(SHARED);
    let owner =
        exchange.request.owner_in(if is_shared { &context.site } else { &application.name });
    let collected = request_body::collect(exchange, memory, &directory, owner.clone()).await;
    let body = match collected {
        Ok(body) => body,
        Err(CollectError::Client(error)) => return refuse(error),
        Err(CollectError::Disk(error)) => {
            let problem = format_args!("the body cannot be stored: {error}");
            context.log_error(thread.log(), &application.queue.request_lines, problem);
            return refuse(RequestError::NotStored);
        }
    };
    context.length = body.len();
    context.profile = application.queue.profile.of_request(&context.site, &context.target);
    let context = Arc::new(context);
    let facts = Arc::<RequestContext>::clone(&context);
    exchange.request.handling.set_runner(Arc::clone(&application.name), Some(facts));
    let order = context.profile.as_ref().map(|profile| profile.order());
    let (request, descriptors) =
        match encode(exchange, application, script, body, &directory, order) {
            Ok(encoded) => encoded,
            Err(error) => {
                let problem = format_args!("it cannot be handed to a worker: {error}");
                context.log_error(thread.log(), &application.queue.request_lines, problem);
                return refuse(RequestError::NotStored);
            }
        };
    let mut handle = {
        let (pending, context) = (
            PendingResponse::new(Spool::new(directory).of(owner), descriptors),
            Arc::clone(&context),
        );
        thread.register(pending, context, application.timeout())
    };
    handle.queue = Some(Arc::clone(&application.queue));
    let has_workers = match application.queue.submit(handle.key(), request, Arc::clone(&context)) {
        Ok((requests, workers)) => {
            if application.wants_workers(requests, workers) {
                thread.ask_for_check(&application.queue);
            }
            if workers == 0 {
                let _ = context.has_started_php.set(()); // unset until here
            }
            workers > 0
        }
        Err(refused) => {
            handle.mark_unqueued();
            return refuse_queue(thread, application, &context, refused);
        }
    };
    thread.drain();
    wait(thread, application, &context, handle, exchange, has_workers).await
}

/// Waits for the head of the response. Without `has_workers` the request stays queued even if its
/// client leaves: the application is being started for it.
async fn wait(
    thread: &Rc<PhpThread>,
    application: &Application,
    context: &RequestContext,
    mut handle: RequestHandle,
    exchange: &mut Exchange<'_>,
    has_workers: bool,
) -> Response {
    let started = Instant::now();
    let is_head = exchange.request.method.as_ref() == b"HEAD";
    let check = match context.messages {
        None => head::check,
        Some(_) => head::check_for_server,
    };
    let queue_deadline = application.config.limits.queue_timeout.map(|limit| started + limit);
    let patience = application.config.limits.patience;
    let mut looks_at = patience.map(|patience| started + patience);
    loop {
        let queue_timeout = async {
            match queue_deadline {
                Some(deadline) if deadline > Instant::now() => {
                    tokio::time::sleep_until(deadline).await;
                }
                _ => std::future::pending().await,
            }
        };
        let next_look =
            patience.map(|patience| patience / 8).map(|step| step.max(MIN_LOOK_INTERVAL));
        let overloaded = async {
            match looks_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            next = handle.next() => match next {
                Next::Interim(head) => {
                    let _ = exchange.interim(head.status, &head::interim_fields(&head)).await;
                }
                Next::Head(head) => {
                    return match check(&head) {
                        Ok(head) => response::respond(head, handle, is_head),
                        Err(problem) => {
                            let (log, limit) = (thread.log(), &application.queue.request_lines);
                            context.log_error(log, limit, format_args!("{problem}"));
                            refuse(RequestError::NoResponse)
                        }
                    };
                }
                Next::Failed(failure) => return refuse(&failure),
            },
            _ = exchange.client_gone(), if has_workers => {
                return response::for_gone_client(handle, refuse(RequestError::ClientGone));
            }
            () = overloaded => {
                if application.queue.give_up(handle.key()) {
                    handle.mark_unqueued();
                    return refuse_queue(thread, application, context, QueueError::Overloaded);
                }
                looks_at = next_look.map(|step| Instant::now() + step);
            }
            () = queue_timeout => {
                // A request that a worker has taken by now runs, and its client waits for the
                // response.
                if application.queue.withdraw_waiting(handle.key()) {
                    handle.mark_unqueued();
                    return refuse_queue(thread, application, context, QueueError::QueueTimeout);
                }
            }
        }
    }
}

fn refuse_queue(
    thread: &PhpThread,
    application: &Application,
    context: &RequestContext,
    refused: QueueError,
) -> Response {
    let Some(unlogged) = application.queue.refusals.count(&refused, clock::monotonic_us()) else {
        return refuse(&refused);
    };
    let key = |key: &str| application.config.limit_key(key);
    let reason = match &refused {
        QueueError::QueueFull => {
            format!("the queue of the application is full ({})", key("queue"))
        }
        QueueError::Overloaded => {
            format!("the queue is overloaded: requests have waited longer than {}", key("patience"))
        }
        QueueError::QueueTimeout => {
            let key = key("queue_timeout");
            format!("no worker was free within the queue's time limit ({key})")
        }
        QueueError::Stopped(reason) => format!("the application does not run: {reason}"),
    };
    let more = match unlogged {
        0 => String::new(),
        more => format!("; {more} more were refused since the last such line"),
    };
    let limit = &application.queue.request_lines;
    context.log_error(thread.log(), limit, format_args!("{reason}{more}"));
    refuse(&refused)
}

/// Encodes a request for a worker; returns it and its descriptors.
fn encode(
    exchange: &Exchange<'_>,
    application: &Application,
    script: &Script,
    body: RequestBody,
    directory: &Path,
    order: Option<Order>,
) -> std::io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut params = Params::with_capacity(USUAL_PARAMS_BYTES);
    let length = body.len();
    let software = application.config.server_software.as_deref();
    let trace = TraceFields::for_script(&exchange.request);
    params::write(&mut params, &exchange.request, script, software, length, trace.as_ref());
    params::write_settings(&mut params, &exchange.request, script);
    if let Some(order) = order {
        params.push_reserved(Reserved::Profile, order.encode().as_bytes());
    }
    let mut descriptors = Vec::new();
    let mut flags = if is_server_idle() { flags::IS_ONLY_REQUEST } else { 0 };
    let room = SLOT_BYTES.checked_sub(HEADER_BYTES + params.as_bytes().len());
    if room.is_none() {
        flags |= flags::PARAMS_FILE;
        descriptors.push(spool::sealed_memfd(params.as_bytes())?);
    }
    let room = room.unwrap_or(SLOT_BYTES - HEADER_BYTES) as u64;
    let inline = match body {
        RequestBody::Memory(bytes) if bytes.len() as u64 <= room => Some(bytes),
        RequestBody::Memory(bytes) => {
            flags |= flags::BODY_FILE;
            descriptors.push(spool::sealed_memfd(&bytes)?);
            None
        }
        RequestBody::File(file, _) => {
            flags |= flags::BODY_FILE;
            descriptors.push(spool::reopen_read_only(file, directory)?);
            None
        }
    };
    let mut request =
        Vec::with_capacity(SLOT_BYTES.min(HEADER_BYTES + params.as_bytes().len() + 64));
    RequestHeader::new(&params, flags, exchange.request.id, length, 0).put(&mut request);
    if flags & flags::PARAMS_FILE == 0 {
        request.extend_from_slice(params.as_bytes());
    }
    request.extend_from_slice(&inline.unwrap_or_default());
    Ok((request, descriptors))
}
