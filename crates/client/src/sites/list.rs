//! `howdah site list`: the state of all sites.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use howdah_config::include::{application_of_site, sites_by_application, source_of_site};
use howdah_questions::{CertificateStatus, Named, PartStatus, SiteTraffic, Status};
use howdah_text::date::MONTHS;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::{Document, Running, hosts, name_of, problem_of};
use crate::failure::Failure;
use crate::output::{json_text, one_line, printable, write_out};
use crate::status::{columns, size};

/// Maximum number of names of sites in a line.
const MAX_LISTED: usize = 5;

/// Facts about a site. Unknown ones are left out.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// `loaded`, `loading`, `unloaded` (PHP starts with the next request), `static` (no PHP),
    /// `disabled`, `problem`, `former` (its file has a mistake, its last good version serves), `new`
    /// (the server has not read it) or `stopped` (no server runs).
    pub(super) state: String,
    hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// Version of PHP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) php: Option<String>,
    /// Name of the application that the site shares with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<String>,
    /// Names of the other sites that share it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared_with: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    /// Requests that PHP has got since the start of the router.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    /// Requests in a second, on average of the last minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_second: Option<f64>,
    /// Responses with a status of 500 or above in the last minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<u64>,
    /// Requests that wait or run.
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<u64>,
    /// End of the certificate as an HTTP date.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// The field of a pool that the list shows.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Pool {
    accepted_conn: Option<u64>,
}

/// What the server says.
#[derive(Default)]
pub(super) struct Facts<'a> {
    status: Option<&'a Status>,
    config: Value,
    /// Names of sites by the application that they have.
    sharing: BTreeMap<String, Vec<String>>,
    pools: Named<Pool>,
}

impl Facts<'_> {
    /// Asks the server, if one runs.
    pub(super) fn of(document: &Document) -> Facts<'_> {
        let running = document.server.as_ref();
        let config = running.and_then(|Running { client, .. }| client.compiled().ok());
        let config = config.unwrap_or_default();
        let pools = running.and_then(|Running { client, .. }| client.get("/pools").ok());
        Facts {
            status: running.map(|running| &running.status),
            sharing: sites_by_application(&config),
            config,
            pools: pools.unwrap_or_default(),
        }
    }

    /// Adds the names of the sites that share its application to the facts of a site.
    pub(super) fn with_sharing(&self, row: Row) -> Row {
        let sharing = row.shared.as_ref().and_then(|shared| self.sharing.get(shared));
        let others = sharing.into_iter().flatten().filter(|other| **other != row.name);
        Row { shared_with: others.cloned().collect(), ..row }
    }

    /// Returns the facts of a site in a file.
    pub(super) fn of_file(&self, document: &Document, file: &Path) -> Row {
        let site = document.read(file);
        let problem = self.status.and_then(|status| problem_of(status, file));
        let row = Row { file: Some(file.display().to_string()), ..Row::default() };
        self.row(name_of(file), &site, problem, row)
    }

    /// Returns the facts of a site that the document itself has.
    pub(super) fn of_named(&self, name: &str, site: &Value) -> Row {
        let problem = self.status.and_then(|status| problem_of(status, &source_of_site(name)));
        self.row(name, site, problem, Row::default())
    }

    fn row(&self, name: &str, site: &Value, problem: Option<String>, row: Row) -> Row {
        let text = |key: &str| site.get(key).and_then(Value::as_str).map(str::to_owned);
        let hosts: Vec<_> = hosts(site).into_iter().map(str::to_owned).collect();
        // Processes, memory and requests are those of all sites that share the application.
        let application_name = application_of_site(&self.config, name).unwrap_or(name);
        let is_shared = application_name != name;
        let application = self.status.and_then(|one| one.applications.get(application_name));
        let php = self.status.and_then(|status| status.php.get(application_name));
        let own = application.and_then(|application| application.problem.clone());
        let own = own.or_else(|| problem_of_application(self.status?, application_name));
        let has_route = self.config.get("routes").is_some_and(|routes| routes.get(name).is_some());
        let is_served = self.status.is_some() && has_route;
        let traffic = self.status.and_then(|status| status.sites.get(name)).copied();
        let traffic = traffic.or_else(|| is_served.then(SiteTraffic::default));
        let is_off = site.get("enabled") == Some(&Value::Bool(false));
        let state = match (self.status, &problem, php) {
            (None, ..) => "stopped",
            (_, Some(_), _) if has_route => "former",
            (_, Some(_), _) => "problem",
            _ if !has_route => "new",
            _ if is_off => "disabled",
            _ if own.is_some() => "problem",
            (.., Some(php)) => &php.state,
            _ => "static",
        };
        Row {
            name: name.to_owned(),
            state: state.to_owned(),
            root: text("root"),
            user: text("user"),
            php: application.and_then(|_| self.php(application_name)),
            shared: is_shared.then(|| application_name.to_owned()),
            shared_with: Vec::new(),
            processes: application.map(|application| application.processes.running),
            memory: php.map(|php| php.memory.prototype.saturating_add(php.memory.processes)),
            requests: self.pools.get(application_name).and_then(|pool| pool.accepted_conn),
            // Two digits behind the point.
            requests_per_second: traffic
                .map(|traffic| (traffic.requests as f64 / 60.0 * 100.0).round() / 100.0),
            errors: traffic.map(|traffic| traffic.errors),
            active: application.map(|application| application.requests.active),
            certificate: self.status.and_then(|status| certificate(&status.certificates, &hosts)),
            problem: problem.or(own),
            hosts,
            ..row
        }
    }

    /// Returns the version of PHP of an application: the newest installed one that its type allows.
    fn php(&self, name: &str) -> Option<String> {
        let kind = self.config.get("applications")?.get(name)?.get("type")?.as_str()?;
        let wanted = kind.strip_prefix("php").unwrap_or(kind).trim();
        let installed = self.status?.modules.php.all();
        let is_wanted = |version: &str| {
            let rest = version.strip_prefix(wanted);
            wanted.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let numbers = |version: &str| -> Vec<u32> {
            version.split('.').map(|number| number.parse().unwrap_or(0)).collect()
        };
        let versions = installed.iter().map(|module| module.version.as_str());
        let newest = versions.filter(|version| is_wanted(version)).max_by_key(|one| numbers(one));
        newest.map(str::to_owned)
    }
}

