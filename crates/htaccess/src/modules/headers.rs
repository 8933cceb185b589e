//! `mod_headers`: `Header` and `RequestHeader`.
//!
//! `RequestHeader` is applied last in the fixups ([`request`]). `Header` is applied when the
//! response is about to be sent: [`response`], or [`error_response`] for an answer of the server's
//! own (an error, a redirect).

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::pattern::{Condition, Pattern, Text, TooMuchWork, replaced};
use crate::modules::services::Services;
use crate::record::Record;
use crate::support::{lossy, merge, word};
use crate::table::Table;
use crate::work;
use crate::world::{Level, World};

/// Longest value that `edit*` may produce.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// Directives in the order in which they are applied.
#[derive(Debug, Clone, Default)]
pub struct Config {
    request: Vec<Entry>,
    onsuccess: Vec<Entry>,
    always: Vec<Entry>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Headers;

    fn merged(&self, child: &Config) -> Config {
        Config {
            request: [self.request.as_slice(), &child.request].concat(),
            onsuccess: [self.onsuccess.as_slice(), &child.onsuccess].concat(),
            always: [self.always.as_slice(), &child.always].concat(),
        }
    }

    fn is_constant(&self) -> bool {
        let is_constant = |entry: &Entry| {
            let is_text = match &entry.value {
                Value::Format(pieces) => {
                    pieces.iter().all(|piece| matches!(piece, Piece::Constant(_)))
                }
                Value::Expression(_) => false,
            };
            is_text
                && matches!(entry.when, When::Always | When::Never)
                && !matches!(entry.action, Action::Echo(_))
        };
        self.request.is_empty() && self.onsuccess.iter().chain(&self.always).all(is_constant)
    }
}

impl Config {
    /// Returns true if a condition of a response may take a sub-request.
    pub(crate) fn looks_up(&self) -> bool {
        let condition = |entry: &Entry| matches!(&entry.when, When::Expression(condition) if condition.expr().looks_up());
        self.onsuccess.iter().chain(&self.always).any(condition)
    }

    /// Returns true if no header field of a response can change.
    pub fn is_empty_for_responses(&self) -> bool {
        self.onsuccess.is_empty() && self.always.is_empty()
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "Header",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: "an optional condition, an action, header and value followed by optional env clause",
        apply: header,
    },
    Directive {
        name: "RequestHeader",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: "an action, header and value followed by optional env clause",
        apply: request_header,
    },
];

/// Applies `RequestHeader`: the last of the fixups.
pub fn request(record: &mut Record, world: &dyn World, services: &dyn Services) {
    let config = record.config.clone();
    apply_all(&config.of::<Config>().request, Target::Request, record, world, services);
}

/// Applies `Header always` and `Header` to a response.
pub fn response(record: &mut Record, world: &dyn World, services: &dyn Services) {
    let config = record.config.clone();
    apply_all(&config.of::<Config>().always, Target::Always, record, world, services);
    apply_all(&config.of::<Config>().onsuccess, Target::Response, record, world, services);
}

/// Applies `Header always` to an answer of the server's own.
pub fn error_response(record: &mut Record, world: &dyn World, services: &dyn Services) {
    let config = record.config.clone();
    apply_all(&config.of::<Config>().always, Target::Always, record, world, services);
}

#[derive(Debug, Clone)]
struct Entry {
    action: Action,
    /// Name of the header field; for `echo` the source of its pattern.
    name: Vec<u8>,
    value: Value,
    when: When,
}

#[derive(Debug, Clone)]
enum Action {
    Add,
    Append,
    Echo(Pattern),
    Edit(Pattern),
    EditAll(Pattern),
    Merge,
    Note,
    Set,
    SetIfEmpty,
    Unset,
}

#[derive(Debug, Clone)]
enum Value {
    Format(Vec<Piece>),
    Expression(Text),
}

#[derive(Debug, Clone)]
enum Piece {
    Constant(Vec<u8>),
    Duration,
    Time,
    Load,
    Idle,
    Busy,
    Environment(Vec<u8>),
    Tls(Vec<u8>),
}

#[derive(Debug, Clone)]
enum When {
    Always,
    /// `early`: without effect in a `.htaccess`.
    Never,
    Environment {
        name: Vec<u8>,
        is_negated: bool,
    },
    Expression(Condition),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Request,
    Response,
    Always,
}

