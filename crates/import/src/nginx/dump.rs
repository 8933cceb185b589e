//! The output of `nginx -T`: all files of a configuration in one text.

use std::path::{Path, PathBuf};

use crate::source::{is_match, is_pattern};

/// The files in the output of `nginx -T`.
#[derive(Debug)]
pub struct Dump {
    /// The file with the output.
    pub path: PathBuf,
    /// Name, text and number of the first line of each file.
    files: Vec<(PathBuf, String, u32)>,
}

const MARK: &str = "# configuration file ";

impl Dump {
    /// Reads the output; `None` if the text is not one.
    pub fn parse(path: &Path, text: &str) -> Option<Dump> {
        let first = text.lines().find(|line| !line.starts_with("nginx: "))?;
        name_of(first)?;
        let mut files: Vec<(PathBuf, String, u32)> = Vec::new();
        let mut number = 0_u32;
        for line in text.split_inclusive('\n') {
            number = number.saturating_add(1);
            match (name_of(line.trim_end_matches(['\r', '\n'])), files.last_mut()) {
                (Some(name), _) => files.push((name, String::new(), number.saturating_add(1))),
                (None, Some((_, text, _))) => text.push_str(line),
                (None, None) => {}
            }
        }
        Some(Dump { path: path.to_owned(), files })
    }

    /// Returns the name of the main file.
    pub fn main(&self) -> PathBuf {
        self.files.first().map(|(name, ..)| name.clone()).unwrap_or_default()
    }

    /// Returns the text of a file and the number of its first line.
    pub fn file(&self, path: &Path) -> Option<(String, u32)> {
        let found = self.files.iter().find(|(name, ..)| name == path);
        found.map(|(_, text, line)| (text.clone(), *line))
    }

    /// Returns the files that an `include` names, in the order of their names.
    pub fn included(&self, pattern: &str) -> Vec<PathBuf> {
        let main = self.main();
        let directory = main.parent().unwrap_or(Path::new("/"));
        let wanted = directory.join(pattern);
        let wanted = wanted.to_string_lossy();
        let matches = |name: &Path| {
            let name = name.to_string_lossy();
            if !is_pattern(&wanted) {
                return name == wanted;
            }
            let (mut parts, mut names) = (wanted.split('/'), name.split('/'));
            loop {
                match (parts.next(), names.next()) {
                    (None, None) => return true,
                    (Some(part), Some(name)) if is_match(part.as_bytes(), name.as_bytes()) => {}
                    _ => return false,
                }
            }
        };
        let mut found: Vec<PathBuf> = Vec::new();
        for (name, ..) in &self.files {
            if matches(name) && !found.contains(name) {
                found.push(name.clone());
            }
        }
        found.sort();
        found
    }
}

fn name_of(line: &str) -> Option<PathBuf> {
    let name = line.strip_prefix(MARK)?.strip_suffix(':')?;
    name.starts_with('/').then(|| PathBuf::from(name))
}
