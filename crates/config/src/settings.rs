//! `settings`: settings of the whole server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::compression::Compression;
use crate::defaults::Defaults;
use crate::error::Error;
use crate::memory_budget::MemoryBudget;
use crate::node::Node;
use crate::smtp::Smtp;

/// Settings of the whole server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of threads that serve connections; one for each processor if `None`.
    pub listen_threads: Option<u32>,
    /// Maximum memory of all PHP processes together; what the machine has if `None`.
    pub memory: Option<MemoryBudget>,
    /// Maximum time for requests in progress when the server ends gracefully or is upgraded; `None` for
    /// no limit and the default of an upgrade.
    pub shutdown_timeout: Option<Duration>,
    /// DNS servers; the system's if empty.
    pub resolver: Vec<SocketAddr>,
    /// The server through which several servers share purges and limits; `None` for one server alone.
    pub cluster: Option<Cluster>,
    /// The mail server of applications that name none.
    pub smtp: Option<Smtp>,
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
            shutdown_timeout: None,
            resolver: Vec::new(),
            cluster: None,
            smtp: None,
            http,
        }
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Settings, Error> {
        let object = node.object()?;
        object.unavailable("js_module")?;
        object.unavailable("telemetry")?;
        let settings = Settings {
            listen_threads: object.read("listen_threads", |threads| threads.count(1))?,
            memory: object.read("memory", MemoryBudget::read)?,
            shutdown_timeout: object.read("shutdown_timeout", |timeout| timeout.seconds(0))?,
            resolver: object.read("resolver", read_resolver)?.unwrap_or_default(),
            cluster: object.read("cluster", Cluster::read)?,
            smtp: object.read("smtp", Smtp::read)?,
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
        /// Maximum of `large_header_buffer_size` in bytes: the server keeps request heads in
        /// memory.
        const MAX_BUFFER_BYTES: i64 = 16 << 20;
        const MAX_BUFFERS: i64 = 1024;
        const MAX_FIELDS: i64 = 1000;
        let object = node.object()?;
        object.unavailable("websocket")?;
        let default = HttpSettings::new(&node.scope.defaults);
        let seconds = |key, default| {
            object.read(key, |node| node.seconds(0)).map(|value| value.unwrap_or(default))
        };
        let size = |key, default| {
            object.read(key, |node| node.size(0)).map(|value| value.unwrap_or(default))
        };
        let bounded = |key, max, default| {
            let read = |node: &Node<'_>| node.integer(1..=max).map(i64::unsigned_abs);
            object.read(key, read).map(|value| value.unwrap_or(default))
        };
        let switch = |key, default| object.boolean(key).map(|value| value.unwrap_or(default));
        let types = object.read("static", StaticTypes::read)?.unwrap_or_default();
        let settings = HttpSettings {
            header_read_timeout: seconds("header_read_timeout", default.header_read_timeout)?,
            body_read_timeout: seconds("body_read_timeout", default.body_read_timeout)?,
            send_timeout: seconds("send_timeout", default.send_timeout)?,
            idle_timeout: seconds("idle_timeout", default.idle_timeout)?,
            large_header_buffer_size: bounded(
                "large_header_buffer_size",
                MAX_BUFFER_BYTES,
                default.large_header_buffer_size,
            )?,
            large_header_buffers: bounded(
                "large_header_buffers",
                MAX_BUFFERS,
                default.large_header_buffers,
            )?,
            max_header_fields: bounded("max_header_fields", MAX_FIELDS, default.max_header_fields)?,
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
            mime_types: types.mime_types,
            default_type: types.default_type,
            compression: object.read("compression", Compression::read)?,
        };
        object.end()?;
        Ok(settings)
    }
}

type MimeTypes = Vec<(String, Vec<String>)>;

/// Media types of files.
#[derive(Default)]
struct StaticTypes {
    mime_types: MimeTypes,
    default_type: Option<String>,
}

impl StaticTypes {
    fn read(node: &Node<'_>) -> Result<StaticTypes, Error> {
        let object = node.object()?;
        let types = StaticTypes {
            mime_types: object.read("mime_types", read_mime_types)?.unwrap_or_default(),
            default_type: object.read("default_type", |node| {
                let name = node.text()?;
                check_type(name, node).map(|()| name.to_owned())
            })?,
        };
        object.end()?;
        Ok(types)
    }
}

fn check_type(name: &str, node: &Node<'_>) -> Result<(), Error> {
    match !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        true => Ok(()),
        false => Err(node.invalid("is no media type; write one such as \"text/html\"")),
    }
}

/// Reads media types with an extension (`.html`) or a whole file name (`README`), or several.
fn read_mime_types(node: &Node<'_>) -> Result<MimeTypes, Error> {
    let mut taken = std::collections::HashMap::new();
    let mut types = Vec::new();
    for (name, member) in node.members()? {
        check_type(name, &member)?;
        let mut extensions = Vec::new();
        for element in member.one_or_many() {
            let extension = element.text()?;
            // Unit compares extensions without regard to case.
            if let Some(other) = taken.insert(extension.to_ascii_lowercase(), name) {
                let message = format!("names an extension that \"{other}\" has already");
                return Err(element.invalid(message));
            }
            extensions.push(extension.to_owned());
        }
        types.push((name.to_owned(), extensions));
    }
    Ok(types)
}
