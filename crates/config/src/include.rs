//! `include`: parts of a document that are in other files.
//!
//! The program that reads a document replaces each `include` by the members of the files that it
//! names ([`expand`]). The result is a document without `include`; its member `included` has the
//! file of each part, so that the control API changes no part that a file owns.
//!
//! An object may have `include` if it is the document, one of its members, or a member of these. In
//! an array of steps, an object with only `include` stands for the steps of the files. In all other
//! places, `include` may be a name that the user has chosen. The `values` of a variable may be the
//! name of a file, or a pattern: the files have the table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::definitions::LEFT_OUT;
use crate::error::{self, Error};
use crate::json;
use crate::mistakes::Mistakes;
use crate::node::{Node, path, split_path};
use crate::site::Site;
use crate::types_file;

mod chain;
mod changed;
mod expanded;
mod former;
mod left_out;
mod lists;
mod merge;
mod pattern;
mod places;
mod refused;
mod rest;
mod sent;
mod shared;
mod site_files;
mod sites;
mod tables;
mod tolerance;
mod tolerant;

use expanded::{Origin, Source};
use pattern::{is_named, is_pattern};
use places::PLACES;
use sent::{SENT, SOURCE};
use tolerance::Tolerance;

pub use changed::changed;
pub use expanded::{Expanded, explain};
pub use former::Former;
pub(crate) use left_out::read_left_out;
pub use left_out::{LeftOut, watched_by_left_out};
pub use places::{SitePlaces, key_of_site};
pub(crate) use refused::refuse;
pub use rest::{changed_files, differs_only_in_left_out, left_out_files};
pub use sent::{
    Compiled, check_sent, compile_sent, compiled_part, has_sites, is_in_sites, is_made_by_server,
    sent, source_of_site,
};
pub use shared::{SHARED, application_of_site, sites_by_application};
pub use site_files::{SiteFiles, site_files, with_only_sites};
pub use sites::{SiteParts, SiteProblem, http_only, switch_on_https};
pub use tables::{expand_tables, watched_by_tables};
pub use tolerant::expand_leaving_out;

/// Reads the files that documents name.
pub trait IncludedFiles {
    /// Returns the content of a file.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be read.
    fn read(&self, file: &Path) -> Result<Vec<u8>, String>;

    /// Returns the names of the files in a directory.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be read.
    fn names(&self, directory: &Path) -> Result<Vec<String>, String>;

    /// Says which file is read next, with the place that names it. A drive may not answer.
    fn begins(&self, _place: &str) {}

    /// Returns a path that stays valid in another working directory.
    fn absolute(&self, file: PathBuf) -> PathBuf {
        file
    }

    /// Returns the content of the file of a site. It chooses users, so only the one who has started
    /// the server may be able to change it.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be read, or must not be used.
    fn read_site(&self, file: &Path) -> Result<Vec<u8>, String> {
        self.read(file)
    }

    /// Returns the parts of a document that serve a site.
    ///
    /// # Errors
    ///
    /// The key of the site, the problem, and what to do.
    fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem>;

    /// Returns true if sockets of the machine can listen on IPv6 addresses.
    fn has_ipv6(&self) -> bool {
        true
    }
}

/// The place of a value that is being expanded.
#[derive(Clone)]
struct Place {
    source: usize,
    inner: Vec<String>,
    path: Vec<String>,
}

/// Maximum number of files of a document.
const MAX_FILES: usize = 10_000;

/// The name of the member of a document with the files of its parts.
const INCLUDED: &str = "included";

/// Replaces each `include` of a document. `None` if it has none.
///
/// # Errors
///
/// The file, the place in it, and the problem. If several files have problems: a line for each.
pub fn expand(
    text: &[u8],
    file: &Path,
    files: &dyn IncludedFiles,
) -> Result<Option<Expanded>, String> {
    Ok(expand_once(text, file, files, None)?.map(|(expanded, _)| expanded))
}

