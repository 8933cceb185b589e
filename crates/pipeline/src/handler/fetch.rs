//! Asks an origin for a response that may be stored: validates or judges it, and sends it to the
//! client while it is being stored.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use howdah_cache::cause::{self, Bypass};
use howdah_cache::control::SURROGATE;
use howdah_cache::decisions::Decision;
use howdah_cache::entry::Entry;
use howdah_cache::flight::{Landing, Leader};
use howdah_cache::inquiry::Inquiry;
use howdah_cache::memory::Owner;
use howdah_cache::place::Place;
use howdah_cache::search::Variance;
use howdah_cache::status::{Forward, Outcome, StaleUse};
use howdah_cache::store::Store;
use howdah_cache::storing::{self, HeadMatch, Refusal, Times};
use howdah_cache::{key, respond, tee, vary};
use howdah_config::{Cache, Match};
use howdah_http::body::Body;
use howdah_http::body::in_kernel::{self, InKernel, KernelCopy};
use howdah_http::exchange::Exchange;
use howdah_http::message::{CompressedCopies, Encoding, Fields, Request, Response, ResponseExtras};
use howdah_routing::route::{Origin, matching};
use howdah_routing::snapshot::action::ActionCache;
use howdah_routing::snapshot::effects::Handling;
use howdah_sys::clock::wall_seconds;

use super::origin::ask;
use super::respond::Answer;
use crate::context::Context;

/// One request and its cache.
pub struct Step<'a, 's> {
    /// Context of the request.
    pub context: &'a Context<'s>,
    /// The cache.
    pub cache: &'a ActionCache,
    /// The origin.
    pub origin: &'a Origin,
    /// Options of the action.
    pub handling: Handling<'s>,
    /// The key of the request.
    pub key: Vec<u8>,
    /// The account of the origin in the store.
    pub owner: Arc<Owner>,
}

/// A request to an origin.
pub struct Fetch {
    /// The reason.
    pub reason: Forward,
    /// The decisive fact, if the stored response is not for this request.
    pub why: Option<Bypass>,
    /// The stored response.
    pub stale: Option<Stale>,
    /// Set if other requests may wait for the response.
    pub leader: Option<Leader>,
}

/// A stored response that must be validated.
pub struct Stale {
    /// The response.
    pub entry: Arc<Entry>,
    /// The response may be sent if the origin fails.
    pub on_error: bool,
}

