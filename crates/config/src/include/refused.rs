//! Documents that must not include files: those that are sent to the control API.

use serde_json::Value;

use super::sites::{DEFAULTS, SITES};
use super::{Place, is_include};
use crate::error::{Error, ErrorKind};
use crate::node::{Node, Shown, path};

/// Refuses a document that includes files, where only [`super::expand`] may do so.
pub(crate) fn refuse(document: &Node<'_>) -> Result<(), Error> {
    for name in [SITES, DEFAULTS] {
        if document.value.get(name).is_some() {
            let message = format!("\"{name}\" is not for this document");
            let error = Error::new(ErrorKind::UnknownKey, String::new(), message);
            return Err(error.with_hint(
                "sites are read with a file that the server reads with \"--config\" (use \"howdah \
                 reload\"), or sent to the control API as an object",
            ));
        }
    }
    first_file(document.value).map_or(Ok(()), Err)
}

/// Returns the mistake of the first place of a document that includes files.
pub(super) fn first_file(document: &Value) -> Option<Error> {
    let (steps, name) = first_include(document, &mut Vec::new())?;
    let message = format!("file \"{}\" cannot be included by this document", Shown(&name));
    let error = Error::new(ErrorKind::InvalidValue, path(&steps), message);
    Some(error.with_hint(
        "only a file that the server reads with \"--config\" can include others; put the content \
         of the file in place of \"include\", or the document into such a file and use \"howdah \
         reload\"",
    ))
}

/// Returns the path of the first `include` in a place where a file may have it, and a name in it.
fn first_include(value: &Value, steps: &mut Vec<String>) -> Option<(Vec<String>, String)> {
    // Members of these are named by the user.
    if steps.first().is_some_and(|first| first == "access_log") {
        return None;
    }
    let place = Place { source: 0, inner: Vec::new(), path: steps.clone() };
    let mut below = |step: &str, value: &Value| {
        steps.push(step.to_owned());
        let found = first_include(value, steps);
        steps.pop();
        found
    };
    let here = match value {
        Value::Object(members) if place.allows_include() => {
            let mut inner = members.iter();
            if let Some(found) = inner.find_map(|(step, value)| below(step, value)) {
                return Some(found);
            }
            members.get("include")?
        }
        Value::Array(elements) if place.is_route() => {
            let alone = |element: &Value| match element.as_object()? {
                members if members.len() == 1 => members.get("include").cloned(),
                _ => None,
            };
            let mut all = elements.iter().enumerate();
            let (index, include) = all.find_map(|(at, element)| Some((at, alone(element)?)))?;
            steps.push(index.to_string());
            let name = first_name(&include);
            let found = name.map(|name| (include_of(steps), name));
            steps.pop();
            return found;
        }
        _ => return None,
    };
    first_name(here).map(|name| (include_of(steps), name))
}

fn include_of(steps: &[String]) -> Vec<String> {
    [steps, &["include".to_owned()]].concat()
}

/// Returns the first file that an `include` names.
fn first_name(include: &Value) -> Option<String> {
    let name = match include {
        Value::Array(names) if is_include(include) => names.first()?,
        other => other,
    };
    name.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Config;

    #[test]
    fn an_include_is_refused_with_its_place_and_what_to_do() {
        for (document, place, file) in [
            (json!({"include": "a.json"}), "/include", "a.json"),
            (json!({"routes": {"include": "conf.d/*.json"}}), "/routes/include", "conf.d/*.json"),
            (json!({"routes": {"include": ["a", "b"]}}), "/routes/include", "a"),
            (json!({"routes": [{"include": "a"}]}), "/routes/0/include", "a"),
            (
                json!({"routes": {"a": [{"action": {"return": 200}}, {"include": ["a"]}]}}),
                "/routes/a/1/include",
                "a",
            ),
            (json!({"applications": {"x": {"include": "a"}}}), "/applications/x/include", "a"),
            (json!({"listeners": {"include": "a"}}), "/listeners/include", "a"),
            (json!({"settings": {"http": {"include": "a"}}}), "/settings/http/include", "a"),
        ] {
            let error = Config::from_value(document).expect_err("refused").to_string();
            let start = format!("{place}: file \"{file}\" cannot be included");
            assert!(error.starts_with(&start) && error.contains("howdah reload"), "{error}");
        }
    }

    #[test]
    fn sites_are_refused_with_what_to_do() {
        for name in ["sites", "defaults"] {
            let error = Config::from_value(json!({name: {}})).expect_err("refused").to_string();
            assert!(error.contains(name) && error.contains("howdah reload"), "{error}");
        }
    }

    #[test]
    fn names_that_users_choose_are_no_includes() {
        let log = json!({"path": "/log", "format": {"include": "$uri"}});
        let route = json!([{"action": {"return": 200}}]);
        let document = json!({"access_log": log, "routes": {"include": route}});
        Config::from_value(document).expect("valid");
        Config::from_value(json!({"routes": {"include": []}})).expect("valid");
    }
}
