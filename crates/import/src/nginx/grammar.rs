//! Where nginx allows each directive, with which arguments; and those that need no conversion.
//!
//! The table has a line for each directive: name, contexts, numbers of arguments, kind of the
//! argument, status and reason. Contexts are `m`ain, `e`vents, `h`ttp, `s`erver, `l`ocation,
//! `u`pstream, `i`f in a server, `j` for one in a location, and `x` for limit_except. The status is
//! `C` if the converter has it, `N` if it is not needed, `X` if it cannot be converted.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::reader::{DATA_BLOCKS, Directive};
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
const SINGLE: [&str; 13] = [
    "alias",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "charset",
    "default_type",
    "events",
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
            "N" => match difference(directive) {
                Some(reason) => report.mark(directive.id, Status::Changed, reason),
                None => report.mark(directive.id, Status::NotNeeded, row.reason),
            },
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
            // Their directives have a grammar of their own.
            ("mail" | "stream", _) => continue,
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
    if name == "server" && directive.block.is_some() && number > 0 {
        return Err(directive.error("a server has no arguments in front of its block"));
    }
    let fits = row.args.split(',').any(|args| match args {
        "*" => true,
        "1+" => number >= 1,
        "2+" => number >= 2,
        exact => exact.parse() == Ok(number),
    });
    if !fits {
        return Err(directive.error(format!("\"{name}\" has a wrong number of arguments")));
    }
    match super::arguments::wrong(directive, row.kind) {
        Some(message) => Err(directive.error(message)),
        None => Ok(()),
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

/// Returns the difference that a directive makes in nginx, though Howdah has no key for it.
fn difference(directive: &Directive) -> Option<&'static str> {
    match (directive.name.as_str(), directive.arg(0)) {
        ("merge_slashes", "off") => Some("several slashes in a path are always one"),
        ("if_modified_since", "off") => Some("a file that has not changed is a 304"),
        ("max_ranges", _) => Some("a request may ask for 64 ranges"),
        ("ssl_verify_depth", _) => Some("chains may have any depth"),
        ("flv" | "mp4", _) => Some("the whole file is sent; players ask for ranges"),
        _ => None,
    }
}
