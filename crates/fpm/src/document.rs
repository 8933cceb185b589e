//! Pools → a document: an application and a listener for each.

use std::path::{Path, PathBuf};

use howdah_config::DEFAULT_FPM_FORMAT;
use howdah_import::php_fpm::{self, Line};
use howdah_sys::credentials::{self, Credentials};
use serde_json::{Map, Value, json};

use crate::command_line::Arguments;
use crate::conf::{Conf, Section, is_id, is_path};
use crate::sockets::Listener;

/// The PHP of the pools.
#[derive(Debug, Clone, Default)]
pub struct Php {
    /// Its version, such as `8.2`; `None` for the newest.
    pub version: Option<String>,
    /// The `php.ini` of php-fpm, if there is one.
    pub ini: Option<PathBuf>,
    /// The directories of further settings (`PHP_INI_SCAN_DIR`), empty for none; `None` for those of
    /// the program.
    pub scanned: Option<String>,
}

/// Variable with the directories of PHP's further settings.
pub const SCAN_VARIABLE: &str = "PHP_INI_SCAN_DIR";

impl Php {
    /// Finds `php.ini`: that of `-c`, that of `PHPRC`, or Debian's for php-fpm; none with `-n`.
    /// `scanned`: the value of [`SCAN_VARIABLE`].
    pub fn find(
        version: Option<String>,
        arguments: &Arguments,
        rc: Option<&str>,
        scanned: Option<String>,
    ) -> Php {
        let named = arguments.ini.as_deref().or(rc.map(Path::new));
        let of_directory = |path: &Path| path.is_dir().then(|| path.join("php.ini"));
        let ini = match named {
            _ if arguments.without_ini => Some("/dev/null".into()),
            Some(path) => of_directory(path).or_else(|| Some(path.to_owned())),
            None => {
                let version = version.as_deref().unwrap_or_default();
                Some(PathBuf::from(format!("/etc/php/{version}/fpm/php.ini")))
            }
        };
        let of_fpm = format!("/etc/php/{}/fpm/conf.d", version.as_deref().unwrap_or_default());
        let scanned = match scanned {
            _ if arguments.without_ini => Some(String::new()),
            Some(scanned) => Some(scanned),
            None => Some(of_fpm).filter(|directory| Path::new(directory).is_dir()),
        };
        Php { version, ini: ini.filter(|ini| ini.exists()), scanned }
    }
}

/// Returns the document. `listeners` are the addresses of the pools, by their names. Error: a
/// sentence about what no application can have.
pub fn document(
    conf: &Conf,
    listeners: &[Listener],
    php: &Php,
    arguments: &Arguments,
    environment: &[(String, String)],
) -> Result<Value, String> {
    let global = lines(&conf.global);
    let (mut applications, mut members) = (Map::new(), Map::new());
    for pool in &conf.pools {
        let application = application(pool, &global, php, arguments, environment)?;
        applications.insert(pool.name.clone(), application);
    }
    for listener in listeners {
        let Some(pool) = conf.pools.iter().find(|pool| pool.name == listener.pool) else {
            continue;
        };
        members.insert(listener.name.clone(), member(pool, listener));
    }
    let mut document = Map::new();
    let mut settings = Map::new();
    for (name, directive) in
        [("shutdown_timeout", "process_control_timeout"), ("max_processes", "process.max")]
    {
        let value = conf.global.number(directive, 0);
        if value > 0 {
            settings.insert(name.into(), value.into());
        }
    }
    document.insert("settings".into(), settings.into());
    document.insert("listeners".into(), members.into());
    document.insert("applications".into(), applications.into());
    Ok(document.into())
}

/// Returns the listener of a pool.
fn member(pool: &Section, listener: &Listener) -> Value {
    let target = pool.name.replace('%', "%25").replace('/', "%2F");
    let mut member = json!({
        "protocol": "fastcgi",
        "pass": format!("applications/{target}"),
    });
    // The status of `pm.status_listen` is at any path if there is no `pm.status_path`.
    let status = pool.text("pm.status_path");
    let status = status.or(listener.is_status.then_some("/"));
    if listener.is_status || pool.text("pm.status_listen").is_none() {
        let pages = [
            ("status_path", status),
            ("ping_path", pool.text("ping.path")),
            ("ping_response", pool.text("ping.path").and(pool.text("ping.response"))),
        ];
        for (name, value) in pages {
            if let Some(value) = value {
                member[name] = value.into();
            }
        }
    }
    if is_path(&listener.key) {
        // The master process has given the file its owner and its mode.
        member["socket"] = json!({ "mode": "0666" });
    } else {
        member["allow"] = match clients(pool) {
            Some(clients) => json!(clients),
            None => json!(["0.0.0.0/0", "::/0"]),
        };
    }
    member
}

/// Returns the addresses that may connect; `None` for all.
pub(crate) fn clients(pool: &Section) -> Option<Vec<String>> {
    let list = pool.text("listen.allowed_clients")?;
    let all = list.split(',').map(str::trim).filter(|one| !one.is_empty());
    Some(all.filter(|one| one.parse::<std::net::IpAddr>().is_ok()).map(str::to_owned).collect())
}

