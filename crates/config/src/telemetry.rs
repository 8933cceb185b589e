//! `telemetry` of the settings: traces and metrics for a server of OpenTelemetry.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object};

/// `telemetry` of the settings.
pub(crate) static TELEMETRY: Shape = Shape {
    name: "telemetry",
    parts: &[&[
        Key::new("endpoint", Kind::Text, "URL of the server that takes the spans")
            .details(
                "`\"http://127.0.0.1:4318/v1/traces\"`; without a path it gets `/v1/traces`, with \
                 `\"grpc\"` the path does not count. With `https:` the certificate must be for the \
                 host and by an authority of `authorities`",
            )
            .required()
            .unit(),
        Key::new("protocol", Kind::Word(&["http", "grpc", "HTTP", "GRPC"]), "Protocol of OTLP")
            .details("`\"http\"` is protobuf over HTTP/1.1, `\"grpc\"` is gRPC over HTTP/2")
            .required()
            .unit(),
        Key::new(
            "sampling_ratio",
            Kind::Number,
            "Part of the traces that begin here whose spans are sent, from 0 to 1",
        )
        .default("1")
        .details("A request with a `traceparent` is sent if its caller says so")
        .unit(),
        Key::new(
            "batch_size",
            Kind::Integer(1, MAX_BATCH_SIZE),
            "Maximum number of spans in one message",
        )
        .default("128")
        .details("A message waits at most a second for more spans")
        .unit(),
        Key::new("service_name", Kind::Text, "Value of `service.name`").default("\"howdah\""),
        Key::new("attributes", Kind::Named(&Kind::Text), "Further attributes of the resource")
            .default("{}")
            .details("Such as `{\"deployment.environment.name\": \"production\"}`"),
        Key::new("headers", Kind::Named(&Kind::Text), "Header fields of each message")
            .default("{}")
            .details("Such as `{\"Authorization\": \"Bearer …\"}`"),
        Key::new(
            "authorities",
            Kind::Text,
            "File with the certificates of the trusted authorities (PEM)",
        )
        .default("the system's")
        .details("Only root needs to read it"),
        Key::new(
            "slow",
            Kind::Number,
            "Requests that take at least this many seconds are sent in any case",
        )
        .default("none"),
        Key::switch("failed", false, "Requests that fail are sent in any case").details(
            "With a status from 500, or a response that was cut off by the server. Scripts and \
             servers have been told before that the trace is not sent, so only the spans of this \
             server are there",
        ),
        Key::switch("parent", true, "Obeys the `traceparent` of clients").details(
            "`false` begins a trace with each request, so that no client decides what is sent",
        ),
        Key::new(
            "metrics_interval",
            Kind::Seconds(0),
            "Seconds between two messages with all metrics",
        )
        .default("0")
        .details("See [Metrics](../traces.md#metrics); `0` sends none"),
        Key::new("metrics_endpoint", Kind::Text, "URL of the server that takes the metrics")
            .default("`endpoint` with `/v1/metrics`")
            .details(
                "Needed if the path of `endpoint` does not end with `/v1/traces`. Another server \
                 gets the same `headers`, by the same `protocol`",
            ),
        Key::new(
            "metrics_histograms",
            Kind::Word(&["explicit", "exponential"]),
            "Form of histograms",
        )
        .default("\"explicit\"")
        .details(
            "`\"explicit\"` has the limits of [metrics](../monitor.md#metrics), `\"exponential\"` \
             has eight buckets for each power of two",
        ),
    ]],
};

/// Maximum of `batch_size`, as in FreeUnit.
const MAX_BATCH_SIZE: i64 = 65_536;

/// Default of `batch_size`, as in FreeUnit.
const BATCH_SIZE: u32 = 128;

const SERVICE_NAME: &str = "howdah";

/// Path of traces on a server of OTLP.
const TRACES_PATH: &str = "/v1/traces";

/// Path of metrics on a server of OTLP.
const METRICS_PATH: &str = "/v1/metrics";

