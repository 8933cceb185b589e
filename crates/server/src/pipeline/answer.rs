//! Produces the response of a request: from PHP, a FastCGI server, an upstream, or the routes
//! themselves.

use howdah_http::exchange::Exchange;
use howdah_http::message::Response;

use super::checks;
use super::context::Context;
use super::decision::carry_out;
use crate::htaccess::{self, Site};
use crate::route::{Decision, Routed};
use crate::snapshot::delegations::Instruction;

/// Produces the response of a routed request whose body is within the size limit. Also returns the
/// instruction that the response gives to the server, if any.
pub async fn answer<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let usual = context.routing.snapshot.config.settings.http.max_body_size;
    match exchange.limit_body(routed.effects.max_body_size.unwrap_or(usual)) {
        Ok(()) => answer_routed(context, routed, exchange).await,
        Err(error) => (howdah_upstream::failure::refuse(error.status()), None),
    }
}

/// Produces the response of a routed request, of a client or of the server itself.
pub async fn answer_routed<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    match routed.take_decision() {
        Decision::Htaccess(site, root) => {
            under_directives(context, &site, &root, routed, exchange).await
        }
        decision => carry_out(context, decision, routed.effects.handling(), exchange).await,
    }
}

/// Answers under the directives of `.htaccess` files. A path that names nothing has the fallback of the
/// share.
async fn under_directives<'s>(
    context: &Context<'s>,
    site: &Site,
    root: &[u8],
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let handling = routed.effects.handling();
    let known = htaccess::known(context, site, root);
    if let Some(known) = &known
        && let Some(response) = htaccess::answer_from_known(context, site, root, known, exchange)
    {
        return (response, None);
    }
    let answered = htaccess::answer(context, site, root, known, handling, exchange);
    let answered = Box::pin(answered).await;
    let Some(fallback) = routed.fallback.take().filter(|_| answered.is_missing) else {
        return (answered.response, answered.instruction);
    };
    let mut next = match routed.is_internal {
        true => context.routing.route_internally(fallback, &mut exchange.request),
        false => context.routing.route_to_action(fallback, &mut exchange.request),
    };
    checks::check(context, &mut next, exchange).await;
    let decision = next.take_decision();
    routed.effects = next.effects;
    carry_out(context, decision, routed.effects.handling(), exchange).await
}
