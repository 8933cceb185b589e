//! Messages from the supervisor to the telemetry process.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

record! {
    /// A server of OTLP.
    OtlpServer {
        /// Host name or address, of version 6 without brackets.
        host: String,
        /// TCP port.
        port: u16,
        /// The connection has TLS.
        is_tls: bool,
        /// Path and query of messages over HTTP/1.1.
        path: String,
    }
}

record! {
    /// Where metrics go.
    MetricsRoute {
        /// The server that takes metrics.
        server: OtlpServer,
        /// Histograms have exponential buckets, otherwise explicit ones.
        is_exponential: bool,
    }
}

record! {
    /// Where traces and metrics go.
    TelemetryRoute {
        /// The server that takes traces.
        server: OtlpServer,
        /// Where metrics go; `None` if they are not sent.
        metrics: Option<MetricsRoute>,
        /// OTLP over gRPC, otherwise over HTTP/1.1.
        is_grpc: bool,
        /// Header fields of each message.
        headers: Vec<(String, String)>,
        /// Path of the file with the trusted authorities, opened by the supervisor; `None` for
        /// those of the system.
        authorities: Option<String>,
        /// Addresses of DNS servers; none for those of the machine.
        resolver: Vec<String>,
        /// Attributes of the resource.
        attributes: Vec<(String, String)>,
        /// Maximum number of spans in a message.
        batch_size: u32,
    }
}

messages! {
    /// From the supervisor to the telemetry process.
    ToTelemetry {
        /// The first message. Descriptors: the receiving ends of the sockets on which routers send
        /// spans and metrics, and the memory with the number of lost spans.
        1 Hello {
            /// The process enters its sandbox.
            sandbox: bool,
        }
        /// Spans and metrics go there from now on. Descriptor: the file with the authorities, if it
        /// could be opened.
        2 Configure {
            /// The servers, and what all messages to them have.
            route: TelemetryRoute,
        }
        /// The log was reopened. Descriptor: the log.
        4 Reopened {}
        /// No more spans follow: the process sends those that it has, and ends.
        3 Finish {}
    }
}
