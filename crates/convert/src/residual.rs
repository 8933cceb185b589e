//! Directories whose index file a pattern of paths is found in.
//!
//! Apache asks all directives again for the index file of a directory: `Redirect 403 /a/index.php` also refuses
//! `/a/`. Routes decide about the path `/a/` alone. So a pattern is turned into one of directories: what is left
//! of each path that it finds after `/index.php` is taken from its end, byte by byte.

use regex_syntax::hir::{Capture, Class, Hir, HirKind, Look, Repetition};
use regex_syntax::{ParserBuilder, hir};

/// Maximum length of an expression that comes out.
const MAX_LENGTH: usize = 4096;

/// What is known about directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directories {
    /// There is none.
    None,
    /// Those that an expression finds.
    Found(String),
    /// Nothing is known.
    Unknown,
}

/// Returns the directories, with a slash at their end, for which `expression` is found in the path of a file
/// `name` in them.
pub fn directories(expression: &str, name: &[u8]) -> Directories {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(expression);
    let Ok(parsed) = parsed else { return Directories::Unknown };
    let any = || {
        Hir::repetition(Repetition {
            min: 0,
            max: None,
            greedy: true,
            sub: Box::new(Hir::class(Class::Bytes(hir::ClassBytes::new([
                hir::ClassBytesRange::new(0, 255),
            ])))),
        })
    };
    let mut rest = Hir::concat(vec![any(), parsed, any()]);
    let file = [b"/", name].concat();
    for (index, &byte) in file.iter().rev().enumerate() {
        let Some(next) = before(&rest, byte, index == 0) else { return Directories::Unknown };
        if next.to_string().len() > MAX_LENGTH {
            return Directories::Unknown;
        }
        rest = next;
    }
    if is_fail(&rest) {
        return Directories::None;
    }
    let text = format!("^(?:{rest})/$");
    let compiled = regex::bytes::RegexBuilder::new(&text)
        .unicode(false)
        .size_limit(crate::pcre::MAX_COMPILED_BYTES)
        .build();
    match compiled {
        Ok(_) => Directories::Found(text),
        Err(_) => Directories::Unknown,
    }
}

fn is_fail(hir: &Hir) -> bool {
    hir.properties().minimum_len().is_none()
}

/// Returns what may stand in front of a byte at the end of a text; `None` if it is not known. `is_end`: nothing
/// stands behind the byte.
fn before(hir: &Hir, byte: u8, is_end: bool) -> Option<Hir> {
    Some(match hir.kind() {
        HirKind::Empty => Hir::fail(),
        HirKind::Literal(literal) => match literal.0.strip_suffix(&[byte]) {
            Some(rest) => Hir::literal(rest),
            None => Hir::fail(),
        },
        HirKind::Class(Class::Bytes(class)) => {
            match class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte)) {
                true => Hir::empty(),
                false => Hir::fail(),
            }
        }
        HirKind::Class(Class::Unicode(class)) => {
            // The parser makes one of single letters; it has bytes of ASCII only.
            let ranges = class.ranges();
            if !byte.is_ascii() || ranges.iter().any(|range| !range.end().is_ascii()) {
                return None;
            }
            let byte = char::from(byte);
            match ranges.iter().any(|range| (range.start()..=range.end()).contains(&byte)) {
                true => Hir::empty(),
                false => Hir::fail(),
            }
        }
        HirKind::Look(Look::Start | Look::End) => Hir::fail(),
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => {
            let last = before(&repetition.sub, byte, is_end)?;
            if repetition.max == Some(0) || is_fail(&last) {
                return Some(Hir::fail());
            }
            let rest = Hir::repetition(Repetition {
                min: repetition.min.saturating_sub(1),
                max: repetition.max.map(|max| max - 1),
                greedy: true,
                sub: Box::new(without_end(&repetition.sub)?),
            });
            Hir::concat(vec![rest, last])
        }
        HirKind::Capture(Capture { sub, .. }) => before(sub, byte, is_end)?,
        HirKind::Concat(parts) => {
            let mut ways = Vec::new();
            for (index, part) in parts.iter().enumerate().rev() {
                let last = before(part, byte, is_end)?;
                if !is_fail(&last) {
                    let mut way = Vec::new();
                    for part in &parts[..index] {
                        way.push(without_end(part)?);
                    }
                    way.push(last);
                    ways.push(Hir::concat(way));
                }
                if !may_be_empty(part, is_end) {
                    break;
                }
            }
            any_of(ways)
        }
        HirKind::Alternation(parts) => {
            let ways: Option<Vec<Hir>> =
                parts.iter().map(|part| before(part, byte, is_end)).collect();
            any_of(ways?)
        }
    })
}

