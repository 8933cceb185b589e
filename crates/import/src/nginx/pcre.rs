//! Regular expressions of nginx (PCRE) in the syntax of Howdah's.
//!
//! Named groups become numbered ones, because names of groups share a name space with variables.
//! Look-ahead that forbids texts is said in two ways: at a fixed place behind `^` by a second
//! expression that must not match, and at the end of an expression by an expression for all other
//! texts. Other look-around and back-references have no equivalent.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// An expression that accepts what `text` matches and none of `excluded` does.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Expression {
    /// The expression, without `~` in front.
    pub text: String,
    /// Expressions that must not match.
    pub excluded: Vec<String>,
    /// Number of groups.
    pub groups: usize,
    /// Names of groups with their numbers.
    pub names: Vec<(String, usize)>,
}

/// The reason why an expression cannot be converted.
pub const NO_EQUIVALENT: &str =
    "the regular expression has look-around or a back-reference, which Howdah's have not";

/// Converts an expression; `None` if it has no equivalent.
pub fn convert(regex: &str, any_case: bool) -> Option<Expression> {
    Converter::new(any_case, false).run(regex)
}

/// Converts an expression to one that matches at least as much: without its look-around.
pub fn superset(regex: &str, any_case: bool) -> Option<Expression> {
    Converter::new(any_case, true).run(regex)
}

