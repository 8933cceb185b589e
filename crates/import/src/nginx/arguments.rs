//! Values of arguments that nginx refuses at a start.

use super::reader::Directive;
use super::units;

/// Returns what is wrong with the arguments of a directive; `kind` is that of its first argument.
pub fn wrong(directive: &Directive, kind: &str) -> Option<String> {
    let name = &directive.name;
    let arg = directive.arg(0);
    let is_valid = match kind {
        "flag" => matches!(arg.to_ascii_lowercase().as_str(), "on" | "off"),
        "number" => arg.parse::<u64>().is_ok(),
        "size" => units::size(arg).is_some(),
        "time" => units::milliseconds(arg).is_some(),
        _ => true,
    };
    let words = WORDS.iter().find(|(other, _)| other == name);
    let unknown = words.and_then(|(_, words)| {
        directive.args.iter().find(|arg| !words.contains(&arg.to_ascii_lowercase().as_str()))
    });
    let wrong = unknown.map(String::as_str).or((!is_valid).then_some(arg));
    wrong
        .map(|wrong| format!("\"{wrong}\" is no value of \"{name}\""))
        .or_else(|| special(directive))
}

/// Fields that nginx can ignore in responses of other servers.
const HEADERS: [&str; 9] = [
    "x-accel-redirect",
    "x-accel-expires",
    "x-accel-limit-rate",
    "x-accel-buffering",
    "x-accel-charset",
    "expires",
    "cache-control",
    "set-cookie",
    "vary",
];

/// Directives whose arguments are some words, in lower case.
const WORDS: [(&str, &[&str]); 28] = [
    ("satisfy", &["all", "any"]),
    ("ssl_protocols", &["sslv2", "sslv3", "tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"]),
    ("proxy_ssl_protocols", &["sslv2", "sslv3", "tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"]),
    ("ssl_verify_client", &["on", "off", "optional", "optional_no_ca"]),
    ("server_tokens", &["on", "off", "build"]),
    ("autoindex_format", &["html", "xml", "json", "jsonp"]),
    ("if_modified_since", &["off", "exact", "before"]),
    ("gzip_http_version", &["1.0", "1.1"]),
    ("proxy_http_version", &["1.0", "1.1", "2"]),
    ("gzip_static", &["on", "off", "always"]),
    (
        "gzip_proxied",
        &[
            "off",
            "expired",
            "no-cache",
            "no-store",
            "private",
            "no_last_modified",
            "no_etag",
            "auth",
            "any",
        ],
    ),
    ("lingering_close", &["on", "off", "always"]),
    ("client_body_in_file_only", &["on", "off", "clean"]),
    ("limit_req_log_level", &["info", "notice", "warn", "error"]),
    ("limit_conn_log_level", &["info", "notice", "warn", "error"]),
    ("keepalive_disable", &["none", "msie6", "safari"]),
    ("dav_methods", &["off", "put", "delete", "mkcol", "copy", "move"]),
    ("proxy_cache_methods", &["get", "head", "post"]),
    ("fastcgi_cache_methods", &["get", "head", "post"]),
    ("debug_points", &["stop", "abort"]),
    ("proxy_ignore_headers", &HEADERS),
    ("fastcgi_ignore_headers", &HEADERS),
    (
        "proxy_next_upstream",
        &[
            "error",
            "timeout",
            "invalid_header",
            "non_idempotent",
            "updating",
            "http_403",
            "http_404",
            "http_429",
            "http_500",
            "http_502",
            "http_503",
            "http_504",
            "off",
        ],
    ),
    (
        "fastcgi_next_upstream",
        &[
            "error",
            "timeout",
            "invalid_header",
            "non_idempotent",
            "updating",
            "http_403",
            "http_404",
            "http_429",
            "http_500",
            "http_503",
            "off",
        ],
    ),
    (
        "proxy_cache_use_stale",
        &[
            "error",
            "timeout",
            "invalid_header",
            "updating",
            "http_403",
            "http_404",
            "http_429",
            "http_500",
            "http_502",
            "http_503",
            "http_504",
            "off",
        ],
    ),
    (
        "fastcgi_cache_use_stale",
        &[
            "error",
            "timeout",
            "invalid_header",
            "updating",
            "http_403",
            "http_404",
            "http_429",
            "http_500",
            "http_503",
            "off",
        ],
    ),
    (
        "limit_except",
        &[
            "get",
            "head",
            "post",
            "put",
            "delete",
            "mkcol",
            "copy",
            "move",
            "options",
            "propfind",
            "proppatch",
            "lock",
            "unlock",
            "patch",
        ],
    ),
    ("use", &["epoll", "poll", "select", "/dev/poll", "eventport", "kqueue"]),
];