/// Maximum length of all texts in bytes: the process that sends spans gets them in one message of
/// 128 KiB.
const MAX_BYTES: usize = 64 << 10;

/// Bytes that a text takes in addition to its own.
const TEXT_COST: usize = 8;

/// Maximum of `slow` in seconds.
const MAX_SLOW: f64 = (i32::MAX / 1000) as f64;

/// Traces and metrics for servers of OpenTelemetry.
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// The server that takes traces.
    pub endpoint: Endpoint,
    /// OTLP over gRPC, otherwise over HTTP.
    pub is_grpc: bool,
    /// Part of the traces that begin here whose spans are sent, from 0 to 1.
    pub sampling_ratio: f64,
    /// Maximum number of spans in one message.
    pub batch_size: u32,
    /// Value of `service.name`.
    pub service_name: String,
    /// Further attributes of the resource.
    pub attributes: Vec<(String, String)>,
    /// Header fields of each message.
    pub headers: Vec<(String, String)>,
    /// File with the certificates of the trusted authorities; the system's if `None`.
    pub authorities: Option<PathBuf>,
    /// Requests that take at least this long are sent in any case.
    pub slow: Option<Duration>,
    /// Requests that fail are sent in any case.
    pub failed: bool,
    /// The `traceparent` of clients is obeyed.
    pub parent: bool,
    /// Metrics; `None` if they are not sent.
    pub metrics: Option<TelemetryMetrics>,
}

/// Metrics for a server of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryMetrics {
    /// The server that takes metrics.
    pub endpoint: Endpoint,
    /// Time between two messages.
    pub interval: Duration,
    /// Histograms have exponential buckets, otherwise explicit ones.
    pub is_exponential: bool,
}

/// A server of OTLP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The connection has TLS.
    pub is_tls: bool,
    /// Host name or address, of version 6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query of the messages.
    pub path: String,
}

impl Telemetry {
    pub(crate) fn read(node: &Node<'_>) -> Result<Telemetry, Error> {
        let object = node.object(&TELEMETRY)?;
        let protocol = object.required("protocol")?;
        let is_grpc = match protocol.string()? {
            "http" | "HTTP" => false,
            "grpc" | "GRPC" => true,
            _ => return Err(protocol.invalid("must be \"http\" or \"grpc\"")),
        };
        let endpoint = Endpoint::read(&object.required("endpoint")?, TRACES_PATH)?;
        let telemetry = Telemetry {
            metrics: read_metrics(&object, &endpoint, is_grpc)?,
            endpoint,
            is_grpc,
            sampling_ratio: object.read("sampling_ratio", read_ratio)?.unwrap_or(1.0),
            batch_size: object.integer("batch_size")?.unwrap_or(BATCH_SIZE),
            service_name: object.text("service_name")?.unwrap_or(SERVICE_NAME.to_owned()),
            attributes: object.read("attributes", read_attributes)?.unwrap_or_default(),
            headers: object.read("headers", read_headers)?.unwrap_or_default(),
            authorities: object.file("authorities")?,
            slow: object.read("slow", read_slow)?,
            failed: object.switch("failed")?,
            parent: object.switch("parent")?,
        };
        check_authorities(&object, &telemetry)?;
        check_length(node, &telemetry)?;
        object.end()?;
        Ok(telemetry)
    }
}