/// Escapes a text for an expression.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation()
            && !matches!(
                c,
                '<' | '>'
                    | '/'
                    | '_'
                    | '-'
                    | ','
                    | ':'
                    | '@'
                    | '='
                    | '%'
                    | '!'
                    | '"'
                    | '\''
                    | ';'
                    | '`'
            )
        {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

struct Converter {
    any_case: bool,
    drops: bool,
    found: Expression,
    /// Depth of groups.
    depth: usize,
}

impl Converter {
    fn new(any_case: bool, drops: bool) -> Self {
        Self { any_case, drops, found: Expression::default(), depth: 0 }
    }

    fn run(mut self, regex: &str) -> Option<Expression> {
        let mut chars = regex.chars().peekable();
        while let Some(c) = chars.next() {
            self.step(c, &mut chars)?;
        }
        if self.depth != 0 {
            return None;
        }
        if self.any_case {
            self.found.text.insert_str(0, "(?i)");
            for excluded in &mut self.found.excluded {
                excluded.insert_str(0, "(?i)");
            }
        }
        Some(self.found)
    }

    fn out(&mut self, text: &str) {
        self.found.text.push_str(text);
    }

    fn step(&mut self, c: char, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
        match c {
            '\\' => self.escaped(chars),
            '[' => self.class(chars),
            '(' => self.group(chars),
            ')' => {
                self.depth = self.depth.checked_sub(1)?;
                self.out(")");
                Some(())
            }
            '{' => {
                let rest: String = chars.clone().collect();
                let end = rest.find('}');
                let inner = end.map(|end| &rest[..end]).unwrap_or_default();
                let (low, high) = inner.split_once(',').unwrap_or((inner, ""));
                let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                let is_repeat = !low.is_empty() && is_number(low) && is_number(high);
                self.out(if is_repeat { "{" } else { "\\{" });
                if is_repeat {
                    for c in chars.by_ref() {
                        self.found.text.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                    self.skip_possessive(chars);
                }
                Some(())
            }
            '}' => {
                self.out("\\}");
                Some(())
            }
            '*' | '+' | '?' => {
                self.found.text.push(c);
                self.skip_possessive(chars);
                Some(())
            }
            _ => {
                self.found.text.push(c);
                Some(())
            }
        }
    }

    /// `a*+` matches as `a*`, unless what follows needs a part of it back.
    fn skip_possessive(&mut self, chars: &mut Peekable<Chars<'_>>) {
        match chars.peek() {
            Some('+') => {
                chars.next();
            }
            Some('?') => {
                chars.next();
                self.out("?");
            }
            _ => {}
        }
    }

    fn escaped(&mut self, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
        let c = chars.next()?;
        match c {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'A' | 'z' | 't' | 'n' | 'r' | 'f'
            | 'x' => {
                self.out("\\");
                self.found.text.push(c);
            }
            'e' => self.out("\\x1b"),
            'h' => self.out("[ \\t]"),
            'H' => self.out("[^ \\t]"),
            'R' => self.out("(?:\\r\\n|\\n|\\r)"),
            'Z' => self.out("\\n?\\z"),
            '1'..='9' if self.drops => self.out(".*"),
            _ if c.is_ascii_alphanumeric() => return None,
            '<' | '>' => self.found.text.push(c),
            _ if c.is_ascii() => {
                self.out("\\");
                self.found.text.push(c);
            }
            _ => self.found.text.push(c),
        }
        Some(())
    }

    fn class(&mut self, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
        self.out("[");
        if chars.peek() == Some(&'^') {
            chars.next();
            self.out("^");
        }
        let mut is_first = true;
        loop {
            let c = chars.next()?;
            match c {
                ']' if !is_first => break,
                ']' => self.out("\\]"),
                '[' if chars.peek() == Some(&':') => {
                    self.out("[");
                    loop {
                        let c = chars.next()?;
                        self.found.text.push(c);
                        if c == ']' {
                            break;
                        }
                    }
                }
                '[' => self.out("\\["),
                '&' | '~' => {
                    self.out("\\");
                    self.found.text.push(c);
                }
                '\\' => {
                    let c = chars.next()?;
                    match c {
                        'h' => self.out(" \\t"),
                        'b' => self.out("\\x08"),
                        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 't' | 'n' | 'r' | 'f' | 'x' => {
                            self.out("\\");
                            self.found.text.push(c);
                        }
                        _ if c.is_ascii_alphanumeric() => return None,
                        '<' | '>' => self.found.text.push(c),
                        _ if c.is_ascii() => {
                            self.out("\\");
                            self.found.text.push(c);
                        }
                        _ => self.found.text.push(c),
                    }
                }
                _ => self.found.text.push(c),
            }
            is_first = false;
        }
        self.out("]");
        Some(())
    }

    fn group(&mut self, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
        match chars.peek() {
            Some('?') => {}
            Some('*') => return None,
            _ => {
                self.found.groups += 1;
                self.depth += 1;
                self.out("(");
                return Some(());
            }
        }
        chars.next();
        match chars.next()? {
            ':' | '>' => {
                self.depth += 1;
                self.out("(?:");
            }
            '!' => self.forbid(chars)?,
            '=' => {
                let _ = balanced(chars)?;
                if !self.drops {
                    return None;
                }
            }
            '#' => {
                for c in chars.by_ref() {
                    if c == ')' {
                        break;
                    }
                }
            }
            'P' => {
                if chars.next()? != '<' {
                    return None;
                }
                self.named(chars, '>')?;
            }
            '<' => match chars.peek()? {
                '=' | '!' => {
                    chars.next();
                    let _ = balanced(chars)?;
                    if !self.drops {
                        return None;
                    }
                }
                _ => self.named(chars, '>')?,
            },
            '\'' => self.named(chars, '\'')?,
            first => {
                let mut flags = String::from(first);
                loop {
                    match chars.next()? {
                        c @ (':' | ')') => {
                            if !flags.chars().all(|c| matches!(c, 'i' | 'm' | 's' | 'x' | '-')) {
                                return None;
                            }
                            self.depth += usize::from(c == ':');
                            self.out("(?");
                            self.out(&flags);
                            self.found.text.push(c);
                            break;
                        }
                        c => flags.push(c),
                    }
                }
            }
        }
        Some(())
    }

    fn named(&mut self, chars: &mut Peekable<Chars<'_>>, end: char) -> Option<()> {
        let mut name = String::new();
        loop {
            match chars.next()? {
                c if c == end => break,
                c => name.push(c),
            }
        }
        self.found.groups += 1;
        self.depth += 1;
        self.found.names.push((name, self.found.groups));
        self.out("(");
        Some(())
    }

    /// `(?!…)`: the text behind must not be that of the group.
    fn forbid(&mut self, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
        let inner = balanced(chars)?;
        if self.drops {
            return Some(());
        }
        let rest: String = chars.clone().collect();
        let front = self.found.text.strip_prefix('^').and_then(literal);
        let is_fixed = self.depth == 0 && !has_alternatives(&rest) && front.is_some();
        if is_fixed {
            let forbidden = Converter::new(false, false).run(&inner)?;
            if !forbidden.excluded.is_empty() {
                return None;
            }
            self.found.excluded.push(format!("{}(?:{})", self.found.text, forbidden.text));
            return Some(());
        }
        // Nothing but the end of the branch may follow, or what any text matches.
        let behind = rest.strip_prefix(".*").unwrap_or(&rest);
        let behind = behind.strip_prefix('$').unwrap_or(behind);
        let behind = behind.strip_prefix(")".repeat(self.depth).as_str())?;
        if !(behind.is_empty() || behind.starts_with('|')) {
            return None;
        }
        let mut words = Vec::new();
        for word in alternatives(&inner) {
            words.push(literal(&word)?);
        }
        let others = others(&words);
        self.out(&others);
        Some(())
    }
}

/// Returns true if there is a `|` outside of groups and classes.
fn has_alternatives(text: &str) -> bool {
    let (mut depth, mut is_class) = (0_i32, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => depth += 1,
            ')' if !is_class => depth -= 1,
            '|' if !is_class && depth <= 0 => return true,
            _ => {}
        }
    }
    false
}

/// Reads up to the `)` of an open group.
fn balanced(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut inner = String::new();
    let mut depth = 0_usize;
    let mut is_class = false;
    loop {
        let c = chars.next()?;
        match c {
            '\\' => {
                inner.push(c);
                inner.push(chars.next()?);
                continue;
            }
            '[' if !is_class => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => depth += 1,
            ')' if !is_class && depth == 0 => return Some(inner),
            ')' if !is_class => depth -= 1,
            _ => {}
        }
        inner.push(c);
    }
}

/// Splits at each `|`.
fn alternatives(text: &str) -> Vec<String> {
    // A group has a `(`, which no literal has.
    let mut found = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, found.last_mut()) {
            ('|', _) => found.push(String::new()),
            ('\\', Some(last)) => {
                last.push(c);
                last.extend(chars.next());
            }
            (_, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    found
}

/// Returns the text that an expression stands for if it has no operators.
pub fn literal(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c if c.is_ascii_alphanumeric() => return None,
                c => out.push(c),
            },
            '.' | '[' | ']' | '(' | ')' | '*' | '+' | '?' | '{' | '}' | '^' | '$' | '|' => {
                return None;
            }
            c => out.push(c),
        }
    }
    Some(out)
}

