//! Readiness probes. The control thread knows whether visitors can be served; a request only waits
//! for it.

use bytes::Bytes;
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::message::{Request, Response};
use howdah_http::respond::refuse;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// A probe: where the reason goes why visitors cannot be served, if there is one.
pub type ReadinessRequest = oneshot::Sender<Option<String>>;

/// Asks the control thread whether visitors can be served.
#[derive(Debug)]
pub struct Readiness(UnboundedSender<ReadinessRequest>);

impl Readiness {
    /// Creates the source, and the receiver of its requests.
    pub fn new() -> (Self, UnboundedReceiver<ReadinessRequest>) {
        let (requests, receiver) = unbounded_channel();
        (Readiness(requests), receiver)
    }

    /// Responds to a readiness probe: with 200, or with 503 and the reason.
    pub async fn respond(&self, request: &Request) -> Response {
        let (done, obstacle) = oneshot::channel();
        let _ = self.0.send(done);
        match obstacle.await {
            Ok(None) => probed(request, 200, "ready\n".to_owned()),
            Ok(Some(obstacle)) => probed(request, 503, format!("not ready: {obstacle}\n")),
            Err(_) => refuse(RequestError::NotInUse), // the server ends
        }
    }
}

/// Responds to a liveness probe: this thread serves.
pub fn live(request: &Request) -> Response {
    probed(request, 200, "live\n".to_owned())
}

fn probed(request: &Request, status: u16, text: String) -> Response {
    if !matches!(&*request.method, b"GET" | b"HEAD") {
        return refuse(RequestError::MethodNotAllowed);
    }
    Response::new(status, Body::from(Bytes::from(text)))
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("Cache-Control", "no-store")
        .with("X-Content-Type-Options", "nosniff")
}
