//! Carries out what the engine has decided: sends a file, runs a script, sends a page or an error.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::future::poll_fn;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use howdah_files::{FileLocation, ServeOutcome};
use howdah_htaccess::engine::{Action, Engine, ErrorPage, Outcome, Script};
use howdah_htaccess::handler_name;
use howdah_htaccess::memory::SiteMemory;
use howdah_htaccess::modules::filter::Compression;
use howdah_htaccess::record::{FileKind, Record};
use howdah_htaccess::world::{Level, World};
use howdah_http::body::Body;
use howdah_http::exchange::{Exchange, InterimFields};
use howdah_http::message::{Fields, Request, Response, ResponseExtras};
use howdah_http::{compress, respond};
use howdah_php_pool::target::{Directives, Script as PhpScript};

use super::compiled::{CompiledFiles, SETTLING_TIME};
use super::exchange;
use super::head::{self, Head};
use super::lookups::Lookups;
use super::site::Site;
use super::world::{self, Known, SiteWorld};
use crate::filters::own_tags::{self, has_mark, without_marks};
use crate::pipeline::{Context, carry_out, refusals};
use crate::route::Decision;
use crate::snapshot::delegations::Instruction;
use crate::snapshot::effects::Handling;
use crate::thread::ThreadCommand;

/// Maximum length in bytes of the fields that directives add to a response: that of the head of a script,
/// which has to fit into a quarter of its ring in shared memory.
const MAX_FIELDS_BYTES: usize = 32_760;

/// Most attempts to answer a request: the answer to an error can fail as well.
const MAX_ATTEMPTS: usize = 4;

/// Most times that a request that found no memory for directives is tried again.
const MAX_MEMORY_ROUNDS: u32 = 3;

/// Most times that a request is run again because it needed at once what takes time to know, or to prepare.
const MAX_LOOKUP_ROUNDS: u32 = 32;

/// An answer to a request.
pub struct Answered<'s> {
    /// The response.
    pub response: Response,
    /// What the response of a script asks of the server.
    pub instruction: Option<Instruction<'s>>,
    /// There is nothing at the path of the request, and no directive has said what to answer.
    pub is_missing: bool,
}

/// Answers a request for a file whose head is known; `None` if it is not.
pub fn answer_from_known(
    context: &Context<'_>,
    site: &Site,
    root: &[u8],
    known: &Known<'_>,
    exchange: &Exchange<'_>,
) -> Option<Response> {
    let path = head::path_of(&exchange.request)?;
    let head = known.answer(path)?;
    let place = FileLocation { root, path, url_offset: 0, chroot: b"" };
    let now = context.routing.now;
    let served = context.thread.files.serve_at(&site.files, place, &exchange.request, now);
    let ServeOutcome::Response(mut response) = served else { return None };
    response.fields = head.fields(&response.fields)?;
    Some(response)
}

