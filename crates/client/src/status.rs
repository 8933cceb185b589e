//! `howdah status`: the status as tables.

pub(super) mod problems;

use serde_json::Value;

use crate::output::{one_line, printable};

/// Returns the tables for a response of `/status`.
pub(super) fn table(status: &Value) -> String {
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let connections = |name: &str| number(&format!("/connections/{name}"));
    let (active, idle) = (connections("active"), connections("idle"));
    let facts = [
        ("Howdah", program(status)),
        ("PHP", versions(status)),
        (
            "Connections",
            format!(
                "{} open ({active} active, {idle} idle), {} accepted, {} closed",
                active + idle,
                connections("accepted"),
                connections("closed"),
            ),
        ),
        ("Requests", number("/requests/total").to_string()),
        ("PHP memory", memory(status)),
        ("Replaced", replaced(status).unwrap_or_default()),
    ];
    let known = facts.iter().filter(|(_, value)| !value.is_empty());
    let facts: String = known.map(|(name, value)| format!("{name:<13}{value}\n")).collect();
    let mut text = match problems::lines(status) {
        problems if problems.is_empty() => facts,
        problems => format!("{problems}\n{facts}"),
    };
    let applications = status.get("applications").and_then(Value::as_object);
    if let Some(applications) = applications.filter(|applications| !applications.is_empty()) {
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(applications.iter().map(|(name, application)| {
            let numbers = COLUMNS.map(|pointer| {
                let value = application.pointer(pointer).and_then(Value::as_u64);
                value.map_or("-".to_owned(), |value| value.to_string())
            });
            let Use { state, memory, share } = Use::of(status, name);
            std::iter::once(printable(name)).chain(numbers).chain([memory, share, state]).collect()
        }));
        text.push('\n');
        text.push_str(&columns(&rows, &[0, 7]));
        for (name, application) in applications {
            if let Some(problem) = application.get("problem").and_then(Value::as_str) {
                text += &format!("{} has a problem: {}\n", printable(name), one_line(problem));
            }
        }
    }
    text.push_str(&opcaches(status));
    let upstreams = status.get("upstreams").and_then(Value::as_object);
    let servers: Vec<_> = { upstreams.into_iter().flatten() }
        .flat_map(|(name, upstream)| {
            let servers = upstream.get("servers").and_then(Value::as_object);
            servers.into_iter().flatten().map(move |(address, server)| (name, address, server))
        })
        .collect();
    if !servers.is_empty() {
        let mut rows = vec![SERVER_HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(servers.into_iter().map(|(name, address, server)| {
            let cells = SERVER_COLUMNS.map(|pointer| match server.pointer(pointer) {
                Some(Value::String(text)) => printable(text),
                Some(value) => value.to_string(),
                None => "-".to_owned(),
            });
            [printable(name), printable(address)].into_iter().chain(cells).collect()
        }));
        text.push('\n');
        text.push_str(&columns(&rows, &[0]));
    }
    text.push_str(&protection(status));
    text.push_str(&listeners(status));
    text.push_str(&certificates(status));
    text
}

/// Returns when and why a process of the server was replaced last; `None` if none was.
fn replaced(status: &Value) -> Option<String> {
    let replaced = status.get("replaced")?;
    let member = |name: &str| replaced.get(name).and_then(Value::as_str).map(one_line);
    Some(format!("{}: {}", member("at")?, member("reason")?))
}

/// Whether PHP is loaded for an application, and its memory.
pub(super) struct Use {
    pub(super) state: String,
    pub(super) memory: String,
    /// Share of the budget in percent.
    pub(super) share: String,
}

impl Use {
    /// Returns the values for an application in a response of `/status`; `-` for unknown ones.
    pub(super) fn of(status: &Value, name: &str) -> Use {
        let unknown = || "-".to_owned();
        let application = status.get("php").and_then(|all| all.get(name));
        let member = |pointer: &str| application.and_then(|value| value.pointer(pointer));
        let bytes = |pointer: &str| member(pointer).and_then(Value::as_u64);
        let used = bytes("/memory/prototype").zip(bytes("/memory/processes"));
        let used = used.map(|(prototype, processes)| prototype.saturating_add(processes));
        let budget = status.pointer("/memory/budget").and_then(Value::as_u64);
        let share = used.zip(budget.filter(|budget| *budget > 0));
        Use {
            state: member("/state").and_then(Value::as_str).map_or_else(unknown, printable),
            memory: used.map_or_else(unknown, size),
            share: share.map_or_else(unknown, |(used, budget)| {
                format!("{:.0} %", used as f64 * 100.0 / budget as f64)
            }),
        }
    }
}

/// Returns the memory of all PHP processes in a response of `/status`, and the budget; an empty string
/// if both are unknown.
pub(super) fn memory(status: &Value) -> String {
    let bytes = |key: &str| status.pointer(key).and_then(Value::as_u64).map(size);
    match (bytes("/memory/used"), bytes("/memory/budget")) {
        (Some(used), Some(budget)) => format!("{used} of a budget of {budget}"),
        (Some(used), None) => used,
        (None, _) => String::new(),
    }
}

/// Returns the restrictions of the router and the applications.
fn protection(status: &Value) -> String {
    let words = |process: &Value, key: &str| {
        let words = process.get(key).and_then(Value::as_array);
        let words: Vec<_> = words.into_iter().flatten().filter_map(Value::as_str).collect();
        if words.is_empty() { "-".to_owned() } else { printable(&words.join(", ")) }
    };
    let row = |name: &str, process: &Value| {
        let user = process.get("user").and_then(Value::as_str).unwrap_or("-");
        vec![
            printable(name),
            printable(user),
            words(process, "namespaces"),
            words(process, "restrictions"),
        ]
    };
    let Some(router) = status.pointer("/protection/router") else { return String::new() };
    let headings = ["PROCESS", "USER", "NAMESPACES", "RESTRICTIONS"];
    let mut rows = vec![headings.map(str::to_owned).to_vec(), row("router", router)];
    let applications = status.pointer("/protection/applications").and_then(Value::as_object);
    rows.extend(
        applications.into_iter().flatten().map(|(name, one)| row(&format!("\"{name}\""), one)),
    );
    format!("\n{}", columns(&rows, &[0, 1, 2, 3]))
}

/// Returns the table of OPcache's state in each application that runs.
fn opcaches(status: &Value) -> String {
    let applications = status.get("php").and_then(Value::as_object);
    let headings = ["OPCACHE", "MEMORY", "FREE", "WASTED", "SCRIPTS", "HITS", "MISSES", "RESTARTS"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for (name, application) in applications.into_iter().flatten() {
        let Some(opcache) = application.get("opcache") else { continue };
        let number = |pointer: &str| opcache.pointer(pointer).and_then(Value::as_u64);
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let mut row = vec![printable(name)];
        if opcache.get("enabled") == Some(&Value::Bool(false)) {
            row.push("off".to_owned());
        } else {
            let memory = ["/memory/used", "/memory/free", "/memory/wasted"];
            row.extend(memory.map(|pointer| cell(number(pointer).map(size))));
            let counts = ["/scripts", "/hits", "/misses", "/restarts"];
            row.extend(counts.map(|pointer| cell(number(pointer).map(|count| count.to_string()))));
        }
        rows.push(row);
    }
    if rows.len() > 1 { format!("\n{}", columns(&rows, &[0])) } else { String::new() }
}

/// Returns the version of the server and the time for which it has been up; an empty string if they are
/// unknown.
fn program(status: &Value) -> String {
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).map(printable);
    let Some(version) = text("/server/version") else { return String::new() };
    let uptime = status.pointer("/server/uptime").and_then(Value::as_u64).map(long);
    let since = text("/server/started").map(|started| format!(" since {started}"));
    match uptime {
        Some(uptime) => format!("{version}, up {uptime}{}", since.unwrap_or_default()),
        None => version,
    }
}

/// Formats seconds in the two largest units.
fn long(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

/// Returns the table of listeners; those without TLS have no handshakes.
fn listeners(status: &Value) -> String {
    let listeners = status.get("listeners").and_then(Value::as_object);
    let headings = ["LISTENER", "HANDSHAKES", "RESUMED", "FAILED"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(listeners.into_iter().flatten().map(|(name, listener)| {
        let numbers = ["handshakes", "resumed", "failed"].map(|key| {
            let value = listener.pointer(&format!("/tls/{key}")).and_then(Value::as_u64);
            value.map_or("-".to_owned(), |value| value.to_string())
        });
        std::iter::once(printable(name)).chain(numbers).collect()
    }));
    if rows.len() > 1 { format!("\n{}", columns(&rows, &[0])) } else { String::new() }
}

/// Returns the table of certificates.
fn certificates(status: &Value) -> String {
    let certificates = status.get("certificates").and_then(Value::as_object);
    let mut rows = vec![["CERTIFICATE", "EXPIRES", "NEXT"].map(str::to_owned).to_vec()];
    let mut errors = String::new();
    for (name, certificate) in certificates.into_iter().flatten() {
        let text = |pointer: &str| certificate.pointer(pointer).and_then(Value::as_str);
        let failures = certificate.pointer("/renewal/failures").and_then(Value::as_u64);
        let next = match (certificate.get("renewal"), failures) {
            (None, _) => "-".to_owned(),
            (Some(_), Some(1..)) => format!("try again {}", text("/renewal/next").unwrap_or("now")),
            (Some(_), _) => format!("renew {}", text("/renewal/next").unwrap_or("now")),
        };
        let expires = text("/expires").unwrap_or("pending");
        rows.push(vec![printable(name), printable(expires), printable(&next)]);
        if let Some(error) = text("/renewal/error") {
            errors += &format!("{}: {}\n", printable(name), one_line(error));
        }
    }
    if rows.len() > 1 { format!("\n{}{errors}", columns(&rows, &[0, 1, 2])) } else { errors }
}

/// Returns the versions of PHP. As in Unit, `/status` has an object or an array.
fn versions(status: &Value) -> String {
    let versions: Vec<_> = match status.pointer("/modules/php") {
        Some(Value::Array(several)) => several.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let versions = versions.iter().filter_map(|module| module.get("version")?.as_str());
    match versions.map(printable).collect::<Vec<_>>().as_slice() {
        [] => "none".to_owned(),
        versions => versions.join(", "),
    }
}

/// Formats rows with aligned columns. Columns in `left` are left-aligned, others right-aligned.
pub(super) fn columns(rows: &[Vec<String>], left: &[usize]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let width = width(column);
            text.push_str(&match left.contains(&column) {
                true if column + 1 == row.len() => format!("{gap}{cell}"),
                true => format!("{gap}{cell:<width$}"),
                false => format!("{gap}{cell:>width$}"),
            });
        }
        text.push('\n');
    }
    text
}

/// Formats bytes with a unit.
pub(super) fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes / MIB {
        0 => format!("{} KB", bytes / 1024),
        mib @ 1..10_240 => format!("{mib} MB"),
        mib => format!("{} GB", mib / 1024),
    }
}

const HEADINGS: [&str; 8] =
    ["APPLICATION", "PROCESSES", "IDLE", "STARTING", "ACTIVE REQUESTS", "MEMORY", "SHARE", "STATE"];
const COLUMNS: [&str; 4] =
    ["/processes/running", "/processes/idle", "/processes/starting", "/requests/active"];

const SERVER_HEADINGS: [&str; 6] =
    ["UPSTREAM", "SERVER", "STATE", "ACTIVE", "REQUESTS", "FAILURES"];
const SERVER_COLUMNS: [&str; 4] = ["/state", "/requests/active", "/requests/total", "/failures"];

#[cfg(test)]
mod tests {
    use howdah_control::{
        ApplicationStatus, CertificateStatus, Connections, Handshakes, ListenerStatus,
        MemoryStatus, Module, OpcacheStatus, OutStatus, ProcessProtection, Processes,
        ProgramStatus, ProtectionStatus, Renewal, ServerStatus, Status, UpstreamStatus,
    };

    use super::*;

    #[test]
    fn the_status_is_shown_as_tables() {
        let application = |name: &str, running, active_requests| ApplicationStatus {
            name: name.into(),
            state: if running > 0 { "loaded" } else { "unloaded" },
            shares_start: None,
            prototype_bytes: running << 20,
            process_bytes: (running * 20) << 20,
            processes: Processes { running, starting: 0, idle: running - active_requests },
            active_requests,
            problem: (active_requests == 0).then(|| "its root\nis gone".to_owned()),
            given_up: 0,
            worker: None,
            opcache: (running > 0).then_some(OpcacheStatus {
                is_enabled: true,
                used: 9 << 20,
                free: 119 << 20,
                scripts: 12,
                hits: 400,
                misses: 14,
                ..OpcacheStatus::default()
            }),
        };
        let status = Status {
            modules: vec![Module { version: "8.2.30".into(), path: "/p".into() }],
            connections: Connections { accepted: 10, active: 1, idle: 2, closed: 7 },
            requests: 33,
            limits: Vec::new(),
            cluster: None,
            caches: Vec::new(),
            out: vec![OutStatus {
                kind: "listener",
                name: "*:81".into(),
                reason: "another\nprogram listens there".into(),
                since: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            }],
            warnings: vec![OutStatus {
                kind: "certificate",
                name: "acme:a.org".into(),
                reason: "it expires soon".into(),
                since: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            }],
            memory: MemoryStatus { budget: Some(512 << 20), used: 357 << 20 },
            applications: vec![application("blog", 16, 5), application("a long\u{1b} name", 0, 0)],
            upstreams: vec![UpstreamStatus {
                name: "app".into(),
                servers: vec![ServerStatus {
                    address: "10.0.0.1:80".into(),
                    state: "failing",
                    active: 2,
                    requests: 12,
                    failures: 3,
                }],
            }],
            program: Some(ProgramStatus {
                version: "1.2.3".into(),
                started: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
                uptime: 93_600,
            }),
            listeners: vec![
                ListenerStatus {
                    name: "*:443".into(),
                    tls: Some(Handshakes { handshakes: 1000, resumed: 7, failed: 1 }),
                },
                ListenerStatus { name: "*:80".into(), tls: None },
            ],
            certificates: vec![CertificateStatus {
                name: "acme:a.org".into(),
                names: vec!["a.org".into()],
                expires: None,
                renewal: Some(Renewal {
                    next: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
                    failures: 1,
                    error: Some("no\nway".into()),
                }),
            }],
            protection: ProtectionStatus {
                landlock: 7,
                router: ProcessProtection {
                    user: Some("www-data".into()),
                    restrictions: vec!["signals", "files"],
                    ..ProcessProtection::default()
                },
                applications: vec![(
                    "blog".into(),
                    ProcessProtection {
                        namespaces: vec!["pid", "mount"],
                        ..ProcessProtection::default()
                    },
                )],
            },
        };
        let expected = "\
1 part is out, 1 warning
OUT since Sun, 06 Nov 1994 08:49:37 GMT: listener \"*:81\": another; program listens there
WARNING since Sun, 06 Nov 1994 08:49:37 GMT: certificate \"acme:a.org\": it expires soon

Howdah       1.2.3, up 1 d 2 h since Sun, 06 Nov 1994 08:49:37 GMT
PHP          8.2.30
Connections  3 open (1 active, 2 idle), 10 accepted, 7 closed
Requests     33
PHP memory   357 MB of a budget of 512 MB

APPLICATION   PROCESSES  IDLE  STARTING  ACTIVE REQUESTS  MEMORY  SHARE  STATE
blog                 16    11         0                5  336 MB   66 %  loaded
a long\u{fffd} name          0     0         0                0    0 KB    0 %  unloaded
a long\u{fffd} name has a problem: its root; is gone

OPCACHE  MEMORY    FREE  WASTED  SCRIPTS  HITS  MISSES  RESTARTS
blog       9 MB  119 MB    0 KB       12   400      14         0

UPSTREAM       SERVER    STATE  ACTIVE  REQUESTS  FAILURES
app       10.0.0.1:80  failing       2        12         3

PROCESS  USER      NAMESPACES  RESTRICTIONS
router   www-data  -           signals, files
\"blog\"   -         pid, mount  -

LISTENER  HANDSHAKES  RESUMED  FAILED
*:443           1000        7       1
*:80               -        -       -

CERTIFICATE  EXPIRES  NEXT
acme:a.org   pending  try again Sun, 06 Nov 1994 08:49:37 GMT
acme:a.org: no; way
";
        assert_eq!(table(&status.to_value()), expected);
    }

    #[test]
    fn times_have_two_units() {
        let long_times = [0, 59, 60, 3599, 3600, 86_399, 86_400, 1_000_000].map(long);
        let expected =
            ["0 s", "59 s", "1 min", "59 min", "1 h 0 min", "23 h 59 min", "1 d 0 h", "11 d 13 h"];
        assert_eq!(long_times, expected);
    }

    #[test]
    fn what_is_missing_is_not_invented() {
        assert!(table(&Value::Null).starts_with("PHP          none\nConnections  0 open"));
    }
}
