//! Media types of texts of `return` and of files, where they differ from those of the whole server.

use std::collections::BTreeMap;

use serde_json::json;

use super::context::{Kind, Place};
use super::convert::Converter;
use super::options::merge;
use super::reader::Directive;
use super::steps::object;
use super::variables::Object;
use crate::Status;

impl<'t> Converter<'_> {
    /// Returns the media type of a text of `return`.
    pub fn type_of_text(&mut self, place: &Place<'t>) -> Option<String> {
        let content_type = self.type_of_path(place);
        let charset = place
            .scope
            .one("charset")
            .map(|directive| directive.arg(0))
            .filter(|charset| *charset != "off");
        let whole = |content_type: &str| match charset {
            Some(charset) if has_charset(content_type) => {
                format!("{content_type}; charset={charset}")
            }
            _ => content_type.to_owned(),
        };
        let default = (!content_type.is_empty()).then(|| whole(&content_type));
        let is_exact = place.location.as_ref().is_some_and(|location| location.kind == Kind::Exact);
        if is_exact || self.types.is_empty() || self.has_own_types(place, "types") {
            return default;
        }
        let types = self.types.clone();
        Some(self.type_variable(&types, &whole, default.unwrap_or_default()))
    }

    /// Defines a variable with the media type of the ending of the path.
    fn type_variable(
        &mut self,
        types: &BTreeMap<String, String>,
        whole: &dyn Fn(&str) -> String,
        default: String,
    ) -> String {
        let mut endings: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (ending, name) in types {
            endings.entry(name).or_default().push(super::pcre::escape(ending));
        }
        let values: Object = endings
            .into_iter()
            .map(|(name, endings)| {
                (format!("~(?i)\\.(?:{})$", endings.join("|")), whole(name).into())
            })
            .collect();
        let definition = json!({ "map": "$uri", "values": values, "default": default });
        format!("${}", self.define("content_type", definition))
    }

    /// Returns the media type of the ending of a location's paths, or else the default type.
    pub fn type_of_path(&mut self, place: &Place<'t>) -> String {
        let name = place.prefix().rsplit('/').next().unwrap_or_default();
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        let mut own = place.scope.any_of(&["types"]).into_iter().flat_map(Directive::children);
        let is_of =
            |entry: &&Directive| ending.as_ref().is_some_and(|ending| entry.args.contains(ending));
        if let Some(entry) = own.rfind(is_of) {
            return entry.name.clone();
        }
        let has_types = self.has_own_types(place, "types");
        if let Some(found) =
            ending.and_then(|ending| self.types.get(&ending)).filter(|_| !has_types)
        {
            return found.clone();
        }
        match place.scope.one("default_type") {
            Some(directive) => {
                self.report.converted(directive.id);
                directive.arg(0).to_owned()
            }
            None if self.is_part => "application/octet-stream".to_owned(),
            None => "text/plain".to_owned(),
        }
    }

    /// The media type of files of an unknown type, and types of a place.
    pub fn type_of_files(&mut self, action: &mut Object, place: &Place<'t>) {
        let own_level = |name: &str| self.has_own_types(place, name);
        let (has_types, has_default) = (own_level("types"), own_level("default_type"));
        if !has_types && !has_default {
            return;
        }
        let default = place.scope.one("default_type");
        let default_text = default.map_or("text/plain", |directive| directive.arg(0)).to_owned();
        let types = place.scope.all("types");
        let is_empty = types.iter().all(|types| types.children().is_empty());
        let is_file_without_type = place.location.as_ref().is_some_and(|location| {
            location.kind == Kind::Exact
                && !location.name.rsplit('/').next().unwrap_or_default().contains('.')
        });
        if (has_types && is_empty) || (has_default && is_file_without_type) {
            let fields = object([("Content-Type", default_text.into())]);
            merge(action, "response_headers", fields);
            for directive in types.iter().filter(|_| has_types).chain(default.iter()) {
                self.report.converted(directive.id);
            }
            return;
        }
        let own: BTreeMap<String, String> = types
            .iter()
            .flat_map(|types| types.children())
            .filter(|entry| entry.name != "include")
            .flat_map(|entry| {
                entry.args.iter().map(|ending| (ending.to_ascii_lowercase(), entry.name.clone()))
            })
            .collect();
        let all = if has_types { own } else { self.types.clone() };
        if default_text.is_empty()
            && let Some(directive) = default
        {
            let reason = "files of an unknown type have the default type of the whole server";
            self.report.mark(directive.id, Status::Changed, reason);
        }
        let value = self.type_variable(&all, &str::to_owned, default_text);
        merge(action, "response_headers", object([("Content-Type", value.into())]));
        for directive in types.iter().filter(|_| has_types).chain(default.iter()) {
            self.report.converted(directive.id);
        }
    }

    pub fn has_own_types(&self, place: &Place<'t>, name: &str) -> bool {
        let here = place.scope.all(name);
        let global = self.http_scope(place).map(|http| http.all(name)).unwrap_or_default();
        match (here.first(), global.first()) {
            (Some(one), Some(other)) => !std::ptr::eq(*one, *other),
            (Some(_), None) => true,
            _ => false,
        }
    }
}

fn has_charset(content_type: &str) -> bool {
    matches!(
        content_type,
        "text/html"
            | "text/xml"
            | "text/plain"
            | "text/vnd.wap.wml"
            | "application/javascript"
            | "application/rss+xml"
    )
}
