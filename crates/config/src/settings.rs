//! `settings`: settings of the whole server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::{CLUSTER, Cluster};
use crate::compression::{COMPRESSION, Compression};
use crate::defaults::Defaults;
use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::memory_budget::{self, MemoryBudget};
use crate::node::Node;
use crate::server_listeners::{METRICS, PROBES, ServerListeners};
use crate::smtp::{SMTP, Smtp};
use crate::static_types::{STATIC, StaticTypes};
use crate::target::Target;
use crate::telemetry::{TELEMETRY, Telemetry};

/// `settings`.
pub(crate) static SETTINGS: Shape = Shape {
    name: "settings",
    parts: &[&[
        Key::new("http", Kind::Object(&HTTP), "Timeouts, sizes and switches of HTTP")
            .details("See below")
            .unit(),
        Key::new("resolver", Kind::Texts, "Addresses of DNS servers")
            .default("the machine's")
            .details(
                "For [names of servers](upstreams.md#proxy) and of [mail servers](#smtp); the \
                 default port is 53 (nginx's `resolver`)",
            ),
        Key::new(
            "cluster",
            Kind::Either(&[Kind::Text, Kind::Object(&CLUSTER)]),
            "Valkey or Redis server through which servers of one site share purges, limits and timers",
        )
        .default("none")
        .details("Its address, or an object, see [Cluster](#cluster)"),
        Key::new(
            "smtp",
            Kind::Object(&SMTP),
            "Mail server that takes the messages of applications",
        )
        .default("`localhost:25`")
        .details("For [`mail()`](../php.md#mail), see [SMTP](#smtp)"),
        Key::new(
            "memory",
            Kind::Either(&[
                Kind::Integer(memory_budget::MIN_BYTES, i64::MAX),
                Kind::Matching(memory_budget::PATTERN),
            ]),
            "Maximum memory of all PHP processes together: bytes, `\"512M\"` or `\"60%\"` of the \
             machine's",
        )
        .default("the available memory")
        .details(
            "A percentage is of the control group's memory if that is smaller. At least 32 MB. \
             [Automatic sizing](../tuning.md#a-budget) plans within it; configured numbers of \
             processes count, but are not reduced",
        ),
        Key::new(
            "max_processes",
            Kind::Integer(1, COUNT),
            "Maximum number of workers of all PHP applications together",
        )
        .default("no limit")
        .details(
            "PHP-FPM's `process.max`. Those that start first are given in the order of the \
             applications. At the limit, idle workers above `spare` end at once if requests of \
             another application wait. Workers of a former configuration that finish their \
             requests do not count",
        ),
        Key::new(
            "shutdown_delay",
            Kind::Seconds(0),
            "Seconds for which new connections are still accepted after `QUIT`",
        )
        .default("0")
        .details(
            "Time in which load balancers learn of the end: `howdah ping --ready` fails at once, and \
             each response closes its connection. See [Signals](../operations.md#signals)",
        ),
        Key::new(
            "shutdown_timeout",
            Kind::Seconds(0),
            "Maximum seconds for requests in progress when the server ends gracefully or is \
             upgraded",
        )
        .default("no limit, or 300 for an upgrade")
        .details(
            "For WebSockets, too. The server ends gracefully with `QUIT`, and is replaced by an \
             [upgrade](../operations.md#upgrade). What is left then is cut off (nginx's \
             `worker_shutdown_timeout`)",
        ),
        Key::new(
            "listen_threads",
            Kind::Integer(1, COUNT),
            "Number of threads that serve connections",
        )
        .default("processors")
        .details(
            "A number above both the number of processors and the value at the start takes effect \
             at the next start",
        )
        .unit(),
        Key::new("metrics", Kind::Object(&METRICS), "Metrics of the whole server for Prometheus")
            .default("none")
            .details("See [Metrics](#metrics)"),
        Key::new("probes", Kind::Object(&PROBES), "Whether the server lives and is ready")
            .default("none")
            .details("For health checks of containers, see [Probes](#probes)"),
        Key::new(
            "last_requests",
            Kind::Integer(0, MAX_LAST_REQUESTS),
            "Number of requests that are kept in memory for `howdah requests`",
        )
        .default("10000")
        .details("See [Last requests](../monitor.md#last-requests); 0 for none"),
        Key::new("js_module", Kind::Texts, "Modules of JavaScript").unavailable(),
        Key::new(
            "telemetry",
            Kind::Object(&TELEMETRY),
            "Traces of requests, and metrics, for a server of OpenTelemetry",
        )
        .default("none")
        .details("See [Telemetry](#telemetry)")
        .unit(),
    ]],
};

