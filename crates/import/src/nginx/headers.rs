//! `add_header`: fields of responses.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::options::{Answer, merge};
use super::reader::Directive;
use super::state::State;
use super::steps::object;
use super::variables::Object;
use crate::Status;

/// Fields that a document cannot set.
const RESERVED: [&str; 4] = ["content-length", "transfer-encoding", "connection", "date"];

/// The fields of one name that a place adds.
struct Field {
    name: String,
    /// Values, each with true if responses of every status get it.
    values: Vec<(String, bool)>,
}

impl<'t> Converter<'_> {
    /// Adds the fields of a place to an action.
    pub fn response_headers(
        &mut self,
        place: &Place<'t>,
        state: &State,
        answer: Answer,
        action: &mut Object,
    ) {
        let mut fields: Vec<Field> = Vec::new();
        for directive in place.scope.all("add_header") {
            let Some((text, is_always)) = self.added_field(directive, place, state, action) else {
                continue;
            };
            let name = directive.arg(0);
            match fields.iter_mut().find(|field| field.name.eq_ignore_ascii_case(name)) {
                // nginx replaces these two.
                Some(field) if is_validator(name) => field.values = vec![(text, is_always)],
                Some(field) => field.values.push((text, is_always)),
                None => {
                    fields.push(Field { name: name.to_owned(), values: vec![(text, is_always)] })
                }
            }
        }
        if answer == Answer::Own && action.contains_key("body") {
            let has_type =
                fields.iter().any(|field| field.name.eq_ignore_ascii_case("content-type"));
            for directive in place.scope.all("add_header") {
                if directive.arg(0).eq_ignore_ascii_case("content-type") {
                    let reason = "the field takes the place of the media type; nginx sends both";
                    self.report.mark(directive.id, Status::Changed, reason);
                }
            }
            if let (false, Some(content_type)) = (has_type, self.type_of_text(place)) {
                let value = json!({ "value": content_type, "always": true });
                merge(action, "response_headers", object([("Content-Type", value)]));
            }
        }
        if let Some(etag) = place.scope.one("etag") {
            self.report.converted(etag.id);
            let is_off = etag.arg(0).eq_ignore_ascii_case("off") && answer == Answer::File;
            if is_off && !fields.iter().any(|field| field.name.eq_ignore_ascii_case("etag")) {
                merge(action, "response_headers", object([("ETag", Value::Null)]));
            }
        }
        for field in fields {
            add_field(action, &field, answer);
        }
    }

    /// Returns the value that a directive adds, and whether responses of every status get it.
    fn added_field(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
        action: &Object,
    ) -> Option<(String, bool)> {
        let name = directive.arg(0);
        let is_always = directive.arg(2) == "always";
        if directive.args.len() == 3 && !is_always {
            let reason = "its third argument is not \"always\"";
            self.report.mark(directive.id, Status::NotConverted, reason);
            return None;
        }
        // nginx adds a field to these statuses alone.
        let status = action.get("return").and_then(Value::as_u64).unwrap_or(200);
        if !is_always && !matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308) {
            let reason = "the status of this response never has the field";
            self.report.mark(directive.id, Status::NotNeeded, reason);
            return None;
        }
        if let Some(field) =
            super::variables::checked_field(directive.arg(1).trim_start_matches('$'), place)
        {
            if field.replace('_', "-").eq_ignore_ascii_case(name) {
                self.report.converted(directive.id);
            } else {
                let reason = "a field of the check is sent under its own name alone";
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
            return None;
        }
        let value = match self.value(directive.arg(1), place, state) {
            Ok(value) => value,
            Err(reason) => {
                self.report.mark(directive.id, Status::NotConverted, reason);
                return None;
            }
        };
        if value.constant() == Some("") && !is_validator(name) {
            let reason = "a field without a value is not sent";
            self.report.mark(directive.id, Status::NotNeeded, reason);
            return None;
        }
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) || !is_field_name(name) {
            self.report.mark(directive.id, Status::NotConverted, "this field cannot be set");
            return None;
        }
        self.report.converted(directive.id);
        Some((value.render(), is_always))
    }
}

/// Adds a field to an action.
fn add_field(action: &mut Object, field: &Field, answer: Answer) {
    // Responses of this server have no fields of these names, but for some that nginx replaces.
    let sets = answer != Answer::Passed || is_validator(&field.name);
    let mut changes: Vec<Value> = Vec::new();
    let headers = action.entry("response_headers").or_insert_with(|| json!({}));
    let Some(headers) = headers.as_object_mut() else { return };
    let former = headers.keys().find(|key| key.eq_ignore_ascii_case(&field.name)).cloned();
    let former = former.and_then(|key| headers.shift_remove(&key));
    // A field of the application that is removed.
    changes.extend(former);
    // Values in a row that the same statuses get are one change.
    for part in field.values.chunk_by(|(_, one), (_, other)| one == other) {
        let is_always = part.first().is_some_and(|(_, is_always)| *is_always);
        let texts: Vec<&str> = part.iter().map(|(text, _)| text.as_str()).collect();
        let mut change = Object::new();
        let value = match texts.as_slice() {
            [""] => Value::Null,
            [text] => (*text).into(),
            texts => json!(texts),
        };
        let is_first_to_set = sets && changes.is_empty();
        let has_mode = !value.is_null() && !is_first_to_set;
        change.insert("value".to_owned(), value);
        if has_mode {
            change.insert("mode".to_owned(), "add".into());
        }
        if is_always {
            change.insert("always".to_owned(), true.into());
        }
        changes.push(change.into());
    }
    let value = match (changes.len(), changes.pop()) {
        (1, Some(Value::Object(mut change))) if change.len() == 1 => {
            change.remove("value").unwrap_or_default()
        }
        (1, Some(change)) => change,
        (_, last) => {
            changes.extend(last);
            changes.into()
        }
    };
    headers.insert(field.name.clone(), value);
}

/// Returns true for fields that `add_header` replaces.
fn is_validator(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().as_str(), "last-modified" | "etag")
}

fn is_field_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
