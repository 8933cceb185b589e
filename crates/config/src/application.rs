//! `applications`: PHP sites and the processes that run them.

use std::path::PathBuf;
use std::time::Duration;

use howdah_template::Template;

use crate::access_log::AccessLog;
use crate::delegation::Delegation;
use crate::error::{Error, ErrorKind};
use crate::htaccess::Htaccess;
use crate::isolation::Isolation;
use crate::limit;
use crate::node::{Node, Shown, path};
use crate::php::{PhpOptions, PhpTarget, PhpVersion, ScriptDirectories};
use crate::processes::Processes;
use crate::script_extensions::ScriptExtensions;
use crate::smtp::Smtp;
use crate::worker::WorkerScript;

/// A PHP application.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// The name in `applications`.
    pub name: String,
    /// The version of PHP; the newest installed if the document has none.
    pub version: PhpVersion,
    /// Its targets in document order, at least one; a single one without a name if the document has
    /// no `targets`.
    pub targets: Vec<PhpTarget>,
    /// The script that stays in memory; `None` to start a script for each request.
    pub worker: Option<WorkerScript>,
    /// Settings for `.htaccess` files below its roots; `None` if they are not read.
    pub htaccess: Option<Htaccess>,
    /// `.htaccess` files decide about its scripts: its own, or those of a share.
    pub obeys_htaccess: bool,
    /// Names of settings of PHP that actions of the document have.
    pub route_settings: Vec<String>,
    /// PHP's own settings.
    pub options: PhpOptions,
    /// The number of its processes.
    pub processes: Processes,
    /// Limits of a request, of a process and of the queue.
    pub limits: Limits,
    /// Environment variables, in document order.
    pub environment: Vec<(String, String)>,
    /// Directories that scripts may run from.
    pub script_directories: ScriptDirectories,
    /// Endings of the names of files that run as scripts.
    pub limit_extensions: ScriptExtensions,
    /// The value of `SERVER_SOFTWARE`; `None` for the server's name and version.
    pub server_software: Option<String>,
    /// The user that its processes run as; the server's if `None`.
    pub user: Option<String>,
    /// The group that its processes run as; the user's if `None`.
    pub group: Option<String>,
    /// The working directory of its processes.
    pub working_directory: Option<PathBuf>,
    /// Nice value of its processes, from -20 to 19; the server's if `None`.
    pub priority: Option<i32>,
    /// Permissions that files that its scripts create do not get; the server's if `None`.
    pub umask: Option<u32>,
    /// Access logs of the requests that it handles; those of the actions if `None`.
    pub access_log: Option<Vec<AccessLog>>,
    /// The file that its standard output is appended to.
    pub stdout: Option<PathBuf>,
    /// The file that its standard error is appended to.
    pub stderr: Option<PathBuf>,
    /// Isolation of its processes.
    pub isolation: Isolation,
    /// The mail server that takes its messages, or rules for them.
    pub smtp: Option<Smtp>,
    /// Permitted targets of `X-Accel-Redirect` and `X-Sendfile`.
    pub delegation: Delegation,
}

/// Limits of a request, of a process and of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum run time of a request.
    pub timeout: Option<Duration>,
    /// Number of requests after which a process is replaced.
    pub requests: Option<u32>,
    /// Private memory in bytes above which a process is replaced after a request.
    pub memory: Option<u64>,
    /// Resource limits of each process by the names in [`RLIMITS`]; `None` is unlimited.
    pub rlimits: Vec<(String, Option<u64>)>,
    /// Maximum number of waiting requests; further ones are answered with 503.
    pub queue: u32,
    /// Maximum time a request waits for a process.
    pub queue_timeout: Option<Duration>,
    /// Time that clients wait. While the queue is overloaded, requests that have waited longer are
    /// answered with 503.
    pub patience: Option<Duration>,
    /// Order of waiting requests.
    pub fair: Fairness,
    /// Run time after which a request is logged with the stack of its script; `None` for never.
    pub slow: Option<Duration>,
    /// The file for slow requests; the server's log if `None`.
    pub slow_log: Option<PathBuf>,
}

