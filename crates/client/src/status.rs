//! `howdah status`: the status as tables.

pub(super) mod problems;

use howdah_questions::{ProcessProtection, Replaced, Status};

use crate::output::{one_line, printable};

/// Returns the tables for an answer of `/status`.
pub(super) fn table(status: &Status) -> String {
    let connections = &status.connections;
    let facts = [
        ("Howdah", program(status)),
        ("PHP", versions(status)),
        (
            "Connections",
            format!(
                "{} open ({} active, {} idle), {} accepted, {} closed",
                connections.active.saturating_add(connections.idle),
                connections.active,
                connections.idle,
                connections.accepted,
                connections.closed,
            ),
        ),
        ("Requests", status.requests.total.to_string()),
        ("PHP memory", memory(status)),
        ("Lost spans", lost_spans(status)),
        ("Replaced", status.replaced.as_ref().map(replaced).unwrap_or_default()),
    ];
    let known = facts.iter().filter(|(_, value)| !value.is_empty());
    let facts: String = known.map(|(name, value)| format!("{name:<13}{value}\n")).collect();
    let mut text = match problems::lines(status) {
        problems if problems.is_empty() => facts,
        problems => format!("{problems}\n{facts}"),
    };
    text.push_str(&applications(status));
    text.push_str(&resources(status));
    text.push_str(&opcaches(status));
    text.push_str(&upstreams(status));
    text.push_str(&protection(status));
    text.push_str(&listeners(status));
    text.push_str(&certificates(status));
    text
}

/// Returns a table; an empty string if it has no rows. Columns in `left` are left-aligned.
fn titled(
    headings: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    left: &[usize],
) -> String {
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let rows: Vec<_> = std::iter::once(headings).chain(rows).collect();
    if rows.len() > 1 { format!("\n{}", columns(&rows, left)) } else { String::new() }
}

/// Returns the table of applications, and their problems.
fn applications(status: &Status) -> String {
    let headings = [
        "APPLICATION",
        "PROCESSES",
        "IDLE",
        "STARTING",
        "ACTIVE REQUESTS",
        "MEMORY",
        "SHARE",
        "STATE",
    ];
    let rows = status.applications.iter().map(|(name, application)| {
        let processes = application.processes;
        let numbers =
            [processes.running, processes.idle, processes.starting, application.requests.active];
        let Use { state, memory, share } = Use::of(status, name);
        let numbers = numbers.map(|number| number.to_string());
        std::iter::once(printable(name)).chain(numbers).chain([memory, share, state]).collect()
    });
    let mut text = titled(&headings, rows, &[0, 7]);
    for (name, application) in &status.applications {
        if let Some(problem) = &application.problem {
            text += &format!("{} has a problem: {}\n", printable(name), one_line(problem));
        }
    }
    text
}

/// Returns the number of lost spans, if there are any.
fn lost_spans(status: &Status) -> String {
    let lost = status.telemetry.map(|telemetry| telemetry.spans_lost).filter(|lost| *lost > 0);
    lost.map(|lost| format!("{lost}; see the log")).unwrap_or_default()
}

/// Returns when and why a process of the server was replaced.
fn replaced(Replaced { at, reason }: &Replaced) -> String {
    format!("{}: {}", printable(at), one_line(reason))
}

/// State of an application's PHP, and its memory.
pub(super) struct Use {
    pub(super) state: String,
    pub(super) memory: String,
    /// Share of the budget in percent.
    pub(super) share: String,
}

impl Use {
    /// Returns the values for an application; `-` for unknown ones.
    pub(super) fn of(status: &Status, name: &str) -> Use {
        let unknown = || "-".to_owned();
        let php = status.php.get(name);
        let used = php.map(|php| php.memory.prototype.saturating_add(php.memory.processes));
        let share = used.zip(status.memory.budget.filter(|budget| *budget > 0));
        Use {
            state: php.map_or_else(unknown, |php| printable(&php.state)),
            memory: used.map_or_else(unknown, size),
            share: share.map_or_else(unknown, |(used, budget)| {
                format!("{:.0} %", used as f64 * 100.0 / budget as f64)
            }),
        }
    }
}

