//! Copies of a running server, each on a port of its own, in which something is tried.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use howdah_sys::signals;
use serde_json::{Map, Value, json};

/// Number of names that are tried for a directory.
const MAX_PLACES: u32 = 1000;

/// A running copy. It ends with this value.
pub(crate) struct Copy {
    child: Child,
    /// Address of its listener.
    pub(crate) address: SocketAddr,
    /// Its control socket.
    pub(crate) control: PathBuf,
    log: PathBuf,
    /// Its output to standard error, such as the reason why it refuses its configuration.
    errors: PathBuf,
}

/// The files of the copies; removed with this value.
pub(crate) struct Place(PathBuf);

impl Place {
    /// Creates a directory for this process alone.
    pub(crate) fn new() -> Result<Place, String> {
        // Others may have made a directory of the same name.
        for number in 0..MAX_PLACES {
            let name = format!("howdah-copy-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Place(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        Err(format!("no directory can be made in {}", std::env::temp_dir().display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Copy {
    /// Starts a server with these options beside those of a copy. `name` is that of its files in
    /// `place`.
    pub(crate) fn start(
        place: &Place,
        name: &str,
        document: &Value,
        options: &[&str],
    ) -> Result<Copy, String> {
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
        command.arg("serve").args(options).arg("--config").arg(&file).arg("--log").arg(&log);
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
    pub(crate) fn last_problem(&self) -> String {
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

/// Returns the listener with this port, and its name.
pub(crate) fn listener(running: &Value, port: u16) -> Option<(&str, &Value)> {
    let suffix = format!(":{port}");
    let found = running["listeners"].as_object()?.iter().find(|(key, _)| key.ends_with(&suffix));
    found.map(|(name, listener)| (name.as_str(), listener))
}

/// Returns the document of a copy: its `listeners` are the listener of the running server with this
/// port, and what is there once on a machine, or belongs to the processes of the running server, is
/// left out.
pub(crate) fn document(running: &Value, port: u16) -> Result<Value, String> {
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
    if let Some(settings) = copy.get_mut("settings").and_then(Value::as_object_mut) {
        settings.remove("probes");
        settings.remove("telemetry");
    }
    for application in copy["applications"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        // Each timer and each worker of a queue would run twice.
        if let Some(application) = application.as_object_mut() {
            application.remove("jobs");
        }
        // The processes of a control group end with the copy: not those of the running server. A
        // group of limits has the name of its application.
        if let Some(isolation) = application.get_mut("isolation").and_then(Value::as_object_mut) {
            isolation.remove("cgroup");
            isolation.remove("limits");
        }
    }
    Ok(copy)
}
