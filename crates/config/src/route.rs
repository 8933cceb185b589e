//! `routes`: steps that are tried in order until the conditions of one hold.

use std::collections::HashMap;
use std::sync::Arc;

use howdah_template::Groups;
use serde_json::Value;

use crate::action::{ACTION, Action, KINDS};
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::matching::{MATCH, Match};
use crate::node::{Node, Scope};

/// A step of a route.
pub(crate) static STEP: Shape = Shape {
    name: "step",
    parts: &[&[
        Key::new("match", Kind::Object(&MATCH), "Conditions, all of which must hold")
            .default("always holds")
            .unit(),
        Key::new(
            "action",
            Kind::Object(&ACTION),
            "The response to requests that meet the conditions",
        )
        .details("See [Actions](actions.md)")
        .required()
        .unit(),
    ]],
};

/// A list of steps. A request for which no step holds is answered with 404.
#[derive(Debug, Clone)]
pub struct Route {
    /// The name, where `routes` is an object; `None` where it is an array.
    pub name: Option<String>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// Conditions, and the action for requests that meet them. Equal steps of many routes share both.
#[derive(Debug, Clone)]
pub struct Step {
    /// The conditions, all of which must hold.
    pub conditions: Arc<Match>,
    /// The action.
    pub action: Arc<Action>,
    /// True if templates of the action refer to groups of the conditions.
    pub captures: bool,
}

impl Route {
    /// Reads `routes`: an array of steps, or an object with an array for each name.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Route>, Error> {
        if node.value.is_array() {
            return Ok(vec![Route { name: None, steps: read_steps(node, &mut HashMap::new())? }]);
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("an array of steps or an object of named arrays"));
        }
        let (mut routes, mut shared) = (Vec::new(), HashMap::new());
        for (name, steps) in node.members()? {
            let steps = node.part(read_steps(&steps, &mut shared))?.unwrap_or_default();
            routes.push(Route { name: Some(name.to_owned()), steps });
        }
        Ok(routes)
    }
}

/// Reads steps. `shared` has those that other routes may have, too, by their values: the routes of
/// many sites begin with the same ones.
fn read_steps<'a>(
    node: &Node<'a>,
    shared: &mut HashMap<&'a Value, Step>,
) -> Result<Vec<Step>, Error> {
    let values = node.value.as_array().map_or(&[][..], Vec::as_slice);
    let mut steps = Vec::with_capacity(values.len());
    for (step, value) in node.elements()?.zip(values) {
        if let Some(known) = shared.get(value) {
            steps.push(known.clone());
            continue;
        }
        let read = node.part(Step::read(&step))?;
        if let Some(read) = read.as_ref().filter(|_| is_shared(value)) {
            shared.insert(value, read.clone());
        }
        steps.extend(read);
    }
    Ok(steps)
}

/// Returns true for a step that means the same in each place: it responds with a fixed status. Those
/// of other actions may count requests by their place.
fn is_shared(step: &Value) -> bool {
    let action = step.get("action").and_then(Value::as_object);
    action.is_some_and(|action| action.len() == 1 && action.contains_key("return"))
}

impl Step {
    fn read(node: &Node<'_>) -> Result<Step, Error> {
        let object = node.object(&STEP)?;
        let conditions = object.read("match", Match::read)?.unwrap_or_default();
        let groups = Groups::new(conditions.uri.as_ref(), conditions.host.as_ref());
        let scope = Scope { groups: &groups, ..*node.scope };
        let action = object.required("action").map_err(|error| without_action(node, error))?;
        let action = Action::read(&action.within(&scope))?;
        object.end()?;
        let (conditions, action) = (Arc::new(conditions), Arc::new(action));
        Ok(Step { conditions, action, captures: groups.are_used() })
    }
}

/// Adds a hint if the keys of an action are those of the step.
fn without_action(step: &Node<'_>, error: Error) -> Error {
    match KINDS.iter().find(|kind| step.value.get(**kind).is_some()) {
        Some(kind) => error.with_hint(format!("write \"action\": {{\"{kind}\": ...}}")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::Config;

    #[test]
    fn equal_steps_of_many_routes_are_read_once() {
        let closed = json!({"match": {"uri": "~/\\."}, "action": {"return": 404}});
        let site = |name: &str| {
            let pass = json!({"action": {"share": format!("/srv/{name}$uri")}});
            json!([closed, pass, {"action": {"return": 200, "limit": {"rate": "1/s"}}}])
        };
        let document = json!({"routes": {"a": site("a"), "b": site("b")}});
        let config = Config::from_value(document).unwrap();
        let [a, b] = config.routes.as_slice() else { panic!("two routes") };
        let is_shared: Vec<_> = { a.steps.iter().zip(&b.steps) }
            .map(|(a, b)| Arc::ptr_eq(&a.action, &b.action))
            .collect();
        // Limits of different places count for themselves.
        assert_eq!(is_shared, [true, false, false]);
        assert!(Arc::ptr_eq(&a.steps[0].conditions, &b.steps[0].conditions));
    }

    #[test]
    fn a_mistake_in_equal_steps_is_named_in_each_place() {
        let wrong = json!([{"action": {"return": 9999}}]);
        let error = Config::from_value(json!({"routes": {"a": wrong, "b": wrong}})).unwrap_err();
        let places: Vec<_> = [&error].into_iter().chain(error.others()).map(|e| e.path()).collect();
        assert_eq!(places, ["/routes/a/0/action/return", "/routes/b/0/action/return"]);
    }
}
