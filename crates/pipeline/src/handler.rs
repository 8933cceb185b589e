//! The pipeline of a request, from its head to its response, for all protocols.
//! [`RequestHandler::handle`] shows the order of the steps.

mod auth_request;
mod cached;
mod checks;
mod directives;
mod error_pages;
mod esi;
mod fastcgi;
mod fetch;
mod internal_redirect;
mod mirror;
mod origin;
mod own_request;
mod plain_request;
mod redirects;
mod refresh;
mod respond;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use howdah_access_log::AccessLog;
use howdah_http::body::Body;
use howdah_http::compress;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, Handler, RequestRecord};
use howdah_http::limits::Limits;
use howdah_http::memory::{self, Owner};
use howdah_http::message::{ConnectionInfo, Request, Response, ShownAddress};
use howdah_http::respond::refuse;
use howdah_limits::bandwidth::Bandwidth;
use howdah_limits::in_progress::Number;
use howdah_routing::route::{Decision, Routed, Step};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;

use self::respond::{limit_body, produce, settle};
use crate::context::Context;
use crate::filters::{
    alternative, bandwidth, browser_caching, charset, cors, header_changes, kernel_copy, own_tags,
    page_script, security_headers,
};
use crate::refusals;
use crate::thread::{Progress, RouterThread};

/// Handles the requests of a connection or, with HTTP/2, of one of its streams.
pub struct RequestHandler {
    thread: Rc<RouterThread>,
    listener: Arc<str>,
    /// True while a request is being handled.
    active: Cell<bool>,
    /// State of the request that is being handled or whose response is being sent.
    progress: Cell<Option<Number>>,
    /// True for the handler of a connection, false for that of one of its streams.
    is_connection: bool,
    /// The connection is one of QUIC.
    is_http3: bool,
}

impl Handler for RequestHandler {
    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        self.count_start();
        exchange.request.handling.set_listener(Arc::clone(&self.listener));
        let thread = &self.thread;
        let snapshot = thread.snapshot_for(&self.listener);
        exchange.request.handling.set_tracing(snapshot.tracing);
        if let Some(response) = self.answer_before_routes(&snapshot, &exchange.request) {
            return response;
        }
        let context = Context::new(thread, &snapshot, exchange.started_at);
        if let Some(listener) = snapshot.listeners.get(&*self.listener)
            && let Some(settings) = &listener.fastcgi
        {
            let mut response = fastcgi::answer(&context, settings, exchange).await;
            exchange.request.handling.set_answered(exchange.started_at);
            // Also for pages of the status, which no process answers.
            let of_application = snapshot.application_logs.get(&*settings.application);
            let logs = of_application.or(listener.access_log.as_ref()).cloned();
            let progress = Progress { admission: context.admission.take(), logs };
            self.keep(progress, &exchange.request, &mut response);
            return response;
        }
        let routing = &context.routing;