/// Returns true if an expression may match nothing in front of the end, or of another byte.
fn may_be_empty(hir: &Hir, is_end: bool) -> bool {
    match hir.kind() {
        HirKind::Empty => true,
        HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Look(Look::End) => is_end,
        // A byte stands in front of it.
        HirKind::Look(_) => false,
        HirKind::Repetition(repetition) => {
            repetition.min == 0 || may_be_empty(&repetition.sub, is_end)
        }
        HirKind::Capture(capture) => may_be_empty(&capture.sub, is_end),
        HirKind::Concat(parts) => parts.iter().all(|part| may_be_empty(part, is_end)),
        HirKind::Alternation(parts) => parts.iter().any(|part| may_be_empty(part, is_end)),
    }
}

/// Returns an expression for a place where the end of the text is not.
fn without_end(hir: &Hir) -> Option<Hir> {
    let all = |parts: &[Hir]| parts.iter().map(without_end).collect::<Option<Vec<Hir>>>();
    Some(match hir.kind() {
        HirKind::Look(Look::End) => Hir::fail(),
        HirKind::Look(Look::Start) => hir.clone(),
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            sub: Box::new(without_end(&repetition.sub)?),
            ..repetition.clone()
        }),
        HirKind::Capture(capture) => without_end(&capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => any_of(all(parts)?),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
    })
}

fn any_of(ways: Vec<Hir>) -> Hir {
    let mut different: Vec<Hir> = Vec::new();
    for way in ways {
        if !is_fail(&way) && !different.contains(&way) {
            different.push(way);
        }
    }
    match different.is_empty() {
        true => Hir::fail(),
        false => Hir::alternation(different),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finds(expression: &str, text: &str) -> bool {
        let regex = regex::bytes::RegexBuilder::new(expression).unicode(false).build().unwrap();
        regex.is_match(text.as_bytes())
    }

    fn has(expression: &str, name: &str, directory: &str) -> bool {
        match directories(expression, name.as_bytes()) {
            Directories::None => false,
            Directories::Found(found) => finds(&found, directory),
            Directories::Unknown => panic!("{expression}"),
        }
    }

    #[test]
    fn directories_are_those_of_the_index_file() {
        assert!(has("(?s)^/a/index\\.php(/.*)?$", "index.php", "/a/"));
        assert!(!has("(?s)^/a/index\\.php(/.*)?$", "index.php", "/"));
        assert!(!has("^/a/index\\.php$", "index.html", "/a/"));
        assert!(has("(?i)\\.PHP", "index.php", "/x/"));
        assert!(has("^/wp-includes/[^/]+\\.php$", "index.php", "/wp-includes/"));
        assert!(!has("^/wp-includes/[^/]+\\.php$", "index.php", "/"));
        assert_eq!(directories("\\bindex", b"index.php"), Directories::Unknown);
    }

    proptest! {
        #[test]
        fn a_directory_is_found_if_its_file_is(
            expression in prop::collection::vec(prop::sample::select(vec![
                "^", "$", "/", "a", "i", "(i|a/)", "[^/]", "[a-i]+", ".*", "(?:a|^)", "(/|$)", "|", "i?", "(ai){1,2}", "(a$|/)*",
            ]), 0..7),
            directory in "/([ai]{1,2}/){0,3}",
            name in "[ai]{1,2}",
        ) {
            let expression = format!("(?s){}", expression.concat());
            let file = format!("{directory}{name}");
            prop_assert_eq!(has(&expression, &name, &directory), finds(&expression, &file));
        }
    }
}
