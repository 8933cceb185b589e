//! Closed places: what takes the place of an action or a `pass` that cannot be kept.

use serde_json::{Map, Value, json};

/// The name of the route that answers listeners whose application is not there.
const NAME: &str = "closed";

/// The name of the route that was the only one, once there is another one.
pub(super) const MAIN: &str = "main";

/// An action that refuses all requests.
pub(super) fn action() -> Value {
    json!({ "return": 503 })
}

/// Lets a listener refuse all requests. It keeps nothing else, such as certificates.
pub(super) fn close_listener(document: &mut Value, address: &str) {
    let target = target(document);
    if let Some(listener) = document["listeners"].get_mut(address) {
        *listener = json!({ "pass": target });
    }
}

/// Returns the target of a route that refuses all requests, and adds it.
pub(super) fn target(document: &mut Value) -> String {
    let steps = json!([{ "action": action() }]);
    if document.get("routes").is_none() {
        document["routes"] = steps;
        return "routes".to_owned();
    }
    if document["routes"] == steps {
        return "routes".to_owned();
    }
    if document["routes"].is_array() {
        let main = document["routes"].take();
        let mut routes = Map::new();
        routes.insert(MAIN.to_owned(), main);
        document["routes"] = routes.into();
        rename(document);
    }
    let Some(routes) = document["routes"].as_object_mut() else { return "routes".to_owned() };
    let free = (0..).map(|number| match number {
        0 => NAME.to_owned(),
        number => format!("{NAME}-{number}"),
    });
    let mut name = NAME.to_owned();
    for candidate in free {
        match routes.get(&candidate) {
            Some(known) if *known != steps => {}
            _ => {
                name = candidate;
                break;
            }
        }
    }
    routes.insert(name.clone(), steps);
    format!("routes/{name}")
}

/// Gives the route that had no name its new name, wherever requests are passed to it.
fn rename(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == "pass" && *value == "routes" {
                    *value = format!("routes/{MAIN}").into();
                } else {
                    rename(value);
                }
            }
        }
        Value::Array(array) => array.iter_mut().for_each(rename),
        _ => {}
    }
}