/// Returns the application of a pool.
fn application(
    pool: &Section,
    global: &[Line],
    php: &Php,
    arguments: &Arguments,
    environment: &[(String, String)],
) -> Result<Value, String> {
    let mut lines = lines(pool);
    lines.retain(|(name, key, _)| !(name == "env" && key.is_some()));
    for (name, value) in variables(pool, environment) {
        lines.push(("env".to_owned(), Some(name), value));
    }
    let problem = |error: howdah_import::Error| error.to_string();
    let found = php_fpm::pool(&pool.name, &pool.file, &lines, global).map_err(problem)?;
    let mut application = found.application();
    for name in ["user", "group"] {
        let Some(id) = pool.text(name).filter(|value| is_id(value)) else { continue };
        let known =
            if name == "user" { id.parse().ok().and_then(Credentials::name_of) } else { None };
        match known {
            Some(known) => application.insert(name.to_owned(), known.into()),
            None => {
                let text = "has no name on this machine, and an application needs a name";
                return Err(format!("[pool {}] the {name} {id} {text}", pool.name));
            }
        };
    }
    if !credentials::is_root() {
        for name in ["user", "group", "priority", "isolation"] {
            application.remove(name);
        }
    }
    let version = php.version.as_deref().map_or("php".to_owned(), |one| format!("php {one}"));
    application.insert("type".into(), version.into());
    application.insert("root".into(), "/".into());
    let extensions = found.limit_extensions();
    application.entry("limit_extensions").or_insert_with(|| json!(extensions));
    if let Some(scanned) = &php.scanned
        && pool.text("chroot").is_none()
    {
        let environment = application.entry("environment").or_insert_with(|| json!({}));
        if environment.get(SCAN_VARIABLE).is_none() {
            environment[SCAN_VARIABLE] = scanned.as_str().into();
        }
    }
    // `listen.backlog` says how many connections the kernel keeps. The queue is another thing: a short
    // one would refuse requests of a moment.
    if let Some(Value::Object(limits)) = application.get_mut("limits") {
        limits.remove("queue");
        // The master writes the records, in php-fpm's form.
        limits.remove("slow_log");
    }
    if let Some(Value::Object(log)) = application.get_mut("access_log") {
        log.remove("format");
        log.insert("php_fpm".into(), access_log(pool, std::process::id()));
        // In the order of the requests, whatever thread has answered them.
        log.insert("flush".into(), 0.into());
    }
    options(&mut application, pool, php, arguments);
    Ok(application.into())
}

/// Returns the lines of the access log. `parent` is the master process, whose id `%P` stands for.
fn access_log(pool: &Section, parent: u32) -> Value {
    let format = pool.text("access.format").unwrap_or(DEFAULT_FPM_FORMAT);
    // A code follows each percent sign, which may be one itself.
    let pieces: Vec<String> =
        format.split("%%").map(|piece| piece.replace("%P", &parent.to_string())).collect();
    let mut log = json!({ "format": pieces.join("%%") });
    let suppressed: Vec<&str> = pool
        .elements
        .iter()
        .filter(|element| element.name == "access.suppress_path")
        .map(|element| element.value.as_str())
        .collect();
    if !suppressed.is_empty() {
        log["suppress_paths"] = json!(suppressed);
    }
    log
}

/// Adds `php.ini` and the settings of `-d`, which the pool's own ones come before.
fn options(application: &mut Map<String, Value>, pool: &Section, php: &Php, arguments: &Arguments) {
    let mut options = match application.remove("options") {
        Some(Value::Object(options)) => options,
        _ => Map::new(),
    };
    options.remove("file");
    if let Some(ini) = &php.ini
        && pool.text("chroot").is_none()
    {
        options.insert("file".into(), ini.display().to_string().into());
    }
    for (name, value) in &arguments.defines {
        if name == "extension" {
            let list = options.entry("extensions").or_insert_with(|| json!([]));
            let plain = Path::new(value).file_stem().unwrap_or_default().to_string_lossy();
            if let Some(list) = list.as_array_mut() {
                list.push(plain.into());
            }
            continue;
        }
        let is_set = |kind: &str| options.get(kind).is_some_and(|all| all.get(name).is_some());
        if is_set("admin") || is_set("user") {
            continue;
        }
        let user = options.entry("user").or_insert_with(|| json!({}));
        user[name.as_str()] = value.as_str().into();
    }
    if !options.is_empty() {
        application.insert("options".into(), options.into());
    }
}

/// Returns the directives of a section as lines.
fn lines(section: &Section) -> Vec<Line> {
    let values = section.values().map(|(name, text)| (name.to_owned(), None, text.to_owned()));
    let elements = section.elements.iter().map(|one| {
        let key = if one.name == "access.suppress_path" { "" } else { &one.key };
        (one.name.to_owned(), Some(key.to_owned()), one.value.clone())
    });
    values.chain(elements).collect()
}

/// Returns the variables of a pool's scripts: those of `env[]`, of which `$NAME` is that of the
/// server, and with `clear_env = no` all of the server.
fn variables(pool: &Section, environment: &[(String, String)]) -> Vec<(String, String)> {
    let of_server = |name: &str| environment.iter().find(|(known, _)| known == name);
    let mut found: Vec<(String, String)> = Vec::new();
    for element in pool.elements.iter().filter(|element| element.name == "env") {
        let value = match element.value.strip_prefix('$') {
            Some(name) => of_server(name).map(|(_, value)| value.clone()).unwrap_or_default(),
            None => element.value.clone(),
        };
        if !value.is_empty() && !found.iter().any(|(known, _)| *known == element.key) {
            found.push((element.key.clone(), value));
        }
    }
    if pool.number("clear_env", 1) == 0 {
        for (name, value) in environment {
            if !value.is_empty() && !found.iter().any(|(known, _)| known == name) {
                found.push((name.clone(), value.clone()));
            }
        }
    }
    found
}
