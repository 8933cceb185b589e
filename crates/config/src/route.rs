//! `routes`: steps that are tried in order until the conditions of one hold.

use howdah_template::Groups;

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

/// Conditions, and the action for requests that meet them.
#[derive(Debug, Clone)]
pub struct Step {
    /// The conditions, all of which must hold.
    pub conditions: Match,
    /// The action.
    pub action: Action,
    /// True if templates of the action refer to groups of the conditions.
    pub captures: bool,
}

impl Route {
    /// Reads `routes`: an array of steps, or an object with an array for each name.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Route>, Error> {
        if node.value.is_array() {
            return Ok(vec![Route { name: None, steps: read_steps(node)? }]);
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("an array of steps or an object of named arrays"));
        }
        let mut routes = Vec::new();
        for (name, steps) in node.members()? {
            let steps = node.part(read_steps(&steps))?.unwrap_or_default();
            routes.push(Route { name: Some(name.to_owned()), steps });
        }
        Ok(routes)
    }
}

fn read_steps(node: &Node<'_>) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    for step in node.elements()? {
        steps.extend(node.part(Step::read(&step))?);
    }
    Ok(steps)
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
