//! `Vary` (RFC 9111, 4.1): the request fields that select one of several responses with one key,
//! and their normalised values.

use std::borrow::Cow;

use howdah_config::{Cache, VaryRule};
use howdah_http::message::{FieldBlock, Fields};

use crate::control::values;

/// Maximum number of fields in `Vary` of a stored response.
const MAX_NAMES: usize = 16;

/// Names of request fields in lower case, each with its normalised value; `None` for an absent one.
pub type Selection = Vec<(Box<[u8]>, Option<Box<[u8]>>)>;

/// Returns the selection of a response to a request. `None` if no other request can match: `*`, or
/// too many names.
pub fn selection(response: &FieldBlock, request: &Fields, settings: &Cache) -> Option<Selection> {
    let mut selection = Selection::new();
    if settings.ignore.vary {
        return Some(selection);
    }
    for name in values(response, "vary").flat_map(|value| value.split(|byte| *byte == b',')) {
        let name = name.trim_ascii().to_ascii_lowercase();
        if name.is_empty() || selection.iter().any(|(known, _)| **known == *name) {
            continue;
        }
        let rule = rule(settings, &name);
        if matches!(rule, Some(VaryRule::Ignored)) {
            continue;
        }
        if name == b"*" || selection.len() == MAX_NAMES {
            return None;
        }
        let value = normalised(request, &name, rule).map(|value| value.as_ref().into());
        selection.push((name.into(), value));
    }
    Some(selection)
}

/// Returns true if a request selects the response with this selection.
pub fn matches(selection: &Selection, request: &Fields, settings: &Cache) -> bool {
    selection.iter().all(|(name, wanted)| {
        let found = normalised(request, name, rule(settings, name));
        found.as_deref() == wanted.as_deref()
    })
}

/// Returns the request fields that the application gets in place of the client's: those with a
/// list of accepted values. `None` for a field that is removed.
pub fn accepted_fields(request: &Fields, settings: &Cache) -> Vec<(String, Option<String>)> {
    let mut changes = Vec::new();
    for (name, rule) in &settings.vary {
        if let VaryRule::Accepted(offered) = rule {
            let accepted = accepted(request, name.as_bytes(), offered);
            changes.push((name.clone(), accepted.map(str::to_owned)));
        }
    }
    changes
}

fn rule<'s>(settings: &'s Cache, name: &[u8]) -> Option<&'s VaryRule> {
    let found = settings.vary.iter().find(|(known, _)| known.as_bytes() == name);
    found.map(|(_, rule)| rule)
}

/// Returns the value of a request field by which responses are told apart.
fn normalised<'r>(
    request: &'r Fields,
    name: &[u8],
    rule: Option<&'r VaryRule>,
) -> Option<Cow<'r, [u8]>> {
    let named = |(n, _): &(&[u8], &[u8])| n.eq_ignore_ascii_case(name);
    match rule {
        Some(VaryRule::Ignored) => None,
        Some(VaryRule::Accepted(offered)) => {
            accepted(request, name, offered).map(|value| Cow::Borrowed(value.as_bytes()))
        }
        Some(VaryRule::Classes(classes)) => {
            let (_, value) = request.iter().find(named)?;
            let class = classes.iter().find(|(_, patterns)| patterns.matches(value));
            class.map(|(class, _)| Cow::Borrowed(class.as_bytes()))
        }
        None => {
            let mut all = request.iter().filter(named).map(|(_, value)| value).peekable();
            all.peek()?;
            let is_list = name.starts_with(b"accept");
            let elements = all.flat_map(|value| value.split(|byte| *byte == b','));
            let mut elements: Vec<_> = elements
                .map(|element| {
                    if is_list {
                        without_blanks(element).to_ascii_lowercase()
                    } else {
                        element.trim_ascii().to_vec()
                    }
                })
                .collect();
            if is_list {
                // The order of a list of preferences has no meaning (RFC 9110, 12.4.2).
                elements.sort_unstable();
            }
            Some(Cow::Owned(elements.join(&b","[..])))
        }
    }
}

fn without_blanks(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\t')).collect()
}