/// Returns an expression for all texts that begin with none of the words.
fn others(words: &[String]) -> String {
    let mut branches: BTreeMap<char, Vec<String>> = BTreeMap::new();
    for word in words {
        let mut chars = word.chars();
        let Some(first) = chars.next() else {
            // All texts begin with the empty word, so nothing matches.
            return "[^\\x00-\\xff]".to_owned();
        };
        branches.entry(first).or_default().push(chars.as_str().to_owned());
    }
    let set: String = branches.keys().map(|c| format!("\\x{:02x}", u32::from(*c))).collect();
    let mut parts = vec!["$".to_owned(), format!("[^{set}]")];
    for (first, rest) in branches {
        if rest.iter().any(String::is_empty) {
            continue;
        }
        parts.push(format!("{}{}", escape(&first.to_string()), others(&rest)));
    }
    format!("(?:{})", parts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_that_both_have_stays() {
        for regex in [r"\.php$", r"^/(a|b)/[^/]+\.(css|js)$", r"^/x{2,3}", r"(?i)a", "(?:a|b)?"] {
            assert_eq!(convert(regex, false).unwrap().text, regex);
        }
        assert_eq!(convert(r"\.JS$", true).unwrap().text, r"(?i)\.JS$");
        assert_eq!(convert(r"^/a{b}[[]\<", false).unwrap().text, r"^/a\{b\}[\[]<");
    }

    #[test]
    fn names_of_groups_become_numbers() {
        let found = convert(r"^/(?<year>\d+)/(x)(?P<rest>.*)", false).unwrap();
        assert_eq!(found.text, r"^/(\d+)/(x)(.*)");
        assert_eq!(found.names, [("year".to_owned(), 1), ("rest".to_owned(), 3)]);
    }

    #[test]
    fn look_ahead_behind_a_fixed_beginning_is_a_second_expression() {
        let found = convert(r"^/(?!index|ocs\/v[12])", false).unwrap();
        assert_eq!(
            (found.text.as_str(), found.excluded.as_slice()),
            ("^/", &[r"^/(?:index|ocs\/v[12])".to_owned()][..])
        );
    }

    #[test]
    fn look_ahead_at_the_end_is_an_expression_for_other_texts() {
        let found = convert(r"/\.(?!well-known).*", false).unwrap();
        assert!(found.excluded.is_empty());
        assert!(found.text.starts_with(r"/\.(?:$|[^\x77]|w(?:$|[^\x65]|e"), "{}", found.text);
        assert!(convert(r"/\.(?!a)b", false).is_none());
        assert!(convert(r"(?<!a)b", false).is_none());
        assert_eq!(superset(r"/\.(?!a)b", false).unwrap().text, r"/\.b");
    }
}
