//! A JSON Schema (draft 7) of the document, for editors.
//!
//! [`TABLE`] names every object of the document with its keys, their types and their meaning. The
//! reader decides what is accepted; a test compares the keys that it knows with those of the
//! table. Keys that this version does not carry out are left out.

use serde_json::{Map, Value, json};

use crate::support::{Feature, Support};

/// An object of the document.
struct Shape {
    name: &'static str,
    required: &'static [&'static str],
    keys: &'static [Key],
}

/// A key: name, type, meaning, and the feature that it needs.
struct Key(&'static str, Kind, &'static str, Option<Feature>);

/// The type of a value.
enum Kind {
    /// A string.
    Text,
    /// `true` or `false`.
    Switch,
    /// An integer between two.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// A string, or an array of strings.
    Texts,
    /// One of some strings.
    Word(&'static [&'static str]),
    /// An object of the table.
    Shape(&'static str),
    /// An object of names, each with the same type.
    Named(&'static Kind),
    /// An array.
    Array(&'static Kind),
    /// One of several types.
    Either(&'static [Kind]),
    /// `null`.
    Null,
}

use Kind::{Array, Either, Integer, Named, Null, Number, Switch, Text, Texts, Word};

const COUNT: i64 = i32::MAX as i64;
const SECONDS: Kind = Integer(0, COUNT / 1000);
const SIZE: Kind = Integer(0, i64::MAX);

/// The schema of the document that this version reads.
pub fn schema() -> Value {
    let available = |key: &&Key| key.3.is_none_or(|feature| Support::ThisVersion.has(feature));
    let mut definitions = Map::new();
    for shape in TABLE {
        let properties: Map<String, Value> = { shape.keys.iter() }
            .filter(available)
            .map(|Key(name, kind, meaning, _)| {
                let mut value = kind.schema();
                if let Value::Object(members) = &mut value {
                    members.insert("description".to_owned(), (*meaning).into());
                }
                ((*name).to_owned(), value)
            })
            .collect();
        let mut value = json!({
            "type": "object", "additionalProperties": false, "properties": properties,
        });
        if let (false, Value::Object(members)) = (shape.required.is_empty(), &mut value) {
            members.insert("required".to_owned(), json!(shape.required));
        }
        definitions.insert(shape.name.to_owned(), value);
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Howdah's configuration",
        "allOf": [{ "$ref": "#/definitions/document" }],
        "definitions": definitions,
    })
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Text => json!({ "type": "string" }),
            Switch => json!({ "type": "boolean" }),
            Integer(low, i64::MAX) => json!({ "type": "integer", "minimum": low }),
            Integer(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
            Number => json!({ "type": "number" }),
            Texts => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
            Word(words) => json!({ "enum": words }),
            // Beside a reference draft 7 ignores everything, also a description.
            Kind::Shape(name) => {
                json!({ "allOf": [{ "$ref": format!("#/definitions/{name}") }] })
            }
            Named(kind) => json!({ "type": "object", "additionalProperties": kind.schema() }),
            Array(kind) => json!({ "type": "array", "items": kind.schema() }),
            Either(kinds) => {
                json!({ "anyOf": kinds.iter().map(Kind::schema).collect::<Vec<_>>() })
            }
            Null => json!({ "type": "null" }),
        }
    }
}

const FIELDS: Kind = Either(&[Named(&Texts), Array(&Named(&Texts))]);
const SETTINGS_OF_PHP: Kind = Named(&Text);
const ID_MAP: Kind = Array(&Kind::Shape("id_range"));

const TABLE: &[Shape] = &[
    Shape {
        name: "document",
        required: &[],
        keys: &[
            Key("settings", Kind::Shape("settings"), "What holds for all listeners", None),
            Key(
                "listeners",
                Named(&Kind::Shape("listener")),
                "Sockets by address, such as \"*:80\" or \"unix:/run/site.sock\"",
                None,
            ),
            Key(
                "routes",
                Either(&[Array(&Kind::Shape("step")), Named(&Array(&Kind::Shape("step")))]),
                "Steps that decide what happens to a request",
                None,
            ),
            Key(
                "applications",
                Named(&Kind::Shape("application")),
                "PHP applications by name",
                None,
            ),
            Key(
                "upstreams",
                Named(&Kind::Shape("upstream")),
                "Groups of servers by name",
                Some(Feature::Upstreams),
            ),
            Key(
                "access_log",
                Either(&[Text, Kind::Shape("access_log")]),
                "One line for each request",
                Some(Feature::AccessLog),
            ),
        ],
    },
    Shape {
        name: "listener",
        required: &[],
        keys: &[
            Key(
                "application",
                Text,
                "Unit's older form of \"pass\": the name of an application",
                None,
            ),
            Key(
                "pass",
                Text,
                "Where requests go, such as \"routes\" or \"applications/NAME\"",
                None,
            ),
            Key(
                "backlog",
                Integer(-1, COUNT),
                "Connections that may wait to be accepted; -1 is as many as the system allows",
                None,
            ),
            Key(
                "forwarded",
                Kind::Shape("forwarded"),
                "Proxies that are believed about the client",
                Some(Feature::Forwarded),
            ),
            Key(
                "client_ip",
                Kind::Shape("client_ip"),
                "Unit's older form of \"forwarded\"",
                Some(Feature::Forwarded),
            ),
        ],
    },
    Shape {
        name: "forwarded",
        required: &["source"],
        keys: &[
            Key(
                "client_ip",
                Text,
                "Field with the client's address, such as X-Forwarded-For",
                None,
            ),
            Key("protocol", Text, "Field with the scheme, such as X-Forwarded-Proto", None),
            Key("source", Texts, "Addresses of the proxies", None),
            Key("recursive", Switch, "Take the last address that is no proxy itself", None),
        ],
    },
    Shape {
        name: "client_ip",
        required: &["header", "source"],
        keys: &[
            Key("header", Text, "Field with the client's address", None),
            Key("source", Texts, "Addresses of the proxies", None),
            Key("recursive", Switch, "Take the last address that is no proxy itself", None),
        ],
    },
    Shape {
        name: "step",
        required: &["action"],
        keys: &[
            Key("match", Kind::Shape("match"), "Conditions, all of which must hold", None),
            Key("action", Kind::Shape("action"), "What is done if they hold", None),
        ],
    },
    Shape {
        name: "match",
        required: &[],
        keys: &[
            Key("method", Texts, "The method", Some(Feature::MatchConditions)),
            Key("scheme", Text, "\"http\" or \"https\"", Some(Feature::MatchConditions)),
            Key("host", Texts, "The host asked for, without port", Some(Feature::MatchConditions)),
            Key("source", Texts, "The client's address", Some(Feature::MatchConditions)),
            Key(
                "destination",
                Texts,
                "The address that the client connected to",
                Some(Feature::MatchConditions),
            ),
            Key("uri", Texts, "The path, decoded and normalised", None),
            Key("query", Texts, "The query, decoded", Some(Feature::MatchConditions)),
            Key("arguments", FIELDS, "Arguments of the query", Some(Feature::MatchConditions)),
            Key("headers", FIELDS, "Header fields", Some(Feature::MatchConditions)),
            Key("cookies", FIELDS, "Cookies", Some(Feature::MatchConditions)),
            Key(
                "if",
                Text,
                "Text with variables that must come to something",
                Some(Feature::MatchConditions),
            ),
        ],
    },
    Shape {
        name: "action",
        required: &[],
        keys: &[
            Key("pass", Text, "Another part of the document decides", None),
            Key("return", Integer(0, 999), "The server answers by itself, with this status", None),
            Key("location", Text, "With \"return\": the Location field", None),
            Key("keep_query", Switch, "With \"location\": add the query of the request", None),
            Key("share", Texts, "Names of files to try in order, such as \"/www$uri\"", None),
            Key("index", Texts, "With \"share\": what answers for a directory", None),
            Key("types", Texts, "With \"share\": media types that may be sent", None),
            Key("chroot", Text, "With \"share\": directory that files must be in", None),
            Key(
                "follow_symlinks",
                Switch,
                "With \"share\": whether symbolic links are followed",
                None,
            ),
            Key(
                "traverse_mounts",
                Switch,
                "With \"share\": whether mount points are crossed",
                None,
            ),
            Key("scripts", Text, "With \"share\": the application that runs scripts found", None),
            Key(
                "fallback",
                Kind::Shape("action"),
                "With \"share\": what is done if there is no file",
                None,
            ),
            Key(
                "proxy",
                Text,
                "Another HTTP server answers, such as \"http://127.0.0.1:8080\"",
                Some(Feature::Proxy),
            ),
            Key(
                "rewrite",
                Text,
                "Path that takes the place of the request's",
                Some(Feature::Rewrite),
            ),
            Key(
                "response_headers",
                Named(&Either(&[Text, Null])),
                "Fields to set in the response, or with null to take out",
                Some(Feature::ResponseHeaders),
            ),
            Key("compress", Switch, "Whether responses may be compressed", None),
            Key("allow", Texts, "Addresses that may come here", None),
            Key("deny", Texts, "Addresses that may not", None),
            Key("basic_auth", Kind::Shape("basic_auth"), "Names and passwords", None),
            Key("error_pages", Named(&Text), "Files for errors, by status", None),
            Key("cors", Kind::Shape("cors"), "Which other sites may read responses", None),
            Key("security_headers", Switch, "Add fields that protect browsers", None),
        ],
    },
    Shape {
        name: "cors",
        required: &["origins"],
        keys: &[
            Key("origins", Texts, "Sites such as \"https://example.com\", or \"*\"", None),
            Key("credentials", Switch, "Whether cookies and passwords may be sent", None),
            Key("methods", Texts, "Methods that may be used", None),
            Key("headers", Texts, "Header fields that may be sent", None),
            Key("expose_headers", Texts, "Header fields that may be read", None),
            Key("max_age", SECONDS, "Seconds that a browser may remember this", None),
        ],
    },
    Shape {
        name: "basic_auth",
        required: &["users_file"],
        keys: &[
            Key("realm", Text, "What the browser shows", None),
            Key("users_file", Text, "A file as htpasswd writes it", None),
        ],
    },
    Shape {
        name: "application",
        required: &["type"],
        keys: &[
            Key(
                "type",
                Text,
                "\"php\", or a version as exact as wanted, such as \"php 8.2\"",
                None,
            ),
            Key("root", Text, "Document root", None),
            Key("script", Text, "Script that answers all requests", None),
            Key("index", Text, "Script that answers for a directory", None),
            Key(
                "targets",
                Named(&Kind::Shape("target")),
                "Several roots and scripts by name",
                None,
            ),
            Key("options", Kind::Shape("options"), "Settings of PHP", None),
            Key(
                "processes",
                Either(&[Integer(1, COUNT), Kind::Shape("processes")]),
                "How many processes run it",
                None,
            ),
            Key("limits", Kind::Shape("limits"), "Bounds", None),
            Key("environment", Named(&Text), "Environment variables", None),
            Key("server_software", Text, "Value of SERVER_SOFTWARE", None),
            Key("user", Text, "Whose rights it has", None),
            Key("group", Text, "Likewise", None),
            Key("working_directory", Text, "Where its processes start", None),
            Key("stdout", Text, "File for its output", None),
            Key("stderr", Text, "File for its messages", None),
            Key(
                "isolation",
                Kind::Shape("isolation"),
                "What its processes see of the machine",
                Some(Feature::Isolation),
            ),
        ],
    },
    Shape {
        name: "target",
        required: &["root"],
        keys: &[
            Key("root", Text, "Document root", None),
            Key("script", Text, "Script that answers all requests", None),
            Key("index", Text, "Script that answers for a directory", None),
        ],
    },
    Shape {
        name: "options",
        required: &[],
        keys: &[
            Key("file", Text, "The php.ini", None),
            Key("admin", SETTINGS_OF_PHP, "Settings that scripts cannot change", None),
            Key("user", SETTINGS_OF_PHP, "Settings that scripts can change", None),
        ],
    },
    Shape {
        name: "processes",
        required: &[],
        keys: &[
            Key("max", Integer(1, COUNT), "At most so many", None),
            Key("spare", Integer(0, COUNT), "So many are kept idle", None),
            Key("idle_timeout", SECONDS, "Seconds after which an idle process ends", None),
        ],
    },
    Shape {
        name: "limits",
        required: &[],
        keys: &[
            Key("timeout", SECONDS, "Seconds that a request may run; 0 is no limit", None),
            Key(
                "requests",
                Integer(0, COUNT),
                "Requests after which a process is replaced; 0 is none",
                None,
            ),
            Key("shm", SIZE, "Bytes of shared memory", Some(Feature::SharedMemoryLimit)),
            Key("queue", Integer(0, COUNT), "Requests that may wait for a process", None),
            Key("queue_timeout", SECONDS, "Seconds that a request may wait for a process", None),
        ],
    },
    Shape {
        name: "isolation",
        required: &[],
        keys: &[
            Key("namespaces", Named(&Switch), "Namespaces of its own", None),
            Key("uidmap", ID_MAP, "User ids inside and outside", None),
            Key("gidmap", ID_MAP, "Group ids inside and outside", None),
            Key("rootfs", Text, "Directory that becomes the root", None),
            Key("automount", Named(&Switch), "What is mounted in \"rootfs\"", None),
            Key("new_privs", Switch, "Whether files that are executed may give rights", None),
            Key("cgroup", Named(&Text), "The control group", None),
        ],
    },
    Shape {
        name: "id_range",
        required: &["container", "host", "size"],
        keys: &[
            Key("container", Integer(0, u32::MAX as i64), "First id inside", None),
            Key("host", Integer(0, u32::MAX as i64), "First id outside", None),
            Key("size", Integer(1, u32::MAX as i64), "How many", None),
        ],
    },
    Shape {
        name: "upstream",
        required: &["servers"],
        keys: &[
            Key("servers", Named(&Kind::Shape("upstream_server")), "Servers by address", None),
            Key("tries", Integer(1, 100), "Servers asked before a request fails", None),
            Key("keepalive", Integer(0, 10_000), "Idle connections kept to each server", None),
        ],
    },
    Shape {
        name: "upstream_server",
        required: &[],
        keys: &[Key("weight", Number, "Its share of the requests", None)],
    },
    Shape {
        name: "settings",
        required: &[],
        keys: &[
            Key(
                "listen_threads",
                Integer(1, COUNT),
                "Threads that serve connections",
                Some(Feature::ListenThreads),
            ),
            Key("http", Kind::Shape("http"), "Times, sizes and switches of HTTP", None),
        ],
    },
    Shape { name: "http", required: &[], keys: HTTP },
    Shape {
        name: "static",
        required: &[],
        keys: &[Key(
            "mime_types",
            Named(&Texts),
            "Media types and their file extensions",
            Some(Feature::MimeTypes),
        )],
    },
    Shape {
        name: "compression",
        required: &[],
        keys: &[
            Key("enabled", Switch, "Whether anything is compressed", None),
            Key("types", Texts, "Media types that are compressed", None),
            Key(
                "compressors",
                Either(&[Kind::Shape("compressor"), Array(&Kind::Shape("compressor"))]),
                "The encodings, the preferred first",
                None,
            ),
        ],
    },
    Shape {
        name: "compressor",
        required: &["encoding"],
        keys: &[
            Key("encoding", Word(&["gzip", "br", "zstd", "deflate"]), "Which encoding", None),
            Key("level", Integer(-7, 22), "How hard to try", None),
            Key("min_length", SIZE, "Shorter responses are sent as they are", None),
        ],
    },
    Shape {
        name: "websocket",
        required: &[],
        keys: &[
            Key("read_timeout", SECONDS, "Longest pause between two frames", None),
            Key("keepalive_interval", SECONDS, "Pause after which a ping is sent", None),
            Key("max_frame_size", Integer(1, i64::MAX), "Bytes that a frame may have", None),
        ],
    },
    Shape {
        name: "access_log",
        required: &["path"],
        keys: &[
            Key("path", Text, "The file", None),
            Key(
                "format",
                Either(&[Text, Named(&Text)]),
                "A line with variables, or an object of such strings",
                None,
            ),
            Key("if", Text, "Which requests have a line", None),
        ],
    },
];

const HTTP: &[Key] = &[
    Key(
        "header_read_timeout",
        SECONDS,
        "Seconds that the head of a request may take to arrive",
        None,
    ),
    Key("body_read_timeout", SECONDS, "Longest pause between two pieces of a request's body", None),
    Key("send_timeout", SECONDS, "Seconds that a client may take nothing of the response", None),
    Key("idle_timeout", SECONDS, "Longest pause between two requests of a connection", None),
    Key(
        "large_header_buffer_size",
        Integer(1, 16 << 20),
        "Bytes that the request line, and each header field, may have",
        None,
    ),
    Key(
        "large_header_buffers",
        Integer(1, 1024),
        "So many times that is what the head of a request may have",
        None,
    ),
    Key("max_header_fields", Integer(1, 1000), "Header fields that a request may have", None),
    Key("min_rate", SIZE, "Bytes a second that a client must send or take at least", None),
    Key("min_rate_grace", SECONDS, "Seconds before \"min_rate\" counts", None),
    Key("body_buffer_size", SIZE, "Bytes of a request's body that are kept in memory", None),
    Key("max_body_size", SIZE, "Bytes that the body of a request may have", None),
    Key("body_temp_path", Text, "Directory for the files of large bodies", None),
    Key("discard_unsafe_fields", Switch, "Drop header fields with unusual names", None),
    Key("log_route", Switch, "Log which step each request takes", None),
    Key("server_version", Switch, "Whether the Server field has the version", None),
    Key("chunked_transform", Switch, "Whether request bodies may come in chunks", None),
    Key("static", Kind::Shape("static"), "Files", None),
    Key(
        "compression",
        Kind::Shape("compression"),
        "Which responses are compressed",
        Some(Feature::Compression),
    ),
    Key("websocket", Kind::Shape("websocket"), "WebSocket connections", Some(Feature::WebSocket)),
];

#[cfg(test)]
mod tests;
