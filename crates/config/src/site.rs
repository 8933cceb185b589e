//! A site: a few lines from which the parts of a document are made (crate `howdah-sites`).
//!
//! `sites` of a document names files with a site each, or has sites by name. `defaults` has the
//! keys that all sites share. [`include`](crate::include) replaces both before a document is read.

mod keys;

use std::collections::BTreeSet;
use std::path::PathBuf;

use howdah_template::{DefinedVariables, Groups};
use serde_json::{Map, Value, json};

use crate::address::Address;
use crate::defaults::Defaults;
use crate::definitions::Definitions;
use crate::environment::{self, EnvironmentSource};
use crate::error::{Error, ErrorKind};
use crate::jobs;
use crate::limit::read_rate;
use crate::mistakes::Mistakes;
use crate::node::{Node, Object, Scope};
use crate::php::{PhpVersion, read_extensions};
use crate::tls::{Authority, read_host};
use crate::units;

use self::keys::{HTTPS, LOGS_OF_SITE, PHP, SHARED, SITE_LIMITS};
pub(crate) use self::keys::{SITE, SITE_DEFAULTS};

/// A valid site, with the defaults of the document.
#[derive(Debug, Clone)]
pub struct Site {
    /// Name of the site: that of its file without the extension.
    pub name: String,
    /// Host names in lower case; `*.` and a name, or `*`, are patterns.
    pub hosts: Vec<String>,
    /// Directory of the site; absolute.
    pub root: PathBuf,
    /// User that PHP runs as.
    pub user: Option<String>,
    /// Group that PHP runs as.
    pub group: Option<String>,
    /// False for a page for maintenance.
    pub enabled: bool,
    /// The host to which the others redirect.
    pub canonical: Option<String>,
    /// Public directory, if it is not to be found.
    pub public: Option<PathBuf>,
    /// Script for requests that no file is for, if it is not to be found.
    pub front_controller: Option<FrontController>,
    /// The application that stays in memory.
    pub worker: SiteWorker,
    /// Encryption.
    pub https: SiteHttps,
    /// PHP.
    pub php: SitePhp,
    /// Limits.
    pub limits: SiteLimits,
    /// `cache` of actions, as in their grammar.
    pub cache: Option<Value>,
    /// `.htaccess` files are obeyed.
    pub htaccess: bool,
    /// Environment variables.
    pub environment: Vec<(String, EnvironmentSource)>,
    /// `access_log` of actions, as in their grammar.
    pub access_log: Option<Value>,
    /// The file for the log records about the site; the server's log if `None`.
    pub error_log: Option<PathBuf>,
    /// `response_headers` of actions, as in their grammar.
    pub headers: Option<Value>,
    /// The application is restarted when a link in the root leads elsewhere.
    pub releases: bool,
    /// `jobs` of the application, as in their grammar.
    pub jobs: Option<Value>,
    /// `basic_auth` of actions, as in their grammar.
    pub auth: Option<Value>,
    /// Steps of a route.
    pub routes: Vec<Value>,
    /// Addresses for requests with encryption.
    pub listen_https: Vec<String>,
}

/// The script for requests that no file is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontController {
    /// None: such requests get 404.
    Off,
    /// A script in the public directory.
    Script(String),
}

/// `worker` of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SiteWorker {
    /// Scripts run for each request.
    Off,
    /// The worker script that is found.
    Found,
    /// A script in the public directory.
    Script(String),
}

/// `https` of a site.
#[derive(Debug, Clone, PartialEq)]
pub enum SiteHttps {
    /// None.
    Off,
    /// None until there is an e-mail address for the authority.
    WithoutEmail,
    /// Members of `acme` of a listener, without `domains`.
    Acme(Map<String, Value>),
    /// An entry of `certificate` of a listener.
    Certificate(Value),
}

/// `php` of a site.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SitePhp {
    /// Its version; that of the project for `None`.
    pub version: Option<PhpVersion>,
    /// Settings that scripts cannot change.
    pub ini: Map<String, Value>,
    /// `processes` of the application, as in its grammar.
    pub processes: Option<Value>,
    /// Names of extensions of PHP that are loaded in addition.
    pub extensions: Vec<String>,
    /// The site shares its application with others.
    pub is_shared: bool,
}

