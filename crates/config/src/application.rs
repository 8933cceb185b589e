//! `applications`: PHP sites and the processes that run them.

use std::path::PathBuf;
use std::time::Duration;

use howdah_jobs::Job;
use howdah_template::Template;

use crate::access_log::{AccessLog, LOGS};
use crate::delegation::{self, Delegation};
use crate::environment::{self, EnvironmentSource, VARIABLE_SOURCE};
use crate::error::{Error, ErrorKind};
use crate::htaccess::{HTACCESS, Htaccess};
use crate::isolation::{ISOLATION, Isolation};
use crate::jobs::{self, JOB};
use crate::key::{COUNT, Key, Kind, Shape};
use crate::limit;
use crate::node::{Node, Shown, default_of_reader, path};
use crate::php::{
    OPTIONS, PhpOptions, PhpTarget, PhpVersion, ROOT, SCRIPT_KEYS, ScriptDirectories, TARGET,
};
use crate::processes::{PROCESSES, Processes};
use crate::script_extensions::ScriptExtensions;
use crate::smtp::{SMTP, Smtp};
use crate::worker::{RELEASES, WORKER, WorkerScript};

/// A member of `applications` that runs PHP.
pub(crate) static APPLICATION: Shape = Shape {
    name: "application",
    parts: &[
        &[
            Key::new("type", Kind::Text, "`\"php\"`, or with a version, such as `\"php 8.2\"`")
                .details(
                    "Without a version, the newest PHP installed; a version has any precision: \
                     `php 8`, `php 8.2.1`",
                )
                .required()
                .unit(),
            ROOT.default("required without `targets`"),
        ],
        SCRIPT_KEYS,
        &[
            Key::new(
                "targets",
                Kind::Named(&Kind::Object(&TARGET)),
                "Several roots and scripts by name",
            )
            .default("none")
            .details(
                "Up to 254 named objects, each with its `root`, `script`, `index` and `prefix`, \
                 in place of those above",
            )
            .unit(),
            Key::new(
                "worker",
                Kind::Either(&[Kind::Switch, Kind::Object(&WORKER)]),
                "Keeps a script in memory, which handles one request after the other",
            )
            .default("false")
            .details("See [Worker mode](../worker-mode.md)"),
            Key::new(
                "htaccess",
                Kind::Either(&[Kind::Switch, Kind::Object(&HTACCESS)]),
                "Handles requests under the `.htaccess` files below the root, as Apache does",
            )
            .default("false")
            .details("See [`.htaccess`](../htaccess.md). Not with `script`"),
            Key::new(
                "processes",
                Kind::Either(&[
                    Kind::Word(&["auto"]),
                    Kind::Integer(1, COUNT),
                    Kind::Object(&PROCESSES),
                ]),
                "Number of worker processes",
            )
            .default("\"auto\"")
            .details("See [below](#processes)")
            .unit(),
            Key::new(
                "limits",
                Kind::Object(&LIMITS),
                "Limits of a request, of a process and of the queue",
            )
            .details("See [below](#limits)")
            .unit(),
            Key::new("options", Kind::Object(&OPTIONS), "Settings of PHP")
                .details("See [below](#options)")
                .unit(),
            Key::new(
                "script_directories",
                Kind::Texts,
                "Directories that must contain the requested scripts, or with `!` in front must \
                 not",
            )
            .default("anywhere")
            .details(
                "`[\"/srv/blog\", \"!/srv/blog/uploads\"]`. Other scripts get 403. Links are \
                 resolved first. Included files are not checked, see \
                 [`open_basedir`](../php.md#script-checks)",
            ),
            Key::new(
                "limit_extensions",
                Kind::Texts,
                "Endings of the names of files that run as scripts",
            )
            .default("[\".php\"]")
            .details(
                "Compared byte for byte: `[\".php\", \".phtml\"]` (PHP-FPM's \
                 `security.limit_extensions`). Other files are never run. Files with these \
                 endings, and copies of them, are not sent by shares either; see [Script \
                 checks](../php.md#script-checks)",
            ),
            Key::new(
                "environment",
                Kind::Named(&Kind::Either(&[Kind::Text, Kind::Object(&VARIABLE_SOURCE)])),
                "Environment variables",
            )
            .default("{}")
            .details(
                "**Howdah:** a value may also be in the environment of the server, or in a file",
            )
            .unit(),
            Key::new("user", Kind::Text, "User that the processes run as")
                .default("the server's own")
                .unit(),
            Key::new("group", Kind::Text, "Group that the processes run as")
                .default("the user's own")
                .unit(),
            Key::new("working_directory", Kind::Text, "Initial working directory of the processes")
                .default("the server's own")
                .details("PHP-FPM's `chdir`")
                .unit(),
            Key::new(
                "priority",
                Kind::Integer(-20, 19),
                "Nice value of the processes, from -20 (first) to 19",
            )
            .default("the server's own")
            .details("PHP-FPM's `process.priority`. Values below 0 need a server started by root"),
            Key::new(
                "umask",
                Kind::Text,
                "Permissions that files created by scripts do not get, in octal digits, such as \
                 `\"0027\"`",
            )
            .default("the server's own"),
            Key::new(
                "access_log",
                LOGS,
                "Access logs of the requests that the application handles",
            )
            .default("that of the listener")
            .details(
                "See [Access log](access-log.md) (PHP-FPM's `access.log`); `false` for none. An \
                 `access_log` of an action counts more",
            ),
            Key::new("stdout", Kind::Text, "File that standard output is appended to")
                .default("the server's log")
                .unit(),
            Key::new("stderr", Kind::Text, "File that standard error is appended to")
                .default("the server's log")
                .unit(),
            Key::new(
                "isolation",
                Kind::Object(&ISOLATION),
                "Isolation of the processes from the machine",
            )
            .default("none")
            .details("See below")
            .unit(),
            RELEASES,
            Key::new(
                "jobs",
                Kind::Named(&Kind::Object(&JOB)),
                "Commands that run beside the pages",
            )
            .default("none")
            .details(
                "Up to 64, with the user, the environment and the isolation of the \
                     application. See [Jobs](../jobs.md)",
            ),
            Key::new("smtp", Kind::Object(&SMTP), "Mail server that takes the messages of scripts")
                .default("that of the settings")
                .details(
                    "For [`mail()`](../php.md#mail), see [SMTP](settings.md#smtp); without \
                     `host`, `from`, `limit` and `timeout` for the one of the settings",
                ),
            Key::new("server_software", Kind::Text, "Value of `SERVER_SOFTWARE` in `$_SERVER`")
                .default("`Howdah/` and its version; with `htaccess` also `(Apache compatible)`")
                .details(
                    "See [`$_SERVER`](../php.md#_server); WordPress offers pretty permalinks if \
                     it contains `nginx` or `Apache`",
                ),
        ],
        delegation::KEYS,
    ],
};