/// Returns the memory of all PHP processes, and the budget.
pub(super) fn memory(status: &Status) -> String {
    let used = size(status.memory.used);
    match status.memory.budget {
        Some(budget) => format!("{used} of a budget of {}", size(budget)),
        None => used,
    }
}

/// Returns the restrictions of the router and the applications.
fn protection(status: &Status) -> String {
    let words = |words: &[howdah_questions::Word]| {
        if words.is_empty() { "-".to_owned() } else { printable(&words.join(", ")) }
    };
    let row = |name: &str, process: &ProcessProtection| {
        vec![
            printable(name),
            printable(process.user.as_deref().unwrap_or("-")),
            words(&process.namespaces),
            words(&process.restrictions),
        ]
    };
    let router = row("router", &status.protection.router);
    let applications = status.protection.applications.iter();
    let applications = applications.map(|(name, one)| row(&format!("\"{name}\""), one));
    let rows = std::iter::once(router).chain(applications);
    titled(&["PROCESS", "USER", "NAMESPACES", "RESTRICTIONS"], rows, &[0, 1, 2, 3])
}

/// Returns the table of limits of all processes of an application.
fn resources(status: &Status) -> String {
    let rows = status.php.iter().filter_map(|(name, php)| {
        let limits = php.limits?;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let kept = match limits.approximate {
            Some(true) => "approximately",
            Some(false) => "by control group",
            None => "-",
        };
        Some(vec![
            printable(name),
            or_none(limits.memory.map(size)),
            or_none(limits.cpu.map(|cpu| cpu.to_string())),
            or_none(limits.processes.map(|count| count.to_string())),
            kept.to_owned(),
        ])
    });
    titled(&["LIMITS", "MEMORY", "PROCESSORS", "PROCESSES", "KEPT"], rows, &[0, 4])
}

/// Returns the table of OPcache's state in each application that runs.
fn opcaches(status: &Status) -> String {
    let headings = ["OPCACHE", "MEMORY", "FREE", "WASTED", "SCRIPTS", "HITS", "MISSES", "RESTARTS"];
    let rows = status.php.iter().filter_map(|(name, php)| {
        let opcache = php.opcache?;
        let mut row = vec![printable(name)];
        if opcache.enabled {
            let memory = opcache.memory;
            row.extend([memory.used, memory.free, memory.wasted].map(size));
            let counts = [opcache.scripts, opcache.hits, opcache.misses, opcache.restarts];
            row.extend(counts.map(|count| count.to_string()));
        } else {
            row.push("off".to_owned());
        }
        Some(row)
    });
    titled(&headings, rows, &[0])
}

/// Returns the table of the servers of upstreams.
fn upstreams(status: &Status) -> String {
    let servers = status.upstreams.iter().flat_map(|(name, upstream)| {
        upstream.servers.iter().map(move |(address, server)| {
            vec![
                printable(name),
                printable(address),
                printable(&server.state),
                server.requests.active.to_string(),
                server.requests.total.to_string(),
                server.failures.to_string(),
            ]
        })
    });
    let headings = ["UPSTREAM", "SERVER", "STATE", "ACTIVE", "REQUESTS", "FAILURES"];
    titled(&headings, servers, &[0])
}

/// Returns the version of the server and the time for which it has been up; an empty string if they
/// are unknown.
fn program(status: &Status) -> String {
    let Some(server) = &status.server else { return String::new() };
    let since = server.started.as_deref().map(printable);
    let since = since.map(|started| format!(" since {started}")).unwrap_or_default();
    format!("{}, up {}{since}", printable(&server.version), long(server.uptime))
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
fn listeners(status: &Status) -> String {
    let rows = status.listeners.iter().map(|(name, listener)| {
        let numbers = listener.tls.as_ref().map(|tls| [tls.handshakes, tls.resumed, tls.failed]);
        let numbers = numbers.map(|numbers| numbers.map(|number| number.to_string()));
        let numbers = numbers.unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned));
        std::iter::once(printable(name)).chain(numbers).collect()
    });
    titled(&["LISTENER", "HANDSHAKES", "RESUMED", "FAILED"], rows, &[0])
}

