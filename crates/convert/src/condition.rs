//! `RewriteCond`: conditions of a rule, as conditions of a step.

use std::net::IpAddr;

use crate::matching::Match;
use crate::pcre::Pattern;

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It holds for all requests, or for none.
    Constant(bool),
    /// It asks for a file.
    File(FileTest),
    /// One of these has to hold.
    Matches(Vec<Match>),
}

/// `-f` and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTest {
    /// Letter of the test.
    pub kind: char,
    /// There must be no such file.
    pub is_negated: bool,
    /// The file is that of the request (`%{REQUEST_FILENAME}`).
    pub is_of_request: bool,
    /// The file is one that belongs to that of the request: in a cache, or with another suffix.
    pub is_beside: bool,
}

/// What `%1` stands for after a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Captures {
    /// Nothing is known.
    Unknown,
    /// Groups of a pattern on the host.
    Host(Pattern),
    /// Groups of a pattern on the path of the URL.
    Path,
}

/// A `RewriteCond` that routes can express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The condition.
    pub condition: Condition,
    /// What its groups capture.
    pub captures: Captures,
    /// The flag `OR`.
    pub is_or: bool,
    /// It captures the path in front of the directory for `[E=BASE:%1]`, as in the rules of many frameworks.
    pub is_base: bool,
}

/// Returns the flag `OR` of a condition, which counts even if the rest cannot be translated.
pub fn is_or(words: &[String]) -> bool {
    flags(words).iter().any(|flag| flag == "or" || flag == "ornext")
}

fn flags(words: &[String]) -> Vec<String> {
    let text = words.get(2).map(String::as_str).unwrap_or_default();
    let text = text.trim_start_matches('[').trim_end_matches(']');
    text.split(',').map(|flag| flag.trim().to_ascii_lowercase()).collect()
}

/// Translates the words of a `RewriteCond`.
///
/// # Errors
///
/// The reason why routes cannot express it.
pub fn parse(words: &[String]) -> Result<Parsed, String> {
    let [subject, pattern, ..] = words else { return Err("it has no pattern".to_owned()) };
    let flags = flags(words);
    let has = |names: [&str; 2]| flags.iter().any(|flag| names.contains(&flag.as_str()));
    if subject == "%{REQUEST_URI}::$0" && pattern == "^(/.+)/(.*)::\\2$" {
        return Ok(Parsed {
            condition: Condition::Constant(true),
            captures: Captures::Unknown,
            is_or: false,
            is_base: true,
        });
    }
    let test = Test::parse(pattern, has(["nc", "nocase"]))?;
    let (condition, captures) = condition(subject, &test)?;
    Ok(Parsed { condition, captures, is_or: is_or(words), is_base: false })
}

/// What a condition asks of its subject.
struct Test {
    kind: TestKind,
    is_negated: bool,
}

enum TestKind {
    Pattern(Pattern),
    Equals(String),
    File(char),
}

impl Test {
    fn parse(pattern: &str, ignores_case: bool) -> Result<Test, String> {
        let (is_negated, text) = match pattern.strip_prefix('!') {
            Some(text) => (true, text),
            None => (false, pattern),
        };
        let kind = match text.strip_prefix('-') {
            Some(letter) if letter.chars().count() == 1 && "dfFlLhsUx".contains(letter) => {
                TestKind::File(letter.chars().next().unwrap_or_default())
            }
            Some("eq" | "ne" | "lt" | "le" | "gt" | "ge") => {
                return Err("numbers cannot be compared in routes".to_owned());
            }
            _ if text.starts_with(['<', '>']) => {
                return Err("texts cannot be compared by their order in routes".to_owned());
            }
            _ => match text.strip_prefix('=') {
                Some(text) if !ignores_case || !text.chars().any(|c| c.is_ascii_alphabetic()) => {
                    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                    TestKind::Equals(quoted.unwrap_or(text).to_owned())
                }
                Some(_) => return Err("texts are compared without case".to_owned()),
                None => {
                    let pattern = Pattern::parse(text)?;
                    TestKind::Pattern(match ignores_case {
                        true => pattern.without_case(),
                        false => pattern,
                    })
                }
            },
        };
        Ok(Test { kind, is_negated })
    }

