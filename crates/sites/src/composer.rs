//! Constraints of Composer for versions of PHP, such as `^8.1 || ~8.0.2`.
//!
//! Only releases of PHP are compared, so the stability of a constraint (`@dev`, `-RC1`) is read
//! and ignored.

use std::ops::ControlFlow;

/// A version of four numbers, as Composer compares them.
type Version = [u32; 4];

/// A constraint: alternatives, each a list of comparisons that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint(Vec<Vec<Comparison>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// At least the first version and below the second one.
    Within(Version, Version),
    /// Not at least the first version and below the second one.
    Without(Version, Version),
    /// A branch, which is no release.
    Never,
}

const FIRST: Version = [0; 4];

/// Above all versions.
const LAST: Version = [u32::MAX; 4];

impl Constraint {
    /// Reads a constraint. `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Constraint> {
        let alternatives = text.split("||").flat_map(|part| part.split('|'));
        alternatives.map(comparisons).collect::<Option<_>>().map(Constraint)
    }

    /// Returns true if a version, such as `8.4.21`, is allowed.
    pub fn allows(&self, version: &str) -> bool {
        let Some(Numbers { version, .. }) = Numbers::parse(version) else { return false };
        self.0.iter().any(|all| all.iter().all(|comparison| comparison.holds(version)))
    }
}

impl Comparison {
    fn holds(self, version: Version) -> bool {
        match self {
            Comparison::Within(from, below) => (from..below).contains(&version),
            Comparison::Without(from, below) => !(from..below).contains(&version),
            Comparison::Never => false,
        }
    }
}

/// Reads comparisons that must all hold.
fn comparisons(text: &str) -> Option<Vec<Comparison>> {
    let words = text.split([',', ' ', '\t', '\r', '\n']).filter(|word| !word.is_empty());
    let mut words = words.peekable();
    let mut all = Vec::new();
    while let Some(word) = words.next() {
        let (operator, rest) = operator(word);
        // A space may follow the operator.
        let version = if rest.is_empty() { words.next()? } else { rest };
        if words.next_if_eq(&"-").is_some() {
            if !operator.is_empty() {
                return None;
            }
            let last = Numbers::parse(words.next()?)?;
            let below = if last.given < 3 { last.next(last.given) } else { last.next(4) };
            all.push(Comparison::Within(Numbers::parse(version)?.version, below));
        } else {
            all.push(comparison(operator, version)?);
        }
    }
    if all.is_empty() { None } else { Some(all) }
}

/// Returns the operator that a word begins with, which may be empty, and the rest.
fn operator(word: &str) -> (&str, &str) {
    const OPERATORS: [&str; 10] = [">=", "<=", "!=", "<>", "==", ">", "<", "=", "^", "~"];
    let found = OPERATORS.iter().find(|operator| word.starts_with(**operator));
    word.split_at(found.map_or(0, |operator| operator.len()))
}

fn comparison(operator: &str, text: &str) -> Option<Comparison> {
    if text.starts_with("dev-") {
        return Some(Comparison::Never);
    }
    if text.starts_with('@') {
        return operator.is_empty().then_some(Comparison::Within(FIRST, LAST));
    }
    let numbers = Numbers::parse(text)?;
    let Numbers { version, given, is_open } = numbers;
    // One version, or all that begin with the numbers in front of a wildcard.
    let next = match (is_open, given) {
        (true, 0) => LAST,
        (true, given) => numbers.next(given),
        (false, _) => numbers.next(4),
    };
    Some(match operator {
        "" | "=" | "==" => Comparison::Within(version, next),
        "!=" | "<>" => Comparison::Without(version, next),
        ">=" => Comparison::Within(version, LAST),
        ">" => Comparison::Within(next, LAST),
        "<" => Comparison::Within(FIRST, version),
        "<=" => Comparison::Within(FIRST, next),
        // The last given number may grow.
        "~" => Comparison::Within(version, numbers.next(given.saturating_sub(1).max(1))),
        // What is in front of the first number that is not 0 stays as it is.
        "^" => {
            let first = version.iter().take(given).position(|number| *number != 0);
            Comparison::Within(version, numbers.next(first.map_or(given.max(1), |at| at + 1)))
        }
        _ => return None,
    })
}

/// The numbers of a version.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    version: Version,
    /// How many of them are written.
    given: usize,
    /// A wildcard follows them.
    is_open: bool,
}

impl Numbers {
    /// Reads a version, such as `8.1`, `v8.*` or `8.4.0-RC1@beta`.
    fn parse(text: &str) -> Option<Numbers> {
        let text = text.split(['@', '+', '#']).next()?;
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let is_numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | '*' | 'x' | 'X');
        let (numbers, stability) =
            text.split_at(text.find(|c| !is_numeric(c)).unwrap_or(text.len()));
        if !is_stability(stability) {
            return None;
        }
        let (mut version, mut given, mut is_open) = (FIRST, 0, false);
        let read = numbers.trim_end_matches('.').split('.').try_for_each(|part| {
            let is_wildcard = matches!(part, "*" | "x" | "X");
            match version.get_mut(given) {
                Some(_) if is_wildcard => is_open = true,
                Some(number) if !is_open => match part.parse() {
                    Ok(value) => {
                        *number = value;
                        given += 1;
                    }
                    Err(_) => return ControlFlow::Break(()),
                },
                _ => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        });
        read.is_continue().then_some(Numbers { version, given, is_open })
    }

    /// Returns the first version with a greater number at a place, counted from 1.
    fn next(&self, place: usize) -> Version {
        let mut version = FIRST;
        for (at, (next, own)) in version.iter_mut().zip(self.version).enumerate().take(place) {
            *next = if at + 1 == place { own.saturating_add(1) } else { own };
        }
        version
    }
}

/// Returns true for what may follow the numbers of a version, such as `-RC1` or `beta.2-dev`.
fn is_stability(text: &str) -> bool {
    const NAMES: [&str; 11] =
        ["dev", "stable", "alpha", "beta", "rc", "patch", "pl", "a", "b", "p", ""];
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split(['-', '_', '.']);
    parts.all(|part| NAMES.contains(&part.trim_end_matches(|c: char| c.is_ascii_digit())))
}

#[cfg(test)]
mod tests;
