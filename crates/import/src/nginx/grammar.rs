//! Where nginx allows each directive, with which arguments; and those that need no conversion.
//!
//! The table has a line for each directive: name, contexts, numbers of arguments, kind of the
//! argument, status and reason. Contexts are `m`ain, `e`vents, `h`ttp, `s`erver, `l`ocation,
//! `u`pstream, `i`f in a server, `j` for one in a location, and `x` for limit_except. The status is
//! `C` if the converter has it, `N` if it is not needed, `X` if it cannot be converted.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::reader::{DATA_BLOCKS, Directive};
use super::units;
use crate::{Error, Report, Status};

/// A line of the table.
#[derive(Debug)]
struct Row {
    contexts: &'static str,
    args: &'static str,
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
}

/// The place of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Outside of all blocks.
    Main,
    /// `events`
    Events,
    /// `http`
    Http,
    /// `server`
    Server,
    /// `location`
    Location,
    /// `upstream`
    Upstream,
    /// `if` in a server.
    ServerIf,
    /// `if` in a location.
    LocationIf,
    /// `limit_except`
    LimitExcept,
}

static TABLE: LazyLock<HashMap<&'static str, Row>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut columns = line.split('\t');
        let mut column = || columns.next().unwrap_or_default();
        let name = column();
        let row = Row {
            contexts: column(),
            args: column(),
            kind: column(),
            status: column(),
            reason: column(),
        };
        (name, row)
    };
    include_str!("directives.tsv").lines().map(row).collect()
});

/// Directives that may stand in a block once.
const SINGLE: [&str; 12] = [
    "alias",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "charset",
    "default_type",
    "expires",
    "fastcgi_pass",
    "proxy_pass",
    "root",
    "satisfy",
    "try_files",
];

/// Checks directives as nginx does at a start, and marks those of which the table says enough.
pub fn check(directives: &[Directive], context: Context, report: &mut Report) -> Result<(), Error> {
    let mut seen: Vec<&str> = Vec::new();
    for directive in directives {
        let Some(row) = TABLE.get(directive.name.as_str()) else {
            mark_foreign(
                directive.children(),
                "it belongs to a block that Howdah does not know",
                report,
            );
            continue;
        };
        if !row.contexts.contains(context.letter()) {
            if row.kind == "block" {
                let message = format!("\"{}\" is not allowed here", directive.name);
                return Err(directive.error(message));
            }
            let reason = "nginx does not allow it here, and does not start";
            report.mark(directive.id, Status::NotConverted, reason);
            continue;
        }
        check_arguments(directive, row)?;
        let is_single = matches!(row.kind, "flag" | "number" | "size" | "time")
            || SINGLE.contains(&directive.name.as_str());
        if is_single {
            if seen.contains(&&*directive.name) {
                return Err(directive.error(format!("\"{}\" stands here twice", directive.name)));
            }
            seen.push(&directive.name);
        }
        match row.status {
            "N" => report.mark(directive.id, Status::NotNeeded, row.reason),
            "X" => report.mark(directive.id, Status::NotConverted, row.reason),
            _ => {}
        }
        let inner = match (directive.name.as_str(), context) {
            ("events", _) => Context::Events,
            ("http", _) => Context::Http,
            ("server", Context::Http) => Context::Server,
            ("upstream", _) => Context::Upstream,
            ("location", _) => Context::Location,
            ("if", Context::Server) => Context::ServerIf,
            ("if", _) => Context::LocationIf,
            ("limit_except", _) => Context::LimitExcept,
            ("mail" | "stream", _) => {
                mark_foreign(directive.children(), row.reason, report);
                continue;
            }
            (name, _) if DATA_BLOCKS.contains(&name) => continue,
            _ => continue,
        };
        check(directive.children(), inner, report)?;
    }
    Ok(())
}

/// Gives all directives in a block that is not converted the reason of the block.
fn mark_foreign(directives: &[Directive], reason: &str, report: &mut Report) {
    for directive in directives {
        if directive.name != "include" {
            report.mark(directive.id, Status::NotConverted, reason);
        }
        mark_foreign(directive.children(), reason, report);
    }
}

/// Returns the reason of the table for a directive that cannot be converted.
pub fn reason(name: &str) -> Option<&'static str> {
    TABLE.get(name).filter(|row| row.status == "X").map(|row| row.reason)
}

/// Returns true if nginx has a directive of this name.
pub fn is_known(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// Returns true if the converter reads directives of this name.
pub fn is_converted(name: &str) -> bool {
    TABLE.get(name).is_some_and(|row| row.status == "C")
}

fn check_arguments(directive: &Directive, row: &Row) -> Result<(), Error> {
    let name = &directive.name;
    match (row.kind == "block", directive.block.is_some()) {
        (true, false) if !matches!(name.as_str(), "server") => {
            return Err(directive.error(format!("\"{name}\" must have a block in braces")));
        }
        (false, true) => return Err(directive.error(format!("\"{name}\" has no block"))),
        _ => {}
    }
    let number = directive.args.len();
    let fits = row.args.split(',').any(|args| match args {
        "*" => true,
        "1+" => number >= 1,
        "2+" => number >= 2,
        exact => exact.parse() == Ok(number),
    });
    if !fits {
        return Err(directive.error(format!("\"{name}\" has a wrong number of arguments")));
    }
    let arg = directive.arg(0);
    let is_valid = match row.kind {
        "flag" => matches!(arg.to_ascii_lowercase().as_str(), "on" | "off"),
        "number" => arg.parse::<u64>().is_ok(),
        "size" => units::size(arg).is_some(),
        "time" => units::milliseconds(arg).is_some(),
        _ => true,
    };
    let wrong = WORDS.iter().find(|(other, _)| other == name).and_then(|(_, words)| {
        directive.args.iter().find(|arg| !words.contains(&arg.to_ascii_lowercase().as_str()))
    });
    if let Some(wrong) = wrong {
        return Err(directive.error(format!("\"{wrong}\" is no value of \"{name}\"")));
    }
    if let Some(message) = special(directive) {
        return Err(directive.error(message));
    }
    if is_valid {
        Ok(())
    } else {
        Err(directive.error(format!("\"{arg}\" is no value of \"{name}\"")))
    }
}

/// Directives whose arguments are some words, in lower case.
const WORDS: [(&str, &[&str]); 20] = [
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
        _ => None,
    }
}

impl Context {
    fn letter(self) -> char {
        match self {
            Context::Main => 'm',
            Context::Events => 'e',
            Context::Http => 'h',
            Context::Server => 's',
            Context::Location => 'l',
            Context::Upstream => 'u',
            Context::ServerIf => 'i',
            Context::LocationIf => 'j',
            Context::LimitExcept => 'x',
        }
    }
}
