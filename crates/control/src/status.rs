//! `/status`: the state of the server.

use serde_json::{Map, Value, json};

use crate::caches::{self, CacheStatus};
use crate::cluster::{self, ClusterStatus};
use crate::limits::{self, LimitStatus};
use crate::path::Path;
use crate::protection::ProtectionStatus;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// The content of `/status`, with the names of Unit 1.35.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The versions of PHP that can run applications.
    pub modules: Vec<Module>,
    /// Connections of clients.
    pub connections: Connections,
    /// Requests of clients since the start.
    pub requests: u64,
    /// Applications, in the order of the response.
    pub applications: Vec<ApplicationStatus>,
    /// Memory of all PHP processes.
    pub memory: MemoryStatus,
    /// Upstreams, in the order of the response; omitted if there are none.
    pub upstreams: Vec<UpstreamStatus>,
    /// The program; omitted if it is not known.
    pub program: Option<ProgramStatus>,
    /// Listeners, in the order of the document; omitted if there are none.
    pub listeners: Vec<ListenerStatus>,
    /// Certificates of listeners, in the order of the response; omitted if there are none.
    pub certificates: Vec<CertificateStatus>,
    /// Limits; omitted if there are none.
    pub limits: Vec<LimitStatus>,
    /// Caches, sorted by name.
    pub caches: Vec<CacheStatus>,
    /// The server that several servers share; omitted if this server is alone.
    pub cluster: Option<ClusterStatus>,
    /// Restrictions of the server's processes.
    pub protection: ProtectionStatus,
    /// Parts of the configuration that are out; omitted if there are none.
    pub out: Vec<OutStatus>,
    /// Parts of the configuration that will be out soon; omitted if there are none.
    pub warnings: Vec<OutStatus>,
}

/// A part of the configuration that cannot run: it alone is out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutStatus {
    /// Kind: `application`, `listener`, `certificate` and others.
    pub kind: &'static str,
    /// Name in the configuration.
    pub name: String,
    /// Why it is out, and what to do.
    pub reason: String,
    /// Since when, as an HTTP date.
    pub since: Option<String>,
}

/// The program that serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramStatus {
    /// Version of the program, such as `1.2.3`.
    pub version: String,
    /// Start of the router, with which all counters begin, as an HTTP date.
    pub started: Option<String>,
    /// Seconds since the start of the router.
    pub uptime: u64,
}

/// A listener of the document, with or without TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenerStatus {
    /// Its name in the configuration, which is its address.
    pub name: String,
    /// Its handshakes; `None` without TLS.
    pub tls: Option<Handshakes>,
}

/// TLS handshakes of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handshakes {
    /// Handshakes since the start.
    pub handshakes: u64,
    /// Handshakes that have resumed a session.
    pub resumed: u64,
    /// Handshakes that have failed.
    pub failed: u64,
}

/// A certificate of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateStatus {
    /// The name in the store, or the file.
    pub name: String,
    /// The names in the certificate.
    pub names: Vec<String>,
    /// The time of expiry as an HTTP date; `None` if the certificate does not exist yet.
    pub expires: Option<String>,
    /// The state of renewal, if the server renews the certificate.
    pub renewal: Option<Renewal>,
}

/// The state of a certificate that the server obtains itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// The time of the next attempt; `None` if an attempt is running.
    pub next: Option<String>,
    /// Number of failures since the last success.
    pub failures: u32,
    /// The error of the last attempt.
    pub error: Option<String>,
}

/// A version of PHP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The version, as `8.2.30`.
    pub version: String,
    /// The program that runs it.
    pub path: String,
}

/// Connections of clients, to all listeners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// Open, with a request that is not yet answered.
    pub active: u64,
    /// Open, waiting for the next request.
    pub idle: u64,
    /// Closed since the start.
    pub closed: u64,
}

/// Memory of all PHP processes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// The maximum from `settings.memory`; `None` without one.
    pub budget: Option<u64>,
    /// Memory in use; shared pages count in proportion.
    pub used: u64,
}

/// An application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationStatus {
    /// Its name in the configuration.
    pub name: String,
    /// `unloaded`, `loading` or `loaded`.
    pub state: &'static str,
    /// Whether it shares the start of PHP with other applications; `None` unless PHP is loaded.
    pub shares_start: Option<bool>,
    /// Memory of its prototype in bytes; shared pages count in proportion.
    pub prototype_bytes: u64,
    /// Memory of its processes in bytes; shared pages count in proportion.
    pub process_bytes: u64,
    /// Its processes.
    pub processes: Processes,
    /// Requests that wait or run.
    pub active_requests: u64,
    /// Reason for which the application does not run or its processes end; omitted if there is no
    /// problem.
    pub problem: Option<String>,
    /// Requests that were given up in an overloaded queue.
    pub given_up: u64,
    /// The worker script, if the application is resident and the script has started.
    pub worker: Option<WorkerStatus>,
    /// OPcache, as a process has last reported it; `None` if none has.
    pub opcache: Option<OpcacheStatus>,
}

