//! Files of a document that cannot be used: the document is read without them.
//!
//! One file may belong to one customer, and a mistake in it must not concern the others. The
//! content that the file had in the former document takes its place. Without one, requests that are
//! passed to a name that only the file would have defined are answered with 503 (see
//! [`Definitions`](crate::definitions::Definitions)).
//!
//! A mistake in the document itself, and a missing definition of a file that cannot be used (a
//! limit, a variable), is a mistake of the document: served without it, requests would pass that it
//! must stop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::former::Former;
use super::left_out::LeftOut;
use super::tolerance::{Found, Tolerance, Unusable};
use super::{Expanded, IncludedFiles, Reading, expand_once};
use crate::definitions::LEFT_OUT;
use crate::error::Error;

/// Maximum number of readings of a document. Each but the last finds another unusable file.
const MAX_READINGS: usize = 50;

/// Number of readings after which a file is left out with the file that includes it: one customer
/// could have many files, each of which shows the mistake of the next.
const MAX_NESTED_READINGS: usize = 10;

impl Reading<'_> {
    /// Handles a problem of a source: without the document itself, the reading continues. Error:
    /// there are too many problems.
    pub(super) fn reject(&self, source: usize, problem: String) -> Result<(), String> {
        match &self.tolerance {
            Some(tolerance) if source != 0 => {
                tolerance.contradicts(source, problem);
                Ok(())
            }
            _ => self.mistakes.keep_once(problem),
        }
    }

    /// Handles a problem of a file that a source names.
    pub(super) fn leave_out(&self, file: &Path, problem: String) -> Result<(), String> {
        match &self.tolerance {
            Some(tolerance) => {
                tolerance.leave_out(file, problem);
                Ok(())
            }
            None => self.mistakes.keep_once(problem),
        }
    }
}

/// Reads a document with its files, without those that cannot be used. `former` is the document
/// that was read before, whose parts replace the files that cannot be used; `now` is the time in
/// seconds since 1970. `check` returns the mistakes of a document. The former content of the files
/// `held` is used in any case, which is no mistake of them. `None` if the document has no
/// `include`, or is no JSON.
///
/// # Errors
///
/// The mistakes of the files and of the document itself, as lines with the file and the place.
pub fn expand_leaving_out(
    text: &[u8],
    file: &Path,
    files: &dyn IncludedFiles,
    former: &Former,
    now: u64,
    check: &dyn Fn(&Value) -> Result<(), Error>,
    held: &BTreeSet<&str>,
) -> Result<Option<Expanded>, String> {
    let as_unusable = |held: &&str| {
        (PathBuf::from(held), Unusable { reason: String::new(), without_former: false })
    };
    let mut unusable: BTreeMap<_, _> = held.iter().map(as_unusable).collect();
    let mut mistakes: Vec<String> = Vec::new();
    for reading in 0..MAX_READINGS {
        let tolerance = Tolerance::new(former, &unusable);
        let Some((mut expanded, tolerance)) = expand_once(text, file, files, Some(tolerance))?
        else {
            return Ok(None);
        };
        let Some(Tolerance { found, .. }) = tolerance else { return Ok(Some(expanded)) };
        let Found { left_out, mut contradicting } = found.into_inner();
        let of_files = left_out.iter().map(|out| &out.reason);
        add_new(&mut mistakes, of_files);
        if contradicting.is_empty() {
            expanded.left_out = left_out
                .into_iter()
                .filter(|out| !out.file.to_str().is_some_and(|file| held.contains(file)))
                .map(|out| LeftOut { since: since(former, &out.file).unwrap_or(now), ..out })
                .collect();
            record(&mut expanded);
            let Err(error) = check(&expanded.document) else {
                return Ok(Some(Expanded { mistakes, ..expanded }));
            };
            let errors = [&error].into_iter().chain(error.others());
            let of_files = errors.filter_map(|error| match expanded.source_of(error) {
                0 => None,
                source => Some((source, expanded.explain_one(error))),
            });
            contradicting.extend(of_files);
            if contradicting.is_empty() {
                mistakes.push(expanded.explain(&error));
                return Err(mistakes.join("\n"));
            }
        }
        add_new(&mut mistakes, contradicting.iter().map(|(_, reason)| reason));
        for (source, reason) in contradicting {
            let source =
                if reading < MAX_NESTED_READINGS { source } else { expanded.outermost(source) };
            let Some(source) = expanded.sources.get(source) else { continue };
            let known = unusable
                .entry(source.file.clone())
                .or_insert(Unusable { reason, without_former: false });
            known.without_former |= source.is_former;
        }
    }
    Err(mistakes.join("\n"))
}

/// Adds mistakes that are not known yet.
fn add_new<'m>(mistakes: &mut Vec<String>, new: impl Iterator<Item = &'m String>) {
    for mistake in new {
        if !mistakes.contains(mistake) {
            mistakes.push(mistake.clone());
        }
    }
}

/// Writes the files that are left out into the document.
pub(super) fn record(expanded: &mut Expanded) {
    if expanded.left_out.is_empty() {
        if let Some(members) = expanded.document.as_object_mut() {
            members.shift_remove(LEFT_OUT);
        }
        return;
    }
    let files = expanded.left_out.iter();
    let files = files.map(|out| (out.file.to_string_lossy().into_owned(), out.written()));
    let files: Map<_, _> = files.collect();
    if let Some(members) = expanded.document.as_object_mut() {
        members.insert(LEFT_OUT.to_owned(), Value::Object(files));
    }
}

/// Returns the time since which a file is left out, if it is in the former document.
pub(super) fn since(former: &Former, file: &Path) -> Option<u64> {
    former.document()?.get(LEFT_OUT)?.get(file.to_str()?)?.get("since")?.as_u64()
}

#[cfg(test)]
mod tests;