        let (mut routed, step) = routing.route(&self.listener, &mut exchange.request);
        if !admits(&routed, &step, exchange) {
            return Response::unsent(RequestError::NoResources.status());
        }
        let decision = checks::check(&context, step, &mut routed, exchange).await;
        let settled = Step::Handle(settle(&context, decision, &mut routed, exchange).await);
        if !admits(&routed, &settled, exchange) {
            return Response::unsent(RequestError::NoResources.status());
        }
        let decision = settled.without_checks();
        refusals::log_unread_database(&context, exchange);
        // Its scripts and its fallback have limits of their own.
        let is_open = matches!(decision, Decision::Htaccess(..)) && routed.fallback.is_some();
        let limited = limit_body(&context, &routed, exchange);
        let (mut response, instruction) = if let (Err(error), false) = (limited, is_open) {
            (refuse(error), None)
        } else if mirror::is_wanted(&decision, &routed, &exchange.request) {
            let copied =
                mirror::respond_and_copy(&context, &snapshot, decision, &mut routed, exchange);
            Box::pin(copied).await
        } else {
            produce(&context, decision, &mut routed, exchange).await
        };
        if let Some(instruction) = instruction {
            let follow =
                redirects::follow(&context, instruction, &mut routed, exchange, &mut response);
            Box::pin(follow).await;
        }
        if esi::is_wanted(&routed.effects, &response) {
            Box::pin(esi::assemble(&context, &self.listener, exchange, &mut response)).await;
        }
        refusals::log(&context, routed.effects.max_body_size, exchange, &response);
        error_pages::replace(&context, &mut routed, exchange, &mut response).await;
        for (name, value) in context.added_fields.take() {
            response.fields.push(&name, value);
        }
        let (request, effects) = (&exchange.request, &routed.effects);
        let logs = logs(&snapshot, effects.access_log, effects.has_own_log, request);
        cors::apply(effects.cors, request, &mut response);
        security_headers::apply(effects.security_headers, request, &mut response);
        browser_caching::apply(effects.caching, request, &mut response);
        charset::apply(effects.charset, &mut response);
        alternative::apply(snapshot.listeners.get(&*self.listener), request, &mut response);
        let changes = effects.response_headers;
        let server = || thread.limits().server.clone();
        header_changes::apply(changes, request, exchange.started_at, server, &mut response);
        page_script::apply(effects.page_script, request, &mut response);
        if let (true, Some(compression)) = (effects.compress, &snapshot.compression) {
            own_tags::answer(request, &mut response);
            compress::apply(compression, request, &mut response);
        }
        kernel_copy::apply(thread.counters.open(), &mut response);
        if let Some(rate) = effects.rate {
            let owner = exchange.request.owner();
            let tmp = &thread.shared.tmp;
            bandwidth::apply(Bandwidth::of_response(rate), &owner, tmp, &mut response);
        }
        exchange.request.handling.set_answered(exchange.started_at);
        let progress = Progress { admission: context.admission.take(), logs };
        self.keep(progress, &exchange.request, &mut response);
        response
    }

    fn limits(&self) -> Rc<Limits> {
        self.thread.limits()
    }

    fn next_id(&self) -> u64 {
        self.thread.request_id()
    }

    fn log_request(&self, record: &RequestRecord<'_>) {
        let progress = self.end_progress();
        self.count_end();
        if record.request.is_none() {
            self.thread.counters.requests.fetch_add(1, Relaxed); // its head was refused
            if let (408 | 413 | 414 | 431, Some(why)) = (record.status, record.refusal) {
                self.log_client_error(record.connection, format_args!("{}: {why}", record.status));
            }
        }
        if let Some(report) = memory::report(Instant::now()) {
            self.thread.shared.log.write(Level::Notice, format_args!("{report}"));
        }
        self.thread.count(&self.listener, record);
        let logs = progress.and_then(|progress| progress.logs);
        self.thread.log(&self.listener, logs, record);
    }

    fn log_misbehaviour(&self, connection: &ConnectionInfo, why: &dyn fmt::Display) {
        let snapshot = self.thread.snapshot_for(&self.listener);
        let listener = snapshot.listeners.get(&*self.listener);
        let is_fastcgi = listener.is_some_and(|listener| listener.fastcgi.is_some());
        let protocol = if self.is_http3 {
            "HTTP/3"
        } else if is_fastcgi {
            "FastCGI"
        } else {
            "HTTP/2"
        };
        self.log_client_error(connection, format_args!("{protocol} connection closed: {why}"));
    }

    fn owner(&self, connection: &ConnectionInfo) -> Owner {
        let snapshot = self.thread.snapshot_for(&self.listener);
        let listener = snapshot.listeners.get(&*self.listener);
        let is_proxy = listener.is_some_and(|listener| {
            listener.proxies.iter().any(|proxy| proxy.source.matches(connection.peer))
        });
        connection.owner().on(&self.listener, is_proxy)
    }

    fn begin_turn(&self) {
        self.thread.php.begin_turn();
    }
}

/// Records the site of a request, as far as it is known. Returns false if there is no memory left
/// for its requests.
fn admits(routed: &Routed<'_>, step: &Step<'_>, exchange: &Exchange<'_>) -> bool {
    if let Some(site) = routed.site(step) {
        exchange.request.handling.set_site(site);
    }
    exchange.admits()
}

/// Returns the access logs of a request: those of an action (`is_of_action`), else those of the
/// application that has run its script, else those of the listener.
fn logs(
    snapshot: &Snapshot,
    access_log: Option<&Arc<[AccessLog]>>,
    is_of_action: bool,
    request: &Request,
) -> Option<Arc<[AccessLog]>> {
    let of_application = if is_of_action || snapshot.application_logs.is_empty() {
        None
    } else {
        let runner = request.handling.runner();
        runner.and_then(|name| snapshot.application_logs.get(&*name).cloned())
    };
    of_application.or_else(|| access_log.cloned())
}

impl RequestHandler {
    /// Creates the handler for a connection of a listener.
    pub fn new(thread: &Rc<RouterThread>, listener: &Arc<str>) -> Self {
        RequestHandler::with(thread, listener, true, false)
    }

