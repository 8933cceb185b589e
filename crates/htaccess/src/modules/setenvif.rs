//! `mod_setenvif`: `SetEnvIf`, `BrowserMatch`, `SetEnvIfExpr`.

use memchr::memmem::Finder;

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::pattern::{Condition, Groups, Pattern, replaced};
use crate::modules::services::Services;
use crate::record::Record;
use crate::support::{lossy, word};
use crate::table::Table;
use crate::world::{Level, World};

/// Rules in the order in which they are applied.
#[derive(Debug, Clone, Default)]
pub struct Config {
    rules: Vec<Rule>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Setenvif;

    fn merged(&self, child: &Config) -> Config {
        Config { rules: [self.rules.as_slice(), &child.rules].concat() }
    }

    fn is_constant(&self) -> bool {
        let is_harmless = |name: &[u8]| HARMLESS.iter().any(|known| known.as_bytes() == name);
        self.rules.iter().all(|rule| rule.variables.iter().all(|(name, _)| is_harmless(name)))
    }
}

/// Variables of Debian's configuration without an effect on a file.
const HARMLESS: [&str; 4] =
    ["nokeepalive", "downgrade-1.0", "force-response-1.0", "redirect-carefully"];

const USAGE: &str = "a header-name, regex and a list of variables.";
const BROWSER_USAGE: &str = "A browser regex and a list of variables.";

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "SetEnvIf",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: "A header-name, regex and a list of variables.",
        apply: |config, _, arguments| set_env_if(config, arguments, "SetEnvIf", false),
    },
    Directive {
        name: "SetEnvIfNoCase",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: USAGE,
        apply: |config, _, arguments| set_env_if(config, arguments, "SetEnvIfNoCase", true),
    },
    Directive {
        name: "SetEnvIfExpr",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: "an expression and a list of variables.",
        apply: set_env_if_expr,
    },
    Directive {
        name: "BrowserMatch",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: BROWSER_USAGE,
        apply: |config, _, arguments| {
            add(config, b"User-Agent", line(arguments), "BrowserMatch", false)
        },
    },
    Directive {
        name: "BrowserMatchNoCase",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: BROWSER_USAGE,
        apply: |config, _, arguments| {
            add(config, b"User-Agent", line(arguments), "BrowserMatchNoCase", true)
        },
    },
];

/// Sets the variables of rules of directories that match: the header-parser phase, after the
/// directories and before access. The error is the status of the answer.
pub fn header_parser(
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) -> Result<(), u16> {
    let config = record.config.clone();
    set_variables(config.of::<Config>(), record, world, services)
}

/// Sets the variables of rules that match; those of the server come before all phases. The error is
/// the status of the answer.
pub(crate) fn set_variables(
    config: &Config,
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) -> Result<(), u16> {
    // As Apache: an expression without a match of its own refers to the groups of the match before.
    let mut last: Option<(Vec<u8>, Option<Groups>)> = None;
    for rule in &config.rules {
        let Some(mut matched) = rule.matched(record, world, services) else { continue };
        if matched.1.is_some() {
            last = Some(matched.clone());
        } else if matches!(rule.test, Test::Expression(_))
            && let Some(before) = &last
        {
            matched = before.clone();
        }
        let (subject, groups) = matched;
        for (name, value) in rule.variables.iter() {
            if value.first() == Some(&b'!') {
                record.env.unset(name);
                continue;
            }
            let value = match &groups {
                Some(groups) => replaced(value, &subject, groups),
                None => Some(value.to_vec()),
            };
            let Some(value) = value else {
                let name = lossy(name);
                let message =
                    format!("Regular expression replacement failed for '{name}', value too long?");
                world.log(Level::Error, &message);
                return Err(500);
            };
            record.env.set(name, value);
        }
    }
    Ok(())
}

#[derive(Debug, Clone)]
struct Rule {
    subject: Subject,
    test: Test,
    /// Identity of a directive, which continues the one before if that has the same: name, pattern
    /// and case.
    identity: (Vec<u8>, Vec<u8>, bool),
    variables: Table,
}

#[derive(Debug, Clone)]
enum Subject {
    Header(Vec<u8>),
    /// Header fields whose names match; the last one counts.
    HeaderPattern(Pattern),
    RemoteAddr,
    RemoteHost,
    RequestMethod,
    RequestProtocol,
    RequestUri,
    ServerAddr,
    /// The rule is an expression.
    None,
}

