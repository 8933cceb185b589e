//! Keys and variables of nginx, PHP-FPM, Apache, HAProxy and Caddy, with their equivalents.
//!
//! The tables only serve messages: none of these names is accepted.

mod directives;
#[cfg(test)]
mod tests;

use howdah_config::{Config, Defaults, Error, Unknown};

use self::directives::DIRECTIVES;

/// Reads a document; the errors have the equivalents of foreign names.
pub fn parse(text: &[u8], defaults: &Defaults) -> Result<Config, Error> {
    howdah_config::parse_with(text, defaults).map_err(explained)
}

/// Adds the equivalents of foreign names to an error and to the others of its document.
pub fn explained(error: Error) -> Error {
    error.with_hints(&|unknown| match unknown {
        Unknown::Keys { names, known } => {
            let is_known = |key: &str| known.contains(&key);
            names.iter().find_map(|name| key(name, is_known)).map(str::to_owned)
        }
        Unknown::Variable(name) => variable(name),
    })
}

/// Foreign names of a key, in lower case with `_` in place of `-` and `.`. With `beside`, they apply only to objects
/// with that key.
struct Word {
    words: &'static [&'static str],
    beside: Option<&'static str>,
    hint: &'static str,
}

/// Returns the equivalent of an unknown key. `is_known` is true for keys of the object.
fn key(name: &str, is_known: impl Fn(&str) -> bool) -> Option<&'static str> {
    // PHP-FPM's `php_admin_value[memory_limit]` and `env[PATH]` have a member in their names.
    let name = name.split('[').next().unwrap_or(name).to_ascii_lowercase().replace(['-', '.'], "_");
    let name = name.strip_prefix("pm_").unwrap_or(&name);
    let fits = |word: &&Word| word.words.contains(&name) && word.beside.is_none_or(&is_known);
    let further = || DIRECTIVES.iter().find(|(words, _)| words.contains(&name));
    KEYS.iter().find(fits).map(|word| word.hint).or_else(|| further().map(|(_, hint)| *hint))
}

/// Returns the equivalent of an unknown variable; the name has no `$`.
fn variable(name: &str) -> Option<String> {
    let hint = match name {
        "http_host" => {
            "\"$header_host\" is the field as the client sent it, with its port; \"$host\" is in \
             lower case and without the port"
        }
        "request_method" => "write \"$method\"",
        "document_uri" | "request_path" | "path" => "write \"$uri\"",
        "server_name" => "write \"$host\", the name that the client asked for",
        "remote_ip" | "client_ip" => "write \"$remote_addr\"",
        "realpath_root" => "write the directory itself",
        "document_root" => "write the directory itself",
        "request_filename" => "write the directory itself and \"$uri\"",
        "request" => "write \"$request_line\"",
        "binary_remote_addr" => "write \"$remote_addr\"",
        "proxy_protocol_addr" => {
            "write \"$remote_addr\", which is that of the PROXY protocol if the listener has \
             \"proxy_protocol\""
        }
        "proxy_protocol_port" => {
            "write \"$remote_port\", which is that of the PROXY protocol if the listener has \
             \"proxy_protocol\""
        }
        "content_length" => "write \"$header_content_length\"",
        "content_type" => "write \"$header_content_type\"",
        "http2" => "write \"$server_protocol\"",
        "upstream_response_length" | "upstream_bytes_received" => "write \"$body_bytes_sent\"",
        "fastcgi_script_name" | "fastcgi_path_info" => "write \"$uri\"",
        "geoip_country_code" | "geoip2_data_country_code" => {
            "define a variable in \"variables\" with \"geo\" and a \"database\""
        }
        "proxy_add_x_forwarded_for" => {
            "\"forwarded\": \"x-forwarded\" of an upstream sends X-Forwarded-For"
        }
        _ => {
            let sent = ["sent_http_", "upstream_http_"];
            let (prefix, field) =
                if let Some(field) = sent.iter().find_map(|prefix| name.strip_prefix(prefix)) {
                    ("response_header_", field)
                } else {
                    ("header_", name.strip_prefix("http_")?)
                };
            return (!field.is_empty()).then(|| format!("write \"${prefix}{field}\""));
        }
    };
    Some(hint.to_owned())
}

