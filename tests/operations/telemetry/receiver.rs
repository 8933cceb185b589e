//! A receiver of OTLP over HTTP or gRPC, which reads what it gets with the official messages.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use harness::{eventually, free_listener};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// What has arrived.
#[derive(Default)]
struct State {
    spans: Mutex<Vec<Span>>,
    metrics: Mutex<Vec<Metric>>,
    /// Paths of the messages.
    paths: Mutex<Vec<String>>,
    resources: Mutex<Vec<Vec<(String, String)>>>,
    /// Fields of the requests: lower-case names and values.
    fields: Mutex<Vec<(String, String)>>,
    /// Number of messages that are refused for now.
    busy: AtomicUsize,
    /// Messages are taken, with a warning.
    warns: AtomicBool,
    /// Messages with spans are refused for good.
    refuses_spans: AtomicBool,
}

/// A receiver, which serves as long as the process.
pub struct Receiver {
    address: SocketAddr,
    is_grpc: bool,
    state: Arc<State>,
}

impl Receiver {
    /// A receiver over HTTP.
    pub fn http() -> Receiver {
        Receiver::start(free_listener(), false)
    }

    /// A receiver over gRPC.
    pub fn grpc() -> Receiver {
        Receiver::start(free_listener(), true)
    }

    /// A receiver over HTTP at an address.
    pub fn http_at(address: SocketAddr) -> Receiver {
        Receiver::start(TcpListener::bind(address).unwrap(), false)
    }

    fn start(listener: TcpListener, is_grpc: bool) -> Receiver {
        let (address, state) = (listener.local_addr().unwrap(), Arc::<State>::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || {
                    if is_grpc { serve_grpc(stream, &state) } else { serve_http(stream, &state) }
                });
            }
        });
        Receiver { address, is_grpc, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn protocol(&self) -> &'static str {
        if self.is_grpc { "grpc" } else { "http" }
    }

    /// Refuses so many messages with a status that permits another attempt.
    pub fn be_busy(&self, messages: usize) {
        self.state.busy.store(messages, SeqCst);
    }

    /// Refuses messages with spans, over HTTP, in a way that permits no other attempt.
    pub fn refuse_spans(&self) {
        self.state.refuses_spans.store(true, SeqCst);
    }

    /// Takes messages with a warning.
    pub fn warn(&self) {
        self.state.warns.store(true, SeqCst);
    }

    pub fn spans(&self) -> Vec<Span> {
        self.state.spans.lock().unwrap().clone()
    }

    /// Returns all metrics with a name, in the order in which they have arrived.
    pub fn metrics(&self, name: &str) -> Vec<Metric> {
        let metrics = self.state.metrics.lock().unwrap();
        metrics.iter().filter(|metric| metric.name == name).cloned().collect()
    }

    pub fn paths(&self) -> Vec<String> {
        self.state.paths.lock().unwrap().clone()
    }

    pub fn resources(&self) -> Vec<Vec<(String, String)>> {
        self.state.resources.lock().unwrap().clone()
    }

    pub fn fields(&self, name: &str) -> Vec<String> {
        let fields = self.state.fields.lock().unwrap();
        fields.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect()
    }

    /// Waits until so many spans have this name.
    pub fn wait_for(&self, name: &str, count: usize) -> Vec<Span> {
        eventually(&format!("{count} spans {name:?} arrive"), || {
            let spans = self.spans();
            let found = spans.iter().filter(|span| span.name == name).count();
            (found >= count).then_some(spans)
        })
    }
}

impl State {
    /// Takes a message for a path. `None` if the receiver is busy; else its answer.
    fn take(&self, path: &str, message: &[u8]) -> Option<Vec<u8>> {
        let busy = self.busy.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if busy.is_ok() {
            return None;
        }
        self.paths.lock().unwrap().push(path.to_owned());
        if path.to_ascii_lowercase().contains("metrics") {
            return Some(self.take_metrics(message));
        }
        let request = ExportTraceServiceRequest::decode(message).expect("a message of OTLP");
        for resource in request.resource_spans {
            self.take_resource(resource.resource);
            let scopes = resource.scope_spans.into_iter();
            self.spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        }
        let warning = ExportTracePartialSuccess {
            rejected_spans: 0,
            error_message: "use another port".to_owned(),
        };
        let partial_success = self.warns.load(SeqCst).then_some(warning);
        Some(ExportTraceServiceResponse { partial_success }.encode_to_vec())
    }
}