/// `limits` of a site.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteLimits {
    /// Bytes of memory of all processes.
    pub memory: Option<u64>,
    /// Processors of all processes.
    pub cpu: Option<f64>,
    /// Maximum number of processes.
    pub processes: Option<u32>,
    /// `rate` of a limit.
    pub requests: Option<String>,
    /// Recipients of mail in an hour.
    pub mail: Option<u32>,
    /// `bandwidth` of a limit, as in its grammar.
    pub bandwidth: Option<Value>,
}

/// Maximum size of a request body of a site: Apache's. PHP's own `post_max_size`, which a site can
/// set, is the effective limit.
pub const MAX_SITE_BODY_SIZE: u32 = 1 << 30;

/// Keys whose objects have the members of `defaults` that the site does not have.
pub(crate) const MERGED: [&str; 4] = ["php", "limits", "environment", "headers"];

impl Site {
    /// Reads a site. `defaults` is a valid one of the document, or null.
    ///
    /// # Errors
    ///
    /// All mistakes, each with its place in the site.
    pub(crate) fn read(
        name: &str,
        site: &Value,
        defaults: &Value,
        listen_https: &[String],
    ) -> Result<Site, Error> {
        let merged = merged(site, defaults);
        within(&merged, |node| Site::read_node(name, node, defaults, listen_https))
    }

    fn read_node(
        name: &str,
        node: &Node<'_>,
        defaults: &Value,
        listen_https: &[String],
    ) -> Result<Site, Error> {
        let object = node.object(&SITE)?;
        let hosts = node.part(object.required("hosts").and_then(|hosts| read_hosts(&hosts)))?;
        let hosts = hosts.unwrap_or_default();
        let root = node.part(object.required("root").and_then(|root| read_root(&root)))?;
        let canonical = object.read("canonical", |node| {
            let canonical = node.text()?.to_ascii_lowercase();
            let is_one = hosts.contains(&canonical) && !canonical.starts_with('*');
            if is_one { Ok(canonical) } else { Err(node.invalid("must be one of the \"hosts\"")) }
        })?;
        let logs = object.read("logs", read_logs)?.unwrap_or_default();
        let raw = |key| object.optional(key).map(|node| node.value.clone());
        let site = Site {
            name: name.to_owned(),
            root: root.unwrap_or_default(),
            user: object.text("user")?,
            group: object.text("group")?,
            enabled: object.switch("enabled")?,
            public: object.read("public", |node| read_below(node).map(PathBuf::from))?,
            front_controller: object.read("front_controller", |node| match node.value {
                Value::Bool(false) => Ok(FrontController::Off),
                _ => read_below(node).map(FrontController::Script),
            })?,
            worker: object.read("worker", read_worker)?.unwrap_or(SiteWorker::Off),
            https: read_https(&object, defaults)?,
            php: object.read("php", read_php)?.unwrap_or_default(),
            limits: object.read("limits", read_limits)?.unwrap_or_default(),
            cache: object.read("cache", |node| Ok(cache(node.value)))?,
            htaccess: object.switch("htaccess")?,
            environment: object.read("environment", environment::read)?.unwrap_or_default(),
            access_log: logs.access,
            error_log: logs.error,
            headers: raw("headers"),
            releases: object.switch("releases")?,
            jobs: object.read("jobs", |node| {
                jobs::read(node)?;
                Ok(node.value.clone())
            })?,
            auth: raw("auth"),
            routes: object
                .read("routes", |node| {
                    node.elements().map(|steps| steps.map(|step| step.value.clone()).collect())
                })?
                .unwrap_or_default(),
            listen_https: listen_https.to_vec(),
            hosts,
            canonical,
        };
        object.end()?;
        Ok(site)
    }

    /// Returns true if the site has HTTPS.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.https, SiteHttps::Acme(_) | SiteHttps::Certificate(_))
    }

    /// Checks `defaults` of a document.
    ///
    /// # Errors
    ///
    /// All mistakes, each with its place in `defaults`.
    pub fn check_defaults(defaults: &Value) -> Result<(), Error> {
        within(defaults, |node| {
            let object = node.object(&SITE_DEFAULTS)?;
            for key in ["listen", "listen_https"] {
                object.read(key, |node| {
                    for address in node.strings()? {
                        let read = Address::parse(address.text()?);
                        read.map_err(|error| address.invalid(error))?;
                    }
                    Ok(())
                })?;
            }
            read_https(&object, &Value::Null)?;
            object.read("php", read_php)?;
            object.read("limits", read_limits)?;
            object.read("environment", environment::read)?;
            object.read("logs", read_logs)?;
            object.boolean("htaccess")?;
            object.end()
        })
    }
}