/// OPcache of an application. Memory is in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpcacheStatus {
    /// It keeps scripts.
    pub is_enabled: bool,
    /// Memory in use.
    pub used: u64,
    /// Memory that is free.
    pub free: u64,
    /// Memory of scripts that have changed.
    pub wasted: u64,
    /// Number of scripts.
    pub scripts: u64,
    /// Number of scripts that were found.
    pub hits: u64,
    /// Number of scripts that were not found.
    pub misses: u64,
    /// Number of times that it was emptied.
    pub restarts: u64,
}

/// The worker script of a resident application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Number of the instance of the application; higher after each restart.
    pub generation: u32,
    /// Time that the script took until it waited for a request, in milliseconds.
    pub boot_ms: u64,
    /// Processes are forked from one in which the script has started.
    pub has_template: bool,
    /// Why processes run another script for each request; `None` if they do not.
    pub fallback: Option<String>,
    /// Processes that have ended after a request since the start of the server, by the reason.
    pub retired: Vec<(&'static str, u64)>,
}

/// An upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Its servers.
    pub servers: Vec<ServerStatus>,
}

/// A server of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its address.
    pub address: String,
    /// `up`, `failing`, `unhealthy`, `draining` or `unknown`.
    pub state: &'static str,
    /// Requests in progress.
    pub active: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Failures since the start.
    pub failures: u64,
}

/// Processes of an application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Processes {
    /// Processes that run, idle ones included.
    pub running: u64,
    /// Processes that are starting.
    pub starting: u64,
    /// Processes that run and have no request.
    pub idle: u64,
}

impl Status {
    /// Returns the tree that the API shows.
    pub fn to_value(&self) -> Value {
        let applications: Map<_, _> = self.applications.iter().map(application).collect();
        let php: Map<_, _> = self.applications.iter().map(php).collect();
        let mut status = json!({
            "modules": self.modules(),
            "connections": {
                "accepted": self.connections.accepted,
                "active": self.connections.active,
                "idle": self.connections.idle,
                "closed": self.connections.closed,
            },
            "requests": { "total": self.requests },
            "applications": applications,
            "php": php,
            "memory": { "used": self.memory.used },
        });
        // Clients of Unit subtract figures of two states, so none may be null.
        if let Some(budget) = self.memory.budget {
            status["memory"]["budget"] = budget.into();
        }
        if let Some(program) = &self.program {
            status["server"] = json!({ "version": program.version, "uptime": program.uptime });
            if let Some(started) = &program.started {
                status["server"]["started"] = started.as_str().into();
            }
        }
        status["protection"] = self.protection.to_value();
        if let (false, Value::Object(members)) = (self.upstreams.is_empty(), &mut status) {
            let upstreams: Map<_, _> = self.upstreams.iter().map(upstream).collect();
            members.insert("upstreams".to_owned(), upstreams.into());
        }
        if let (false, Value::Object(members)) = (self.listeners.is_empty(), &mut status) {
            let listeners: Map<_, _> = self.listeners.iter().map(listener).collect();
            members.insert("listeners".to_owned(), listeners.into());
        }
        if let (false, Value::Object(members)) = (self.certificates.is_empty(), &mut status) {
            let certificates: Map<_, _> = self.certificates.iter().map(certificate).collect();
            members.insert("certificates".to_owned(), certificates.into());
        }
        if !self.caches.is_empty() {
            status["caches"] = caches::to_value(&self.caches);
        }
        if !self.limits.is_empty() {
            status["limits"] = limits::to_value(&self.limits);
        }
        if let Some(cluster) = &self.cluster {
            status["cluster"] = cluster::to_value(cluster);
        }
        if !self.out.is_empty() {
            status["out"] = self.out.iter().map(out).collect();
        }
        if !self.warnings.is_empty() {
            status["warnings"] = self.warnings.iter().map(out).collect();
        }
        status
    }