fn header(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let mut line = *arguments.first().unwrap_or(&&b""[..]);
    let mut action = word(&mut line);
    let mut target = Target::Response;
    if action.eq_ignore_ascii_case(b"always") {
        target = Target::Always;
        action = word(&mut line);
    } else if action.eq_ignore_ascii_case(b"onsuccess") {
        action = word(&mut line);
    }
    let entry = parse(&action, line, target, "Header")?;
    match target {
        Target::Always => config.of_mut::<Config>().always.push(entry),
        _ => config.of_mut::<Config>().onsuccess.push(entry),
    }
    Ok(())
}

fn request_header(
    config: &mut DirConfig,
    _: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    let mut line = *arguments.first().unwrap_or(&&b""[..]);
    let action = word(&mut line);
    config.of_mut::<Config>().request.push(parse(&action, line, Target::Request, "RequestHeader")?);
    Ok(())
}

fn parse(action: &[u8], mut line: &[u8], target: Target, directive: &str) -> Result<Entry, String> {
    let name = word(&mut line);
    let mut next = || (!line.is_empty()).then(|| word(&mut line));
    let (value, substitution, clause) = (next(), next(), next());
    if !line.is_empty() {
        return Err(format!("{directive} has too many arguments"));
    }
    let kind = action.to_ascii_lowercase();
    let (action, format, clause) = match kind.as_slice() {
        b"edit" | b"edit*" => {
            let Some(substitution) = substitution else {
                return Err("Header edit requires a match and a substitution".into());
            };
            let pattern = Pattern::new(&value.unwrap_or_default(), false)
                .map_err(|_| "Header edit regex could not be compiled")?;
            let action =
                if kind == b"edit" { Action::Edit(pattern) } else { Action::EditAll(pattern) };
            (action, Some(substitution), clause)
        }
        b"set" | b"setifempty" | b"add" | b"append" | b"merge" | b"note" | b"unset" | b"echo" => {
            if clause.is_some() {
                return Err("Too many arguments to directive".into());
            }
            let clause = substitution;
            match kind.as_slice() {
                b"unset" => {
                    if value.is_some() && clause.is_some() {
                        return Err("header unset takes two arguments".into());
                    }
                    (Action::Unset, None, value.or(clause))
                }
                b"echo" => {
                    if value.is_some() && clause.is_some() {
                        return Err("Header echo takes two arguments".into());
                    }
                    if target == Target::Request {
                        return Err("Header echo only valid on Header directives".into());
                    }
                    let pattern = Pattern::new(&name, false)
                        .map_err(|_| "Header echo regex could not be compiled")?;
                    (Action::Echo(pattern), None, value.or(clause))
                }
                _ => {
                    let Some(value) = value else {
                        return Err("Header requires three arguments".into());
                    };
                    if target == Target::Request && kind == b"note" {
                        return Err("Header note only valid on Header directives".into());
                    }
                    let action = match kind.as_slice() {
                        b"set" => Action::Set,
                        b"setifempty" => Action::SetIfEmpty,
                        b"add" => Action::Add,
                        b"append" => Action::Append,
                        b"merge" => Action::Merge,
                        _ => Action::Note,
                    };
                    (action, Some(value), clause)
                }
            }
        }
        _ => {
            return Err(
                "first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', \
                        'echo', 'note', 'edit', or 'edit*'."
                    .into(),
            );
        }
    };
    let when = match clause {
        Some(clause) => parse_clause(&clause)?,
        None => When::Always,
    };
    let end = name.iter().position(|&byte| byte == b':').unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default().to_vec();
    let value = parse_value(&format.unwrap_or_default())?;
    Ok(Entry { action, name, value, when })
}

fn parse_clause(clause: &[u8]) -> Result<When, String> {
    if clause.eq_ignore_ascii_case(b"early") {
        return Ok(When::Never);
    }
    let rest = |length: usize| clause.get(length..).unwrap_or_default();
    if crate::support::has_prefix(clause, b"env=") {
        let (name, is_negated) = match rest(4).strip_prefix(b"!") {
            Some(name) => (name, true),
            None => (rest(4), false),
        };
        if name.is_empty() {
            let message = "error: missing environment variable name. envclause should be in the \
                           form env=envar ";
            return Err(message.into());
        }
        return Ok(When::Environment { name: name.to_vec(), is_negated });
    }
    if crate::support::has_prefix(clause, b"expr=") {
        let condition = Condition::parse(rest(5));
        return condition
            .map(When::Expression)
            .map_err(|error| format!("Can't parse envclause/expression: {error}"));
    }
    Err(format!("Unknown parameter: {}", lossy(clause)))
}