    /// As [`RequestHandler::new`], for a connection of HTTP/3.
    pub fn of_http3(thread: &Rc<RouterThread>, listener: &Arc<str>) -> Self {
        RequestHandler::with(thread, listener, true, true)
    }

    /// Creates a handler for a concurrent request of the same connection.
    pub fn for_stream(&self) -> Self {
        RequestHandler::with(&self.thread, &self.listener, false, self.is_http3)
    }

    fn with(
        thread: &Rc<RouterThread>,
        listener: &Arc<str>,
        is_connection: bool,
        is_http3: bool,
    ) -> Self {
        let (thread, listener) = (Rc::clone(thread), Arc::clone(listener));
        RequestHandler {
            thread,
            listener,
            active: Cell::new(false),
            progress: Cell::default(),
            is_connection,
            is_http3,
        }
    }

    /// Returns the configuration for the next request, and the name of the listener in it.
    pub fn listener_snapshot(&self) -> (Arc<Snapshot>, &str) {
        (self.thread.snapshot_for(&self.listener), &self.listener)
    }

    /// Returns the thread of the connection.
    pub fn thread(&self) -> &Rc<RouterThread> {
        &self.thread
    }

    /// Logs an error of a connection's client.
    pub fn log_client_error(&self, connection: &ConnectionInfo, problem: fmt::Arguments<'_>) {
        self.log_client(Level::Info, connection, problem);
    }

    /// Logs a line about a connection's client.
    pub fn log_client(
        &self,
        level: Level,
        connection: &ConnectionInfo,
        problem: fmt::Arguments<'_>,
    ) {
        let (listener, client) = (&self.listener, connection.peer.map(|peer| peer.ip()));
        let line = format_args!("listener {listener}: {}: {problem}", ShownAddress(client));
        self.thread.shared.request_log.write_of_client(listener, client, level, line);
    }

    /// Counts a session of another protocol than HTTP as active until it is reported.
    pub fn begin_session(&self) {
        self.count_start();
    }

    /// Reports a session that has ended.
    pub fn log_session(&self, record: &RequestRecord<'_>) {
        self.count_end();
        let snapshot = self.thread.snapshot_for(&self.listener);
        let found = snapshot.listeners.get(&*self.listener);
        let logs = found.and_then(|listener| listener.access_log.as_ref());
        let logs = Arc::clone(logs.unwrap_or(&snapshot.access_log));
        self.thread.count(&self.listener, record);
        self.thread.log(&self.listener, Some(logs), record);
    }

    /// Answers requests that never reach the routes.
    fn answer_before_routes(&self, snapshot: &Snapshot, request: &Request) -> Option<Response> {
        if &*request.target == b"*" {
            // RFC 9110, 9.3.7: `OPTIONS *` concerns the server as a whole.
            return Some(Response::new(200, Body::Empty));
        }
        if let Some(handshake) = &request.connection.handshake
            && !std::str::from_utf8(&request.host).is_ok_and(|host| handshake.admits(host))
        {
            // RFC 9110, 15.5.20: this host requires other client certificates than the host of the
            // handshake.
            return Some(refuse(RequestError::Misdirected));
        }
        self.thread.shared.challenges.answer(&snapshot.config, request)
    }

    /// Keeps the state of a request until its response has been sent.
    fn keep(&self, progress: Progress, request: &Request, response: &mut Response) {
        if let Some(announcement) = &progress.admission.announcement {
            announcement.put(response);
        }
        for limit in &progress.admission.bandwidths {
            let (owner, tmp) = (request.owner(), &self.thread.shared.tmp);
            bandwidth::apply(limit.clone(), &owner, tmp, response);
        }
        if !progress.admission.permits.is_empty() || progress.logs.is_some() {
            self.progress.set(Some(self.thread.in_progress.keep(progress)));
        }
    }

    /// Takes the state of the request.
    fn end_progress(&self) -> Option<Progress> {
        self.progress.take().and_then(|number| self.thread.in_progress.remove(number))
    }

    fn count_start(&self) {
        let counters = &self.thread.counters;
        counters.requests.fetch_add(1, Relaxed);
        counters.active.fetch_add(1, Relaxed);
        self.active.set(true);
    }

    fn count_end(&self) {
        drop(self.end_progress());
        if self.active.replace(false) {
            self.thread.counters.active.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for RequestHandler {
    fn drop(&mut self) {
        self.count_end();
        if self.is_connection {
            self.thread.counters.closed.fetch_add(1, Relaxed);
        }
    }
}
