//! Carries out a decision of the routes: runs PHP, asks another server, or sends a response.

use std::sync::Arc;

use howdah_config::{Buffering, Fairness};
use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_http::respond;
use howdah_limits::key;
use howdah_php_pool::dispatch::{self, BodyBuffer};
use howdah_php_pool::request::Flow;
use howdah_upstream::{fastcgi, proxy};

use super::context::Context;
use super::internal_redirect::take_internal_fields;
use crate::route::Decision;
use crate::snapshot::delegations::{Instruction, Producer};

/// Carries out a decision.
pub async fn carry_out<'s>(
    context: &Context<'s>,
    decision: Decision,
    buffering: Buffering,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let thread = context.thread;
    let http = &context.routing.snapshot.config.settings.http;
    let buffer = howdah_upstream::transfer::BufferSettings {
        memory: http.body_buffer_size,
        directory: http.body_temp_path.as_deref().unwrap_or(&thread.shared.tmp),
        buffering,
    };
    match decision {
        Decision::Respond(response) => (response, None),
        Decision::Refuse(status, allow) => (respond::error_allowing(status, allow), None),
        // Only the first decision about a request is taken under directives.
        Decision::Htaccess(..) => (respond::error(500), None),
        // Only `checks` checks limits and passwords; a request that gets here without it is refused.
        Decision::CheckLimits => (respond::error(500), None),
        Decision::Authenticate(_) => (respond::error(401), None),
        // A check by another action is not checked itself.
        Decision::Authorize => (respond::error(500), None),
        Decision::Php(application, script) => {
            let bodies = BodyBuffer {
                memory: http.body_buffer_size,
                directory: match &http.body_temp_path {
                    Some(path) => path.as_path().into(),
                    None => Arc::clone(&thread.shared.tmp),
                },
            };
            let flow = flow(context, &application.config.limits.fair, exchange);
            // Boxed: most requests are for files and need no memory for this large future.
            let run = dispatch::run(&thread.php, bodies, &application, &script, flow, exchange);
            let response = Box::pin(run).await;
            obey(context, response, Producer::Application(&application.name), exchange)
        }
        Decision::FastCgi(site, script) => {
            let run = fastcgi::run(&thread.fastcgi, &site, &script, &buffer, exchange);
            let response = Box::pin(run).await;
            obey(context, response, Producer::Application(site.name()), exchange)
        }
        Decision::Proxy(upstream) => {
            let run = proxy::run(&thread.proxy, &upstream, &buffer, exchange);
            let response = Box::pin(run).await;
            obey(context, response, Producer::Upstream(&upstream.name), exchange)
        }
    }
}

/// Returns the flow of a request in the queue of an application: that of its limits, or else that of
/// the application.
fn flow(context: &Context<'_>, fairness: &Fairness, exchange: &Exchange<'_>) -> Flow {
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