/// Returns what is wrong with the arguments of some directives.
fn special(directive: &Directive) -> Option<String> {
    let (name, args) = (directive.name.as_str(), &directive.args);
    let number = |text: &str, low: u32, high: u32| {
        text.parse::<u32>().is_ok_and(|number| (low..=high).contains(&number))
    };
    let value = |text: &str| format!("\"{text}\" is no value of \"{name}\"");
    match name {
        "set" if !directive.arg(0).starts_with('$') => {
            Some(format!("\"{}\" is no variable", directive.arg(0)))
        }
        "map" | "geo" | "split_clients"
            if !args.last().is_some_and(|last| last.starts_with('$') && last.len() > 1) =>
        {
            Some(format!("\"{name}\" must name a variable"))
        }
        "limit_req_status" | "limit_conn_status" if !number(directive.arg(0), 400, 599) => {
            Some(value(directive.arg(0)))
        }
        "gzip_comp_level" if !number(directive.arg(0), 1, 9) => Some(value(directive.arg(0))),
        "rewrite" => args
            .get(2)
            .filter(|flag| !matches!(flag.as_str(), "last" | "break" | "redirect" | "permanent"))
            .map(|flag| value(flag)),
        "fastcgi_param" => {
            args.get(2).filter(|flag| *flag != "if_not_empty").map(|flag| value(flag))
        }
        "error_page" => {
            let codes = args.split_last().map(|(_, codes)| codes).unwrap_or_default();
            codes
                .iter()
                .find(|code| !code.starts_with('=') && !number(code, 300, 599))
                .map(|code| value(code))
        }
        "return" => {
            let first = directive.arg(0);
            let is_url =
                ["http://", "https://", "$scheme"].iter().any(|start| first.starts_with(start));
            (!(number(first, 0, 999) || is_url && args.len() == 1)).then(|| value(first))
        }
        "expires" => args
            .first()
            .filter(|_| args.len() == 2 && args[0] != "modified")
            .map(|word| value(word)),
        "location" if args.len() == 2 && !matches!(args[0].as_str(), "=" | "^~" | "~" | "~*") => {
            Some(value(&args[0]))
        }
        "if" if !directive.arg(0).starts_with('(')
            || !args.last().is_some_and(|last| last.ends_with(')')) =>
        {
            Some("the condition of \"if\" must stand in parentheses".to_owned())
        }
        _ => sized(directive).or_else(|| listed(directive)),
    }
}

/// Returns what is wrong with sizes, times, numbers and zones behind the first argument.
fn sized(directive: &Directive) -> Option<String> {
    let (name, args) = (directive.name.as_str(), &directive.args);
    let (first, second) = (directive.arg(0), directive.arg(1));
    let is_number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 0);
    let is_size = |text: &str| units::size(text).is_some();
    let is_zone = |text: &str| {
        let zone = text.strip_prefix("zone=").and_then(|zone| zone.rsplit_once(':'));
        zone.is_some_and(|(name, size)| !name.is_empty() && is_size(size))
    };
    let is_code = |text: &str| {
        text == "any" || text.parse::<u16>().is_ok_and(|code| (100..=599).contains(&code))
    };
    let is_good = match name {
        "large_client_header_buffers" => is_number(first) && is_size(second),
        _ if name.ends_with("_buffers") && args.len() == 2 => is_number(first) && is_size(second),
        _ if name.ends_with("_temp_path") => args.iter().skip(1).all(|level| is_number(level)),
        "proxy_cache_valid" | "fastcgi_cache_valid" => {
            args.split_last().is_some_and(|(time, codes)| {
                units::seconds(time).is_some() && codes.iter().all(|code| is_code(code))
            })
        }
        "limit_conn_zone" => is_zone(second),
        "keepalive" | "worker_connections" => is_number(first),
        "worker_processes" => first == "auto" || is_number(first),
        "worker_priority" => first.parse::<i32>().is_ok(),
        "worker_cpu_affinity" => {
            let is_mask = |text: &String| text.bytes().all(|byte| matches!(byte, b'0' | b'1'));
            first == "auto" || args.iter().all(is_mask)
        }
        "limit_rate" | "limit_rate_after" => first.contains('$') || is_size(first),
        "keepalive_timeout" => args.iter().all(|time| units::seconds(time).is_some()),
        "directio" => first == "off" || is_size(first),
        "zone" => args.len() == 1 || is_size(second),
        "thread_pool" => args.iter().skip(1).any(|arg| arg.starts_with("threads=")),
        _ => true,
    };
    (!is_good).then(|| format!("\"{}\" is no value of \"{name}\"", args.join(" ")))
}