/// Returns the first offered value that a list of preferences accepts (RFC 9110, 12.4.2).
fn accepted<'o>(request: &Fields, name: &[u8], offered: &'o [String]) -> Option<&'o str> {
    let lines = request.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
    let elements = lines.flat_map(|(_, value)| value.split(|byte| *byte == b','));
    let mut accepted = Vec::new();
    for element in elements {
        let mut parts = element.split(|byte| *byte == b';');
        let value = parts.next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let is_refused = parts.any(|part| {
            let weight = part.trim_ascii().strip_prefix(b"q=");
            weight.is_some_and(|weight| weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
        });
        accepted.push((value, !is_refused));
    }
    let is_accepted = |offered: &&String| {
        let is = |value: &[u8]| {
            let rest = value.strip_prefix(offered.as_bytes());
            // A language accepts its regions: `de-AT` is `de`.
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
        };
        match accepted.iter().find(|(value, _)| is(value)) {
            Some((_, accepted)) => *accepted,
            None => accepted.iter().any(|(value, accepted)| value == b"*" && *accepted),
        }
    };
    offered.iter().find(is_accepted).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use howdah_config::{Pattern, Patterns, Subject};
    use proptest::prelude::*;

    use super::*;

    fn request(lines: &[(&str, &str)]) -> Fields {
        Fields::from_pairs(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    fn response(vary: &[&str]) -> FieldBlock {
        let mut fields = FieldBlock::default();
        vary.iter().for_each(|value| fields.push("Vary", value));
        fields
    }

    fn same(settings: &Cache, vary: &str, one: &[(&str, &str)], other: &[(&str, &str)]) -> bool {
        let found = selection(&response(&[vary]), &request(one), settings).unwrap();
        matches(&found, &request(other), settings)
    }

    #[test]
    fn named_fields_must_be_equal() {
        let settings = Cache::default();
        let same = |vary, one, other| same(&settings, vary, one, other);
        assert!(same("Foo", &[("foo", "1")], &[("Foo", " 1")]));
        assert!(!same("Foo", &[("foo", "1")], &[("Foo", "2")]));
        assert!(!same("Foo", &[("foo", "1")], &[]));
        assert!(!same("Foo", &[], &[("foo", "")]));
        assert!(same("Foo", &[], &[("bar", "1")]));
        assert!(!same("Foo, Bar", &[("foo", "1"), ("bar", "2")], &[("bar", "1"), ("foo", "2")]));
        assert!(same("Foo", &[("foo", "1,2")], &[("foo", "1"), ("foo", "2")]));
        assert!(same("Foo", &[("foo", "1 , 2")], &[("foo", "1,2")]));
        assert!(same(
            "Accept-Language",
            &[("accept-language", "en-US, de;q=0.5")],
            &[("accept-language", "DE; q=0.5,en-us")]
        ));
    }

    #[test]
    fn a_star_matches_no_request() {
        for vary in [&["*"][..], &["*, *"], &["", "*"], &[", *"], &["*, Foo"], &["Foo", "*"]] {
            let found = selection(&response(vary), &request(&[]), &Cache::default());
            assert_eq!(found, None, "{vary:?}");
        }
        let mut ignored = Cache::default();
        ignored.ignore.vary = true;
        assert_eq!(selection(&response(&["*"]), &request(&[]), &ignored), Some(vec![]));
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let names: Vec<_> = (0..17).map(|i| format!("f{i}")).collect();
        let found = |names: &[String]| {
            selection(&response(&[&names.join(",")]), &request(&[]), &Cache::default())
        };
        assert_eq!(found(&names[..16]).unwrap().len(), 16);
        assert_eq!(found(&names), None);
    }

    #[test]
    fn rules_reduce_values_to_classes() {
        let mut phone = Patterns::default();
        phone.push(Pattern::parse("*Mobile*", Subject::Header).unwrap());
        let list =
            |values: &[&str]| VaryRule::Accepted(values.iter().map(|v| (*v).into()).collect());
        let settings = Cache {
            vary: vec![
                ("cookie".into(), VaryRule::Ignored),
                ("user-agent".into(), VaryRule::Classes(vec![("phone".into(), phone)])),
                ("accept-encoding".into(), list(&["br", "gzip"])),
                ("accept-language".into(), list(&["de", "en"])),
            ],
            ..Cache::default()
        };
        let same = |vary, name, one, other| same(&settings, vary, &[(name, one)], &[(name, other)]);
        assert!(same("Cookie", "cookie", "a=1", "a=2"));
        assert!(same("User-Agent", "user-agent", "A Mobile/1", "B Mobile/2"));
        assert!(same("User-Agent", "user-agent", "A", "B"));
        assert!(!same("User-Agent", "user-agent", "A", "B Mobile"));
        assert!(same("Accept-Encoding", "accept-encoding", "gzip, deflate, br", "br;q=1.0, zstd"));
        assert!(!same("Accept-Encoding", "accept-encoding", "br;q=0, gzip", "br"));
        assert!(same("Accept-Language", "accept-language", "fr, de-AT", "de"));
        let changes = |lines| accepted_fields(&request(lines), &settings);
        let some = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        assert_eq!(
            changes(&[("accept-encoding", "zstd, gzip;q=0.1"), ("accept-language", "*")]),
            [some("accept-encoding", "gzip"), some("accept-language", "de")]
        );
        assert_eq!(
            changes(&[]),
            [("accept-encoding".to_owned(), None), ("accept-language".to_owned(), None)]
        );
    }

    proptest! {
        #[test]
        fn a_request_selects_its_own_response(
            vary in "[a-c, *]{0,9}",
            lines in prop::collection::vec(("[a-d]", "[ -~]{0,9}"), 0..6),
        ) {
            let lines: Vec<_> = lines.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let request = request(&lines);
            if let Some(found) = selection(&response(&[&vary]), &request, &Cache::default()) {
                prop_assert!(matches(&found, &request, &Cache::default()));
            }
        }
    }
}