/// Returns the reason why an application is out.
fn problem_of_application(status: &Status, name: &str) -> Option<String> {
    let is_it = |part: &&PartStatus| part.kind == "application" && part.name == name;
    status.out.iter().find(is_it).map(|part| one_line(&part.reason))
}

/// Returns the end of the certificate for the first of some hosts.
fn certificate(all: &Named<CertificateStatus>, hosts: &[String]) -> Option<String> {
    let host = hosts.first()?;
    let is_for = |name: &String| match name.strip_prefix("*.") {
        Some(domain) => host.split_once('.').is_some_and(|(_, rest)| rest == domain),
        None => name == host,
    };
    let found = all.values().find(|certificate| certificate.names.iter().any(is_for))?;
    found.expires.clone()
}

/// Prints the names of all sites.
pub(super) fn names(document: &Document) -> Result<(), Failure> {
    let files = document.sites.files.iter().map(|file| name_of(file));
    let names = files.chain(document.sites.named.iter().map(String::as_str));
    write_out(&names.map(|name| format!("{}\n", printable(name))).collect::<String>())
}

/// Prints the state of all sites.
pub(super) fn run(document: &Document, is_json: bool) -> Result<(), Failure> {
    let facts = Facts::of(document);
    let mut rows: Vec<_> =
        document.sites.files.iter().map(|file| facts.of_file(document, file)).collect();
    rows.extend(
        document
            .sites
            .named
            .iter()
            .map(|name| facts.of_named(name, &document.named(name).unwrap_or_default())),
    );
    if is_json {
        let rows: Result<Vec<Value>, _> = rows.iter().map(serde_json::to_value).collect();
        return write_out(&json_text(&Value::Array(rows.unwrap_or_default())));
    }
    if rows.is_empty() {
        let add = if document.is_sent {
            "howdah config set sites/NAME @FILE adds one"
        } else {
            "howdah site add HOST --root DIR makes one"
        };
        return write_out(&format!("{} has no sites; {add}.\n", document.file.display()));
    }
    write_out(&table(&rows))
}

fn table(rows: &[Row]) -> String {
    let headings = ["SITE", "STATE", "PHP", "MEMORY", "REQ/S", "ERRORS", "CERTIFICATE", "HOSTS"];
    let mut cells = vec![headings.map(str::to_owned).to_vec()];
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    cells.extend(rows.iter().map(|row| {
        vec![
            printable(&row.name),
            printable(&row.state),
            known(row.php.as_deref().map(printable)),
            known(row.memory.map(|memory| match row.shared {
                Some(_) => format!("{}*", size(memory)),
                None => size(memory),
            })),
            known(row.requests_per_second.map(|rate| format!("{rate:.1}"))),
            known(row.errors.map(|number| number.to_string())),
            known(row.certificate.as_deref().map(date)),
            printable(&hosts_of(row)),
        ]
    }));
    let mut text = columns(&cells, &[0, 1, 2, 6, 7]);
    text.push_str(&shared(rows));
    for row in rows {
        if let Some(problem) = &row.problem {
            text.push_str(&format!("{}: {}\n", printable(&row.name), one_line(problem)));
        }
    }
    text
}

/// Returns a line for each application that sites share: its memory is that of all of them.
fn shared(rows: &[Row]) -> String {
    let mut sharing = BTreeMap::<_, BTreeSet<_>>::new();
    for row in rows {
        let Some(application) = &row.shared else { continue };
        sharing.entry(application).or_default().extend(row.shared_with.iter().chain([&row.name]));
    }
    let line = |sites: BTreeSet<&String>| {
        let count = sites.len();
        let first = sites.into_iter().take(MAX_LISTED).map(|name| printable(name));
        let mut names: Vec<_> = first.collect();
        if count > MAX_LISTED {
            names.push(format!("and {} more", count - MAX_LISTED));
        }
        format!("* one PHP for all of: {}\n", names.join(", "))
    };
    sharing.into_values().map(line).collect()
}

