//! The two servers that are compared: copies of a running one on a port of their own, in which one
//! application runs in the classic mode and in worker mode.

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use howdah_sys::signals;
use serde_json::{Map, Value, json};

/// A running copy. It ends with this value.
pub(super) struct Copy {
    child: Child,
    /// Address of its listener.
    pub(super) address: SocketAddr,
    /// Its control socket.
    pub(super) control: PathBuf,
    log: PathBuf,
    /// Its output to standard error, such as the reason why it refuses its configuration.
    errors: PathBuf,
}

/// The files of the copies; removed with this value.
pub(super) struct Place(PathBuf);

impl Place {
    /// Creates a directory for this process alone.
    pub(super) fn new() -> Result<Place, String> {
        let path = std::env::temp_dir().join(format!("howdah-worker-check-{}", std::process::id()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Place(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Copy {
    /// Starts a server. `name` is that of its files in `place`.
    pub(super) fn start(place: &Place, name: &str, document: &Value) -> Result<Copy, String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let directory = place.0.join(name);
        fs::create_dir(&directory).map_err(|error| failed("no directory", error))?;
        // Another program may take the port meanwhile; then the start fails with a message.
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| failed("no free port", e))?;
        let address = listener.local_addr().map_err(|error| failed("no free port", error))?;
        drop(listener);
        let mut document = document.clone();
        let listener = document["listeners"].take();
        document["listeners"] = json!({ address.to_string(): listener });
        let file = directory.join("config.json");
        fs::write(&file, document.to_string())
            .map_err(|error| failed("no configuration", error))?;
        let program = std::env::current_exe().map_err(|error| failed("no program", error))?;
        let (control, log) = (directory.join("control"), directory.join("log"));
        let errors = directory.join("errors");
        let stderr = File::create(&errors).map_err(|error| failed("no file", error))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--strict").arg("--config").arg(&file).arg("--log").arg(&log);
        command.arg("--control").arg(format!("unix:{}", control.display()));
        command.arg("--state").arg(directory.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let child = command.spawn().map_err(|error| failed("no server", error))?;
        let mut copy = Copy { child, address, control, log, errors };
        let output = copy.child.stdout.take();
        let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines()).flatten();
        for line in lines {
            if line.starts_with("Serving ") {
                return Ok(copy);
            }
            if line.starts_with("Nothing is served") {
                break;
            }
        }
        Err(copy.last_problem())
    }

    /// Returns the last problem in its log.
    pub(super) fn last_problem(&self) -> String {
        last_problem(&self.log, &self.errors)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = signals::send(self.child.id(), signals::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Returns the last problem in a log, or the standard error of a server that has not opened its
/// log.
fn last_problem(log: &Path, errors: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let is_problem =
        |line: &&str| ["[alert]", "[emerg]", "[error]"].iter().any(|l| line.contains(l));
    if let Some(line) = text.lines().rfind(is_problem) {
        return line.to_owned();
    }
    let errors = fs::read_to_string(errors).unwrap_or_default();
    match (errors.trim(), text.lines().last()) {
        ("", line) => line.unwrap_or("it does not start, and its log is empty").to_owned(),
        (errors, _) => errors.strip_prefix("howdah: ").unwrap_or(errors).to_owned(),
    }
}

/// Chooses the application that is compared: the one that `name` names, the only resident one, or
/// the only one. Error: which there are.
pub(super) fn application(document: &Value, name: Option<&str>) -> Result<String, String> {
    let none = Map::new();
    let all = document["applications"].as_object().unwrap_or(&none);
    if let Some(name) = name {
        return if all.contains_key(name) {
            Ok(name.to_owned())
        } else {
            Err(format!("there is no application \"{name}\"{}", listed(all)))
        };
    }
    let resident = |(_, application): &(&String, &Value)| !is_classic(&application["worker"]);
    let mut chosen: Vec<_> = all.iter().filter(resident).map(|(name, _)| name).collect();
    if chosen.is_empty() {
        chosen = all.keys().collect();
    }
    match chosen.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err("the server has no PHP application".to_owned()),
        _ => Err(format!("name the application with --application{}", listed(all))),
    }
}

fn listed(applications: &Map<String, Value>) -> String {
    let names: Vec<_> = applications.keys().map(|name| format!("\"{name}\"")).collect();
    format!("; there is {}", names.join(", "))
}

fn is_classic(worker: &Value) -> bool {
    matches!(worker, Value::Null | Value::Bool(false))
}

/// Returns the listener with this port, and its name.
pub(super) fn listener(running: &Value, port: u16) -> Option<(&str, &Value)> {
    let suffix = format!(":{port}");
    let found = running["listeners"].as_object()?.iter().find(|(key, _)| key.ends_with(&suffix));
    found.map(|(name, listener)| (name.as_str(), listener))
}

/// Returns the documents of both copies: the application in the classic mode, and in worker mode
/// with `script`, if it is given. In place of the listeners, both have the one with this port.
pub(super) fn documents(
    running: &Value,
    name: &str,
    port: u16,
    script: Option<&str>,
) -> Result<[Value; 2], String> {
    let mut copy = running.clone();
    let (_, listener) = listener(running, port).ok_or_else(|| {
        let names = running["listeners"].as_object().into_iter().flat_map(Map::keys);
        let names: Vec<_> = names.map(|name| format!("\"{name}\"")).collect();
        let hint = "give the URL of the site with the port of one of them";
        format!("the server has no listener at port {port}; there is {}: {hint}", names.join(", "))
    })?;
    let mut listener = listener.clone();
    if let Some(listener) = listener.as_object_mut() {
        listener.remove("tls");
        listener.remove("access_log");
        // The copies have no certificates. The application learns the scheme of the site
        // nevertheless.
        listener.insert(
            "forwarded".to_owned(),
            json!({"source": "127.0.0.1", "protocol": "X-Forwarded-Proto"}),
        );
    }
    copy["listeners"] = listener;
    if let Some(copy) = copy.as_object_mut() {
        copy.remove("access_log");
    }
    // The processes of a control group end with the copy: not those of the running server. A group
    // of limits has the name of its application.
    for application in copy["applications"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(isolation) = application.get_mut("isolation").and_then(Value::as_object_mut) {
            isolation.remove("cgroup");
            isolation.remove("limits");
        }
    }
    let application = &mut copy["applications"][name];
    application["processes"] = json!(2);
    let mut classic = copy.clone();
    let without = &mut classic["applications"][name];
    let worker = without.as_object_mut().and_then(|app| app.remove("worker")).unwrap_or_default();
    let is_missing = |script: &Value| script.is_null();
    if without["targets"].is_null() && is_missing(&without["script"]) && !is_classic(&worker) {
        return Err(format!(
            "the application \"{name}\" has no \"script\" for the classic mode beside its \
             \"worker\"; add it, it does not change the worker mode"
        ));
    }
    let resident = &mut copy["applications"][name];
    let front = resident.get_mut("targets").and_then(remove_scripts);
    let resident = &mut resident["worker"];
    match script.or(front.as_deref()) {
        Some(script) => *resident = json!({"script": script}),
        None if is_classic(resident) => *resident = json!(true),
        None => {}
    }
    if let Some(resident) = resident.as_object_mut() {
        resident.remove("watch");
        resident.remove("fallback");
    }
    Ok([classic, copy])
}

/// Removes the scripts of targets, for which there is none in worker mode, and returns the first of
/// them.
fn remove_scripts(targets: &mut Value) -> Option<String> {
    let targets = targets.as_object_mut().into_iter().flat_map(Map::values_mut);
    let scripts: Vec<_> = targets
        .filter_map(|target| {
            let target = target.as_object_mut()?;
            target.remove("index");
            target.remove("script")?.as_str().map(str::to_owned)
        })
        .collect();
    scripts.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Value {
        json!({
            "listeners": {"*:80": {"pass": "routes"}, "*:443": {"pass": "routes", "tls": {}}},
            "access_log": "/var/log/a",
            "applications": {
                "shop": {"type": "php", "root": "/s", "script": "index.php",
                    "worker": {"script": "w.php", "watch": "."}},
                "blog": {"type": "php", "root": "/b", "isolation": {"cgroup": {"path": "b"}}},
            },
        })
    }

    #[test]
    fn the_copies_differ_in_the_worker_alone() {
        let [classic, resident] = documents(&running(), "shop", 443, None).unwrap();
        assert_eq!(classic["applications"]["shop"]["worker"], Value::Null);
        assert_eq!(resident["applications"]["shop"]["worker"], json!({"script": "w.php"}));
        for copy in [&classic, &resident] {
            assert_eq!(copy["listeners"]["pass"], "routes");
            assert!(copy["listeners"]["tls"].is_null() && copy["access_log"].is_null());
            assert_eq!(copy["applications"]["shop"]["processes"], 2);
            assert_eq!(copy["applications"]["blog"]["isolation"], json!({}));
        }
        let [_, given] = documents(&running(), "shop", 80, Some("other.php")).unwrap();
        assert_eq!(given["applications"]["shop"]["worker"], json!({"script": "other.php"}));
        assert!(documents(&running(), "shop", 81, None).unwrap_err().contains("port 81"));
        let mut with_targets = running();
        with_targets["applications"]["shop"] = json!({
            "type": "php",
            "targets": {"direct": {"root": "/s"}, "front": {"root": "/s", "script": "index.php"}},
        });
        let [classic, resident] = documents(&with_targets, "shop", 80, None).unwrap();
        assert_eq!(classic["applications"]["shop"]["targets"]["front"]["script"], "index.php");
        assert_eq!(resident["applications"]["shop"]["worker"], json!({"script": "index.php"}));
        assert_eq!(resident["applications"]["shop"]["targets"]["front"], json!({"root": "/s"}));
        let [_, given] = documents(&with_targets, "shop", 80, Some("w.php")).unwrap();
        assert_eq!(given["applications"]["shop"]["worker"], json!({"script": "w.php"}));
        let mut without = running();
        without["applications"]["shop"].as_object_mut().unwrap().remove("script");
        assert!(documents(&without, "shop", 80, None).unwrap_err().contains("classic mode"));
    }

    #[test]
    fn the_application_is_the_named_one_the_resident_one_or_the_only_one() {
        assert_eq!(application(&running(), None).unwrap(), "shop");
        assert_eq!(application(&running(), Some("blog")).unwrap(), "blog");
        assert!(
            application(&running(), Some("x")).unwrap_err().contains("\"blog\", \"shop\"")
                || application(&running(), Some("x")).unwrap_err().contains("\"shop\", \"blog\"")
        );
        let mut classic = running();
        classic["applications"]["shop"]["worker"] = json!(false);
        assert!(application(&classic, None).unwrap_err().contains("--application"));
        assert!(application(&json!({}), None).unwrap_err().contains("no PHP application"));
    }
}
