//! Patterns: from PCRE, which Apache uses, to the expressions of routes.
//!
//! Routes have no look-around and no back-references, and spell some characters in another way. A pattern that
//! means something else there is refused with the reason.

/// Stands for the start of the subject until the pattern is placed.
const START: char = '\u{e000}';
/// Stands for its end.
const END: char = '\u{e001}';

/// A pattern, translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Alternatives on the outermost level.
    alternatives: Vec<String>,
    /// Number of groups that capture.
    pub groups: usize,
    /// The case of letters does not matter.
    pub ignores_case: bool,
    /// A dot stands for any byte, line feeds too.
    has_dot: bool,
}

/// A pattern on paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnPath {
    /// Expression of a route, without the `~`.
    pub text: String,
    /// The groups capture what those of Apache's pattern do.
    pub keeps_groups: bool,
}

impl Pattern {
    /// Translates a pattern of PCRE.
    ///
    /// # Errors
    ///
    /// The reason why routes cannot have it.
    pub fn parse(pattern: &str) -> Result<Pattern, &'static str> {
        let mut parser = Parser { rest: pattern.chars().collect(), at: 0, ..Parser::default() };
        parser.run()?;
        parser.done.push(parser.current);
        let parsed = Pattern {
            alternatives: parser.done,
            groups: parser.groups,
            ignores_case: parser.ignores_case,
            has_dot: parser.has_dot,
        };
        let text = parsed.search();
        let compiled = regex::bytes::RegexBuilder::new(&text)
            .unicode(false)
            .size_limit(MAX_COMPILED_BYTES)
            .build();
        compiled.map(|_| parsed).map_err(|_| "its pattern is too large, or no expression of routes")
    }

    /// Returns the pattern without regard to case.
    pub fn without_case(mut self) -> Pattern {
        self.ignores_case = true;
        self
    }

    /// Returns the expression that searches a whole subject: a field, a host, a query.
    pub fn search(&self) -> String {
        let text = self.alternatives.join("|");
        self.flags() + &text.replace(START, "^").replace(END, "$")
    }

    /// Returns the expression with names in place of the numbers of its groups: `host_a`, `host_b`.
    pub fn search_named(&self, prefix: &str) -> String {
        let text = self.search();
        let (mut named, mut rest, mut names) = (String::new(), text.as_str(), 'a'..='z');
        let mut is_escaped = false;
        let mut class = false;
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            named.push(c);
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '[' => class = true,
                ']' => class = false,
                '(' if !class && !after.starts_with('?') => {
                    named.push_str(&format!("?<{prefix}{}>", names.next().unwrap_or('z')));
                }
                _ => {}
            }
            rest = after;
        }
        named
    }

    /// Returns true if the pattern is found in a text.
    pub fn matches(&self, text: &str) -> bool {
        let regex = regex::bytes::RegexBuilder::new(&self.search()).unicode(false).build();
        regex.is_ok_and(|regex| regex.is_match(text.as_bytes()))
    }

    /// Returns the pattern of directories, if this one is of a file of that name in them: `^a/index\.php$` and
    /// `index.php` give `^a/$`.
    pub fn around(&self, name: &str) -> Option<Pattern> {
        let tail = format!("{}{END}", escape(name.as_bytes()));
        let parts =
            self.alternatives.iter().filter_map(|alternative| alternative.strip_suffix(&tail));
        let alternatives: Vec<String> =
            parts.filter(|part| part.ends_with('/')).map(|part| format!("{part}{END}")).collect();
        (!alternatives.is_empty()).then(|| Pattern { alternatives, ..self.clone() })
    }

    /// Returns the suffixes of names that the pattern is found in, if it is one of suffixes: `\.(css|jpe?g)$`.
    pub fn suffixes(&self) -> Option<Vec<String>> {
        let [only] = self.alternatives.as_slice() else { return None };
        let only = only.strip_prefix("\u{e000}[^/]*").unwrap_or(only);
        let list = only.strip_prefix("\\.")?.strip_suffix(END)?;
        let list = match list.strip_prefix('(').and_then(|list| list.strip_suffix(')')) {
            Some(list) => list.strip_prefix("?:").unwrap_or(list),
            None => list,
        };
        let mut suffixes = Vec::new();
        for part in list.split('|') {
            let plain = part.replace('?', "");
            if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return None;
            }
            suffixes.push(plain);
            if let Some(at) = part.find('?') {
                if at == 0 || part[at + 1..].contains('?') {
                    return None;
                }
                suffixes.push(format!("{}{}", &part[..at - 1], &part[at + 1..]));
            }
        }
        Some(suffixes)
    }

    /// Returns true if the pattern asks for the start of its subject.
    pub fn asks_for_start(&self) -> bool {
        self.alternatives.iter().any(|alternative| alternative.contains(START))
    }

    /// Returns true if the pattern is found in every path.
    pub fn is_everything(&self) -> bool {
        match self.only_dots() {
            Some((rest, true)) => matches!(rest, ".*" | "(.*)" | "(.*?)"),
            Some((rest, false)) => matches!(rest, "" | ".?" | ".*" | "(.*)"),
            None => false,
        }
    }

    /// Returns true if the pattern is found in every path but the empty one, which is that of the directory itself.
    pub fn is_everything_inside(&self) -> bool {
        match self.only_dots() {
            Some((rest, true)) => matches!(rest, ".+" | "(.+)"),
            Some((rest, false)) => matches!(rest, "." | ".+" | "(.+)"),
            None => false,
        }
    }

    /// Returns the pattern without its start and end, and true if it has an end.
    fn only_dots(&self) -> Option<(&str, bool)> {
        let [only] = self.alternatives.as_slice() else { return None };
        let rest = only.strip_prefix(START).unwrap_or(only);
        Some(rest.strip_suffix(END).map_or((rest, false), |rest| (rest, true)))
    }

    /// Returns the expression for the path of a URL, of which the pattern sees what follows a directory:
    /// `directory` is the escaped path of it, with a slash at its end.
    pub fn on_path(&self, directory: &str) -> Result<OnPath, &'static str> {
        let flags = self.flags();
        if let [only] = self.alternatives.as_slice() {
            for start in ["(\u{e000}|/)", "(/|\u{e000})"] {
                if let Some(rest) = only.strip_prefix(start)
                    && !rest.contains(START)
                {
                    let rest = rest.replace(END, "$");
                    let text = format!("{}^{directory}(.*/)?{rest}", self.flags_with_dot());
                    return Ok(OnPath { text, keeps_groups: false });
                }
            }
        }
        let mut parts = Vec::new();
        let mut is_searched = false;
        for alternative in &self.alternatives {
            let (prefix, rest) = match alternative.strip_prefix(START) {
                Some(rest) => ("", rest),
                None => {
                    is_searched = true;
                    (".*?", alternative.as_str())
                }
            };
            if rest.contains(START) {
                return Err("its pattern asks for the start of the path in the middle");
            }
            parts.push(format!("{prefix}{}", rest.replace(END, "$")));
        }
        let [only] = parts.as_slice() else {
            let text = format!("{}^{directory}(?:{})", self.flags_with_dot(), parts.join("|"));
            return Ok(OnPath { text, keeps_groups: true });
        };
        let text = match only.strip_prefix(".*?").filter(|_| is_searched) {
            // A slash cannot be what it begins with: it is found in the path of the URL as well.
            Some(rest) if directory == "/" && begins_with_a_character(rest) => {
                format!("{flags}{rest}")
            }
            Some(_) => format!("{}^{directory}{only}", self.flags_with_dot()),
            None => format!("{flags}^{directory}{only}"),
        };
        Ok(OnPath { text, keeps_groups: true })
    }

    /// Returns the expression that searches the names of a path's segments below a directory: the last one, or
    /// any of them with `is_anywhere`. Names that the pattern is found in are always among those found.
    pub fn on_name(&self, directory: &str, is_anywhere: bool) -> String {
        let (start, end) = match is_anywhere {
            true => ("/", "(?:/|$)"),
            false => ("/", "$"),
        };
        let tail = if is_anywhere { "" } else { "[^/]*$" };
        let placed = |alternative: &String| {
            let text = alternative.replace(START, start).replace(END, end);
            match (directory, alternative.contains(START)) {
                ("/", _) => text,
                // The slash at the start of a name is that of the directory, or one behind it.
                (_, true) => format!("(?:/.*)?(?:{text})"),
                (_, false) => format!("/.*(?:{text})"),
            }
        };
        let text = self.alternatives.iter().map(placed).collect::<Vec<_>>().join("|");
        let prefix = match directory {
            "/" => String::new(),
            directory => format!("^{}", directory.strip_suffix('/').unwrap_or(directory)),
        };
        match prefix.is_empty() {
            true if tail.is_empty() => format!("{}{text}", self.flags()),
            true if self.ends_at_end() => format!("{}{text}", self.flags()),
            true => format!("{}(?:{text}){tail}", self.flags()),
            false => format!("{}{prefix}(?:{text}){tail}", self.flags_with_dot()),
        }
    }

    fn ends_at_end(&self) -> bool {
        self.alternatives.iter().all(|alternative| alternative.ends_with(END))
    }

    fn flags(&self) -> String {
        self.flags_for(self.has_dot)
    }

    fn flags_with_dot(&self) -> String {
        self.flags_for(true)
    }

    fn flags_for(&self, has_dot: bool) -> String {
        match (self.ignores_case, has_dot) {
            (true, true) => "(?is)".to_owned(),
            (true, false) => "(?i)".to_owned(),
            (false, true) => "(?s)".to_owned(),
            (false, false) => String::new(),
        }
    }
}

