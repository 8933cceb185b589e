//! Fields of responses by the names of files, and the patterns of `<Files>` and `<FilesMatch>`.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use howdah_htaccess::modules::mime::Types;
use serde_json::{Map, Value, json};

use crate::fields::{Expires, Field};
use crate::folder::{Folder, Section, words_of};
use crate::pcre::Pattern;
use crate::template::literal;

/// Fields of responses: a list of steps by name, and the fields of all others.
#[derive(Debug, Default)]
pub struct Fields {
    /// Patterns of paths with their fields, in order.
    pub by_name: Vec<(Vec<String>, Map<String, Value>)>,
    /// Fields of everything else.
    pub others: Map<String, Value>,
}

/// Directives of the directories from the root to the one whose responses are meant.
pub struct Chain<'c, 'a>(pub &'c [&'c Folder<'a>]);

impl Chain<'_, '_> {
    /// Returns the fields of a response by the name of its file; without one, those that hold for all.
    pub fn of_name(&self, name: Option<&str>) -> Map<String, Value> {
        let mut fields: Vec<&Field> = Vec::new();
        let mut expires = Expires::default();
        for folder in self.0 {
            fields.extend(&folder.own.fields);
            expires.merge(&folder.own.expires);
        }
        for section in self.sections() {
            if name.is_some_and(|name| pattern_of(section).is_some_and(|p| p.matches(name))) {
                fields.extend(&section.scope.fields);
                expires.merge(&section.scope.expires);
            }
        }
        let mut all = Map::new();
        let suffix = name.and_then(|name| name.rsplit_once('.')).map(|(_, suffix)| suffix);
        if let Some(suffix) = suffix.filter(|suffix| *suffix != "php") {
            let kind = type_of(suffix);
            if let Some(seconds) = expires.of(&kind) {
                all.insert("Cache-Control".to_owned(), json!(format!("max-age={seconds}")));
            }
        }
        for field in fields {
            let value = match &field.value {
                Some(value) => json!(literal(value)),
                None => Value::Null,
            };
            let known = all.keys().find(|name| name.eq_ignore_ascii_case(&field.name)).cloned();
            let name = known.unwrap_or_else(|| field.name.clone());
            all.insert(
                name,
                match field.is_always {
                    true => json!({ "value": value, "always": true }),
                    false => value,
                },
            );
        }
        all
    }

    /// Returns the fields of answers that no file is sent for: those with `always`.
    pub fn of_answers(&self) -> Map<String, Value> {
        let is_always = |value: &Value| value.is_object();
        self.of_name(None).into_iter().filter(|(_, value)| is_always(value)).collect()
    }

    fn sections(&self) -> impl Iterator<Item = &Section<'_>> {
        self.0.iter().flat_map(|folder| &folder.sections)
    }

    /// Returns the fields by name. `index` is the file that requests for a directory get.
    pub fn fields(&self, index: Option<&str>) -> Fields {
        let others = self.of_name(None);
        let mut done = Fields { others: others.clone(), ..Fields::default() };
        let mut suffixes: BTreeSet<String> = BTreeSet::new();
        let mut expires = Expires::default();
        let mut ignores_case = false;
        for folder in self.0 {
            expires.merge(&folder.own.expires);
        }
        let mut names: Vec<String> = Vec::new();
        let mut whole: Vec<(Pattern, Map<String, Value>)> = Vec::new();
        for section in self.sections() {
            let scope = &section.scope;
            if scope.fields.is_empty() && scope.expires.is_empty() {
                continue;
            }
            expires.by_type.extend(scope.expires.by_type.iter().cloned());
            let Some(pattern) = pattern_of(section) else { continue };
            match pattern.suffixes() {
                Some(list) => {
                    ignores_case |= pattern.ignores_case;
                    suffixes.extend(list);
                }
                None => match exact_name(section) {
                    Some(name) => names.push(name),
                    None => {
                        let mut fields = others.clone();
                        let own = Chain(&[]).of_section(section);
                        own.into_iter().for_each(|(name, value)| {
                            fields.insert(name, value);
                        });
                        whole.push((pattern, fields));
                    }
                },
            }
        }
        for (kind, _) in &expires.by_type {
            suffixes.extend(suffixes_of(kind));
        }
        suffixes.remove("php");
        let is_index = |name: &str| index == Some(name);
        for name in names {
            let fields = self.of_name(Some(&name));
            let mut patterns = vec![format!("*/{}", crate::folder::encoded(name.as_bytes()))];
            if is_index(&name) {
                patterns.push("*/".to_owned());
            }
            done.by_name.push((patterns, fields));
        }
        for (pattern, fields) in whole {
            done.by_name.push((vec![format!("~{}", pattern.on_name("/", false))], fields));
        }
        let mut groups: Vec<(Map<String, Value>, Vec<String>)> = Vec::new();
        for suffix in suffixes {
            let fields = self.of_name(Some(&format!("x.{suffix}")));
            match groups.iter_mut().find(|(known, _)| *known == fields) {
                Some((_, list)) => list.push(suffix),
                None => groups.push((fields, vec![suffix])),
            }
        }
        for (fields, list) in groups {
            if fields == others {
                continue;
            }
            let mut patterns: Vec<String> = match ignores_case {
                true => vec![format!("~(?i)\\.({})$", list.join("|"))],
                false => list.iter().map(|suffix| format!("*.{suffix}")).collect(),
            };
            let index_suffix = index.and_then(|name| name.rsplit_once('.')).map(|(_, s)| s);
            if index_suffix.is_some_and(|suffix| list.iter().any(|known| known == suffix)) {
                patterns.push("*/".to_owned());
            }
            done.by_name.push((patterns, fields));
        }
        if expires.default.is_some() && expires.is_on == Some(true) {
            let fields = self.of_name(Some("x.unknown"));
            let patterns = vec!["~\\.[0-9A-Za-z]+$".to_owned(), "!*.php".to_owned()];
            done.by_name.push((patterns, fields));
        }
        done
    }

    fn of_section(&self, section: &Section<'_>) -> Map<String, Value> {
        let mut fields = Map::new();
        for field in &section.scope.fields {
            let value = field.value.as_ref().map_or(Value::Null, |value| json!(literal(value)));
            fields.insert(
                field.name.clone(),
                match field.is_always {
                    true => json!({ "value": value, "always": true }),
                    false => value,
                },
            );
        }
        fields
    }
}

fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(Types::built_in)
}

fn type_of(suffix: &str) -> String {
    let kind = types().get(suffix.to_ascii_lowercase().as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(kind).into_owned()
}

fn suffixes_of(kind: &str) -> Vec<String> {
    let suffixes = types().extensions(kind.as_bytes());
    suffixes.into_iter().map(|suffix| String::from_utf8_lossy(suffix).into_owned()).collect()
}

/// Returns the pattern of a section's names; `None` if routes cannot have it.
pub fn pattern_of(section: &Section<'_>) -> Option<Pattern> {
    let words = words_of(section.node);
    let is_regex = section.node.name.eq_ignore_ascii_case("<filesmatch");
    match (is_regex, words.as_slice()) {
        (true, [pattern]) => Pattern::parse(pattern).ok(),
        (false, [tilde, pattern]) if tilde == "~" => Pattern::parse(pattern).ok(),
        // To Apache, that is the empty name, which directories have.
        (false, [name]) if name.starts_with("./") || name == "." => None,
        (false, [name]) => Pattern::parse(&from_wildcard(name)?).ok(),
        _ => None,
    }
}

/// Returns true if an expression of a route finds something in a text, or is none.
pub fn finds(expression: &str, text: &str) -> bool {
    let regex = regex::bytes::RegexBuilder::new(expression).unicode(false).build();
    regex.map_or(true, |regex| regex.is_match(text.as_bytes()))
}

/// Returns false if an expression of a route finds nothing in any text with this beginning. It is much faster than
/// to compile the expression.
pub fn may_find(expression: &str, text: &str) -> bool {
    let (flags, rest) = match expression.strip_prefix("(?").and_then(|rest| rest.split_once(')')) {
        Some((flags, rest)) if flags.chars().all(|c| matches!(c, 'i' | 's')) => (flags, rest),
        _ => ("", expression),
    };
    let start = literal_start(rest);
    text.get(..start.len()).is_some_and(|text| match flags.contains('i') {
        true => text.eq_ignore_ascii_case(&start),
        false => text == start,
    })
}

/// Returns a text that each text begins with in which an expression without flags finds something; empty if none is
/// known.
fn literal_start(expression: &str) -> String {
    let mut start = String::new();
    let Some(rest) = expression.strip_prefix('^').filter(|rest| !has_alternatives(rest)) else {
        return start;
    };
    let mut rest = rest.chars().peekable();
    while let Some(c) = rest.next() {
        let literal = match c {
            // `\<` and `\>` are ends of words.
            '\\' => rest.next().filter(|c| c.is_ascii_punctuation() && !"<>".contains(*c)),
            c => Some(c).filter(|c| c.is_ascii_alphanumeric() || "/-_~%=&,;:@!'\"".contains(*c)),
        };
        let is_repeated = matches!(rest.peek(), Some('*' | '?' | '+' | '{'));
        match literal.filter(|_| !is_repeated) {
            Some(literal) => start.push(literal),
            None => break,
        }
    }
    start
}

/// Returns true if an expression may have alternatives outside of groups.
fn has_alternatives(expression: &str) -> bool {
    let mut depth = 0_usize;
    let mut rest = expression.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            // A bracket may stand for itself in a set.
            '[' => return rest.as_str().contains('|'),
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Returns the name of a section that is for one name.
pub fn exact_name(section: &Section<'_>) -> Option<String> {
    let words = words_of(section.node);
    match words.as_slice() {
        [name] if section.node.name.eq_ignore_ascii_case("<files") => {
            (!name.contains(['*', '?', '[', '\\', '/']) && name != ".").then(|| name.clone())
        }
        _ => None,
    }
}

fn from_wildcard(name: &str) -> Option<String> {
    let mut pattern = "^".to_owned();
    for c in name.chars() {
        match c {
            '*' => pattern.push_str("[^/]*"),
            '?' => pattern.push_str("[^/]"),
            '[' | '\\' => return None,
            c if c.is_ascii_alphanumeric() => pattern.push(c),
            c => pattern.extend(['\\', c]),
        }
    }
    pattern.push('$');
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_expression_of_a_directory_begins_with_its_path() {
        for (expression, start) in [
            ("^/a\\.b/(.*/)?[^/]*\\.php$", "/a.b/"),
            ("^/ab*c", "/a"),
            ("/a", ""),
            ("^/a|^/b", ""),
            ("^/a/(x|y)", "/a/"),
            ("^/a[(]|b)", ""),
            ("^(?i)/a", ""),
            ("^/a\\xff", "/a"),
            ("^/a\\<b", "/a"),
        ] {
            assert_eq!(literal_start(expression), start, "{expression}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_an_expression_finds_is_ruled_out(
            expression in "(\\(\\?[is]{1,2}\\))?\\^?([ab/|*?+.()\\[\\]]|\\\\[.|<(ab]){0,9}", text in "[abAB/.|(]{0,6}",
        ) {
            let compiles = regex::bytes::Regex::new(&expression).is_ok();
            if compiles && finds(&expression, &text) {
                prop_assert!(may_find(&expression, &text), "{}", expression);
            }
        }
    }
}
