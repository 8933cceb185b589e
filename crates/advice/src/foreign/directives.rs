//! Further directives of nginx, Apache and PHP-FPM, each with its equivalent, as in the tables of the
//! documentation.

const CACHE: &str = "write \"cache\" in the action: its \"key\", \"ttl\", \"bypass\", \"lock\" and \
                     \"stale_if_error\"";
const BUFFERS: &str = "leave it out: a part of a response waits in memory and the rest in a file; \
                       \"buffering\": false in the action passes it on at once";
const SERVER_TLS: &str =
    "write \"tls\": {\"verify\": true, \"server_name\": \"name\"} in the upstream";
const COOKIES: &str = "write \"cookie_domain\" or \"cookie_path\" in the upstream";
const DEFINED: &str = "write \"variables\": {\"name\": {\"map\": \"$host\", \"values\": {}}} in the document, \
                       or \"geo\" or \"split\" in place of \"map\"";
const REWRITES: &str = "write steps with \"match\", whose actions have \"rewrite\" or \"return\"";
const ACTION_VARIABLES: &str =
    "write \"environment\": {\"NAME\": \"value\"} in the action or the application";
const REDIRECTS: &str = "leave it out: redirects of the server name the path alone";
const FILES: &str = "leave it out: files are sent from the page cache and revalidated each second";
const EXPIRES: &str =
    "write \"expires\": \"30d\" in the action, or an object of media types and times";
const LOGIN: &str = "write \"basic_auth\": {\"users_file\": \"/path/htpasswd\"} in the action";
const FIELD_LIMITS: &str = "write \"max_header_fields\", \"large_header_buffer_size\" or \
                            \"large_header_buffers\" in \"settings\"/\"http\"";
const CLIENT_IP: &str = "write \"forwarded\": {\"client_ip\": \"X-Forwarded-For\", \"source\": \
                         [\"10.0.0.0/8\"]} in the listener";
const HOSTS: &str = "write \"host\" in the \"match\" of a step";
const SERVER_LOG: &str = "the server's log is an option of the command line: --log FILE";
const SUPERVISOR: &str =
    "leave it out: the server's own processes are supervised and restarted by themselves";
const KEEPALIVE: &str = "leave it out: \"idle_timeout\" of \"settings\"/\"http\" limits the time between two \
                         requests, and their number needs no limit";

