//! Checks the passwords that actions require.

use howdah_http::message::Request;

use crate::route::{Decision, Routed, Routing};

/// Checks the request's password for each action on its way that requires one.
pub async fn authenticate<'s>(
    routing: &Routing<'s>,
    routed: &mut Routed<'s>,
    request: &mut Request,
) {
    while let Decision::Authenticate(auth) = &routed.decision {
        match auth.check(request, routing.now.monotonic, routing.log).await {
            Ok(user) => {
                request.user = Some(user);
                routing.resume(routed, request);
            }
            Err(response) => routed.decision = Decision::Respond(response),
        }
    }
}
