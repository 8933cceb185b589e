//! Objects of `settings` and `access_log`.

use super::shape::Kind::{
    Array, Either, Integer, Matching, Named, Number, Switch, Text, Texts, Word,
};
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
            Key(
                "cluster",
                Either(&[Text, Kind::Shape("cluster")]),
                "Valkey or Redis server through which servers of one site share purges and limits",
            ),
            Key("smtp", Kind::Shape("smtp"), "Mail server that takes the messages of applications"),
            Key("http", Kind::Shape("http"), "Settings of HTTP"),
        ],
    },
    Shape {
        name: "smtp",
        required: &[],
        keys: &[
            Key("host", Text, "Host name or address of the server (\"localhost\")"),
            Key("port", Integer(1, 65_535), "Port of the server (25)"),
            Key(
                "tls",
                Either(&[Switch, Word(&["starttls"])]),
                "Encryption: true from the first byte on, \"starttls\" after that command",
            ),
            Key("user", Text, "User name at the server"),
            Key("password_file", Text, "File whose first line is the password"),
            Key("authorities", Text, "File with the certificates of the trusted authorities"),
            Key("from", Text, "Sender of messages that name none"),
            Key("limit", Integer(1, COUNT), "Maximum number of recipients in an hour"),
            Key("timeout", Integer(1, 600), "Maximum seconds of a delivery (30)"),
        ],
    },
    Shape {
        name: "cluster",
        required: &["server"],
        keys: &[
            Key(
                "server",
                Text,
                "Its address: \"10.0.0.5:6379\" or \"unix:/run/valkey/valkey.sock\"",
            ),
            Key("username", Text, "User name; the default user without it"),
            Key("password", Text, "Password"),
            Key("database", Integer(0, 65_535), "Number of the database"),
            Key("prefix", Text, "Beginning of all keys (\"howdah:\")"),
            Key("timeout", Number, "Maximum seconds for which a request waits for it (0.02)"),
        ],
    },
    Shape { name: "http", required: &[], keys: HTTP },
    Shape {
        name: "static",
        required: &[],
        keys: &[
            Key(
                "mime_types",
                Either(&[Named(&Texts), Text]),
                "Media types and their file extensions, or a file such as \"/etc/mime.types\"",
            ),
            Key("default_type", Text, "Media type of files whose type is not known"),
        ],
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
        required: &[],
        keys: &[
            Key("path", Text, "The file"),
            Key(
                "syslog",
                Either(&[Text, Kind::Shape("syslog")]),
                "In place of a file: a syslog server",
            ),
            Key(
                "journal",
                Either(&[Switch, Kind::Shape("journal")]),
                "In place of a file: systemd's journal",
            ),
            Key(
                "format",
                Either(&[Text, Named(&Text)]),
                "\"combined\", \"common\", \"vhost_combined\", \"json\", a line with variables, or an object of such \
                 strings",
            ),
            Key("numbers", Switch, "Whether numbers in JSON are written as such"),
            Key("if", Text, "Condition for a request to be logged"),
            Key("only", Kind::Shape("log_only"), "Log only slow, failed or some requests"),
            Key("mask", Texts, "Query arguments whose values are not shown"),
            Key("flush", Number, "Maximum seconds that a line waits to be written"),
        ],
    },
    Shape {
        name: "syslog",
        required: &["server"],
        keys: &[
            Key("server", Text, "Its address: \"10.0.0.5:514\" or \"unix:/dev/log\""),
            Key("protocol", Word(&["rfc5424", "rfc3164"]), "The form of messages"),
            Key("facility", Text, "The facility, such as \"local7\""),
            Key("severity", Text, "The severity, such as \"info\""),
            Key("tag", Text, "Name of the program in messages"),
            Key("hostname", Text, "Name of the machine in messages"),
        ],
    },
    Shape {
        name: "journal",
        required: &[],
        keys: &[
            Key("identifier", Text, "Name of the program in entries"),
            Key("severity", Text, "The severity, such as \"info\""),
        ],
    },
    Shape {
        name: "log_only",
        required: &[],
        keys: &[
            Key("slow", Number, "Requests that take at least this many seconds"),
            Key(
                "status",
                Either(&[Integer(100, 599), Array(&Integer(100, 599))]),
                "Responses with this status, or between the lowest and the highest",
            ),
            Key("sample", Number, "A random part of the requests: 0.01 is one of a hundred"),
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
    Key(
        "response_temp_size",
        SIZE,
        "Maximum bytes in files of all responses that clients have not read; a site may have a half, a client a quarter",
    ),
    Key("discard_unsafe_fields", Switch, "Drop header fields with unusual names"),
    Key("strict_requests", Switch, "Refuse requests that HTTP/1.1 forbids (default)"),
    Key("log_route", Switch, "Log the step that each request takes"),
    Key("server_version", Switch, "Whether the Server field has the version"),
    Key("chunked_transform", Switch, "Whether chunked request bodies are accepted"),
    Key("static", Kind::Shape("static"), "Settings of static files"),
    Key("compression", Kind::Shape("compression"), "Response compression"),
];
