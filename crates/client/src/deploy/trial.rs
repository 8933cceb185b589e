//! Pages of a new release before visitors see it: a copy of the server answers for it.
//!
//! Of an application that loads its code once, nobody gets an answer of a release that does not
//! start. One that loads it for each request has the new release as soon as the link leads to it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::copies::{self, Copy, Place};
use crate::output::one_line;
use crate::visitor::{Url, Visitor};

/// The server that is copied, and the release.
pub(super) struct Trial<'a> {
    running: &'a Value,
    /// Name of the application.
    application: &'a str,
    link: &'a Path,
    release: &'a Path,
    /// The copies by the ports of the listeners.
    copies: BTreeMap<u16, Copy>,
    /// Their files, which are removed after them.
    place: Place,
}

impl<'a> Trial<'a> {
    /// Begins a trial of the release that the link will lead to.
    pub(super) fn new(
        running: &'a Value,
        application: &'a str,
        link: &'a Path,
        release: &'a Path,
    ) -> Result<Trial<'a>, String> {
        let place = Place::new()?;
        Ok(Trial { running, application, link, release, copies: BTreeMap::new(), place })
    }

    /// Returns the reason why the release cannot be tried; `None` if it can.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        let application = &self.running["applications"][self.application];
        let is_classic = matches!(application["worker"], Value::Null | Value::Bool(false));
        let options = application.get("options");
        let has_preload = ["user", "admin"].iter().any(|part| {
            options.and_then(|options| options.get(part)?.get("opcache.preload")).is_some()
        });
        let variables = application.get("environment").and_then(Value::as_object);
        let mut variables = variables.into_iter().flat_map(Map::values);
        let is_of_server =
            |value: &Value| value.get("env").is_some() && value.get("default").is_none();
        if !is_classic || has_preload {
            Some("no request reaches it before it has started")
        } else if variables.any(is_of_server) {
            Some("it has variables of the server's environment, which are not known here")
        } else {
            None
        }
    }

    /// Asks a copy of the server for a page of the release. Returns its status; `None` if the server
    /// has no listener with the port of the URL, or the link is not in the configuration.
    pub(super) fn status(&mut self, url: &Url) -> Result<Option<u16>, String> {
        if !self.copies.contains_key(&url.port) {
            let Some(document) = self.document(url.port) else { return Ok(None) };
            let copy = Copy::start(&self.place, &url.port.to_string(), &document, &[]);
            let failed =
                |problem: String| format!("no copy of the server starts: {}", one_line(&problem));
            self.copies.insert(url.port, copy.map_err(failed)?);
        }
        let Some(copy) = self.copies.get(&url.port) else { return Ok(None) };
        let answer = Visitor::new(copy.address, &url.host, url.is_https).get(&url.target);
        let status = answer.map_err(|error| error.to_string())?.status;
        if status >= 500 {
            return Err(format!(
                "it is answered with {status}: {}",
                one_line(&copy.last_problem())
            ));
        }
        Ok(Some(status))
    }

    fn document(&self, port: u16) -> Option<Value> {
        let mut document = copies::document(self.running, port).ok()?;
        if !self.lead(&mut document) {
            return None;
        }
        let applications = document["applications"].as_object_mut();
        for application in applications.into_iter().flat_map(Map::values_mut) {
            // They start when they are asked. Those of other sites are not.
            if application["type"].as_str().is_some_and(|kind| kind.starts_with("php")) {
                application["processes"] = json!({"max": 2, "spare": 0});
            }
        }
        Some(document)
    }

    /// Lets each path below the link lead to the release. Returns false if there is none.
    fn lead(&self, part: &mut Value) -> bool {
        match part {
            Value::Array(elements) => {
                elements.iter_mut().fold(false, |found, part| self.lead(part) | found)
            }
            Value::Object(members) => {
                members.values_mut().fold(false, |found, part| self.lead(part) | found)
            }
            Value::String(text) => {
                let (Some(link), Some(release)) = (self.link.to_str(), self.release.to_str())
                else {
                    return false;
                };
                let rest = text.strip_prefix(link);
                let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(['/', '$']));
                let Some(led) = rest.map(|rest| format!("{release}{rest}")) else { return false };
                *text = led;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(running: &Value) -> Trial<'_> {
        let (link, release) = (Path::new("/srv/current"), Path::new("/srv/releases/2"));
        Trial::new(running, "shop", link, release).unwrap()
    }

    #[test]
    fn paths_below_the_link_lead_to_the_release_and_no_others() {
        let mut document = json!({
            "applications": {"shop": {"root": "/srv/current/public", "targets": ["/srv/current"]}},
            "routes": [{"action": {"share": "/srv/current$uri", "x": "/srv/current2/a"}}],
        });
        let none = json!({});
        assert!(trial(&none).lead(&mut document));
        assert_eq!(
            document,
            json!({
                "applications": {
                    "shop": {"root": "/srv/releases/2/public", "targets": ["/srv/releases/2"]},
                },
                "routes": [{"action": {"share": "/srv/releases/2$uri", "x": "/srv/current2/a"}}],
            })
        );
        assert!(!trial(&none).lead(&mut json!({"root": "/srv/releases/1", "n": 1})));
    }

    #[test]
    fn only_code_that_is_loaded_for_each_request_is_tried() {
        for (application, is_tried) in [
            (json!({}), true),
            (
                json!({"worker": false, "environment": {"A": "b", "C": {"env": "D", "default": ""}}}),
                true,
            ),
            (json!({"environment": {"A": {"file": "/a"}}}), true),
            (json!({"environment": {"A": {"env": true}}}), false),
            (json!({"worker": true}), false),
            (json!({"options": {"admin": {"opcache.preload": "/p.php"}}}), false),
        ] {
            let running = json!({"applications": {"shop": application}});
            assert_eq!(trial(&running).obstacle().is_none(), is_tried, "{application}");
        }
    }
}