    /// Returns whether a known text passes.
    fn passes(&self, text: &str) -> bool {
        let passes = match &self.kind {
            TestKind::Pattern(pattern) => pattern.matches(text),
            TestKind::Equals(expected) => expected == text,
            TestKind::File(_) => false,
        };
        passes != self.is_negated
    }

    /// Returns the pattern of a route, with its `!`. `keeps_case` is for subjects that routes compare without case.
    fn route(&self, keeps_case: bool) -> String {
        let text = match &self.kind {
            TestKind::Pattern(pattern) => {
                let text = pattern.search();
                match keeps_case && !pattern.ignores_case {
                    true => format!("~(?-i){text}"),
                    false => format!("~{text}"),
                }
            }
            TestKind::Equals(text) => format!("~^{}$", crate::pcre::escape(text.as_bytes())),
            TestKind::File(_) => String::new(),
        };
        if self.is_negated { format!("!{text}") } else { text }
    }

    fn captures(&self, captures: impl FnOnce(&Pattern) -> Captures) -> Captures {
        match &self.kind {
            TestKind::Pattern(pattern) if !self.is_negated => captures(pattern),
            _ => Captures::Unknown,
        }
    }
}

fn condition(subject: &str, test: &Test) -> Result<(Condition, Captures), String> {
    if let TestKind::File(kind) = test.kind {
        let is_of_request = matches!(
            subject,
            "%{REQUEST_FILENAME}"
                | "%{SCRIPT_FILENAME}"
                | "%{DOCUMENT_ROOT}%{REQUEST_URI}"
                | "%{DOCUMENT_ROOT}/%{REQUEST_URI}"
        );
        let is_file = subject.starts_with("%{REQUEST_FILENAME}")
            || subject.starts_with("%{SCRIPT_FILENAME}")
            || subject.contains('/');
        let has_path = ["%{REQUEST_", "%{SCRIPT_", "$"].iter().any(|name| subject.contains(name));
        let is_beside = is_file && has_path;
        let file = FileTest { kind, is_negated: test.is_negated, is_of_request, is_beside };
        return Ok((Condition::File(file), Captures::Unknown));
    }
    let name = subject.strip_prefix("%{").and_then(|name| name.strip_suffix('}'));
    let name = name.filter(|name| !name.contains(['%', '{', '$']));
    let Some(name) = name else {
        return Err(format!("routes cannot test \"{subject}\""));
    };
    let one = |matching: Match| Condition::Matches(vec![matching]);
    let list = |keeps_case| vec![test.route(keeps_case)];
    let unknown = |condition| Ok((condition, Captures::Unknown));
    match name {
        "HTTPS" | "ENV:HTTPS" => unknown(by_scheme(test, "on", &["off", ""])),
        "REQUEST_SCHEME" => unknown(by_scheme(test, "https", &["http"])),
        "SERVER_PORT" | "SERVER_PORT_SECURE" => unknown(by_scheme(test, "443", &["80"])),
        "ENV:REDIRECT_STATUS" if test.passes("") && !test.passes("200") => {
            unknown(one(Match { is_first_round: true, ..Match::default() }))
        }
        "IS_SUBREQ" => unknown(Condition::Constant(test.passes("false"))),
        "REQUEST_METHOD" => unknown(one(Match { method: list(false), ..Match::default() })),
        "HTTP_HOST" | "SERVER_NAME" | "HTTP:Host" => {
            let condition = one(Match { host: list(false), ..Match::default() });
            Ok((condition, test.captures(|pattern| Captures::Host(pattern.clone()))))
        }
        "REQUEST_URI" => {
            let condition = one(Match { uri: list(false), ..Match::default() });
            Ok((condition, test.captures(|_| Captures::Path)))
        }
        "REQUEST_FILENAME" | "SCRIPT_FILENAME" => {
            // The end of a file's name is that of the path.
            match &test.kind {
                TestKind::Pattern(pattern) if !pattern.asks_for_start() => {
                    unknown(one(Match { uri: list(false), ..Match::default() }))
                }
                _ => Err(format!("routes do not know %{{{name}}}")),
            }
        }
        "QUERY_STRING" => unknown(query(test)?),
        "REMOTE_ADDR" => unknown(by_address(test)?),
        "HTTP_USER_AGENT" => unknown(by_field("User-Agent", test)),
        "HTTP_REFERER" => unknown(by_field("Referer", test)),
        "HTTP_COOKIE" => unknown(by_field("Cookie", test)),
        "HTTP_ACCEPT" => unknown(by_field("Accept", test)),
        "HTTP_FORWARDED" => unknown(by_field("Forwarded", test)),
        name => match name.strip_prefix("HTTP:") {
            Some(field) if is_token(field) => unknown(by_field(field, test)),
            _ => Err(format!("routes do not know %{{{name}}}")),
        },
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A variable that has one value with TLS and others without.
fn by_scheme(test: &Test, with: &str, without: &[&str]) -> Condition {
    let plain = without.iter().any(|text| test.passes(text));
    let scheme = match (test.passes(with), plain) {
        (true, true) => return Condition::Constant(true),
        (false, false) => return Condition::Constant(false),
        (true, false) => "https",
        (false, true) => "http",
    };
    Condition::Matches(vec![Match { scheme: Some(scheme), ..Match::default() }])
}

/// Routes compare the decoded query. A pattern is compared with the decoded text as well as with the encoded one
/// by adding the decoded form of each encoded character.
fn query(test: &Test) -> Result<Condition, String> {
    let mut text = test.route(false);
    if text.contains('%') {
        if test.is_negated {
            return Err(
                "its pattern has encoded characters, and routes decode the query".to_owned()
            );
        }
        text = with_decoded(&text);
        if regex::bytes::RegexBuilder::new(text.trim_start_matches('~'))
            .unicode(false)
            .build()
            .is_err()
        {
            return Err(
                "its pattern has encoded characters, and routes decode the query".to_owned()
            );
        }
    }
    Ok(Condition::Matches(vec![Match { query: vec![text], ..Match::default() }]))
}

fn with_decoded(text: &str) -> String {
    let mut decoded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        decoded.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits {
            Some(digits) => {
                decoded.push_str(&format!("(?:%{digits}|\\x{digits})"));
                rest = &rest[at + 3..];
            }
            None => {
                decoded.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    decoded + rest
}

/// A field that is missing is empty to Apache; routes compare only fields that are there.
fn by_field(name: &str, test: &Test) -> Condition {
    let variable = name.to_ascii_lowercase().replace('-', "_");
    let absent = Match { text: Some(format!("!$header_{variable}")), ..Match::default() };
    let there = (name.to_owned(), vec!["~(?s).".to_owned()]);
    let there = Match { headers: vec![there], ..Match::default() };
    let is_about_presence = match &test.kind {
        TestKind::Pattern(pattern) => matches!(pattern.search().as_str(), "^$"),
        TestKind::Equals(text) => text.is_empty(),
        TestKind::File(_) => false,
    };
    if is_about_presence {
        return Condition::Matches(vec![if test.is_negated { there } else { absent }]);
    }
    if let TestKind::Pattern(pattern) = &test.kind
        && (pattern.is_everything() || pattern.is_everything_inside())
    {
        return match (test.passes(""), test.is_negated) {
            // `.` or `!.`
            (false, false) => Condition::Matches(vec![there]),
            (true, true) => Condition::Matches(vec![absent]),
            (passes, _) => Condition::Constant(passes),
        };
    }
    let headers = vec![(name.to_owned(), vec![test.route(true)])];
    let mut alternatives = vec![Match { headers, ..Match::default() }];
    if test.passes("") {
        alternatives.push(absent);
    }
    Condition::Matches(alternatives)
}

/// Addresses that a pattern spells out: `^192\.0\.2\.7$`, `^10\.1\.`.
fn by_address(test: &Test) -> Result<Condition, String> {
    let source = match &test.kind {
        TestKind::Equals(text) => text.parse::<IpAddr>().ok().map(|address| address.to_string()),
        TestKind::Pattern(pattern) => address_of(&pattern.search()),
        TestKind::File(_) => None,
    };
    let Some(source) = source else {
        return Err("routes compare addresses by network, not by pattern".to_owned());
    };
    let source = if test.is_negated { format!("!{source}") } else { source };
    Ok(Condition::Matches(vec![Match { source: vec![source], ..Match::default() }]))
}

fn address_of(pattern: &str) -> Option<String> {
    let text = pattern.strip_prefix('^')?;
    let (text, is_whole) = match text.strip_suffix('$') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let text = text.replace("\\.", ".");
    if is_whole {
        return text.parse::<IpAddr>().ok().map(|address| address.to_string());
    }
    let parts: Vec<u8> =
        text.strip_suffix('.')?.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let bits = parts.len() * 8;
    let mut octets = parts;
    octets.resize(4, 0);
    let octets: Vec<String> = octets.iter().map(u8::to_string).collect();
    (bits < 32).then(|| format!("{}/{bits}", octets.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Condition, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(&words).map(|parsed| parsed.condition)
    }

    fn only(line: &str) -> Match {
        match parsed(line) {
            Ok(Condition::Matches(list)) if list.len() == 1 => list[0].clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn https_is_a_scheme_however_it_is_asked() {
        for line in ["%{HTTPS} off", "%{HTTPS} !on", "%{HTTPS} !=on", "%{SERVER_PORT} ^80$"] {
            assert_eq!(only(line).scheme, Some("http"), "{line}");
        }
        assert_eq!(only("%{SERVER_PORT} =443").scheme, Some("https"));
        assert_eq!(parsed("%{HTTPS} ^o"), Ok(Condition::Constant(true)));
    }

    #[test]
    fn a_missing_field_counts_as_empty() {
        let Ok(Condition::Matches(list)) = parsed("%{HTTP_REFERER} !^https://a") else { panic!() };
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].text.as_deref(), Some("!$header_referer"));
        assert_eq!(only("%{HTTP_USER_AGENT} ^$").text.as_deref(), Some("!$header_user_agent"));
        assert_eq!(only("%{HTTP:X-A} .").headers, [("X-A".to_owned(), vec!["~(?s).".to_owned()])]);
        let headers = only("%{HTTP_USER_AGENT} bot [NC]").headers;
        assert_eq!(headers, [("User-Agent".to_owned(), vec!["~(?i)bot".to_owned()])]);
    }

    #[test]
    fn addresses_are_read_from_patterns() {
        assert_eq!(only("%{REMOTE_ADDR} ^192\\.0\\.2\\.7$").source, ["192.0.2.7"]);
        assert_eq!(only("%{REMOTE_ADDR} !^10\\.1\\.").source, ["!10.1.0.0/16"]);
        assert!(parsed("%{REMOTE_ADDR} ^10").is_err());
    }

    #[test]
    fn encoded_characters_of_a_query_are_found_decoded_too() {
        assert_eq!(only("%{QUERY_STRING} (<|%3C)script").query, ["~(<|(?:%3C|\\x3C))script"]);
        assert!(parsed("%{QUERY_STRING} !%3C").is_err());
    }

    #[test]
    fn what_routes_do_not_know_is_refused() {
        for line in
            ["%{TIME_HOUR} >12", "%{THE_REQUEST} /index", "%{HTTP_HOST}%{HTTPS} a", "expr x"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
