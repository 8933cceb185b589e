//! The names under which PHP knows arguments, fields of forms and cookies.
//!
//! PHP has `_` for bytes that no variable's name has, and reads the text in brackets as the key of
//! an array: a client can name an argument in several ways. Conditions must know all of them.

use std::borrow::Cow;

/// Returns the name of the variable that PHP makes of a decoded name (`php_register_variable_ex`);
/// empty if it makes none.
pub fn php_name(name: &[u8]) -> Cow<'_, [u8]> {
    let is_special = |byte: &u8| matches!(byte, 0 | b' ' | b'.' | b'[');
    let Some(first) = name.iter().position(is_special) else { return Cow::Borrowed(name) };
    let blanks = name.iter().take_while(|byte| **byte == b' ').count();
    let end = memchr::memchr(0, name).unwrap_or(name.len());
    let name = name.get(blanks..end).unwrap_or_default();
    let bracket = memchr::memchr(b'[', name);
    let name = match bracket {
        Some(at) if name[at..].contains(&b']') => &name[..at], // `at` is an index of `name`
        _ => name,
    };
    if first >= blanks && !name.iter().any(is_special) {
        return Cow::Borrowed(name);
    }
    let underlined = |byte: &u8| if matches!(byte, b' ' | b'.' | b'[') { b'_' } else { *byte };
    Cow::Owned(name.iter().map(underlined).collect())
}

/// Returns true if an application may know a decoded name as `wanted`: it is that, or PHP makes it
/// that.
pub fn is_known_as(name: &[u8], wanted: &[u8]) -> bool {
    name == wanted || *php_name(name) == *wanted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_php() {
        for (name, expected) in [
            ("rest_route", "rest_route"),
            ("rest.route", "rest_route"),
            ("rest route", "rest_route"),
            ("  a", "a"),
            ("a\0b", "a"),
            ("a[", "a_"),
            ("a[b.c d[e", "a_b_c_d_e"),
            ("a[b]c.d", "a"),
            ("a.b[c]", "a_b"),
            ("a[\0]", "a_"),
            ("[a]", ""),
            ("a\t", "a\t"),
            ("", ""),
        ] {
            assert_eq!(php_name(name.as_bytes()), expected.as_bytes(), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_php_has_made_is_its_own(name in "[ab. \\[\\]\0_]{0,12}") {
            let once = php_name(name.as_bytes()).into_owned();
            prop_assert!(!once.iter().any(|byte| matches!(byte, 0 | b' ' | b'.' | b'[')));
            prop_assert_eq!(&*php_name(&once), &*once);
            prop_assert!(is_known_as(name.as_bytes(), &once));
        }
    }
}