/// Reads where metrics go. Without an endpoint of their own, the path follows the rule of
/// OpenTelemetry's exporters: a base, and then the path of the signal.
fn read_metrics(
    object: &Object<'_>,
    traces: &Endpoint,
    is_grpc: bool,
) -> Result<Option<TelemetryMetrics>, Error> {
    let interval = object.seconds("metrics_interval")?.filter(|interval| !interval.is_zero());
    let own = object.read("metrics_endpoint", |node| Endpoint::read(node, METRICS_PATH))?;
    let is_exponential = match object.optional("metrics_histograms") {
        None => false,
        Some(node) => match node.string()? {
            "explicit" => false,
            "exponential" => true,
            _ => return Err(node.invalid("must be \"explicit\" or \"exponential\"")),
        },
    };
    if object.optional("metrics_interval").is_none() {
        let others = ["metrics_endpoint", "metrics_histograms"].into_iter();
        if let Some(node) = others.filter_map(|key| object.optional(key)).next() {
            return Err(node.invalid("needs a \"metrics_interval\", without which none are sent"));
        }
    }
    let Some(interval) = interval else { return Ok(None) };
    let derived = || if is_grpc { Some(traces.clone()) } else { traces.of_metrics() };
    let Some(endpoint) = own.or_else(derived) else {
        let node = object.required("metrics_interval")?;
        let problem = "needs a \"metrics_endpoint\", as the path of \"endpoint\" does not end with \
                       /v1/traces";
        return Err(node.invalid(problem));
    };
    Ok(Some(TelemetryMetrics { endpoint, interval, is_exponential }))
}

fn check_authorities(object: &Object<'_>, telemetry: &Telemetry) -> Result<(), Error> {
    let Telemetry { endpoint, metrics, .. } = telemetry;
    let has_tls = endpoint.is_tls || metrics.as_ref().is_some_and(|one| one.endpoint.is_tls);
    match object.optional("authorities").filter(|_| !has_tls) {
        Some(node) => Err(node.invalid("needs an \"endpoint\" that begins with https://")),
        None => Ok(()),
    }
}

fn check_length(node: &Node<'_>, telemetry: &Telemetry) -> Result<(), Error> {
    let Telemetry { endpoint, service_name, attributes, headers, metrics, .. } = telemetry;
    let pairs = attributes.iter().chain(headers).flat_map(|(name, value)| [name, value]);
    let endpoints = [endpoint].into_iter().chain(metrics.iter().map(|one| &one.endpoint));
    let texts = endpoints.flat_map(|endpoint| [&endpoint.host, &endpoint.path]);
    let texts = texts.chain(pairs).chain([service_name]);
    let bytes: usize = texts.map(|text| text.len() + TEXT_COST).sum();
    if bytes <= MAX_BYTES {
        Ok(())
    } else {
        Err(node.invalid(format_args!("must have at most {} KiB of text", MAX_BYTES >> 10)))
    }
}

impl Endpoint {
    fn read(node: &Node<'_>, default_path: &str) -> Result<Endpoint, Error> {
        let text = node.text()?;
        Endpoint::parse(text, default_path).ok_or_else(|| {
            node.invalid("is not the URL of a server")
                .with_hint(format!("write \"http://127.0.0.1:4318{default_path}\""))
        })
    }

    /// Returns the endpoint of metrics on the same server. `None` if the path is not the usual one
    /// of traces.
    fn of_metrics(&self) -> Option<Endpoint> {
        let at = self.path.find('?').unwrap_or(self.path.len());
        let (path, query) = self.path.split_at(at);
        let base = path.strip_suffix(TRACES_PATH)?;
        Some(Endpoint { path: format!("{base}{METRICS_PATH}{query}"), ..self.clone() })
    }

    fn parse(url: &str, default_path: &str) -> Option<Endpoint> {
        let (is_tls, rest) = match url.split_once("://")? {
            ("http", rest) => (false, rest),
            ("https", rest) => (true, rest),
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '#' | '"' | '<' | '>' | '\\');
        if !path.chars().all(is_plain) {
            return None;
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, port)
            }
            None => {
                let at = authority.find(':').unwrap_or(authority.len());
                let (host, port) = authority.split_at(at);
                let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
                if host.is_empty() || !host.chars().all(is_host) {
                    return None;
                }
                (host, port)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => digits.parse().ok().filter(|port| *port != 0)?,
            None if port.is_empty() => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            None => return None,
        };
        let path = match path {
            "" | "/" => default_path.to_owned(),
            query if query.starts_with('?') => format!("{default_path}{query}"),
            path => path.to_owned(),
        };
        Some(Endpoint { is_tls, host: host.to_owned(), port, path })
    }
}