/// `http` of the settings.
static HTTP: Shape = Shape {
    name: "http",
    parts: &[&[
        Key::new(
            "header_read_timeout",
            Kind::Seconds(0),
            "Maximum seconds to receive the head of a request",
        )
        .default("30")
        .unit(),
        Key::new(
            "body_read_timeout",
            Kind::Seconds(0),
            "Maximum seconds between two reads of a request body",
        )
        .default("30")
        .unit(),
        Key::new(
            "send_timeout",
            Kind::Seconds(0),
            "Maximum seconds without progress in sending a response",
        )
        .default("30")
        .details("A client makes no progress if it takes no bytes, or fewer than `min_rate`")
        .unit(),
        Key::new(
            "idle_timeout",
            Kind::Seconds(0),
            "Maximum seconds between two requests of a connection",
        )
        .default("180")
        .unit(),
        Key::new(
            "large_header_buffer_size",
            Kind::Integer(1, MAX_HEAD_BUFFER_BYTES),
            "Maximum size of the request line, and of each header field, in bytes",
        )
        .default("8192")
        .unit(),
        Key::new(
            "large_header_buffers",
            Kind::Integer(1, 1024),
            "Maximum size of a request's head, as a multiple of `large_header_buffer_size`",
        )
        .default("4")
        .unit(),
        Key::new(
            "max_header_fields",
            Kind::Integer(1, 1000),
            "Maximum number of header fields of a request; 431 above",
        )
        .default("100")
        .details("Apache's `LimitRequestFields`"),
        Key::new(
            "min_rate",
            Kind::Bytes(0),
            "Minimum average rate of a request body or a response in bytes per second; 0 for none",
        )
        .default("500")
        .details(
            "While the server waits for the client. It ends clients that evade the timeouts with \
             an occasional byte. Similar to Apache's `RequestReadTimeout`",
        ),
        Key::new(
            "min_rate_grace",
            Kind::Seconds(0),
            "Seconds for which a client may be slower than `min_rate`",
        )
        .default("20"),
        Key::new(
            "max_body_size",
            Kind::Bytes(0),
            "Maximum size of a request body in bytes; larger bodies get 413",
        )
        .default("8388608")
        .details(
            "Before PHP sees them, also if `post_max_size` and `upload_max_filesize` are larger. \
             For uploads of 64 MiB, write 67108864 here, or in the action for them, and set both \
             limits of PHP to `64M`. PHP keeps uploaded files out of its memory, and other bodies \
             in it, so `memory_limit` should be above `post_max_size`. [`howdah \
             check`](../operations.md#checking) notes limits that contradict each other",
        )
        .unit(),
        Key::new(
            "body_buffer_size",
            Kind::Bytes(0),
            "Bytes of a request body that are kept in memory",
        )
        .default("16384")
        .details("Larger bodies go to an unnamed file")
        .unit(),
        Key::new("body_temp_path", Kind::Text, "Directory of the files of long request bodies")
            .default("the server's")
            .details("The server's user must be able to write to it")
            .unit(),
        Key::new(
            "response_temp_size",
            Kind::Bytes(0),
            "Maximum bytes in files of all responses that clients have not read; a site may have \
             a half, a client a quarter",
        )
        .default("8589934592")
        .details(
            "The files are in `body_temp_path`. Beyond it, responses are cut off, and the log \
             says whose. A response that waits has at most 1 GiB; then its script waits",
        ),
        Key::switch(
            "discard_unsafe_fields",
            true,
            "Drops header fields whose names have characters other than letters, digits and \
             hyphens",
        )
        .unit(),
        Key::switch(
            "strict_requests",
            true,
            "Refuses requests that HTTP/1.1 forbids and Unit accepts",
        )
        .details("With 400, see below. With `howdah serve --unit` the default is `false`"),
        Key::switch("server_version", true, "Sends the version in the field `Server`").unit(),
        Key::switch("chunked_transform", true, "Accepts chunked request bodies")
            .details("Unit: `false`")
            .unit(),
        Key::switch("log_route", false, "Logs the step that each request takes").unit(),
        Key::new("static", Kind::Object(&STATIC), "Media types of files")
            .details("See below")
            .unit(),
        Key::new("compression", Kind::Object(&COMPRESSION), "Compression of responses")
            .default("none")
            .details("See below")
            .unit(),
        Key::new(
            "websocket",
            Kind::Named(&Kind::Integer(0, i64::MAX)),
            "Limits of WebSockets: `read_timeout`, `keepalive_interval`, `max_frame_size`",
        )
        .unavailable(),
    ]],
};

/// Maximum of `last_requests`.
const MAX_LAST_REQUESTS: i64 = 1_000_000;

/// Default of `last_requests`.
const LAST_REQUESTS: usize = 10_000;

/// Maximum of `large_header_buffer_size`: the server keeps request heads in memory.
const MAX_HEAD_BUFFER_BYTES: i64 = 16 << 20;