/// Escapes a text for an expression.
pub fn escape(text: &[u8]) -> String {
    let mut escaped = String::new();
    for &byte in text {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'_' | b'-' => {
                escaped.push(char::from(byte));
            }
            b' '..=b'~' => escaped.extend(['\\', char::from(byte)]),
            byte => escaped.push_str(&format!("\\x{byte:02x}")),
        }
    }
    escaped
}

/// Maximum memory of a compiled expression; that of routes.
pub const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Returns true if an expression begins with a letter, a digit or an escaped dot that is always there.
fn begins_with_a_character(text: &str) -> bool {
    let rest = match text.strip_prefix("\\.") {
        Some(rest) => rest,
        None => match text.strip_prefix(|c: char| c.is_ascii_alphanumeric()) {
            Some(rest) => rest,
            None => return false,
        },
    };
    !rest.starts_with(['?', '*', '{'])
}

#[derive(Default)]
struct Parser {
    rest: Vec<char>,
    at: usize,
    done: Vec<String>,
    current: String,
    depth: usize,
    groups: usize,
    ignores_case: bool,
    has_dot: bool,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, c)| self.rest.get(self.at + index) == Some(&c))
    }

    fn run(&mut self) -> Result<(), &'static str> {
        if self.starts_with("(?i)") {
            self.at += 4;
            self.ignores_case = true;
        }
        while let Some(c) = self.next() {
            match c {
                START | END => return Err("its pattern has characters for private use"),
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.current.push(c);
                }
                '|' if self.depth == 0 => self.done.push(std::mem::take(&mut self.current)),
                '^' => self.current.push(START),
                '$' => self.current.push(END),
                '*' | '+' | '?' => {
                    self.current.push(c);
                    self.after_quantifier()?;
                }
                '{' => self.brace()?,
                '}' => self.current.push_str("\\}"),
                '.' => {
                    self.has_dot = true;
                    self.current.push('.');
                }
                c => self.current.push(c),
            }
        }
        Ok(())
    }

    fn after_quantifier(&mut self) -> Result<(), &'static str> {
        let before = self.current.trim_end_matches(['*', '+', '?']);
        if before.ends_with([START, END]) || before.is_empty() {
            return Err("its pattern repeats a position");
        }
        match self.peek() {
            Some('+') => Err("its pattern has a possessive quantifier"),
            Some('?') => {
                self.at += 1;
                self.current.push('?');
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn brace(&mut self) -> Result<(), &'static str> {
        let end = (self.at..self.rest.len()).find(|at| self.rest[*at] == '}');
        let inner: Option<String> = end.map(|end| self.rest[self.at..end].iter().collect());
        let is_quantifier = inner.as_deref().is_some_and(|inner| {
            let (from, to) = inner.split_once(',').unwrap_or((inner, ""));
            let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
            !from.is_empty() && is_number(from) && is_number(to)
        });
        let (Some(end), Some(inner), true) = (end, inner, is_quantifier) else {
            self.current.push_str("\\{");
            return Ok(());
        };
        self.at = end + 1;
        self.current.push_str(&format!("{{{inner}}}"));
        match self.peek() {
            Some('+') => Err("its pattern has a possessive quantifier"),
            Some('?') => {
                self.at += 1;
                self.current.push('?');
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn group(&mut self) -> Result<(), &'static str> {
        self.depth += 1;
        if self.starts_with("*") {
            return Err("its pattern has a verb of PCRE");
        }
        if !self.starts_with("?") {
            self.groups += 1;
            self.current.push('(');
            return Ok(());
        }
        for plain in ["?:", "?i:"] {
            if self.starts_with(plain) {
                self.at += plain.len();
                self.current.push_str(&format!("({plain}"));
                return Ok(());
            }
        }
        for look in ["?=", "?!", "?<=", "?<!"] {
            if self.starts_with(look) {
                return Err("its pattern has look-around, which routes do not have");
            }
        }
        for named in ["?<", "?P<"] {
            if self.starts_with(named) {
                // Groups are used by their numbers.
                let end = (self.at..self.rest.len()).find(|at| self.rest[*at] == '>');
                self.at = end.ok_or("its pattern has an open group")? + 1;
                self.groups += 1;
                self.current.push('(');
                return Ok(());
            }
        }
        Err("its pattern has a group that routes do not have")
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        match self.next() {
            Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'n' | 'r' | 't' | 'f')) => {
                self.current.extend(['\\', c]);
            }
            Some('A') => self.current.push(START),
            Some('z') => self.current.push(END),
            Some('h') => self.current.push_str("[ \\t\\xa0]"),
            Some('x') => {
                let hex = self.hex()?;
                self.current.push_str(&hex);
            }
            Some('1'..='9') => {
                return Err("its pattern has a back-reference, which routes do not have");
            }
            Some(c) if c.is_ascii_alphanumeric() => {
                return Err("its pattern has an escape that routes do not have");
            }
            Some(c) => push_literal(&mut self.current, c),
            None => return Err("its pattern ends in a backslash"),
        }
        Ok(())
    }

    fn hex(&mut self) -> Result<String, &'static str> {
        let digits: String = self.rest.iter().skip(self.at).take(2).collect();
        if digits.len() != 2 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err("its pattern has an escape that routes do not have");
        }
        self.at += 2;
        Ok(format!("\\x{digits}"))
    }

    fn class(&mut self) -> Result<(), &'static str> {
        let mut text = String::from("[");
        if self.peek() == Some('^') {
            self.at += 1;
            text.push('^');
        }
        let mut is_first = true;
        loop {
            let c = self.next().ok_or("its pattern has an open class")?;
            match c {
                ']' if !is_first => break,
                '[' if self.starts_with(":") => {
                    let end = (self.at..self.rest.len()).find(|at| self.rest[*at] == ']');
                    let end = end.ok_or("its pattern has an open class")?;
                    let name: String = self.rest[self.at..end].iter().collect();
                    let name = name.strip_suffix(':').filter(|name| name.len() > 1);
                    text.push_str(&format!("[{}:]", name.ok_or("its pattern has an odd class")?));
                    self.at = end + 1;
                }
                '\\' => match self.next() {
                    Some(c @ ('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'n' | 'r' | 't' | 'f')) => {
                        text.extend(['\\', c]);
                    }
                    Some('x') => text.push_str(&self.hex()?),
                    Some(c) if c.is_ascii_alphanumeric() => {
                        return Err("its pattern has an escape that routes do not have");
                    }
                    Some(c) if c.is_ascii() => text.extend(['\\', c]),
                    _ => return Err("its pattern has letters outside of ASCII in a class"),
                },
                '-' if is_first || matches!(self.peek(), Some(']' | '-')) => text.push_str("\\-"),
                '-' => text.push('-'),
                '[' | ']' | '^' | '&' | '~' => text.extend(['\\', c]),
                c if c.is_ascii() => text.push(c),
                _ => return Err("its pattern has letters outside of ASCII in a class"),
            }
            is_first = false;
        }
        text.push(']');
        self.current.push_str(&text);
        Ok(())
    }
}

