//! Answers requests to a site as the engine has decided: with a file, a page, an error, or the
//! response of a script, which the pipeline runs.

use std::rc::Rc;
use std::time::SystemTime;

use bytes::Bytes;
use howdah_files::{FileLocation, ServeOutcome};
use howdah_htaccess::engine::{Action, Engine, ErrorPage, Outcome};
use howdah_htaccess::memory::SiteMemory;
use howdah_htaccess::modules::filter::Compression;
use howdah_htaccess::record::{FileKind, Record};
use howdah_htaccess::world::{Level, World};
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response, ResponseExtras};
use howdah_http::respond::refuse;
use howdah_routing::htaccess_state::compiled::{CompiledFiles, SETTLING_TIME};
use howdah_routing::htaccess_state::head::{self, Head};
use howdah_routing::htaccess_state::site::Site;
use howdah_routing::snapshot::delegations::Instruction;

use super::exchange;
use super::lookups::Lookups;
use super::response::{error, set_length_of_error_page};
use super::script::ScriptRun;
use super::world::{self, Known, SiteWorld};
use crate::context::Context;
use crate::thread::ThreadCommand;

/// Most attempts to answer a request: the answer to an error can fail as well.
const MAX_ATTEMPTS: usize = 4;

/// Most times that a request that found no memory for directives is tried again.
const MAX_MEMORY_ROUNDS: u32 = 3;

/// Maximum number of times that a request is run again because it needed at once a result that
/// takes time to compute.
pub(super) const MAX_LOOKUP_ROUNDS: u32 = 32;

/// An answer to a request.
pub struct Answered<'s> {
    /// The response.
    pub response: Response,
    /// The instruction of a script's response to the server.
    pub instruction: Option<Instruction<'s>>,
    /// There is no file at the path of the request, and no directive has chosen the answer.
    pub is_missing: bool,
}

impl Answered<'_> {
    /// An answer of the server itself.
    fn own(response: Response) -> Self {
        Answered { response, instruction: None, is_missing: false }
    }
}

/// The next step of a request to a site.
pub enum Reply<'s> {
    /// The request has this answer.
    Answered(Answered<'s>),
    /// The response of a script, for [`SiteRequest::finish_script`].
    Run(Box<ScriptRun>),
}

/// Returns the response with a file whose head is known; `None` if it is not.
pub fn file_with_known_head(
    context: &Context<'_>,
    site: &Site,
    root: &[u8],
    known: &Known<'_>,
    exchange: &Exchange<'_>,
) -> Option<Response> {
    let path = head::path_of(&exchange.request)?;
    let path = match &site.prefix {
        Some(prefix) => prefix.rest(path).filter(|rest| !rest.is_empty())?,
        None => path,
    };
    let head = known.answer(path)?;
    let place = FileLocation { root, path, url_offset: 0, chroot: b"" };
    let now = context.routing.now;
    let (files, request) = (&context.thread.files, &exchange.request);
    let found = files.look_up(&site.files, place, request, now);
    let ServeOutcome::File(file) = found else { return None };
    let mut response = files.file_response(&file, request, now.wall);
    response.fields = head.fields(&response.fields)?;
    Some(response)
}

/// A request to a site.
pub struct SiteRequest<'a, 's> {
    pub(super) context: &'a Context<'s>,
    pub(super) site: &'a Site,
    pub(super) root: &'a [u8],
    /// The limit of the actions on the way of the request.
    pub(super) max_body_size: u64,
    pub(super) engine: Rc<Engine>,
    pub(super) world: SiteWorld<'a, 's>,
    /// The decision of the engine.
    outcome: Option<Outcome>,
    /// Number of attempts to answer.
    attempts: usize,
    /// A script has had the request with its body.
    pub(super) has_run: bool,
}

/// Returns the answer to a client that has gone: for the log.
fn gone<'s>() -> Answered<'s> {
    Answered::own(refuse(RequestError::ClientGone))
}

/// Returns the answer to a request whose site has used up its processor time, with a line in the
/// log.
fn refused<'s>(context: &Context<'_>, root: &[u8], asked: &Request) -> Answered<'s> {
    let problem = format_args!(
        "503, the directives of {} have used up the processor time of the site; patterns that \
         take long on such requests are to be simplified",
        String::from_utf8_lossy(root)
    );
    context.log_error(asked, problem);
    Answered::own(refuse(RequestError::NoResources))
}

