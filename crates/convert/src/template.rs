//! Targets of rules and redirects, as templates of routes.

use crate::condition::Captures;

/// A target, translated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    /// Template: a path with a slash at its start, or a URL.
    pub text: String,
    /// Query behind it; empty for `?` alone, `None` without one.
    pub query: Option<String>,
    /// The query is that of the request (`?%{QUERY_STRING}`).
    pub has_own_query: bool,
    /// It has no variable.
    pub is_literal: bool,
    /// It uses groups of the rule's pattern.
    pub uses_groups: bool,
    /// It uses groups of the condition on the host.
    pub uses_host_groups: bool,
}

/// What a target may refer to.
pub struct Names<'a> {
    /// The rule's pattern takes the whole path below the root in its only group.
    pub first_is_whole: bool,
    /// Number of groups of the rule's pattern that can be used.
    pub groups: usize,
    /// What `%1` stands for.
    pub captures: &'a Captures,
    /// Value of the variable `BASE`, if a rule sets it to the path of the directory.
    pub base: Option<&'a str>,
}

/// Translates a target.
///
/// # Errors
///
/// The reason why routes cannot express it.
pub fn parse(target: &str, names: &Names<'_>) -> Result<Template, String> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut template = Template { is_literal: true, ..Template::default() };
    template.text = expand(path, names, &mut template)?;
    match query {
        Some("%{QUERY_STRING}") => template.has_own_query = true,
        Some(query) => template.query = Some(expand(query, names, &mut template)?),
        None => {}
    }
    Ok(template)
}

fn expand(text: &str, names: &Names<'_>, template: &mut Template) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let digit = after.chars().next().filter(char::is_ascii_digit);
        match (c, digit) {
            ('\\', _) => {
                let escaped = after.chars().next().unwrap_or('\\');
                push(&mut expanded, escaped);
                rest = after.get(escaped.len_utf8()..).unwrap_or_default();
                continue;
            }
            ('$', Some('1')) if names.first_is_whole && expanded.ends_with('/') => {
                expanded.pop();
                expanded.push_str("$uri");
                template.is_literal = false;
                rest = &after[1..];
            }
            ('$', Some(digit)) => {
                let number = digit as usize - '0' as usize;
                if number == 0 || number > names.groups {
                    return Err(format!("routes have no ${number} here"));
                }
                expanded.push_str(&format!("${{{number}}}"));
                template.uses_groups = true;
                template.is_literal = false;
                rest = &after[1..];
            }
            ('%', Some(digit)) => {
                let number = digit as usize - '0' as usize;
                match names.captures {
                    Captures::Host(pattern) if (1..=pattern.groups).contains(&number) => {
                        let letter =
                            char::from(b'a' + u8::try_from(number - 1).unwrap_or_default());
                        expanded.push_str(&format!("${{{HOST_GROUP}{letter}}}"));
                        template.uses_host_groups = true;
                    }
                    Captures::Path if number > 0 => {
                        expanded.push_str(&format!("${{{number}}}"));
                        template.uses_groups = true;
                    }
                    _ => return Err(format!("routes have no %{number} here")),
                }
                template.is_literal = false;
                rest = &after[1..];
            }
            ('%', None) if after.starts_with('{') => {
                let end = after.find('}').ok_or("it has an open brace")?;
                let variable = match &after[1..end] {
                    "HTTP_HOST" | "SERVER_NAME" | "HTTP:Host" => "${host}",
                    "REQUEST_URI" => "${uri}",
                    "REQUEST_SCHEME" => "${scheme}",
                    "ENV:BASE" => match names.base {
                        Some(base) => {
                            expanded.push_str(base);
                            rest = &after[end + 1..];
                            continue;
                        }
                        None => return Err("routes do not know %{ENV:BASE}".to_owned()),
                    },
                    name => return Err(format!("routes do not know %{{{name}}}")),
                };
                expanded.push_str(variable);
                template.is_literal = false;
                rest = &after[end + 1..];
            }
            ('$', None) if after.starts_with('{') => {
                return Err("routes have no maps".to_owned());
            }
            (c, _) => {
                push(&mut expanded, c);
                rest = after;
            }
        }
    }
    Ok(expanded)
}

/// Beginning of the names of groups on the host.
pub const HOST_GROUP: &str = "host_";

/// Appends a character that stands for itself.
fn push(text: &mut String, c: char) {
    match c {
        '$' => text.push_str("${dollar}"),
        c => text.push(c),
    }
}

/// Returns a text in which no character begins a variable.
pub fn literal(text: &str) -> String {
    text.replace('$', "${dollar}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcre::Pattern;

    fn parsed(target: &str, first_is_whole: bool) -> Result<Template, String> {
        let captures = Captures::Host(Pattern::parse("^(.*)$").unwrap());
        parse(target, &Names { first_is_whole, groups: 2, captures: &captures, base: Some("") })
    }

    #[test]
    fn groups_and_variables_have_the_names_of_routes() {
        let template = parsed("https://%{HTTP_HOST}/b/$2/$1?x=$1", false).unwrap();
        assert_eq!(template.text, "https://${host}/b/${2}/${1}");
        assert_eq!(template.query.as_deref(), Some("x=${1}"));
        assert_eq!(
            parsed("https://%1%{REQUEST_URI}", false).unwrap().text,
            "https://${host_a}${uri}"
        );
        assert_eq!(parsed("%{ENV:BASE}/index.php", false).unwrap().text, "/index.php");
    }

    #[test]
    fn the_whole_path_is_that_of_the_request() {
        assert_eq!(parsed("https://a.example/$1", true).unwrap().text, "https://a.example$uri");
    }

    #[test]
    fn what_routes_do_not_have_is_refused() {
        for target in ["/$0", "/$3", "/%2", "${map:$1}", "/%{TIME}", "%{ENV:X}"] {
            assert!(parsed(target, false).is_err(), "{target}");
        }
    }

    #[test]
    fn a_dollar_is_one() {
        assert_eq!(parsed("/a\\$1$", false).unwrap().text, "/a${dollar}1${dollar}");
    }
}
