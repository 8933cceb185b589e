//! Derives messages for the supervisor from a configuration: specifications of applications, and
//! the certificates and keys to read.

use std::path::PathBuf;

use ::howdah_config as config;
use howdah_sys::environment;
use howdah_tls::{Source, client_sources, sources};
use howdah_wire::messages::{
    ApplicationSpec, IdRange, Isolation, ResourceLimits, Sandbox, WorkerScript,
};
use howdah_wire::region::Geometry;

use crate::check;

/// Returns the certificates, keys and authorities that a configuration names.
pub fn tls_sources(config: &config::Config) -> Vec<Source> {
    let mut found = Vec::new();
    for settings in config.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        found.extend(sources(settings));
        found.extend(check::authorities(settings).cloned().map(Source::File));
    }
    for (_, settings) in config.upstream_tls() {
        found.extend(client_sources(&settings));
    }
    found
}

/// Maximum length in bytes of an application's name in process titles and the log.
const MAX_NAME_BYTES: usize = 200;

/// Returns the specification of an application, for the supervisor and the prototype. `variables`
/// is the environment of the server.
pub fn spec(
    config: &config::Application,
    geometry: Geometry,
    variables: &[(String, String)],
) -> ApplicationSpec {
    let Environment { texts, files, missing } = Environment::of(config, variables);
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let roots = config.targets.iter().map(|target| (target.key("root"), path(&target.root)));
    let mut roots: Vec<_> = roots.collect();
    roots.dedup_by(|one, other| one.1 == other.1);
    ApplicationSpec {
        name: config.name[..config.name.floor_char_boundary(MAX_NAME_BYTES)].to_owned(),
        php_version: config.version.to_string(),
        roots,
        releases: config.releases,
        user: config.user.clone(),
        group: config.group.clone(),
        working_directory: config.working_directory.as_ref().map(path),
        priority: config.priority.and_then(|nice| u32::try_from(nice + 20).ok()),
        umask: config.umask,
        environment: texts,
        environment_files: files,
        missing_variables: missing,
        worker: worker(config),
        ini_file: config.options.file.as_ref().map(path),
        ini_admin: ini_admin(config),
        ini_user: config.options.user.clone(),
        script_directories: config.script_directories.allowed.iter().map(path).collect(),
        no_script_directories: config.script_directories.forbidden.iter().map(path).collect(),
        script_extensions: if config.limit_extensions.is_configured() {
            config.limit_extensions.endings().to_vec()
        } else {
            Vec::new()
        },
        stdout: config.stdout.as_ref().map(path),
        stderr: config.stderr.as_ref().map(path),
        htaccess: config.obeys_htaccess,
        route_settings: config.route_settings.clone(),
        takes_fastcgi: config.takes_fastcgi,
        requests: match &config.worker {
            Some(worker) => worker.requests,
            None => config.limits.requests,
        }
        .map_or(0, u64::from),
        memory: config.limits.memory.unwrap_or(0),
        rlimits: config.limits.rlimits.clone(),
        isolation: isolation(&config.isolation),
        geometry,
    }
}

/// The environment variables of an application.
#[derive(Default)]
struct Environment {
    /// Those whose values are known.
    texts: Vec<(String, String)>,
    /// Those whose values are in files.
    files: Vec<(String, String)>,
    /// Those whose values are in variables that the server does not have.
    missing: Vec<(String, String)>,
}

impl Environment {
    fn of(config: &config::Application, variables: &[(String, String)]) -> Environment {
        let mut found = Environment::default();
        for (name, source) in &config.environment {
            match source {
                config::EnvironmentSource::Text(text) => {
                    found.texts.push((name.clone(), text.clone()));
                }
                config::EnvironmentSource::File(file) => {
                    found.files.push((name.clone(), file.to_string_lossy().into_owned()));
                }
                config::EnvironmentSource::Server { name: wanted, default } => {
                    let of_server = variables.iter().find(|(known, _)| known == wanted);
                    match of_server.map(|(_, value)| value).or(default.as_ref()) {
                        Some(value) => found.texts.push((name.clone(), value.clone())),
                        None => found.missing.push((name.clone(), wanted.clone())),
                    }
                }
                config::EnvironmentSource::Beginning(beginning) => {
                    let is_meant = |name: &str| {
                        name.starts_with(beginning.as_str())
                            && !environment::is_private(name)
                            && config.environment.iter().all(|(other, _)| other != name)
                            && found.texts.iter().all(|(other, _)| other != name)
                    };
                    let meant = variables.iter().filter(|(name, _)| is_meant(name));
                    let meant: Vec<_> = meant.cloned().collect();
                    found.texts.extend(meant);
                }
            }
        }
        found
    }
}

/// Returns the worker script of an application, if it is resident.
fn worker(config: &config::Application) -> Option<WorkerScript> {
    let (worker, target) = (config.worker.as_ref()?, config.targets.first()?);
    Some(WorkerScript {
        script: target.root.join(&worker.script).to_string_lossy().into_owned(),
        root: target.root.to_string_lossy().into_owned(),
        warm_up: worker.warm_up.clone(),
        has_fallback: worker.has_fallback,
        watch: { worker.watch.iter() }
            .map(|path| target.root.join(path).to_string_lossy().into_owned())
            .collect(),
    })
}

