//! `error_pages` of an action: content that replaces the server's own pages.
//!
//! A page is a file, or the response of an action. That action sees a GET request without body,
//! conditions and ranges; scripts find the error in `REDIRECT_STATUS` and `REDIRECT_URL`, as under
//! Apache. If making a page fails, the server's own page stays: pages never lead to pages.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use howdah_config::PageStatus;
use howdah_files::{Files, RequestTime, ServeOutcome};
use howdah_http::exchange::Exchange;
use howdah_http::message::{ErrorOrigin, FieldBlock, Fields, Request, Response};
use howdah_routing::route::Routed;
use howdah_routing::snapshot::action::{ErrorPage, PageSource};
use howdah_routing::snapshot::effects::Effects;

use super::plain_request::plain_request;
use super::respond::produce;
use crate::context::Context;

/// Replaces the server's own page if an action on the request's way has another one for its status.
/// The server's own page stays if the other one cannot be made.
pub async fn replace<'s>(
    context: &Context<'s>,
    routed: &mut Routed<'s>,
    exchange: &Exchange<'_>,
    response: &mut Response,
) {
    if let Some(page) = page_for(&routed.effects, response) {
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
            let found = file(files, path, cache, &exchange.request, now);
            if let Some(found) = found {
                put_page(response, found, PageStatus::OfError);
            }
        }
        PageSource::Action { action, status } => {
            let mut request = request_for_page(&exchange.request, response.status);
            let (mut by_page, step) = context.routing.route_internally(action, &mut request);
            let connection = exchange.without_body();
            let mut asked = Exchange::new(request, exchange.started_at, &connection);
            let answered = produce(context, step.without_checks(), &mut by_page, &mut asked);
            let (found, _) = Box::pin(answered).await;
            let effects = by_page.effects;
            if !found.is_default_error_page {
                put_page(response, found, *status);
                routed.effects.response_headers = effects.response_headers;
                routed.effects.compress &= effects.compress;
            }
        }
    }
}

/// Returns the configured page for a response with one of the server's own pages, or, with
/// `intercept_errors`, for one of an application or another server. Status 499 has none: its client
/// has gone. A response that is not sent has none either.
fn page_for<'p>(effects: &Effects<'p>, response: &Response) -> Option<&'p ErrorPage> {
    let is_replaced = response.is_default_error_page || effects.intercept_errors;
    let wanted = is_replaced && response.status != 499 && !response.is_unsent();
    effects.error_pages.iter().find(|page| wanted && page.status == response.status)
}

/// Returns the response with the content of a file.
fn file(
    share: &howdah_files::Share,
    path: &Bytes,
    files: &Files,
    request: &Request,
    now: RequestTime,
) -> Option<Response> {
    let asked = Request {
        method: Bytes::from_static(b"GET"),
        fields: Fields::default(),
        path: path.clone(),
        ..request.clone()
    };
    match files.look_up(share, share.place(path), &asked, now) {
        ServeOutcome::File(file) => Some(files.file_response(&file, &asked, now.wall)),
        _ => None,
    }
}

/// Creates the request that the action of a page handles.
fn request_for_page(request: &Request, status: u16) -> Request {
    let mut asked = plain_request(request);
    asked.error = Some(ErrorOrigin { status, path: request.path.clone() });
    asked
}

/// Replaces a response by a page, or drops it if the action of the page sends none. Fields of the
/// error that the page does not have stay, such as `Allow` and `WWW-Authenticate`. Unless the status is
/// that of the page's action, validators of the page's file are removed.
fn put_page(response: &mut Response, page: Response, status: PageStatus) {
    const OF_FILES: [&[u8]; 3] = [b"accept-ranges", b"etag", b"last-modified"];
    let error = std::mem::replace(response, page);
    if response.is_unsent() {
        return;
    }
    let is_in =
        |names: &[&[u8]], name: &[u8]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
    let is_of_action = status == PageStatus::OfAction;
    let own = response.fields.iter().filter(|(name, _)| is_of_action || !is_in(&OF_FILES, name));
    // As in nginx, an intercepted response keeps only the fields that clients need to log in.
    let keeps_all = error.is_default_error_page;
    let kept = error.fields.iter().filter(|(name, _)| {
        let is_same = |other: &[u8]| name.eq_ignore_ascii_case(other);
        (keeps_all || is_same(b"www-authenticate"))
            && !is_same(b"content-type")
            && !response.fields.iter().any(|(other, _)| is_same(other))
    });
    let mut fields = Vec::new();
    for (name, value) in own.chain(kept) {
        for part in [name, b": ", value, b"\r\n"] {
            fields.extend_from_slice(part);
        }
    }
    response.fields = FieldBlock::from_lines(fields.into());
    response.close |= error.close;
    match status {
        PageStatus::OfAction => {}
        PageStatus::OfError => {
            response.status = error.status;
            response.reason = error.reason;
        }
        PageStatus::Fixed(status) => {
            response.status = status;
            response.reason = None;
        }
    }
}
