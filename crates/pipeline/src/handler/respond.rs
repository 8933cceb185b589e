//! Produces the response of a routed request: from the routes themselves, from files under the
//! directives of `.htaccess` files, or from an origin, through the cache if there is one.

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
use super::origin;
use crate::context::Context;
use crate::refusals;

/// A response, and the instruction that it gives to the server, if any.
pub type Answer<'s> = (Response, Option<Instruction<'s>>);

/// Produces the response to a client, whose request body is limited.
pub async fn respond_to_client<'s>(
    context: &Context<'s>,
    decision: Decision,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    let usual = context.routing.snapshot.config.settings.http.max_body_size;
    match exchange.limit_body(routed.effects.max_body_size.map_or(usual, |limit| limit.bytes)) {
        Ok(()) => produce(context, decision, routed, exchange).await,
        Err(error) => (respond::refuse(error), None),
    }
}

/// Produces the response to a request of a client or of the server itself. A path that names
/// nothing under the directives of `.htaccess` files has the fallback of its share.
pub async fn produce<'s>(
    context: &Context<'s>,
    mut decision: Decision,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    loop {
        let changes = routed.effects.response_headers;
        exchange.interim_fields.hidden = changes.iter().map(|it| it.name.as_str().into()).collect();
        let fallback = match carry_out(context, decision, routed, exchange).await {
            Ok(answer) => return answer,
            Err(fallback) => fallback,
        };
        let routing = &context.routing;
        let (mut next, step) =
            routing.route_to_action(fallback, routed.is_internal, &mut exchange.request);
        decision = checks::check(context, step, &mut next, exchange).await;
        *routed = next;
    }
}

/// Carries out a decision. Error: the fallback of a share with `.htaccess` files, for a path that
/// names nothing.
pub async fn carry_out<'s>(
    context: &Context<'s>,
    decision: Decision,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Result<Answer<'s>, &'s Action> {
    let response = match decision {
        Decision::Respond(response) => response,
        Decision::Ask(origin) => {
            return Ok(ask(context, &origin, routed.effects.handling(), exchange).await);
        }
        Decision::Htaccess(site, root) => {
            return directives::apply(context, &site, &root, routed, exchange).await;
        }
        Decision::List(listing) => {
            let listings = &context.thread.shared.listings;
            let listed = exchange.unless_gone(listings.respond(*listing, &exchange.request));
            Box::pin(listed).await.unwrap_or_else(|| respond::refuse(RequestError::ClientGone))
        }
        Decision::Refuse(error) => refusals::refuse(context, exchange, error),
    };
    Ok((response, None))
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
