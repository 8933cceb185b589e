//! `auth_request` of an action: another action decides whether a request may continue, as in nginx.
//!
//! 1. The other action gets the request as a GET without body, conditions and ranges, with the
//!    fields `X-Original-URI` and `X-Original-Method`. It is not checked by an `auth_request`
//!    itself.
//! 2. A status from 200 to 299 lets the request continue, 401 and 403 refuse it. Any other one is
//!    an error of the check, and answered with 500.
//! 3. Configured fields of the response replace those of the request. Fields of these names that
//!    the client has sent are removed in any case: it must not be able to name a user.

use bytes::Bytes;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Fields, Response};
use howdah_http::respond::refuse;
use howdah_routing::snapshot::action::AuthRequest;

use super::plain_request::plain_request;
use super::respond::produce;
use crate::context::Context;

/// Fields that describe the checked request.
const ORIGINAL: [&str; 2] = ["X-Original-URI", "X-Original-Method"];

/// Lets another action check a request. Error: the response of the refusal.
pub async fn authorize(
    context: &Context<'_>,
    check: &AuthRequest,
    exchange: &mut Exchange<'_>,
) -> Result<(), Response> {
    let found = Box::pin(ask(context, check, exchange)).await;
    let copied: Vec<_> = fields_of(&found, &check.copy_headers).collect();
    let replaced = check.copy_headers.iter().map(String::as_str);
    replace_fields(&mut exchange.request.fields, replaced, &copied);
    if matches!(found.status, 200..=299 | 401 | 403) {
        let added = fields_of(&found, &check.response_headers);
        context.added_fields.borrow_mut().extend(added);
    }
    match found.status {
        200..=299 => Ok(()),
        401 => {
            let names = ["WWW-Authenticate".to_owned()];
            let challenges = fields_of(&found, &names);
            let refusal = refuse(RequestError::Unauthenticated);
            Err(challenges.fold(refusal, |refusal, (name, value)| refusal.with(&name, value)))
        }
        403 => Err(refuse(RequestError::Forbidden)),
        status => {
            let problem = format_args!(
                "auth_request has the status {status}; 200 to 299 admit a request, 401 and 403 \
                 refuse it"
            );
            context.log_error(&exchange.request, problem);
            Err(refuse(RequestError::Internal))
        }
    }
}

/// Returns the response of the action that checks the request.
async fn ask(context: &Context<'_>, check: &AuthRequest, exchange: &Exchange<'_>) -> Response {
    let original = &exchange.request;
    let mut request = plain_request(original);
    request.method = Bytes::from_static(b"GET");
    let values = [original.target.to_vec(), original.method.to_vec()];
    let described: Vec<_> = ORIGINAL.map(str::to_owned).into_iter().zip(values).collect();
    replace_fields(&mut request.fields, ORIGINAL.into_iter(), &described);
    let (mut routed, step) = context.routing.route_internally(&check.action, &mut request);
    routed.is_check = true;
    // The response to one client is not for another, even if it states a lifetime.
    routed.is_uncached = true;
    let connection = exchange.without_body();
    let mut asked = Exchange::new(request, exchange.started_at, &connection);
    produce(context, step.without_checks(), &mut routed, &mut asked).await.0
}

/// Returns the fields of a response with these names.
fn fields_of<'r>(
    response: &'r Response,
    names: &'r [String],
) -> impl Iterator<Item = (String, Vec<u8>)> + 'r {
    names.iter().flat_map(|name| {
        let is_named = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name.as_bytes());
        let found = response.fields.iter().filter(is_named);
        found.map(|(_, value)| (name.clone(), value.to_vec()))
    })
}

/// Removes the fields of a request with these names, and adds others. Names with `_` or `.` for `-`
/// are removed too, since scripts see no difference.
fn replace_fields<'n>(
    fields: &mut Fields,
    names: impl Iterator<Item = &'n str> + Clone,
    added: &[(String, Vec<u8>)],
) {
    let plain = |byte: &u8| match byte {
        b'_' | b'.' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    let is_replaced = |name: &[u8]| {
        names.clone().any(|other| other.as_bytes().iter().map(plain).eq(name.iter().map(plain)))
    };
    let kept = fields.iter().filter(|(name, _)| !is_replaced(name));
    let added = added.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
    *fields = Fields::from_pairs(kept.chain(added).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_replaced_field_is_left() {
        let sent = [("X-User", "a"), ("x_uSeR", "b"), ("X.User", "c"), ("X-Users", "d")];
        let pairs = sent.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut fields = Fields::from_pairs(pairs);
        replace_fields(&mut fields, ["X-User"].into_iter(), &[("X-User".into(), b"me".to_vec())]);
        let left: Vec<_> = fields.iter().collect();
        assert_eq!(left, [(&b"X-Users"[..], &b"d"[..]), (b"X-User", b"me")]);
    }
}
