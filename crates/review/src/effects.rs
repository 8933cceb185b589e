//! Directives that had an effect on a request.
//!
//! A directive has none if the answer is the same without it. The directives are taken away one by
//! one, from the last to the first: those that are left give the same answer as all of them, and
//! none of them can be missed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use howdah_htaccess::parse::review::Line;

/// Maximum number of directives that are taken away: each takes a request through all phases.
const MAX_DIRECTIVES: usize = 3000;

/// Lines that are left out of files.
pub type Removed = BTreeMap<PathBuf, BTreeSet<u32>>;

/// Returns the directives that had an effect, in the order of their files and lines; `None` if
/// there are too many.
///
/// `answer` describes the answer to the request without some lines.
pub fn effective(
    files: &[(PathBuf, Vec<Line>)],
    mut answer: impl FnMut(&Removed) -> String,
) -> Option<Vec<(&Path, &Line)>> {
    if files.iter().map(|(_, lines)| lines.len()).sum::<usize>() > MAX_DIRECTIVES {
        return None;
    }
    let mut removed = Removed::new();
    let expected = answer(&removed);
    let mut effective = Vec::new();
    for (path, lines) in files.iter().rev() {
        for line in lines.iter().rev().filter(|line| !line.text.trim_start().starts_with('<')) {
            removed.entry(path.clone()).or_default().insert(line.number);
            if answer(&removed) != expected {
                removed.entry(path.clone()).or_default().remove(&line.number);
                effective.push((path.as_path(), line));
            }
        }
    }
    effective.reverse();
    Some(effective)
}

/// Empties lines of a file, with the lines that they continue. Their numbers are those of their
/// last parts.
pub fn without(bytes: &[u8], numbers: &BTreeSet<u32>) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    for &number in numbers {
        let mut at = number as usize;
        while at > 0 {
            at -= 1;
            let Some(line) = lines.get_mut(at) else { break };
            *line = b"";
            let is_continued =
                |line: &&[u8]| line.strip_suffix(b"\r").unwrap_or(line).ends_with(b"\\");
            if at == 0 || !lines.get(at - 1).is_some_and(is_continued) {
                break;
            }
        }
    }
    lines.join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32, text: &str) -> Line {
        Line { number, text: text.to_owned() }
    }

    #[test]
    fn of_two_directives_with_the_same_effect_the_first_is_named() {
        let path = PathBuf::from("/a");
        let files =
            [(path.clone(), vec![line(1, "x"), line(2, "<b"), line(3, "  y"), line(4, "z")])];
        // The answer depends on one of the lines 1 and 4, and not on 3.
        let answer = |removed: &Removed| {
            let lines = removed.get(&path).cloned().unwrap_or_default();
            (lines.contains(&1) && lines.contains(&4)).to_string()
        };
        let effective = effective(&files, answer).unwrap();
        assert_eq!(effective, [(path.as_path(), &files[0].1[0])]);
    }

    #[test]
    fn a_continued_line_is_emptied_with_what_it_continues() {
        let numbers = BTreeSet::from([3]);
        assert_eq!(without(b"a\nb \\\nc\nd", &numbers), b"a\n\n\nd");
        assert_eq!(without(b"a", &BTreeSet::from([9])), b"a");
    }
}
