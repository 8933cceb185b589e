//! Pools → a document.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::pool::{Front, Pool};
use super::read_all;
use crate::{Error, Import, Options, Report, Source};

/// The root of an application whose pool has no `chdir`: Debian's directory of sites.
const USUAL_ROOT: &str = "/var/www/html";

/// Makes an application of each pool, and a route of the same name to it. The document has no
/// listener: a pool does not say which requests a web server passes to it.
pub fn import(paths: &[PathBuf], _: &Options, source: &mut Source) -> Result<Import, Error> {
    let mut report = Report::default();
    let (pools, global) = read_all(paths, Front::Unknown, source, &mut report)?;
    if pools.is_empty() {
        let file = paths.first().cloned().unwrap_or_default();
        return Err(Error::file(&file, "there is no pool, a section such as [www]"));
    }
    let (mut applications, mut routes) = (Map::new(), Map::new());
    for pool in &pools {
        let (application, route) = parts(pool);
        applications.insert(pool.name.clone(), application.into());
        routes.insert(pool.name.clone(), route.into());
    }
    let mut document = Map::new();
    let settings = global.settings(&mut report);
    if !settings.is_empty() {
        document.insert("settings".into(), settings.into());
    }
    document.insert("listeners".into(), json!({}));
    document.insert("routes".into(), routes.into());
    document.insert("applications".into(), applications.into());
    Ok(Import { document: document.into(), report })
}

/// Returns the application of a pool, and the steps that lead to it.
fn parts(pool: &Pool) -> (Map<String, Value>, Vec<Value>) {
    let mut application = pool.application();
    let root = pool.directory().map_or(USUAL_ROOT.into(), |path| path.to_string_lossy());
    application.insert("root".into(), root.as_ref().into());
    application.entry("limit_extensions").or_insert_with(|| json!(pool.limit_extensions()));
    let name = target(&pool.name);
    let mut steps = pool.pages(&name);
    // Only `pass` may have variables.
    let target = name.replace('$', "${dollar}");
    let paths: BTreeSet<&str> = pool.paths_without_log().into_iter().collect();
    if !paths.is_empty() {
        steps.push(json!({
            "match": { "uri": paths },
            "action": { "pass": target, "access_log": false },
        }));
    }
    steps.push(json!({ "action": { "pass": target } }));
    if let Some(clients) = pool.clients() {
        for step in &mut steps {
            step["action"]["allow"] = json!(clients);
        }
    }
    (application, steps)
}

/// Returns the target of an application.
fn target(name: &str) -> String {
    format!("applications/{}", name.replace('%', "%25").replace('/', "%2F"))
}
