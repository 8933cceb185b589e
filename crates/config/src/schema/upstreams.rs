//! Servers behind this one.

use super::Kind::{Array, Either, Integer, Named, Null, Number, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, Shape};

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "upstream",
        required: &["servers"],
        keys: &[
            Key("servers", Named(&Kind::Shape("upstream_server")), "Servers by address"),
            Key(
                "balance",
                Either(&[
                    Word(&["round_robin", "least_connections", "two_choices"]),
                    Kind::Shape("hash"),
                ]),
                "How a server is chosen",
            ),
            Key("tries", Integer(1, 100), "Servers asked before a request fails"),
            Key("keepalive", Integer(0, 10_000), "Idle connections kept to each server"),
            Key("failures", Kind::Shape("failures"), "When a server is left alone"),
            Key("slow_start", SECONDS, "Seconds until a server has all of its share"),
            Key("health", Kind::Shape("health"), "Questions that servers must answer"),
            Key("sticky", Kind::Shape("sticky"), "Clients keep their server"),
            Key("queue", Integer(0, COUNT), "Requests that may wait for a server"),
            Key("queue_timeout", SECONDS, "Seconds that a request may wait for one"),
            Key("timeouts", Kind::Shape("upstream_timeouts"), "How long to wait for a server"),
            Key("host", Text, "What servers get as Host"),
            Key(
                "headers",
                Named(&Either(&[Text, Null])),
                "Fields of requests to set, or with null to take out",
            ),
            Key(
                "forwarded",
                Texts,
                "\"x-forwarded\", \"forwarded\": fields that tell about the client",
            ),
            Key("request_trailers", Switch, "Whether they get trailers of requests"),
            Key("proxy_protocol", Integer(1, 2), "Version that begins each connection"),
            Key(
                "tls",
                Either(&[Switch, Kind::Shape("upstream_tls")]),
                "How TLS is spoken with the servers",
            ),
            Key("buffering", Switch, "Take responses as fast as they come"),
            Key("request_buffering", Switch, "Take bodies in full before servers hear of them"),
            Key(
                "internal_redirect",
                Text,
                "Route for the path in X-Accel-Redirect, such as \"routes/files\"",
            ),
            Key("sendfile", Texts, "Directories of the files that X-Sendfile may name"),
            Key(
                "rewrite_location",
                Either(&[Switch, Named(&Text)]),
                "Whether redirects to a server become redirects to us, and beginnings to replace",
            ),
            Key(
                "cookie_domain",
                Named(&Either(&[Text, Null])),
                "Domains of cookies to replace, or with null to take out",
            ),
            Key(
                "cookie_path",
                Named(&Either(&[Text, Null])),
                "Beginnings of the paths of cookies to replace, or with null to take out",
            ),
        ],
    },
    Shape {
        name: "upstream_server",
        required: &[],
        keys: &[
            Key("weight", Number, "Its share of the requests"),
            Key("max_connections", Integer(1, COUNT), "Requests that it gets at a time"),
            Key("backup", Switch, "It is asked only if no other can be"),
            Key("drain", Switch, "It keeps its clients and gets no others"),
        ],
    },
    Shape {
        name: "upstream_tls",
        required: &[],
        keys: &[
            Key("verify", Switch, "Whether their certificates are verified"),
            Key("authorities", Text, "File with those who may issue them"),
            Key("server_name", Text, "The name that they are for"),
            Key(
                "certificate",
                Either(&[Text, Kind::Shape("certificate")]),
                "The certificate that is shown to them",
            ),
        ],
    },
    Shape {
        name: "hash",
        required: &["hash"],
        keys: &[Key("hash", Text, "The value that decides, such as \"$remote_addr\"")],
    },
    Shape {
        name: "failures",
        required: &[],
        keys: &[
            Key("max", Integer(0, COUNT), "Failures after which it is; 0 is never"),
            Key("time", SECONDS, "Seconds for which it is"),
        ],
    },
    Shape {
        name: "health",
        required: &["uri"],
        keys: &[
            Key("uri", Text, "The target that is asked for"),
            Key("host", Text, "The host that is asked for"),
            Key("interval", SECONDS, "Seconds between two questions"),
            Key("timeout", SECONDS, "Seconds that an answer may take"),
            Key(
                "status",
                Either(&[Integer(100, 599), Array(&Integer(100, 599))]),
                "The status, or the lowest and the highest",
            ),
            Key("body", Text, "What the body must contain"),
            Key("rise", Integer(1, COUNT), "Good answers that bring a server back"),
            Key("fall", Integer(1, COUNT), "Bad answers that take it away"),
        ],
    },
    Shape {
        name: "sticky",
        required: &["cookie"],
        keys: &[Key("cookie", Text, "Name of the cookie")],
    },
    Shape { name: "timeouts", required: &[], keys: &[CONNECT, SEND, FIRST_BYTE, READ, IDLE] },
    Shape {
        name: "upstream_timeouts",
        required: &[],
        keys: &[
            CONNECT,
            SEND,
            FIRST_BYTE,
            READ,
            IDLE,
            Key("tunnel", SECONDS, "Seconds that a WebSocket or the like may be silent"),
        ],
    },
];

const CONNECT: Key = Key("connect", SECONDS, "Seconds for a connection");
const SEND: Key = Key("send", SECONDS, "Seconds until the server takes more");
const FIRST_BYTE: Key = Key("first_byte", SECONDS, "Seconds until its response begins");
const READ: Key = Key("read", SECONDS, "Seconds until more of its response comes");
const IDLE: Key = Key("idle", SECONDS, "Seconds that an idle connection is kept");