/// `limits` of an application.
static LIMITS: Shape = Shape {
    name: "limits",
    parts: &[&[
        Key::new(
            "timeout",
            Kind::Seconds(0),
            "Maximum seconds that a request may run; 0 is no limit",
        )
        .default("none")
        .details(
            "Until the response is complete, even if the client has disconnected. The worker and \
             the programs that it waits for are then killed, and the response is 504 (PHP-FPM: \
             `request_terminate_timeout`)",
        )
        .unit(),
        Key::new(
            "requests",
            Kind::Integer(0, COUNT),
            "Number of requests after which a process is replaced; 0 is no limit",
        )
        .default("none")
        .unit(),
        Key::new(
            "memory",
            Kind::Bytes(0),
            "Private memory in bytes above which a process is replaced after a request; 0 is no \
             limit",
        )
        .default("none")
        .details("OPcache and files shared with the prototype do not count"),
        Key::new("rlimits", Kind::Object(&RESOURCE_LIMITS), "Resource limits of each process")
            .default("the server's own")
            .details("See below (PHP-FPM: `rlimit_files`, `rlimit_core`)"),
        Key::new("shm", Kind::Bytes(0), "Bytes of shared memory between server and application")
            .unavailable(),
        Key::new(
            "queue",
            Kind::Integer(0, COUNT),
            "Maximum number of requests that wait for a process; further requests get 503",
        )
        .default("8192")
        .details("With `fair`, a client cannot use up the second half alone"),
        Key::new(
            "queue_timeout",
            Kind::Seconds(0),
            "Maximum seconds that a request waits for a process; 0 is no limit",
        )
        .default("none"),
        Key::new(
            "fair",
            Kind::Either(&[Kind::Switch, Kind::Text]),
            "Queues fairly by client, or by the value of this text with variables, in place of \
             the order of arrival",
        )
        .default("false")
        .details(
            "Clients [take turns](../limits.md#turns) in the queue. With a text with \
             [variables](variables.md), such as `\"$host\"`, requests with different values take \
             turns",
        ),
        Key::new(
            "patience",
            Kind::Seconds(0),
            "Seconds that clients wait; while the queue is overloaded, requests that have waited \
             longer get 503",
        )
        .default("none")
        .details(
            "It is overloaded if requests have waited longer than that for as long as that, see \
             [Overload](../limits.md#overload); 0 is no limit",
        ),
        Key::new(
            "slow",
            Kind::Seconds(0),
            "Seconds after which a running request is logged with its stack; 0 for never",
        )
        .default("5")
        .details("See [Slow log](../operations.md#slow-log) (PHP-FPM's `request_slowlog_timeout`)"),
        Key::new("slow_log", Kind::Text, "File that slow requests are logged to")
            .default("the server's log")
            .details("PHP-FPM's `slowlog`"),
    ]],
};