impl<'s> Step<'_, 's> {
    /// Returns the store.
    pub fn store(&self) -> &Arc<Store> {
        &self.cache.store
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Cache {
        &self.cache.settings
    }

    /// Sends a stored response.
    pub fn hit(
        &self,
        entry: &Arc<Entry>,
        request: &Request,
        detail: Option<StaleUse>,
        collapsed: bool,
    ) -> Answer<'s> {
        let counters = &self.store().counters;
        let counter = match (collapsed, detail) {
            (true, _) => &counters.collapsed,
            (false, Some(_)) => &counters.stale_hits,
            (false, None) => &counters.hits,
        };
        counter.fetch_add(1, Relaxed);
        let now = wall_seconds();
        let (lifetime, age) = (entry.terms.lifetime, entry.age(now).min(i32::MAX as u64));
        let ttl = i64::try_from(lifetime).unwrap_or(i64::MAX).saturating_sub_unsigned(age);
        (self.respond(entry, request, Outcome::Hit { ttl, collapsed, detail }, now), None)
    }

    /// Adds `Cache-Status` to the response to a request, and notes the outcome for variables.
    pub fn show(&self, request: &Request, response: &mut Response, outcome: Outcome) {
        request.handling.set_cache_status(outcome.word());
        if self.settings().announce {
            response.fields.push("Cache-Status", outcome.to_string());
        }
    }

    /// Returns the response from an entry. Content that is compressed for it is kept.
    fn respond(
        &self,
        entry: &Arc<Entry>,
        request: &Request,
        outcome: Outcome,
        now: u64,
    ) -> Response {
        let shown = Some(outcome).filter(|_| self.settings().announce);
        let mut response = respond::respond(entry, request, shown, now);
        request.handling.set_cache_status(outcome.word());
        let compression = &self.context.routing.snapshot.compression;
        let is_whole = response.status == entry.status && matches!(response.body, Body::Bytes(_));
        if compression.is_some() && is_whole {
            let (store, owner) = (Arc::clone(self.store()), Arc::clone(&self.owner));
            let copies = KeptCopies { store, owner, entry: Arc::clone(entry) };
            let copies = Some(Box::new(copies) as Box<dyn CompressedCopies>);
            response.extras =
                Some(Box::new(ResponseExtras { copies, ..ResponseExtras::default() }));
        }
        let connections = self.context.thread.counters.open();
        if matches!(&response.body, Body::Bytes(bytes) if in_kernel::pays(bytes.len(), connections))
        {
            let (store, owner) = (Arc::clone(self.store()), Arc::clone(&self.owner));
            let copies = KeptCopies { store, owner, entry: Arc::clone(entry) };
            response.extras.get_or_insert_default().in_kernel = Some(Box::new(copies));
        }
        response
    }

    /// Asks the origin, and stores its response if that is allowed.
    pub async fn fetch(&self, fetch: Fetch, exchange: &mut Exchange<'_>) -> Answer<'s> {
        let Fetch { reason, why, stale, leader } = fetch;
        let (settings, store) = (self.settings(), self.store());
        let asked_at = wall_seconds();
        let epoch = store.purges.count();
        let inquiry = store.ask(&self.key, leader);
        let validated = stale.as_ref().map(|stale| &*stale.entry);
        let changed = request_to_origin(&exchange.request, validated, settings);
        let request = std::mem::replace(&mut exchange.request, changed);
        // The conditions are about the stored response, whose tag is that of the origin.
        let handling = Handling { restores_tags: false, ..self.handling.clone() };
        let asked = ask(self.context, self.origin, handling, exchange);
        let (mut response, instruction) = asked.await;
        let mut asked = std::mem::replace(&mut exchange.request, request);
        // The facts that the origin's handlers have recorded are about this request.
        exchange.request.handling = std::mem::take(&mut asked.handling);
        if self.handling.is_authorized {
            asked.user.get_or_insert_default();
        }
        let request = &exchange.request;
        let times = Times { asked: asked_at, received: wall_seconds(), epoch };
        if let Some(Stale { entry, on_error: true }) = &stale
            && (matches!(response.status, 500 | 502..=504) || response.body.is_cut())
        {
            inquiry.land(Landing::Failed);
            return self.hit(entry, request, Some(StaleUse::IfError), false);
        }
        if let (304, Some(Stale { entry, .. })) = (response.status, &stale) {
            return self.revalidated(entry, &response, &asked, request, times, inquiry, reason);
        }
        if instruction.is_some() {
            self.refuse(Refusal::Redirected, inquiry);
            let cause = cause::of(Refusal::Redirected, settings, &asked, &response.fields);
            let outcome = forwarded(reason, Some(Err(Refusal::Redirected)));
            self.record(request, response.status, outcome, cause);
            return (response, instruction);
        }
        let stored = match self.judge(&response, &asked, exchange, times) {
            Ok(storable) => {
                let body = std::mem::take(&mut response.body);
                let key = self.key_of(&response, exchange);
                let done = self.storing(key, storable, inquiry, times);
                let owner = exchange.request.owner();
                let temporary = &self.context.thread.limits().temporary;
                response.body = tee::collect(body, settings.max_object, owner, temporary, done);
                Ok(())
            }
            Err(refusal) => {
                if let Some(Stale { entry, .. }) = &stale
                    && response.status < 500
                    && refusal != Refusal::Failed
                {
                    store.forget(&self.key, entry);
                }
                self.refuse(refusal, inquiry);
                Err(refusal)
            }
        };
        let outcome = forwarded(reason, Some(stored));
        let cause = match (stored, why) {
            (Err(refusal), _) => cause::of(refusal, settings, &asked, &response.fields),
            (Ok(()), Some(why)) => why.cause(request),
            (Ok(()), None) => String::new(),
        };
        self.record(request, response.status, outcome, cause);
        respond::apply_conditions(&request.fields, &mut response);
        self.show(&exchange.request, &mut response, outcome);
        (response, None)
    }

    /// Passes a HEAD request on. Its response updates the stored response to GET that it is about,
    /// or shows that there is another one now (RFC 9111, 4.3.5).
    pub async fn pass_head(
        &self,
        reason: Forward,
        stale: Option<Stale>,
        exchange: &mut Exchange<'_>,
    ) -> Answer<'s> {
        let (asked_at, epoch) = (wall_seconds(), self.store().purges.count());
        self.store().counters.bypassed.fetch_add(1, Relaxed);
        let asked = ask(self.context, self.origin, self.handling.clone(), exchange);
        let (mut response, instruction) = asked.await;
        if let (Some(Stale { entry, .. }), 200, None) = (stale, response.status, &instruction) {
            let mut asked = exchange.request.clone();
            if self.handling.is_authorized {
                asked.user.get_or_insert_default();
            }
            let times = Times { asked: asked_at, received: wall_seconds(), epoch };
            let fields = &response.fields;
            // A script may have left out the content without saying how long it is.
            let length = response.body.len().filter(|length| *length > 0);
            let updated = match storing::compare_head(&entry, fields, length) {
                HeadMatch::Same => {
                    Some(storing::update(&entry, self.settings(), &asked, fields, times).ok())
                }
                HeadMatch::Other => Some(None),
                HeadMatch::Unknown => None,
            };
            match updated {
                Some(Some(updated)) => self.store().update(&self.key, &self.owner, &entry, updated),
                Some(None) => self.store().forget(&self.key, &entry),
                None => {}
            }
        }
        self.show(&exchange.request, &mut response, forwarded(reason, None));
        (response, instruction)
    }

    /// Judges a response by the rules of HTTP and the settings.
    fn judge(
        &self,
        response: &Response,
        asked: &Request,
        exchange: &Exchange<'_>,
        times: Times,
    ) -> Result<storing::Storable, Refusal> {
        let settings = self.settings();
        let Response { status, reason, fields, .. } = response;
        let storable = storing::judge(settings, asked, *status, reason.as_ref(), fields, times)?;
        let has_other_parts = response
            .extras
            .as_ref()
            .is_some_and(|extras| extras.tunnel.is_some() || extras.feed.is_some());
        if has_other_parts {
            return Err(Refusal::Incomplete);
        }
        if response.body.is_cut() {
            return Err(Refusal::Failed);
        }
        if !settings.store.is_empty()
            && first_met(self.context, &settings.store, exchange).is_none()
        {
            return Err(Refusal::Condition);
        }
        if !self.store().is_used_enough(&self.key, settings.min_uses) {
            return Err(Refusal::TooFewUses);
        }
        Ok(storable)
    }

    /// Records a decision, for questions about the reason why a response was not stored.
    pub fn record(&self, request: &Request, status: u16, outcome: Outcome, cause: String) {
        let decision = Decision { at: wall_seconds(), status, outcome, cause: cause.into() };
        self.store().decisions.record(Place::of(request).url, decision);
    }

    /// Returns the key of a response, and keeps its statement about queries for the next requests.
    fn key_of(&self, response: &Response, exchange: &Exchange<'_>) -> Vec<u8> {
        let (settings, request) = (self.settings(), &exchange.request);
        let variance = Variance::of(&response.fields);
        let mut key = Vec::with_capacity(self.key.len());
        let (name, started_at) = (self.origin.name(), exchange.started_at);
        key::write(settings, &name, request, started_at, variance.as_ref(), &mut key);
        let path = Place::of(request).path_subject();
        self.store().variances.learn(&self.owner.name, path, variance);
        key
    }

    /// Returns the end of a response that is being stored.
    fn storing(
        &self,
        key: Vec<u8>,
        storable: storing::Storable,
        inquiry: Inquiry,
        times: Times,
    ) -> tee::Done {
        let (store, owner) = (Arc::clone(self.store()), Arc::clone(&self.owner));
        let max_object = self.settings().max_object;
        Box::new(move |body| {
            let landing = match body {
                Ok(body) => {
                    let entry = storable.with_body(body);
                    match store.insert_current(&key, &owner, entry, &inquiry) {
                        (_, true) => Landing::Stored,
                        (_, false) => Landing::NotShared,
                    }
                }
                Err(refusal) => {
                    let outcome = forwarded(Forward::UriMiss, Some(Err(refusal)));
                    let cause = match refusal {
                        Refusal::Failed => {
                            "an error has ended the script (it is in the log)".to_owned()
                        }
                        Refusal::Incomplete => "the end of the response is missing".to_owned(),
                        Refusal::NoMemory => cause::NO_MEMORY.to_owned(),
                        _ => format!("the body exceeds \"max_object\" ({max_object} bytes)"),
                    };
                    let at = times.received;
                    let decision =
                        Decision { at, status: storable.status(), outcome, cause: cause.into() };
                    store.decisions.record(storable.url(), decision);
                    match refusal {
                        // There may be memory for the next.
                        Refusal::NoMemory => drop(store.counters.refused.fetch_add(1, Relaxed)),
                        _ => store.mark_not_shared(&key, &owner, refusal, times.received),
                    }
                    match refusal {
                        Refusal::TooLarge | Refusal::NoMemory => Landing::NotShared,
                        // Waiting requests may send the stale response.
                        _ => Landing::Failed,
                    }
                }
            };
            inquiry.land(landing);
        })
    }

    /// Sends the waiting requests to the origin.
    fn refuse(&self, refusal: Refusal, inquiry: Inquiry) {
        // A reason that holds for this request need not hold for the next.
        let is_of_request = matches!(
            refusal,
            Refusal::Authorization
                | Refusal::Condition
                | Refusal::Cookie
                | Refusal::RequestNoStore
                | Refusal::TooFewUses
        );
        if !is_of_request {
            self.store().mark_not_shared(&self.key, &self.owner, refusal, wall_seconds());
        }
        drop(inquiry);
    }

    /// Updates a stored response with the 304 that validates it, and sends it.
    #[expect(clippy::too_many_arguments)]
    fn revalidated(
        &self,
        entry: &Arc<Entry>,
        response: &Response,
        asked: &Request,
        request: &Request,
        times: Times,
        inquiry: Inquiry,
        reason: Forward,
    ) -> Answer<'s> {
        let store = self.store();
        store.counters.revalidated.fetch_add(1, Relaxed);
        let outcome = |stored| Outcome::Forwarded { reason, status: Some(304), stored };
        match storing::update(entry, self.settings(), asked, &response.fields, times) {
            Ok(updated) => {
                let (updated, is_stored) =
                    store.insert_current(&self.key, &self.owner, updated, &inquiry);
                inquiry.land(if is_stored { Landing::Stored } else { Landing::NotShared });
                let outcome = outcome(is_stored.then_some(Ok(())));
                (self.respond(&updated, request, outcome, times.received), None)
            }
            Err(refusal) => {
                store.forget(&self.key, entry);
                self.refuse(refusal, inquiry);
                let outcome = outcome(Some(Err(refusal)));
                (self.respond(entry, request, outcome, times.received), None)
            }
        }
    }
}

