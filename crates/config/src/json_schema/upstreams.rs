//! Objects of `upstreams`.

use super::shape::Kind::{Array, Either, Integer, Named, Null, Number, Switch, Text, Texts, Word};
use super::shape::{COUNT, Key, Kind, SECONDS, Shape};

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
                "Balancing method",
            ),
            Key("tries", Integer(1, 100), "Maximum number of servers that one request is tried on"),
            Key("retry", Kind::Shape("retry"), "Requests that another server gets after a failure"),
            Key(
                "keepalive",
                Integer(0, 10_000),
                "Maximum number of idle connections to each server",
            ),
            Key("failures", Kind::Shape("failures"), "Passive health checks"),
            Key(
                "slow_start",
                SECONDS,
                "Seconds in which the weight of a recovered server rises to its full value",
            ),
            Key("health", Kind::Shape("health"), "Active health checks"),
            Key("sticky", Kind::Shape("sticky"), "Session persistence by a cookie"),
            Key("queue", Integer(0, COUNT), "Maximum number of requests that wait for a server"),
            Key("queue_timeout", SECONDS, "Maximum seconds that a request waits for a server"),
            Key("timeouts", Kind::Shape("upstream_timeouts"), "Timeouts"),
            Key("host", Text, "Host field of requests"),
            Key(
                "headers",
                Named(&Either(&[Text, Null])),
                "Request header fields to set, or with null to remove",
            ),
            Key(
                "forwarded",
                Texts,
                "\"x-forwarded\", \"forwarded\": fields with the client's address and scheme",
            ),
            Key("http2", Switch, "Whether the servers speak HTTP/2, as gRPC servers do"),
            Key("request_trailers", Switch, "Forward trailers of requests"),
            Key("proxy_protocol", Integer(1, 2), "Version of the PROXY protocol to send"),
            Key("tls", Either(&[Switch, Kind::Shape("upstream_tls")]), "TLS settings"),
            Key("buffering", Switch, "Read responses as fast as servers send them"),
            Key(
                "request_buffering",
                Switch,
                "Receive all of a request body before the request is sent on",
            ),
            Key(
                "internal_redirect",
                Text,
                "Route for the path in X-Accel-Redirect, such as \"routes/files\"",
            ),
            Key("sendfile", Texts, "Directories of the files that X-Sendfile may name"),
            Key(
                "rewrite_location",
                Either(&[Switch, Named(&Text)]),
                "Rewrite redirects to the server's own address, or an object of further prefixes to replace",
            ),
            Key(
                "cookie_domain",
                Named(&Either(&[Text, Null])),
                "Domains of cookies to replace, or with null to remove",
            ),
            Key(
                "cookie_path",
                Named(&Either(&[Text, Null])),
                "Prefixes of cookies' paths to replace, or with null to remove",
            ),
        ],
    },
    Shape {
        name: "upstream_server",
        required: &[],
        keys: &[
            Key("weight", Number, "Weight among the servers"),
            Key("max_connections", Integer(1, COUNT), "Maximum number of concurrent requests"),
            Key("backup", Switch, "Use the server only if no other can be used"),
            Key("drain", Switch, "Send only requests of existing sessions"),
        ],
    },
    Shape {
        name: "upstream_tls",
        required: &[],
        keys: &[
            Key("verify", Switch, "Verify the servers' certificates"),
            Key("authorities", Text, "File with the trusted authorities' certificates (PEM)"),
            Key("server_name", Text, "Requested server name, which is also verified"),
            Key("certificate", Either(&[Text, Kind::Shape("certificate")]), "Client certificate"),
        ],
    },
    Shape {
        name: "hash",
        required: &["hash"],
        keys: &[Key("hash", Text, "Text that is hashed, such as \"$remote_addr\"")],
    },
    Shape {
        name: "failures",
        required: &[],
        keys: &[
            Key(
                "max",
                Integer(0, COUNT),
                "Number of failures after which a server is not used; 0 disables the check",
            ),
            Key(
                "time",
                SECONDS,
                "Seconds in which failures are counted, and for which the server is not used",
            ),
        ],
    },
    Shape {
        name: "health",
        required: &[],
        keys: &[
            Key("uri", Text, "Request target"),
            Key(
                "grpc",
                Either(&[Switch, Text]),
                "gRPC's health service is asked for the server, or for a service by name",
            ),
            Key("host", Text, "Host field"),
            Key("interval", SECONDS, "Seconds between two checks"),
            Key("timeout", SECONDS, "Maximum seconds for the response"),
            Key(
                "status",
                Either(&[Integer(100, 599), Array(&Integer(100, 599))]),
                "Status of a healthy server, or the lowest and the highest",
            ),
            Key("body", Text, "Text that the body must contain"),
            Key("rise", Integer(1, COUNT), "Number of successes after which a server is healthy"),
            Key("fall", Integer(1, COUNT), "Number of failures after which a server is unhealthy"),
        ],
    },
    Shape {
        name: "sticky",
        required: &["cookie"],
        keys: &[
            Key("cookie", Text, "Name of the cookie"),
            Key("path", Text, "Paths that the cookie is sent for"),
            Key("domain", Text, "Domain that the cookie is sent to"),
            Key("max_age", SECONDS, "Seconds for which browsers keep the cookie"),
            Key(
                "same_site",
                Word(&["strict", "lax", "none"]),
                "Requests of other sites that the cookie is sent with",
            ),
        ],
    },
    Shape {
        name: "retry",
        required: &[],
        keys: &[
            Key(
                "on",
                Either(&[RETRY_CONDITION, Array(&RETRY_CONDITION)]),
                "Failures after which another server gets the request",
            ),
            Key("methods", Texts, "Methods whose requests may be sent twice, also with a body"),
            Key("timeout", SECONDS, "Seconds in which another attempt may begin"),
        ],
    },
    Shape {
        name: "action_timeouts",
        required: &[],
        keys: &[CONNECT, SEND, FIRST_BYTE, READ, TUNNEL],
    },
    Shape { name: "timeouts", required: &[], keys: &[CONNECT, SEND, FIRST_BYTE, READ, IDLE] },
    Shape {
        name: "upstream_timeouts",
        required: &[],
        keys: &[CONNECT, SEND, FIRST_BYTE, READ, IDLE, TUNNEL],
    },
];

const RETRY_CONDITION: Kind =
    Either(&[Word(&["error", "timeout", "invalid_response", "4xx", "5xx"]), Integer(400, 599)]);

const CONNECT: Key = Key("connect", SECONDS, "Maximum seconds to connect");
const SEND: Key = Key("send", SECONDS, "Maximum seconds between two writes of the request");
const FIRST_BYTE: Key =
    Key("first_byte", SECONDS, "Maximum seconds until the response's head is complete");
const READ: Key = Key("read", SECONDS, "Maximum seconds between two reads of the response");
const IDLE: Key = Key("idle", SECONDS, "Seconds after which an idle connection is closed");
const TUNNEL: Key = Key(
    "tunnel",
    SECONDS,
    "Maximum seconds without data on an upgraded connection, such as a WebSocket",
);
