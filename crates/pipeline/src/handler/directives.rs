//! Answers requests to directories with `.htaccess` files: the directives decide, and their scripts
//! are run as any other script.

use howdah_http::exchange::Exchange;
use howdah_http::message::Request;
use howdah_routing::htaccess_state::site::Site;
use howdah_routing::route::Routed;
use howdah_routing::snapshot::action::Action;
use howdah_routing::snapshot::effects::Handling;

use super::respond::{Answer, ask, max_body_size};
use crate::context::Context;
use crate::htaccess::{self, Answered, Known, Reply, ScriptRun, SiteRequest};

/// Produces the response of a routed request under the directives of a site. Error: the fallback of
/// a share, for a path that names no file.
pub async fn apply<'s>(
    context: &Context<'s>,
    site: &Site,
    root: &[u8],
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Result<Answer<'s>, &'s Action> {
    let known = htaccess::known(context, site, root);
    if let Some(known) = &known
        && let Some(response) = htaccess::file_with_known_head(context, site, root, known, exchange)
    {
        return Ok((response, None));
    }
    let answered = Box::pin(ask_engine(context, site, root, known, routed, exchange)).await;
    match routed.fallback.take().filter(|_| answered.is_missing) {
        Some(fallback) => Err(fallback),
        None => Ok((answered.response, answered.instruction)),
    }
}

async fn ask_engine<'s>(
    context: &Context<'s>,
    site: &Site,
    root: &[u8],
    known: Option<Known<'_>>,
    routed: &Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Answered<'s> {
    let asked = exchange.request.clone();
    let max_body_size = max_body_size(context, routed);
    let begun =
        SiteRequest::begin(context, site, root, max_body_size, &asked, known, exchange).await;
    let mut request = match begun {
        Ok(request) => request,
        Err(answered) => return answered,
    };
    let mut reply = request.next(exchange).await;
    loop {
        let mut run = match reply {
            Reply::Answered(answered) => return answered,
            Reply::Run(run) => run,
        };
        let handling = routed.effects.handling();
        let answer = run_script(context, &mut run, &asked, handling, exchange).await;
        reply = request.finish_script(*run, answer, exchange).await;
    }
}

/// Runs a script with the request that the directives have made of `asked`.
async fn run_script<'s>(
    context: &Context<'s>,
    run: &mut ScriptRun,
    asked: &Request,
    handling: Handling<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    let changed = std::mem::replace(&mut run.request, asked.clone());
    let interim_fields = std::mem::take(&mut run.interim_fields);
    if run.is_body_read {
        let connection = exchange.without_body();
        let mut asked = Exchange::new(changed, exchange.started_at, &connection);
        asked.interim_fields = interim_fields;
        return Box::pin(ask(context, &run.origin, handling, &mut asked)).await;
    }
    exchange.request = changed;
    exchange.interim_fields = interim_fields;
    let answer = Box::pin(ask(context, &run.origin, handling, exchange)).await;
    // The application that has run the script is known from now on.
    let handling = std::mem::take(&mut exchange.request.handling);
    exchange.request = Request { handling, ..asked.clone() };
    answer
}
