//! The metrics of the server, as requests get them. The control thread writes them; a request
//! only waits for it.

use bytes::Bytes;
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::message::{Request, Response};
use howdah_http::respond::refuse;
use howdah_metrics::Format;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// A request for metrics: their format, and where they go.
pub type MetricsRequest = (Format, oneshot::Sender<Bytes>);

/// Asks the control thread for metrics.
#[derive(Debug)]
pub struct MetricsSource(UnboundedSender<MetricsRequest>);

impl MetricsSource {
    /// Creates the source, and the receiver of its requests.
    pub fn new() -> (Self, UnboundedReceiver<MetricsRequest>) {
        let (requests, receiver) = unbounded_channel();
        (MetricsSource(requests), receiver)
    }

    /// Responds to a request with the metrics, in the format that it accepts.
    pub async fn respond(&self, request: &Request) -> Response {
        if !matches!(&*request.method, b"GET" | b"HEAD") {
            return refuse(RequestError::MethodNotAllowed);
        }
        let format = Format::accepted(request.fields.get_all("accept"));
        let (done, metrics) = oneshot::channel();
        let _ = self.0.send((format, done));
        match metrics.await {
            Ok(metrics) => Response::new(200, Body::from(metrics))
                .with("Content-Type", format.media_type())
                .with("Cache-Control", "no-store")
                .with("Vary", "Accept")
                .with("X-Content-Type-Options", "nosniff"),
            Err(_) => refuse(RequestError::NotInUse), // the server ends
        }
    }
}
