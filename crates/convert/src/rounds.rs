//! Further rounds of rules: Apache asks the rules again for the path that one of them leads to.

use crate::folder::Folder;
use crate::matching::Match;
use crate::rules::{Action, Step};
use crate::variants::finds;

/// Returns the folder whose rules see a path: the innermost of those that have some (`has_rules`), or the root.
pub fn folder_of<'b, 'a>(
    folders: &'b [Folder<'a>],
    path: &str,
    has_rules: impl Fn(&Folder<'a>) -> bool,
) -> Option<&'b Folder<'a>> {
    let inside = folders.iter().skip(1).filter(|folder| path.as_bytes().starts_with(&folder.url));
    let innermost = inside.filter(|folder| has_rules(folder)).max_by_key(|folder| folder.url.len());
    innermost.or(folders.first())
}

/// Returns true if a step leads a path elsewhere that it may not have led before: steps for all paths have been asked.
pub fn decides(step: &Step, path: &str) -> bool {
    let is_for_some = |matching: &Match| {
        !matching.is_first_round && !matching.uri.is_empty() && accepts(matching, path)
    };
    step.action != Action::Stop && step.matches.iter().any(is_for_some)
}

/// Returns true if the patterns of the path accept a path.
pub fn accepts(matching: &Match, path: &str) -> bool {
    let finds_it = |pattern: &str| match pattern.strip_prefix('~') {
        Some(text) => finds(text, path),
        None => crate::entry::accepts(pattern, path),
    };
    let (excluding, accepting): (Vec<&String>, Vec<&String>) =
        matching.uri.iter().partition(|pattern| pattern.starts_with('!'));
    (accepting.is_empty() || accepting.iter().any(|pattern| finds_it(pattern)))
        && !excluding.iter().any(|pattern| finds_it(&pattern[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(uri: &[&str], action: Action) -> Step {
        let uri = uri.iter().map(|&pattern| pattern.to_owned()).collect();
        Step { matches: vec![Match::uri(uri)], action }
    }

    #[test]
    fn a_path_belongs_to_the_innermost_folder_with_rules() {
        let folder =
            |url: &str, file: &'static str| Folder { url: url.into(), file, ..Folder::default() };
        let folders = [folder("/", "root"), folder("/a/", "rules"), folder("/a/b/", "none")];
        let file = |path| folder_of(&folders, path, |folder| folder.file == "rules").unwrap().file;
        assert_eq!(file("/a/b/x"), "rules");
        assert_eq!(file("/ab"), "root");
    }

    #[test]
    fn steps_for_some_paths_decide_again() {
        let refuse = Action::Refuse(403);
        assert!(decides(&step(&["~^/x"], refuse.clone()), "/x.txt"));
        assert!(decides(&step(&["!~^/y"], refuse.clone()), "/x.txt"));
        assert!(!decides(&step(&["/y*", "!~z"], refuse.clone()), "/x.txt"));
        assert!(!decides(&step(&[], refuse), "/x.txt"));
        assert!(!decides(&step(&["~^/x"], Action::Stop), "/x.txt"));
        let mut first = step(&["~^/x"], Action::Refuse(403));
        first.matches[0].is_first_round = true;
        assert!(!decides(&first, "/x.txt"));
    }
}
