//! Tables of variables that are in files, and are read again without the rest of the document.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    Expanded, IncludedFiles, Place, Reading, Source, finished, is_named, is_pattern, tables,
};

/// Reads the tables of an expanded document that are in files again.
///
/// # Errors
///
/// The file, the place in it, and the problem. If several files have problems: a line for each.
pub fn expand_tables(mut document: Value, files: &dyn IncludedFiles) -> Result<Expanded, String> {
    let source = Source::of_document(Path::new(""), b"");
    let mut reading = Reading::new(files, vec![source]);
    let mut read = Ok(());
    for (steps, file) in tables(&document) {
        let place = Place { source: 0, inner: Vec::new(), path: steps.clone() };
        let name = Value::String(file.to_string_lossy().into_owned());
        let table = match reading.value(name, &place) {
            Ok(table) => table,
            Err(problem) => {
                read = Err(problem);
                break;
            }
        };
        let values = steps.iter().try_fold(&mut document, |part, step| part.get_mut(step));
        if let Some(values) = values {
            *values = table;
        }
    }
    let Reading { sources, origins, mistakes, .. } = reading;
    finished(mistakes, read)?;
    Ok(Expanded { document, sources, origins, ..Expanded::default() })
}

/// Returns the files and directories on which the tables of an expanded document depend.
pub fn watched_by_tables(document: &Value, files: &dyn IncludedFiles) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for (_, file) in tables(document) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let directory = file.parent().unwrap_or(Path::new("/"));
        if !is_pattern(name) {
            all.push(file);
            continue;
        }
        let there = files.names(directory).unwrap_or_default();
        let there = there.into_iter().filter(|other| is_named(name, other));
        all.extend(there.map(|other| directory.join(other)));
        all.push(directory.to_owned());
    }
    all
}
