//! Constraints as Composer's own documentation and parser mean them.

use proptest::prelude::*;

use super::*;

/// Returns the versions that a constraint allows, of those that Debian and others have packages of.
fn allowed(constraint: &str) -> Vec<&'static str> {
    const VERSIONS: [&str; 8] =
        ["5.6.40", "7.4.33", "8.0.30", "8.1.0", "8.1.27", "8.2.36", "8.3.6", "8.4.21"];
    let constraint = Constraint::parse(constraint).unwrap();
    VERSIONS.into_iter().filter(|version| constraint.allows(version)).collect()
}

#[test]
fn constraints_allow_what_composer_allows() {
    for (constraint, expected) in [
        ("^8.1", &["8.1.0", "8.1.27", "8.2.36", "8.3.6", "8.4.21"][..]),
        ("^8.1.1", &["8.1.27", "8.2.36", "8.3.6", "8.4.21"]),
        ("~8.2.0", &["8.2.36"]),
        ("~8.2", &["8.2.36", "8.3.6", "8.4.21"]),
        ("~8", &["8.0.30", "8.1.0", "8.1.27", "8.2.36", "8.3.6", "8.4.21"]),
        (">=8.1 <8.4", &["8.1.0", "8.1.27", "8.2.36", "8.3.6"]),
        (">=8.1,<8.4", &["8.1.0", "8.1.27", "8.2.36", "8.3.6"]),
        (">= 8.1 , < 8.3", &["8.1.0", "8.1.27", "8.2.36"]),
        ("8.*", &["8.0.30", "8.1.0", "8.1.27", "8.2.36", "8.3.6", "8.4.21"]),
        ("8.1.x", &["8.1.0", "8.1.27"]),
        ("8.1.*@dev", &["8.1.0", "8.1.27"]),
        ("8.1", &["8.1.0"]),
        ("v8.1.27", &["8.1.27"]),
        ("7.4.* || ~8.3.0", &["7.4.33", "8.3.6"]),
        ("7.4.*|~8.3.0", &["7.4.33", "8.3.6"]),
        ("^7.4 || ^8.0 !=8.1.27", &["7.4.33", "8.0.30", "8.1.0", "8.2.36", "8.3.6", "8.4.21"]),
        ("^8.0 <>8.1.*", &["8.0.30", "8.2.36", "8.3.6", "8.4.21"]),
        ("8.0 - 8.2", &["8.0.30", "8.1.0", "8.1.27", "8.2.36"]),
        ("8.0.0 - 8.1.0", &["8.0.30", "8.1.0"]),
        ("5.6 - 7 || 8.3 - 8.3", &["5.6.40", "7.4.33", "8.3.6"]),
        (">8.1.0 <=8.2.36", &["8.1.27", "8.2.36"]),
        ("<8.2", &["5.6.40", "7.4.33", "8.0.30", "8.1.0", "8.1.27"]),
        ("^8.4-dev@beta", &["8.4.21"]),
        (">=8.4.0-RC1", &["8.4.21"]),
        ("dev-master || ^8.4", &["8.4.21"]),
        ("^0.3", &[]),
    ] {
        assert_eq!(allowed(constraint), expected, "{constraint}");
    }
    assert_eq!(allowed("*").len(), 8);
    assert_eq!(allowed(">=5.3.3").len(), 8);
    assert_eq!(allowed("@stable").len(), 8);
}

#[test]
fn a_caret_keeps_the_first_number_that_is_not_zero() {
    let allows = |constraint: &str, version| Constraint::parse(constraint).unwrap().allows(version);
    assert!(allows("^0.3", "0.3.9") && !allows("^0.3", "0.4.0"));
    assert!(allows("^0.0.3", "0.0.3") && !allows("^0.0.3", "0.0.4"));
    assert!(allows("^0", "0.9.9") && !allows("^0", "1.0.0"));
}