/// Returns the table of certificates, and the errors of their renewal.
fn certificates(status: &Status) -> String {
    let rows = status.certificates.iter().map(|(name, certificate)| {
        let next = certificate.renewal.as_ref().map(|renewal| {
            let order = if renewal.failures > 0 { "try again" } else { "renew" };
            format!("{order} {}", renewal.next.as_deref().unwrap_or("now"))
        });
        let expires = certificate.expires.as_deref().unwrap_or("pending");
        vec![printable(name), printable(expires), printable(next.as_deref().unwrap_or("-"))]
    });
    let mut text = titled(&["CERTIFICATE", "EXPIRES", "NEXT"], rows, &[0, 1, 2]);
    for (name, certificate) in &status.certificates {
        if let Some(error) = certificate.renewal.as_ref().and_then(|one| one.error.as_ref()) {
            text += &format!("{}: {}\n", printable(name), one_line(error));
        }
    }
    text
}

/// Returns the versions of PHP.
fn versions(status: &Status) -> String {
    let versions = status.modules.php.all().iter().map(|module| printable(&module.version));
    match versions.collect::<Vec<_>>().as_slice() {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_status_is_shown_as_tables() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let application = |running: u64, active: u64, problem: Value| {
            json!({
                "processes": {"running": running, "starting": 0, "idle": running - active},
                "requests": {"active": active},
                "problem": problem,
            })
        };
        let php = |state: &str, running: u64, opcache: Value| {
            let memory = json!({"prototype": running << 20, "processes": (running * 20) << 20});
            json!({"state": state, "memory": memory, "opcache": opcache})
        };
        let opcache = json!({
            "enabled": true,
            "memory": {"used": 9 << 20, "free": 119 << 20, "wasted": 0},
            "scripts": 12, "hits": 400, "misses": 14, "restarts": 0,
        });
        let status = json!({
            "modules": {"php": {"version": "8.2.30", "lib": "/p"}},
            "connections": {"accepted": 10, "active": 1, "idle": 2, "closed": 7},
            "requests": {"total": 33},
            "applications": {
                "blog": application(16, 5, Value::Null),
                "a long\u{1b} name": application(0, 0, json!("its root\nis gone")),
            },
            "php": {
                "blog": php("loaded", 16, opcache),
                "a long\u{1b} name": php("unloaded", 0, Value::Null),
            },
            "memory": {"budget": 512 << 20, "used": 357 << 20},
            "server": {"version": "1.2.3", "started": date, "uptime": 93_600},
            "protection": {
                "landlock": 7,
                "router": {"user": "www-data", "restrictions": ["signals", "files"]},
                "applications": {"blog": {"namespaces": ["pid", "mount"]}},
            },
            "upstreams": {"app": {"servers": {"10.0.0.1:80": {
                "state": "failing", "requests": {"active": 2, "total": 12}, "failures": 3,
            }}}},
            "listeners": {
                "*:443": {"tls": {"handshakes": 1000, "resumed": 7, "failed": 1}},
                "*:80": {},
            },
            "certificates": {"acme:a.org": {
                "names": ["a.org"], "expires": null,
                "renewal": {"next": date, "failures": 1, "error": "no\nway"},
            }},
            "telemetry": {"spans_lost": 7},
            "out": [{
                "kind": "listener", "name": "*:81", "since": date,
                "reason": "another\nprogram listens there",
            }],
            "warnings": [{
                "kind": "certificate", "name": "acme:a.org", "since": date,
                "reason": "it expires soon",
            }],
        });
        let status = serde_json::from_value(status).unwrap();
        let expected = "\
1 part is out, 1 warning
OUT since Sun, 06 Nov 1994 08:49:37 GMT: listener \"*:81\": another; program listens there
WARNING since Sun, 06 Nov 1994 08:49:37 GMT: certificate \"acme:a.org\": it expires soon

Howdah       1.2.3, up 1 d 2 h since Sun, 06 Nov 1994 08:49:37 GMT
PHP          8.2.30
Connections  3 open (1 active, 2 idle), 10 accepted, 7 closed
Requests     33
PHP memory   357 MB of a budget of 512 MB
Lost spans   7; see the log

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
        assert_eq!(table(&status), expected);
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
        assert!(table(&Status::default()).starts_with("PHP          none\nConnections  0 open"));
    }
}
