//! Captures: texts that groups of a step's regular expressions have matched, for the step's
//! templates.
//!
//! The expressions are those of `uri` and `host`. `$1` to `$9` are the groups of the `uri`
//! expression that accepted the request; only if no expression of `uri` has a group, those of
//! `host`. `$name` is a group of that name, of `uri` before `host`. An expression with `!` has no
//! match when it holds, so its groups do not count.

use crate::groups::{Group, Groups};
use crate::pattern::{Pattern, Patterns};

/// Texts that groups have captured in one request. A group without a match is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures(Vec<(Group, Box<[u8]>)>);

impl Groups {
    /// Returns the groups of a pattern of a `map`.
    pub fn of_map(pattern: Option<&Pattern>) -> Groups {
        let mut patterns = Patterns::default();
        if let Some(pattern) = pattern {
            patterns.push(pattern.clone());
        }
        let mut groups = Groups::new(Some(&patterns), None);
        groups.is_of_map = true;
        groups
    }

    /// Returns the groups of these patterns.
    pub fn new(uri: Option<&Patterns>, host: Option<&Patterns>) -> Groups {
        let mut groups = Groups::default();
        for patterns in [uri, host].into_iter().flatten() {
            let own = patterns.accepting().filter_map(Pattern::regex);
            let count = own.clone().map(|regex| regex.captures_len() - 1).max().unwrap_or(0);
            if groups.count == 0 {
                groups.count = count;
            }
            groups.names.extend(own.flat_map(|r| r.capture_names().flatten()).map(str::to_owned));
        }
        groups
    }
}

impl Captures {
    /// Returns the captures of these patterns in a request that they accept.
    pub fn of(uri: Option<(&Patterns, &[u8])>, host: Option<(&Patterns, &[u8])>) -> Captures {
        let mut captures = Captures::default();
        let mut numbered = false;
        for (patterns, bytes) in [uri, host].into_iter().flatten() {
            let takes_numbers = !numbered;
            let has_groups = |regex: &regex::bytes::Regex| regex.captures_len() > 1;
            numbered |= patterns.accepting().filter_map(Pattern::regex).any(has_groups);
            let accepting = patterns.accepting().find(|pattern| pattern.matches(bytes));
            if let Some(regex) = accepting.and_then(Pattern::regex) {
                captures.add(regex, bytes, takes_numbers);
            }
        }
        captures
    }

    /// Returns the captures of a pattern in a text that it accepts.
    pub(crate) fn of_text(pattern: &Pattern, text: &[u8]) -> Captures {
        let mut captures = Captures::default();
        if let Some(regex) = pattern.regex() {
            captures.add(regex, text, true);
        }
        captures
    }

    /// Returns the capture of a group without an expression.
    pub(crate) fn of_name(name: &str, text: &[u8]) -> Captures {
        Captures(vec![(Group::Name(name.to_owned()), text.into())])
    }

    fn add(&mut self, regex: &regex::bytes::Regex, bytes: &[u8], takes_numbers: bool) {
        let Some(found) = regex.captures(bytes) else { return };
        for (number, (group, name)) in (0..).zip(found.iter().zip(regex.capture_names())) {
            let Some(text) = group.map(|group| group.as_bytes()) else { continue };
            if takes_numbers && (1..=9).contains(&number) {
                self.0.push((Group::Number(number), text.into()));
            }
            let name = name.map(|name| Group::Name(name.to_owned()));
            // A group of `uri` with the same name takes precedence.
            if let Some(name) = name.filter(|name| self.get(name).is_none()) {
                self.0.push((name, text.into()));
            }
        }
    }

    /// Returns the text that a group has captured.
    pub fn get(&self, group: &Group) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| other == group).map(|(_, text)| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Subject;

    fn patterns(list: &[&str], subject: Subject) -> Patterns {
        let mut patterns = Patterns::default();
        for text in list {
            patterns.push(Pattern::parse(text, subject).expect(text));
        }
        patterns
    }

    fn found(uri: &[&str], host: &[&str], path: &str, name: &str) -> String {
        let (uri, host) = (patterns(uri, Subject::Uri), patterns(host, Subject::Host));
        let uri = Some((&uri, path.as_bytes()));
        let captures = Captures::of(uri, Some((&host, b"blog.example.org")));
        let group = match name.parse() {
            Ok(number) => Group::Number(number),
            Err(_) => Group::Name(name.to_owned()),
        };
        String::from_utf8(captures.get(&group).unwrap_or(b"-").to_vec()).unwrap()
    }

    #[test]
    fn groups_are_found_by_number_and_by_name() {
        let uri = ["~^/(?P<section>[a-z]+)/(x)?(.*)$"];
        for (name, text) in [("1", "a"), ("section", "a"), ("2", "-"), ("3", "b/c"), ("4", "-")] {
            assert_eq!(found(&uri, &[], "/a/b/c", name), text, "{name}");
        }
    }

    #[test]
    fn the_first_expression_that_accepts_is_the_one_that_counts() {
        let uri = ["/plain", "!~^/(no)", "~^/(a)", "~^/(a|b)(.*)"];
        assert_eq!(found(&uri, &[], "/ab", "1"), "a");
        assert_eq!(found(&uri, &[], "/ab", "2"), "-");
        assert_eq!(found(&uri, &[], "/bc", "2"), "c");
        assert_eq!(found(&uri, &[], "/plain", "1"), "-");
    }

    #[test]
    fn numbers_are_those_of_the_host_only_if_the_path_has_none() {
        let host = [r"~^(?P<site>\w+)\."];
        assert_eq!(found(&["~^/"], &host, "/a", "1"), "blog");
        assert_eq!(found(&["~^/(a)"], &host, "/a", "1"), "a");
        assert_eq!(found(&["~^/(a)", "/b"], &host, "/b", "1"), "-");
        assert_eq!(found(&["~^/(a)"], &host, "/a", "site"), "blog");
        assert_eq!(found(&["~^/(?P<site>a)"], &host, "/a", "site"), "a");
    }

    #[test]
    fn the_groups_of_conditions_are_known_before_any_request() {
        let uri = patterns(&["~^/(a)(?P<b>b)", "!~(x)(y)(z)", "~^/(c)"], Subject::Uri);
        let host = patterns(&["~^(?P<site>.)(.)(.)"], Subject::Host);
        let groups = Groups::new(Some(&uri), Some(&host));
        assert_eq!(groups.count(), 2);
        assert!(groups.has_name("b") && groups.has_name("site") && !groups.has_name("a"));
        assert_eq!(Groups::new(None, Some(&host)).count(), 3);
    }
}