const BODY: &str = "the bytes that a request's body may have are \"max_body_size\" of an action, or \
                    of \"settings\"/\"http\" for all requests";
const SHARE: &str = "write \"share\": \"/var/www/site$uri\" for files in /var/www/site";
const SCRIPTS: &str = "pass to an application: of type \"php\", or \"fastcgi\" for PHP-FPM";
const CERTIFICATE: &str = "write \"tls\": {\"certificate\": {\"chain\": \"/chain.pem\", \"key\": \
                           \"/key.pem\"}} in the listener";
const PROCESSES: &str = "the number of an application's processes is \"processes\": 8, or \
                         {\"max\": 8, \"spare\": 2, \"idle_timeout\": 10}, or \"auto\"";
const TIMEOUTS: &str = "write \"timeouts\": {\"connect\": 10, \"send\": 60, \"first_byte\": 60, \"read\": 60} in an \
     upstream";
const ACCESS_LOG: &str = "write \"access_log\": {\"path\": \"/path\", \"format\": \"combined\"}";

const FAILURES: &str = "write \"failures\": {\"max\": 3, \"time\": 10} in the upstream";
const COMPRESSION: &str = "compression is set up in \"settings\"/\"http\"/\"compression\"";
const PHP_SETTINGS: &str = "settings of PHP are \"options\": {\"admin\": {\"memory_limit\": \
                            \"256M\"}}, or \"user\" for those that scripts may change";
const SERVER_BLOCK: &str = "\"listeners\" name the addresses, \"routes\" what happens to requests; a \
                            step's \"match\" has \"host\" and \"uri\"";