/// Settings of the whole server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of threads that serve connections; one for each processor if `None`.
    pub listen_threads: Option<u32>,
    /// Maximum memory of all PHP processes together; the memory of the machine if `None`.
    pub memory: Option<MemoryBudget>,
    /// Maximum number of workers of all PHP applications together; no limit if `None`.
    pub max_processes: Option<u32>,
    /// Time for which connections are still accepted when the server ends gracefully.
    pub shutdown_delay: Duration,
    /// Maximum time for requests in progress when the server ends gracefully or is upgraded; `None`
    /// for no limit and the default of an upgrade.
    pub shutdown_timeout: Option<Duration>,
    /// DNS servers; the system's if empty.
    pub resolver: Vec<SocketAddr>,
    /// The server through which several servers share purges and limits; `None` for one server
    /// alone.
    pub cluster: Option<Cluster>,
    /// The mail server of applications that name none.
    pub smtp: Option<Smtp>,
    /// Listeners for metrics.
    pub metrics: ServerListeners,
    /// Listeners for probes.
    pub probes: ServerListeners,
    /// Traces for a server of OpenTelemetry.
    pub telemetry: Option<Telemetry>,
    /// Number of requests that are kept in memory.
    pub last_requests: usize,
    /// Settings of HTTP.
    pub http: HttpSettings,
}

/// Times, sizes and switches of HTTP.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Maximum time for a request's head to arrive.
    pub header_read_timeout: Duration,
    /// Maximum time between two reads of a request's body.
    pub body_read_timeout: Duration,
    /// Maximum time between two writes of a response.
    pub send_timeout: Duration,
    /// Maximum time between two requests of a connection.
    pub idle_timeout: Duration,
    /// Maximum size of the request line, and of each header field, in bytes.
    pub large_header_buffer_size: u64,
    /// Maximum size of a request's head, as a multiple of `large_header_buffer_size`.
    pub large_header_buffers: u64,
    /// Maximum number of header fields of a request.
    pub max_header_fields: u64,
    /// Minimum average rate of a body or response in bytes per second; 0 is no limit.
    pub min_rate: u64,
    /// Time for which a client may be slower than `min_rate`.
    pub min_rate_grace: Duration,
    /// Bytes of a request's body that are kept in memory; longer bodies are written to a file.
    pub body_buffer_size: u64,
    /// Maximum size of a request's body in bytes.
    pub max_body_size: u64,
    /// The directory of the files of long bodies; the server's temporary directory if `None`.
    pub body_temp_path: Option<PathBuf>,
    /// Maximum size in bytes of the files of all responses that clients have not read.
    pub response_temp_size: u64,
    /// True if header fields are dropped whose name has other characters than letters, digits and
    /// hyphens.
    pub discard_unsafe_fields: bool,
    /// True if requests are refused that HTTP/1.1 forbids and Unit accepts: without `Host`, with
    /// spaces or a fragment in the target, or with an invalid host.
    pub strict_requests: bool,
    /// True if the step that each request takes is logged.
    pub log_route: bool,
    /// True if the `Server` field has the version.
    pub server_version: bool,
    /// True if request bodies may be sent in chunks.
    pub chunked_transform: bool,
    /// Media types and their file extensions, which precede the built-in ones.
    pub mime_types: Vec<(String, Vec<String>)>,
    /// Built-in media types that are not used.
    pub removed_types: Vec<String>,
    /// True if built-in media types are used.
    pub builtin_types: bool,
    /// Media type of files whose type is not known.
    pub default_type: Option<String>,
    /// Response compression; off if `None`.
    pub compression: Option<Compression>,
}

impl HttpSettings {
    /// Returns Unit 1.35's values, except that chunked bodies are allowed. Values for settings that
    /// Unit lacks are Apache's (`LimitRequestFields`, `RequestReadTimeout`).
    pub fn new(defaults: &Defaults) -> HttpSettings {
        HttpSettings {
            header_read_timeout: Duration::from_secs(30),
            body_read_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(180),
            large_header_buffer_size: 8 << 10,
            large_header_buffers: 4,
            max_header_fields: 100,
            min_rate: 500,
            min_rate_grace: Duration::from_secs(20),
            body_buffer_size: 16 << 10,
            max_body_size: 8 << 20,
            body_temp_path: None,
            response_temp_size: 8 << 30,
            discard_unsafe_fields: true,
            strict_requests: defaults.strict_requests,
            log_route: false,
            server_version: true,
            chunked_transform: true,
            mime_types: Vec::new(),
            removed_types: Vec::new(),
            builtin_types: true,
            default_type: None,
            compression: None,
        }
    }
}