/// Order of waiting requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fairness {
    /// First come, first served.
    #[default]
    Arrival,
    /// Clients take turns.
    Clients,
    /// Texts of this template take turns.
    Key(Template),
}

/// Resource limits that a document can set: the names of `setrlimit(2)` in lower case.
pub const RLIMITS: [&str; 8] =
    ["as", "core", "data", "fsize", "memlock", "nofile", "nproc", "stack"];

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            timeout: None,
            requests: None,
            memory: None,
            rlimits: Vec::new(),
            queue: 8192,
            queue_timeout: None,
            patience: None,
            fair: Fairness::Arrival,
            slow: Some(Duration::from_secs(5)),
            slow_log: None,
        }
    }
}

impl Application {
    /// Returns true if processes of one are processes of the other: the mail server is not theirs.
    pub fn has_same_processes(&self, other: &Application) -> bool {
        if self.smtp == other.smtp {
            return self == other;
        }
        *self == Application { smtp: self.smtp.clone(), ..other.clone() }
    }

    /// Returns the path of one of its limits in the document, without its first slash.
    pub fn limit_key(&self, key: &str) -> String {
        limit_key(&self.name, key)
    }

    /// Reads a member of `applications`.
    pub(crate) fn read(name: &str, node: &Node<'_>) -> Result<Application, Error> {
        let object = node.object()?;
        let version = read_type(&object.required("type")?)?;
        let mut targets = PhpTarget::read_all(&object)?;
        let limits = object.read("limits", Limits::read)?.unwrap_or_default();
        let worker = WorkerScript::read(&object, &mut targets, limits.requests)?;
        let htaccess = Htaccess::of_application(&object, &targets)?;
        let limit_extensions = ScriptExtensions::of_application(&object, &targets)?;
        let application = Application {
            name: name.to_owned(),
            version,
            targets,
            worker,
            obeys_htaccess: htaccess.is_some(),
            route_settings: Vec::new(),
            htaccess,
            options: object.read("options", PhpOptions::read)?.unwrap_or_default(),
            processes: object.read("processes", Processes::read)?.unwrap_or(Processes::Automatic),
            limits,
            environment: object.read("environment", read_environment)?.unwrap_or_default(),
            script_directories: object
                .read("script_directories", ScriptDirectories::read)?
                .unwrap_or_default(),
            limit_extensions,
            server_software: object.text("server_software")?,
            user: object.text("user")?,
            group: object.text("group")?,
            working_directory: object.file("working_directory")?,
            priority: object.read("priority", |node| {
                // In range.
                node.integer(-20..=19).map(|nice| i32::try_from(nice).unwrap_or(0))
            })?,
            umask: object.read("umask", read_umask)?,
            access_log: object.read("access_log", AccessLog::read_all)?,
            stdout: object.file("stdout")?,
            stderr: object.file("stderr")?,
            isolation: object.read("isolation", Isolation::read)?.unwrap_or_default(),
            smtp: object.read("smtp", Smtp::read_of_application)?,
            delegation: Delegation::read(&object)?,
        };
        object.end()?;
        Ok(application)
    }
}

/// Returns the path of a limit of an application in the document, without its first slash.
pub fn limit_key(application: &str, key: &str) -> String {
    path(["applications", application, "limits", key]).trim_start_matches('/').to_owned()
}

/// Reads `php`, `php 8`, `php 8.2` or `php 8.2.1`; the space may be left out, as in Unit.
fn read_type(node: &Node<'_>) -> Result<PhpVersion, Error> {
    let text = node.string()?;
    let digits = |character: char| character == ' ' || character.is_ascii_digit();
    let (language, version) = match text.find(digits) {
        Some(at) => text.split_at_checked(at).unwrap_or((text, "")),
        None => (text, ""),
    };
    let version = version.strip_prefix(' ').unwrap_or(version);
    match language {
        "php" => PhpVersion::parse(version).ok_or_else(|| {
            node.invalid(format_args!("has no usable version in \"{}\"", Shown(text)))
                .with_hint("write \"php\", \"php 8\", \"php 8.2\" or \"php 8.2.1\"")
        }),
        "external"
        | "go"
        | "java"
        | "node"
        | "nodejs"
        | "perl"
        | "python"
        | "ruby"
        | "wasm"
        | "wasm-wasi-component" => {
            let message = format!("\"{}\" is not a type of application here", Shown(text));
            let error = node.error(ErrorKind::InvalidValue, message);
            Err(error.with_hint("Howdah runs PHP; put this back end behind \"proxy\""))
        }
        _ => {
            let message = format!("\"{}\" is not a type of application", Shown(text));
            let error = node.error(ErrorKind::InvalidValue, message);
            Err(error.with_hint(
                "write \"php\", \"php 8.2\" for a certain version, or \"fastcgi\" for PHP-FPM",
            ))
        }
    }
}

