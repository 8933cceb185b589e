//! Follows the instructions that responses give to the server, and those of the responses that
//! result.

use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Response, shown_target};
use howdah_http::respond::refuse;
use howdah_routing::route::Routed;
use howdah_routing::snapshot::delegations::Instruction;

use super::checks;
use super::internal_redirect::{self, MAX_REDIRECTS};
use super::respond::produce;
use crate::context::Context;

/// Replaces a response with the one that its instruction leads to.
pub async fn follow<'s>(
    context: &Context<'s>,
    instruction: Instruction<'s>,
    routed: &mut Routed<'s>,
    exchange: &Exchange<'_>,
    response: &mut Response,
) {
    let routing = &context.routing;
    let mut next = Some(instruction);
    // The request that the last response is for.
    let mut last = exchange.request.clone();
    for _ in 0..MAX_REDIRECTS {
        let redirected = match next {
            None => return,
            Some(Instruction::Named(_)) => Some(internal_redirect::named_request(&last)),
            Some(Instruction::Redirect(_, ref uri)) => {
                let redirected = internal_redirect::request(&exchange.request, uri);
                if redirected.is_none() {
                    let uri = shown_target(uri);
                    let problem = format_args!("X-Accel-Redirect has no path: {uri}");
                    context.log_error(&exchange.request, problem);
                }
                redirected
            }
            Some(Instruction::NoRoute(ref path)) => {
                let path = shown_target(path);
                let problem = format_args!("X-Accel-Redirect has no route: {path}");
                context.log_error(&exchange.request, problem);
                None
            }
            Some(Instruction::File(..)) => internal_redirect::request(&exchange.request, b"/"),
        };
        let Some(mut request) = redirected else {
            internal_redirect::merge(response, refuse(RequestError::NotFound));
            return;
        };
        let found;
        (found, next) = match next {
            Some(Instruction::Redirect(target, _) | Instruction::Named(target)) => {
                let mut effects = std::mem::take(&mut routed.effects);
                // The header changes of the last action count, also where no action follows.
                effects.response_headers = &[];
                let step;
                (*routed, step) = routing.route_to_target(target, effects, &mut request);
                last = request.clone();
                let connection = exchange.without_body();
                let mut asked = Exchange::new(request, exchange.started_at, &connection);
                let decision = checks::check(context, step, routed, &mut asked).await;
                produce(context, decision, routed, &mut asked).await
            }
            Some(Instruction::File(delegation, file)) => {
                let files = &context.thread.files;
                let found = delegation.send(&file, files, &request, routing.now);
                if found.is_default_error_page {
                    let (status, file) = (found.status, shown_target(&file));
                    let problem = format_args!("X-Sendfile: {status} for {file}");
                    context.log_error(&exchange.request, problem);
                }
                (found, None)
            }
            Some(Instruction::NoRoute(_)) | None => return,
        };
        internal_redirect::merge(response, found);
    }
    if next.is_some() {
        context.log_error(
            &exchange.request,
            format_args!("X-Accel-Redirect leads to a redirect loop"),
        );
        *response = refuse(RequestError::Internal);
    }
}