impl Settings {
    /// Returns the settings of a document without `settings`.
    pub(crate) fn new(defaults: &Defaults) -> Settings {
        let http = HttpSettings::new(defaults);
        Settings {
            listen_threads: None,
            memory: None,
            max_processes: None,
            shutdown_delay: Duration::ZERO,
            shutdown_timeout: None,
            resolver: Vec::new(),
            cluster: None,
            smtp: None,
            metrics: ServerListeners::none(&METRICS),
            probes: ServerListeners::none(&PROBES),
            telemetry: None,
            last_requests: LAST_REQUESTS,
            http,
        }
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Settings, Error> {
        let object = node.object(&SETTINGS)?;
        let server_listeners = |shape: &'static Shape, target: Target| {
            let read = |node: &Node<'_>| ServerListeners::read(node, shape, &target);
            let none = || ServerListeners::none(shape);
            Ok(object.read(shape.name, read)?.unwrap_or_else(none))
        };
        let settings = Settings {
            listen_threads: object.integer("listen_threads")?,
            memory: object.read("memory", MemoryBudget::read)?,
            max_processes: object.integer("max_processes")?,
            shutdown_delay: object.seconds("shutdown_delay")?.unwrap_or_default(),
            shutdown_timeout: object.seconds("shutdown_timeout")?,
            resolver: object.read("resolver", read_resolver)?.unwrap_or_default(),
            cluster: object.read("cluster", Cluster::read)?,
            smtp: object.read("smtp", Smtp::read)?,
            metrics: server_listeners(&METRICS, Target::Metrics)?,
            probes: server_listeners(&PROBES, Target::Probes)?,
            telemetry: object.read("telemetry", Telemetry::read)?,
            last_requests: object.integer("last_requests")?.unwrap_or(LAST_REQUESTS),
            http: match object.read("http", HttpSettings::read)? {
                Some(http) => http,
                None => HttpSettings::new(&node.scope.defaults),
            },
        };
        object.end()?;
        Ok(settings)
    }
}

/// Reads one address or several, with port 53 unless they have another.
fn read_resolver(node: &Node<'_>) -> Result<Vec<SocketAddr>, Error> {
    let read = |node: Node<'_>| {
        let text = node.string()?;
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, 53));
        }
        text.parse().map_err(|_| {
            node.invalid("is not an address of a server").with_hint("write \"10.0.0.53\"")
        })
    };
    node.one_or_many().map(read).collect()
}

impl HttpSettings {
    /// Returns the maximum size of a request's head in bytes.
    pub fn max_head_size(&self) -> u64 {
        self.large_header_buffer_size.saturating_mul(self.large_header_buffers)
    }

    fn read(node: &Node<'_>) -> Result<HttpSettings, Error> {
        let object = node.object(&HTTP)?;
        let default = HttpSettings::new(&node.scope.defaults);
        let seconds = |key, default| object.seconds(key).map(|value| value.unwrap_or(default));
        let size = |key, default| object.bytes(key).map(|value| value.unwrap_or(default));
        let bounded = |key, default| object.integer(key).map(|value| value.unwrap_or(default));
        let switch = |key, default| object.boolean(key).map(|value| value.unwrap_or(default));
        let types = object.read("static", StaticTypes::read)?.unwrap_or_default();
        let settings = HttpSettings {
            header_read_timeout: seconds("header_read_timeout", default.header_read_timeout)?,
            body_read_timeout: seconds("body_read_timeout", default.body_read_timeout)?,
            send_timeout: seconds("send_timeout", default.send_timeout)?,
            idle_timeout: seconds("idle_timeout", default.idle_timeout)?,
            large_header_buffer_size: bounded(
                "large_header_buffer_size",
                default.large_header_buffer_size,
            )?,
            large_header_buffers: bounded("large_header_buffers", default.large_header_buffers)?,
            max_header_fields: bounded("max_header_fields", default.max_header_fields)?,
            min_rate: size("min_rate", default.min_rate)?,
            min_rate_grace: seconds("min_rate_grace", default.min_rate_grace)?,
            body_buffer_size: size("body_buffer_size", default.body_buffer_size)?,
            max_body_size: size("max_body_size", default.max_body_size)?,
            body_temp_path: object.file("body_temp_path")?,
            response_temp_size: size("response_temp_size", default.response_temp_size)?,
            discard_unsafe_fields: switch("discard_unsafe_fields", default.discard_unsafe_fields)?,
            strict_requests: switch("strict_requests", default.strict_requests)?,
            log_route: switch("log_route", default.log_route)?,
            server_version: switch("server_version", default.server_version)?,
            chunked_transform: switch("chunked_transform", default.chunked_transform)?,
            mime_types: types.mime_types.types,
            removed_types: types.mime_types.removed,
            builtin_types: types.builtin_types,
            default_type: types.default_type,
            compression: object.read("compression", Compression::read)?,
        };
        object.end()?;
        Ok(settings)
    }
}
