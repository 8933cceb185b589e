//! The last look at a document: a part that Howdah does not accept is closed, so that all others can
//! be used.

use howdah_config::Config;
use serde_json::{Value, json};

/// Maximum number of parts that are closed.
const MAX_REPAIRS: usize = 100;

/// A part of a document that was closed.
#[derive(Debug)]
pub struct Repair {
    /// Name of the route.
    pub route: String,
    pub problem: String,
}

/// Closes the parts of a document that are not accepted.
pub fn repaired(document: &mut Value) -> Vec<Repair> {
    let mut repairs = Vec::new();
    for _ in 0..MAX_REPAIRS {
        let Err(error) = Config::from_value(document.clone()) else { break };
        let path: Vec<String> =
            error.path().split('/').skip(1).map(|part| part.replace("%2F", "/")).collect();
        let problem = error.to_string();
        let (section, name) = match path.as_slice() {
            [section, name, ..] => (section.clone(), name.clone()),
            _ => break,
        };
        if section == "routes" {
            let index = path.get(2).and_then(|index| index.parse::<usize>().ok()).unwrap_or(0);
            let is_match = path.get(3).is_some_and(|part| part == "match");
            let Some(step) = document["routes"][&name].get_mut(index) else { break };
            // Of a step whose conditions are not known, all paths are closed.
            let closed = json!({"action": {"return": 403}});
            let conditions = step.get("match").filter(|_| !is_match).cloned();
            if *step == closed {
                break;
            }
            *step = closed;
            if let Some(conditions) = conditions {
                step["match"] = conditions;
            }
        } else if let Some(members) = document[&section].as_object_mut() {
            if members.remove(&name).is_none() {
                break;
            }
        } else {
            break;
        }
        repairs.push(Repair { route: name, problem });
    }
    repairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_not_accepted_is_closed() {
        let mut document = json!({
            "listeners": {"*:80": {"pass": "routes/a"}},
            "routes": {"a": [
                {"match": {"uri": "/x"}, "action": {"return": 200, "location": "$nothing"}},
                {"match": {"uri": "~(?!x)"}, "action": {"return": 200}},
                {"action": {"return": 404}},
            ]},
        });
        let repairs = repaired(&mut document);
        assert_eq!(repairs.len(), 2, "{repairs:?}");
        assert_eq!(
            document["routes"]["a"],
            json!([
                {"match": {"uri": "/x"}, "action": {"return": 403}},
                {"action": {"return": 403}},
                {"action": {"return": 404}},
            ])
        );
    }
}
