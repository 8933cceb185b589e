//! Produces the response of a routed request: from the routes themselves, from files under the
//! directives of `.htaccess` files, or from an origin, through the cache if there is one.

use howdah_http::body::BodyError;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_http::respond;
use howdah_routing::route::{Decision, Origin, Routed};
use howdah_routing::snapshot::action::Action;
use howdah_routing::snapshot::delegations::Instruction;
use howdah_routing::snapshot::effects::Handling;

use super::cached;
use super::checks;
use super::directives;
use super::esi;
use super::origin;
use crate::context::Context;
use crate::probes;
use crate::refusals;

/// A response, and the instruction that it gives to the server, if any.
pub type Answer<'s> = (Response, Option<Instruction<'s>>);

/// Limits the body of a request from a client. Error: the announced length is greater.
pub fn limit_body(
    context: &Context<'_>,
    routed: &Routed<'_>,
    exchange: &Exchange<'_>,
) -> Result<(), BodyError> {
    exchange.limit_body(max_body_size(context, routed))
}

/// Returns the limit for bodies of the actions on the way of a request.
pub fn max_body_size(context: &Context<'_>, routed: &Routed<'_>) -> u64 {
    let usual = context.routing.snapshot.config.settings.http.max_body_size;
    routed.effects.max_body_size.map_or(usual, |limit| limit.bytes)
}

/// Lets a share with `.htaccess` files that runs no scripts answer a request or leave it to its
/// fallback. The options of all actions are then known before the body is read.
pub async fn settle<'s>(
    context: &Context<'s>,
    mut decision: Decision,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Decision {
    loop {
        if routed.is_uncached {
            routed.effects.cache = None;
        }
        esi::prepare(&decision, &routed.effects, &mut exchange.request);
        let (site, root) = match decision {
            Decision::Htaccess(site, root) if site.scripts.is_none() => (site, root),
            settled => return settled,
        };
        let applied = directives::apply(context, &site, &root, routed, exchange).await;
        decision = match applied {
            Ok((response, _)) => return Decision::Respond(response),
            Err(fallback) => fall_back(context, fallback, routed, exchange).await,
        };
    }
}

/// Continues with the fallback of a share with `.htaccess` files.
async fn fall_back<'s>(
    context: &Context<'s>,
    fallback: &'s Action,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Decision {
    let step = context.routing.fall_back(fallback, routed, &mut exchange.request);
    if routed.is_check {
        step.without_checks()
    } else {
        checks::check(context, step, routed, exchange).await
    }
}

/// Produces the response to a request of a client or of the server itself. A path that names no
/// file under the directives of `.htaccess` files has the fallback of its share.
pub async fn produce<'s>(
    context: &Context<'s>,
    mut decision: Decision,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    loop {
        decision = settle(context, decision, routed, exchange).await;
        let changes = routed.effects.response_headers;
        let hidden = changes.iter().filter(|it| it.change.hides());
        exchange.interim_fields.hidden = hidden.map(|it| it.name.as_str().into()).collect();
        let response = match decision {
            Decision::Respond(response) => response,
            Decision::File(file) => {
                let now = context.routing.now.wall;
                context.thread.files.file_response(&file, &exchange.request, now)
            }
            Decision::Ask(origin) => {
                return ask(context, &origin, routed.effects.handling(), exchange).await;
            }
            Decision::Htaccess(site, root) => {
                let applied = directives::apply(context, &site, &root, routed, exchange).await;
                let fallback = match applied {
                    Ok(answer) => return answer,
                    Err(fallback) => fallback,
                };
                decision = fall_back(context, fallback, routed, exchange).await;
                if let Err(error) = limit_body(context, routed, exchange) {
                    decision = Decision::Refuse(error.into());
                }
                continue;
            }
            Decision::List(listing) => {
                let listings = &context.thread.shared.listings;
                let listed = exchange.unless_gone(listings.respond(*listing, &exchange.request));
                Box::pin(listed).await.unwrap_or_else(|| respond::refuse(RequestError::ClientGone))
            }
            Decision::Metrics => {
                let metrics = context.thread.shared.metrics.respond(&exchange.request);
                let written = exchange.unless_gone(metrics);
                Box::pin(written).await.unwrap_or_else(|| respond::refuse(RequestError::ClientGone))
            }
            Decision::Live => probes::live(&exchange.request),
            Decision::Ready => {
                let readiness = context.thread.shared.readiness.respond(&exchange.request);
                let answered = exchange.unless_gone(readiness);
                Box::pin(answered)
                    .await
                    .unwrap_or_else(|| respond::refuse(RequestError::ClientGone))
            }
            Decision::Refuse(error) => refusals::refuse(context, exchange, error),
        };
        return (response, None);
    }
}

/// Asks an origin, through the cache if there is one.
pub async fn ask<'s>(
    context: &Context<'s>,
    origin: &Origin,
    handling: Handling<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    match handling.cache {
        None => origin::ask(context, origin, handling, exchange).await,
        Some(cache) => {
            let asked = cached::ask_through_cache(context, cache, origin, handling, exchange);
            Box::pin(asked).await
        }
    }
}