impl State {
    fn take_metrics(&self, message: &[u8]) -> Vec<u8> {
        let request = ExportMetricsServiceRequest::decode(message).expect("a message of OTLP");
        for resource in request.resource_metrics {
            self.take_resource(resource.resource);
            let scopes = resource.scope_metrics.into_iter();
            self.metrics.lock().unwrap().extend(scopes.flat_map(|scope| scope.metrics));
        }
        ExportMetricsServiceResponse::default().encode_to_vec()
    }

    fn take_resource(&self, resource: Option<Resource>) {
        let attributes = resource.unwrap().attributes.into_iter();
        let texts = attributes.map(|one| (one.key, text(one.value.and_then(|v| v.value))));
        self.resources.lock().unwrap().push(texts.collect());
    }
}

fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns an attribute of a span as text.
pub fn attribute(span: &Span, name: &str) -> Option<String> {
    value(&span.attributes, name)
}

/// Returns the value of an attribute as text.
pub fn value(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|one| one.key == name)?;
    Some(text(found.value.clone().and_then(|value| value.value)))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serve_http(mut stream: TcpStream, state: &State) {
    while let Some(head) = harness::backends::read_head(&mut stream) {
        let head = String::from_utf8(head).unwrap();
        let mut length = 0;
        let path = head.strip_prefix("POST ").and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(path.ends_with("/v1/traces") || path.ends_with("/v1/metrics"), "{head}");
        for line in head.lines().skip(1) {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let name = name.to_ascii_lowercase();
            if name == "content-length" {
                length = value.parse().unwrap();
            }
            state.fields.lock().unwrap().push((name, value.to_owned()));
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let (status, answer) = if state.refuses_spans.load(SeqCst) && path.ends_with("/traces") {
            ("400 No", Vec::new())
        } else {
            match state.take(path, &body) {
                Some(answer) => ("200 OK", answer),
                None => ("503 Busy\r\nRetry-After: 0", Vec::new()),
            }
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/x-protobuf\r\n\
             Content-Length: {}\r\n\r\n",
            answer.len()
        );
        if stream.write_all(&[head.as_bytes(), &answer].concat()).is_err() {
            return;
        }
    }
}

fn serve_grpc(stream: TcpStream, state: &State) {
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let path = request.uri().path().to_owned();
            assert!(
                path == "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
                    || path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
                "{path}"
            );
            let (head, mut body) = request.into_parts();
            for (name, value) in &head.headers {
                let value = value.to_str().unwrap().to_owned();
                state.fields.lock().unwrap().push((name.to_string(), value));
            }
            let mut message = Vec::new();
            // The connection is driven by the next call of accept; a message of a test fits the
            // windows that the client has from the start.
            let answered = async {
                while let Some(data) = body.data().await {
                    let data = data.unwrap();
                    body.flow_control().release_capacity(data.len()).unwrap();
                    message.extend_from_slice(&data);
                }
                let [0, a, b, c, d, rest @ ..] = &message[..] else { panic!() };
                assert_eq!(u32::from_be_bytes([*a, *b, *c, *d]) as usize, rest.len());
                let answer = state.take(&path, rest);
                let head = http::Response::builder().header("content-type", "application/grpc");
                let mut sending = respond.send_response(head.body(()).unwrap(), false).unwrap();
                let mut trailer = http::HeaderMap::new();
                match answer {
                    Some(answer) => {
                        let length = (answer.len() as u32).to_be_bytes();
                        let framed = [&[0], &length[..], &answer].concat();
                        sending.send_data(Bytes::from(framed), false).unwrap();
                        trailer.insert("grpc-status", "0".parse().unwrap());
                    }
                    None => drop(trailer.insert("grpc-status", "14".parse().unwrap())),
                }
                sending.send_trailers(trailer).unwrap();
            };
            tokio::select! {
                () = answered => {}
                // Drives the connection; the client sends one message after the other.
                next = connection.accept() => match next {
                    None => return,
                    Some(_) => panic!("two messages at once"),
                },
            }
        }
    });
}
