//! From sockets to actions.

use super::Kind::{Array, Either, Integer, Named, Null, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, SIZE, Shape};
use crate::support::Feature;

const FIELDS: Kind = Either(&[Named(&Texts), Array(&Named(&Texts))]);

pub(super) const TABLE: &[Shape] = &[
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
                Named(&Either(&[Kind::Shape("application"), Kind::Shape("fastcgi")])),
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
            Key("tls", Kind::Shape("tls"), "How the listener speaks TLS", None),
            Key(
                "http2",
                Either(&[Switch, Word(&["only"])]),
                "Whether HTTP/2 is spoken; on with TLS, off without, where it may be \"only\"",
                None,
            ),
            Key(
                "redirect_to_https",
                Either(&[Switch, Integer(1, 65535)]),
                "Send requests without TLS to https, on port 443 or this one",
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
            Key(
                "proxy_protocol",
                Kind::Shape("proxy_protocol"),
                "Balancers whose connections begin with the PROXY protocol",
                None,
            ),
        ],
    },
    Shape {
        name: "proxy_protocol",
        required: &["source"],
        keys: &[Key("source", Texts, "Addresses of the balancers", None)],
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
            Key(
                "try",
                Texts,
                "With \"share\": paths to try in order in place of the request's",
                None,
            ),
            Key("index", Texts, "With \"share\": what answers for a directory", None),
            Key("types", Texts, "With \"share\": media types that may be sent", None),
            Key("chroot", Text, "With \"share\": directory that files must be in", None),
            Key(
                "follow_symlinks",
                Switch,
                "With \"share\": follow all symbolic links or none; by default those that stay in \
                 the document root, and of others those of root and of the owner of the target",
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
                "status",
                Text,
                "What an application does is the answer: \"applications/NAME\"",
                None,
            ),
            Key("ping", Text, "The answer tells that \"applications/NAME\" takes requests", None),
            Key("response", Text, "With \"ping\": what the answer says", None),
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
                Named(&Either(&[Text, Null, Kind::Shape("response_header")])),
                "Fields to set in the response, or with null to take out",
                Some(Feature::ResponseHeaders),
            ),
            Key("compress", Switch, "Whether responses may be compressed", None),
            Key("allow", Texts, "Addresses that may come here", None),
            Key("deny", Texts, "Addresses that may not", None),
            Key("basic_auth", Kind::Shape("basic_auth"), "Names and passwords", None),
            Key(
                "error_pages",
                Named(&Either(&[Text, Kind::Shape("error_page")])),
                "By status, files or actions that answer in place of the server's own pages",
                None,
            ),
            Key("cors", Kind::Shape("cors"), "Which other sites may read responses", None),
            Key("security_headers", Switch, "Add fields that protect browsers", None),
            Key("buffering", Switch, "Take answers of other servers as fast as they come", None),
            Key(
                "request_buffering",
                Switch,
                "Take bodies in full before other servers hear of them",
                None,
            ),
            Key("max_body_size", SIZE, "Bytes that the body of a request may have", None),
        ],
    },
    Shape {
        name: "response_header",
        required: &["value"],
        keys: &[
            Key("value", Either(&[Text, Null]), "The value, or null to take it out", None),
            Key("always", Switch, "Whether errors have it too", None),
        ],
    },
    Shape {
        name: "error_page",
        required: &["action"],
        keys: &[
            Key("action", Kind::Shape("action"), "What answers", None),
            Key("keep_status", Switch, "Whether the status stays that of the error", None),
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
];
