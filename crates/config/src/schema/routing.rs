//! From sockets to actions.

use super::Kind::{Array, Either, Integer, Named, Null, Switch, Text, Texts, Word};
use super::{COUNT, Key, Kind, SECONDS, SIZE, Shape};

const FIELDS: Kind = Either(&[Named(&Texts), Array(&Named(&Texts))]);

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "document",
        required: &[],
        keys: &[
            Key("settings", Kind::Shape("settings"), "What holds for all listeners"),
            Key(
                "listeners",
                Named(&Kind::Shape("listener")),
                "Sockets by address, such as \"*:80\" or \"unix:/run/site.sock\"",
            ),
            Key(
                "routes",
                Either(&[Array(&Kind::Shape("step")), Named(&Array(&Kind::Shape("step")))]),
                "Steps that decide what happens to a request",
            ),
            Key(
                "applications",
                Named(&Either(&[Kind::Shape("application"), Kind::Shape("fastcgi")])),
                "PHP applications by name",
            ),
            Key("upstreams", Named(&Kind::Shape("upstream")), "Groups of servers by name"),
            Key(
                "access_log",
                Either(&[Text, Kind::Shape("access_log")]),
                "One line for each request",
            ),
        ],
    },
    Shape {
        name: "listener",
        required: &[],
        keys: &[
            Key("application", Text, "Unit's older form of \"pass\": the name of an application"),
            Key("pass", Text, "Where requests go, such as \"routes\" or \"applications/NAME\""),
            Key(
                "backlog",
                Integer(-1, COUNT),
                "Connections that may wait to be accepted; -1 is as many as the system allows",
            ),
            Key("tls", Kind::Shape("tls"), "How the listener speaks TLS"),
            Key(
                "http2",
                Either(&[Switch, Word(&["only"])]),
                "Whether HTTP/2 is spoken; on with TLS, off without, where it may be \"only\"",
            ),
            Key(
                "redirect_to_https",
                Either(&[Switch, Integer(1, 65535)]),
                "Send requests without TLS to https, on port 443 or this one",
            ),
            Key(
                "forwarded",
                Kind::Shape("forwarded"),
                "Proxies that are believed about the client",
            ),
            Key("client_ip", Kind::Shape("client_ip"), "Unit's older form of \"forwarded\""),
            Key(
                "proxy_protocol",
                Kind::Shape("proxy_protocol"),
                "Balancers whose connections begin with the PROXY protocol",
            ),
        ],
    },
    Shape {
        name: "proxy_protocol",
        required: &["source"],
        keys: &[Key("source", Texts, "Addresses of the balancers")],
    },
    Shape {
        name: "forwarded",
        required: &["source"],
        keys: &[
            Key("client_ip", Text, "Field with the client's address, such as X-Forwarded-For"),
            Key("protocol", Text, "Field with the scheme, such as X-Forwarded-Proto"),
            Key("source", Texts, "Addresses of the proxies"),
            Key("recursive", Switch, "Take the last address that is no proxy itself"),
        ],
    },
    Shape {
        name: "client_ip",
        required: &["header", "source"],
        keys: &[
            Key("header", Text, "Field with the client's address"),
            Key("source", Texts, "Addresses of the proxies"),
            Key("recursive", Switch, "Take the last address that is no proxy itself"),
        ],
    },
    Shape {
        name: "step",
        required: &["action"],
        keys: &[
            Key("match", Kind::Shape("match"), "Conditions, all of which must hold"),
            Key("action", Kind::Shape("action"), "What is done if they hold"),
        ],
    },
    Shape {
        name: "match",
        required: &[],
        keys: &[
            Key("method", Texts, "The method"),
            Key("scheme", Text, "\"http\" or \"https\""),
            Key("host", Texts, "The host asked for, without port"),
            Key("source", Texts, "The client's address"),
            Key("destination", Texts, "The address that the client connected to"),
            Key("uri", Texts, "The path, decoded and normalised"),
            Key("query", Texts, "The query, decoded"),
            Key("arguments", FIELDS, "Arguments of the query"),
            Key("headers", FIELDS, "Header fields"),
            Key("cookies", FIELDS, "Cookies"),
            Key("if", Text, "Text with variables that must come to something"),
        ],
    },
    Shape {
        name: "action",
        required: &[],
        keys: &[
            Key("pass", Text, "Another part of the document decides"),
            Key("return", Integer(0, 999), "The server answers by itself, with this status"),
            Key("location", Text, "With \"return\": the Location field"),
            Key("keep_query", Switch, "With \"location\": add the query of the request"),
            Key("share", Texts, "Names of files to try in order, such as \"/www$uri\""),
            Key("try", Texts, "With \"share\": paths to try in order in place of the request's"),
            Key("index", Texts, "With \"share\": what answers for a directory"),
            Key("types", Texts, "With \"share\": media types that may be sent"),
            Key("chroot", Text, "With \"share\": directory that files must be in"),
            Key(
                "follow_symlinks",
                Switch,
                "With \"share\": follow all symbolic links or none; by default those that stay in \
                 the document root, and of others those of root and of the owner of the target",
            ),
            Key("traverse_mounts", Switch, "With \"share\": whether mount points are crossed"),
            Key("scripts", Text, "With \"share\": the application that runs scripts found"),
            Key(
                "fallback",
                Kind::Shape("action"),
                "With \"share\": what is done if there is no file",
            ),
            Key("status", Text, "What an application does is the answer: \"applications/NAME\""),
            Key("ping", Text, "The answer tells that \"applications/NAME\" takes requests"),
            Key("response", Text, "With \"ping\": what the answer says"),
            Key("proxy", Text, "Another HTTP server answers, such as \"http://127.0.0.1:8080\""),
            Key("rewrite", Text, "Path that takes the place of the request's"),
            Key(
                "response_headers",
                Named(&Either(&[Text, Null, Kind::Shape("response_header")])),
                "Fields to set in the response, or with null to take out",
            ),
            Key("compress", Switch, "Whether responses may be compressed"),
            Key("allow", Texts, "Addresses that may come here"),
            Key("deny", Texts, "Addresses that may not"),
            Key("basic_auth", Kind::Shape("basic_auth"), "Names and passwords"),
            Key(
                "error_pages",
                Named(&Either(&[Text, Kind::Shape("error_page")])),
                "By status, files or actions that answer in place of the server's own pages",
            ),
            Key("cors", Kind::Shape("cors"), "Which other sites may read responses"),
            Key("security_headers", Switch, "Add fields that protect browsers"),
            Key("buffering", Switch, "Take answers of other servers as fast as they come"),
            Key(
                "request_buffering",
                Switch,
                "Take bodies in full before other servers hear of them",
            ),
            Key("max_body_size", SIZE, "Bytes that the body of a request may have"),
        ],
    },
    Shape {
        name: "response_header",
        required: &["value"],
        keys: &[
            Key("value", Either(&[Text, Null]), "The value, or null to take it out"),
            Key("always", Switch, "Whether errors have it too"),
        ],
    },
    Shape {
        name: "error_page",
        required: &["action"],
        keys: &[
            Key("action", Kind::Shape("action"), "What answers"),
            Key("keep_status", Switch, "Whether the status stays that of the error"),
        ],
    },
    Shape {
        name: "cors",
        required: &["origins"],
        keys: &[
            Key("origins", Texts, "Sites such as \"https://example.com\", or \"*\""),
            Key("credentials", Switch, "Whether cookies and passwords may be sent"),
            Key("methods", Texts, "Methods that may be used"),
            Key("headers", Texts, "Header fields that may be sent"),
            Key("expose_headers", Texts, "Header fields that may be read"),
            Key("max_age", SECONDS, "Seconds that a browser may remember this"),
        ],
    },
    Shape {
        name: "basic_auth",
        required: &["users_file"],
        keys: &[
            Key("realm", Text, "What the browser shows"),
            Key("users_file", Text, "A file as htpasswd writes it"),
        ],
    },
];
