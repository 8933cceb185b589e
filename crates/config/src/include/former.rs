//! The content that a file had in the former document.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::changed::{at, hide};
use super::lists::{entries, list_of};
use super::pattern::is_named;
use super::{INCLUDED, Place, Reading, Source};
use crate::json;
use crate::node::split_path;

/// The document that was read before, if there is one. Its text is parsed once the document is asked
/// for, as few readings need it.
#[derive(Debug, Default)]
pub struct Former {
    text: Vec<u8>,
    document: OnceCell<Option<Value>>,
}

impl Former {
    /// Returns the document of a text. There is none if the text is no JSON.
    pub fn of_text(text: &[u8]) -> Former {
        Former { text: text.to_vec(), document: OnceCell::new() }
    }

    /// Returns a document that is parsed already.
    pub fn of_document(document: Value) -> Former {
        Former { text: Vec::new(), document: OnceCell::from(Some(document)) }
    }

    /// Returns the document.
    pub(super) fn document(&self) -> Option<&Value> {
        self.document.get_or_init(|| json::parse(&self.text).ok()).as_ref()
    }
}

/// Returns the parts of a document that come from files, each with the path and the file.
pub(super) fn parts(document: &Value) -> impl Iterator<Item = (Vec<String>, &str)> {
    let included = document.get(INCLUDED).and_then(Value::as_object);
    let parts = included.into_iter().flatten();
    parts.filter_map(|(part, file)| Some((split_path(part), file.as_str()?)))
}

/// The parts of a document that come from files.
pub(super) struct Parts<'d> {
    document: &'d Value,
    by_path: BTreeMap<Vec<String>, &'d str>,
    /// In the order of the document.
    pub(super) by_file: BTreeMap<&'d str, Vec<Vec<String>>>,
}

impl<'d> Parts<'d> {
    pub(super) fn of(document: &'d Value) -> Parts<'d> {
        let mut by_file = BTreeMap::<_, Vec<_>>::new();
        for (path, file) in parts(document) {
            by_file.entry(file).or_default().push(path);
        }
        Parts { document, by_path: parts(document).collect(), by_file }
    }

    /// Returns the paths of the parts of a file.
    fn of_file(&self, file: &str) -> &[Vec<String>] {
        self.by_file.get(file).map_or(&[], Vec::as_slice)
    }

    /// Returns the parts below a path.
    fn below<'a>(&'a self, path: &'a [String]) -> impl Iterator<Item = (&'a Vec<String>, &'d str)> {
        let from = self.by_path.range::<[String], _>((Bound::Excluded(path), Bound::Unbounded));
        from.take_while(move |(other, _)| other.starts_with(path)).map(|(path, file)| (path, *file))
    }

    /// Returns a part of a file without the parts in it that other files own.
    pub(super) fn own(&self, path: &[String], file: &str) -> Option<Value> {
        let mut part = at(self.document, path)?.clone();
        let mut lists = Vec::new();
        for (other, _) in self.below(path).filter(|(_, other)| *other != file) {
            hide(&mut part, other.get(path.len()..).unwrap_or_default());
            lists
                .extend(list_of(other).and_then(|list| list.strip_prefix(path)).map(<[_]>::to_vec));
        }
        for list in lists {
            let list = list.iter().try_fold(&mut part, |part, step| part.get_mut(step));
            if let Some(Value::Array(entries)) = list {
                entries.retain(|entry| !entry.is_null()); // those of other files
            }
        }
        Some(part)
    }
}

/// Adds an entry to the list at a path in an object.
fn push(object: &mut Map<String, Value>, list: &[String], entry: Value) {
    let there = list.split_first().and_then(|(first, below)| {
        below.iter().try_fold(object.get_mut(first)?, |part, step| part.get_mut(step))
    });
    match there {
        Some(there) => {
            let mut all = entries(there.take());
            all.push(entry);
            *there = Value::Array(all);
        }
        None => insert(object, list, Value::Array(vec![entry])),
    }
}

/// Adds a part at a path in an object.
fn insert(object: &mut Map<String, Value>, path: &[String], part: Value) {
    match path {
        [] => {}
        [name] => drop(object.insert(name.clone(), part)),
        [name, below @ ..] => {
            let above = object.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Some(above) = above.as_object_mut() {
                insert(above, below, part);
            }
        }
    }
}

