//! Objects of the document, `listeners` and `routes`.

use super::shape::Kind::{Array, Either, Integer, Named, Null, Switch, Text, Texts, Word};
use super::shape::{COUNT, Key, Kind, SECONDS, SIZE, Shape};

pub(super) const LOGS: Kind = Either(&[
    Kind::Off,
    Text,
    Kind::Shape("access_log"),
    Array(&Either(&[Text, Kind::Shape("access_log")])),
]);

const FIELDS: Kind = Either(&[Named(&Texts), Array(&Named(&Texts))]);

const LIMIT: Kind = Either(&[Kind::Shape("limit"), Array(&Kind::Shape("limit"))]);
/// Conditions of a cache, one of which must hold.
const CONDITIONS: Kind = Either(&[Kind::Shape("match"), Array(&Kind::Shape("match"))]);

/// Time of expiry.
const EXPIRY: Kind = Either(&[Text, Kind::Number]);

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "document",
        required: &[],
        keys: &[
            Key("include", Texts, "Files with parts of the document, such as \"conf.d/*.json\""),
            Key("settings", Kind::Shape("settings"), "Settings of the whole server"),
            Key(
                "variables",
                Named(&Kind::Shape("variable")),
                "Variables made from others, by name",
            ),
            Key(
                "listeners",
                Named(&Kind::Shape("listener")),
                "Listening sockets by address, such as \"*:80\" or \"unix:/run/site.sock\"",
            ),
            Key(
                "routes",
                Either(&[Array(&Kind::Shape("step")), Named(&Array(&Kind::Shape("step")))]),
                "Steps, the first of which that matches handles a request",
            ),
            Key(
                "applications",
                Named(&Either(&[Kind::Shape("application"), Kind::Shape("fastcgi")])),
                "PHP applications by name",
            ),
            Key("upstreams", Named(&Kind::Shape("upstream")), "Groups of servers by name"),
            Key(
                "access_log",
                LOGS,
                "The access log: a file, an object, an array of them, or false",
            ),
        ],
    },
    Shape {
        name: "variable",
        required: &[],
        keys: &[
            Key("map", Text, "Text with variables that is looked up in \"values\""),
            Key("geo", Text, "Address that is looked up among networks, such as \"$remote_addr\""),
            Key(
                "database",
                Text,
                "With \"geo\", in place of \"values\": a MaxMind database (.mmdb)",
            ),
            Key("path", Text, "Path of the value in the database, such as \"country.iso_code\""),
            Key("split", Text, "Text by which visitors are divided into shares"),
            Key(
                "values",
                Either(&[Named(&Text), Named(&Kind::Number), Text]),
                "Values by text, pattern or network; with \"split\" the percentage of each value; or \
                 a file with them",
            ),
            Key("default", Text, "Value for everything else"),
        ],
    },
    Shape {
        name: "listener",
        required: &[],
        keys: &[
            Key("application", Text, "Unit's older form of \"pass\": the name of an application"),
            Key("pass", Text, "Target of requests, such as \"routes\" or \"applications/NAME\""),
            Key(
                "backlog",
                Integer(-1, COUNT),
                "Length of the queue of pending connections; -1 is the system's maximum",
            ),
            Key("tls", Kind::Shape("tls"), "TLS settings"),
            Key(
                "http2",
                Either(&[Switch, Word(&["only"])]),
                "Whether HTTP/2 is enabled; on with TLS, off without, where it may be \"only\"",
            ),
            Key(
                "redirect_to_https",
                Either(&[Switch, Integer(1, 65535)]),
                "Redirect requests without TLS to https, on port 443 or this port",
            ),
            Key("forwarded", Kind::Shape("forwarded"), "Trusted proxies and their header fields"),
            Key("client_ip", Kind::Shape("client_ip"), "Unit's older form of \"forwarded\""),
            Key(
                "proxy_protocol",
                Kind::Shape("proxy_protocol"),
                "Load balancers whose connections begin with a PROXY protocol header",
            ),
            Key("access_log", LOGS, "Access logs in place of those of the document"),
            Key("limit", LIMIT, "Limits of requests, one or several"),
        ],
    },
    Shape {
        name: "proxy_protocol",
        required: &["source"],
        keys: &[Key("source", Texts, "Addresses of the load balancers")],
    },
    Shape {
        name: "forwarded",
        required: &["source"],
        keys: &[
            Key("client_ip", Text, "Field with the client's address, such as X-Forwarded-For"),
            Key("protocol", Text, "Field with the scheme, such as X-Forwarded-Proto"),
            Key("source", Texts, "Addresses of the proxies"),
            Key("recursive", Switch, "Skip trusted proxies at the end of the list of addresses"),
        ],
    },
    Shape {
        name: "client_ip",
        required: &["header", "source"],
        keys: &[
            Key("header", Text, "Field with the client's address"),
            Key("source", Texts, "Addresses of the proxies"),
            Key("recursive", Switch, "Skip trusted proxies at the end of the list of addresses"),
        ],
    },
    Shape {
        name: "step",
        required: &["action"],
        keys: &[
            Key("match", Kind::Shape("match"), "Conditions, all of which must hold"),
            Key(
                "action",
                Kind::Shape("action"),
                "How requests are handled that meet the conditions",
            ),
        ],
    },
    Shape {
        name: "match",
        required: &[],
        keys: &[
            Key("method", Texts, "The method"),
            Key("scheme", Text, "\"http\" or \"https\""),
            Key("host", Texts, "The requested host, without port"),
            Key("source", Texts, "The client's address"),
            Key("destination", Texts, "The address that the client connected to"),
            Key("uri", Texts, "The path, decoded and normalised"),
            Key("query", Texts, "The query, decoded"),
            Key("arguments", FIELDS, "Arguments of the query"),
            Key("headers", FIELDS, "Header fields"),
            Key("cookies", FIELDS, "Cookies"),
            Key("file", Texts, "Names of files; one must be a regular file, those with ! none"),
            Key("directory", Texts, "Likewise: a directory"),
            Key("exists", Texts, "Likewise: any file"),
            Key("executable", Texts, "Likewise: a file that its owner may execute"),
            Key(
                "if",
                Text,
                "Text with variables that must not be empty, 0, false, null or undefined",
            ),
        ],
    },
    Shape {
        name: "action",
        required: &[],
        keys: &[
            Key("pass", Text, "Target, such as \"routes/NAME\" or \"applications/NAME\""),
            Key("return", Integer(0, 999), "Respond with this status; 444: close the connection"),
            Key("location", Text, "With \"return\": the Location field"),
            Key("body", Text, "With \"return\": the body, a text"),
            Key("keep_query", Switch, "With \"location\": add the query of the request"),
            Key("share", Texts, "Names of files to try in order, such as \"/www$uri\""),
            Key("prefix", Text, "With \"share\": part of the path that is not looked up"),
            Key("try", Texts, "With \"share\": paths to try in order instead of the request's"),
            Key("index", Texts, "With \"share\": names of index files, tried in order"),
            Key(
                "listing",
                Either(&[Switch, Word(&["html", "json"])]),
                "With \"share\": list the files of directories without an index file",
            ),
            Key("types", Texts, "With \"share\": media types that may be sent"),
            Key("chroot", Text, "With \"share\": directory that must contain the files"),
            Key(
                "follow_symlinks",
                Switch,
                "With \"share\": follow all symbolic links or none; by default those that stay in \
                 the document root, and of others those of root and of the owner of the target",
            ),
            Key("traverse_mounts", Switch, "With \"share\": whether mount points are crossed"),
            Key("scripts", Text, "With \"share\": the application that runs PHP scripts"),
            Key(
                "htaccess",
                Either(&[Switch, Kind::Shape("htaccess")]),
                "With \"share\": Apache's .htaccess files in its directories are read",
            ),
            Key(
                "fallback",
                Kind::Shape("action"),
                "With \"share\": the action for requests that match no file",
            ),
            Key("status", Text, "Respond with the status of \"applications/NAME\""),
            Key(
                "ping",
                Text,
                "Respond with a fixed text while \"applications/NAME\" accepts requests",
            ),
            Key("response", Text, "With \"ping\": the text"),
            Key("proxy", Text, "URL of another HTTP server, such as \"http://127.0.0.1:8080\""),
            Key("rewrite", Text, "Path that replaces the request's"),
            Key(
                "response_headers",
                Named(&Either(&[Text, Null, Kind::Shape("response_header")])),
                "Response header fields to set, or with null to remove",
            ),
            Key("compress", Switch, "Whether responses may be compressed"),
            Key("allow", Texts, "Client addresses that are allowed"),
            Key("deny", Texts, "Client addresses that are denied"),
            Key("basic_auth", Kind::Shape("basic_auth"), "Basic authentication"),
            Key("limit", LIMIT, "Limits of requests, one or several"),
            Key(
                "error_pages",
                Named(&Either(&[Text, Kind::Shape("error_page")])),
                "Files or actions by status, instead of the server's own error pages",
            ),
            Key("cors", Kind::Shape("cors"), "Cross-origin requests"),
            Key(
                "cache",
                Either(&[Switch, Kind::Shape("cache")]),
                "Store responses of applications and other servers; false: do not",
            ),
            Key(
                "expires",
                Either(&[EXPIRY, Named(&EXPIRY)]),
                "Time for which browsers may keep responses, for all or by type: \"30d\", \
                 \"modified +1h\", \"@15h30m\", \"epoch\", \"max\", \"off\"",
            ),
            Key(
                "cache_control",
                Either(&[Text, Named(&Text)]),
                "Directives of Cache-Control, for all responses or by type",
            ),
            Key(
                "fingerprinted",
                Either(&[Switch, Texts]),
                "Files with a hash in their name are kept for a year; or patterns of their paths",
            ),
            Key("charset", Text, "Encoding that text types get in Content-Type, or \"off\""),
            Key("security_headers", Switch, "Add security header fields"),
            Key("buffering", Switch, "Read responses of other servers as fast as they send them"),
            Key(
                "request_buffering",
                Switch,
                "Receive all of a request body before the request is sent on",
            ),
            Key(
                "request_headers",
                Named(&Either(&[Text, Null])),
                "Header fields of requests to other servers to set, or with null to remove",
            ),
            Key(
                "forwarded",
                Texts,
                "\"x-forwarded\", \"forwarded\": fields with the client's address and scheme",
            ),
            Key("timeouts", Kind::Shape("action_timeouts"), "Timeouts of other servers"),
            Key("retry", Kind::Shape("retry"), "Requests that another server gets after a failure"),
            Key("max_body_size", SIZE, "Maximum size of a request body in bytes"),
            Key(
                "rate",
                Either(&[Integer(1, i64::MAX), Kind::Shape("bandwidth")]),
                "Bytes a second that each response is sent with",
            ),
            Key("access_log", LOGS, "Access logs in place of those of the listener"),
            Key(
                "intercept_errors",
                Switch,
                "Whether error pages also replace responses of applications and other servers",
            ),
            Key("auth_request", Kind::Shape("auth_request"), "Check requests by another action"),
            Key(
                "mirror",
                Either(&[Kind::Shape("mirror"), Array(&Kind::Shape("mirror"))]),
                "Other actions that get copies of requests; their responses are dropped",
            ),
            Key("internal", Switch, "Respond with 404 unless the request is an internal one"),
            Key(
                "environment",
                Named(&Text),
                "Variables for scripts, with variables of the request",
            ),
            Key("options", Kind::Shape("action_php_options"), "Settings of PHP for the requests"),
        ],
    },
    Shape {
        name: "auth_request",
        required: &["action"],
        keys: &[
            Key("action", Kind::Shape("action"), "The action whose response decides"),
            Key("copy_headers", Texts, "Header fields of its response that the request gets"),
            Key("response_headers", Texts, "Header fields of its response that the client gets"),
        ],
    },
    Shape {
        name: "mirror",
        required: &["action"],
        keys: &[
            Key("action", Kind::Shape("action"), "The action that gets the copies"),
            Key("max_body_size", SIZE, "Maximum size of the body of a copied request in bytes"),
            Key("concurrency", Integer(1, COUNT), "Maximum number of copies in progress"),
        ],
    },
    Shape {
        name: "action_php_options",
        required: &[],
        keys: &[Key("user", Named(&Text), "Settings that scripts can change")],
    },
    Shape {
        name: "response_header",
        required: &["value"],
        keys: &[
            Key("value", Either(&[Text, Null]), "The value, or null to remove the field"),
            Key("always", Switch, "Apply to responses of every status"),
        ],
    },
    Shape {
        name: "error_page",
        required: &["action"],
        keys: &[
            Key("action", Kind::Shape("action"), "The action that responds"),
            Key("keep_status", Switch, "Keep the status of the error"),
        ],
    },
    Shape {
        name: "cors",
        required: &["origins"],
        keys: &[
            Key("origins", Texts, "Allowed origins such as \"https://example.com\", or \"*\""),
            Key("credentials", Switch, "Allow cookies and passwords"),
            Key("methods", Texts, "Allowed methods"),
            Key("headers", Texts, "Allowed request header fields"),
            Key("expose_headers", Texts, "Response header fields that scripts may read"),
            Key("max_age", SECONDS, "Seconds for which browsers may cache the permissions"),
        ],
    },
    Shape {
        name: "cache",
        required: &[],
        keys: &[
            Key(
                "preset",
                Text,
                "Settings for an application: \"wordpress\", \"mediawiki\", \"drupal\", \"symfony\", \"laravel\"",
            ),
            Key("name", Text, "Name of the store; actions with the same name share entries"),
            Key("memory", SIZE, "Memory of the store in bytes"),
            Key("path", Text, "Directory of a file with what the memory does not take"),
            Key("size", SIZE, "Maximum size of that file in bytes"),
            Key("max_object", SIZE, "Maximum size of a stored body in bytes"),
            Key("key", Text, "What tells responses apart; by default scheme, host, path, query"),
            Key("methods", Texts, "Methods that are answered from the cache: GET, HEAD"),
            Key("ttl", Named(&SECONDS), "Seconds by status, for responses that state no lifetime"),
            Key(
                "bypass",
                CONDITIONS,
                "Requests that the cache takes no part in: those that meet one of these",
            ),
            Key(
                "store",
                CONDITIONS,
                "Only responses to requests that meet one of these are stored",
            ),
            Key("ignore", Texts, "Fields without effect on the cache"),
            Key(
                "vary",
                Named(&Either(&[Texts, Null, Named(&Texts)])),
                "Values or classes of request fields that Vary names; null to ignore the field",
            ),
            Key(
                "stale_while_revalidate",
                SECONDS,
                "Seconds for which a stale response is used while it is refreshed",
            ),
            Key(
                "stale_if_error",
                SECONDS,
                "Seconds for which a stale response is used if it cannot be refreshed",
            ),
            Key("lock", Switch, "Concurrent requests for one response wait for the first"),
            Key("lock_timeout", SECONDS, "Maximum seconds of that wait"),
            Key(
                "min_uses",
                Integer(1, COUNT),
                "Number of requests after which a response is stored",
            ),
            Key("background", Switch, "Refresh stale responses while clients get them"),
            Key("heuristic", Switch, "Derive lifetimes from Last-Modified"),
            Key("esi", Switch, "Assemble pages from parts (ESI) if they ask for it"),
            Key("announce", Switch, "Show in Cache-Status how the cache has handled a request"),
            Key("purge", Texts, "Addresses of clients that may send PURGE and BAN"),
        ],
    },
    Shape {
        name: "basic_auth",
        required: &["users_file"],
        keys: &[
            Key("realm", Text, "The realm, which browsers display"),
            Key("users_file", Text, "File of users, in the format of htpasswd"),
        ],
    },
];