/// Returns what is wrong with arguments that are some words, or `word=value`.
fn listed(directive: &Directive) -> Option<String> {
    let (name, args) = (directive.name.as_str(), &directive.args);
    let first = directive.arg(0);
    let value = |text: &str| Some(format!("\"{text}\" is no value of \"{name}\""));
    let not_of = |good: &dyn Fn(&str) -> bool| args.iter().find(|arg| !good(arg));
    let behind = |arg: &str, prefix: &str, good: fn(&str) -> bool| {
        arg.strip_prefix(prefix).is_some_and(good)
    };
    let is_time = |text: &str| units::seconds(text).is_some();
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let wrong = match name {
        "disable_symlinks" => {
            not_of(&|arg| matches!(arg, "on" | "off" | "if_not_owner") || arg.starts_with("from="))
        }
        "aio" => {
            not_of(&|arg| matches!(arg, "on" | "off" | "threads") || arg.starts_with("threads="))
        }
        "hash" => args.get(1).filter(|arg| *arg != "consistent"),
        "random" => match args.as_slice() {
            [] => None,
            [two, rest @ ..] if two == "two" => rest.iter().find(|arg| *arg != "least_conn"),
            [other, ..] => Some(other),
        },
        "proxy_redirect" if args.len() == 1 => not_of(&|arg| matches!(arg, "off" | "default")),
        "proxy_cookie_domain" | "proxy_cookie_path" | "proxy_cookie_flags" if args.len() == 1 => {
            not_of(&|arg| arg == "off")
        }
        "open_file_cache" => not_of(&|arg| {
            arg == "off" || behind(arg, "max=", is_number) || behind(arg, "inactive=", is_time)
        }),
        "open_log_file_cache" => not_of(&|arg| {
            arg == "off"
                || ["max=", "min_uses="].iter().any(|prefix| behind(arg, prefix, is_number))
                || ["inactive=", "valid="].iter().any(|prefix| behind(arg, prefix, is_time))
        }),
        "ssl_session_cache" => not_of(&|arg| {
            let is_shared = arg
                .strip_prefix("shared:")
                .and_then(|zone| zone.rsplit_once(':'))
                .is_some_and(|(name, size)| !name.is_empty() && units::size(size).is_some());
            matches!(arg, "off" | "none" | "builtin")
                || behind(arg, "builtin:", is_number)
                || is_shared
        }),
        "auth_request_set" => not_of(&|_| first.len() > 1 && first.starts_with('$')),
        // A block of this name has no arguments.
        "server" => args.iter().skip(1).find(|arg| {
            let is_good = matches!(arg.as_str(), "backup" | "down" | "resolve" | "drain")
                || ["weight=", "max_conns=", "max_fails="]
                    .iter()
                    .any(|prefix| behind(arg, prefix, is_number))
                || ["fail_timeout=", "slow_start="]
                    .iter()
                    .any(|prefix| behind(arg, prefix, is_time))
                || ["route=", "service="].iter().any(|prefix| arg.starts_with(prefix));
            !is_good
        }),
        "index" => not_of(&|arg| !arg.is_empty()),
        "access_log" if first == "off" => args.get(1),
        "valid_referers" => {
            let repeated = args.iter().enumerate().find(|(at, arg)| args[..*at].contains(arg));
            repeated.map(|(_, arg)| arg)
        }
        _ => None,
    };
    if let Some(wrong) = wrong {
        return value(wrong);
    }
    match name {
        "fastcgi_split_path_info"
            if super::pcre::convert(first, false).is_some_and(|found| found.groups < 2) =>
        {
            Some(format!("the expression \"{first}\" must have two groups"))
        }
        "upstream" if !directive.children().iter().any(|inner| inner.name == "server") => {
            Some("no servers are inside the upstream".to_owned())
        }
        _ => None,
    }
}
