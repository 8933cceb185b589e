//! NGINX Unit: a document in Howdah's own grammar.
//!
//! 1. [`members`] finds the line of each member.
//! 2. [`differences`] names members that mean something else here.
//! 3. [`languages`] takes out applications that do not run PHP.
//! 4. [`repair`] takes out what Howdah refuses, and closes the places that depend on it.

use std::collections::BTreeMap;
use std::path::Path;

use howdah_config::json;
use serde_json::Value;

use crate::{Error, Id, Import, Options, Report, Source, Status};

mod closed;
mod differences;
mod languages;
mod members;
mod repair;

/// Reads a document of Unit: the object `/config` of its control API, its state file `conf.json`,
/// or the answer of `/`, which has the document in the member `config`.
pub fn import(path: &Path, _: &Options, source: &mut Source) -> Result<Import, Error> {
    let text = source.read(path)?;
    let value = json::parse(text.as_bytes()).map_err(|error| match error.position() {
        Some(at) => Error::at(path, u32::try_from(at.line).unwrap_or(u32::MAX), error.message()),
        None => Error::file(path, error.message()),
    })?;
    let Value::Object(mut object) = value else {
        return Err(Error::at(path, 1, "a document of Unit is an object"));
    };
    let mut report = Report::default();
    let mut marks = Marks::default();
    for member in members::members(&text) {
        let id = report.add(path, member.line, shown(&member.path));
        marks.ids.insert(member.path, id);
    }
    if !object.contains_key("listeners") && object.get("config").is_some_and(Value::is_object) {
        marks.prefix = vec!["config".to_owned()];
        marks.mark_others(&mut report);
        if let Some(Value::Object(config)) = object.remove("config") {
            object = config;
        }
    }
    let mut document = Value::Object(object);
    marks.has_nameless_route = document.get("routes").is_some_and(Value::is_array);
    differences::report(&document, &marks, &mut report);
    languages::take_out(&mut document, &marks, &mut report);
    repair::repair(&mut document, &marks, &mut report)
        .map_err(|message| Error::file(path, message))?;
    marks.mark_rest(&mut report);
    Ok(Import { document, report })
}

/// The path of a member, as the control API has it, without a slash in front.
fn shown(path: &[String]) -> String {
    howdah_config::path(path).trim_start_matches('/').to_owned()
}

/// The members of the file in the report.
#[derive(Default)]
struct Marks {
    ids: BTreeMap<Vec<String>, Id>,
    /// Where the document is in the file.
    prefix: Vec<String>,
    /// The document of the file has one route, without a name. It gets the name [`closed::MAIN`]
    /// once there are others.
    has_nameless_route: bool,
}

impl Marks {
    /// Returns the path in the file of a path in the document.
    fn path_in_file(&self, path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        let is_main = path.get(1).is_some_and(|name| name == closed::MAIN);
        if self.has_nameless_route && is_main && path[0] == "routes" {
            path.remove(1);
        }
        [&self.prefix[..], &path].concat()
    }

    /// Gives the member at a path of the document a status, and all that is in it. An element of
    /// an array has no entry of its own: what is in it has.
    fn mark(&self, path: &[String], status: Status, reason: &str, report: &mut Report) {
        let path = self.path_in_file(path);
        let below = self.ids.range(path.clone()..).take_while(|(one, _)| one.starts_with(&path));
        for (_, id) in below {
            report.mark(*id, status, reason);
        }
    }

    /// Gives the member at a path of the document a status, or the member around it if there is
    /// none of this path.
    fn mark_only(&self, path: &[String], status: Status, reason: &str, report: &mut Report) {
        let path = self.path_in_file(path);
        let around = (0..=path.len()).rev().find_map(|length| self.ids.get(&path[..length]));
        if let Some(id) = around {
            report.mark(*id, status, reason);
        }
    }

    /// Reports the members around the document: the answer of `/` has certificates and the status.
    fn mark_others(&self, report: &mut Report) {
        for (path, id) in &self.ids {
            match path[0].as_str() {
                "config" => {}
                "certificates" => {
                    let reason =
                        "it describes a certificate, whose file Unit's state directory has";
                    report.mark(*id, Status::NotNeeded, reason);
                }
                _ => report.mark(*id, Status::NotNeeded, "it is no part of the configuration"),
            }
        }
    }

    /// Reports all other members: they mean the same here.
    fn mark_rest(&self, report: &mut Report) {
        for id in self.ids.values() {
            if !report.is_marked(*id) {
                report.converted(*id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