/// The directives, in lower case with `_` in place of `-` and `.`.
pub(super) const DIRECTIVES: &[(&[&str], &str)] = &[
    (
        &[
            "proxy_cache",
            "proxy_cache_valid",
            "proxy_cache_key",
            "proxy_cache_bypass",
            "proxy_no_cache",
            "proxy_cache_use_stale",
            "proxy_cache_lock",
            "fastcgi_cache",
            "fastcgi_cache_valid",
            "fastcgi_cache_key",
            "fastcgi_cache_bypass",
            "fastcgi_no_cache",
            "cacheenable",
        ],
        CACHE,
    ),
    (
        &["proxy_buffer_size", "proxy_buffers", "proxy_busy_buffers_size", "fastcgi_buffers"],
        BUFFERS,
    ),
    (&["proxy_ssl_verify", "proxy_ssl_name", "proxy_ssl_server_name"], SERVER_TLS),
    (&["proxy_cookie_path", "proxy_cookie_domain"], COOKIES),
    (&["proxy_pass_header"], "leave it out: fields of responses pass unless they are removed"),
    (
        &["proxy_hide_header", "fastcgi_hide_header"],
        "write \"response_headers\": {\"X-Powered-By\": {\"value\": null, \"always\": true}}",
    ),
    (
        &["proxy_intercept_errors", "fastcgi_intercept_errors"],
        "write \"intercept_errors\": true beside \"error_pages\"",
    ),
    (
        &["fastcgi_param"],
        "write \"params\" in an application of type \"fastcgi\", or \"environment\" in the action",
    ),
    (&["fastcgi_index"], "write \"index\" in the application"),
    (
        &["fastcgi_split_path_info"],
        "leave it out: what follows the name of a script is its PATH_INFO",
    ),
    (
        &["fastcgi_read_timeout", "proxytimeout"],
        "write \"timeouts\": {\"first_byte\": 60, \"read\": 60} in the action, the upstream or the FastCGI \
         application",
    ),
    (&["fastcgi_keep_conn"], "write \"keepalive\": 8 in an application of type \"fastcgi\""),
    (&["proxypassreverse"], "write \"rewrite_location\" in the upstream, which is on by default"),
    (
        &["proxypreservehost"],
        "leave it out: servers get the client's Host; \"host\" of the upstream is another",
    ),
    (&["balancermember"], "write \"servers\": {\"10.0.0.1:80\": {\"weight\": 2}} in the upstream"),
    (&["autoindex_format", "indexoptions"], "write \"listing\": \"html\" or \"json\" in the share"),
    (&["client_body_buffer_size"], "write \"body_buffer_size\" in \"settings\"/\"http\""),
    (&["send_timeout"], "write \"send_timeout\" in \"settings\"/\"http\""),
    (&["keepalive_requests", "keepalive", "maxkeepaliverequests"], KEEPALIVE),
    (&["keepalivetimeout"], "write \"idle_timeout\" in \"settings\"/\"http\""),
    (
        &["requestreadtimeout"],
        "write \"header_read_timeout\", \"body_read_timeout\" and \"min_rate\" in \"settings\"/\"http\"",
    ),
    (
        &[
            "sendfile",
            "aio",
            "directio",
            "open_file_cache",
            "open_file_cache_valid",
            "enablesendfile",
            "enablemmap",
            "log_not_found",
            "max_ranges",
        ],
        FILES,
    ),
    (
        &["tcp_nopush", "tcp_nodelay", "lingering_close", "reset_timedout_connection"],
        "leave it out: the server does so where it helps",
    ),
    (
        &["limit_rate", "limit_rate_after"],
        "write \"rate\": {\"rate\": 100000, \"after\": 1000000} in the action",
    ),
    (
        &["valid_referers"],
        "write \"headers\": {\"Referer\": [\"http*\", \"!https://example.org/*\"]} in the \"match\" of a step that refuses",
    ),
    (
        &["ssl_client_certificate", "ssl_verify_client"],
        "write \"tls\": {\"client_certificates\": {\"authorities\": \"/path\"}} in the listener",
    ),
    (
        &["ssl_crl"],
        "write \"tls\": {\"client_certificates\": {\"revoked\": \"/path\"}} in the listener",
    ),
    (&["ssl_reject_handshake"], "write \"tls\": {\"refuse_unknown_names\": true} in the listener"),
    (
        &["ssl_session_cache", "ssl_session_tickets", "ssl_session_timeout"],
        "write \"tls\": {\"session\": {\"cache_size\": 1000, \"timeout\": 300}} in the listener, or \"tickets\": true",
    ),
    (&["satisfy"], "leave it out: what an action requires must all hold, as with nginx's \"all\""),
    (&["limit_except"], "write \"method\": [\"!GET\"] in the \"match\" of a step"),
    (
        &["etag", "fileetag"],
        "leave it out: files have an ETag; \"response_headers\": {\"ETag\": null} removes it",
    ),
    (&["default_type"], "write \"default_type\" in \"settings\"/\"http\"/\"static\""),
    (&["addtype"], "write \"mime_types\" in \"settings\"/\"http\"/\"static\""),
    (&["adddefaultcharset"], "write \"charset\": \"utf-8\" in the action"),
    (
        &["underscores_in_headers", "ignore_invalid_headers"],
        "write \"discard_unsafe_fields\" in \"settings\"/\"http\"",
    ),
    (&["resolver"], "write \"resolver\" in \"settings\"; the default is the machine's"),
    (&["set", "map", "geo", "split_clients"], DEFINED),
    (&["real_ip_header", "set_real_ip_from", "remoteipheader"], CLIENT_IP),
    (&["large_client_header_buffers", "limitrequestfields", "limitrequestfieldsize"], FIELD_LIMITS),
    (&["merge_slashes"], "leave it out: paths are always normalised"),
    (&["disable_symlinks"], "write \"follow_symlinks\": false in the share"),
    (
        &["absolute_redirect", "port_in_redirect", "server_name_in_redirect", "usecanonicalname"],
        REDIRECTS,
    ),
    (&["upstream"], "write \"pass\": \"upstreams/NAME\", and the servers in \"upstreams\""),
    (&["rewriterule", "rewritecond", "rewriteengine", "rewritebase"], REWRITES),
    (&["redirectmatch", "redirectpermanent"], "write \"return\": 301 and \"location\""),
    (&["setenv", "setenvif", "passenv"], ACTION_VARIABLES),
    (&["expiresactive", "expiresdefault", "expiresbytype"], EXPIRES),
    (&["errordocument"], "write \"error_pages\": {\"404\": \"/path/404.html\"} in the action"),
    (
        &["allowoverride"],
        "write \"htaccess\": {\"allow\": \"All\"} in the share or the application",
    ),
    (&["authtype", "authname"], LOGIN),
    (&["directoryindex"], "write \"index\" in the share"),
    (&["sethandler", "addhandler"], "write \"scripts\": \"applications/NAME\" beside \"share\""),
    (&["fallbackresource"], "write \"fallback\" beside \"share\", or a last path in \"try\""),
    (&["serveralias", "http_host", "host_name"], HOSTS),
    (&["request_method"], "write \"method\""),
    (
        &["request_uri"],
        "write \"uri\" for the path, and \"query\" or \"arguments\" for what follows it",
    ),
    (&["args"], "write \"query\" for the whole query, or \"arguments\" for its parts"),
    (&["logformat"], "write \"access_log\": {\"path\": \"/path\", \"format\": \"combined\"}"),
    (&["errorlog", "log_limit", "log_buffering", "syslog_facility", "syslog_ident"], SERVER_LOG),
    (&["status_listen"], "write a listener of its own whose route has an action with \"status\""),
    (&["ping_response"], "write \"response\" beside \"ping\": \"applications/NAME\" in an action"),
    (
        &["access_suppress_path"],
        "write \"access_log\": false in the action of a step with this \"uri\"",
    ),
    (&["request_slowlog_trace_depth"], "leave it out: the slow log has the stack of the script"),
    (
        &["request_terminate_timeout_track_finished"],
        "leave it out: \"timeout\" of \"limits\" counts until the response is complete",
    ),
    (
        &["process_dumpable"],
        "leave it out: the processes of applications cannot be traced by others",
    ),
    (
        &[
            "emergency_restart_threshold",
            "emergency_restart_interval",
            "process_control_timeout",
            "systemd_interval",
            "events_mechanism",
        ],
        SUPERVISOR,
    ),
    (
        &["apparmor_hat"],
        "write \"isolation\": {\"sandbox\": true} in the application, which then uses only its own files",
    ),
    (&["daemonize", "pid"], "these are options of the command line: --daemon and --pid FILE"),
];

#[cfg(test)]
mod tests {
    use super::super::{KEYS, key};
    use super::*;

    #[test]
    fn a_directive_has_one_equivalent() {
        let mut seen = std::collections::HashSet::new();
        for word in DIRECTIVES.iter().flat_map(|(words, _)| *words) {
            assert!(seen.insert(*word), "{word} stands twice");
            assert_eq!(*word, word.to_ascii_lowercase().replace(['-', '.'], "_"));
            let is_first =
                KEYS.iter().all(|other| other.beside.is_some() || !other.words.contains(word));
            assert!(is_first, "{word} is in the other table");
            assert!(key(word, |_| false).is_some());
        }
        for directive in ["RewriteRule", "proxy_cookie_path", "pm.status_listen", "SetEnv"] {
            assert!(key(directive, |_| false).is_some(), "{directive}");
        }
    }
}
