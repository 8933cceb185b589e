//! Produces the response of a request: from PHP, a FastCGI server, an upstream, or the routes
//! themselves.

use howdah_http::exchange::Exchange;
use howdah_http::message::Response;

use super::checks;
use super::context::Context;
use super::directives;
use crate::route::Routed;
use crate::snapshot::delegations::Instruction;

/// Produces the response of a routed request whose body is within the size limit. Also returns the
/// instruction that the response gives to the server, if any.
pub async fn answer<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let usual = context.routing.snapshot.config.settings.http.max_body_size;
    match exchange.limit_body(routed.effects.max_body_size.map_or(usual, |limit| limit.bytes)) {
        Ok(()) => answer_routed(context, routed, exchange).await,
        Err(error) => (howdah_upstream::failure::refuse(error.status()), None),
    }
}

/// Produces the response of a routed request, of a client or of the server itself. A path that names
/// nothing under the directives of `.htaccess` files has the fallback of its share.
pub async fn answer_routed<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    loop {
        let changes = routed.effects.response_headers;
        exchange.interim_fields.hidden = changes.iter().map(|it| it.name.as_str().into()).collect();
        let fallback = match directives::answer(context, routed, exchange).await {
            Ok(answer) => return answer,
            Err(fallback) => fallback,
        };
        let mut next = match routed.is_internal {
            true => context.routing.route_internally(fallback, &mut exchange.request),
            false => context.routing.route_to_action(fallback, &mut exchange.request),
        };
        checks::check(context, &mut next, exchange).await;
        *routed = next;
    }
}
