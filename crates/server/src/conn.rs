//! A connection: which protocol it speaks, and who answers its requests.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime};

use howdah_config::ResponseHeader;
use howdah_sys::log::Level;
use tokio::net::{TcpStream, UnixStream};

use crate::body::Body;
use crate::compress;
use crate::exchange::{Exchange, Finished, Handler};
use crate::files::Now;
use crate::http1;
use crate::limits::Limits;
use crate::listener::{Accepted, AcceptedStream};
use crate::message::{Added, Request, Response};
use crate::php::dispatch;
use crate::proxy;
use crate::respond;
use crate::route::{
    Decided, Decision, Router, cors, error_pages, response_headers, security_headers,
};
use crate::shard::Shard;
use crate::variables::{Answer, Source};

/// Serves a connection to its end.
pub async fn serve(shard: &Rc<Shard>, accepted: Accepted) {
    let Accepted { stream, info, listener } = accepted;
    let site = Site { shard: Rc::clone(shard), listener, active: Cell::new(false) };
    let drain = shard.draining(&site.listener);
    let failed = match stream {
        AcceptedStream::Tcp(stream) => match TcpStream::from_std(stream) {
            Ok(stream) => return http1::serve(stream, info, &site, drain).await,
            Err(error) => error,
        },
        AcceptedStream::Unix(stream) => match UnixStream::from_std(stream) {
            Ok(stream) => return http1::serve(stream, info, &site, drain).await,
            Err(error) => error,
        },
    };
    shard.shared.log.write(Level::Error, format_args!("cannot serve a connection: {failed}"));
}

/// Answers the requests of a listener on one thread.
struct Site {
    shard: Rc<Shard>,
    listener: Arc<str>,
    /// A request is being answered.
    active: Cell<bool>,
}

impl Handler for Site {
    fn limits(&self) -> Rc<Limits> {
        self.shard.limits()
    }

    fn next_id(&self) -> u64 {
        self.shard.request_id()
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        self.begins();
        if &*exchange.request.target == b"*" {
            return Response::new(200, Body::Empty); // RFC 9110, 9.3.7: about the server as a whole
        }
        let shard = &self.shard;
        let snapshot = shard.snapshot_for(&self.listener);
        let router = Router {
            snapshot: &snapshot,
            files: &shard.files,
            scratch: &shard.scratch,
            log: &shard.shared.log,
            now: Now { monotonic: Instant::now(), wall: SystemTime::now() },
            begun: exchange.begun,
        };
        let mut decided = router.decide(&self.listener, &mut exchange.request);
        while let Decision::Authenticate(auth) = &decided.decision {
            match auth.check(&exchange.request, router.now.monotonic, router.log).await {
                Ok(user) => {
                    exchange.request.user = Some(user);
                    router.go_on(&mut decided, &mut exchange.request);
                }
                Err(response) => decided.decision = Decision::Respond(response),
            }
        }
        let Decided { decision, headers, compress, error_pages, security_headers, cors, .. } =
            decided;
        let mut response = match decision {
            Decision::Respond(response) => response,
            Decision::Refuse(status, allow) => respond::error_allowing(status, allow),
            Decision::Authenticate(_) => respond::error(401), // the loop has ended it
            Decision::Php(application, script) => {
                // Boxed: most requests are for files, and need not pay for its size.
                let run = dispatch::run(shard, &snapshot, &application, &script, exchange);
                Box::pin(run).await
            }
            Decision::Proxy(upstream) => {
                let http = &snapshot.config.settings.http;
                let buffer = proxy::Buffer {
                    memory: http.body_buffer_size,
                    directory: http.body_temp_path.as_deref().unwrap_or(&shard.shared.tmp),
                };
                Box::pin(proxy::run(&shard.proxy, &upstream, &buffer, exchange)).await
            }
        };
        if !error_pages.is_empty() {
            let (files, now) = (&shard.files, router.now);
            error_pages::apply(error_pages, files, &exchange.request, now, &mut response);
        }
        if let Some(cors) = cors {
            cors::apply(cors, &exchange.request, &mut response);
        }
        if security_headers {
            security_headers::apply(&mut response, exchange.request.connection.tls);
        }
        if !headers.is_empty() {
            self.change(&mut response, headers, &exchange.request, exchange.begun);
        }
        if let (true, Some(compression)) = (compress, &snapshot.config.settings.http.compression) {
            compress::apply(compression, &exchange.request, &mut response);
        }
        response
    }

    fn error(&self, status: u16) -> Response {
        respond::error(status)
    }

    fn finished(&self, record: &Finished<'_>) {
        self.ends();
        if record.request.is_none() {
            self.shard.counters.requests.fetch_add(1, Relaxed); // its head was refused
        }
        self.shard.log(record);
    }
}

impl Site {
    fn begins(&self) {
        let counters = &self.shard.counters;
        counters.requests.fetch_add(1, Relaxed);
        counters.active.fetch_add(1, Relaxed);
        self.active.set(true);
    }

    fn ends(&self) {
        if self.active.replace(false) {
            self.shard.counters.active.fetch_sub(1, Relaxed);
        }
    }

    /// Changes header fields as the last action says.
    fn change(
        &self,
        response: &mut Response,
        changes: &[ResponseHeader],
        request: &Request,
        begun: Instant,
    ) {
        let fields = response.fields.clone();
        let limits = self.shard.limits();
        let length = response.body.len();
        let added = Added { server: &limits.server, date: true, length, ..Added::default() };
        let answer = Answer { status: response.status, fields: &fields, added, body_sent: 0 };
        let source = Source { answer: Some(answer), ..Source::of(request, begun) };
        response_headers::apply(changes, response, &source);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.ends();
    }
}