    /// Returns an object for one version of PHP, an array for several, as in Unit.
    fn modules(&self) -> Value {
        let module = |module: &Module| json!({ "version": module.version, "lib": module.path });
        match self.modules.as_slice() {
            [] => json!({}),
            [one] => json!({ "php": module(one) }),
            several => json!({ "php": several.iter().map(module).collect::<Vec<_>>() }),
        }
    }
}

/// Answers [`Command::GetStatus`](crate::Command::GetStatus) from the value of
/// [`Status::to_value`].
pub fn status_part(status: &Value, path: &Path) -> Reply {
    match path.find(status) {
        Some(value) => Reply::value(value.clone()),
        None => Refusal::NoSuchPath.into(),
    }
}

fn out(part: &OutStatus) -> Value {
    let OutStatus { kind, name, reason, since } = part;
    json!({ "kind": kind, "name": name, "reason": reason, "since": since })
}

fn listener(status: &ListenerStatus) -> (String, Value) {
    let tls = status.tls.map(|Handshakes { handshakes, resumed, failed }| {
        json!({ "tls": { "handshakes": handshakes, "resumed": resumed, "failed": failed } })
    });
    (status.name.clone(), tls.unwrap_or_else(|| json!({})))
}

fn certificate(status: &CertificateStatus) -> (String, Value) {
    let mut value = json!({ "names": status.names, "expires": status.expires });
    if let Some(Renewal { next, failures, error }) = &status.renewal {
        value["renewal"] = json!({ "next": next, "failures": failures, "error": error });
    }
    (status.name.clone(), value)
}

fn upstream(status: &UpstreamStatus) -> (String, Value) {
    let server = |server: &ServerStatus| {
        let value = json!({
            "state": server.state,
            "requests": { "active": server.active, "total": server.requests },
            "failures": server.failures,
        });
        (server.address.clone(), value)
    };
    let servers: Map<_, _> = status.servers.iter().map(server).collect();
    (status.name.clone(), json!({ "servers": servers }))
}

/// Returns what Unit does not have. It is apart from the rest: clients of Unit compare that as a whole.
fn php(status: &ApplicationStatus) -> (String, Value) {
    let mut value = json!({
        "state": status.state,
        "memory": { "prototype": status.prototype_bytes, "processes": status.process_bytes },
    });
    if let Some(shares_start) = status.shares_start {
        value["start"] = if shares_start { "shared" } else { "own" }.into();
    }
    if status.given_up > 0 {
        value["given_up"] = status.given_up.into();
    }
    if let Some(worker) = &status.worker {
        let retired =
            worker.retired.iter().map(|(reason, count)| ((*reason).to_owned(), (*count).into()));
        value["worker"] = json!({
            "generation": worker.generation,
            "boot_ms": worker.boot_ms,
            "template": worker.has_template,
            "retired": Map::from_iter(retired),
        });
        if let Some(problem) = &worker.fallback {
            value["worker"]["fallback"] = problem.as_str().into();
        }
    }
    if let Some(opcache) = &status.opcache {
        let OpcacheStatus { is_enabled, used, free, wasted, scripts, hits, misses, restarts } =
            opcache;
        value["opcache"] = json!({
            "enabled": is_enabled,
            "memory": { "used": used, "free": free, "wasted": wasted },
            "scripts": scripts,
            "hits": hits,
            "misses": misses,
            "restarts": restarts,
        });
    }
    (status.name.clone(), value)
}

