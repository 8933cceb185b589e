//! A site → the parts of a document.

use std::path::Path;

use howdah_advice::detect::{self, DetectError, WorkerScript};
use howdah_config::include::{SiteParts, SiteProblem};
use howdah_config::{EnvironmentSource, Site, SiteWorker};
use howdah_sys::credentials::Credentials;
use howdah_sys::sandbox::paths;
use serde_json::{Map, Value, json};

use crate::sandbox::ProjectMarks;
use crate::{encryption, options, sandbox, shared};

pub mod php_version;
#[cfg(test)]
mod tests;

use self::php_version::Choice;

/// The machine that sites are compiled for.
pub struct Machine<'a> {
    /// The server's user; `None` is the user of this process.
    pub user: Option<Credentials>,
    /// Returns the content of a file. Error: the reason why it cannot be read.
    pub read: &'a dyn Fn(&Path) -> Result<Vec<u8>, String>,
    /// The document is for another machine: directories and files that are missing here may be there.
    pub is_another: bool,
    /// Project marks of the directories above sites.
    pub marks: &'a ProjectMarks,
    /// Returns the versions of PHP that are installed, such as `8.4.21`.
    pub php_versions: &'a dyn Fn() -> Vec<String>,
}

/// The page of a site that is not enabled.
const MAINTENANCE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width\"><title>Maintenance</title>\
    <h1>Maintenance</h1><p>This site is down for maintenance. Please come back later.</p></html>\n";

/// Seconds after which a client should ask again for a site that is not enabled.
const RETRY_AFTER: &str = "600";

/// Returns the parts of a document that serve a site.
///
/// # Errors
///
/// The key of the site, the problem, and what to do.
pub fn compile(site: &Site, machine: &Machine<'_>) -> Result<SiteParts, SiteProblem> {
    check_root(site)?;
    let mut parts = Parts::default();
    // What has no key of its own is there because of the directory.
    let content = format!("{}/content", site.name);
    for part in [["routes", &site.name], ["routes", &content], ["applications", &site.name]] {
        parts.place(&part, &["root"]);
    }
    let values = site.hosts.iter().map(|host| (host.clone(), json!(site.name)));
    let values: Map<String, Value> = values.collect();
    for (index, host) in site.hosts.iter().enumerate() {
        let path = ["variables", "site", "values", host.as_str()];
        parts.place(&path, &["hosts", &index.to_string()]);
    }
    parts.document.insert("variables".to_owned(), json!({"site": {"values": values}}));
    if let Some(log) = &site.error_log {
        parts.place(&["error_logs", &site.name], &["logs", "error"]);
        parts.document.insert("error_logs".to_owned(), json!({&site.name: log}));
    }
    if let Some(listeners) = encryption::listeners(site)? {
        parts.document.insert("listeners".to_owned(), listeners);
        parts.places.extend(encryption::places(site));
        parts.notes.extend(encryption::note(site).map(|note| ("https", note)));
    }
    let mut steps = Vec::new();
    let mut routes = Map::new();
    if site.enabled {
        let found = found(site, machine)?;
        let mut served = found.served(&site.name);
        let mut own_steps = site.routes.clone();
        let mut options = options::of(site);
        if let Some(mut application) = served.application.take() {
            // With a user of its own, the permissions of files keep the site from others, and
            // others from the site.
            if site.user.is_none()
                && let (Some(sandbox), _) =
                    sandbox::of(&found, machine.user.as_ref(), false, machine.marks)
            {
                application["isolation"]["sandbox"] = sandbox;
            }
            let mut application = application_of(site, application, machine, &mut parts)?;
            let mut name = site.name.clone();
            if site.php.is_shared {
                let (shared, of_requests) = shared::share(site, &mut application)?;
                parts.rename_application(&name, &shared);
                served.steps = found.served(&shared).steps;
                own_steps.iter_mut().for_each(|step| shared::rename(step, &name, &shared));
                name = shared;
                options.push(("environment", &["environment"], of_requests.environment));
                let ini: &[&str] = &["php", "ini"];
                options.extend(of_requests.options.map(|value| ("options", ini, value)));
            }
            parts.document.insert("applications".to_owned(), json!({name: application}));
        }
        steps.extend(encryption::redirects(site));
        let content = own_steps.into_iter().chain(served.steps);
        let content: Vec<_> = content.map(|step| with_headers(step, site)).collect();
        if options.is_empty() {
            place_steps(site, &site.name, steps.len(), &content, &mut parts);
            steps.extend(content.into_iter().map(|(step, _)| step));
        } else {
            let mut action = json!({"pass": format!("routes/{}%2Fcontent", site.name)});
            let index = steps.len().to_string();
            for (option, key, value) in options {
                let path = ["routes", &site.name, &index, "action", option];
                parts.place(&path, key);
                for (inner, key) in options::places_of_limits(site).filter(|_| option == "limit") {
                    parts.place(&[path.as_slice(), &inner].concat(), &key);
                }
                action[option] = value;
            }
            steps.push(json!({"action": action}));
            let name = format!("{}/content", site.name);
            place_steps(site, &name, 0, &content, &mut parts);
            routes.insert(name, content.into_iter().map(|(step, _)| step).collect());
        }
    } else {
        steps.push(json!({"action": {
            "return": 503,
            "body": MAINTENANCE,
            "response_headers": {
                "Content-Type": {"value": "text/html; charset=utf-8", "always": true},
                "Retry-After": {"value": RETRY_AFTER, "always": true},
                "Cache-Control": {"value": "no-store", "always": true},
            },
        }}));
    }
    routes.insert(site.name.clone(), steps.into());
    parts.document.insert("routes".to_owned(), routes.into());
    Ok(SiteParts { document: parts.document, places: parts.places, notes: parts.notes })
}

