//! Patterns in the names of files.

use std::path::{Path, PathBuf};

use howdah_text::wildcard::{Rules, matches};
use serde_json::Value;

use super::{Place, Reading};

impl Reading<'_> {
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
