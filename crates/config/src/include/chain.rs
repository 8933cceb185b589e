//! Chains of files that include each other.

use std::path::{Component, Path, PathBuf};

use super::{Place, Reading, Source};

/// Maximum depth of files that include files.
const MAX_NESTED: usize = 8;

impl Reading<'_> {
    /// Refuses a file that is being read already, and one that is included by too many others. The
    /// error has the chain of files.
    pub(super) fn check_chain(&self, file: &Path, place: &Place) -> Result<(), String> {
        let including = |source: &&Source| self.sources.get(source.included_by?);
        let chain = std::iter::successors(self.sources.get(place.source), including);
        let mut chain: Vec<_> = chain.map(|source| source.file.as_path()).collect();
        let first = chain.iter().position(|above| plain(above) == plain(file));
        chain.truncate(first.map_or(chain.len(), |first| first + 1));
        let problem = match first {
            Some(_) => "is a circle",
            None if chain.len() > MAX_NESTED => "is nested in more than 8 files",
            None => return Ok(()),
        };
        let plain_name = |file: &&Path| plain(file).display().to_string();
        let mut files = chain.iter().rev().chain([&file]).map(plain_name);
        let first = files.next().unwrap_or_default();
        let others: Vec<_> = files.collect();
        let chain = others.join(", which includes ");
        let advice = "take one of these includes out";
        Err(self.problem(place, &format!("{problem}: {first} includes {chain}; {advice}")))
    }
}

/// Returns a path without `.` and `..`, as far as that is possible without the disk.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_without_detours() {
        for (path, expected) in [
            ("/a/./b/../c", "/a/c"),
            ("a/../../b", "../b"),
            ("../../a", "../../a"),
            ("./a//b/", "a/b"),
            ("/..", "/.."),
        ] {
            assert_eq!(plain(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