/// A resource limit.
const RESOURCE_LIMIT: Kind = Kind::Either(&[Kind::Bytes(0), Kind::Word(&["unlimited"])]);

/// `rlimits` of an application: the names of `setrlimit(2)` in lower case.
static RESOURCE_LIMITS: Shape = Shape {
    name: "rlimits",
    parts: &[&[
        Key::new("as", RESOURCE_LIMIT, "Maximum size of the address space in bytes"),
        Key::new("core", RESOURCE_LIMIT, "Maximum size of a core file in bytes"),
        Key::new("data", RESOURCE_LIMIT, "Maximum size of the data segment in bytes"),
        Key::new("fsize", RESOURCE_LIMIT, "Maximum size of written files in bytes"),
        Key::new("memlock", RESOURCE_LIMIT, "Maximum size of locked memory in bytes"),
        Key::new("nofile", RESOURCE_LIMIT, "Maximum number of open files"),
        Key::new("nproc", RESOURCE_LIMIT, "Maximum number of processes of the application's user"),
        Key::new("stack", RESOURCE_LIMIT, "Maximum size of the stack in bytes"),
    ]],
};

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
    /// A listener for FastCGI passes requests to it.
    pub takes_fastcgi: bool,
    /// PHP's own settings.
    pub options: PhpOptions,
    /// The number of its processes.
    pub processes: Processes,
    /// Limits of a request, of a process and of the queue.
    pub limits: Limits,
    /// Environment variables, in document order.
    pub environment: Vec<(String, EnvironmentSource)>,
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
    /// It is restarted when a link in a document root leads elsewhere.
    pub releases: bool,
    /// Commands that run beside its pages, in document order.
    pub jobs: Vec<Job>,
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

default_of_reader!(Limits, Limits::read);