/// Replaces each `include`, with or without files that cannot be used.
fn expand_once<'f>(
    text: &[u8],
    file: &Path,
    files: &'f dyn IncludedFiles,
    tolerance: Option<Tolerance<'f>>,
) -> Result<Option<(Expanded, Option<Tolerance<'f>>)>, String> {
    // The text of the document alone is parsed, and its errors are reported, by the caller.
    let Ok(value) = json::parse(text) else { return Ok(None) };
    let sources = vec![Source::of_document(file, text)];
    let mut reading = Reading { bytes: text.len(), tolerance, ..Reading::new(files, sources) };
    let place = Place { source: 0, inner: Vec::new(), path: Vec::new() };
    for name in [INCLUDED, LEFT_OUT, PLACES, SOURCE] {
        if value.get(name).is_some() {
            let problem = format!("\"{name}\" is made by the server; write \"include\"");
            return Err(reading.problem(&place.child(name), &problem));
        }
    }
    let original = value.clone();
    let read = reading.value(value, &place).and_then(|mut document| {
        reading.add_sites(&mut document)?;
        Ok(document)
    });
    let without_https = std::mem::take(&mut reading.without_https);
    let Reading { sources, origins, tables, notes, mistakes, tolerance, places, .. } = reading;
    let mut document = finished(mistakes, read)?;
    if sources.len() == 1 && !has_include(text) && document == original {
        return Ok(None);
    }
    if let Some(members) = document.as_object_mut() {
        let is_of_table = |origin: &Origin| {
            origin.path.get(..3).is_some_and(|path| tables.iter().any(|(table, _)| table == path))
        };
        let of_files = origins.iter().filter(|origin| origin.source != 0 && !is_of_table(origin));
        let named = of_files.map(|origin| {
            let file = sources.get(origin.source).map(|source| source.file.as_path());
            let file = file.unwrap_or(Path::new("")).to_string_lossy().into_owned();
            (path(&origin.path), Value::String(file))
        });
        let named = named.chain(tables.iter().map(|(table, files)| {
            (path(table), Value::String(files.to_string_lossy().into_owned()))
        }));
        members.insert(INCLUDED.to_owned(), Value::Object(named.collect()));
        let places = places::written(&places, &sources);
        if !places.is_empty() {
            members.insert(PLACES.to_owned(), Value::Object(places));
        }
    }
    let (left_out, mistakes) = Default::default();
    let expanded =
        Expanded { document, sources, origins, places, notes, without_https, left_out, mistakes };
    Ok(Some((expanded, tolerance)))
}

/// Returns true if a text may have `include`, which may name no file.
fn has_include(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"\"include\"").is_some()
}

/// Returns the result of the reading, or the problems of files as lines.
fn finished<T>(mistakes: Mistakes<String>, read: Result<T, String>) -> Result<T, String> {
    mistakes.finish(read).map_err(|problems| error::lines(&problems, String::clone))
}

/// Returns the path of each table of an expanded document that is in files, and its `include`.
pub fn tables(document: &Value) -> Vec<(Vec<String>, PathBuf)> {
    let included = document.get(INCLUDED).and_then(Value::as_object);
    let all = included.into_iter().flatten().map(|(part, file)| (split_path(part), file));
    all.filter(|(steps, _)| is_table(steps))
        .filter_map(|(steps, file)| Some((steps, PathBuf::from(file.as_str()?))))
        .collect()
}

/// Returns true for the path of the values of a variable, which may be the name of a file.
fn is_table(steps: &[String]) -> bool {
    matches!(steps, [first, _, last] if first == "variables" && last == "values")
}

/// Reads `included`: objects of paths and files.
pub(crate) fn read_included(node: &Node<'_>) -> Result<Vec<(String, PathBuf)>, Error> {
    node.members()?.map(|(part, file)| Ok((part.to_owned(), file.file()?))).collect()
}

impl Place {
    fn child(&self, step: &str) -> Place {
        let mut child = self.clone();
        child.inner.push(step.to_owned());
        child.path.push(step.to_owned());
        child
    }