/// Returns a site with the members of `defaults` that it does not have. Its `https` is not among
/// them.
fn merged(site: &Value, defaults: &Value) -> Value {
    let mut merged = site.clone();
    let (Some(members), Some(defaults)) = (merged.as_object_mut(), defaults.as_object()) else {
        return merged;
    };
    let shared = |name: &&String| SHARED.iter().any(|key| key.name == *name && key.name != "https");
    for name in defaults.keys().filter(shared) {
        let Some(default) = defaults.get(name) else { continue };
        match (members.get_mut(name), default) {
            (None, _) => drop(members.insert(name.clone(), default.clone())),
            (Some(Value::Object(own)), Value::Object(all)) if MERGED.contains(&name.as_str()) => {
                for (name, value) in all {
                    own.entry(name.clone()).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
        }
    }
    merged
}

/// Reads a value that is not a part of a document.
fn within<T>(value: &Value, read: impl FnOnce(&Node<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let (groups, variables) = (Groups::default(), DefinedVariables::default());
    let mistakes = Mistakes::default();
    let scope = Scope {
        definitions: Definitions::of(&Value::Null),
        defaults: Defaults::default(),
        groups: &groups,
        variables: &variables,
        mistakes: &mistakes,
    };
    let read = read(&Node::root(value, &scope));
    mistakes.finish_document(read).map_err(|errors| {
        let none = || Error::new(ErrorKind::InvalidValue, String::new(), "cannot be read");
        Error::of_all(errors).unwrap_or_else(none)
    })
}

fn read_hosts(node: &Node<'_>) -> Result<Vec<String>, Error> {
    let mut hosts = Vec::new();
    let mut known = BTreeSet::new();
    for host in node.strings()? {
        let text = host.text()?;
        if text != "*" {
            read_host(&host, text.strip_prefix("*.").unwrap_or(text))?;
        }
        let text = text.to_ascii_lowercase();
        if known.insert(text.clone()) {
            hosts.push(text);
        }
    }
    if hosts.is_empty() { Err(node.invalid("must name at least one host")) } else { Ok(hosts) }
}

fn read_root(node: &Node<'_>) -> Result<PathBuf, Error> {
    let root = PathBuf::from(node.text()?);
    if root.is_absolute() {
        Ok(root)
    } else {
        Err(node.invalid("must be an absolute path, such as \"/srv/shop\""))
    }
}

/// Reads a path below a directory.
fn read_below(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    if text.starts_with('/') || text.split('/').any(|part| part == "..") {
        return Err(node.invalid("must be a path below the site's directory"));
    }
    Ok(text.to_owned())
}

fn read_worker(node: &Node<'_>) -> Result<SiteWorker, Error> {
    match node.value {
        Value::Bool(true) => Ok(SiteWorker::Found),
        Value::Bool(false) => Ok(SiteWorker::Off),
        Value::String(_) => read_below(node).map(SiteWorker::Script),
        _ => Err(node.wrong_type("true, false or a string")),
    }
}

fn read_php(node: &Node<'_>) -> Result<SitePhp, Error> {
    let object = node.object(&PHP)?;
    let version = object.read("version", |node| {
        PhpVersion::parse(node.text()?)
            .ok_or_else(|| node.invalid("must be a version of PHP, such as \"8.4\""))
    })?;
    let ini = object.read("ini", |node| {
        for (_, value) in node.members()? {
            value.string()?;
        }
        Ok(node.value.as_object().cloned().unwrap_or_default())
    })?;
    let processes = object.optional("processes").map(|node| node.value.clone());
    let extensions = object.read("extensions", read_extensions)?.unwrap_or_default();
    let is_shared = object.switch("shared")?;
    object.end()?;
    Ok(SitePhp { version, ini: ini.unwrap_or_default(), processes, extensions, is_shared })
}

fn read_limits(node: &Node<'_>) -> Result<SiteLimits, Error> {
    let object = node.object(&SITE_LIMITS)?;
    let limits = SiteLimits {
        memory: object.read("memory", read_size)?,
        cpu: object.read("cpu", |node| match node.value.as_f64() {
            Some(cpu) if cpu > 0.0 && cpu <= 4096.0 => Ok(cpu),
            _ => Err(node.invalid("must be a number of processors, such as 0.5")),
        })?,
        processes: object.integer("processes")?,
        requests: object.read("requests", |node| {
            read_rate(node)?;
            Ok(node.text()?.to_owned())
        })?,
        mail: object.integer("mail")?,
        bandwidth: object.read("bandwidth", |node| match node.value {
            Value::String(_) => read_size(node).map(Value::from),
            value => Ok(value.clone()),
        })?,
    };
    object.end()?;
    Ok(limits)
}

/// Reads a number of bytes, or a text with a unit.
fn read_size(node: &Node<'_>) -> Result<u64, Error> {
    match node.value {
        Value::String(text) => units::bytes(text)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| node.invalid("must be a number of bytes, such as \"512M\"")),
        _ => node.size(1),
    }
}

/// `logs` of a site.
#[derive(Default)]
struct SiteLogs {
    access: Option<Value>,
    error: Option<PathBuf>,
}

fn read_logs(node: &Node<'_>) -> Result<SiteLogs, Error> {
    let object = node.object(&LOGS_OF_SITE)?;
    let access = object.optional("access").map(|node| node.value.clone());
    let error = object.read("error", |node| {
        let path = node.file()?;
        let problem = "must be a file whose path starts with \"/\"";
        if path.is_absolute() { Ok(path) } else { Err(node.invalid(problem)) }
    })?;
    object.end()?;
    Ok(SiteLogs { access, error })
}

/// Returns `cache` of an action. The name of a preset stands for an object with it.
fn cache(value: &Value) -> Value {
    match value {
        Value::String(preset) => json!({"preset": preset}),
        other => other.clone(),
    }
}

/// Reads `https` of a site or of `defaults`; those of `defaults` hold for members that the site
/// does not have.
fn read_https(object: &Object<'_>, defaults: &Value) -> Result<SiteHttps, Error> {
    let by_default = defaults.get("https").unwrap_or(&Value::Null);
    let own = object.read("https", |node| {
        match node.value {
            Value::Bool(false) => {}
            Value::String(text) if text == "auto" => {}
            Value::Object(_) => {
                let object = node.object(&HTTPS)?;
                object.file("certificate")?;
                object.file("key")?;
                Authority::read(&object)?;
                object.end()?;
                check_challenges(node, by_default)?;
            }
            _ => return Err(node.wrong_type("\"auto\", false or an object")),
        }
        Ok(node.value.clone())
    })?;
    let authority = |members: &Map<String, Value>| {
        let default = by_default.as_object().into_iter().flatten();
        let mut all: Map<String, Value> = default.map(|(k, v)| (k.clone(), v.clone())).collect();
        all.extend(members.iter().map(|(key, value)| (key.clone(), value.clone())));
        all.retain(|key, _| key != "certificate" && key != "key");
        if all.contains_key("email") { SiteHttps::Acme(all) } else { SiteHttps::WithoutEmail }
    };
    Ok(match own.as_ref().unwrap_or(by_default) {
        Value::Bool(_) => SiteHttps::Off,
        Value::Object(members) => match members.get("certificate") {
            None => authority(members),
            Some(chain) => {
                let key = members.get("key").unwrap_or(chain);
                SiteHttps::Certificate(json!({"chain": chain, "key": key}))
            }
        },
        _ => authority(&Map::new()),
    })
}

/// Returns true if `challenges` of `https` has that by DNS.
pub fn has_dns(challenges: &Value) -> bool {
    match challenges {
        Value::Array(all) => all.contains(&json!("dns")),
        one => one == "dns",
    }
}

/// Checks that there is a program for the challenges by DNS, in `https` or in that of `defaults`.
fn check_challenges(node: &Node<'_>, by_default: &Value) -> Result<(), Error> {
    let of = |key: &str| node.value.get(key).or_else(|| by_default.get(key));
    if of("dns").is_some() || !of("challenges").is_some_and(has_dns) {
        return Ok(());
    }
    let error = node.invalid("proves names by DNS, but has no \"dns\"");
    Err(error.with_hint("name the program that changes the records in \"dns\""))
}

/// Returns the addresses for requests without encryption, and those for requests with it.
/// `defaults` is valid.
pub(crate) fn addresses(defaults: &Value, has_ipv6: bool) -> (Vec<String>, Vec<String>) {
    let of = |key: &str, port: u16| match defaults.get(key) {
        None if has_ipv6 => vec![format!("*:{port}"), format!("[::]:{port}")],
        None => vec![format!("*:{port}")],
        Some(Value::String(one)) => vec![one.clone()],
        Some(all) => {
            let all = all.as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        }
    };
    (of("listen", 80), of("listen_https", 443))
}