/// Returns the settings of PHP that scripts cannot change. After this time, OPcache kills processes
/// that keep it from clearing its memory; those of a resident application use it as long as they
/// run.
fn ini_admin(config: &config::Application) -> Vec<(String, String)> {
    const SETTING: &str = "opcache.force_restart_timeout";
    /// Extensions that PHP loads by `zend_extension` only.
    const ZEND_EXTENSIONS: [&str; 2] = ["opcache", "xdebug"];
    let mut settings = config.options.admin.clone();
    let is_set = config.options.user.iter().chain(&settings).any(|(name, _)| name == SETTING);
    if config.worker.is_some() && !is_set {
        settings.push((SETTING.to_owned(), "0".to_owned()));
    }
    settings.extend(config.options.extensions.iter().map(|name| {
        let is_zend = ZEND_EXTENSIONS.contains(&name.as_str());
        let setting = if is_zend { "zend_extension" } else { "extension" };
        (setting.to_owned(), name.clone())
    }));
    settings
}

/// Returns the files of a control group that hold its settings, and their contents. The kernel
/// counts processor time in microseconds of 100 ms.
fn group_settings(group: &config::ControlGroup) -> Vec<(String, String)> {
    let text = |number: Option<u32>| number.map(|number| number.to_string());
    [
        ("cpu.weight", text(group.cpu_weight)),
        ("io.weight", text(group.io_weight)),
        ("memory.max", group.memory_max.map(|bytes| bytes.to_string())),
        ("memory.high", group.memory_high.map(|bytes| bytes.to_string())),
        ("cpu.max", group.cpu_max.map(|thousandths| format!("{} 100000", thousandths * 100))),
        ("pids.max", text(group.pids_max)),
    ]
    .into_iter()
    .filter_map(|(file, value)| Some((file.to_owned(), value?)))
    .collect()
}

fn isolation(config: &config::Isolation) -> Isolation {
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let ranges = |ranges: &[config::IdRange]| {
        let range =
            |r: &config::IdRange| IdRange { inside: r.container, outside: r.host, size: r.size };
        ranges.iter().map(range).collect()
    };
    let (namespaces, automount) = (config.namespaces, config.automount);
    Isolation {
        user_namespace: namespaces.credential,
        pid_namespace: namespaces.pid,
        network_namespace: namespaces.network,
        mount_namespace: namespaces.mount,
        uts_namespace: namespaces.uname,
        cgroup_namespace: namespaces.cgroup,
        uidmap: ranges(&config.uidmap),
        gidmap: ranges(&config.gidmap),
        rootfs: config.rootfs.as_ref().map(path),
        language_deps: automount.language_deps,
        procfs: automount.procfs,
        tmpfs: automount.tmpfs,
        new_privileges: config.new_privs.unwrap_or(false),
        cgroup: config.cgroup.as_ref().map(|group| path(&group.path)),
        cgroup_settings: config.cgroup.as_ref().map(group_settings).unwrap_or_default(),
        limits: config.limits.as_ref().map(|limits| ResourceLimits {
            group: path(&limits.group),
            memory: limits.memory,
            cpu: limits.cpu,
            processes: limits.processes,
        }),
        own_start: config.own_start,
        is_sandbox_off: config.sandbox == config::Sandbox::Off,
        sandbox: match &config.sandbox {
            config::Sandbox::Files(files) => Some(Sandbox {
                read: files.read.iter().map(path).collect(),
                write: files.write.iter().map(path).collect(),
                execute: files.execute.iter().map(path).collect(),
                required: files.required,
            }),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_server_reach_the_applications_that_ask_for_them() {
        let environment = |environment: serde_json::Value| {
            let document = serde_json::json!({"applications": {"a": {
                "type": "php", "root": "/", "environment": environment,
            }}});
            let config = config::parse(document.to_string().as_bytes()).unwrap();
            let variables = [
                ("APP_B", "2"),
                ("APP_A", "1"),
                ("TZ", "UTC"),
                ("HOWDAH_CONTROL_TOKEN_FILE", "/secret"),
                ("NOTIFY_SOCKET", "/run/notify"),
                ("LISTEN_FDS", "3"),
                ("CREDENTIALS_DIRECTORY", "/run/credentials"),
            ];
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            spec(&config.applications[0], Geometry::for_pool(1, 1), &variables)
        };
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let found = environment(serde_json::json!({"*": {"env": true}, "TZ": "Asia/Tokyo"}));
        let expected = [("APP_B", "2"), ("APP_A", "1"), ("TZ", "Asia/Tokyo")];
        assert_eq!(found.environment, pairs(&expected));
        let found = environment(serde_json::json!({"APP_*": {"env": true}, "A*": {"env": true}}));
        assert_eq!(found.environment, pairs(&[("APP_B", "2"), ("APP_A", "1")]));
        let found = environment(serde_json::json!({
            "A": {"env": "APP_A"},
            "TZ": {"env": true},
            "N": {"env": "NONE", "default": "none"},
            "M": {"env": "NONE"},
            "F": {"file": "/run/f"},
        }));
        assert_eq!(found.environment, pairs(&[("A", "1"), ("TZ", "UTC"), ("N", "none")]));
        assert_eq!(found.environment_files, pairs(&[("F", "/run/f")]));
        assert_eq!(found.missing_variables, pairs(&[("M", "NONE")]));
    }
}
