//! The rest of a document, without the parts of some files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde_json::{Map, Value};

use super::INCLUDED;
use super::former::{Parts, parts};
use super::places::PLACES;
use crate::definitions::LEFT_OUT;

/// Returns true if two readings of a document differ only in the parts of the files that the first
/// has left out.
pub fn differs_only_in_left_out(before: &Value, after: &Value) -> bool {
    let files = left_out_files(before);
    rest(before, &files) == rest(after, &files)
}

/// Returns the names of the files that a document was read without.
pub fn left_out_files(document: &Value) -> BTreeSet<&str> {
    let left_out = document.get(LEFT_OUT).and_then(Value::as_object);
    left_out.into_iter().flatten().map(|(file, _)| file.as_str()).collect()
}

/// Returns the files whose parts differ in two readings of a document, without those that the first
/// has left out.
pub fn changed_files<'v>(before: &'v Value, after: &'v Value) -> BTreeSet<&'v str> {
    let left_out = left_out_files(before);
    let (before, after) = (parts_by_file(before), parts_by_file(after));
    let all = before.keys().chain(after.keys()).copied();
    all.filter(|file| !left_out.contains(file) && before.get(file) != after.get(file)).collect()
}

/// Returns the parts that each file has of a document. Those of routes and other lists are without
/// their places, which depend on other files.
fn parts_by_file<'d>(document: &'d Value) -> BTreeMap<&'d str, Vec<(Vec<String>, Value)>> {
    let all = Parts::of(document);
    let of_file = |(file, paths): (&&'d str, &Vec<Vec<String>>)| {
        let parts = paths.iter().filter_map(|path| {
            let part = all.own(path, file)?;
            let (last, list) = path.split_last()?;
            let path = if last.parse::<usize>().is_ok() { list } else { path };
            Some((path.to_vec(), part))
        });
        (*file, parts.collect())
    };
    all.by_file.iter().map(of_file).collect()
}

fn rest(document: &Value, files: &BTreeSet<&str>) -> Option<Value> {
    let owners = parts(document).map(|(path, file)| (path, files.contains(file))).collect();
    let mut document = document.clone();
    if let Some(members) = document.as_object_mut() {
        members.shift_remove(INCLUDED);
        members.shift_remove(LEFT_OUT);
        members.shift_remove(PLACES);
    }
    without(document, &mut Vec::new(), false, &owners)
}

/// Returns a value without the parts that the files own. `is_owned`: the value is in a part that a
/// file owns.
pub(super) fn without(
    value: Value,
    path: &mut Vec<String>,
    is_owned: bool,
    owners: &BTreeMap<Vec<String>, bool>,
) -> Option<Value> {
    let is_owned = owners.get(path).copied().unwrap_or(is_owned);
    let below = owners.range::<[String], _>((Bound::Excluded(path.as_slice()), Bound::Unbounded));
    let has_parts = below.take(1).any(|(other, _)| other.starts_with(path));
    if !has_parts {
        return (!is_owned).then_some(value);
    }
    let mut kept = |step: String, value: Value| {
        path.push(step);
        let kept = without(value, path, is_owned, owners);
        path.pop();
        kept
    };
    let (value, is_empty) = match value {
        Value::Object(members) => {
            let members = members.into_iter();
            let members = members.filter_map(|(name, value)| {
                let value = kept(name.clone(), value)?;
                Some((name, value))
            });
            let members: Map<_, _> = members.collect();
            let is_empty = members.is_empty();
            (Value::Object(members), is_empty)
        }
        Value::Array(elements) => {
            let elements = elements.into_iter().enumerate();
            let elements = elements.filter_map(|(at, value)| kept(at.to_string(), value));
            let elements: Vec<_> = elements.collect();
            let is_empty = elements.is_empty();
            (Value::Array(elements), is_empty)
        }
        other => (other, false),
    };
    (!is_owned || !is_empty).then_some(value)
}
