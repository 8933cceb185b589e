//! Produces the response of a routed request that was checked, under the directives of `.htaccess`
//! files where the site has them.

use howdah_http::exchange::Exchange;

use super::context::Context;
use super::decision::carry_out;
use super::fetch::Answer;
use crate::htaccess::{self, Site};
use crate::route::{Decision, Routed};
use crate::snapshot::action::Action;

/// Produces the response of a routed request. Error: the fallback of a share with `.htaccess` files, for
/// a path that names nothing.
pub async fn answer<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Result<Answer<'s>, &'s Action> {
    match routed.take_decision() {
        Decision::Htaccess(site, root) => {
            under_directives(context, &site, &root, routed, exchange).await
        }
        decision => Ok(carry_out(context, decision, routed.effects.handling(), exchange).await),
    }
}

async fn under_directives<'s>(
    context: &Context<'s>,
    site: &Site,
    root: &[u8],
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Result<Answer<'s>, &'s Action> {
    let known = htaccess::known(context, site, root);
    if let Some(known) = &known
        && let Some(response) = htaccess::answer_from_known(context, site, root, known, exchange)
    {
        return Ok((response, None));
    }
    let handling = routed.effects.handling();
    let answered = htaccess::answer(context, site, root, known, handling, exchange);
    let answered = Box::pin(answered).await;
    match routed.fallback.take().filter(|_| answered.is_missing) {
        Some(fallback) => Err(fallback),
        None => Ok((answered.response, answered.instruction)),
    }
}
