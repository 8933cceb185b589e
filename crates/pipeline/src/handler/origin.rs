//! Asks the program or server that a response comes from: PHP, a FastCGI server, an HTTP server.

use std::sync::{Arc, LazyLock};

use howdah_cache::memory;
use howdah_cache::purge::Purge;
use howdah_cache::store::Store;
use howdah_config::{Fairness, ServerOptions};
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response};
use howdah_limits::key;
use howdah_php_pool::dispatch::{self, BodyBuffer};
use howdah_php_pool::request::{Flow, Purger};
use howdah_routing::route::Origin;
use howdah_routing::snapshot::action::ActionCache;
use howdah_routing::snapshot::delegations::{Instruction, Producer};
use howdah_routing::snapshot::effects::Handling;
use howdah_sys::clock::wall_seconds;
use howdah_upstream::{fastcgi, http2, proxy};

use super::internal_redirect::take_internal_fields;
use crate::context::Context;
use crate::filters::own_tags;

/// Options of requests whose actions have none.
static USUAL_OPTIONS: LazyLock<Arc<ServerOptions>> = LazyLock::new(Arc::default);

/// Asks the origin, with the entity tags that it has given. Also returns the instruction that the
/// response gives to the server, if any.
pub async fn ask<'s>(
    context: &Context<'s>,
    origin: &Origin,
    handling: Handling<'_>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let is_restored = handling.restores_tags && context.routing.snapshot.compression.is_some();
    let fields = is_restored.then(|| own_tags::restored(&exchange.request.fields)).flatten();
    let Some(fields) = fields else { return ask_as_is(context, origin, handling, exchange).await };
    let of_client = std::mem::replace(&mut exchange.request.fields, fields);
    let answer = Box::pin(ask_as_is(context, origin, handling, exchange)).await;
    exchange.request.fields = of_client;
    answer
}

/// Asks the origin. Also returns the instruction that the response gives to the server, if any.
async fn ask_as_is<'s>(
    context: &Context<'s>,
    origin: &Origin,
    handling: Handling<'_>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let thread = context.thread;
    let http = &context.routing.snapshot.config.settings.http;
    let owner = exchange.request.owner();
    let buffer = howdah_upstream::transfer::BufferSettings {
        memory: http.body_buffer_size,
        directory: http.body_temp_path.as_deref().unwrap_or(&thread.shared.tmp),
        owner: &owner,
        buffering: handling.buffering,
    };
    let options = handling.servers.as_ref().unwrap_or(&USUAL_OPTIONS);
    match origin {
        Origin::Php(application, script) => {
            let bodies = body_buffer(context);
            let flow = flow(context, &application.config.limits.fair, exchange);
            // Boxed: most requests are for files and need no memory for this large future.
            let purger = handling.cache.map(|cache| {
                Arc::new(CachePurger::new(cache, &origin.name(), &exchange.request))
                    as Arc<dyn Purger>
            });
            let run =
                dispatch::run(&thread.php, bodies, application, script, flow, purger, exchange);
            let response = Box::pin(run).await;
            obey(context, response, Producer::Application(&application.name), exchange)
        }
        Origin::FastCgi(site, script) => {
            let run = fastcgi::run(&thread.fastcgi, site, script, &buffer, options, exchange);
            let response = Box::pin(run).await;
            obey(context, response, Producer::Application(&site.name), exchange)
        }
        Origin::Proxy(upstream) => {
            // No action on the way may change what this process is told about the client.
            let options = if upstream.is_dashboard() { &USUAL_OPTIONS } else { options };
            let response = if upstream.config.http2 {
                let run = http2::run(&thread.proxy, upstream, &buffer, options, exchange);
                Box::pin(run).await
            } else {
                let run = proxy::run(&thread.proxy, upstream, &buffer, options, exchange);
                Box::pin(run).await
            };
            obey(context, response, Producer::Upstream(&upstream.name), exchange)
        }
    }
}

/// Returns the buffer for the body of a request to an application.
pub fn body_buffer(context: &Context<'_>) -> BodyBuffer {
    let http = &context.routing.snapshot.config.settings.http;
    BodyBuffer {
        memory: http.body_buffer_size,
        directory: match &http.body_temp_path {
            Some(path) => path.as_path().into(),
            None => Arc::clone(&context.thread.shared.tmp),
        },
    }
}

/// Returns the flow of a request in the queue of an application: that of its limits, or else that
/// of the application.
pub fn flow(context: &Context<'_>, fairness: &Fairness, exchange: &Exchange<'_>) -> Flow {
    if let Some((key, max)) = context.admission.borrow().processes {
        return Flow { key: key.get(), max_running: Some(max) };
    }
    let template = match fairness {
        Fairness::Arrival => return Flow::default(),
        Fairness::Clients => None,
        Fairness::Key(template) => Some(template),
    };
    let mut text = Vec::new();
    key::write(template, &exchange.request, exchange.started_at, &mut text);
    Flow { key: key::hash(&text).get(), max_running: None }
}

/// Removes the internal fields from a response. Returns the instruction in them if the producer of
/// the response may give it.
fn obey<'s>(
    context: &Context<'s>,
    mut response: Response,
    producer: Producer<'_>,
    exchange: &Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let fields = take_internal_fields(&mut response);
    let granted = context.routing.snapshot.delegations.grant(fields, producer);
    let instruction = granted.unwrap_or_else(|problem| {
        context.log_error(&exchange.request, format_args!("the response has {problem}"));
        None
    });
    (response, instruction)
}

/// The cache of the action that a request has met, for `howdah_cache_purge()`: its script may purge
/// responses of its application and the request's host.
#[derive(Debug)]
pub struct CachePurger {
    store: Arc<Store>,
    owner: Arc<memory::Owner>,
    host: Vec<u8>,
}

impl CachePurger {
    /// Returns the purger for the script of a request, limited to the request's host.
    pub fn new(cache: &ActionCache, origin: &[u8], request: &Request) -> CachePurger {
        let (store, owner) = (Arc::clone(&cache.store), cache.store.owner(origin));
        CachePurger { store, owner, host: request.host.to_vec() }
    }
}

impl Purger for CachePurger {
    fn purge(&self, is_all: bool, is_soft: bool, tags: Vec<Vec<u8>>) {
        let host = self.host.clone();
        let what = if is_all { Purge::Host(host) } else { Purge::Tags { host: Some(host), tags } };
        self.store.purge_of(&self.owner, &what, is_soft, wall_seconds());
    }
}