impl Reading<'_> {
    /// Returns the parts of the former document, if there is one, and the name of a file.
    fn former<'a>(&'a self, file: &'a Path) -> Option<(&'a Parts<'a>, &'a str)> {
        let tolerance = self.tolerance.as_ref()?;
        let former = tolerance.former.document()?;
        Some((tolerance.former_parts.get_or_init(|| Parts::of(former)), file.to_str()?))
    }

    /// Returns true if the former document has a route that a file has added: the hosts alone of a
    /// site are there if it could not be used.
    pub(super) fn has_former_route(&self, file: &Path) -> bool {
        let Some((former, name)) = self.former(file) else { return false };
        let is_route = |path: &Vec<String>| path.first().is_some_and(|name| name == "routes");
        former.of_file(name).iter().any(is_route)
    }

    /// Returns the members that a file has added to the object at a place of the former document,
    /// and the source for them. `None` if there are none, or they must not be used.
    pub(super) fn former_members(
        &mut self,
        file: &Path,
        place: &Place,
    ) -> Option<(Map<String, Value>, usize)> {
        let (former, name) = self.former(file)?;
        let mut members = Map::new();
        for path in former.of_file(name) {
            if let Some(below) = path.strip_prefix(place.path.as_slice()) {
                let part = former.own(path, name)?;
                match below.split_last() {
                    Some((_, list)) if list_of(path).is_some() => push(&mut members, list, part),
                    _ => insert(&mut members, below, part),
                }
            }
        }
        if members.is_empty() {
            return None;
        }
        Some((members, self.former_source(file, place)?))
    }

    /// Returns the steps that a file has added to the route at a place of the former document.
    pub(super) fn former_steps(
        &mut self,
        file: &Path,
        place: &Place,
    ) -> Option<(Vec<Value>, usize)> {
        let (former, name) = self.former(file)?;
        let mut steps = Vec::new();
        for path in former.of_file(name) {
            if path.strip_prefix(place.path.as_slice()).is_some_and(|below| below.len() == 1) {
                steps.push(at(former.document, path)?.clone());
            }
        }
        if steps.is_empty() {
            return None;
        }
        Some((steps, self.former_source(file, place)?))
    }

    /// Returns a whole value of the former document that a file has, such as a table.
    pub(super) fn former_value(&mut self, file: &Path, place: &Place) -> Option<Value> {
        let (former, _) = self.former(file)?;
        former.by_path.get(&place.path)?;
        let value = at(former.document, &place.path)?.clone();
        self.tolerance.as_ref()?.use_former(file).then_some(value)
    }

    /// Returns the files of the former document that a pattern names.
    pub(super) fn former_files(&self, directory: &Path, pattern: &str) -> Vec<PathBuf> {
        let former = self.tolerance.as_ref().and_then(|tolerance| tolerance.former.document());
        let all = former.into_iter().flat_map(parts).map(|(_, file)| PathBuf::from(file));
        let is_one = |file: &PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str());
            file.parent() == Some(directory) && name.is_some_and(|name| is_named(pattern, name))
        };
        let mut files: Vec<_> = all.filter(is_one).collect();
        files.sort();
        files.dedup();
        files
    }

    /// Returns which of two sources that have the same member must not have it: not the one that
    /// had it in the former document. One file must not take a name of another one.
    pub(super) fn intruder(&self, place: &Place, other: usize) -> usize {
        let former = self.tolerance.as_ref().and_then(|tolerance| tolerance.former.document());
        let owned =
            former.into_iter().flat_map(parts).filter(|(path, _)| place.path.starts_with(path));
        let owner = owned.max_by_key(|(path, _)| path.len()).map(|(_, file)| Path::new(file));
        let had = |source: usize| {
            self.sources.get(source).is_some_and(|source| Some(source.file.as_path()) == owner)
        };
        if other != 0 && had(place.source) && !had(other) { other } else { place.source }
    }

    fn former_source(&mut self, file: &Path, place: &Place) -> Option<usize> {
        if !self.tolerance.as_ref()?.use_former(file) {
            return None;
        }
        let (file, included_by) = (file.to_owned(), Some(place.source));
        self.sources.push(Source { file, text: Vec::new(), included_by, is_former: true });
        Some(self.sources.len() - 1)
    }
}
