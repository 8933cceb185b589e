//! The cache in front of an origin ([`howdah_cache`] has its rules).
//!
//! 1. `PURGE` and `BAN` of allowed clients purge.
//! 2. Requests that the cache takes no part in are passed on: other methods, bodies, conditions of
//!    `bypass`. Requests that change something make stored responses invalid.
//! 3. A usable response is sent. A stale one that may bridge its own refresh is refreshed in a task
//!    without a client.
//! 4. Otherwise the first request asks the origin; others for the same response wait for it.
//! 5. The response is validated or judged, and sent to the client while it is being stored.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::Bytes;
use howdah_cache::cause::Bypass;
use howdah_cache::control::RequestControl;
use howdah_cache::entry::Entry;
use howdah_cache::flight::{Follower, Landing, Role};
use howdah_cache::memory::Owner;
use howdah_cache::place::Place;
use howdah_cache::purge::Purge;
use howdah_cache::reuse::{Use, assess};
use howdah_cache::status::{Forward, Outcome, StaleUse};
use howdah_cache::store::Lookup;
use howdah_cache::{esi, invalidation, key, purge_request};
use howdah_config::Cache;
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response};
use howdah_http::respond::refuse;
use howdah_http::target::Target;
use howdah_routing::route::Origin;
use howdah_routing::snapshot::action::ActionCache;
use howdah_routing::snapshot::effects::Handling;
use howdah_sys::clock::wall_seconds;

use super::fetch::{Fetch, Stale, Step, first_met, forwarded};
use super::origin::ask;
use super::refresh;
use super::respond::Answer;
use crate::context::Context;
use crate::refusals;

/// Answers a request from a cache or its origin, and notes the times for its trace.
pub async fn ask_through_cache<'s>(
    context: &Context<'s>,
    cache: &'s ActionCache,
    origin: &Origin,
    handling: Handling<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    let is_traced = exchange.request.handling.tracing().is_some();
    let began = is_traced.then(|| exchange.started_at.elapsed());
    let answer = answer(context, cache, origin, handling, exchange).await;
    if let Some(began) = began {
        exchange.request.handling.set_looked_up(began, exchange.started_at.elapsed());
    }
    answer
}

async fn answer<'s>(
    context: &Context<'s>,
    cache: &'s ActionCache,
    origin: &Origin,
    handling: Handling<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    let name = origin.name();
    let owner = cache.store.owner(&name);
    if let Some(response) = purge(cache, &owner, &exchange.request) {
        return (response, None);
    }
    // Only this cache states its capabilities: a response that depends on those of a client is not
    // for other clients.
    if exchange.request.fields.iter().any(|(name, _)| esi::is_capability(name)) {
        exchange.request.fields.retain(|name| !esi::is_capability(name));
    }
    let mut key = Vec::with_capacity(128);
    let has_key = write_key(cache, origin, &exchange.request, exchange.started_at, &mut key);
    let settings = &*cache.settings;
    let step = Step { context, cache, origin, handling, key, owner };
    if !invalidation::is_safe(&exchange.request.method) {
        let (mut response, instruction) =
            ask(context, origin, step.handling.clone(), exchange).await;
        if response.status < 400 {
            step.invalidate(&exchange.request, &response);
        }
        step.show(&exchange.request, &mut response, forwarded(Forward::Method, None));
        return (response, instruction);
    }
    match passes(context, settings, exchange, has_key) {
        Some(Pass::Method) => step.pass(Forward::Method, None, exchange).await,
        Some(Pass::Bypass(why)) => step.pass(Forward::Bypass, Some(why), exchange).await,
        None => step.look_up(exchange).await,
    }
}

/// Appends the key of a request, which depends on the statement of the last response of its path
/// about queries. Returns false if it is too long.
fn write_key(
    cache: &ActionCache,
    origin: &Origin,
    request: &Request,
    started_at: Instant,
    key: &mut Vec<u8>,
) -> bool {
    let variance = cache.store.variances.get(|| Place::of(request).path_subject());
    key::write(&cache.settings, &origin.name(), request, started_at, variance.as_deref(), key)
}

/// Purges as a client asks. Returns `None` for any other request, and where clients may not purge.
fn purge(cache: &ActionCache, owner: &Owner, request: &Request) -> Option<Response> {
    if !purge_request::is_purge(&request.method) {
        return None;
    }
    let allowed = cache.settings.purge.as_ref()?;
    if !allowed.matches(request.connection.peer) {
        return Some(refuse(RequestError::Forbidden));
    }
    Some(match purge_request::read(request) {
        Ok(asked) => {
            cache.store.purge_of(owner, &asked.what, asked.is_soft, wall_seconds());
            let text = "Purged.\n";
            Response::new(200, Body::from(text)).with("Content-Type", "text/plain")
        }
        Err(problem) => {
            let text = Bytes::from(format!("Not purged: {problem}.\n"));
            Response::new(400, Body::Bytes(text)).with("Content-Type", "text/plain")
        }
    })
}