impl Limits {
    fn read(node: &Node<'_>) -> Result<Limits, Error> {
        let object = node.object()?;
        // As in Unit, zero means no limit.
        let timeout = |timeout: &Node<'_>| timeout.seconds(0);
        let set = |duration: &Duration| !duration.is_zero();
        object.unavailable("shm")?;
        let limits = Limits {
            timeout: object.read("timeout", timeout)?.filter(set),
            requests: object.read("requests", |requests| requests.count(0))?.filter(|n| *n > 0),
            memory: object.read("memory", |memory| memory.size(0))?.filter(|bytes| *bytes > 0),
            rlimits: object.read("rlimits", read_rlimits)?.unwrap_or_default(),
            queue: object
                .read("queue", |queue| queue.count(0))?
                .unwrap_or_else(|| Limits::default().queue),
            queue_timeout: object.read("queue_timeout", timeout)?.filter(set),
            patience: object.read("patience", timeout)?.filter(set),
            fair: object.read("fair", Fairness::read)?.unwrap_or_default(),
            slow: object
                .read("slow", timeout)?
                .map_or(Limits::default().slow, |slow| Some(slow).filter(set)),
            slow_log: object.file("slow_log")?,
        };
        object.end()?;
        Ok(limits)
    }
}

impl Fairness {
    /// Reads true, false, or a key.
    fn read(node: &Node<'_>) -> Result<Fairness, Error> {
        match node.value.as_bool() {
            Some(false) => Ok(Fairness::Arrival),
            Some(true) => Ok(Fairness::Clients),
            None if node.value.is_string() => limit::read_key(node).map(Fairness::Key),
            None => Err(node.wrong_type("true, false, or a string such as \"$host\"")),
        }
    }
}

fn read_rlimits(node: &Node<'_>) -> Result<Vec<(String, Option<u64>)>, Error> {
    let object = node.object()?;
    let mut limits = Vec::new();
    for name in RLIMITS {
        let limit = object.read(name, |limit| match limit.value.as_str() {
            Some("unlimited") => Ok(None),
            Some(_) => Err(limit.invalid("must be a number or \"unlimited\"")),
            None => limit.size(0).map(Some),
        })?;
        limits.extend(limit.map(|limit| (name.to_owned(), limit)));
    }
    object.end()?;
    Ok(limits)
}

/// Reads octal digits, as the command `umask` takes them.
fn read_umask(node: &Node<'_>) -> Result<u32, Error> {
    const HINT: &str = "write \"0027\" for files that others cannot read";
    if !node.value.is_string() {
        return Err(node.wrong_type("a string of octal digits").with_hint(HINT));
    }
    let text = node.string()?;
    let is_octal =
        (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(text, 8) {
        Ok(umask) if is_octal && umask <= 0o777 => Ok(umask),
        _ => Err(node.invalid("must be octal digits from \"000\" to \"0777\"").with_hint(HINT)),
    }
}

fn read_environment(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let mut environment = Vec::new();
    for (name, variable) in node.members()? {
        if name.is_empty() || name.contains(['=', '\0']) {
            let message =
                "must have a name that is not empty and has neither \"=\" nor a null character";
            return Err(variable.invalid(message));
        }
        let value = variable.string()?;
        if value.contains('\0') {
            return Err(variable.invalid("must not contain a null character"));
        }
        environment.push((name.to_owned(), value.to_owned()));
    }
    Ok(environment)
}