fn parse_value(text: &[u8]) -> Result<Value, String> {
    if let Some(expression) = text.strip_prefix(b"expr=") {
        let text = Text::parse(expression);
        return text
            .map(Value::Expression)
            .map_err(|error| format!("Can't parse value expression : {error}"));
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if rest.first() != Some(&b'%') {
            let end = rest.iter().position(|&byte| byte == b'%').unwrap_or(rest.len());
            let (constant, after) = rest.split_at(end);
            pieces.push(Piece::Constant(unescaped(constant)));
            rest = after;
            continue;
        }
        rest = rest.get(1..).unwrap_or_default();
        if matches!(rest.first(), None | Some(b'%')) {
            pieces.push(Piece::Constant(b"%".to_vec()));
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let mut argument: &[u8] = b"";
        if let Some(body) = rest.strip_prefix(b"{") {
            let end = body.iter().position(|&byte| byte == b'}').unwrap_or(body.len());
            argument = body.get(..end).unwrap_or_default();
            rest = body.get(end + 1..).unwrap_or_default();
        }
        let Some((&kind, after)) = rest.split_first() else {
            return Err("Unrecognized header format %".into());
        };
        pieces.push(match kind {
            b't' => Piece::Time,
            b'D' => Piece::Duration,
            b'l' => Piece::Load,
            b'i' => Piece::Idle,
            b'b' => Piece::Busy,
            b'e' => Piece::Environment(argument.to_vec()),
            b's' => Piece::Tls(argument.to_vec()),
            _ => return Err(format!("Unrecognized header format %{}", lossy(&[kind]))),
        });
        rest = after;
    }
    Ok(Value::Format(pieces))
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut constant = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = match (byte, bytes.peek()) {
            (b'\\', Some(b'\\')) => Some(b'\\'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b't')) => Some(b'\t'),
            _ => None,
        };
        if escaped.is_some() {
            bytes.next();
        }
        constant.push(escaped.unwrap_or(byte));
    }
    constant
}

impl Value {
    fn of(&self, record: &Record, world: &dyn World, services: &dyn Services) -> Vec<u8> {
        let pieces = match self {
            Value::Format(pieces) => pieces,
            Value::Expression(text) => {
                return services.text(record, text).unwrap_or_else(|error| {
                    world.log(Level::Error, &format!("Can't evaluate value expression: {error}"));
                    Vec::new()
                });
            }
        };
        let mut value = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Constant(text) => value.extend_from_slice(text),
                Piece::Duration => {
                    value.extend_from_slice(format!("D={}", services.elapsed(record)).as_bytes());
                }
                Piece::Time => {
                    let (seconds, micros) = record.connection.time;
                    let time = i128::from(seconds) * 1_000_000 + i128::from(micros);
                    value.extend_from_slice(format!("t={time}").as_bytes());
                }
                Piece::Load => {
                    let [one, five, fifteen] = services.load_average();
                    value
                        .extend_from_slice(format!("l={one:.2}/{five:.2}/{fifteen:.2}").as_bytes());
                }
                Piece::Idle => {
                    value.extend_from_slice(format!("i={}", services.workers().0).as_bytes())
                }
                Piece::Busy => {
                    value.extend_from_slice(format!("b={}", services.workers().1).as_bytes())
                }
                Piece::Environment(name) => match record.env.get(name) {
                    Some(text) => value.extend(text.iter().map(unwrapped)),
                    None => value.extend_from_slice(b"(null)"),
                },
                Piece::Tls(name) => match services.tls_variable(record, name) {
                    Some(text) if !text.is_empty() => value.extend(text.iter().map(unwrapped)),
                    _ => value.extend_from_slice(b"(null)"),
                },
            }
        }
        value
    }
}

/// Line ends would begin a further header field.
fn unwrapped(byte: &u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }
}

impl When {
    fn holds(&self, record: &Record, world: &dyn World, services: &dyn Services) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Environment { name, is_negated } => record.env.get(name).is_some() != *is_negated,
            When::Expression(condition) => {
                services.holds(record, condition).unwrap_or_else(|error| {
                    world.log(
                        Level::Error,
                        &format!("Failed to evaluate expression ({error}) - ignoring"),
                    );
                    true
                })
            }
        }
    }
}

fn table(record: &mut Record, target: Target) -> &mut Table {
    match target {
        Target::Request => &mut record.headers_in,
        Target::Response => &mut record.headers_out,
        Target::Always => &mut record.err_headers_out,
    }
}

