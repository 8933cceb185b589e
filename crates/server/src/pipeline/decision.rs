//! Carries out a decision of the routes: sends a response, or that of its origin, through the cache
//! if there is one.

use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_http::respond;

use super::cached;
use super::context::Context;
use super::origin::{self, Origin};
use super::refusals;
use crate::route::Decision;
use crate::snapshot::delegations::Instruction;
use crate::snapshot::effects::Handling;

/// Carries out a decision.
pub async fn carry_out<'s>(
    context: &Context<'s>,
    decision: Decision,
    handling: Handling<'s>,
    exchange: &mut Exchange<'_>,
) -> (Response, Option<Instruction<'s>>) {
    let origin = match decision {
        Decision::Respond(response) => return (response, None),
        Decision::List(listing) => {
            let listings = &context.thread.shared.listings;
            let listed = exchange.unless_gone(listings.respond(*listing, &exchange.request));
            return (Box::pin(listed).await.unwrap_or_else(refusals::client_gone), None);
        }
        Decision::NotRunning => {
            let reason = "the application of \"ping\" does not run; lines with its name say why";
            refusals::write(context, exchange, 503, reason);
            return (respond::error(503), None);
        }
        Decision::Refuse(status, allow) => return (respond::error_allowing(status, allow), None),
        // `directives` takes these.
        Decision::Htaccess(..) => return (respond::error(500), None),
        // Only `checks` checks limits and passwords; a request that gets here without it is refused.
        Decision::CheckLimits => return (respond::error(500), None),
        Decision::Authenticate(_) => return (respond::error(401), None),
        // A check by another action is not checked itself.
        Decision::Authorize => return (respond::error(500), None),
        Decision::Php(application, script) => Origin::Php(application, script),
        Decision::FastCgi(site, script) => Origin::FastCgi(site, script),
        Decision::Proxy(upstream) => Origin::Proxy(upstream),
    };
    match handling.cache {
        None => origin::ask(context, &origin, handling, exchange).await,
        Some(cache) => {
            let answer = cached::answer(context, cache, &origin, handling, exchange);
            Box::pin(answer).await
        }
    }
}