/// Returns the first host, unless the site is named after it, and the number of the others.
fn hosts_of(row: &Row) -> String {
    let others = match row.hosts.len() {
        0 | 1 => String::new(),
        number => format!("+{}", number - 1),
    };
    match row.hosts.first() {
        Some(first) if *first != row.name && !others.is_empty() => format!("{first} {others}"),
        Some(first) if *first != row.name => first.clone(),
        _ => others,
    }
}

/// Returns the day of an HTTP date, such as `2027-02-21`.
fn date(http: &str) -> String {
    let words: Vec<_> = http.split_whitespace().collect();
    let read = |words: &[&str]| {
        let [_, day, month, year, ..] = words else { return None };
        let month = MONTHS.iter().position(|known| known == month)? + 1;
        Some(format!("{year}-{month:02}-{day}"))
    };
    printable(&read(&words).unwrap_or_else(|| http.to_owned()))
}

/// Returns the facts of a site as lines.
pub(super) fn describe(row: &Row) -> String {
    let mut text = table(std::slice::from_ref(row));
    if row.state == "stopped" {
        text.push_str("No server runs with this document.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A list of usual names fits a terminal of 80 columns.
    #[test]
    fn the_table_is_narrow() {
        let row = |name: &str, hosts: &[&str]| Row {
            name: name.to_owned(),
            state: "unloaded".to_owned(),
            php: Some("8.4.16".to_owned()),
            memory: Some(1 << 30),
            requests_per_second: Some(1234.56),
            errors: Some(12345),
            certificate: Some("Sun, 21 Feb 2027 08:49:37 GMT".to_owned()),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..Row::default()
        };
        let names = ["my-shop.example", "www.my-shop.example"];
        let text = table(&[row(names[0], &names), row("blog", &["b.test"]), Row::default()]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert!(lines[1].ends_with("  1234.6   12345  2027-02-21   +1"), "{text}");
        assert!(lines[2].ends_with("  b.test"), "{text}");
    }

    #[test]
    fn a_site_has_the_facts_that_the_status_has_and_no_others() {
        let status: Status = serde_json::from_value(json!({
            "modules": {"php": [{"version": "8.2.30"}, {"version": "8.10.1"}, {"version": "8.4.2"}]},
            "applications": {"a": {"processes": {"running": 2}, "requests": {"active": 1}}},
            "php": {"a": {"state": "loaded", "memory": {"prototype": 1, "processes": 2}}},
            "sites": {"a": {"requests": 90, "errors": 2}},
            "out": [{"kind": "application", "name": "b", "reason": "no user"},
                {"kind": "site", "name": "a", "file": "/s/a.json", "reason": "no root"}],
            "certificates": {"acme:x": {"names": ["*.example"], "expires": "E"}},
        }))
        .unwrap();
        let config = json!({
            "routes": {"a": [], "b": [], "c": []},
            "applications": {"a": {"type": "php"}},
        });
        let facts = Facts { status: Some(&status), config, ..Facts::default() };
        assert_eq!(problem_of(&status, Path::new("/s/a.json")).as_deref(), Some("no root"));
        assert_eq!(problem_of(&status, Path::new("/s/b.json")), None);
        let site = |host: &str| json!({"hosts": host, "root": "/r"});
        let a = facts.row("a", &site("a.example"), None, Row::default());
        assert_eq!((a.state.as_str(), a.php.as_deref()), ("loaded", Some("8.10.1")));
        assert_eq!((a.memory, a.certificate.as_deref(), a.requests), (Some(3), Some("E"), None));
        assert_eq!((a.requests_per_second, a.errors), (Some(1.5), Some(2)));
        let b = facts.row("b", &site("b.test"), None, Row::default());
        assert_eq!((b.state.as_str(), b.memory, b.certificate), ("problem", None, None));
        assert_eq!(b.problem.as_deref(), Some("no user"));
        assert_eq!((b.requests_per_second, b.errors), (Some(0.0), Some(0)));
        let mut off = site("c.test");
        off["enabled"] = json!(false);
        assert_eq!(facts.row("c", &off, None, Row::default()).state, "disabled");
        assert_eq!(facts.row("d", &site("d"), None, Row::default()).state, "new");
        let wrong = |name| facts.row(name, &site("d"), Some("no".into()), Row::default()).state;
        assert_eq!((wrong("c").as_str(), wrong("d").as_str()), ("former", "problem"));
        let none = Facts::default();
        let row = serde_json::to_value(none.row("a", &site("a"), None, Row::default())).unwrap();
        assert_eq!(row, json!({"name": "a", "state": "stopped", "hosts": ["a"], "root": "/r"}));
    }
}