fn push_literal(text: &mut String, c: char) {
    if "\\.+*?()|[]{}^$#&-~".contains(c) {
        text.push('\\');
    }
    text.push(c);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(pattern: &str) -> String {
        Pattern::parse(pattern).map_or_else(|reason| reason.to_owned(), |p| p.search())
    }

    #[test]
    fn what_means_the_same_is_kept() {
        for same in ["^index\\.php$", "\\.(jpe?g|png)$", "^(a|b)/[0-9]{1,3}$", "[^/]+\\d"] {
            assert_eq!(search(same), same);
        }
        assert_eq!(search("^a.*$"), "(?s)^a.*$");
        assert_eq!(search("a\\/b\\_c"), "a/b_c");
        assert_eq!(search("[][&a-]"), "[\\]\\[\\&a\\-]");
        assert_eq!(search("a{b}{2}"), "a\\{b\\}{2}");
        assert_eq!(search("(?<year>[0-9])"), "([0-9])");
    }

    #[test]
    fn what_routes_do_not_have_is_refused() {
        for refused in ["^(?!a)", "(a)\\1", "a++", "(?>a)", "\\R", "[é]", "(?<=a)b", "(*FAIL)"] {
            assert!(Pattern::parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_pattern_of_a_directory_becomes_one_of_the_path() {
        let path = |pattern: &str, directory: &str| {
            Pattern::parse(pattern).unwrap().on_path(directory).map(|path| path.text)
        };
        assert_eq!(path("^old/(.*)$", "/").unwrap(), "(?s)^/old/(.*)$");
        assert_eq!(path("\\.bak$", "/").unwrap(), "\\.bak$");
        assert_eq!(path("\\.bak$", "/a/").unwrap(), "(?s)^/a/.*?\\.bak$");
        assert_eq!(path("^a|b$", "/").unwrap(), "(?s)^/(?:a|.*?b$)");
        assert_eq!(path("(^|/)x", "/").unwrap(), "(?s)^/(.*/)?x");
        assert!(path("a(^b)", "/").is_err());
    }

    #[test]
    fn a_pattern_of_names_becomes_one_of_the_path() {
        let name = |pattern: &str, directory: &str, is_anywhere: bool| {
            Pattern::parse(pattern).unwrap().on_name(directory, is_anywhere)
        };
        assert_eq!(name("\\.sql$", "/", false), "\\.sql$");
        assert_eq!(name("^wp-", "/", false), "(?:/wp-)[^/]*$");
        assert_eq!(name("^wp-", "/a/", true), "(?s)^/a(?:(?:/.*)?(?:/wp-))");
    }

    #[test]
    fn patterns_of_everything_are_known() {
        for everything in ["", "^", ".*", "^(.*)$", "^.*$", ".?"] {
            assert!(Pattern::parse(everything).unwrap().is_everything(), "{everything}");
            assert!(!Pattern::parse(everything).unwrap().is_everything_inside(), "{everything}");
        }
        for inside in [".", "^.", "(.+)", "^.+$"] {
            assert!(!Pattern::parse(inside).unwrap().is_everything(), "{inside}");
            assert!(Pattern::parse(inside).unwrap().is_everything_inside(), "{inside}");
        }
        for part in ["^$", "^.$", "a", "^.a*", "^.?$", "$^"] {
            assert!(!Pattern::parse(part).unwrap().is_everything(), "{part}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_is_translated_or_refused(pattern in ".{0,40}") {
            if let Ok(parsed) = Pattern::parse(&pattern) {
                let _ = (parsed.on_path("/a/"), parsed.on_name("/", true), parsed.is_everything());
            }
        }
    }
}