/// Answers a request to a site with this root. `known` is what is known of it.
pub async fn answer<'s>(
    context: &Context<'s>,
    site: &Site,
    root: &[u8],
    known: Option<Known<'_>>,
    handling: Handling<'s>,
    exchange: &mut Exchange<'_>,
) -> Answered<'s> {
    let asked = exchange.request.clone();
    let refused = || {
        let problem = format_args!(
            "503, the directives of {} have used up the processor time of the site; patterns that take long \
             on such requests are to be simplified",
            String::from_utf8_lossy(root)
        );
        context.log_error(&asked, problem);
        let response = respond::error(503);
        Answered { response, instruction: None, is_missing: false }
    };
    let Some(turn) = exchange.unless_gone(site.allowance.turn()).await else { return gone() };
    let Some(turn) = turn else { return refused() };
    let mut known = match turn.has_waited() {
        true => world::known(context, site, root),
        false => known,
    };
    let engine = match context.thread.engines.of(site) {
        Ok(engine) => engine,
        Err(broken) => {
            let lookups = Lookups::new(None, None);
            let world = SiteWorld::new(context, site, root, &asked, &lookups, known);
            world.log(Level::Error, &broken.message);
            return Answered {
                response: respond::error(500),
                instruction: None,
                is_missing: false,
            };
        }
    };
    let lookups = Lookups::new(asked.connection.peer.map(|peer| peer.ip()), Some(turn));
    let software = context.software(site.scripts.as_deref());
    let record = || exchange::record(&asked, root, &software, context.routing.now.wall);
    let (mut round, mut lookup_rounds) = (0, 0);
    let mut refusals = site.memory.refusals();
    let (world, mut outcome) = loop {
        let world = SiteWorld::new(context, site, root, &asked, &lookups, known.take());
        let handled = site.allowance.metered(engine.handle(record(), &world));
        let Some(outcome) = exchange.unless_gone(handled).await else { return gone() };
        let is_unfinished = world.catch_up().await || outcome.is_unprepared;
        if lookups.is_refused() {
            return refused();
        }
        if is_unfinished && lookup_rounds < MAX_LOOKUP_ROUNDS {
            lookup_rounds += 1;
            drop((world, outcome));
            // Others of the site have their turn, or its debt is paid off.
            lookups.elsewhere(site, tokio::task::yield_now()).await;
            if lookups.is_refused() {
                return refused();
            }
            known = world::known(context, site, root);
            continue;
        }
        let has_no_memory = outcome.record.status >= 500 && site.memory.refusals() != refusals;
        if has_no_memory && round >= MAX_MEMORY_ROUNDS {
            let text = "503, the directives of the site take too much memory: there are too many, or too many of \
                        them are in use at once";
            world.log(Level::Error, text);
            return Answered {
                response: respond::error(503),
                instruction: None,
                is_missing: false,
            };
        }
        if has_no_memory {
            free_memory(context, site);
            refusals = site.memory.refusals();
        } else if round >= world.settling_rounds() {
            break (world, outcome);
        }
        // Nothing has been answered yet: the request is taken through its phases once more. What it has met is
        // dropped before.
        round += 1;
        drop((world, outcome));
        lookups.forget_compiled();
        tokio::time::sleep(SETTLING_TIME).await;
        known = world::known(context, site, root);
    };
    lookups.end_turn();
    let attempt = Attempt {
        context,
        site,
        root,
        handling,
        engine: &engine,
        world: &world,
        has_run: Cell::new(false),
    };
    for _ in 0..MAX_ATTEMPTS {
        match attempt.carry_out(outcome, exchange).await {
            Ok(answered) => return answered,
            Err((record, status)) => {
                if !lookups.begin_turn(site).await {
                    return refused();
                }
                let mut round = 0;
                outcome = loop {
                    let failing = engine.fail((*record).clone(), status, &world);
                    let failing = exchange.unless_gone(site.allowance.metered(failing));
                    let Some(outcome) = failing.await else { return gone() };
                    round += 1;
                    if round >= MAX_LOOKUP_ROUNDS || !world.catch_up().await {
                        break outcome;
                    }
                };
                lookups.end_turn();
            }
        }
    }
    Answered { response: respond::error(500), instruction: None, is_missing: false }
}

/// Returns the answer to a client that has gone: for the log.
fn gone<'s>() -> Answered<'s> {
    let response = refusals::client_gone();
    Answered { response, instruction: None, is_missing: false }
}

/// Forgets compiled files, because there is no memory for further ones: those of the site, or those of all sites.
/// Threads forget what they have derived soon.
fn free_memory(context: &Context<'_>, site: &Site) {
    let is_for_all = SiteMemory::is_total_used_up();
    match is_for_all {
        true => CompiledFiles::clear_all(),
        false => site.compiled.clear(),
    }
    let site = (!is_for_all).then_some(site.id);
    let threads = context.thread.handles.iter();
    threads.for_each(|thread| thread.send(ThreadCommand::ForgetDirectives { site }));
}

/// What an attempt to answer needs.
struct Attempt<'a, 's> {
    context: &'a Context<'s>,
    site: &'a Site,
    root: &'a [u8],
    handling: Handling<'s>,
    engine: &'a Engine,
    world: &'a SiteWorld<'a, 's>,
    /// A script has had the request with its body.
    has_run: Cell<bool>,
}