const KEYS: &[Word] = &[
    Word { words: &["most"], beside: Some("max"), hint: "write \"max\"" },
    // PHP-FPM's sockets, before nginx's `listen`.
    Word {
        words: &["listen", "listen_backlog"],
        beside: Some("processes"),
        hint: "leave it out: there is no socket between server and application; \"limits\": \
               {\"queue\": 8192} is the number of requests that may wait",
    },
    Word { words: &["listen_backlog"], beside: Some("backlog"), hint: "write \"backlog\"" },
    Word {
        words: &["listen_backlog"],
        beside: None,
        hint: "write \"backlog\" in the listener, or \"limits\": {\"queue\": 8192} in the application for the \
               requests that may wait",
    },
    Word {
        words: &[
            "listen_owner",
            "listen_group",
            "listen_mode",
            "listen_acl_users",
            "listen_acl_groups",
        ],
        beside: Some("backlog"),
        hint: "leave it out: every user may connect to a socket, so use a directory that others cannot enter",
    },
    Word {
        words: &[
            "listen_owner",
            "listen_group",
            "listen_mode",
            "listen_acl_users",
            "listen_acl_groups",
        ],
        beside: None,
        hint: "leave it out: there is no socket between server and application",
    },
    Word {
        words: &["listen_allowed_clients"],
        beside: None,
        hint: "leave it out: there is no socket between server and application; an action has \"allow\": \
               [\"10.0.0.1\"]",
    },
    // Actions, and keys that are often written there by mistake.
    Word { words: &["root", "alias", "document_root", "documentroot"], beside: None, hint: SHARE },
    Word {
        words: &["try_files"],
        beside: None,
        hint: "beside \"share\": \"/var/www/site$uri\" write \"try\": [\"$uri\", \"$uri/\"] and a \
               \"fallback\" for what comes last",
    },
    Word {
        words: &["proxy_pass", "reverse_proxy", "proxypass"],
        beside: None,
        hint: "write \"proxy\": \"http://127.0.0.1:8080\" in an action, or \"pass\": \
               \"upstreams/NAME\"",
    },
    Word {
        words: &["fastcgi_pass", "php_fastcgi", "uwsgi_pass", "scgi_pass"],
        beside: None,
        hint: SCRIPTS,
    },
    Word {
        words: &["add_header", "more_set_headers", "header"],
        beside: Some("response_headers"),
        hint: "write \"response_headers\": {\"X-Name\": \"value\"}",
    },
    Word { words: &["expires"], beside: Some("same_site"), hint: "write \"max_age\", in seconds" },
    Word {
        words: &["add_header", "expires"],
        beside: None,
        hint: "write \"response_headers\": {\"Cache-Control\": \"max-age=3600\"} in an action",
    },
    Word {
        words: &["auth_basic", "auth_basic_user_file", "basicauth", "authuserfile"],
        beside: None,
        hint: "write \"basic_auth\": {\"users_file\": \"/path\"} in an action",
    },
    Word {
        words: &["redirect", "redir"],
        beside: None,
        hint: "write \"return\": 301 with \"location\": \"https://$host$request_uri\"",
    },
    Word {
        words: &["client_max_body_size", "limitrequestbody", "body_size", "post_max_size"],
        beside: None,
        hint: BODY,
    },
    Word {
        words: &["limit_req", "limit_req_zone", "rate_limit", "ratelimit"],
        beside: None,
        hint: "write \"limit\": {\"rate\": \"10/s\", \"burst\": 20} in an action",
    },
    Word {
        words: &["limit_conn", "limit_conn_zone", "max_connections_per_ip"],
        beside: None,
        hint: "write \"limit\": {\"concurrency\": 10} in an action",
    },
    Word {
        words: &["text", "message", "content"],
        beside: Some("keep_query"),
        hint: "write \"body\" for the text of a \"return\"",
    },
    Word {
        words: &["autoindex", "browse"],
        beside: None,
        hint: "write \"listing\": true in the share",
    },
    Word {
        words: &["stub_status"],
        beside: None,
        hint: "the control API has /status; write \"status\": \"applications/NAME\" in an action for \
               PHP-FPM's page",
    },
    // Conditions.
    Word {
        words: &["server_name", "servername", "server_names"],
        beside: None,
        hint: "write \"host\": \"example.com\" in the \"match\" of a step",
    },
    Word {
        words: &["location"],
        beside: Some("return"),
        hint: "write \"return\": 301 beside \"location\"",
    },
    Word { words: &["path", "location"], beside: Some("arguments"), hint: "write \"uri\"" },
    Word {
        words: &["remote_addr", "remote_ip", "client_ip", "ip"],
        beside: Some("arguments"),
        hint: "write \"source\"",
    },
    // Listeners and the document.
    Word {
        words: &["listen", "bind"],
        beside: None,
        hint: "addresses are the keys of \"listeners\": {\"*:80\": {\"pass\": \"routes\"}}",
    },
    Word {
        words: &["include"],
        beside: None,
        hint: "write the name of a file, \"conf.d/*.json\", or an array of names",
    },
    Word { words: &["server", "virtualhost", "frontend"], beside: None, hint: SERVER_BLOCK },
    Word {
        words: &["location", "locations"],
        beside: None,
        hint: "write \"match\": {\"uri\": \"/path/*\"} in a step of \"routes\"",
    },
    Word { words: &["backend"], beside: Some("upstreams"), hint: "write \"upstreams\"" },
    Word {
        words: &["ssl_certificate", "ssl_certificate_key", "ssl", "sslcertificatefile", "crt"],
        beside: None,
        hint: CERTIFICATE,
    },
    Word {
        words: &["ssl_protocols", "ssl_ciphers", "ssl_conf_command", "ssl_ecdh_curve"],
        beside: None,
        hint: "write \"tls\": {\"conf_commands\": {\"MinProtocol\": \"TLSv1.2\"}} in the listener",
    },
    // Directives of nginx's `http` block.
    Word {
        words: &["worker_processes", "worker_connections", "threads"],
        beside: None,
        hint: "threads that serve connections are \"settings\": {\"listen_threads\": 4}",
    },
    Word {
        words: &[
            "gzip",
            "brotli",
            "gzip_types",
            "gzip_comp_level",
            "gzip_min_length",
            "gzip_static",
        ],
        beside: None,
        hint: COMPRESSION,
    },
    Word {
        words: &["server_tokens", "servertokens"],
        beside: None,
        hint: "write \"settings\": {\"http\": {\"server_version\": false}}",
    },
    Word {
        words: &["client_body_temp_path"],
        beside: None,
        hint: "write \"settings\": {\"http\": {\"body_temp_path\": \"/path\"}}",
    },
    Word {
        words: &["client_header_timeout"],
        beside: None,
        hint: "write \"settings\": {\"http\": {\"header_read_timeout\": 30}}",
    },
    Word {
        words: &["client_body_timeout"],
        beside: None,
        hint: "write \"settings\": {\"http\": {\"body_read_timeout\": 30}}",
    },
    Word {
        words: &["keepalive_timeout"],
        beside: None,
        hint: "write \"settings\": {\"http\": {\"idle_timeout\": 180}}",
    },
    Word {
        words: &["error_log", "log_level"],
        beside: None,
        hint: "the server's log is an option of the command line: --log FILE",
    },
    Word {
        words: &["log_format"],
        beside: None,
        hint: "write \"access_log\": {\"path\": \"/path\", \"format\": \"$remote_addr $status\"}",
    },
    Word { words: &["custom_log", "customlog", "transferlog"], beside: None, hint: ACCESS_LOG },
    // Upstreams.
    Word {
        words: &["secure", "httponly", "http_only"],
        beside: Some("same_site"),
        hint: "the cookie is HttpOnly, and Secure if the client uses HTTPS; leave it out",
    },
    Word {
        words: &["learn", "route"],
        beside: Some("same_site"),
        hint: "a session that the application names is \"balance\": {\"hash\": \"$cookie_NAME\"} of \
               the upstream",
    },
    Word { words: &["max_fails", "fail_timeout"], beside: Some("weight"), hint: FAILURES },
    Word { words: &["max_fails"], beside: Some("time"), hint: "write \"max\"" },
    Word { words: &["fail_timeout"], beside: Some("time"), hint: "write \"time\"" },
    Word { words: &["max_fails", "fail_timeout"], beside: None, hint: FAILURES },
    Word {
        words: &["slow_start"],
        beside: Some("weight"),
        hint: "write \"slow_start\" in the upstream, beside \"servers\"",
    },
    Word { words: &["max_conns", "maxconn"], beside: None, hint: "write \"max_connections\"" },
    Word {
        words: &["down"],
        beside: Some("weight"),
        hint: "write \"weight\": 0, or \"drain\": true for a server that keeps its clients",
    },
    Word {
        words: &["least_conn", "ip_hash", "lb_policy"],
        beside: None,
        hint: "write \"balance\": \"least_connections\" or {\"hash\": \"$remote_addr\"} in the \
               upstream",
    },
    Word {
        words: &["proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout"],
        beside: None,
        hint: TIMEOUTS,
    },
    Word {
        words: &["proxy_set_header", "header_up"],
        beside: None,
        hint: "an upstream has \"headers\": {\"X-Name\": \"value\"}, and \"host\" for the field Host",
    },
    Word {
        words: &["proxy_next_upstream_tries", "retries"],
        beside: None,
        hint: "write \"tries\" in the upstream",
    },
    Word {
        words: &[
            "proxy_next_upstream",
            "fastcgi_next_upstream",
            "proxy_next_upstream_timeout",
            "fastcgi_next_upstream_timeout",
            "next_upstream",
            "retry_on",
        ],
        beside: None,
        hint: "write \"retry\": {\"on\": [\"error\", \"timeout\", 503], \"timeout\": 10} in the \
               upstream or the action",
    },
    Word {
        words: &["grpc", "grpc_pass", "proxy_http_version", "h2c"],
        beside: None,
        hint: "write \"http2\": true in an upstream, and \"pass\": \"upstreams/NAME\"",
    },
    Word {
        words: &["proxy_buffering"],
        beside: None,
        hint: "write \"buffering\" in the action or the upstream",
    },
    Word {
        words: &["proxy_request_buffering"],
        beside: None,
        hint: "write \"request_buffering\" in the action or the upstream",
    },
    Word {
        words: &["health_check", "httpchk", "health_checks"],
        beside: None,
        hint: "write \"health\": {\"uri\": \"/\"} in the upstream",
    },
    Word {
        words: &["proxy_redirect"],
        beside: None,
        hint: "write \"rewrite_location\" in the upstream",
    },
    // Pools of PHP-FPM.
    Word { words: &["max_children"], beside: Some("spare"), hint: "write \"max\"" },
    Word {
        words: &["min_spare_servers", "start_servers"],
        beside: Some("spare"),
        hint: "write \"spare\", the number of idle processes, or \"start\"",
    },
    Word { words: &["max_spare_servers"], beside: Some("spare"), hint: "write \"max_spare\"" },
    Word { words: &["max_spawn_rate"], beside: Some("spare"), hint: "write \"spawn_rate\"" },
    Word {
        words: &["process_idle_timeout"],
        beside: Some("spare"),
        hint: "write \"idle_timeout\"",
    },
    Word {
        words: &[
            "pm",
            "max_children",
            "start_servers",
            "min_spare_servers",
            "max_spare_servers",
            "process_idle_timeout",
            "max_spawn_rate",
            "workers",
            "num_procs",
        ],
        beside: None,
        hint: PROCESSES,
    },
    Word {
        words: &["max_requests"],
        beside: None,
        hint: "write \"limits\": {\"requests\": 500} in the application",
    },
    Word {
        words: &["request_terminate_timeout", "max_execution_time"],
        beside: None,
        hint: "write \"limits\": {\"timeout\": 30} in the application",
    },
    Word {
        words: &["request_slowlog_timeout", "slowlog"],
        beside: None,
        hint: "write \"limits\": {\"slow\": 5, \"slow_log\": \"/path\"} in the application",
    },
    Word {
        words: &[
            "memory_limit",
            "php_value",
            "php_flag",
            "php_admin_value",
            "php_admin_flag",
            "ini",
        ],
        beside: None,
        hint: PHP_SETTINGS,
    },
    Word { words: &["env"], beside: None, hint: "write \"environment\": {\"NAME\": \"value\"}" },
    Word {
        words: &["clear_env"],
        beside: None,
        hint: "leave it out: scripts get the variables of \"environment\" and no others",
    },
    Word {
        words: &["security_limit_extensions"],
        beside: None,
        hint: "write \"limit_extensions\": [\".php\", \".phtml\"]; without it only \".php\" runs",
    },
    Word {
        words: &["catch_workers_output", "decorate_workers_output"],
        beside: None,
        hint: "leave it out: the output of workers is in the log, or in the files \"stdout\" and \
               \"stderr\"",
    },
    Word {
        words: &["access_log", "access_format"],
        beside: None,
        hint: "write \"access_log\": {\"path\": \"/path\", \"format\": \"combined\"} in the application, an action, a \
               listener or the document",
    },
    Word {
        words: &["chroot"],
        beside: Some("isolation"),
        hint: "write \"isolation\": {\"rootfs\": \"/path\"}",
    },
    Word {
        words: &["process_priority", "nice"],
        beside: None,
        hint: "write \"priority\": 5 in the application",
    },
    Word {
        words: &["process_max"],
        beside: None,
        hint: "write \"settings\": {\"memory\": \"60%\"}, a limit of all processes together, and \
               \"processes\": {\"max\": 8} in each application",
    },
    Word { words: &["chdir"], beside: None, hint: "write \"working_directory\"" },
    Word {
        words: &["rlimit_files", "rlimit_core"],
        beside: None,
        hint: "write \"limits\": {\"rlimits\": {\"nofile\": 1024, \"core\": 0}} in the application",
    },
    Word {
        words: &["status_path", "ping_path"],
        beside: None,
        hint: "write a step whose action has \"status\" or \"ping\": \"applications/NAME\"",
    },
];
