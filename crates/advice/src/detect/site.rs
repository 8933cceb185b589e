//! A recognised site: as a configuration document and as lines for the terminal.

use std::path::{Path, PathBuf};

use howdah_config::{CACHE_PRESETS, FrontController, MAX_SITE_BODY_SIZE, Template};
use serde_json::{Map, Value, json};

use super::closed_paths::ClosedPaths;
use super::framework::{Evidence, Framework};
use super::kind::Kind;
use super::worker::WorkerScript;

/// A directory and the site that was recognised in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The directory; absolute.
    pub directory: PathBuf,
    /// The document root: the directory itself or its public part. Valid UTF-8.
    pub root: PathBuf,
    /// The kind of site.
    pub kind: Kind,
    /// Parts of the site that are not served.
    pub closed_paths: ClosedPaths,
    /// The script that can stay in memory, if there is one.
    pub worker_script: Option<WorkerScript>,
    /// The worker script handles the requests for scripts and for no file.
    pub is_resident: bool,
    /// The `.htaccess` files below the document root are read; not with a worker script.
    pub obeys_htaccess: bool,
    /// The script in the root for requests for no file, if it is not that of the kind.
    pub front_controller: Option<FrontController>,
}

/// The parts of a document that serve a site.
#[derive(Debug)]
pub struct Served {
    /// Steps of a route. After steps for closed parts, one share serves the site: files are sent,
    /// scripts are run, and other requests go to the front controller or are answered with 404.
    pub steps: Vec<Value>,
    /// The application, if there is PHP to run.
    pub application: Option<Value>,
}

impl Site {
    /// Returns a site with an `index.php` in a directory that need not exist.
    pub fn assumed(directory: &Path, root: PathBuf) -> Site {
        Site {
            directory: directory.to_owned(),
            root,
            kind: Kind::FrontController { framework: None },
            closed_paths: ClosedPaths::default(),
            worker_script: None,
            is_resident: false,
            obeys_htaccess: false,
            front_controller: None,
        }
    }

    /// Returns true if there is PHP to run.
    pub fn has_php(&self) -> bool {
        !matches!(self.kind, Kind::Static | Kind::Empty)
    }

    /// Returns the script in the root that handles requests for no file, if there is one.
    pub fn front_controller(&self) -> Option<&str> {
        match (&self.front_controller, &self.kind) {
            (Some(FrontController::Off), _) => None,
            (Some(FrontController::Script(script)), _) => Some(script),
            (
                None,
                Kind::PublicFrontController { .. }
                | Kind::WordPress { .. }
                | Kind::FrontController { .. },
            ) => Some("index.php"),
            (None, Kind::PhpFiles | Kind::Static | Kind::Empty) => None,
        }
    }

