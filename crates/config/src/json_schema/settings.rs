//! Objects of `settings` and `access_log`.

use super::shape::Kind::{Array, Either, Integer, Matching, Named, Switch, Text, Texts, Word};
use super::shape::{COUNT, Key, Kind, SECONDS, SIZE, Shape};
use crate::memory_budget;

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "settings",
        required: &[],
        keys: &[
            Key("listen_threads", Integer(1, COUNT), "Threads that serve connections"),
            Key(
                "memory",
                Either(&[
                    Integer(memory_budget::MIN_BYTES, i64::MAX),
                    Matching(memory_budget::PATTERN),
                ]),
                "Maximum memory of all PHP processes together: bytes, \"512M\" or \"60%\" of the \
                 machine's",
            ),
            Key(
                "shutdown_timeout",
                SECONDS,
                "Maximum seconds for requests in progress when the server ends gracefully or is \
                 upgraded",
            ),
            Key("resolver", Texts, "DNS servers"),
            Key("http", Kind::Shape("http"), "Settings of HTTP"),
        ],
    },
    Shape { name: "http", required: &[], keys: HTTP },
    Shape {
        name: "static",
        required: &[],
        keys: &[Key("mime_types", Named(&Texts), "Media types and their file extensions")],
    },
    Shape {
        name: "compression",
        required: &[],
        keys: &[
            Key("enabled", Switch, "Whether responses are compressed"),
            Key("types", Texts, "Media types that are compressed"),
            Key(
                "compressors",
                Either(&[Kind::Shape("compressor"), Array(&Kind::Shape("compressor"))]),
                "The encodings, the preferred first",
            ),
        ],
    },
    Shape {
        name: "compressor",
        required: &["encoding"],
        keys: &[
            Key("encoding", Word(&["gzip", "br", "zstd", "deflate"]), "The encoding"),
            Key("level", Integer(-7, 22), "The compression level"),
            Key("min_length", SIZE, "Minimum length of compressed responses in bytes"),
        ],
    },
    Shape {
        name: "access_log",
        required: &["path"],
        keys: &[
            Key("path", Text, "The file"),
            Key(
                "format",
                Either(&[Text, Named(&Text)]),
                "A line with variables, or an object of such strings",
            ),
            Key("if", Text, "Condition for a request to be logged"),
        ],
    },
];

const HTTP: &[Key] = &[
    Key("header_read_timeout", SECONDS, "Maximum seconds for a request's head to arrive"),
    Key("body_read_timeout", SECONDS, "Maximum seconds between two reads of a request body"),
    Key("send_timeout", SECONDS, "Maximum seconds between two writes of a response"),
    Key("idle_timeout", SECONDS, "Maximum seconds between two requests of a connection"),
    Key(
        "large_header_buffer_size",
        Integer(1, 16 << 20),
        "Maximum size of the request line, and of each header field, in bytes",
    ),
    Key(
        "large_header_buffers",
        Integer(1, 1024),
        "Maximum size of a request's head, as a multiple of \"large_header_buffer_size\"",
    ),
    Key("max_header_fields", Integer(1, 1000), "Maximum number of header fields of a request"),
    Key("min_rate", SIZE, "Minimum average rate of bodies and responses in bytes per second"),
    Key("min_rate_grace", SECONDS, "Seconds for which a client may be slower than \"min_rate\""),
    Key("body_buffer_size", SIZE, "Bytes of a request body that are kept in memory"),
    Key("max_body_size", SIZE, "Maximum size of a request body in bytes"),
    Key("body_temp_path", Text, "Directory for files of long request bodies"),
    Key("discard_unsafe_fields", Switch, "Drop header fields with unusual names"),
    Key("strict_requests", Switch, "Refuse requests that HTTP/1.1 forbids (default)"),
    Key("log_route", Switch, "Log the step that each request takes"),
    Key("server_version", Switch, "Whether the Server field has the version"),
    Key("chunked_transform", Switch, "Whether chunked request bodies are accepted"),
    Key("static", Kind::Shape("static"), "Settings of static files"),
    Key("compression", Kind::Shape("compression"), "Response compression"),
];