#[derive(Debug, Clone)]
enum Test {
    /// Text without special characters: no replacements in values.
    Contains(Box<Finder<'static>>, bool),
    Matches(Pattern),
    Expression(Condition),
}

impl Rule {
    /// Returns the subject, and the groups of the match if values have replacements.
    fn matched(
        &self,
        record: &Record,
        world: &dyn World,
        services: &dyn Services,
    ) -> Option<(Vec<u8>, Option<Groups>)> {
        if let Test::Expression(condition) = &self.test {
            let found = services.groups(record, condition);
            let groups = found.unwrap_or_else(|error| {
                world.log(Level::Error, &format!("SetEnvIfExpr: {error}"));
                None
            })?;
            if groups.is_empty() {
                return Some((Vec::new(), None));
            }
            let (mut subject, mut ranges) = (Vec::new(), Groups::new());
            for group in groups {
                let start = subject.len();
                subject.extend_from_slice(&group);
                ranges.push(Some((start, subject.len())));
            }
            return Some((subject, Some(ranges)));
        }
        let subject = self.subject.of(record);
        match &self.test {
            Test::Contains(text, ignore_case) => {
                let is_found = if *ignore_case {
                    text.find(&subject.to_ascii_lowercase()).is_some()
                } else {
                    text.find(subject).is_some()
                };
                is_found.then(|| (subject.to_vec(), None))
            }
            Test::Matches(pattern) => {
                let groups = pattern.groups(subject).ok().flatten()?;
                Some((subject.to_vec(), Some(groups)))
            }
            Test::Expression(_) => None,
        }
    }
}

impl Subject {
    fn new(name: &[u8], ignore_case: bool) -> Result<Subject, &'static str> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        Ok(match name.to_ascii_lowercase().as_slice() {
            b"remote_addr" => Subject::RemoteAddr,
            b"remote_host" => Subject::RemoteHost,
            b"request_uri" => Subject::RequestUri,
            b"request_method" => Subject::RequestMethod,
            b"request_protocol" => Subject::RequestProtocol,
            b"server_addr" => Subject::ServerAddr,
            _ if name.iter().all(is_plain) => Subject::Header(name.to_vec()),
            _ => Subject::HeaderPattern(
                Pattern::new(name, ignore_case)
                    .map_err(|_| "Header name regex could not be compiled.")?,
            ),
        })
    }

    fn of<'r>(&'r self, record: &'r Record) -> &'r [u8] {
        let found = match self {
            Subject::Header(name) => record.headers_in.get(name).or_else(|| record.env.get(name)),
            Subject::HeaderPattern(pattern) => {
                let fields = record.headers_in.iter();
                let named = fields.filter(|(name, _)| pattern.is_match(name).unwrap_or(false));
                named.last().map(|(_, value)| value)
            }
            // Without look-ups the host is the address, as with Apache's `HostnameLookups Off`.
            Subject::RemoteAddr | Subject::RemoteHost => {
                Some(record.connection.remote_addr.as_slice())
            }
            Subject::RequestMethod => Some(record.method.as_slice()),
            Subject::RequestProtocol => Some(record.protocol.as_slice()),
            Subject::RequestUri => Some(record.uri.as_slice()),
            Subject::ServerAddr => Some(record.connection.server_addr.as_slice()),
            Subject::None => None,
        };
        found.unwrap_or_default()
    }
}

fn line<'a>(arguments: &[&'a [u8]]) -> &'a [u8] {
    arguments.first().copied().unwrap_or_default()
}

fn set_env_if(
    config: &mut DirConfig,
    arguments: &[&[u8]],
    directive: &str,
    ignore_case: bool,
) -> Result<(), String> {
    let mut line = line(arguments);
    let name = word(&mut line);
    if name.is_empty() {
        return Err(format!("Missing header-field name for {directive}"));
    }
    add(config, &name, line, directive, ignore_case)
}

fn add(
    config: &mut DirConfig,
    name: &[u8],
    mut line: &[u8],
    directive: &str,
    ignore_case: bool,
) -> Result<(), String> {
    let pattern = word(&mut line);
    if pattern.is_empty() {
        return Err(format!("Missing regular expression for {directive}"));
    }
    let rules = &mut config.of_mut::<Config>().rules;
    let identity = (name.to_ascii_lowercase(), pattern.clone(), ignore_case);
    // As Apache: a rule like the one before adds to its variables.
    if let Some(last) = rules.last_mut()
        && last.identity == identity
    {
        return variables(&mut last.variables, line, directive);
    }
    let test = match without_special(&pattern) {
        Some(text) => {
            let text = if ignore_case { text.to_ascii_lowercase() } else { text };
            Test::Contains(Box::new(Finder::new(&text).into_owned()), ignore_case)
        }
        None => Test::Matches(
            Pattern::new(&pattern, ignore_case)
                .map_err(|_| format!("{directive} regex could not be compiled."))?,
        ),
    };
    let subject = Subject::new(name, ignore_case).map_err(|error| format!("{directive}{error}"))?;
    let mut rule = Rule { subject, test, identity, variables: Table::default() };
    variables(&mut rule.variables, line, directive)?;
    rules.push(rule);
    Ok(())
}

