//! A connection: which protocol it speaks, and who answers its requests.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use howdah_config::{Buffering, PlainHttp2, ResponseHeader};
use howdah_files::Now;
use howdah_http::body::Body;
use howdah_http::drain::{Draining, Phase, Signal};
use howdah_http::exchange::{Exchange, Finished, Handler};
use howdah_http::h1::{self, Refusal};
use howdah_http::limits::Limits;
use howdah_http::message::{Added, ConnectionInfo, Request, Response, ShownAddress};
use howdah_http::variables::{Answer, ShownRequestId, Source};
use howdah_http::{compress, h2, respond};
use howdah_php_pool::dispatch::{self, BodyBuffer};
use howdah_sys::log::Level;
use howdah_tls::{Shaken, TlsListener};
use howdah_upstream::{fastcgi, proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::listener::Accepted;
use crate::route::delegation;
use crate::route::delegation::{By, Left};
use crate::route::{
    Decided, Decision, Router, cors, error_pages, response_headers, security_headers,
};
use crate::snapshot::{ErrorPage, Listener, PageSource, Snapshot};
use crate::stream::Stream;
use crate::thread::Shard;

/// Bytes that are read and dropped of a client that speaks another protocol.
const MOST_UNREAD: u64 = 64 * 1024;

/// Serves a connection to its end, as a task of this thread; then it is counted as closed.
pub fn serve(shard: &Rc<Shard>, accepted: Accepted, drain: Draining) {
    let Accepted { stream, info, listener } = accepted;
    let (way, is_told) = match shard.snapshot_for(&listener).listeners.get(&*listener) {
        Some(listener) => {
            let balancers = listener.balancers.as_ref();
            let is_told = balancers.is_some_and(|balancers| balancers.matches(info.peer));
            (Way::of(listener), is_told)
        }
        None => (Way::Plain(PlainHttp2::Never), false),
    };
    let site = Site::new(shard, &listener, true);
    let stream = Stream::new(stream);
    // A task each, so that a plain connection need not have the size of the others.
    drop(match way {
        way if is_told => spawn_local(told(site, way, stream, info, drain)),
        Way::Tls(tls) => spawn_local(secure(site, tls, stream, info, drain)),
        Way::Plain(PlainHttp2::Never) => spawn_local(h1::serve(stream, info, site, drain)),
        Way::Plain(PlainHttp2::Offered) => spawn_local(either(site, stream, info, drain)),
        Way::Plain(PlainHttp2::Only) => spawn_local(only_http2(site, stream, info, drain)),
    });
}

/// What is spoken on a connection.
enum Way {
    Tls(Arc<TlsListener>),
    Plain(PlainHttp2),
}

impl Way {
    fn of(listener: &Listener) -> Way {
        match &listener.tls {
            Some(tls) => Way::Tls(Arc::clone(tls)),
            None => Way::Plain(listener.http2),
        }
    }
}

/// Hears from a balancer whose connection it is, and serves the client.
async fn told(
    site: Site,
    way: Way,
    mut stream: Stream,
    mut info: Arc<ConnectionInfo>,
    drain: Draining,
) {
    let said = {
        let said = pin!(timeout(site.limits().header_timeout, stream.told()));
        drain.unless_evicted(said).await
    };
    let Some(said) = said else { return };
    let Some(header) = said.ok().flatten() else {
        return site.blame(&info, format_args!("no header of the PROXY protocol"));
    };
    if let Some((client, target)) = header.addresses {
        let told = ConnectionInfo { peer: Some(client), local: Some(target), ..(*info).clone() };
        info = Arc::new(ConnectionInfo { tls: header.tls, ..told });
    }
    match way {
        Way::Tls(tls) => secure(site, tls, stream, info, drain).await,
        Way::Plain(PlainHttp2::Never) => h1::serve(stream, info, site, drain).await,
        Way::Plain(PlainHttp2::Offered) => either(site, stream, info, drain).await,
        Way::Plain(PlainHttp2::Only) => only_http2(site, stream, info, drain).await,
    }
}

/// Serves the protocol that the client begins with.
async fn either(site: Site, mut stream: Stream, info: Arc<ConnectionInfo>, drain: Draining) {
    if begins_with_http2(&site, &mut stream, &drain).await {
        h2::serve(Box::new(stream), info, || site.another(), drain).await;
    } else {
        h1::serve(stream, info, &site, drain).await;
    }
}

/// Serves HTTP/2, and ends connections that begin otherwise.
async fn only_http2(site: Site, mut stream: Stream, info: Arc<ConnectionInfo>, drain: Draining) {
    if begins_with_http2(&site, &mut stream, &drain).await {
        h2::serve(Box::new(stream), info, || site.another(), drain).await;
        return;
    }
    // To close it with something unread would be a reset.
    let _ = stream.shutdown().await;
    let (mut rest, mut nowhere) = (stream.take(MOST_UNREAD), tokio::io::sink());
    let rest = tokio::io::copy(&mut rest, &mut nowhere);
    let rest = pin!(tokio::time::timeout(site.limits().header_timeout, rest));
    let _ = drain.unless_evicted(rest).await;
}

async fn begins_with_http2(site: &Site, stream: &mut Stream, drain: &Draining) -> bool {
    let patience = tokio::time::sleep(site.limits().header_timeout);
    let drained = poll_fn(|cx| match drain.poll_waiting(Phase::Incomplete, cx) {
        Signal::None => Poll::Pending,
        Signal::Drain | Signal::Evict => Poll::Ready(()),
    });
    let give_up = async {
        tokio::select! {
            () = patience => {}
            () = drained => {}
        }
    };
    stream.begins_with(h2::PREFACE, give_up).await
}

/// Shakes hands, and serves what comes of it.
async fn secure(
    site: Site,
    tls: Arc<TlsListener>,
    stream: Stream,
    info: Arc<ConnectionInfo>,
    drain: Draining,
) {
    let time = site.limits().header_timeout;
    let mut shaking =
        Box::pin(howdah_tls::handshake(&tls, stream, &drain, time, &site.shard.shared.door));
    let Some(shaken) = drain.unless_evicted(shaking.as_mut()).await else { return };
    drop(shaking);
    match shaken {
        Shaken::Done(stream, facts) => {
            stream.transport().acknowledge();
            tls.counters().handshakes.fetch_add(1, Relaxed);
            tls.counters().resumed.fetch_add(u64::from(facts.reused), Relaxed);
            let handshake = Some(Arc::new(facts));
            let info = Arc::new(ConnectionInfo { tls: true, handshake, ..(*info).clone() });
            if stream.session().alpn_protocol() == Some(b"h2") {
                h2::serve(stream, info, || site.another(), drain).await;
            } else {
                h1::serve(*stream, info, &site, drain).await;
            }
        }
        Shaken::Plain(stream, bytes) => {
            let response = respond::explained(400, "TLS is spoken here: ask for https, not http");
            let refusal = Refusal::PlainOnTls;
            let refused = h1::refuse(stream, info, &site, drain, &bytes, refusal, response);
            Box::pin(refused).await;
        }
        Shaken::Proved => {}
        Shaken::Failed(error) => {
            tls.counters().failed.fetch_add(1, Relaxed);
            site.blame(&info, format_args!("TLS handshake: {error}"));
        }
    }
}

/// Answers the requests of a listener on one thread.
struct Site {
    shard: Rc<Shard>,
    listener: Arc<str>,
    /// A request is being answered.
    active: Cell<bool>,
    /// It stands for the connection, not for one of its streams.
    is_connection: bool,
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
        let connection = &exchange.request.connection;
        if let Some(handshake) = &connection.handshake
            && !std::str::from_utf8(&exchange.request.host).is_ok_and(|host| handshake.admits(host))
        {
            // RFC 9110, 15.5.20: other certificates of clients count for this host.
            return respond::error(421);
        }
        let shard = &self.shard;
        let snapshot = shard.snapshot_for(&self.listener);
        if let Some(proof) = shard.shared.door.answer(&snapshot.config, &exchange.request) {
            return proof;
        }
        let router = Router {
            snapshot: &snapshot,
            files: &shard.files,
            scratch: &shard.scratch,
            log: &shard.shared.log,
            now: Now { monotonic: Instant::now(), wall: SystemTime::now() },
            begun: exchange.begun,
        };
        let mut decided = router.decide(&self.listener, &mut exchange.request);
        authenticate(&router, &mut decided, &mut exchange.request).await;
        let decision = std::mem::replace(&mut decided.decision, Decision::Refuse(500, None));
        let usual = snapshot.config.settings.http.max_body_size;
        let (mut response, left) = match exchange.limit_body(decided.max_body_size.unwrap_or(usual))
        {
            Ok(()) => self.carry_out(&snapshot, decision, decided.buffering, exchange).await,
            Err(error) => (proxy::refuse(error.status()), None),
        };
        if let Some(left) = left {
            let follow = self.follow(&router, left, &mut decided, exchange, &mut response);
            Box::pin(follow).await;
        }
        if let Some(page) = error_pages::page_for(decided.error_pages, &response) {
            let replace = self.replace_page(&router, page, &mut decided, exchange, &mut response);
            Box::pin(replace).await;
        }
        let Decided { headers, compress, security_headers, cors, .. } = decided;
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

    fn cut_off(&self, connection: &ConnectionInfo, why: &dyn fmt::Display) {
        self.blame(connection, format_args!("HTTP/2: cut off: {why}"));
    }
}

impl Site {
    fn new(shard: &Rc<Shard>, listener: &Arc<str>, is_connection: bool) -> Self {
        let (shard, listener) = (Rc::clone(shard), Arc::clone(listener));
        Site { shard, listener, active: Cell::new(false), is_connection }
    }

    /// For another request at the same time.
    fn another(&self) -> Self {
        Site::new(&self.shard, &self.listener, false)
    }

    /// Logs what the client of a connection did wrong, unless there are too many of that kind.
    fn blame(&self, connection: &ConnectionInfo, what: fmt::Arguments<'_>) {
        let Some(left_out) = self.shard.blames.next(Instant::now()) else { return };
        let peer = ShownAddress(connection.peer.map(|peer| peer.ip()));
        let (log, line) =
            (&self.shard.shared.log, format_args!("{}: {peer}: {what}", self.listener));
        match left_out {
            0 => log.write(Level::Info, format_args!("listener {line}")),
            many => log.write(
                Level::Info,
                format_args!("listener {line}; {many} lines about clients before it were left out"),
            ),
        }
    }

    /// Has a decision carried out. The answer may leave something to us.
    async fn carry_out<'s>(
        &self,
        snapshot: &'s Snapshot,
        decision: Decision,
        buffering: Buffering,
        exchange: &mut Exchange<'_>,
    ) -> (Response, Option<Left<'s>>) {
        let shard = &self.shard;
        let http = &snapshot.config.settings.http;
        let buffer = proxy::Buffer {
            memory: http.body_buffer_size,
            directory: http.body_temp_path.as_deref().unwrap_or(&shard.shared.tmp),
            wanted: buffering,
        };
        match decision {
            Decision::Respond(response) => (response, None),
            Decision::Refuse(status, allow) => (respond::error_allowing(status, allow), None),
            Decision::Authenticate(_) => (respond::error(401), None), // who could ask for it has not
            Decision::Php(application, script) => {
                let bodies = BodyBuffer {
                    memory: http.body_buffer_size,
                    directory: match &http.body_temp_path {
                        Some(path) => path.as_path().into(),
                        None => Arc::clone(&shard.shared.tmp),
                    },
                };
                // Boxed: most requests are for files, and need not pay for its size.
                let run = dispatch::run(&shard.php, bodies, &application, &script, exchange);
                let response = Box::pin(run).await;
                self.left(snapshot, response, By::Application(&application.name), exchange)
            }
            Decision::FastCgi(site, script) => {
                let run = fastcgi::run(&shard.fastcgi, &site, &script, &buffer, exchange);
                let response = Box::pin(run).await;
                self.left(snapshot, response, By::Application(site.name()), exchange)
            }
            Decision::Proxy(upstream) => {
                let run = proxy::run(&shard.proxy, &upstream, &buffer, exchange);
                let response = Box::pin(run).await;
                self.left(snapshot, response, By::Upstream(&upstream.name), exchange)
            }
        }
    }

    /// What an answer leaves to us, if it may.
    fn left<'s>(
        &self,
        snapshot: &'s Snapshot,
        mut response: Response,
        by: By<'_>,
        exchange: &Exchange<'_>,
    ) -> (Response, Option<Left<'s>>) {
        let wishes = delegation::take(&mut response);
        let left = snapshot.delegations.grant(wishes, by).unwrap_or_else(|problem| {
            self.complain(exchange, format_args!("the answer has {problem}"));
            None
        });
        (response, left)
    }

    /// Does what an answer leaves to us, and what the answer to that leaves, and so on.
    async fn follow<'s>(
        &self,
        router: &Router<'s>,
        left: Left<'s>,
        decided: &mut Decided<'s>,
        exchange: &Exchange<'_>,
        response: &mut Response,
    ) {
        let mut next = Some(left);
        for _ in 0..delegation::MOST {
            let uri = match next {
                None => return,
                Some(Left::Redirect(_, ref uri)) => uri.clone(),
                Some(Left::File(..)) => Bytes::from_static(b"/"),
            };
            let Some(mut request) = delegation::request(&exchange.request, &uri) else {
                let uri = String::from_utf8_lossy(&uri);
                self.complain(exchange, format_args!("X-Accel-Redirect has no path: {uri}"));
                delegation::join(response, respond::error(404));
                return;
            };
            let found;
            (found, next) = match next {
                Some(Left::Redirect(target, _)) => {
                    let mut followed = router.follow(target, &mut request);
                    authenticate(router, &mut followed, &mut request).await;
                    let connection = exchange.without_body();
                    let mut asked = Exchange::new(request, exchange.begun, &connection);
                    let decision = followed.go_beyond(decided);
                    let buffering = decided.buffering;
                    self.carry_out(router.snapshot, decision, buffering, &mut asked).await
                }
                Some(Left::File(delegation, file)) => {
                    let found = delegation.send(&file, &self.shard.files, &request, router.now);
                    if found.own_page {
                        let (status, file) = (found.status, String::from_utf8_lossy(&file));
                        self.complain(exchange, format_args!("X-Sendfile: {status} for {file}"));
                    }
                    (found, None)
                }
                None => return,
            };
            delegation::join(response, found);
        }
        if next.is_some() {
            self.complain(exchange, format_args!("X-Accel-Redirect leads in a circle"));
            *response = respond::error(500);
        }
    }

    fn complain(&self, exchange: &Exchange<'_>, problem: fmt::Arguments<'_>) {
        let request = &exchange.request;
        let target = String::from_utf8_lossy(&request.target);
        let line = format_args!("request {}: {target}: {problem}", ShownRequestId(request.id));
        self.shard.shared.log.write(Level::Error, line);
    }

    /// Puts an error page in place of the server's own, if it can be had.
    async fn replace_page<'s>(
        &self,
        router: &Router<'s>,
        page: &'s ErrorPage,
        decided: &mut Decided<'s>,
        exchange: &mut Exchange<'_>,
        response: &mut Response,
    ) {
        match &page.source {
            PageSource::File { files, path } => {
                let (cache, now) = (&self.shard.files, router.now);
                let found = error_pages::file(files, path, cache, &exchange.request, now);
                if let Some(found) = found {
                    error_pages::replace(response, found, true);
                }
            }
            PageSource::Action { action, keep_status } => {
                let mut request = error_pages::request(&exchange.request, response.status);
                let by_page = router.act(action, &mut request);
                let connection = exchange.without_body();
                let mut asked = Exchange::new(request, exchange.begun, &connection);
                let Decided { decision, buffering, .. } = by_page;
                let carried_out = self.carry_out(router.snapshot, decision, buffering, &mut asked);
                let (found, _) = Box::pin(carried_out).await;
                if !found.own_page {
                    error_pages::replace(response, found, *keep_status);
                    decided.headers = by_page.headers;
                    decided.compress &= by_page.compress;
                }
            }
        }
    }

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

/// Asks for passwords as far as actions on the way want them.
async fn authenticate<'s>(router: &Router<'s>, decided: &mut Decided<'s>, request: &mut Request) {
    while let Decision::Authenticate(auth) = &decided.decision {
        match auth.check(request, router.now.monotonic, router.log).await {
            Ok(user) => {
                request.user = Some(user);
                router.go_on(decided, request);
            }
            Err(response) => decided.decision = Decision::Respond(response),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.ends();
        if self.is_connection {
            self.shard.counters.closed.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_tls::Secured;

    fn size<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_that_waits_is_a_small_task() {
        // The runtime adds 104 bytes, and rounds up to a multiple of 128.
        let size = size(h1::serve::<Stream, Site>);
        assert!(size <= 280, "{size} bytes");
    }

    #[test]
    fn a_connection_with_tls_has_little_beside_the_library_s_state() {
        fn size<A, B, C, D, E, F: Future>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
            size_of::<F>()
        }
        let (size, state) = (size(secure), size_of::<Secured<Stream>>());
        assert!(size <= state + 640, "{size} bytes, {state} of them are the library's");
    }
}