    /// Returns true if an object of this place may have `include`.
    fn allows_include(&self) -> bool {
        self.path.len() <= 2
    }

    /// Returns true for the object with the media types.
    fn has_types(&self) -> bool {
        matches!(self.path.as_slice(), [a, b, c] if a == "settings" && b == "http" && c == "static")
    }

    /// Returns true for an array of steps.
    fn is_route(&self) -> bool {
        self.path.first().is_some_and(|first| first == "routes") && self.path.len() <= 2
    }
}

/// A step, the index of its file, and its path there.
type Step = (Value, usize, Vec<String>);

/// The state of an expansion.
struct Reading<'f> {
    files: &'f dyn IncludedFiles,
    sources: Vec<Source>,
    origins: Vec<Origin>,
    bytes: usize,
    /// The paths of tables in files, and the names of the files.
    tables: Vec<(Vec<String>, PathBuf)>,
    /// Patterns that name no file.
    notes: Vec<String>,
    /// Problems of files. One makes the document useless; the rest is read for further problems.
    mistakes: Mistakes<String>,
    /// Files that include a file that includes them. They are not read again: their number would
    /// multiply.
    circular: BTreeSet<PathBuf>,
    /// Set if the document is read without files that cannot be used.
    tolerance: Option<Tolerance<'f>>,
    /// Members about sites, which are replaced at the end.
    found: sites::Found,
    /// Parts that a site has in other places: they explain mistakes.
    places: Vec<Origin>,
    /// Names of the sites that have HTTPS once there is an e-mail address for the authority.
    without_https: Vec<String>,
}

impl<'f> Reading<'f> {
    fn new(files: &'f dyn IncludedFiles, sources: Vec<Source>) -> Self {
        Reading {
            files,
            sources,
            origins: Vec::new(),
            bytes: 0,
            tables: Vec::new(),
            notes: Vec::new(),
            mistakes: Mistakes::default(),
            circular: BTreeSet::new(),
            tolerance: None,
            found: sites::Found::default(),
            places: Vec::new(),
            without_https: Vec::new(),
        }
    }

    fn value(&mut self, value: Value, place: &Place) -> Result<Value, String> {
        match value {
            Value::Object(members) if place.allows_include() => {
                self.object(members, place).map(Value::Object)
            }
            Value::Array(elements) if place.is_route() => {
                let steps = self.steps(elements, place)?;
                Ok(self.placed(steps, place))
            }
            Value::Object(members) if place.has_types() => {
                let mut all = Map::new();
                for (name, value) in members {
                    let value = match &value {
                        Value::String(_) if name == "mime_types" => {
                            self.types(&value, &place.child(&name))?
                        }
                        _ => value,
                    };
                    all.insert(name, value);
                }
                Ok(Value::Object(all))
            }
            Value::String(name) if is_table(&place.path) => {
                let mut all = Map::new();
                let directory =
                    self.sources.get(place.source).and_then(|source| source.file.parent());
                let whole = directory.unwrap_or(Path::new("")).join(&name);
                self.tables.push((place.path.clone(), self.files.absolute(whole)));
                let value = Value::String(name);
                let first_origin = self.origins.len();
                for file in self.named(&value, place)? {
                    let Some((table, source)) = self.read(&file, place)? else {
                        if let Some(whole) = self.former_value(&file, place) {
                            return Ok(whole);
                        }
                        self.reject_without(&file, place)?;
                        continue;
                    };
                    let inside = Place { source, inner: Vec::new(), path: place.path.clone() };
                    match table {
                        Value::Object(members) => {
                            self.add(&mut all, members, &inside, first_origin)?
                        }
                        _ => self.keep(&inside, "must be an object of values")?,
                    }
                }
                Ok(Value::Object(all))
            }
            other => Ok(other),
        }
    }