fn read_ratio(node: &Node<'_>) -> Result<f64, Error> {
    let part = node.value.as_f64().ok_or_else(|| node.wrong_type("a number"))?;
    if (0.0..=1.0).contains(&part) {
        Ok(part)
    } else {
        Err(node.invalid(format_args!("must be between 0 and 1, but is {part}")))
    }
}

fn read_slow(node: &Node<'_>) -> Result<Duration, Error> {
    let seconds = node.value.as_f64().ok_or_else(|| node.wrong_type("a number of seconds"))?;
    if (0.0..=MAX_SLOW).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(node.invalid(format_args!("must be between 0 and {MAX_SLOW} seconds")))
    }
}

fn read_attributes(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let read = |(name, value): (&str, Node<'_>)| {
        if name.is_empty() {
            return Err(value.invalid("must have a name"));
        }
        Ok((name.to_owned(), value.string()?.to_owned()))
    };
    node.members()?.map(read).collect()
}

/// Fields that the server writes itself.
const OWN_FIELDS: [&str; 7] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding", "upgrade"];

fn read_headers(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let read = |(name, value): (&str, Node<'_>)| {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(value.invalid("is not the name of a header field"));
        }
        if OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(value.invalid("is written by the server itself"));
        }
        let text = value.string()?;
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
            Ok((name.to_owned(), text.to_owned()))
        } else {
            Err(value.invalid("must be visible ASCII characters"))
        }
    };
    node.members()?.map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn read(telemetry: Value) -> Result<Telemetry, String> {
        let config = Config::from_value(json!({"settings": {"telemetry": telemetry}}));
        let config = config.map_err(|error| error.to_string())?;
        Ok(config.settings.telemetry.unwrap())
    }

    #[test]
    fn documents_of_freeunit_hold() {
        let found = read(json!({
            "endpoint": "http://localhost:4317/v1/traces", "protocol": "grpc",
            "sampling_ratio": 1.0, "batch_size": 20,
        }));
        let found = found.unwrap();
        assert!(found.is_grpc && !found.endpoint.is_tls && !found.failed && found.parent);
        assert_eq!((found.endpoint.host.as_str(), found.endpoint.port), ("localhost", 4317));
        assert_eq!((found.sampling_ratio, found.batch_size, found.slow), (1.0, 20, None));
        let short = read(json!({"endpoint": "http://a:1", "protocol": "HTTP"})).unwrap();
        assert_eq!((short.sampling_ratio, short.batch_size), (1.0, 128));
        assert_eq!(short.service_name, "howdah");
    }

    #[test]
    fn an_endpoint_is_a_url() {
        for (url, expected) in [
            ("http://a", Some((false, "a", 80, "/v1/traces"))),
            ("https://a.b/", Some((true, "a.b", 443, "/v1/traces"))),
            ("http://[::1]:4318/x/v1/traces?k=1", Some((false, "::1", 4318, "/x/v1/traces?k=1"))),
            ("https://a:1?k", Some((true, "a", 1, "/v1/traces?k"))),
            ("a:4317", None),
            ("ftp://a", None),
            ("http://", None),
            ("http://u:p@a", None),
            ("http://a:0", None),
            ("http://a:65536", None),
            ("http://a b/", None),
            ("http://a/ b", None),
            ("http://a/\r\nX: y", None),
            ("http://[::1", None),
            ("http://[::1]x", None),
            ("http://[a]", None),
        ] {
            let found = Endpoint::parse(url, TRACES_PATH);
            let found =
                found.as_ref().map(|e| (e.is_tls, e.host.as_str(), e.port, e.path.as_str()));
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn metrics_go_beside_the_traces_or_to_their_own_server() {
        let metrics = |endpoint: &str, protocol: &str, own: Value| {
            let mut telemetry = json!({
                "endpoint": endpoint, "protocol": protocol, "metrics_interval": 60,
            });
            telemetry.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            read(telemetry).map(|found| found.metrics.unwrap())
        };
        for (endpoint, path) in [
            ("http://a", "/v1/metrics"),
            ("http://a/v1/traces", "/v1/metrics"),
            ("http://a/x/v1/traces?k=/v1/traces", "/x/v1/metrics?k=/v1/traces"),
        ] {
            let found = metrics(endpoint, "http", json!({})).unwrap();
            assert_eq!((found.endpoint.host.as_str(), found.endpoint.path.as_str()), ("a", path));
            assert_eq!((found.interval, found.is_exponential), (Duration::from_secs(60), false));
        }
        let problem = metrics("http://a/traces", "http", json!({})).unwrap_err();
        assert!(problem.contains("/settings/telemetry/metrics_interval: "), "{problem}");
        assert!(problem.contains("metrics_endpoint"), "{problem}");
        assert_eq!(metrics("http://a/traces", "grpc", json!({})).unwrap().endpoint.host, "a");
        let own = json!({
            "metrics_endpoint": "https://b:9/api", "metrics_histograms": "exponential",
            "authorities": "/ca.pem",
        });
        let found = metrics("http://a/traces", "http", own).unwrap();
        let Endpoint { is_tls, host, port, path } = found.endpoint;
        assert_eq!((is_tls, host.as_str(), port, path.as_str()), (true, "b", 9, "/api"));
        assert!(found.is_exponential);
        let base = metrics("http://a/traces", "http", json!({"metrics_endpoint": "http://b"}));
        assert_eq!(base.unwrap().endpoint.path, "/v1/metrics");
        let none = json!({
            "endpoint": "http://a/t", "protocol": "http", "metrics_interval": 0,
            "metrics_endpoint": "http://b",
        });
        assert_eq!(read(none).unwrap().metrics, None);
    }

    #[test]
    fn mistakes_are_named() {
        let with = |key: &str, value: Value| {
            let mut telemetry = json!({"endpoint": "http://a", "protocol": "http"});
            telemetry[key] = value;
            read(telemetry).unwrap_err()
        };
        for (key, value, expected) in [
            ("endpoint", json!("localhost:4317"), "/settings/telemetry/endpoint: "),
            ("protocol", json!("udp"), "/settings/telemetry/protocol: "),
            ("sampling_ratio", json!(1.5), "between 0 and 1"),
            ("sampling_ratio", json!("1"), "/settings/telemetry/sampling_ratio: "),
            ("batch_size", json!(0), "/settings/telemetry/batch_size: "),
            ("batch_size", json!(65_537), "/settings/telemetry/batch_size: "),
            ("headers", json!({"Host": "x"}), "by the server itself"),
            ("headers", json!({"a b": "x"}), "/settings/telemetry/headers/a b: "),
            ("headers", json!({"a": "x\r\ny: z"}), "visible ASCII"),
            ("authorities", json!("/ca.pem"), "https://"),
            ("headers", json!({"a": "x".repeat(64 << 10)}), "at most 64 KiB"),
            ("slow", json!(-1), "/settings/telemetry/slow: "),
            ("metrics_interval", json!(-1), "/settings/telemetry/metrics_interval: "),
            ("metrics_interval", json!("10s"), "/settings/telemetry/metrics_interval: "),
            ("metrics_endpoint", json!("a:1"), "http://127.0.0.1:4318/v1/metrics"),
            ("metrics_histograms", json!("native"), "/settings/telemetry/metrics_histograms: "),
            ("metrics_histograms", json!("exponential"), "needs a \"metrics_interval\""),
            ("metrics_endpoint", json!("http://a"), "needs a \"metrics_interval\""),
            ("sample_ratio", json!(1), "sampling_ratio"),
        ] {
            let problem = with(key, value.clone());
            assert!(problem.contains(expected), "{key} {value}: {problem}");
        }
        assert!(read(json!({"protocol": "http"})).unwrap_err().contains("endpoint"));
    }
}