impl<'s> Attempt<'_, 's> {
    /// Answers as the engine has decided.
    ///
    /// # Errors
    ///
    /// The record, and the status of an error that may have an error document.
    async fn carry_out(
        &self,
        outcome: Outcome,
        exchange: &mut Exchange<'_>,
    ) -> Result<Answered<'s>, (Box<Record>, u16)> {
        let Outcome { mut record, action, .. } = outcome;
        let is_missing = matches!(&action, Action::Error(ErrorPage { text: None, .. }))
            && record.status == 404
            && record.previous.is_none();
        let (response, instruction) = match &action {
            Action::File => match self.file(&record, exchange) {
                Ok(response) => (response, None),
                Err(_) if self.leads_to_script(&record) => {
                    let response = respond::error(404);
                    return Ok(Answered { response, instruction: None, is_missing: true });
                }
                Err(status) => return Err((record, status)),
            },
            Action::Script(script) => match self.script(&mut record, script, exchange).await {
                Ok(answer) => answer,
                Err(status) => return Err((record, status)),
            },
            Action::Page(text) => {
                // The length of a listing is not known to a request for its head only, for which it is empty.
                let body = match text.is_empty() {
                    true => Body::unsent(None),
                    // Clients may take their time, and listings may be large.
                    false => match self.site.memory.hold(text.clone()) {
                        Some(held) => Bytes::from_owner(held).into(),
                        None => return Err((record, 503)),
                    },
                };
                let counted = ResponseExtras { is_counted: true, ..ResponseExtras::default() };
                let mut page = Response::new(record.status, body);
                page.extras = Some(Box::new(counted));
                (page, None)
            }
            Action::Options => (Response::new(record.status, Body::Empty), None),
            Action::Error(page) => (error(&record, page), None),
        };
        let is_constant = matches!(action, Action::File)
            && (record.status, response.status) == (200, 200)
            && record.previous.is_none()
            && record.content_encoding.is_none()
            && !record.is_rewritten
            && record.config.is_constant();
        let of_file = is_constant.then(|| response.fields.clone());
        let (mut response, compression) = self.finish(*record, &action, response).await;
        if let Action::Script(script) = &action
            && *exchange.request.method == *b"HEAD"
            && script.method != b"HEAD"
            && compression != Compression::Gzip
        {
            set_length_of_error_page(&mut response).await;
        }
        if let Some(of_file) = of_file
            && compression == Compression::None
        {
            self.world.remember(Head { of_file, sent: response.fields.clone() });
        }
        Ok(Answered { response, instruction, is_missing })
    }

    /// Returns true if a rule has led from a path that names nothing to a script, in a share that runs none: the
    /// script is that of the site, which the fallback of the share reaches.
    fn leads_to_script(&self, record: &Record) -> bool {
        let mut first = record;
        while let Some(previous) = &first.previous {
            first = previous;
        }
        self.site.scripts.is_none()
            && record.status == 200
            && record.previous.is_some()
            && first.file.kind == FileKind::None
            && record.filename.ends_with(b".php")
    }

    fn file(&self, record: &Record, exchange: &Exchange<'_>) -> Result<Response, u16> {
        let below = record.filename.strip_prefix(self.root).ok_or(403_u16)?;
        let place = FileLocation { root: self.root, path: below, url_offset: 0, chroot: b"" };
        // Conditions and ranges are those of the page, not of its error document.
        let is_get = matches!(&*exchange.request.method, b"GET" | b"HEAD");
        let is_as_sent = record.status == 200
            && is_get
            && !record.headers_in.get(b"If-None-Match").is_some_and(has_mark)
            && record.headers_in.iter().eq(exchange.request.fields.iter());
        let mut request = Cow::Borrowed(&exchange.request);
        if !is_as_sent {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = { record.headers_in.iter() }
                .filter(|_| record.status == 200)
                // RFC 9110, 13.1.3: ignored for other methods.
                .filter(|(name, _)| is_get || !name.eq_ignore_ascii_case(b"if-modified-since"))
                .map(|(name, value)| match name.eq_ignore_ascii_case(b"if-none-match") {
                    true => (name.to_vec(), without_marks(value)),
                    false => (name.to_vec(), value.to_vec()),
                })
                .collect();
            let fields = fields.iter().map(|(name, value)| (&**name, &**value));
            request.to_mut().fields = Fields::from_pairs(fields);
        }
        let (files, now) = (&self.context.thread.files, self.context.routing.now);
        match files.serve_at(&self.site.files, place, &request, now) {
            ServeOutcome::Response(response) if response.status == 301 => Err(403),
            ServeOutcome::Response(mut response) => {
                if record.status != 200 {
                    response.status = record.status;
                }
                if response.status == 416 {
                    return Err(416);
                }
                if response.status == 304 && !is_get {
                    response.status = 412;
                }
                if response.status == 412 {
                    // Apache sends the fields of the file, without content and without an error document.
                    request.to_mut().fields = Fields::default();
                    let whole = files.serve_at(&self.site.files, place, &request, now);
                    if let ServeOutcome::Response(whole) = whole {
                        response.fields = whole.fields;
                    }
                    response.body = Body::Empty;
                    response.is_default_error_page = false;
                }
                if response.status == 304 {
                    let seconds = u64::try_from(record.file.modified).unwrap_or_default();
                    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                    response.fields.push("Last-Modified", httpdate::fmt_http_date(modified));
                }
                Ok(response)
            }
            ServeOutcome::Script(_) | ServeOutcome::Listing(_) => Err(403),
            ServeOutcome::NotServed(reason) => Err(reason.status()),
        }
    }

    async fn script(
        &self,
        record: &mut Record,
        script: &Script,
        exchange: &mut Exchange<'_>,
    ) -> Result<(Response, Option<Instruction<'s>>), u16> {
        let Some(name) = &self.site.scripts else { return Err(403) };
        if script.shows_source {
            return Err(403);
        }
        let path = |bytes: &[u8]| -> Arc<Path> { Path::new(OsStr::from_bytes(bytes)).into() };
        let script_to_run = PhpScript {
            name: Bytes::copy_from_slice(&script.name),
            path_info: Bytes::copy_from_slice(&script.path_info),
            file: path(&script.filename),
            root: path(self.root),
            directives: Some(Arc::new(Directives {
                variables: script.variables.clone(),
                settings: script.settings.clone(),
                passes_authorization: script.passes_auth,
                status: record.status,
                server_port: record.connection.server_port,
            })),
        };
        if let Some(limit) = record.config.core.limit_request_body
            && limit > 0
        {
            exchange.limit_body(limit).map_err(|error| error.status())?;
        }
        let snapshot = self.context.routing.snapshot;
        let decision = match snapshot.applications.get(&**name) {
            Some(application) => Decision::Php(Arc::clone(application), script_to_run),
            None => match snapshot.fastcgi.get(&**name) {
                Some(site) => Decision::FastCgi(Arc::clone(site), script_to_run),
                None => return Err(404),
            },
        };
        let (method, query) = (&script.method, &script.query);
        let changed =
            exchange::request(self.world.request, record, method, query, &script.request_uri);
        // `Header unset` is for the final response alone, and may depend on it.
        let interim_fields = InterimFields { only_link: true, ..exchange.interim_fields.clone() };
        // Of an error document, the body may have been read: by another script, or with the request for a file.
        let is_read = self.has_run.replace(true) || has_read_body(record);
        let (response, instruction) = if is_read {
            let connection = exchange.without_body();
            let mut asked = Exchange::new(changed, exchange.started_at, &connection);
            asked.interim_fields = interim_fields;
            Box::pin(carry_out(self.context, decision, self.handling.clone(), &mut asked)).await
        } else {
            exchange.request = changed;
            exchange.interim_fields = interim_fields;
            let answer =
                Box::pin(carry_out(self.context, decision, self.handling.clone(), exchange)).await;
            // The application that has run the script is known from now on.
            let handling = std::mem::take(&mut exchange.request.handling);
            exchange.request = Request { handling, ..self.world.request.clone() };
            answer
        };
        if let Some(handler) = &script.foreign_handler
            && self.site.is_new_handler(handler)
        {
            self.note_handler(name, script, handler);
        }
        if response.is_default_error_page {
            return Err(response.status);
        }
        Ok((response, instruction))
    }

    /// Logs once that a directive of a former host has chosen PHP, and whether it meant another version.
    fn note_handler(&self, application: &str, script: &Script, handler: &[u8]) {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).escape_debug().to_string();
        let has = { self.context.routing.snapshot.applications.get(application) }
            .and_then(|application| application.queue.php_version());
        let ran = match &has {
            Some(version) => format!("PHP {version}"),
            None => "the PHP".to_owned(),
        };
        let advice = match handler_name::php_version(handler).zip(has) {
            Some((wanted, has)) if !is_version(&has, &wanted) => {
                format!(
                    "; it means PHP {wanted}: set \"type\": \"php {wanted}\" if the site needs that"
                )
            }
            _ => String::new(),
        };
        let text = format!(
            "handler \"{}\" of another server for {}: {ran} of the application \"{application}\" runs such files{advice}",
            shown(handler),
            shown(&script.filename),
        );
        self.world.log(Level::Notice, &text);
    }

    /// Applies the directives for responses.
    async fn finish(
        &self,
        mut record: Record,
        action: &Action,
        mut response: Response,
    ) -> (Response, Compression) {
        let is_error = matches!(action, Action::Error(_));
        let own_bytes = response.fields.as_bytes().len();
        let is_script = matches!(action, Action::Script(_));
        if !is_error {
            record.status = response.status;
            for (name, value) in response.fields.iter() {
                let is_tag = name.eq_ignore_ascii_case(b"etag") && !is_script;
                if is_tag && record.config.core.etag.parts().is_none() {
                    continue;
                }
                if !name.eq_ignore_ascii_case(b"content-type") {
                    record.headers_out.add(name, value);
                } else if is_script || value.starts_with(b"multipart/byteranges") {
                    record.content_type = Some(value.to_vec());
                }
            }
        }
        if is_script {
            for (name, value) in response.take_variables() {
                record.env.set(name, value);
            }
        }
        record.length = response.body.len().filter(|_| !matches!(response.body, Body::Stream(_)));
        let finish = |record: &mut Record| {
            self.site.allowance.run(|| self.engine.finish(record, action, self.world))
        };
        let mut rounds = if Engine::finish_looks_up(&record) { MAX_LOOKUP_ROUNDS } else { 0 };
        let compression = loop {
            if rounds == 0 {
                break finish(&mut record);
            }
            rounds -= 1;
            let mut finished = record.clone();
            let compression = finish(&mut finished);
            if !self.world.catch_up().await {
                record = finished;
                break compression;
            }
        };
        response.status = record.status;
        if matches!(record.status, 204 | 304) {
            record.headers_out.unset(b"Content-Type");
        }
        let is_plain = |value: &[u8]| value.eq_ignore_ascii_case(b"identity");
        if compression == Compression::Gzip
            && record.headers_out.get(b"Content-Encoding").is_some_and(is_plain)
        {
            record.headers_out.unset(b"Content-Encoding");
        }
        if record.is_head_invalid {
            // What was to be sent must not be sent without its fields.
            response = respond::error(500);
        }
        response.fields = exchange::fields(&record.headers_out);
        let bytes = response.fields.as_bytes().len();
        if bytes > own_bytes + MAX_FIELDS_BYTES {
            let text = format!(
                "500, the {} files on the way to {} give the response {bytes} bytes of header fields; at most \
                 {MAX_FIELDS_BYTES} are sent: let \"Header\" set fewer or shorter ones",
                String::from_utf8_lossy(&self.site.file).trim_start_matches('/'),
                String::from_utf8_lossy(&record.filename),
            );
            self.world.log(Level::Error, &text);
            response = respond::error(500);
        }
        if compression == Compression::Gzip {
            let client = self.world.request.connection.peer.map(|peer| peer.ip());
            compress::gzip_as_apache(client, &mut response);
            if is_script {
                own_tags::answer(self.world.request, &mut response);
            }
        }
        (response, compression)
    }
}