impl Application {
    /// Returns true if processes of one are processes of the other: the mail server is not theirs,
    /// nor are the jobs, nor the texts that take turns in the queue, which may depend on all sites; limits of all
    /// processes together change while they run.
    pub fn has_same_processes(&self, other: &Application) -> bool {
        if self == other {
            return true;
        }
        let (jobs, smtp) = (self.jobs.clone(), self.smtp.clone());
        let mut other = Application { jobs, smtp, ..other.clone() };
        if let (Fairness::Key(own), Fairness::Key(of_other)) =
            (&self.limits.fair, &mut other.limits.fair)
        {
            of_other.clone_from(own);
        }
        other.isolation.take_resources(&self.isolation);
        *self == other
    }

    /// Returns the maximum number of workers that its isolation allows; `None` if it does not limit
    /// them.
    pub fn max_workers(&self) -> Option<u32> {
        self.isolation.max_workers(self.worker.is_some())
    }

    /// Returns the path of one of its limits in the document, without its first slash.
    pub fn limit_key(&self, key: &str) -> String {
        limit_key(&self.name, key)
    }

    /// Reads a member of `applications`.
    pub(crate) fn read(name: &str, node: &Node<'_>) -> Result<Application, Error> {
        let object = node.object(&APPLICATION)?;
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
            takes_fastcgi: false,
            htaccess,
            options: object.read("options", PhpOptions::read)?.unwrap_or_default(),
            processes: object.read("processes", Processes::read)?.unwrap_or(Processes::Automatic),
            limits,
            environment: object.read("environment", environment::read)?.unwrap_or_default(),
            script_directories: object
                .read("script_directories", ScriptDirectories::read)?
                .unwrap_or_default(),
            limit_extensions,
            server_software: object.text("server_software")?,
            user: object.text("user")?,
            group: object.text("group")?,
            working_directory: object.file("working_directory")?,
            priority: object.integer("priority")?,
            umask: object.read("umask", read_umask)?,
            access_log: object.read("access_log", AccessLog::read_all)?,
            stdout: object.file("stdout")?,
            stderr: object.file("stderr")?,
            isolation: object
                .read("isolation", |node| Isolation::read(name, node))?
                .unwrap_or_default(),
            releases: object.switch("releases")?,
            jobs: object.read("jobs", jobs::read)?.unwrap_or_default(),
            smtp: object.read("smtp", Smtp::read_of_application)?,
            delegation: Delegation::read(&object)?,
        };
        let exceeds = |most: u32| application.processes.max().is_some_and(|max| max > most);
        if let Some(most) = application.max_workers().filter(|most| exceeds(*most)) {
            let message = "has more \"processes\" than its \"isolation\" allows";
            return Err(node.invalid(format_args!("{message}, which are {most} workers")));
        }
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
        let object = node.object(&LIMITS)?;
        // As in Unit, zero means no limit.
        let set = |duration: &Duration| !duration.is_zero();
        let limits = Limits {
            timeout: object.seconds("timeout")?.filter(set),
            requests: object.integer("requests")?.filter(|n| *n > 0),
            memory: object.bytes("memory")?.filter(|bytes| *bytes > 0),
            rlimits: object.read("rlimits", read_rlimits)?.unwrap_or_default(),
            queue: object.integer_or_default("queue")?,
            queue_timeout: object.seconds("queue_timeout")?.filter(set),
            patience: object.seconds("patience")?.filter(set),
            fair: object.read("fair", Fairness::read)?.unwrap_or_default(),
            slow: Some(object.seconds_or_default("slow")?).filter(set),
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
    let object = node.object(&RESOURCE_LIMITS)?;
    let mut limits = Vec::new();
    for Key { name, .. } in RESOURCE_LIMITS.keys() {
        let limit = object.read(name, |limit| match limit.value.as_str() {
            Some("unlimited") => Ok(None),
            Some(_) => Err(limit.invalid("must be a number or \"unlimited\"")),
            None => limit.size(0).map(Some),
        })?;
        limits.extend(limit.map(|limit| ((*name).to_owned(), limit)));
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
