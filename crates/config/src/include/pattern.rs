//! Patterns in the names of files.

use std::path::{Path, PathBuf};

use howdah_text::wildcard::{Rules, matches};
use serde_json::Value;

use super::{Place, Reading};
use crate::node::Shown;

impl Reading<'_> {
    /// Returns a note about files beside those of sites that were probably meant to be sites: their
    /// names do not end in `.json`, which the patterns `*.json` demand. Those that are put aside,
    /// such as `shop.json~`, are not meant.
    pub(super) fn beside_sites(&self, sites: &Value, place: &Place) -> Option<String> {
        let including = self.sources.get(place.source).map(|source| source.file.as_path());
        let directory = including.and_then(Path::parent).unwrap_or(Path::new(""));
        let patterns: Vec<_> = match sites {
            Value::Array(patterns) => patterns.iter().filter_map(Value::as_str).collect(),
            pattern => pattern.as_str().into_iter().collect(),
        };
        let mut others = Vec::new();
        for pattern in patterns.iter().map(|pattern| directory.join(pattern)) {
            let Some(above) = pattern.parent().filter(|_| pattern.ends_with("*.json")) else {
                continue;
            };
            let there = self.files.names(above).unwrap_or_default();
            let is_meant = |name: &String| {
                let is_hidden = name.starts_with('.') || name.ends_with('~');
                !is_hidden && !name.contains(".json") && !name.starts_with("README")
            };
            others.extend(there.into_iter().filter(is_meant).map(|name| above.join(name)));
        }
        others.sort();
        let first = others.first()?;
        let more = match others.len() {
            1 => String::new(),
            number => format!(" (and {} more)", number - 1),
        };
        Some(format!(
            "{}{more} is no site, as its name does not end in .json; rename it, or move it to \
             another directory",
            Shown(&first.to_string_lossy())
        ))
    }

    /// Returns the files that an `include` names, those of a pattern in the order of their names.
    pub(super) fn named(&mut self, include: &Value, place: &Place) -> Result<Vec<PathBuf>, String> {
        let patterns = match include {
            Value::Array(patterns) => patterns.iter().filter_map(Value::as_str).collect(),
            pattern => vec![pattern.as_str().unwrap_or_default()],
        };
        let including = self.sources.get(place.source).map(|source| source.file.as_path());
        let directory = including.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let mut files = Vec::new();
        for pattern in patterns {
            const NO_NAME: &str = "must be the name of a file, or a pattern";
            if pattern.is_empty() || pattern.contains('\0') {
                self.keep(place, NO_NAME)?;
                continue;
            }
            let whole = directory.join(pattern);
            let (above, name) = match (whole.parent(), whole.file_name().and_then(|n| n.to_str())) {
                (Some(above), Some(name)) => (above, name),
                _ => {
                    self.keep(place, NO_NAME)?;
                    continue;
                }
            };
            if is_pattern(&above.to_string_lossy()) {
                self.keep(place, "must have \"*\" and \"?\" only in the name of the file")?;
                continue;
            }
            if !is_pattern(name) {
                files.push(whole);
                continue;
            }
            self.begins(place, above);
            let there = match self.files.names(above) {
                Ok(there) => there,
                Err(problem) => {
                    self.leave_out(&whole, self.problem(place, &problem))?;
                    let former = self.former_files(above, name);
                    if let Some(tolerance) = &self.tolerance
                        && !former.is_empty()
                    {
                        tolerance.use_former(&whole);
                    }
                    files.extend(former);
                    continue;
                }
            };
            let mut there: Vec<_> =
                there.into_iter().filter(|other| is_named(name, other)).collect();
            there.sort();
            if there.is_empty() {
                let problem = format!("{} names no file", whole.display());
                self.notes.push(self.problem(place, &problem));
            }
            files.extend(there.iter().map(|name| above.join(name)));
        }
        Ok(files)
    }
}

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Returns true for a file that a pattern names.
pub(super) fn is_named(pattern: &str, file: &str) -> bool {
    !file.starts_with('.') && matches(pattern.as_bytes(), file.as_bytes(), Rules::default())
}
