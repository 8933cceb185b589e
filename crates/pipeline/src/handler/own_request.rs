//! Requests of the server itself to an application, beside those of its clients.

use std::future::poll_fn;
use std::time::Instant;

use bytes::Bytes;
use howdah_config::Target;
use howdah_http::body::Body;
use howdah_http::copied_body::StoredBody;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response};
use howdah_routing::snapshot::effects::Effects;

use super::RequestHandler;
use super::respond::produce;
use crate::context::Context;

/// Maximum number of bytes of a response that are read and dropped, so that the script can end, or
/// the connection to the server be kept.
const MAX_DRAINED: u64 = 1 << 20;

impl RequestHandler {
    /// Lets a target of the configuration answer a request without body. Returns the response
    /// without its body.
    pub async fn ask(&self, target: &Target, mut request: Request) -> Response {
        let started_at = Instant::now();
        let snapshot = self.thread.snapshot_for(&self.listener);
        let context = Context::new(&self.thread, &snapshot, started_at);
        let effects = Effects::default();
        let (mut routed, step) = context.routing.route_to_target(target, effects, &mut request);
        if let Some(site) = routed.site(&step) {
            request.handling.set_site(site);
        }
        let carrier = StoredBody::new(Bytes::new());
        let mut exchange = Exchange::new(request, started_at, &carrier);
        let decision = step.without_checks();
        let producing = produce(&context, decision, &mut routed, &mut exchange);
        let (mut response, _) = Box::pin(producing).await;
        drain(std::mem::take(&mut response.body)).await;
        response
    }
}

/// Reads a response that nobody gets.
pub(super) async fn drain(body: Body) {
    let Body::Stream(mut stream) = body else { return };
    let mut drained = 0;
    while let Some(Ok(bytes)) = poll_fn(|cx| stream.poll_next(cx)).await {
        drained += bytes.len() as u64;
        if drained > MAX_DRAINED {
            break;
        }
    }
}
