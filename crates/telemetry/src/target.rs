//! Servers, and what goes to them.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use howdah_tls::AnonymousClient;
use howdah_wire::messages::{OtlpServer, TelemetryRoute};

/// What OTLP transports; each signal has a service of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Spans,
    Metrics,
}

/// The server of a signal, and how to connect to it.
pub(crate) struct Target {
    pub(crate) signal: Signal,
    pub(crate) server: OtlpServer,
    pub(crate) route: Rc<TelemetryRoute>,
    /// The client of TLS; an error is why there is none.
    pub(crate) tls: Result<Option<AnonymousClient>, String>,
}

impl Signal {
    /// Returns the word for it in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Spans => "spans",
            Signal::Metrics => "metrics",
        }
    }

    /// Returns the path of its method of gRPC.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Signal::Spans => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }
}

impl Target {
    /// Creates the targets of spans and of metrics. `authorities`: the file that the document names.
    pub(crate) fn of(
        route: TelemetryRoute,
        authorities: Option<OwnedFd>,
    ) -> (Target, Option<Target>) {
        let metrics = route.metrics.as_ref().map(|metrics| metrics.server.clone());
        let client = if route.server.is_tls || metrics.as_ref().is_some_and(|one| one.is_tls) {
            client(&route, authorities).map(Some)
        } else {
            Ok(None)
        };
        let (route, server) = (Rc::new(route.clone()), route.server);
        let target = |signal, server: OtlpServer| {
            let tls = if server.is_tls { client.clone() } else { Ok(None) };
            Target { signal, server, route: Rc::clone(&route), tls }
        };
        (target(Signal::Spans, server), metrics.map(|server| target(Signal::Metrics, server)))
    }

    /// Returns the server's name in messages.
    pub(crate) fn name(&self) -> String {
        let scheme = if self.server.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Returns the server's host and port, as in a URL.
    pub(crate) fn authority(&self) -> String {
        let OtlpServer { host, port, .. } = &self.server;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

fn client(route: &TelemetryRoute, authorities: Option<OwnedFd>) -> Result<AnonymousClient, String> {
    let protocol: &[u8] = if route.is_grpc { b"h2" } else { b"http/1.1" };
    let client = match &route.authorities {
        Some(path) => AnonymousClient::of_file(path, authorities)
            .map_err(|problem| format!("\"authorities\": {problem}")),
        None => AnonymousClient::of_system(),
    };
    client.map(|client| client.speaking(protocol))
}