fn set_env_if_expr(
    config: &mut DirConfig,
    _: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    let mut line = line(arguments);
    let text = word(&mut line);
    if text.is_empty() {
        return Err("Missing expression for SetEnvIfExpr".into());
    }
    let condition = Condition::parse(&text)
        .map_err(|error| format!("Could not parse expression \"{}\": {error}", lossy(&text)))?;
    let mut rule = Rule {
        subject: Subject::None,
        test: Test::Expression(condition),
        identity: (Vec::new(), Vec::new(), false),
        variables: Table::default(),
    };
    variables(&mut rule.variables, line, "SetEnvIfExpr")?;
    config.of_mut::<Config>().rules.push(rule);
    Ok(())
}

fn variables(table: &mut Table, mut line: &[u8], directive: &str) -> Result<(), String> {
    let mut is_empty = true;
    loop {
        let feature = word(&mut line);
        if feature.is_empty() {
            break;
        }
        is_empty = false;
        let equals = feature.iter().position(|&byte| byte == b'=');
        let (name, value) = feature.split_at(equals.unwrap_or(feature.len()));
        // `ap_getword` swallows several equal signs.
        let start = value.iter().position(|&byte| byte != b'=').unwrap_or(value.len());
        let value = value.get(start..).unwrap_or_default();
        match name.strip_prefix(b"!") {
            _ if !value.is_empty() => table.set(name, value),
            Some(name) => table.set(name, "!"),
            None => table.set(name, "1"),
        }
    }
    if is_empty { Err(format!("Missing envariable expression for {directive}")) } else { Ok(()) }
}

/// Returns the text of a pattern without special characters, its escapes resolved.
fn without_special(pattern: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter().copied();
    while let Some(byte) = bytes.next() {
        let is_special = |byte: u8| b"^.$|()[]*+?{}".contains(&byte);
        match byte {
            b'\\' => text.push(bytes.next().filter(|&next| next == b'\\' || is_special(next))?),
            _ if is_special(byte) => return None,
            _ => text.push(byte),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::{Stub, apply, record};

    fn environment(lines: &[&str]) -> String {
        let mut record = record(apply(DIRECTIVES, lines).unwrap());
        record.uri = b"/a/b.gif".to_vec();
        record.method = b"GET".to_vec();
        record.headers_in.set("User-Agent", "Mozilla/5.0 (X11)");
        record.headers_in.set("X-One", "first");
        record.headers_in.set("X-Two", "second");
        header_parser(&mut record, &Stub::default(), &Stub::default()).unwrap();
        let all =
            record.env.iter().map(|(name, value)| format!("{}={} ", lossy(name), lossy(value)));
        all.collect()
    }

    #[test]
    fn variables_are_set_replaced_and_removed() {
        for (lines, expected) in [
            (vec!["SetEnvIf Request_URI \\.gif$ image"], "image=1 "),
            (vec!["SetEnvIf Request_URI ^/(.)/(.*)$ d=$1 \"f=$2 \\$1\""], "d=a f=b.gif $1 "),
            (vec!["SetEnvIf Request_URI /a/ plain=$0"], "plain=$0 "),
            (vec!["SetEnvIf Request_Method GET a b", "SetEnvIf request_method GET !a"], "b=1 "),
            (vec!["BrowserMatch mozilla a", "BrowserMatchNoCase mozilla b"], "b=1 "),
            (vec!["SetEnvIf ^X- (.*) last=$1"], "last=second "),
            (vec!["SetEnvIf Missing ^$ none"], "none=1 "),
            (vec!["SetEnvIf X-One first a=1", "SetEnvIf a 1 b"], "a=1 b=1 "),
        ] {
            assert_eq!(environment(&lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn errors_are_those_of_apache() {
        for (line, expected) in [
            ("SetEnvIf", "Missing header-field name for SetEnvIf"),
            ("SetEnvIf A", "Missing regular expression for SetEnvIf"),
            ("SetEnvIf A b", "Missing envariable expression for SetEnvIf"),
            ("BrowserMatch ( a", "BrowserMatch regex could not be compiled."),
            // Apache forgets the space.
            ("SetEnvIf ( a b", "SetEnvIfHeader name regex could not be compiled."),
            ("SetEnvIfExpr", "Missing expression for SetEnvIfExpr"),
        ] {
            assert_eq!(apply(DIRECTIVES, &[line]).unwrap_err(), expected, "{line}");
        }
    }
}
