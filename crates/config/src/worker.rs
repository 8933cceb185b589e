//! `worker`: the script of a resident application, which stays in memory.

use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, Object};
use crate::php::PhpTarget;

/// `worker` of an application.
pub(crate) static WORKER: Shape = Shape {
    name: "worker",
    parts: &[&[
        Key::new("script", Kind::Text, "Script that stays in memory, relative to the root")
            .default("that of the application")
.details(
    "With `targets`, relative to the root of the first. All requests of the application go to it, \
     regardless of their paths"),
        Key::new("warm_up", Kind::Text, "Path that is requested before the first process starts")
            .default("none")
.details(
    "Once, inside the server. For applications that load most of their code with their first \
     request, such as Laravel's"),
        Key::new(
            "requests",
            Kind::Integer(0, COUNT),
            "Number of requests after which a process is replaced; 0 is no limit",
        )
        .default("`requests` of the limits, or 500")
.details("1 gives each request a process of its own"),
        Key::new(
            "fallback",
            Kind::Word(&["classic"]),
            "Runs a script for each request if the worker script does not work",
        )
        .default("none")
.details(
    "The script is the application's `script`, and the log says so, see [Failures](#how-it-works)"),
        Key::new(
            "watch",
            Kind::Texts,
            "Files and directories whose changes restart the application, for development",
        )
        .default("none")
.details(
    "Relative to `root`: `[\"../app\", \"../config\", \"../.env\"]`. Directories are watched with \
     those below them; hidden files other than `.env*` and backups of editors do not count. Leave \
     out directories that the application itself writes to, such as caches. `howdah check` \
     refuses a path that is missing"),
    ]],
};

/// `releases` of an application.
pub(crate) const RELEASES: Key = Key::switch(
    "releases",
    false,
    "Restarts the application when a symbolic link in `root` leads to another release",
)
.details(
    "For an application that loads code once: with `worker` or `opcache.preload`. No request is \
     lost. See [Releases](../releases.md)",
);

/// Default number of requests after which a process of a resident application is replaced.
const DEFAULT_REQUESTS: u32 = 500;

/// The script of a resident application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerScript {
    /// The script that stays in memory, relative to the root of the first target.
    pub script: String,
    /// The target of a request that is handled before the first process starts.
    pub warm_up: Option<String>,
    /// Number of requests after which a process is replaced; `None` for no limit.
    pub requests: Option<u32>,
    /// The application's scripts run once a request if the worker script does not work.
    pub has_fallback: bool,
    /// Files and directories whose changes restart the application, relative to the root of the
    /// first target.
    pub watch: Vec<String>,
}

impl WorkerScript {
    /// Reads `worker` of an application and gives its targets the script that requests name.
    /// `requests` is the application's own limit.
    pub(crate) fn read(
        application: &Object<'_>,
        targets: &mut [PhpTarget],
        requests: Option<u32>,
    ) -> Result<Option<WorkerScript>, Error> {
        let Some(node) = application.optional("worker") else { return Ok(None) };
        let default = Some(requests.unwrap_or(DEFAULT_REQUESTS)).filter(|requests| *requests > 0);
        if let Some(is_resident) = node.value.as_bool() {
            if !is_resident {
                return Ok(None);
            }
            let script = own_script(&node, targets)?;
            let (warm_up, has_fallback, watch) = (None, false, Vec::new());
            let requests = default;
            return Ok(Some(WorkerScript { script, warm_up, requests, has_fallback, watch }));
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("a boolean or an object"));
        }
        let worker = read_object(&node, targets, default)?;
        if worker.has_fallback && targets.iter().any(|target| target.script.is_none()) {
            return Err(node
                .invalid("has a \"fallback\", which needs the \"script\" of the application")
                .with_hint("add \"script\" beside \"worker\", or remove \"fallback\""));
        }
        for target in targets.iter_mut() {
            match (&target.name, &target.script) {
                (Some(_), Some(_)) => {
                    return Err(node
                        .invalid("must not stand beside targets that have a \"script\"")
                        .with_hint("the worker script handles the requests of all targets"));
                }
                (_, None) => target.script = Some(worker.script.clone()),
                (None, Some(_)) => {}
            }
        }
        Ok(Some(worker))
    }
}

/// Returns the `script` of the application, which is the worker script unless another is named.
fn own_script(node: &Node<'_>, targets: &[PhpTarget]) -> Result<String, Error> {
    match targets {
        [PhpTarget { name: None, script: Some(script), .. }] => Ok(script.clone()),
        _ => Err(node
            .invalid("needs the \"script\" of the application beside it")
            .with_hint("or write the worker script here: {\"script\": \"worker.php\"}")),
    }
}

fn read_object(
    node: &Node<'_>,
    targets: &[PhpTarget],
    requests: Option<u32>,
) -> Result<WorkerScript, Error> {
    let object = node.object(&WORKER)?;
    let script = match object.optional("script") {
        Some(script) => {
            let name = script.text()?.trim_start_matches('/').to_owned();
            if !name.ends_with(".php") {
                let problem = "must be a script, with a name that ends in \".php\"";
                return Err(script.invalid(problem));
            }
            name
        }
        None => own_script(node, targets)?,
    };
    let warm_up = object.read("warm_up", |target| match target.text()? {
        text if text.starts_with('/') => Ok(text.to_owned()),
        _ => Err(target.invalid("must begin with \"/\"")),
    })?;
    let own = object.integer::<u32>("requests")?;
    let fallback = object.read("fallback", |fallback| match fallback.string()? {
        "classic" => Ok(()),
        _ => Err(fallback.invalid("must be \"classic\"")),
    })?;
    let watch = object.read("watch", |watch| {
        watch.strings()?.map(|path| path.text().map(str::to_owned)).collect::<Result<Vec<_>, _>>()
    })?;
    let worker = WorkerScript {
        script,
        warm_up,
        requests: own.map_or(requests, |own| Some(own).filter(|requests| *requests > 0)),
        has_fallback: fallback.is_some(),
        watch: watch.unwrap_or_default(),
    };
    object.end()?;
    Ok(worker)
}