fn application(status: &ApplicationStatus) -> (String, Value) {
    let Processes { running, starting, idle } = status.processes;
    let mut value = json!({
        "processes": { "running": running, "starting": starting, "idle": idle },
        "requests": { "active": status.active_requests },
    });
    if let Some(problem) = &status.problem {
        value["problem"] = problem.as_str().into();
    }
    (status.name.clone(), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let module = |version: &str| Module { version: version.into(), path: "/p".into() };
        Status {
            modules: vec![module("8.2.30")],
            connections: Connections { accepted: 10, active: 1, idle: 2, closed: 7 },
            requests: 33,
            memory: MemoryStatus { budget: Some(1000), used: 320 },
            applications: vec![ApplicationStatus {
                name: "blog".into(),
                state: "loaded",
                shares_start: Some(true),
                prototype_bytes: 20,
                process_bytes: 300,
                processes: Processes { running: 4, starting: 1, idle: 3 },
                active_requests: 1,
                problem: None,
                given_up: 0,
                worker: Some(WorkerStatus {
                    generation: 3,
                    boot_ms: 12,
                    has_template: true,
                    fallback: None,
                    retired: vec![("requests", 7), ("exit", 1)],
                }),
                opcache: Some(OpcacheStatus {
                    is_enabled: true,
                    used: 9,
                    free: 20,
                    wasted: 1,
                    scripts: 3,
                    hits: 8,
                    misses: 4,
                    restarts: 2,
                }),
            }],
            program: Some(ProgramStatus {
                version: "1.2.3".into(),
                started: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
                uptime: 61,
            }),
            ..Status::default()
        }
    }

    #[test]
    fn certificates_show_when_they_run_out_and_what_comes_next() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let renewal = Renewal { next: Some(date.into()), failures: 2, error: Some("no".into()) };
        let status = Status {
            listeners: vec![
                ListenerStatus {
                    name: "*:443".into(),
                    tls: Some(Handshakes { handshakes: 9, resumed: 4, failed: 1 }),
                },
                ListenerStatus { name: "*:80".into(), tls: None },
            ],
            certificates: vec![
                CertificateStatus {
                    name: "blog".into(),
                    names: vec!["a.org".into()],
                    expires: Some(date.into()),
                    renewal: None,
                },
                CertificateStatus {
                    name: "acme:b.org".into(),
                    names: vec!["b.org".into()],
                    expires: None,
                    renewal: Some(renewal),
                },
            ],
            ..status()
        };
        let value = status.to_value();
        let tls =
            json!({"*:443": {"tls": {"handshakes": 9, "resumed": 4, "failed": 1}}, "*:80": {}});
        assert_eq!(value["listeners"], tls);
        let expected = json!({
            "blog": {"names": ["a.org"], "expires": date},
            "acme:b.org": {
                "names": ["b.org"], "expires": null,
                "renewal": {"next": date, "failures": 2, "error": "no"},
            },
        });
        assert_eq!(value["certificates"], expected);
    }

    #[test]
    fn figures_that_there_are_not_are_omitted() {
        let value = Status::default().to_value();
        assert_eq!(value["memory"], json!({"used": 0}));
        assert!(!value.to_string().contains("null"), "{value}");
    }

    #[test]
    fn the_tree_has_units_names() {
        let expected = json!({
            "modules": {"php": {"version": "8.2.30", "lib": "/p"}},
            "connections": {"accepted": 10, "active": 1, "idle": 2, "closed": 7},
            "requests": {"total": 33},
            "applications": {
                "blog": {
                    "processes": {"running": 4, "starting": 1, "idle": 3},
                    "requests": {"active": 1}
                }
            },
            "php": {
                "blog": {
                    "state": "loaded",
                    "memory": {"prototype": 20, "processes": 300},
                    "start": "shared",
                    "worker": {
                        "generation": 3, "boot_ms": 12, "template": true,
                        "retired": {"requests": 7, "exit": 1}
                    },
                    "opcache": {
                        "enabled": true,
                        "memory": {"used": 9, "free": 20, "wasted": 1},
                        "scripts": 3, "hits": 8, "misses": 4, "restarts": 2
                    }
                }
            },
            "memory": {"budget": 1000, "used": 320},
            "server": {
                "version": "1.2.3", "started": "Sun, 06 Nov 1994 08:49:37 GMT", "uptime": 61
            },
            "protection": {
                "landlock": 0,
                "router": {"restrictions": [], "namespaces": []},
                "applications": {},
            },
        });
        assert_eq!(status().to_value(), expected);
    }

    #[test]
    fn an_application_that_does_not_run_says_why() {
        let mut status = status();
        status.applications[0].problem = Some("its root is gone".to_owned());
        let found = Path::read(b"/applications/blog/problem").unwrap();
        assert_eq!(status_part(&status.to_value(), &found).body(), &json!("its root is gone"));
    }

    #[test]
    fn several_versions_of_php_are_an_array() {
        let mut status = status();
        status.modules.push(Module { version: "8.4.1".into(), path: "/q".into() });
        let found = Path::read(b"/modules/php/1/version").unwrap();
        assert_eq!(status_part(&status.to_value(), &found).body(), &json!("8.4.1"));
        status.modules.clear();
        assert_eq!(status.to_value()["modules"], json!({}));
    }

    #[test]
    fn a_part_can_be_asked_for() {
        let status_value = status().to_value();
        let get = |path: &str| status_part(&status_value, &Path::read(path.as_bytes()).unwrap());
        assert_eq!(get("/").body(), &status().to_value());
        assert_eq!(get("/requests/total").body(), &json!(33));
        assert_eq!(get("/applications/blog/processes/idle").body(), &json!(3));
        let missing = get("/applications/shop");
        assert_eq!((missing.status(), missing.body()), (404, &json!({"error": "Invalid path."})));
    }
}
