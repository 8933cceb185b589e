//! What holds for all listeners.

use super::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, SIZE, Shape};

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "settings",
        required: &[],
        keys: &[
            Key("listen_threads", Integer(1, COUNT), "Threads that serve connections"),
            Key("resolver", Texts, "Servers that are asked for addresses of names"),
            Key("http", Kind::Shape("http"), "Times, sizes and switches of HTTP"),
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
            Key("enabled", Switch, "Whether anything is compressed"),
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
            Key("encoding", Word(&["gzip", "br", "zstd", "deflate"]), "Which encoding"),
            Key("level", Integer(-7, 22), "How hard to try"),
            Key("min_length", SIZE, "Shorter responses are sent as they are"),
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
            Key("if", Text, "Which requests have a line"),
        ],
    },
];

const HTTP: &[Key] = &[
    Key("header_read_timeout", SECONDS, "Seconds that the head of a request may take to arrive"),
    Key("body_read_timeout", SECONDS, "Longest pause between two pieces of a request's body"),
    Key("send_timeout", SECONDS, "Seconds that a client may take nothing of the response"),
    Key("idle_timeout", SECONDS, "Longest pause between two requests of a connection"),
    Key(
        "large_header_buffer_size",
        Integer(1, 16 << 20),
        "Bytes that the request line, and each header field, may have",
    ),
    Key(
        "large_header_buffers",
        Integer(1, 1024),
        "So many times that is what the head of a request may have",
    ),
    Key("max_header_fields", Integer(1, 1000), "Header fields that a request may have"),
    Key("min_rate", SIZE, "Bytes a second that a client must send or take at least"),
    Key("min_rate_grace", SECONDS, "Seconds before \"min_rate\" counts"),
    Key("body_buffer_size", SIZE, "Bytes of a request's body that are kept in memory"),
    Key("max_body_size", SIZE, "Bytes that the body of a request may have"),
    Key("body_temp_path", Text, "Directory for the files of large bodies"),
    Key("discard_unsafe_fields", Switch, "Drop header fields with unusual names"),
    Key("strict_requests", Switch, "Refuse requests that HTTP/1.1 forbids (default)"),
    Key("log_route", Switch, "Log which step each request takes"),
    Key("server_version", Switch, "Whether the Server field has the version"),
    Key("chunked_transform", Switch, "Whether request bodies may come in chunks"),
    Key("static", Kind::Shape("static"), "Files"),
    Key("compression", Kind::Shape("compression"), "Which responses are compressed"),
];
