//! Objects of the document, `limit`.

use super::shape::Kind::{Array, Either, Integer, Switch, Text, Texts, Word};
use super::shape::{COUNT, Key, Kind, SIZE, Shape};

const EXCEPTION: Kind = Either(&[Text, Kind::Shape("match")]);

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "limit",
        required: &[],
        keys: &[
            Key(
                "preset",
                Word(&["login", "search", "api", "crawlers"]),
                "Keys for a common case, which the rule's own keys replace",
            ),
            Key("match", Kind::Shape("match"), "Requests that the rule is about"),
            Key(
                "except",
                Either(&[Text, Kind::Shape("match"), Array(&EXCEPTION)]),
                "Client addresses, and conditions of requests, that the rule is not about",
            ),
            Key(
                "except_names",
                Texts,
                "Host names of clients that the rule is not about, confirmed by DNS",
            ),
            Key(
                "key",
                Text,
                "The text that requests are counted by; the client's address if absent",
            ),
            Key("zone", Text, "Name of the counters, which rules of the same name share"),
            Key("rate", Text, "Requests in a time, such as \"10/s\" or \"100/m\""),
            Key("burst", Integer(0, COUNT), "Requests beyond the rate that are admitted"),
            Key(
                "delay",
                Either(&[Switch, Integer(0, COUNT)]),
                "Whether requests of the burst wait, or how many of them do not",
            ),
            Key("concurrency", Integer(1, COUNT), "Requests at once"),
            Key(
                "processes",
                Integer(1, COUNT),
                "Requests at once that processes of PHP run; others wait",
            ),
            Key("connections", Integer(1, COUNT), "Of a listener: connections at once of a client"),
            Key(
                "bandwidth",
                Either(&[Integer(1, i64::MAX), Kind::Shape("bandwidth")]),
                "Bytes of responses a second",
            ),
            Key("penalty", Kind::Shape("penalty"), "Penalties for clients that go on"),
            Key("keys", Integer(100, 20_000_000), "Maximum number of keys that are kept"),
            Key("status", Integer(400, 599), "Status of refusals; 429 if absent"),
            Key(
                "shared",
                Switch,
                "Whether the rate is that of all servers of \"cluster\" together",
            ),
            Key("announce", Switch, "Send the RateLimit fields with all responses"),
            Key("dry_run", Switch, "Count refusals, and admit the requests"),
        ],
    },
    Shape {
        name: "bandwidth",
        required: &["rate"],
        keys: &[
            Key("rate", Integer(1, i64::MAX), "Bytes a second"),
            Key("after", SIZE, "Bytes that are sent before that"),
        ],
    },
    Shape {
        name: "penalty",
        required: &[],
        keys: &[
            Key("after", Integer(1, COUNT), "Number of refusals after which a client is blocked"),
            Key("time", Integer(1, COUNT / 1000), "Seconds of the first block; each doubles"),
            Key("max_time", Integer(1, COUNT / 1000), "Maximum seconds of a block"),
            Key(
                "close_after",
                Integer(1, COUNT),
                "Number of refusals from which connections are closed without a response",
            ),
        ],
    },
];
