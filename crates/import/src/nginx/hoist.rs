//! Options that all actions of a server share stand in the step that leads to the server.

use serde_json::Value;

use super::convert::Converter;
use super::variables::Object;

/// Options that hold for the destination of a `pass`.
const INHERITED: [&str; 8] = [
    "charset",
    "expires",
    "cache_control",
    "max_body_size",
    "rate",
    "access_log",
    "error_pages",
    "intercept_errors",
];

/// Members of a `return` that cannot fail. A request to it may have too large a body.
const OF_RETURN: [&str; 12] = [
    "return",
    "location",
    "keep_query",
    "body",
    "response_headers",
    "error_pages",
    "access_log",
    "max_body_size",
    "charset",
    "expires",
    "cache_control",
    "rate",
];

/// Maximum number of sets of pages among which the one that is shared is chosen.
const MAX_CHOICE: usize = 8;

impl Converter<'_> {
    /// Moves options that all actions of new routes share to the step of the server, and returns
    /// them.
    pub fn hoist(&mut self, before: usize) -> Object {
        self.drop_pages(before);
        let mut shared = Object::new();
        for key in INHERITED {
            let value = match key {
                "error_pages" => self.shared_pages(before),
                key => self.shared_value(before, key),
            };
            let Some(value) = value else { continue };
            for action in self.actions_mut(before) {
                let is_same = action.get(key) == Some(&value);
                if is_same || key == "error_pages" && has_its_pages(action, &value) {
                    action.shift_remove(key);
                }
            }
            shared.insert(key.to_owned(), value);
        }
        // The request for an error page has not come through the step of the server.
        let more: Object = shared
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "error_pages" | "access_log"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if let Some(pages) = shared.get_mut("error_pages") {
            add_to_pages(pages, &more);
        }
        for action in self.actions_mut(before) {
            if let Some(pages) = action.get_mut("error_pages") {
                add_to_pages(pages, &more);
            }
        }
        shared
    }

    /// Drops pages of `return` for statuses that its responses cannot have.
    fn drop_pages(&mut self, before: usize) {
        // Without pages of its own, an action has those of the action in front of it.
        let pages_of = |action: &Object| action.contains_key("error_pages");
        let has_outer = self.actions(before).any(|action| !answers(action) && pages_of(action));
        for action in self.actions_mut(before) {
            let Some(statuses) = statuses_of_return(action) else { continue };
            let Some(pages) = action.get_mut("error_pages").and_then(Value::as_object_mut) else {
                continue;
            };
            let is_possible = |status: &String| statuses.contains(status);
            if pages.keys().any(is_possible) {
                pages.retain(|status, _| statuses.contains(status));
            } else if !has_outer {
                action.shift_remove("error_pages");
            }
        }
    }

    /// Returns the value that all answers have for a key.
    fn shared_value(&self, before: usize, key: &str) -> Option<Value> {
        let mut values = self.answers(before).map(|action| action.get(key));
        let first = values.next()??;
        values.all(|value| value == Some(first)).then(|| first.clone())
    }

    /// Returns the pages with which the actions become shortest, if the answers without them have
    /// pages of their own.
    fn shared_pages(&self, before: usize) -> Option<Value> {
        let mut all: Vec<&Value> = Vec::new();
        for pages in self.answers(before).filter_map(|action| action.get("error_pages")) {
            if all.len() < MAX_CHOICE && !all.contains(&pages) {
                all.push(pages);
            }
        }
        let fits = |action: &Object, pages: &Value| match action.get("error_pages") {
            // They would be those of the answers behind it.
            Some(own) => answers(action) || own == pages,
            None => !answers(action) || has_its_pages(action, pages),
        };
        let saved = |pages: &Value| -> usize {
            let is_gone = |action: &&Object| {
                action.get("error_pages") == Some(pages) || has_its_pages(action, pages)
            };
            let gone = self.answers(before).filter(is_gone);
            gone.filter_map(|action| action.get("error_pages"))
                .map(|own| own.to_string().len())
                .sum()
        };
        let is_alone = self.answers(before).count() == 1;
        all.into_iter()
            .filter(|pages| self.actions(before).all(|action| fits(action, pages)))
            .map(|pages| (saved(pages), pages))
            .filter(|(saved, pages)| is_alone || *saved > pages.to_string().len())
            .max_by_key(|(saved, _)| *saved)
            .map(|(_, pages)| pages.clone())
    }

    fn answers(&self, before: usize) -> impl Iterator<Item = &Object> {
        self.actions(before).filter(|action| answers(action))
    }

    fn actions(&self, before: usize) -> impl Iterator<Item = &Object> {
        let routes = self.routes.iter().skip(before);
        let steps = routes.flat_map(|(_, steps)| steps.as_array().into_iter().flatten());
        steps.filter_map(|step| step["action"].as_object())
    }

    fn actions_mut(&mut self, before: usize) -> impl Iterator<Item = &mut Object> {
        let routes = self.routes.iter_mut().skip(before);
        let steps = routes.flat_map(|(_, steps)| steps.as_array_mut().into_iter().flatten());
        steps.filter_map(|step| step.get_mut("action").and_then(Value::as_object_mut))
    }
}

/// Returns true if an action answers requests, rather than passing them to another route.
fn answers(action: &Object) -> bool {
    !action.get("pass").and_then(Value::as_str).is_some_and(|pass| pass.starts_with("routes/"))
}

/// Returns the statuses with an error page that the responses of a `return` can have; `None` for
/// other actions.
fn statuses_of_return(action: &Object) -> Option<[String; 2]> {
    let status = action.get("return")?;
    let is_alone = action.keys().all(|key| OF_RETURN.contains(&key.as_str()));
    is_alone.then(|| [status.to_string(), "413".to_owned()])
}

/// Returns true if a `return` has the same pages with these.
fn has_its_pages(action: &Object, pages: &Value) -> bool {
    let own = |status: &String| action.get("error_pages").and_then(|own| own.get(status));
    statuses_of_return(action)
        .is_some_and(|statuses| statuses.iter().all(|status| own(status) == pages.get(status)))
}

fn add_to_pages(pages: &mut Value, more: &Object) {
    for (_, page) in pages.as_object_mut().into_iter().flatten() {
        if let Some(action) = page.get_mut("action").and_then(Value::as_object_mut)
            && action.contains_key("pass")
        {
            action.extend(more.clone());
        }
    }
}