#[test]
fn what_is_no_constraint_is_refused() {
    for text in [
        "",
        " ",
        "||",
        "^8.1 ||",
        "| 8",
        "php",
        ">=",
        "8.1 -",
        "- 8.1",
        "^8.1 - 8.2",
        "8.1.2.3.4",
        "8..1",
        "8.1-foo",
        "=>8.1",
        "99999999999999",
        "8.*.1",
        "\u{fe0f}8",
        "^^8",
        "8.1;8.2",
    ] {
        assert_eq!(Constraint::parse(text), None, "{text}");
    }
}

/// A constraint that means the same as another one.
fn written() -> impl Strategy<Value = (String, [u32; 3])> {
    let operators = prop::sample::select(vec!["^", "~", ">=", "", "!=", "<", ">", "<="]);
    (operators, 0..9u32, 0..9u32, 0..9u32)
        .prop_map(|(operator, a, b, c)| (format!("{operator}{a}.{b}.{c}"), [a, b, c]))
}

proptest! {
    /// The meaning of an operator with three numbers, written down in another way.
    #[test]
    fn operators_compare_numbers((text, [a, b, c]) in written(), x in 0..9u32, y in 0..9u32, z in 0..9u32) {
        let (own, other) = ((a, b, c), (x, y, z));
        let expected = match text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "^" if a > 0 => other >= own && x == a,
            "^" if b > 0 => other >= own && (x, y) == (a, b),
            "^" => other == own,
            "~" => other >= own && (x, y) == (a, b),
            ">=" => other >= own,
            "!=" => other != own,
            "<" => other < own,
            ">" => other > own,
            "<=" => other <= own,
            _ => other == own,
        };
        let constraint = Constraint::parse(&text).unwrap();
        prop_assert_eq!(constraint.allows(&format!("{x}.{y}.{z}")), expected);
    }

    /// Wildcards and ranges of one to four numbers, as sets of the numbers that versions begin with.
    #[test]
    fn missing_numbers_are_open_in_wildcards_and_at_the_end_of_ranges(
        own in prop::collection::vec(0..4u32, 1..5),
        last in prop::collection::vec(0..4u32, 1..5),
        version in prop::collection::vec(0..4u32, 3),
        wildcard in prop::sample::select(vec!["*", "x", "X"]),
    ) {
        let written = |numbers: &[u32]| {
            numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
        };
        let padded = |numbers: &[u32]| std::array::from_fn::<_, 4, _>(|at| {
            numbers.get(at).copied().unwrap_or(0)
        });
        let allows = |text: &str| Constraint::parse(text).unwrap().allows(&written(&version));
        if own.len() < 4 {
            let expected = version.starts_with(&own);
            prop_assert_eq!(allows(&format!("{}.{wildcard}", written(&own))), expected);
            prop_assert_eq!(allows(&format!("!={}.{wildcard}", written(&own))), !expected);
        }
        let is_open = last.len() < 3 && version.starts_with(&last);
        let (own_padded, padded_version) = (padded(&own), padded(&version));
        let expected = padded_version >= own_padded && (padded_version <= padded(&last) || is_open);
        let range = format!("{} - {}", written(&own), written(&last));
        prop_assert_eq!(allows(&range), expected, "{}", range);
    }

    /// `|`, `||` and spaces join constraints.
    #[test]
    fn joined_constraints_mean_either_or_both((a, _) in written(), (b, _) in written(), x in 0..9u32, y in 0..9u32) {
        let version = format!("{x}.{y}.0");
        let allows = |text: &str| Constraint::parse(text).unwrap().allows(&version);
        prop_assert_eq!(allows(&format!("{a} || {b}")), allows(&a) || allows(&b));
        prop_assert_eq!(allows(&format!("{a}|{b}")), allows(&a) || allows(&b));
        prop_assert_eq!(allows(&format!("{a}, {b}")), allows(&a) && allows(&b));
        prop_assert_eq!(allows(&format!("{a} {b}")), allows(&a) && allows(&b));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "[-0-9.*xX<>=!~^|, @a-z\u{fe0f}]{0,40}", version in ".{0,12}") {
        if let Some(constraint) = Constraint::parse(&text) {
            let _ = constraint.allows(&version);
        }
    }
}
