//! What directories of sites contain: constraints of `composer.json`.

use howdah_sites::composer::Constraint;

use crate::split;

/// The versions that every constraint is tried with, beside that of the input.
const VERSIONS: [&str; 6] = ["5.6.40", "7.4.33", "8.0.0", "8.1.27", "8.2.36", "8.4.21"];

/// First line: a version; the rest: a constraint. Joining a constraint with itself or with one that
/// allows nothing changes nothing, and simple ones mean what a plain comparison of numbers says.
pub fn composer(input: &[u8]) {
    let (version, constraint) = split(input);
    let Ok(constraint) = std::str::from_utf8(constraint) else { return };
    let version = std::str::from_utf8(version).unwrap_or_default();
    let parsed = Constraint::parse(constraint);
    let mut joined = vec![
        format!(" {constraint}\t"),
        format!("{constraint}||{constraint}"),
        format!("{constraint} | dev-none"),
    ];
    // After alternatives, the comma would belong to the last one.
    if parsed.is_some() && !constraint.contains('|') {
        joined.push(format!("{constraint}, >=0"));
    }
    for text in joined {
        let other = Constraint::parse(&text);
        assert_eq!(other.is_some(), parsed.is_some(), "{text:?}");
        if let (Some(parsed), Some(other)) = (&parsed, other) {
            for version in VERSIONS.into_iter().chain([version]) {
                assert_eq!(parsed.allows(version), other.allows(version), "{text:?} {version:?}");
            }
        }
    }
    let Some(parsed) = parsed else {
        assert!(plainly(constraint, [8, 2, 36, 0]).is_none(), "{constraint:?} is simple");
        return;
    };
    for version in VERSIONS {
        let mut numbers = [0; 4];
        for (number, part) in numbers.iter_mut().zip(version.split('.')) {
            *number = part.parse().expect("a number");
        }
        if let Some(expected) = plainly(constraint, numbers) {
            assert_eq!(parsed.allows(version), expected, "{constraint:?} {version}");
        }
    }
}

/// Compares numbers: alternatives of comparisons with an operator and up to four numbers. `None`
/// for anything else.
fn plainly(constraint: &str, version: [u64; 4]) -> Option<bool> {
    let mut is_allowed = false;
    for alternative in constraint.split("||") {
        let mut all = true;
        let mut words = alternative.split(' ').filter(|word| !word.is_empty()).peekable();
        words.peek()?;
        for word in words {
            all &= holds(word, version)?;
        }
        is_allowed |= all;
    }
    Some(is_allowed)
}

fn holds(word: &str, version: [u64; 4]) -> Option<bool> {
    let digits = word.find(|c: char| c.is_ascii_digit())?;
    let (operator, numbers) = word.split_at(digits);
    let (mut own, mut given) = ([0; 4], 0);
    for part in numbers.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *own.get_mut(given)? = part.parse().ok().filter(|n| is_number && *n < 1_000_000)?;
        given += 1;
    }
    let begins_alike = |count: usize| version[..count] == own[..count];
    Some(match operator {
        "" | "=" | "==" => version == own,
        "!=" | "<>" => version != own,
        ">=" => version >= own,
        "<=" => version <= own,
        ">" => version > own,
        "<" => version < own,
        "~" => version >= own && begins_alike(given.max(2) - 1),
        "^" => {
            let zeros = own[..given].iter().take_while(|number| **number == 0).count();
            version >= own && begins_alike(given.min(zeros + 1))
        }
        _ => return None,
    })
}
