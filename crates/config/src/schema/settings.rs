//! What holds for all listeners.

use super::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, SIZE, Shape};
use crate::support::Feature;

pub(super) const TABLE: &[Shape] = &[
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
            Key("resolver", Texts, "Servers that are asked for addresses of names", None),
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
    Key("strict_requests", Switch, "Refuse requests that HTTP/1.1 forbids (default)", None),
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
