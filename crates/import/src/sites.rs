//! Sites of a few lines, for `--sites`: those hosts of a document of which a site says nearly the
//! same.
//!
//! A site finds its files and scripts by its directory. So a host becomes one if all that it does is
//! to serve the files of one directory, to run its scripts as one application, to pass what is not
//! found to one script, and to close paths. What a site cannot say is the reason why there is none.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

mod application;
mod hosts;

use hosts::Host;

/// A host of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// The name of the site, which is that of its file without `.json`.
    pub name: String,
    /// The site, or the reason why there is none.
    pub site: Result<Value, String>,
}

/// Returns the hosts of a document as sites.
pub fn sites(document: &Value) -> Vec<Site> {
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for host in hosts::hosts(document) {
        let mut name = host.name();
        while !taken.insert(name.clone()) {
            name.push_str("-2");
        }
        all.push(Site { name, site: site(document, &host) });
    }
    all
}

fn site(document: &Value, host: &Host) -> Result<Value, String> {
    let mut found = Found::default();
    found.steps(document, &host.route, true)?;
    let root = found.root.ok_or("it serves no files of a directory")?;
    let mut site = Map::new();
    site.insert("hosts".into(), json!(host.names));
    site.insert("root".into(), root.as_str().into());
    site.insert("public".into(), ".".into());
    site.insert("front_controller".into(), found.front.map_or(json!(false), Value::from));
    site.insert("htaccess".into(), json!(false));
    site.insert("https".into(), host.https()?);
    if let Some(name) = &found.application {
        let application = &document["applications"][name.as_str()];
        site.extend(application::members(application, &root)?);
    }
    if !found.closed.is_empty() {
        site.insert("routes".into(), found.closed.into());
    }
    Ok(site.into())
}

/// What the steps of a host do.
#[derive(Default)]
struct Found {
    root: Option<String>,
    application: Option<String>,
    /// The script for what is not found.
    front: Option<String>,
    /// Steps that close paths.
    closed: Vec<Value>,
    visited: BTreeSet<String>,
}

/// Options of actions that a site needs not say.
const SILENT: [&str; 4] = ["follow_symlinks", "index", "environment", "types"];

impl Found {
    /// Reads the steps of a route. `is_for_all` is true if all requests of the host come to it.
    fn steps(&mut self, document: &Value, route: &str, is_for_all: bool) -> Result<(), String> {
        if !self.visited.insert(route.to_owned()) {
            return Ok(());
        }
        let steps = match &document["routes"] {
            Value::Array(steps) => steps,
            routes => routes[route].as_array().ok_or("a route is missing")?,
        };
        for step in steps {
            self.step(document, step, is_for_all)?;
        }
        Ok(())
    }

    fn step(&mut self, document: &Value, step: &Value, is_for_all: bool) -> Result<(), String> {
        let empty = Map::new();
        let conditions = step["match"].as_object().unwrap_or(&empty);
        let of_path = ["uri", "file", "directory", "exists"];
        if let Some(key) = conditions.keys().find(|key| !of_path.contains(&key.as_str())) {
            return Err(format!("it has a condition about \"{key}\""));
        }
        let is_by_name = conditions.keys().all(|key| key == "uri");
        let action = step["action"].as_object().ok_or("a step has no action")?;
        if let Some(status) = closes(action)? {
            return match (conditions.is_empty() || !is_by_name, is_for_all) {
                // What a site does with a directory without an index, and with what is not found.
                (true, _) => Ok(()),
                (false, true) => {
                    let closed = json!({ "match": step["match"], "action": { "return": status } });
                    self.closed.push(closed);
                    Ok(())
                }
                (false, false) => Err("paths are closed only within a location".to_owned()),
            };
        }
        self.action(document, action, is_for_all && conditions.is_empty())
    }

    fn action(
        &mut self,
        document: &Value,
        action: &Map<String, Value>,
        is_for_all: bool,
    ) -> Result<(), String> {
        for (key, value) in action {
            let text = value.as_str().unwrap_or_default();
            match key.as_str() {
                "share" => {
                    let root = text.strip_suffix("$uri").or(text.strip_suffix("${uri}"));
                    self.root(root.ok_or("its files are not those of one directory")?)?;
                }
                "rewrite" if text.starts_with("${uri}index.") => {}
                "rewrite" => self.front(text)?,
                "scripts" => self.target(document, text, is_for_all)?,
                "pass" => self.target(document, text, is_for_all)?,
                "fallback" => match value.as_object() {
                    Some(inner) if closes(inner)?.is_some() => {}
                    Some(inner) => self.action(document, inner, is_for_all)?,
                    None => return Err("it has a fallback that a site has not".to_owned()),
                },
                key if SILENT.contains(&key) => {}
                key => return Err(format!("it has \"{key}\"")),
            }
        }
        Ok(())
    }

    fn target(&mut self, document: &Value, target: &str, is_for_all: bool) -> Result<(), String> {
        if let Some(route) = target.strip_prefix("routes/") {
            return self.steps(document, route, is_for_all);
        }
        let target = target.strip_prefix("applications/").ok_or("it passes to other servers")?;
        let (name, part) = target.split_once('/').unwrap_or((target, ""));
        if self.application.get_or_insert_with(|| name.to_owned()) != name {
            return Err("it has several applications".to_owned());
        }
        let application = &document["applications"][name];
        // Without a name, it is the first target of those that there are.
        let first = application["targets"].as_object().and_then(|targets| targets.values().next());
        let place = match (part, first) {
            ("", first) => first.unwrap_or(application),
            (part, _) => &application["targets"][part],
        };
        if let Some(script) = place["script"].as_str() {
            self.front(&format!("/{}", script.trim_start_matches('/')))?;
        }
        self.root(place["root"].as_str().ok_or("its application has several targets")?)
    }

    fn root(&mut self, root: &str) -> Result<(), String> {
        let root = root.trim_end_matches('/');
        if root.contains('$') || self.root.get_or_insert_with(|| root.to_owned()) != root {
            return Err("its files are not those of one directory".to_owned());
        }
        Ok(())
    }

    /// Takes the script of a `rewrite`, whose query is that of the request.
    fn front(&mut self, rewrite: &str) -> Result<(), String> {
        let (script, query) = rewrite.split_once('?').unwrap_or((rewrite, ""));
        let query = query.trim_end_matches('?');
        let script = script.trim_start_matches('/');
        let is_script = script.ends_with(".php") && !script.contains('$');
        if !is_script || !matches!(query, "" | "$args" | "$query_string") {
            return Err(format!("it rewrites paths to {rewrite}"));
        }
        if self.front.get_or_insert_with(|| script.to_owned()) != script {
            return Err("it has several scripts for what is not found".to_owned());
        }
        Ok(())
    }
}

/// Returns the status with which an action refuses all requests; `None` for other actions.
fn closes(action: &Map<String, Value>) -> Result<Option<u64>, String> {
    if action.get("allow").is_some_and(|allow| *allow == json!([])) {
        return Ok(Some(403));
    }
    match action.get("return").map(Value::as_u64) {
        None => Ok(None),
        Some(Some(status @ (401 | 403 | 404 | 410 | 444))) if action.len() == 1 => Ok(Some(status)),
        _ => Err("it has fixed responses".to_owned()),
    }
}

#[cfg(test)]
mod tests;
