//! Compares answers of both modes, apart from the differences between two answers of one mode.

use std::collections::BTreeSet;

use crate::visitor::Page;

/// Header fields whose values differ from answer to answer, or belong to the server.
const VOLATILE: &[&str] = &["date", "age", "expires", "last-modified", "etag"];

/// Maximum length of a quotation, in characters.
const MAX_QUOTED: usize = 60;

/// The answer of the classic mode, and which parts of it change by themselves.
pub(super) struct Expected {
    page: Page,
    words: Vec<String>,
    /// Words that two answers have in common, by their position; `None` if the answers have
    /// different numbers of words.
    stable: Option<Vec<bool>>,
}

impl Expected {
    /// Learns from two answers of the classic mode to the same request.
    pub(super) fn new(first: Page, second: &Page) -> Self {
        let (words, other) = (words(&first.body), words(&second.body));
        let stable = (words.len() == other.len())
            .then(|| words.iter().zip(&other).map(|(one, two)| one == two).collect());
        Expected { page: first, words, stable }
    }

    /// Returns false if nothing but status and header can be compared.
    pub(super) fn is_comparable(&self) -> bool {
        self.stable.is_some()
    }

    /// Returns how an answer of the worker mode differs; `None` if it does not.
    pub(super) fn difference(&self, page: &Page) -> Option<String> {
        if page.status != self.page.status {
            return Some(format!("status {} instead of {}", page.status, self.page.status));
        }
        // Cookies are set in the first answer to a visitor, whichever mode gives it.
        let names = |page: &Page| -> BTreeSet<String> {
            let names = page.header.iter().map(|(name, _)| name.clone());
            names.filter(|name| name != "set-cookie").collect()
        };
        let (have, expected) = (names(page), names(&self.page));
        if let Some(name) = expected.difference(&have).next() {
            return Some(format!("the header field {name} is missing"));
        }
        if let Some(name) = have.difference(&expected).next() {
            return Some(format!("the header field {name} has been added"));
        }
        let values = |page: &Page| -> Vec<(String, String)> {
            let counts = |name: &str| {
                VOLATILE.contains(&name) || name == "content-length" || name == "set-cookie"
            };
            let mut all = page.header.clone();
            all.retain(|(name, _)| !counts(name));
            all.sort();
            all
        };
        let (have, expected) = (values(page), values(&self.page));
        if let Some(((name, value), (_, other))) =
            have.iter().zip(&expected).find(|(one, two)| one != two)
        {
            return Some(format!("{name}: {} instead of {}", quoted(value), quoted(other)));
        }
        self.body_difference(&page.body)
    }

    fn body_difference(&self, body: &str) -> Option<String> {
        let stable = self.stable.as_ref()?;
        let have = words(body);
        let differs = |(index, word): (usize, &String)| {
            stable[index] && have.get(index).is_none_or(|other| other != word)
        };
        let first = self.words.iter().enumerate().position(differs);
        let at = first.or_else(|| (have.len() != self.words.len()).then_some(self.words.len()))?;
        let text = |words: &[String]| match words.get(at.saturating_sub(2)..) {
            Some(rest) if !rest.is_empty() => quoted(&rest.concat()),
            _ => "nothing".to_owned(),
        };
        Some(format!("{} instead of {}", text(&have), text(&self.words)))
    }
}

/// Splits a text into words and the text between them. If other things change from one answer to
/// the next (numbers, tokens, times), the number of words mostly stays.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut was_word = None;
    for character in text.chars() {
        let is_word = character.is_alphanumeric();
        match words.last_mut() {
            Some(word) if was_word == Some(is_word) => word.push(character),
            _ => words.push(character.to_string()),
        }
        was_word = Some(is_word);
    }
    words
}

/// Returns the beginning of a text, on one line.
fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("\"{}\"", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: u16, header: &[(&str, &str)], body: &str) -> Page {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Page { status, header: header.iter().map(own).collect(), body: body.to_owned() }
    }

    #[test]
    fn what_differs_between_two_classic_answers_is_not_compared() {
        let html = |token: &str, name: &str| page(200, &[], &format!("<i>{token}</i>Hello {name}"));
        let expected = Expected::new(html("a1", "you"), &html("b2", "you"));
        assert!(expected.is_comparable());
        assert_eq!(expected.difference(&html("c3", "you")), None);
        let difference = expected.difference(&html("c3", "Ann")).unwrap();
        assert!(difference.contains("Ann") && difference.contains("you"), "{difference}");
        let cut = expected.difference(&page(200, &[], "<i>c3</i>")).unwrap();
        assert!(cut.starts_with("nothing instead of") || cut.contains("instead of"), "{cut}");
        assert!(expected.difference(&page(200, &[], "<i>c3</i>Hello you, too")).is_some());
    }

    #[test]
    fn pages_of_different_length_are_compared_by_status_and_header() {
        let expected = Expected::new(page(200, &[], "a b c"), &page(200, &[], "a"));
        assert!(!expected.is_comparable());
        assert_eq!(expected.difference(&page(200, &[], "quite different")), None);
        assert_eq!(
            expected.difference(&page(500, &[], "a b c")).unwrap(),
            "status 500 instead of 200"
        );
    }

    #[test]
    fn header_fields_are_compared_but_for_times_and_cookies() {
        let with = |header: &[(&str, &str)]| page(200, header, "");
        let usual = [("content-type", "text/html"), ("date", "1"), ("set-cookie", "a=1")];
        let expected = Expected::new(with(&usual), &with(&usual));
        let other = [("content-type", "text/html"), ("date", "2"), ("set-cookie", "a=2")];
        assert_eq!(expected.difference(&with(&other)), None);
        for (header, problem) in [
            (&[("date", "1")][..], "content-type is missing"),
            (
                &[("content-type", "text/html"), ("date", ""), ("set-cookie", ""), ("x", "")],
                "x has been added",
            ),
            (
                &[("content-type", "a/b"), ("date", "1"), ("set-cookie", "")],
                "\"a/b\" instead of \"text/html\"",
            ),
        ] {
            let difference = expected.difference(&with(header)).unwrap();
            assert!(difference.ends_with(problem), "{difference}");
        }
    }
}