fn apply_all(
    entries: &[Entry],
    target: Target,
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) {
    for entry in entries {
        if !entry.when.holds(record, world, services) {
            continue;
        }
        if work::must_stop() || apply(entry, target, record, world, services).is_none() {
            // As Apache: a replacement that is too long ends the whole list.
            return;
        }
    }
}

fn apply(
    entry: &Entry,
    target: Target,
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) -> Option<()> {
    let name = entry.name.as_slice();
    let is_content_type = target != Target::Request && name.eq_ignore_ascii_case(b"Content-Type");
    match &entry.action {
        Action::Add => {
            let value = entry.value.of(record, world, services);
            table(record, target).add(name, value);
        }
        Action::Append => {
            let value = entry.value.of(record, world, services);
            merge(table(record, target), name, &value);
        }
        Action::Merge => {
            let value = entry.value.of(record, world, services);
            let table = table(record, target);
            if !table.get(name).is_some_and(|list| has_element(list, &value)) {
                merge(table, name, &value);
            }
        }
        Action::SetIfEmpty if table(record, target).get(name).is_some() => {}
        Action::Set | Action::SetIfEmpty => {
            let value = entry.value.of(record, world, services);
            if is_content_type {
                record.content_type = Some(value.clone());
            }
            table(record, target).set(name, value);
        }
        Action::Unset => {
            table(record, target).unset(name);
            if is_content_type {
                record.content_type = None;
            }
        }
        Action::Echo(pattern) => {
            let fields = record.headers_in.iter();
            let echoed: Vec<_> = fields
                .filter(|(name, _)| pattern.is_match(name).unwrap_or(false))
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect();
            // Apache echoes into this table for `always`, too.
            for (name, value) in echoed {
                record.headers_out.add(name, value);
            }
        }
        Action::Edit(pattern) | Action::EditAll(pattern) => {
            let edit_all = matches!(entry.action, Action::EditAll(_));
            let template = entry.value.of(record, world, services);
            if name.eq_ignore_ascii_case(b"Content-Type")
                && let Some(content_type) = &record.content_type
            {
                let edited = edited(pattern, content_type, &template, edit_all).ok()?;
                if is_content_type {
                    record.content_type = Some(edited);
                }
            }
            let table = table(record, target);
            let mut all = Vec::new();
            for (field, value) in table.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name))
            {
                all.push((field.to_vec(), edited(pattern, value, &template, edit_all).ok()?));
            }
            if !all.is_empty() {
                table.unset(name);
                all.into_iter().for_each(|(field, value)| table.add(field, value));
            }
        }
        Action::Note => {
            let note = entry.value.of(record, world, services);
            if let Some(value) = table(record, target).get(name).map(<[u8]>::to_vec) {
                record.notes.set(note, value);
            }
        }
    }
    Some(())
}

/// Returns true if a list of elements with commas has the element; commas in quotes do not count.
fn has_element(list: &[u8], element: &[u8]) -> bool {
    let mut rest = list;
    while !rest.is_empty() {
        rest = crate::support::skip_space(rest);
        let (mut end, mut is_quoted) = (0, false);
        while let Some(&byte) = rest.get(end) {
            if byte == b',' && !is_quoted {
                break;
            }
            is_quoted ^= byte == b'"';
            end += 1;
        }
        if rest.get(..end) == Some(element) {
            return true;
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    false
}

/// Replaces the first match, or one after the other, each search in the rest of the value.
fn edited(
    pattern: &Pattern,
    value: &[u8],
    template: &[u8],
    all: bool,
) -> Result<Vec<u8>, TooMuchWork> {
    let (mut text, mut rest) = (Vec::new(), value);
    while let Some(groups) = pattern.groups(rest)? {
        let Some((start, end)) = groups.first().copied().flatten() else { break };
        text.extend_from_slice(rest.get(..start).unwrap_or_default());
        text.extend_from_slice(&replaced(template, rest, &groups).ok_or(TooMuchWork)?);
        rest = rest.get(end..).unwrap_or_default();
        if text.len() > MAX_VALUE_BYTES {
            return Err(TooMuchWork);
        }
        if !all || rest.is_empty() {
            break;
        }
        if start == end {
            // An empty match consumes a byte, so that the search continues.
            let (byte, after) = rest.split_at(1);
            text.extend_from_slice(byte);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    text.extend_from_slice(rest);
    Ok(text)
}

#[cfg(test)]
mod tests;
