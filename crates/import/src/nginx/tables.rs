//! `map` and `split_clients`: variables of the document.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::pcre;
use super::reader::Directive;
use super::state::{Captures, State};
use super::template::Template;
use super::variables::{Object, Reason, names_of};
use crate::Status;

impl<'t> Converter<'_> {
    /// Reads the tables of a level, each behind those that it uses.
    pub fn read_tables(&mut self, place: &Place<'t>) {
        let is_table = |directive: &&Directive| {
            matches!(directive.name.as_str(), "map" | "geo" | "split_clients")
        };
        let mut left: Vec<&'t Directive> =
            place.scope.directives().iter().filter(is_table).collect();
        while !left.is_empty() {
            let names: Vec<String> = left.iter().map(|table| name_of(table)).collect();
            let uses = |table: &Directive| {
                let own = name_of(table);
                let words = table
                    .args
                    .iter()
                    .take(1)
                    .chain(table.children().iter().flat_map(|entry| &entry.args));
                words
                    .flat_map(|word| names_of(word))
                    .any(|name| name != own && names.contains(&name))
            };
            // Tables that use each other have no order; they are read as they stand.
            let at = left.iter().position(|table| !uses(table)).unwrap_or(0);
            let table = left.remove(at);
            let value = match table.name.as_str() {
                "map" => self.map(table, place),
                "geo" => self.geo(table, place),
                _ => self.split(table, place),
            };
            let value = match value {
                Ok(value) => {
                    self.report.converted(table.id);
                    Some(value)
                }
                Err(reason) => {
                    self.report.mark(table.id, Status::NotConverted, reason);
                    None
                }
            };
            self.tables.insert(name_of(table), value);
        }
    }

    fn map(&mut self, table: &'t Directive, place: &Place<'t>) -> Result<Template, Reason> {
        let subject = self.value(table.arg(0), place, &State::default())?;
        let has_names =
            table.children().iter().any(|entry| entry.name == "hostnames" && entry.args.is_empty());
        let (mut values, mut default) = (Object::new(), String::new());
        let mut excluded = Vec::new();
        for entry in table.children() {
            if entry.args.is_empty() || entry.name == "include" {
                continue;
            }
            let [text] = entry.args.as_slice() else {
                return Err(format!(
                    "the entry \"{}\" in line {} has more than one value",
                    entry.name, entry.line
                ));
            };
            let key = entry.name.as_str();
            if key == "default" {
                default = self.value(text, place, &State::default())?.render();
                continue;
            }
            let regex = match key.strip_prefix("~*") {
                Some(regex) => Some((regex, true)),
                None => key.strip_prefix('~').map(|regex| (regex, false)),
            };
            if let Some((regex, any_case)) = regex {
                let expression = pcre::convert(regex, any_case)
                    .ok_or_else(|| format!("line {}: {}", entry.line, pcre::NO_EQUIVALENT))?;
                excluded.extend(expression.excluded.iter().map(|text| format!("~{text}")));
                if expression.excluded.is_empty() && !excluded.is_empty()
                    || expression.excluded.len() > 1
                {
                    return Err(format!("line {}: {}", entry.line, pcre::NO_EQUIVALENT));
                }
                let mut state = State::default();
                let key = format!("~{}", expression.text);
                self.set_captures(
                    &mut state,
                    Captures { subject: subject.clone(), expression, is_direct: true },
                );
                let value = self.value(text, place, &state)?.render();
                values.entry(key).or_insert_with(|| value.into());
                continue;
            }
            let key = key.strip_prefix('\\').unwrap_or(key);
            let value: Value = self.value(text, place, &State::default())?.render().into();
            let keys = match (has_names, key.strip_prefix('.')) {
                (true, Some(rest)) => vec![rest.to_owned(), format!("*.{rest}")],
                (true, None) => vec![key.to_owned()],
                (false, _)
                    if key.starts_with(['~', '!']) || key.contains('*') || key.is_empty() =>
                {
                    vec![format!("~(?i)^{}$", pcre::escape(key))]
                }
                (false, _) => vec![key.to_owned()],
            };
            for key in keys {
                values.entry(key.to_ascii_lowercase()).or_insert_with(|| value.clone());
            }
        }
        if !excluded.is_empty() {
            let mut first: Object =
                excluded.into_iter().map(|key| (key, default.clone().into())).collect();
            first.extend(values);
            values = first;
        }
        let definition = json!({ "map": subject.render(), "values": values, "default": default });
        Ok(Template::variable(&self.define(&name_of(table), definition)))
    }

    fn split(&mut self, table: &'t Directive, place: &Place<'t>) -> Result<Template, Reason> {
        let subject = self.value(table.arg(0), place, &State::default())?;
        let (mut values, mut default) = (Object::new(), String::new());
        for entry in table.children() {
            let value = self.value(entry.arg(0), place, &State::default())?.render();
            if entry.name == "*" {
                default = value;
                continue;
            }
            let percent = entry.name.strip_suffix('%').and_then(|text| text.parse::<f64>().ok());
            let percent = percent.ok_or_else(|| {
                format!("\"{}\" in line {} is no percentage", entry.name, entry.line)
            })?;
            let number = serde_json::Number::from_f64(percent).map_or(Value::Null, Value::Number);
            if values.insert(value, number).is_some() {
                return Err("two shares have the same value".to_owned());
            }
        }
        self.report.mark(
            table.id,
            Status::Changed,
            "clients are divided in the same shares by another calculation",
        );
        let definition = json!({ "split": subject.render(), "values": values, "default": default });
        Ok(Template::variable(&self.define(&name_of(table), definition)))
    }
}

/// Returns the name of the variable of a table.
fn name_of(table: &Directive) -> String {
    table.args.last().map_or("", String::as_str).trim_start_matches('$').to_ascii_lowercase()
}