/// The parts of a document while they are made.
#[derive(Default)]
struct Parts {
    document: Map<String, Value>,
    places: Vec<(Vec<String>, Vec<String>)>,
    notes: Vec<(&'static str, String)>,
}

impl Parts {
    /// Records that a part comes from a key of the site.
    fn place(&mut self, part: &[&str], key: &[&str]) {
        let owned = |path: &[&str]| path.iter().map(|step| (*step).to_owned()).collect();
        self.places.push((owned(part), owned(key)));
    }

    /// Records another name of the application.
    fn rename_application(&mut self, old: &str, new: &str) {
        for (part, _) in &mut self.places {
            if let [first, name, ..] = part.as_mut_slice()
                && first == "applications"
                && name == old
            {
                new.clone_into(name);
            }
        }
    }
}

/// Refuses directories that have files of the system, or the directories of all users.
fn check_root(site: &Site) -> Result<(), SiteProblem> {
    let is_shared = |root: &Path| match (root.parent(), root.file_name()) {
        (None, _) => true,
        (Some(above), Some(name)) if above.parent().is_none() => {
            name == "home" || name.to_str().is_some_and(paths::is_system_directory)
        }
        _ => false,
    };
    let real = site.root.canonicalize();
    if ![Some(&site.root), real.as_ref().ok()].into_iter().flatten().any(|root| is_shared(root)) {
        return Ok(());
    }
    let problem = format!(
        "{:?} has files of the system or of others, which would be sent; name the directory that \
         holds the site alone, such as \"/srv/shop\"",
        site.root
    );
    Err(SiteProblem { key: vec!["root".to_owned()], problem, because_of: None })
}

/// Finds what is in the directory of the site.
fn found(site: &Site, machine: &Machine<'_>) -> Result<detect::Site, SiteProblem> {
    let refused = |key: &str, path| {
        let (key, because_of) = (vec![key.to_owned()], Some(path));
        move |error: DetectError| SiteProblem { key, problem: error.to_string(), because_of }
    };
    let root = &site.root;
    let public = site.public.as_ref().map(|public| root.join(public));
    let detected = match &site.public {
        Some(public) => detect::detect_public(root, public),
        None => detect::detect(root),
    };
    let (key, path) = match &public {
        Some(public) => ("public", public),
        None => ("root", root),
    };
    let mut found = match detected {
        Err(DetectError::Missing(_)) if machine.is_another => {
            detect::Site::assumed(root, path.clone())
        }
        detected => detected.map_err(refused(key, path.clone()))?,
    };
    let is_assumed = machine.is_another && !path.exists();
    found.front_controller.clone_from(&site.front_controller);
    match &site.worker {
        SiteWorker::Off => {}
        SiteWorker::Found if found.worker_script.is_some() => found.is_resident = true,
        SiteWorker::Found if is_assumed => {}
        SiteWorker::Found => {
            let problem = format!(
                "there is no worker script in {}: neither that of Laravel Octane nor Symfony's \
                 runtime; write the path of the script in place of true",
                site.root.display()
            );
            let because_of = Some(site.root.clone());
            return Err(SiteProblem { key: vec!["worker".to_owned()], problem, because_of });
        }
        SiteWorker::Script(script) => {
            let environment = Vec::new();
            let worker =
                WorkerScript { script: script.clone(), evidence: "the site's file", environment };
            found.worker_script = Some(worker);
            found.is_resident = true;
        }
    }
    found.obeys_htaccess = site.htaccess && !found.is_resident;
    Ok(found)
}

/// Adds the header fields of the site to a step that has none of its own, and to its fallbacks:
/// those of the action that responds count. Returns the step, and the number of fallbacks that lead
/// to each action with the fields.
fn with_headers(mut step: Value, site: &Site) -> (Value, Vec<usize>) {
    let mut depths = Vec::new();
    let Some(headers) = &site.headers else { return (step, depths) };
    let (mut next, mut depth) = (step.get_mut("action"), 0);
    while let Some(action) = next.and_then(Value::as_object_mut) {
        if !action.contains_key("response_headers") {
            action.insert("response_headers".to_owned(), headers.clone());
            depths.push(depth);
        }
        (next, depth) = (action.get_mut("fallback"), depth + 1);
    }
    (step, depths)
}

/// Records the places of the steps of a route, of which the site's own come first.
fn place_steps(
    site: &Site,
    route: &str,
    first: usize,
    steps: &[(Value, Vec<usize>)],
    parts: &mut Parts,
) {
    for (index, (_, depths)) in steps.iter().enumerate() {
        let at = first.saturating_add(index).to_string();
        for depth in depths {
            let mut path = vec!["routes", route, &at, "action"];
            path.resize(path.len().saturating_add(*depth), "fallback");
            path.push("response_headers");
            parts.place(&path, &["headers"]);
        }
        if index < site.routes.len() {
            parts.place(&["routes", route, &at], &["routes", &index.to_string()]);
        }
    }
}

/// Adds the keys of the site to the application that is found.
fn application_of(
    site: &Site,
    mut application: Value,
    machine: &Machine<'_>,
    parts: &mut Parts,
) -> Result<Value, SiteProblem> {
    let name = site.name.as_str();
    let mut set = |path: &[&str], key: &[&str], value: Value| {
        let part: Vec<_> = ["applications", name].iter().chain(path).copied().collect();
        parts.place(&part, key);
        *path.iter().fold(&mut application, |object, key| &mut object[*key]) = value;
    };
    let mut note = None;
    if let Some(version) = site.php.version {
        set(&["type"], &["php", "version"], json!(format!("php {version}")));
    } else {
        match php_version::of_project(&site.root, machine.php_versions) {
            Choice::Newest => {}
            Choice::Other(version) => set(&["type"], &["root"], json!(format!("php {version}"))),
            Choice::NoneFits(text) => {
                note = Some(format!("{text}, or set \"php\": {{\"version\": …}}"));
            }
        }
    }
    if !site.php.ini.is_empty() {
        set(&["options", "admin"], &["php", "ini"], site.php.ini.clone().into());
    }
    if !site.php.extensions.is_empty() {
        set(&["options", "extensions"], &["php", "extensions"], json!(site.php.extensions));
    }
    if let Some(processes) = &site.php.processes {
        set(&["processes"], &["php", "processes"], processes.clone());
    }
    if site.releases {
        set(&["releases"], &["releases"], json!(true));
    }
    if let Some(jobs) = &site.jobs {
        let mut jobs = jobs.clone();
        for job in jobs.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if job.get("working_directory").is_none() {
                job["working_directory"] = json!(site.root);
            }
            // Debian's wp-config.php chooses the site by it.
            let host = site.hosts.iter().find(|host| !host.contains('*'));
            let is_wordpress = job.get("preset").and_then(Value::as_str) == Some("wordpress");
            if let Some(host) = host.filter(|_| is_wordpress)
                && job.pointer("/environment/HTTP_HOST").is_none()
            {
                job["environment"]["HTTP_HOST"] = json!(host);
            }
        }
        set(&["jobs"], &["jobs"], jobs);
    }
    let runs_as_root = site.user.as_deref() == Some("root");
    for (key, value) in [("user", &site.user), ("group", &site.group)] {
        if let Some(value) = value {
            set(&[key], &[key], json!(value));
        }
    }
    if let Some(limit) = site.limits.mail {
        set(&["smtp", "limit"], &["limits", "mail"], json!(limit));
    }
    let limits = &site.limits;
    for (key, value) in [
        ("memory", limits.memory.map(Value::from)),
        ("cpu", limits.cpu.map(Value::from)),
        ("processes", limits.processes.map(Value::from)),
    ] {
        if let Some(value) = value {
            set(&["isolation", "limits", key], &["limits", key], value);
        }
    }
    for (variable, value) in &site.environment {
        let value = match value {
            EnvironmentSource::Text(text) => json!(text),
            // A request has the value, and not the processes that several sites share.
            EnvironmentSource::File(file) if site.php.is_shared => {
                json!(read_value(variable, file, machine)?)
            }
            EnvironmentSource::File(file) => json!({ "file": file }),
            EnvironmentSource::Beginning(_) => json!({ "env": true }),
            EnvironmentSource::Server { name, default: None } => json!({ "env": name }),
            EnvironmentSource::Server { name, default } => {
                json!({ "env": name, "default": default })
            }
        };
        set(&["environment", variable], &["environment", variable], value);
    }
    parts.notes.extend(note.map(|note| ("root", note)));
    if runs_as_root {
        let note = "PHP runs as root: whoever finds a mistake in a script has the whole machine; \
                    give the site a user of its own (useradd)";
        parts.notes.push(("user", note.to_owned()));
    }
    Ok(application)
}

/// Reads the value of an environment variable.
fn read_value(variable: &str, file: &Path, machine: &Machine<'_>) -> Result<String, SiteProblem> {
    let because_of = Some(file.to_owned());
    let key = ["environment", variable].map(str::to_owned).to_vec();
    let refused = |problem| SiteProblem { key, problem, because_of };
    if machine.is_another && !file.exists() {
        return Ok(String::new());
    }
    let text = (machine.read)(file).and_then(|text| {
        String::from_utf8(text).map_err(|_| format!("{}: it is not UTF-8", file.display()))
    });
    let text = text.map_err(refused)?;
    Ok(text.trim_end_matches('\n').to_owned())
}