/// Returns true if a version is `wanted`, of which the last parts may be left out.
fn is_version(version: &str, wanted: &str) -> bool {
    version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Gives the response to a HEAD request a Content-Length if it comes from a script for errors, which has answered GET,
/// and is short. As in Apache, an empty page has none.
async fn set_length_of_error_page(response: &mut Response) {
    let mut len = 0;
    match &mut response.body {
        Body::Empty => {}
        Body::Bytes(bytes) if bytes.len() as u64 > MAX_HELD_BYTES => return,
        Body::Bytes(bytes) => len = bytes.len() as u64,
        Body::Stream(stream) if stream.len().is_none() => {
            while let Some(bytes) = poll_fn(|cx| stream.poll_next(cx)).await {
                len += bytes.map_or(MAX_HELD_BYTES, |bytes| bytes.len() as u64);
                if len > MAX_HELD_BYTES {
                    return;
                }
            }
        }
        Body::Pieces(_) | Body::Stream(_) => return,
    }
    response.body = Body::unsent(Some(len).filter(|len| *len > 0));
    response.chunked = len == 0;
}

/// Maximum number of bytes that Apache holds back until a script has ended.
const MAX_HELD_BYTES: u64 = 8000;

/// Returns true if the body of the request was read before it was redirected to this record.
fn has_read_body(record: &Record) -> bool {
    let mut previous = record.previous.as_deref();
    while let Some(before) = previous {
        if before.is_body_read {
            return true;
        }
        previous = before.previous.as_deref();
    }
    false
}

/// Returns the answer to an error or a redirect, without its fields.
fn error(record: &Record, page: &ErrorPage) -> Response {
    match &page.text {
        Some(text) => Response::new(record.status, Body::from(Bytes::from(text.clone()))),
        None => respond::error(record.status),
    }
}