    /// Returns the types of a file of media types.
    fn types(&mut self, name: &Value, place: &Place) -> Result<Value, String> {
        let name = name.as_str().unwrap_or_default();
        let directory = self.sources.get(place.source).and_then(|source| source.file.parent());
        let file = directory.unwrap_or(Path::new("")).join(name);
        self.begins(place, &file);
        let text = match self.files.read(&file) {
            Ok(text) if text.len() <= json::MAX_SIZE => text,
            Ok(_) => {
                self.keep(place, "is a file that is longer than 16 MiB")?;
                return Ok(Value::Null);
            }
            Err(problem) => {
                self.leave_out(&file, self.problem(place, &problem))?;
                if let Some(types) = self.former_value(&file, place) {
                    return Ok(types);
                }
                self.reject_without(&file, place)?;
                return Ok(Value::Null);
            }
        };
        let types = types_file::parse(&String::from_utf8_lossy(&text));
        let source = self.add_source(&file, text, place);
        self.record(&Place { source, inner: Vec::new(), path: place.path.clone() });
        Ok(types)
    }

    fn object(
        &mut self,
        mut members: Map<String, Value>,
        place: &Place,
    ) -> Result<Map<String, Value>, String> {
        self.take_sites(&mut members, place)?;
        let include = members.get("include").filter(|value| is_include(value)).cloned();
        if include.is_some() {
            members.shift_remove("include");
        }
        let mut all = Map::new();
        for (name, value) in members {
            let value = self.value(value, &place.child(&name))?;
            all.insert(name, value);
        }
        let Some(include) = include else { return Ok(all) };
        for file in self.named(&include, &place.child("include"))? {
            let first_origin = self.origins.len();
            let (value, source) = match self.read(&file, &place.child("include"))? {
                Some(read) => read,
                None => match self.former_members(&file, place) {
                    Some((members, source)) => (Value::Object(members), source),
                    None => continue,
                },
            };
            let inside = Place { source, inner: Vec::new(), path: place.path.clone() };
            let Value::Object(members) = value else {
                self.keep(&inside, "must be an object, like the part that includes it")?;
                continue;
            };
            let members = self.object(members, &inside)?;
            self.add(&mut all, members, &inside, first_origin)?;
        }
        Ok(all)
    }

    /// Expands the steps of a route, each with its file and its path there.
    fn steps(&mut self, elements: Vec<Value>, place: &Place) -> Result<Vec<Step>, String> {
        let mut all = Vec::new();
        for (index, element) in elements.into_iter().enumerate() {
            let inner = [place.inner.as_slice(), &[index.to_string()]].concat();
            let include = element.get("include").filter(|value| is_include(value)).cloned();
            let is_alone = element.as_object().is_some_and(|members| members.len() == 1);
            let Some(include) = include.filter(|_| is_alone) else {
                all.push((element, place.source, inner));
                continue;
            };
            let inner = [inner.as_slice(), &["include".to_owned()]].concat();
            let including = Place { inner, ..place.clone() };
            for file in self.named(&include, &including)? {
                let (value, source) = match self.read(&file, &including)? {
                    Some(read) => read,
                    None => match self.former_steps(&file, place) {
                        Some((steps, source)) => (Value::Array(steps), source),
                        None => continue,
                    },
                };
                match value {
                    Value::Array(steps) => {
                        let path = place.path.clone();
                        let inside = Place { source, inner: Vec::new(), path };
                        all.extend(self.steps(steps, &inside)?);
                    }
                    step => all.push((step, source, Vec::new())),
                }
            }
        }
        Ok(all)
    }

    /// Records the origins of steps, if some come from other files, and returns them.
    fn placed(&mut self, steps: Vec<Step>, place: &Place) -> Value {
        if steps.iter().any(|(_, source, _)| *source != place.source) {
            for (index, (_, source, inner)) in steps.iter().enumerate() {
                let path = [place.path.as_slice(), &[index.to_string()]].concat();
                self.origins.push(Origin { path, source: *source, inner: inner.clone() });
            }
        }
        steps.into_iter().map(|(step, ..)| step).collect()
    }

