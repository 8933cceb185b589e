//! Routes that pass requests to each other in a circle, which ends with 500.

use howdah_config::{Action, ActionKind, Config, Pass, Route, Target, path};

use super::line::{Advice, add};

/// Finds routes from which each step of a circle leads to the next, and no step changes the
/// request.
pub(super) fn of_routes(config: &Config, all: &mut Vec<Advice>) {
    // A route is reported with the first route of its circle in the document.
    let index = |name: &Option<String>| config.routes.iter().position(|route| route.name == *name);
    let next: Vec<Vec<(usize, String)>> = config
        .routes
        .iter()
        .map(|route| {
            let passes = route.steps.iter().enumerate().flat_map(|(step, found)| {
                passes(&found.action, format!("{}/{step}/action", place(route)))
            });
            passes.filter_map(|(name, place)| Some((index(name)?, place))).collect()
        })
        .collect();
    let mut is_known = vec![false; config.routes.len()];
    for start in 0..config.routes.len() {
        let Some(circle) = circle_of(start, &next, &is_known) else { continue };
        let names: Vec<_> =
            circle.iter().filter_map(|(at, _)| config.routes.get(*at)).map(name).collect();
        let message = format!(
            "passes requests in a circle ({} → {}), so those that meet the conditions get 500; \
             end it with a step that answers, or change the request by \"rewrite\"",
            names.join(" → "),
            names.first().map_or("", String::as_str)
        );
        if let Some((_, place)) = circle.first() {
            add(all, format!("{place}/pass"), message);
        }
        for (at, _) in circle {
            if let Some(known) = is_known.get_mut(at) {
                *known = true;
            }
        }
    }
}

/// Returns the routes on the way from a route to itself, each with the action that leaves it.
/// Routes that are known are not entered.
fn circle_of(
    start: usize,
    next: &[Vec<(usize, String)>],
    is_known: &[bool],
) -> Option<Vec<(usize, String)>> {
    // Where each route was entered from, breadth first: the shortest circle is found.
    let mut from: Vec<Option<(usize, String)>> = vec![None; next.len()];
    let mut waiting = std::collections::VecDeque::from([start]);
    while let Some(at) = waiting.pop_front() {
        for (to, place) in next.get(at)? {
            if *to == start {
                let mut circle = vec![(at, place.clone())];
                let mut at = at;
                while at != start {
                    let (before, place) = from.get(at)?.clone()?;
                    circle.push((before, place));
                    at = before;
                }
                circle.reverse();
                return Some(circle);
            }
            let is_new = from.get(*to)?.is_none() && !is_known.get(*to).copied().unwrap_or(true);
            if is_new && let Some(entered) = from.get_mut(*to) {
                *entered = Some((at, place.clone()));
                waiting.push_back(*to);
            }
        }
    }
    None
}

/// Returns the routes to which an action at `place` passes requests without a change of them.
fn passes(action: &Action, place: String) -> Vec<(&Option<String>, String)> {
    if action.rewrite.is_some() {
        return Vec::new();
    }
    match &action.kind {
        ActionKind::Pass(Pass::Fixed(Target::Route(name))) => vec![(name, place)],
        ActionKind::Share(share) => match &share.fallback {
            Some(fallback) => passes(fallback, format!("{place}/fallback")),
            None => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn place(route: &Route) -> String {
    path(["routes"].into_iter().chain(route.name.as_deref()))
}

fn name(route: &Route) -> String {
    place(route).trim_start_matches('/').to_owned()
}
