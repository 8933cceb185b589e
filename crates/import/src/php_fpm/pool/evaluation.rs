//! The directives of a pool, by subject.

use serde_json::{Map, Value, json};

use super::super::settings::{Set, Settings};
use super::php::Php;
use super::{Front, Page, PageKind, access_log, address, ini, paths, processes};
use crate::{Report, Status};

/// Directives without a key that takes their place, and why none is needed.
const NOT_NEEDED: &[(&str, &str)] = &[
    ("listen.acl_groups", NO_SOCKET),
    ("listen.acl_users", NO_SOCKET),
    ("listen.group", NO_SOCKET),
    ("listen.mode", NO_SOCKET),
    ("listen.owner", NO_SOCKET),
    ("process.dumpable", "core files are a matter of limits, and slow scripts are seen without it"),
    ("request_slowlog_trace_depth", "a stack in the slow log has up to 128 calls"),
];

const NO_SOCKET: &str = "there is no socket between the server and its applications";

const NO_EFFECT: &str = "0 leaves it as it is";

/// The evaluation of a pool.
pub(super) struct Evaluation<'a> {
    name: &'a str,
    settings: &'a Settings,
    global: &'a Settings,
    front: Front,
    report: &'a mut Report,
    pub(super) application: Map<String, Value>,
    pub(super) extensions: Option<Vec<String>>,
    pub(super) pages: Vec<Page>,
    pub(super) clients: Option<Vec<String>>,
    limits: Map<String, Value>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(
        name: &'a str,
        settings: &'a Settings,
        global: &'a Settings,
        front: Front,
        report: &'a mut Report,
    ) -> Self {
        Self {
            name,
            settings,
            global,
            front,
            report,
            application: Map::new(),
            extensions: None,
            pages: Vec::new(),
            clients: None,
            limits: Map::new(),
        }
    }

    /// Evaluates all directives. `php` is the pool's PHP, `listen` its address.
    pub(super) fn run(&mut self, php: &Php, listen: &str) {
        self.put("type", php.kind.as_str().into());
        for name in ["user", "group"] {
            self.user(name);
        }
        if let Some(processes) = processes::processes(self.settings, self.report) {
            self.put("processes", processes);
        }
        self.limits();
        self.rlimits();
        let limits = std::mem::take(&mut self.limits);
        self.put_object("limits", limits);
        self.directories();
        self.environment();
        let mut options = Map::new();
        // In another root directory, it would be another file.
        if let Some(file) = &php.ini
            && self.settings.text("chroot").is_none()
        {
            options.insert("file".into(), file.as_str().into());
        }
        options.extend(ini::options(self.settings, self.report));
        self.put_object("options", options);
        self.priority();
        self.extensions();
        match (access_log::access_log(self.settings, self.report), self.front) {
            (Some(log), Front::Unknown) => self.put("access_log", log),
            // An application's log would take the place of the site's.
            (Some(_), Front::Imported) => self.without_log(),
            (None, _) => {}
        }
        self.pages();
        self.socket(listen);
        self.output();
        self.without_slow_log();
        self.mark_empty("access.log", "PHP-FPM does not start with an empty name of a log");
        for (name, reason) in NOT_NEEDED {
            self.mark(name, Status::NotNeeded, *reason);
        }
    }

    fn put(&mut self, key: &str, value: Value) {
        self.application.insert(key.to_owned(), value);
    }

    fn put_object(&mut self, key: &str, object: Map<String, Value>) {
        if !object.is_empty() {
            self.put(key, object.into());
        }
    }

    fn mark(&mut self, name: &str, status: Status, reason: impl Into<String>) {
        if let Some(set) = self.settings.get(name) {
            self.report.mark(set.id, status, reason);
        }
    }

    /// Marks a directive whose value must not be empty.
    fn mark_empty(&mut self, name: &str, reason: &str) {
        if self.settings.get(name).is_some_and(|set| set.text.is_empty()) {
            self.mark(name, Status::NotConverted, reason);
        }
    }

    /// Marks what PHP-FPM needs a slow log for.
    fn without_slow_log(&mut self) {
        if self.settings.text("slowlog").is_some() {
            return;
        }
        for name in ["request_slowlog_timeout", "request_slowlog_trace_depth"] {
            if self.settings.number(name).is_some_and(|number| number != 0) {
                let reason = "PHP-FPM does not start with it without \"slowlog\"";
                self.mark(name, Status::NotConverted, reason);
            }
        }
    }

    fn converted(&mut self, name: &str) {
        self.mark(name, Status::Converted, "");
    }

    fn user(&mut self, name: &'static str) {
        let settings = self.settings;
        let Some(text) = settings.text(name) else {
            return self.mark(name, Status::NotNeeded, "an empty value is none");
        };
        self.put(name, text.into());
        if text.starts_with('-') || text.contains(|c: char| c.is_whitespace() || "/:,".contains(c))
        {
            let reason = format!("\"{text}\" is no name of a {name}");
            return self.mark(name, Status::NotConverted, reason);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let reason = format!("Howdah takes the name of a {name}, not a number: replace it");
            self.mark(name, Status::NotConverted, reason);
        } else {
            self.converted(name);
        }
    }

    fn limits(&mut self) {
        if let Some(set) = self.settings.get("pm.max_requests") {
            if set.number > 0 {
                self.limits.insert("requests".into(), set.number.into());
                self.converted("pm.max_requests");
            } else {
                self.mark("pm.max_requests", Status::NotNeeded, "0 is no limit, the default");
            }
        }
        if let Some(set) = self.settings.get("request_terminate_timeout") {
            if set.number > 0 {
                self.limits.insert("timeout".into(), set.number.into());
                let reason = "a request that runs longer gets 504 (nginx: 502, Apache: 503)";
                self.mark("request_terminate_timeout", Status::Changed, reason);
            } else {
                self.mark("request_terminate_timeout", Status::NotNeeded, "0 is no limit");
            }
        }
        if let Some(set) = self.settings.get("request_terminate_timeout_track_finished") {
            let (status, reason) = if set.number == 1 {
                let reason = "the time of a request counts until its response is complete; a \
                              script that goes on afterwards is not ended";
                (Status::NotConverted, reason)
            } else {
                (Status::NotNeeded, "the time counts until the response is complete")
            };
            self.mark("request_terminate_timeout_track_finished", status, reason);
        }
        if let Some(set) = self.settings.get("listen.backlog") {
            if set.number > 0 {
                self.limits.insert("queue".into(), set.number.into());
                let reason = "requests beyond the queue get 503 (nginx: 502)";
                self.mark("listen.backlog", Status::Changed, reason);
            } else {
                let reason = "the queue has 8192 requests, more than a backlog of the system";
                self.mark("listen.backlog", Status::NotNeeded, reason);
            }
        }
        self.slow_log();
    }

    fn slow_log(&mut self) {
        let settings = self.settings;
        let timeout = settings.number("request_slowlog_timeout").filter(|time| *time > 0);
        // Howdah's default is 5 seconds, PHP-FPM's is never.
        self.limits.insert("slow".into(), timeout.unwrap_or(0).into());
        let Some(_) = timeout else {
            self.converted("request_slowlog_timeout");
            let reason = "without \"request_slowlog_timeout\" there is no slow log";
            return self.mark("slowlog", Status::NotNeeded, reason);
        };
        let form = "records of the slow log have another form";
        match settings.text("slowlog") {
            Some(path) => {
                let whole = paths::whole(path, settings).into_owned();
                self.limits.insert("slow_log".into(), whole.into());
                self.converted("request_slowlog_timeout");
                self.mark("slowlog", Status::Changed, form);
            }
            None => {
                let reason = "\"slowlog\" is missing, so PHP-FPM does not start; records are in \
                              the server's log";
                self.mark("request_slowlog_timeout", Status::NotConverted, reason);
                self.mark("slowlog", Status::NotConverted, reason);
            }
        }
    }

    fn rlimits(&mut self) {
        let mut limits = Map::new();
        for (name, key) in [("rlimit_files", "nofile"), ("rlimit_core", "core")] {
            let own = self.settings.get(name);
            if own.is_some_and(|set| set.number == 0) {
                self.mark(name, Status::NotNeeded, NO_EFFECT);
            } else {
                self.converted(name);
            }
            let set = own.or(self.global.get(name)).map_or(0, |set| set.number);
            match set {
                0 => {}
                -1 if key == "core" => drop(limits.insert(key.into(), "unlimited".into())),
                number if number > 0 => drop(limits.insert(key.into(), number.into())),
                _ => {
                    let reason = "a limit below 0 has no meaning";
                    self.mark(name, Status::NotConverted, reason);
                }
            }
        }
        if !limits.is_empty() {
            self.limits.insert("rlimits".into(), limits.into());
        }
    }

    fn directories(&mut self) {
        let settings = self.settings;
        if settings.text("prefix").is_some() {
            self.converted("prefix");
        }
        self.mark("prefix", Status::NotNeeded, "an empty value is none");
        let chroot = settings.text("chroot").map(|path| paths::expanded(path, settings));
        if let Some(chroot) = &chroot {
            self.put("isolation", json!({ "rootfs": chroot }));
            let reason = "PHP's libraries, /tmp and /proc are mounted in the directory; paths of \
                          scripts are paths inside it";
            self.mark("chroot", Status::Changed, reason);
        }
        self.mark("chroot", Status::NotNeeded, "an empty value is none");
        match settings.text("chdir").map(|path| paths::whole(path, settings)) {
            Some(chdir) => {
                self.put("working_directory", (*chdir).into());
                self.converted("chdir");
            }
            None if chroot.is_some() => self.put("working_directory", "/".into()),
            None => {}
        }
        self.mark("chdir", Status::NotNeeded, "an empty value is none");
        for (name, path) in ["chroot", "chdir", "access.log", "slowlog"]
            .into_iter()
            .filter_map(|name| Some((name, settings.text(name)?)))
        {
            if paths::is_uncertain(path.trim_start_matches("$prefix"), settings) {
                let reason = "a relative path begins at the directory for which PHP was built; \
                              the document has /usr";
                self.mark(name, Status::Changed, reason);
            }
        }
    }

    fn environment(&mut self) {
        let mut environment = Map::new();
        let elements = &self.settings.elements;
        for element in elements.iter().filter(|element| element.name == "env") {
            let id = element.id;
            if environment.contains_key(&element.key) {
                let reason = "an earlier line sets it, and PHP-FPM uses the first";
                self.report.mark(id, Status::NotNeeded, reason);
            } else if let Some(name) = element.text.strip_prefix('$') {
                if name.is_empty() || name.contains('=') {
                    // No variable has such a name, so PHP-FPM's `getenv` finds none.
                    environment.insert(element.key.clone(), "".into());
                    self.report.converted(id);
                    continue;
                }
                environment.insert(element.key.clone(), json!({ "env": name, "default": "" }));
                let reason = format!(
                    "the value is that of ${name} where Howdah is started, no longer where PHP-FPM \
                     is: the service has to have this variable"
                );
                self.report.mark(id, Status::Changed, reason);
            } else {
                environment.insert(element.key.clone(), element.text.as_str().into());
                self.report.converted(id);
            }
        }
        let is_whole = self.settings.number("clear_env") == Some(0);
        if is_whole {
            environment.insert("*".to_owned(), json!({ "env": true }));
        }
        self.put_object("environment", environment);
        if is_whole {
            let reason = "scripts get the variables with which Howdah is started, no longer those \
                          of PHP-FPM: the service has to have them";
            self.mark("clear_env", Status::Changed, reason);
        }
        let reason = "scripts get no variables but those of \"environment\", HOME, USER and a \
                      PATH";
        self.mark("clear_env", Status::NotNeeded, reason);
    }

    fn priority(&mut self) {
        const VALID: std::ops::RangeInclusive<i64> = -19..=20;
        let name = "process.priority";
        let set = self.settings.get(name).or(self.global.get(name));
        match set.map(|set: &Set| set.number) {
            Some(number) if VALID.contains(&number) => {
                self.put("priority", number.min(19).into());
                self.converted(name);
            }
            Some(_) => {
                let reason = "the value must be between -19 and 20, so PHP-FPM does not start";
                self.mark(name, Status::NotConverted, reason);
            }
            None => {}
        }
    }

    fn extensions(&mut self) {
        /// Maximum number of endings in a document.
        const MAX_ENDINGS: usize = 32;
        let name = "security.limit_extensions";
        let Some(set) = self.settings.get(name) else { return };
        let all: Vec<&str> = set.text.split([' ', '\t']).filter(|one| !one.is_empty()).collect();
        if all.is_empty() {
            let reason = "PHP-FPM runs files of any name with an empty value; Howdah runs *.php, \
                          and needs at least one ending: name those of your scripts in \
                          \"limit_extensions\"";
            return self.mark(name, Status::NotConverted, reason);
        }
        let is_ending = |text: &&str| {
            text.strip_prefix('.').is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
        };
        let (mut good, bad): (Vec<&str>, Vec<&str>) = all.into_iter().partition(is_ending);
        good.truncate(MAX_ENDINGS);
        if good.is_empty() {
            // No file runs, whatever its name.
            good.push(".none");
        }
        self.put("limit_extensions", json!(good));
        if !good.contains(&".php") {
            self.put("index", format!("index{}", good[0]).into());
        }
        self.extensions = Some(good.into_iter().map(str::to_owned).collect());
        if bad.is_empty() {
            self.converted(name);
        } else {
            let reason = format!(
                "endings are a dot with letters and digits; files with these do not run: {}",
                bad.join(", ")
            );
            self.mark(name, Status::NotConverted, reason);
        }
    }

    fn without_log(&mut self) {
        let reason = "the requests are in the access log of the site, with its format";
        for name in ["access.log", "access.format"] {
            if let Some(set) = self.settings.get(name) {
                self.report.replace(set.id, Status::Changed, reason);
            }
        }
    }

    fn pages(&mut self) {
        let settings = self.settings;
        let is_path = |path: &str| {
            path.len() > 1
                && path.starts_with('/')
                && path.bytes().all(|one| one.is_ascii_alphanumeric() || b"/-_.~".contains(&one))
        };
        let (status, reason) = match self.front {
            Front::Unknown => (Status::Converted, ""),
            Front::Imported => (
                Status::Changed,
                "PHP-FPM answers this path without a script: where requests for it are passed to \
                 the pool, the document needs a step with its action",
            ),
        };
        for (name, is_status) in [("pm.status_path", true), ("ping.path", false)] {
            let Some(set) = settings.get(name) else { continue };
            if set.text.is_empty() {
                self.mark(name, Status::NotNeeded, "an empty value is none");
            } else if is_path(&set.text) {
                let response = settings.text("ping.response").map(str::to_owned);
                let kind = if is_status { PageKind::Status } else { PageKind::Ping(response) };
                self.pages.push(Page { path: set.text.clone(), kind, id: set.id });
                self.mark(name, status, reason);
            } else {
                let reason = "the path must begin with a slash and have letters, digits and \
                              /-_.~ only, so PHP-FPM does not start";
                self.mark(name, Status::NotConverted, reason);
            }
        }
        if settings.text("ping.path").is_some() {
            self.converted("ping.response");
        }
        self.mark("ping.response", Status::NotNeeded, "without \"ping.path\" it has no effect");
        if settings.text("pm.status_listen").is_some() {
            let reason = "the status has no socket of its own: it never waits for a process";
            self.mark("pm.status_listen", Status::Changed, reason);
        }
        let reason = "PHP-FPM does not start with an empty address";
        self.mark_empty("pm.status_listen", reason);
        let has_log = settings.text("access.log").is_some();
        for element in settings.elements.iter().filter(|one| one.name == "access.suppress_path") {
            if !has_log {
                let reason = "without \"access.log\" there is no log";
                self.report.mark(element.id, Status::NotNeeded, reason);
                continue;
            }
            let (path, id) = (element.text.clone(), element.id);
            self.pages.push(Page { path, kind: PageKind::NotLogged, id });
            let (status, reason) = match self.front {
                Front::Unknown => (
                    Status::Changed,
                    "no request for this path is logged, whatever its method, query and status",
                ),
                Front::Imported => {
                    (Status::Changed, "requests for this path are in the access log of the site")
                }
            };
            self.report.mark(id, status, reason);
        }
    }

    fn socket(&mut self, listen: &str) {
        let reason = match self.front {
            Front::Imported => return self.behind_server(),
            Front::Unknown => format!(
                "Howdah is the web server itself: \
                 add a listener with \"pass\": \"routes/{}\" to the document, and set the \"root\" \
                 of the application to the directory of the site. To keep a web server in front, start \
                 `howdah fpm` with this file",
                self.name
            ),
        };
        self.mark("listen", Status::Changed, reason);
        let settings = self.settings;
        let Some(clients) = settings.text("listen.allowed_clients") else {
            return self.mark(
                "listen.allowed_clients",
                Status::NotNeeded,
                "empty, all may connect",
            );
        };
        if address::is_path(listen) {
            let reason = "it has no effect on a unix socket";
            return self.mark("listen.allowed_clients", Status::NotNeeded, reason);
        }
        let addresses = clients.split(',').map(str::trim).filter(|one| !one.is_empty());
        let (good, bad): (Vec<&str>, Vec<&str>) =
            addresses.partition(|one| one.parse::<std::net::IpAddr>().is_ok());
        // No address that is known: no client may connect.
        self.clients = Some(good.iter().map(|one| (*one).to_owned()).collect());
        if bad.is_empty() {
            let reason = "other clients get 403 (PHP-FPM: a closed connection)";
            self.mark("listen.allowed_clients", Status::Changed, reason);
        } else {
            let reason = format!("not an address: {}; it may not connect", bad.join(", "));
            self.mark("listen.allowed_clients", Status::NotConverted, reason);
        }
    }

    fn behind_server(&mut self) {
        self.mark("listen", Status::NotNeeded, NO_SOCKET);
        let reason = "only the web server itself passes requests to the application";
        self.mark("listen.allowed_clients", Status::NotNeeded, reason);
    }

    fn output(&mut self) {
        for (name, status, reason) in [
            (
                "catch_workers_output",
                Status::Changed,
                "output of scripts and of the programs that they start is in the server's log",
            ),
            (
                "decorate_workers_output",
                Status::Changed,
                "each line of output in the log has the process in front of it",
            ),
        ] {
            match self.settings.number(name) {
                Some(0) => self.mark(name, status, reason),
                _ => self.mark(name, Status::NotNeeded, "it is always so"),
            }
        }
        if self.settings.text("apparmor_hat").is_some() {
            let reason = "Howdah changes no hat of AppArmor; \"isolation\": {\"sandbox\": true} \
                          limits the files of an application";
            self.mark("apparmor_hat", Status::NotConverted, reason);
        }
        self.mark("apparmor_hat", Status::NotNeeded, "an empty value is none");
    }
}