    /// Returns the preset of the response cache for the application; `None` if there is none.
    pub fn cache_preset(&self) -> Option<&'static str> {
        let name = match &self.kind {
            Kind::WordPress { .. } => "WordPress",
            Kind::PublicFrontController { framework: Some(framework), .. }
            | Kind::FrontController { framework: Some(framework) } => framework.name,
            _ => return None,
        };
        CACHE_PRESETS.into_iter().find(|preset| name.eq_ignore_ascii_case(preset))
    }

    /// Returns the document that serves the site on these addresses with this number of processes;
    /// `None` for automatic sizing.
    pub fn document(&self, listen: &[String], workers: Option<u32>) -> Value {
        let listeners: Map<String, Value> =
            listen.iter().map(|address| (address.clone(), json!({"pass": "routes"}))).collect();
        let Served { steps, application } = self.served("site");
        let Some(mut application) = application else {
            return json!({"listeners": listeners, "routes": steps});
        };
        if let Some(workers) = workers {
            application["processes"] = json!(workers);
        }
        json!({
            "listeners": listeners,
            "routes": steps,
            "applications": {"site": application},
            "settings": {"http": {"max_body_size": MAX_SITE_BODY_SIZE}},
        })
    }

    /// Returns the parts of a document that serve the site with an application of this name.
    pub fn served(&self, name: &str) -> Served {
        // `detect` has refused paths that are not UTF-8.
        let root = self.root.to_string_lossy();
        let share = Template::escape(root.trim_end_matches('/')) + "$uri";
        if !self.has_php() {
            let mut action = json!({"share": share});
            let mut steps = Vec::new();
            if self.obeys_htaccess {
                action["htaccess"] = json!({"options": OPTIONS});
                steps.push(hidden_names());
            }
            steps.push(json!({"action": action}));
            return Served { steps, application: None };
        }
        let mut action = json!({
            "share": share,
            "index": ["index.php", "index.html"],
            "scripts": format!("applications/{name}/direct"),
        });
        let mut application = json!({
            "type": "php",
            "targets": {"direct": {"root": root}},
            // Applications search it for the name of a server with URL rewriting: WordPress offers
            // pretty permalinks only under nginx or Apache. Without the version: the document is
            // kept with the state, and a newer version must not have to change it.
            "server_software": "Howdah (nginx compatible)",
        });
        if let Some(worker) = self.worker_script.as_ref().filter(|_| self.is_resident) {
            if let Some(members) = action.as_object_mut() {
                members.remove("scripts");
                members.remove("index");
            }
            action["fallback"] = json!({"pass": format!("applications/{name}")});
            if let Some(members) = application.as_object_mut() {
                members.remove("targets");
            }
            application["root"] = json!(root);
            // The script of the classic mode, with which `howdah worker-check` compares.
            let script = self.front_controller().unwrap_or(&worker.script);
            application["script"] = json!(script);
            application["worker"] = if script == worker.script {
                json!(true)
            } else {
                json!({"script": worker.script})
            };
            let variable = |(name, value): &(&str, String)| ((*name).to_owned(), json!(value));
            let environment: Map<_, _> = worker.environment.iter().map(variable).collect();
            if !environment.is_empty() {
                application["environment"] = environment.into();
            }
        } else if let Some(script) = self.front_controller() {
            // With `.htaccess` files, for paths that name no file and that no rule is for.
            action["fallback"] = json!({"pass": format!("applications/{name}/front")});
            application["targets"]["front"] = json!({"root": root, "script": script});
        }
        if self.obeys_htaccess && !self.is_resident {
            let index = action.as_object_mut().and_then(|members| members.remove("index"));
            action["htaccess"] = json!({"index": index, "options": OPTIONS});
            self.closed_paths.add_to_htaccess(&mut action["htaccess"]);
            // Applications that write `.htaccess` files do so only under Apache.
            application["server_software"] = json!("Howdah (Apache compatible)");
        }
        let mut steps = self.closed_paths.steps(
            &share,
            action.get("fallback"),
            action.get("htaccess").is_some(),
        );
        if self.obeys_htaccess {
            steps.insert(0, hidden_names());
        }
        steps.push(json!({"action": action}));
        Served { steps, application: Some(application) }
    }

    /// Returns lines for the terminal: the kind of site with the evidence, the document root, and
    /// how requests are handled.
    pub fn explain(&self) -> Vec<String> {
        let recognised = match &self.kind {
            Kind::PublicFrontController { public, framework } => match framework {
                Some(framework) => format!("{}, with {public}/index.php", named(framework)),
                None => format!("a project with {public}/index.php"),
            },
            Kind::WordPress { version: Some(version) } => format!("WordPress {version}"),
            Kind::WordPress { version: None } => "WordPress (wp-load.php is there)".to_owned(),
            Kind::FrontController { framework: Some(framework) } => {
                format!("{}, with index.php", named(framework))
            }
            Kind::FrontController { framework: None } => "a PHP site with index.php".to_owned(),
            Kind::PhpFiles => "PHP scripts without an index.php".to_owned(),
            Kind::Static => "files, and no PHP among them".to_owned(),
            Kind::Empty => "an empty directory".to_owned(),
        };
        let worker = self.worker_script.as_ref();
        let requests = match (self.has_php(), self.front_controller()) {
            _ if self.is_resident => format!(
                "files are sent, the rest goes to {}, which stays in memory",
                worker.map_or("the worker script", |worker| worker.script.as_str())
            ),
            (_, Some(script)) => {
                format!("files are sent, *.php files are run, the rest goes to {script}")
            }
            (true, None) => "files are sent, *.php files are run, the rest is 404".to_owned(),
            (false, None) => "files are sent, the rest is 404".to_owned(),
        };
        let mut lines = vec![
            format!("found: {recognised}"),
            format!("root: {}", self.root.to_string_lossy().escape_debug()),
            format!("requests: {requests}"),
        ];
        if let Some(worker) = worker.filter(|_| !self.is_resident) {
            let evidence = worker.evidence;
            lines.push(format!(
                "worker mode: possible ({evidence} is there); turn it on with --worker"
            ));
        }
        lines.extend(self.closed_paths.explain());
        lines
    }
}

/// Apache's options for directories. Listings are left out: a directory shows its files only if a
/// `.htaccess` file says so.
const OPTIONS: &str = "FollowSymLinks";

/// Returns the step that refuses names that begin with a dot. Apache sends these files:`.env`,
/// `.git/config`.
fn hidden_names() -> Value {
    json!({"match": {"uri": [r"~/\.", "!/.well-known/*"]}, "action": {"return": 404}})
}

fn named(framework: &Framework) -> String {
    match framework.evidence {
        Evidence::Package(package) => {
            let package = package.trim_end_matches('/');
            format!("{} (composer.json requires {package})", framework.name)
        }
        Evidence::File(file) => format!("{} ({file} is there)", framework.name),
    }
}
