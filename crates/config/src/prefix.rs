//! `prefix`: the part of a path that a share or a target removes before it looks up files, as
//! Apache's `Alias` and nginx's `alias` do.

use std::borrow::Cow;

use howdah_text::percent;

use crate::error::Error;
use crate::node::Node;

/// A decoded path of at least one segment, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(Box<[u8]>);

impl Prefix {
    /// Reads an encoded path, with or without a slash at its end. `None` if it is no path below
    /// `/`, or would change by normalisation.
    pub fn parse(text: &str) -> Option<Prefix> {
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.contains(['$', '?', '#']) {
            return None;
        }
        let path = percent::decode(text.as_bytes())?;
        let is_segment = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
        let is_path = { path.strip_prefix(b"/") }
            .is_some_and(|path| path.split(|byte| *byte == b'/').all(is_segment));
        (is_path && !path.contains(&0)).then(|| Prefix(path.into()))
    }

    /// Returns the decoded path.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the rest of a path below the prefix: empty for the prefix itself, otherwise a path.
    /// `None` for other paths: prefixes end at a slash.
    pub fn rest<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let rest = path.strip_prefix(&*self.0)?;
        (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
    }

    /// Returns a path with the prefix, if there is one, in front of it.
    pub fn join<'a>(prefix: Option<&Prefix>, path: &'a [u8]) -> Cow<'a, [u8]> {
        match prefix {
            Some(prefix) => Cow::Owned([&*prefix.0, path].concat()),
            None => Cow::Borrowed(path),
        }
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Prefix, Error> {
        let text = node.text()?;
        Prefix::parse(text).ok_or_else(|| {
            let error = node.invalid(
                "must be a path that starts with \"/\", without variables, a query, and segments \
                 that are empty, \".\" or \"..\"",
            );
            match text {
                "/" => error.with_hint("leave it out: every path is below \"/\""),
                _ => error.with_hint("write \"prefix\": \"/shop\" for requests below /shop/"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prefix_is_a_normal_path_below_the_root() {
        for (text, path) in [("/a", "/a"), ("/a/", "/a"), ("/a/b%20c", "/a/b c"), ("/.x", "/.x")] {
            assert_eq!(Prefix::parse(text).expect(text).as_bytes(), path.as_bytes());
        }
        for text in ["", "/", "//", "a", "/a//", "/a//b", "/./a", "/a/..", "/%2e%2e/a", "/a?b"] {
            assert_eq!(Prefix::parse(text), None, "{text}");
        }
        for text in ["/a%00", "/a%", "/$host", "/a#b", "/%2f"] {
            assert_eq!(Prefix::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_slash() {
        let prefix = Prefix::parse("/a/b/").expect("a prefix");
        let rest = |path: &'static str| prefix.rest(path.as_bytes());
        assert_eq!(rest("/a/b"), Some(&b""[..]));
        assert_eq!(rest("/a/b/"), Some(&b"/"[..]));
        assert_eq!(rest("/a/b/c.php/d"), Some(&b"/c.php/d"[..]));
        assert_eq!((rest("/a/bc"), rest("/a"), rest("/A/b/"), rest("")), (None, None, None, None));
        assert_eq!(&*Prefix::join(Some(&prefix), b"/c"), b"/a/b/c");
        assert_eq!(&*Prefix::join(None, b"/c"), b"/c");
    }

    proptest! {
        #[test]
        fn what_is_below_a_prefix_is_put_together_again(
            prefix in "/[a%2f./]{1,6}", path in "[a/.]{0,12}",
        ) {
            if let Some(prefix) = Prefix::parse(&prefix)
                && let Some(rest) = prefix.rest(path.as_bytes())
            {
                prop_assert_eq!(&*Prefix::join(Some(&prefix), rest), path.as_bytes());
                prop_assert!(!prefix.as_bytes().ends_with(b"/"));
            }
        }
    }
}