/// Reason for which the cache takes no part in a request.
enum Pass {
    Method,
    Bypass(Bypass),
}

/// Returns the reason for which the cache takes no part in a request.
fn passes(
    context: &Context<'_>,
    settings: &Cache,
    exchange: &Exchange<'_>,
    has_key: bool,
) -> Option<Pass> {
    let request = &exchange.request;
    let is_cached = match &*request.method {
        b"GET" => settings.get,
        b"HEAD" => settings.head,
        _ => false,
    };
    if !is_cached {
        return Some(Pass::Method);
    }
    // Conditions that are not for caches (RFC 9111, 4.3.2), and another protocol.
    const FOR_ORIGIN: [&str; 3] = ["Upgrade", "If-Match", "If-Unmodified-Since"];
    let why = if !has_key {
        Bypass::KeyTooLong
    } else if exchange.body_len() != Some(0) {
        Bypass::Body
    } else if request.error.is_some() {
        Bypass::ErrorPage
    } else if let Some(name) = FOR_ORIGIN.iter().find(|name| {
        request.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
    }) {
        Bypass::Field(name)
    } else {
        Bypass::Condition(first_met(context, &settings.bypass, exchange)? + 1)
    };
    Some(Pass::Bypass(why))
}

impl<'s> Step<'_, 's> {
    /// Passes a request on without a part of the cache.
    async fn pass(
        &self,
        reason: Forward,
        why: Option<Bypass>,
        exchange: &mut Exchange<'_>,
    ) -> Answer<'s> {
        self.store().counters.bypassed.fetch_add(1, Relaxed);
        let asked = ask(self.context, self.origin, self.handling.clone(), exchange);
        let (mut response, instruction) = asked.await;
        let outcome = forwarded(reason, None);
        if let Some(why) = why {
            let (request, status) = (&exchange.request, response.status);
            self.record(request, status, outcome, why.cause(request));
        }
        self.show(&exchange.request, &mut response, outcome);
        (response, instruction)
    }

    /// Answers a request that may have a stored response.
    async fn look_up(&self, exchange: &mut Exchange<'_>) -> Answer<'s> {
        let (settings, store, now) = (self.settings(), self.store(), wall_seconds());
        let request = &exchange.request;
        let control = if settings.ignore.request {
            RequestControl::default()
        } else {
            RequestControl::of(&request.fields)
        };
        let mut waits = settings.lock;
        let (mut stale, mut why) = (None, None);
        let reason = match store.find(&self.key, &request.fields, settings, now).await {
            Lookup::Missing => Forward::UriMiss,
            Lookup::OtherVariants => Forward::VaryMiss,
            Lookup::NotShared(_) => {
                waits = false;
                Forward::UriMiss
            }
            Lookup::Found(entry, _) if !self.may_use(&entry, request) => {
                why = Some(Bypass::StoredWithoutCookies);
                Forward::Bypass
            }
            Lookup::Found(entry, purged) => match assess(&entry, &control, purged, now) {
                Use::Fresh => return self.hit(&entry, request, None, false),
                Use::Stale => return self.hit(&entry, request, Some(StaleUse::MaxStale), false),
                Use::WhileRevalidating => match self.refresh(&entry, request) {
                    Some(stale_use) => {
                        return self.hit(&entry, request, Some(stale_use), false);
                    }
                    None => {
                        stale = Some(Stale { entry, on_error: true });
                        Forward::Stale
                    }
                },
                Use::AfterValidation { on_error } => {
                    let is_fresh = purged.is_none() && entry.age(now) < entry.terms.lifetime;
                    stale = Some(Stale { entry, on_error });
                    if is_fresh { Forward::Request } else { Forward::Stale }
                }
            },
        };
        if control.only_if_cached {
            let mut response = refusals::refuse(self.context, exchange, RequestError::NotCached);
            self.show(&exchange.request, &mut response, Outcome::NotForwarded);
            return (response, None);
        }
        if &*request.method == b"HEAD" {
            return self.pass_head(reason, stale, exchange).await;
        }
        if stale.is_none() && request.fields.get("range").is_some() {
            return self.pass(Forward::Partial, None, exchange).await;
        }
        let leader = match store.flights.join(&self.key) {
            Role::Leader(leader) => Some(leader),
            Role::Follower(follower) if waits => {
                let waited = self.wait(follower, stale.as_ref(), now, &control, exchange);
                if let Some(answer) = waited.await {
                    return answer;
                }
                None
            }
            Role::Follower(_) => None,
        };
        store.counters.misses.fetch_add(1, Relaxed);
        self.fetch(Fetch { reason, why, stale, leader }, exchange).await
    }

    /// Returns true if a stored response may answer a request with cookies: it states its lifetime
    /// itself, or the configuration considers cookies.
    fn may_use(&self, entry: &Entry, request: &Request) -> bool {
        entry.terms.is_explicit()
            || request.fields.get("cookie").is_none()
            || self.settings().considers_cookies()
    }

    /// Sees to it that a stale response is refreshed. Returns `None` if this request has to do it.
    fn refresh(&self, entry: &Arc<Entry>, request: &Request) -> Option<StaleUse> {
        match self.store().flights.join(&self.key) {
            Role::Follower(_) => Some(StaleUse::Updating),
            Role::Leader(leader) if self.settings().background => {
                refresh::start(self, Arc::clone(entry), leader, request.clone());
                Some(StaleUse::Refreshing)
            }
            Role::Leader(_) => None,
        }
    }

    /// Waits for the first of several requests for one response. Returns `None` if this request has
    /// to ask the origin itself.
    async fn wait(
        &self,
        follower: Follower,
        stale: Option<&Stale>,
        since: u64,
        control: &RequestControl,
        exchange: &Exchange<'_>,
    ) -> Option<Answer<'s>> {
        let landing = tokio::select! {
            landing = follower.wait() => landing,
            () = tokio::time::sleep(self.settings().lock_timeout) => Landing::Pending,
            _ = exchange.client_gone() => Landing::NotShared,
        };
        if let (Landing::Failed, Some(Stale { entry, on_error: true })) = (landing, stale) {
            return Some(self.hit(entry, &exchange.request, Some(StaleUse::IfError), true));
        }
        if landing != Landing::Stored || control.no_cache {
            return None;
        }
        let (request, settings, now) = (&exchange.request, self.settings(), wall_seconds());
        // The response may have stated the queries that it depends on.
        let mut key = Vec::with_capacity(self.key.len());
        write_key(self.cache, self.origin, request, exchange.started_at, &mut key);
        let found = self.store().find(&key, &request.fields, settings, now).await;
        let Lookup::Found(entry, purged) = found else { return None };
        // A response that was made while this request waited is as good as one made for it.
        let is_new = entry.terms.received >= since && !entry.terms.no_cache && purged.is_none();
        let is_usable = is_new || assess(&entry, control, purged, now) == Use::Fresh;
        (is_usable && self.may_use(&entry, request)).then(|| self.hit(&entry, request, None, true))
    }

    /// Makes the responses invalid that a response to an unsafe method concerns.
    fn invalidate(&self, request: &Request, response: &Response) {
        let store = self.store();
        store.invalidate(&self.key);
        if key::certificate(request).is_some() {
            // Clients with other certificates have responses of their own.
            store.purge_quietly(&self.owner, &url_of(request), wall_seconds());
        }
        store.tell_peers(Some(&self.owner), &url_of(request), false);
        let mut plain;
        let mut request = request;
        if request.fields.iter().any(|(name, _)| key::is_method(name)) {
            // Responses to GET requests do not have the method that this one is sent in place of.
            plain = request.clone();
            plain.fields.retain(|name| !key::is_method(name));
            request = &plain;
            let mut key = Vec::new();
            if write_key(self.cache, self.origin, request, Instant::now(), &mut key) {
                store.invalidate(&key);
            }
        }
        for target in invalidation::targets(request, &response.fields) {
            let Ok(parsed) = Target::parse(&target) else { continue };
            let mut other = request.clone();
            other.path = Bytes::copy_from_slice(parsed.path(&target));
            other.query = Bytes::copy_from_slice(target.get(parsed.query).unwrap_or_default());
            other.target = target.into();
            let mut key = Vec::new();
            if write_key(self.cache, self.origin, &other, Instant::now(), &mut key) {
                store.invalidate(&key);
            }
            let url = url_of(&other);
            if request.path != Place::of(request).path() {
                // A route has changed the path, and thereby the key.
                store.purge_quietly(&self.owner, &url, wall_seconds());
            }
            store.tell_peers(Some(&self.owner), &url, false);
        }
    }
}

/// Returns the purge of a request's URL.
fn url_of(request: &Request) -> Purge {
    let place = Place::of(request);
    let (host, path) = (place.host().to_vec(), place.path().to_vec());
    Purge::Url { host, path, query: place.query.to_vec() }
}