/// The copies of an entry in other encodings.
struct KeptCopies {
    store: Arc<Store>,
    owner: Arc<Owner>,
    entry: Arc<Entry>,
}

impl CompressedCopies for KeptCopies {
    fn is_of(&self, content: &Bytes) -> bool {
        let Some(stored) = self.entry.body.memory() else { return false };
        content.len() == stored.len() && content.as_ptr() == stored.as_ptr()
    }

    fn get(&self, encoding: Encoding) -> Option<Bytes> {
        self.entry.copies.get(encoding)
    }

    fn claim(&self, encoding: Encoding) -> bool {
        self.entry.copies.claim(encoding)
    }

    fn release(&self, encoding: Encoding) {
        self.entry.copies.release(encoding);
    }

    fn keep(&self, encoding: Encoding, content: Bytes) {
        self.store.keep_copy(&self.owner, &self.entry, encoding, content);
    }
}

impl KernelCopy for KeptCopies {
    fn get(&self, content: &Bytes) -> Option<(Arc<InKernel>, u64)> {
        self.store.in_kernel(&self.owner, &self.entry, content)
    }
}

/// Returns the request to the origin: for the whole response, with the validators of the stored one
/// in place of the client's, and with the normalised fields of `vary`.
fn request_to_origin(request: &Request, stale: Option<&Entry>, settings: &Cache) -> Request {
    const CONDITIONS: [&str; 4] = ["if-none-match", "if-modified-since", "range", "if-range"];
    let changes = vary::accepted_fields(&request.fields, settings);
    let is = |name: &[u8], other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let is_replaced = |name: &[u8]| {
        CONDITIONS.iter().any(|other| is(name, other))
            || changes.iter().any(|(other, _)| is(name, other))
            || (settings.esi && is(name, "accept-encoding"))
    };
    let stale = stale.filter(|entry| entry.has_validator());
    // Parts are put into pages as text.
    let languages = if settings.esi { "Surrogate/1.0 ESI/1.0" } else { "Surrogate/1.0" };
    let capability = format!("{SURROGATE}=\"{languages}\"");
    let kept = request.fields.iter().filter(|(name, _)| !is_replaced(name));
    let accepted = changes
        .iter()
        .filter(|(name, _)| !(settings.esi && is(name.as_bytes(), "accept-encoding")))
        .filter_map(|(name, value)| Some((name.as_bytes(), value.as_deref()?.as_bytes())));
    let mut own = vec![(&b"Surrogate-Capability"[..], capability.as_bytes())];
    if let Some(entry) = stale {
        own.extend(entry.etag.as_deref().map(|tag| (&b"If-None-Match"[..], tag)));
        own.extend(entry.last_modified.as_deref().map(|at| (&b"If-Modified-Since"[..], at)));
    }
    let fields = Fields::from_pairs(kept.chain(accepted).chain(own));
    Request { fields, ..request.clone() }
}

/// Returns the index of the first of the conditions that holds for a request. Paths are compared
/// with the one that the client has sent, and with the one that routes have made of it: `try` and
/// `rewrite` lead all pages of an application to one script, while the conditions are about pages.
pub fn first_met(
    context: &Context<'_>,
    conditions: &[Match],
    exchange: &Exchange<'_>,
) -> Option<usize> {
    if conditions.is_empty() {
        return None;
    }
    let scratch = &mut *context.routing.scratch.borrow_mut();
    // The buffer may have the query of the request before an internal redirect.
    scratch.clear();
    let (request, started_at) = (&exchange.request, exchange.started_at);
    let place = Place::of(request);
    let paths = [&*request.path, place.path()];
    let paths = if paths[0] == paths[1] { &paths[..1] } else { &paths };
    let holds =
        |conditions: &Match| matching::holds_for(conditions, paths, request, started_at, scratch);
    conditions.iter().position(holds)
}

/// Returns the outcome of a request that was sent on.
pub fn forwarded(reason: Forward, stored: Option<Result<(), Refusal>>) -> Outcome {
    Outcome::Forwarded { reason, status: None, stored }
}