    /// Reads a file for the `include` at a place. `None` if the file has a problem, which is kept.
    /// Error: no further file is to be read, as there are too many files or problems.
    fn read(&mut self, file: &Path, place: &Place) -> Result<Option<(Value, usize)>, String> {
        self.read_with(file, place, IncludedFiles::read)
    }

    fn read_with(
        &mut self,
        file: &Path,
        place: &Place,
        read: impl Fn(&'f dyn IncludedFiles, &Path) -> Result<Vec<u8>, String>,
    ) -> Result<Option<(Value, usize)>, String> {
        if let Err(problem) = self.check_chain(file, place) {
            let including = self.sources.get(place.source).map(|source| source.file.clone());
            if including.is_some_and(|including| self.circular.insert(including)) {
                self.reject(place.source, problem)?;
            }
            return Ok(None);
        }
        if self.circular.contains(file) {
            return Ok(None);
        }
        if let Some(reason) = self.tolerance.as_ref().and_then(|known| known.unusable(file)) {
            return self.leave_out(file, reason).map(|()| None);
        }
        if self.sources.len() >= MAX_FILES {
            return Err(self.problem(place, "makes the document consist of more than 10,000 files"));
        }
        self.begins(place, file);
        let text = match read(self.files, file) {
            Ok(text) => text,
            Err(problem) => {
                return self.leave_out(file, self.problem(place, &problem)).map(|()| None);
            }
        };
        let bytes = self.bytes.saturating_add(text.len());
        if bytes > json::MAX_SIZE {
            let problem = self.problem(place, "makes the document longer than 16 MiB");
            return match self.tolerance {
                Some(_) => self.leave_out(file, problem).map(|()| None),
                None => Err(problem),
            };
        }
        self.bytes = bytes;
        let value = match json::parse(&text) {
            Ok(value) => value,
            Err(error) => {
                let problem = format!("{}: {error}", file.display());
                return self.leave_out(file, problem).map(|()| None);
            }
        };
        Ok(Some((value, self.add_source(file, text, place))))
    }

    /// Returns true for a document that was sent to the control API.
    fn is_sent(&self) -> bool {
        self.sources.first().is_some_and(|source| source.file == Path::new(SENT))
    }

    /// Says which file is read next, without its line: to find lines of all files takes too long.
    fn begins(&self, place: &Place, file: &Path) {
        let source = self.sources.get(place.source);
        let source = source.map(Source::name).unwrap_or_default();
        self.files.begins(&format!("{source}: {}: {}", path(&place.path), file.display()));
    }

    /// Keeps a problem of a file. Error: there are too many.
    fn keep(&self, place: &Place, problem: &str) -> Result<(), String> {
        self.reject(place.source, self.problem(place, problem))
    }

    /// Handles a file that cannot be used, nor the file that names it without it.
    fn reject_without(&self, file: &Path, place: &Place) -> Result<(), String> {
        match self.tolerance {
            Some(_) => self.keep(place, &format!("needs {}, which cannot be used", file.display())),
            None => Ok(()), // its own problem is kept already
        }
    }

    /// Adds a file that was read. Returns its index.
    fn add_source(&mut self, file: &Path, text: Vec<u8>, place: &Place) -> usize {
        let (file, included_by) = (file.to_owned(), Some(place.source));
        self.sources.push(Source { file, text, included_by, is_former: false });
        self.sources.len() - 1
    }

    fn problem(&self, place: &Place, problem: &str) -> String {
        match self.sources.get(place.source) {
            Some(source) => {
                let path = source.path(&place.path);
                let colon = if path.is_empty() { "" } else { ": " };
                format!("{}{path}{colon}{problem}", source.place(&place.inner))
            }
            None => problem.to_owned(),
        }
    }
}

/// Returns true for the value of an `include`. In `applications` and others, `include` may also be
/// a name of the user, whose value is an object.
fn is_include(value: &Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Array(elements) => elements.iter().all(Value::is_string),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