/// Forgets compiled files, because there is no memory for further ones: those of the site, or those
/// of all sites. Threads soon forget the state that they have derived from them.
fn free_memory(context: &Context<'_>, site: &Site) {
    let is_for_all = SiteMemory::is_total_used_up();
    if is_for_all {
        CompiledFiles::clear_all()
    } else {
        site.compiled.clear()
    }
    let site = (!is_for_all).then_some(site.id);
    let threads = context.thread.handles.iter();
    threads.for_each(|thread| thread.send(ThreadCommand::ForgetDirectives { site }));
}

impl<'a, 's> SiteRequest<'a, 's> {
    /// Begins a request to a site with this root, whose scripts read bodies of at most
    /// `max_body_size`. `known` has the facts about its files. Error: the answer, without
    /// directives.
    pub async fn begin(
        context: &'a Context<'s>,
        site: &'a Site,
        root: &'a [u8],
        max_body_size: u64,
        asked: &'a Request,
        known: Option<Known<'a>>,
        exchange: &Exchange<'_>,
    ) -> Result<SiteRequest<'a, 's>, Answered<'s>> {
        let turn = exchange.unless_gone(site.allowance.turn()).await.ok_or_else(gone)?;
        let turn = turn.ok_or_else(|| refused(context, root, asked))?;
        let known = if turn.has_waited() { world::known(context, site, root) } else { known };
        let client = asked.connection.peer.map(|peer| peer.ip());
        let lookups = Rc::new(Lookups::new(client, Some(turn)));
        let world = SiteWorld::new(context, site, root, asked, lookups, known);
        let engine = context.thread.engines.of(site).map_err(|broken| {
            world.log(Level::Error, &broken.message);
            Answered::own(refuse(RequestError::Internal))
        })?;
        let mut request = SiteRequest {
            context,
            site,
            root,
            max_body_size,
            engine,
            world,
            outcome: None,
            attempts: 0,
            has_run: false,
        };
        request.decide(exchange).await?;
        Ok(request)
    }

    /// Takes the request through the phases of the engine, again if something had to be looked up
    /// first.
    async fn decide(&mut self, exchange: &Exchange<'_>) -> Result<(), Answered<'s>> {
        let (context, site, root, asked) = (self.context, self.site, self.root, self.world.request);
        let lookups = Rc::clone(&self.world.lookups);
        let software = context.software(site.scripts.as_deref());
        // As late as possible: times that directives set are compared with the `Date` of the
        // response.
        let record =
            || exchange::record(asked, root, site.prefix.as_ref(), &software, SystemTime::now());
        let (mut round, mut lookup_rounds) = (0, 0);
        let mut refusals = site.memory.refusals();
        loop {
            let handled = site.allowance.metered(self.engine.handle(record(), &self.world));
            let outcome = exchange.unless_gone(handled).await.ok_or_else(gone)?;
            let is_unfinished = self.world.catch_up().await || outcome.is_unprepared;
            if lookups.is_refused() {
                return Err(refused(context, root, asked));
            }
            let has_no_memory = outcome.record.status >= 500 && site.memory.refusals() != refusals;
            // No response has been sent: the request is taken through its phases once more. The
            // results of the last run are dropped before.
            if is_unfinished && lookup_rounds < MAX_LOOKUP_ROUNDS {
                lookup_rounds += 1;
                drop(outcome);
                self.world.forget();
                // Other requests of the site have their turn, or its debt is paid off.
                lookups.elsewhere(site, tokio::task::yield_now()).await;
                if lookups.is_refused() {
                    return Err(refused(context, root, asked));
                }
            } else if has_no_memory && round >= MAX_MEMORY_ROUNDS {
                let text = "503, the directives of the site take too much memory: there are too \
                            many, or too many of them are in use at once";
                self.world.log(Level::Error, text);
                return Err(Answered::own(refuse(RequestError::NoResources)));
            } else if has_no_memory || round < self.world.settling_rounds() {
                if has_no_memory {
                    free_memory(context, site);
                    refusals = site.memory.refusals();
                }
                round += 1;
                drop(outcome);
                self.world.forget();
                lookups.forget_compiled();
                tokio::time::sleep(SETTLING_TIME).await;
            } else {
                lookups.end_turn();
                self.outcome = Some(outcome);
                return Ok(());
            }
            let known = world::known(context, site, root);
            self.world = SiteWorld::new(context, site, root, asked, Rc::clone(&lookups), known);
        }
    }

    /// Returns the next step of the request.
    pub async fn next(&mut self, exchange: &mut Exchange<'_>) -> Reply<'s> {
        while let Some(outcome) = self.outcome.take() {
            self.attempts += 1;
            let failed = match self.carry_out(outcome, exchange).await {
                Ok(reply) => return reply,
                Err((record, error)) => self.fail(&record, error.status(), exchange).await,
            };
            if let Err(answered) = failed {
                return Reply::Answered(answered);
            }
        }
        Reply::Answered(Answered::own(refuse(RequestError::Internal)))
    }

    /// Continues with the response of a script.
    pub async fn finish_script(
        &mut self,
        run: ScriptRun,
        (response, instruction): (Response, Option<Instruction<'s>>),
        exchange: &mut Exchange<'_>,
    ) -> Reply<'s> {
        let ScriptRun { record, action, origin, .. } = run;
        if let (Action::Script(script), Some(name)) = (&action, &self.site.scripts)
            && let Some(handler) = &script.foreign_handler
            && self.site.is_new_handler(handler)
        {
            self.note_handler(name, &origin, script, handler);
        }
        if response.is_default_error_page {
            return match self.fail(&record, response.status, exchange).await {
                Ok(()) => self.next(exchange).await,
                Err(answered) => Reply::Answered(answered),
            };
        }
        let response = self.complete(record, &action, response, exchange).await;
        Reply::Answered(Answered { response, instruction, is_missing: false })
    }

    /// Lets the engine decide about an error. Error: the answer without its decision.
    async fn fail(
        &mut self,
        record: &Record,
        status: u16,
        exchange: &Exchange<'_>,
    ) -> Result<(), Answered<'s>> {
        if self.attempts >= MAX_ATTEMPTS {
            return Ok(());
        }
        let lookups = Rc::clone(&self.world.lookups);
        if !lookups.begin_turn(self.site).await {
            return Err(refused(self.context, self.root, self.world.request));
        }
        for round in 1.. {
            let failing = self.engine.fail(record.clone(), status, &self.world);
            let failing = exchange.unless_gone(self.site.allowance.metered(failing));
            let outcome = failing.await.ok_or_else(gone)?;
            if round >= MAX_LOOKUP_ROUNDS || !self.world.catch_up().await {
                self.outcome = Some(outcome);
                break;
            }
        }
        lookups.end_turn();
        Ok(())
    }

    /// Answers as the engine has decided.
    ///
    /// # Errors
    ///
    /// The record, and an error that may have an error document.
    async fn carry_out(
        &mut self,
        outcome: Outcome,
        exchange: &mut Exchange<'_>,
    ) -> Result<Reply<'s>, (Box<Record>, RequestError)> {
        let Outcome { record, action, .. } = outcome;
        let is_missing = matches!(&action, Action::Error(ErrorPage { text: None, .. }))
            && record.status == 404
            && record.previous.is_none();
        let response = match &action {
            Action::File => match self.file(&record, exchange) {
                Ok(response) => response,
                Err(_) if self.leads_to_script(&record) => {
                    let is_missing = true;
                    let answered =
                        Answered { is_missing, ..Answered::own(refuse(RequestError::NotFound)) };
                    return Ok(Reply::Answered(answered));
                }
                Err(error) => return Err((record, error)),
            },
            Action::Script(_) => return self.script(record, action, exchange).map(Reply::Run),
            Action::Page(text) => {
                // The length of a listing is not known to a request for its head only, for which it
                // is empty.
                let body = if text.is_empty() {
                    Body::unsent(None)
                } else if let Some(held) = self.site.memory.hold(text.clone()) {
                    // Clients may take their time, and listings may be large.
                    Bytes::from_owner(held).into()
                } else {
                    return Err((record, RequestError::NoResources));
                };
                let counted = ResponseExtras { is_counted: true, ..ResponseExtras::default() };
                let mut page = Response::new(record.status, body);
                page.extras = Some(Box::new(counted));
                page
            }
            Action::Options => Response::new(record.status, Body::Empty),
            Action::Error(page) => error(&record, page),
        };
        let response = self.complete(record, &action, response, exchange).await;
        Ok(Reply::Answered(Answered { response, instruction: None, is_missing }))
    }

    /// Completes the response of an action, and remembers its head if it depends on a file alone.
    async fn complete(
        &self,
        record: Box<Record>,
        action: &Action,
        response: Response,
        exchange: &Exchange<'_>,
    ) -> Response {
        let is_constant = matches!(action, Action::File)
            && (record.status, response.status) == (200, 200)
            && record.previous.is_none()
            && record.content_encoding.is_none()
            && !record.depends_on_request
            && record.config.is_constant();
        let of_file = is_constant.then(|| response.fields.clone());
        let (mut response, compression) = self.finish(*record, action, response).await;
        if let Action::Script(script) = action
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
        response
    }

    /// Returns true if a rule has led from a path that names no file to a script, in a share that
    /// runs none: the script is that of the site, which the fallback of the share reaches.
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
}
