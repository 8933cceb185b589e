//! Replaces the server's own error pages with configured ones.

use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_routing::route::Routed;
use howdah_routing::snapshot::action::{ErrorPage, PageSource};

use super::respond::produce;
use crate::context::Context;
use crate::filters::error_page;

/// Replaces the server's own page if an action on the request's way has another one for its status.
/// The server's own page stays if the other one cannot be made.
pub async fn replace<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &Exchange<'_>,
    response: &mut Response,
) {
    if let Some(page) = error_page::page_for(&routed.effects, response) {
        Box::pin(replace_by(context, page, routed, exchange, response)).await;
    }
}

async fn replace_by<'s>(
    context: &Context<'s>,
    page: &'s ErrorPage,
    routed: &mut Routed<'s>,
    exchange: &Exchange<'_>,
    response: &mut Response,
) {
    match &page.source {
        PageSource::File { files, path } => {
            let (cache, now) = (&context.thread.files, context.routing.now);
            let found = error_page::file(files, path, cache, &exchange.request, now);
            if let Some(found) = found {
                error_page::replace(response, found, true);
            }
        }
        PageSource::Action { action, keep_status } => {
            let mut request = error_page::request(&exchange.request, response.status);
            let (mut by_page, step) = context.routing.route_internally(action, &mut request);
            let connection = exchange.without_body();
            let mut asked = Exchange::new(request, exchange.started_at, &connection);
            let answered = produce(context, step.without_checks(), &mut by_page, &mut asked);
            let (found, _) = Box::pin(answered).await;
            let effects = by_page.effects;
            if !found.is_default_error_page {
                error_page::replace(response, found, *keep_status);
                routed.effects.response_headers = effects.response_headers;
                routed.effects.compress &= effects.compress;
            }
        }
    }
}
