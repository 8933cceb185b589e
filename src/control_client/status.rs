//! `howdah status`: the status as tables.

use serde_json::Value;

/// Returns the tables for a response of `/status`.
pub(super) fn table(status: &Value) -> String {
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let connections = |name: &str| number(&format!("/connections/{name}"));
    let (active, idle) = (connections("active"), connections("idle"));
    let facts = [
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
    ];
    let mut text: String =
        facts.iter().map(|(name, value)| format!("{name:<13}{value}\n")).collect();
    let applications = status.get("applications").and_then(Value::as_object);
    if let Some(applications) = applications.filter(|applications| !applications.is_empty()) {
        let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
        rows.extend(applications.iter().map(|(name, application)| {
            let numbers = COLUMNS.map(|pointer| {
                let value = application.pointer(pointer).and_then(Value::as_u64);
                value.map_or("-".to_owned(), |value| value.to_string())
            });
            std::iter::once(printable(name)).chain(numbers).collect()
        }));
        text.push('\n');
        text.push_str(&columns(&rows, &[0]));
        for (name, application) in applications {
            if let Some(problem) = application.get("problem").and_then(Value::as_str) {
                text += &format!("{} has a problem: {}\n", printable(name), printable(problem));
            }
        }
    }
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
    let headings = ["PROCESS", "USER", "NAMESPACES", "KEPT FROM"];
    let mut rows = vec![headings.map(str::to_owned).to_vec(), row("router", router)];
    let applications = status.pointer("/protection/applications").and_then(Value::as_object);
    rows.extend(
        applications.into_iter().flatten().map(|(name, one)| row(&format!("\"{name}\""), one)),
    );
    format!("\n{}", columns(&rows, &[0, 1, 2, 3]))
}

/// Returns the table of listeners with TLS.
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
        let expires = text("/expires").unwrap_or("not there yet");
        rows.push(vec![printable(name), printable(expires), printable(&next)]);
        if let Some(error) = text("/renewal/error") {
            errors += &format!("{}: {}\n", printable(name), printable(error));
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

/// Escapes control characters of a name from a configuration.
pub(super) fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

const HEADINGS: [&str; 5] = ["APPLICATION", "PROCESSES", "IDLE", "STARTING", "ACTIVE REQUESTS"];
const COLUMNS: [&str; 4] =
    ["/processes/running", "/processes/idle", "/processes/starting", "/requests/active"];

const SERVER_HEADINGS: [&str; 6] =
    ["UPSTREAM", "SERVER", "STATE", "ACTIVE", "REQUESTS", "FAILURES"];
const SERVER_COLUMNS: [&str; 4] = ["/state", "/requests/active", "/requests/total", "/failures"];

#[cfg(test)]
mod tests {
    use howdah_control::{
        ApplicationStatus, CertificateStatus, Connections, ListenerStatus, Module,
        ProcessProtection, Processes, ProtectionStatus, Renewal, ServerStatus, Status,
        UpstreamStatus,
    };

    use super::*;

    #[test]
    fn the_status_is_shown_as_tables() {
        let application = |name: &str, running, active_requests| ApplicationStatus {
            name: name.into(),
            processes: Processes { running, starting: 0, idle: running - active_requests },
            active_requests,
            problem: (active_requests == 0).then(|| "its root\nis gone".to_owned()),
        };
        let status = Status {
            modules: vec![Module { version: "8.2.30".into(), path: "/p".into() }],
            connections: Connections { accepted: 10, active: 1, idle: 2, closed: 7 },
            requests: 33,
            applications: vec![application("blog", 16, 5), application("a long\u{1b} name", 1, 0)],
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
            listeners: vec![ListenerStatus {
                name: "*:443".into(),
                handshakes: 1000,
                resumed: 7,
                failed: 1,
            }],
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
PHP          8.2.30
Connections  3 open (1 active, 2 idle), 10 accepted, 7 closed
Requests     33

APPLICATION   PROCESSES  IDLE  STARTING  ACTIVE REQUESTS
blog                 16    11         0                5
a long\u{fffd} name          1     1         0                0
a long\u{fffd} name has a problem: its root\u{fffd}is gone

UPSTREAM       SERVER    STATE  ACTIVE  REQUESTS  FAILURES
app       10.0.0.1:80  failing       2        12         3

PROCESS  USER      NAMESPACES  KEPT FROM
router   www-data  -           signals, files
\"blog\"   -         pid, mount  -

LISTENER  HANDSHAKES  RESUMED  FAILED
*:443           1000        7       1

CERTIFICATE  EXPIRES        NEXT
acme:a.org   not there yet  try again Sun, 06 Nov 1994 08:49:37 GMT
acme:a.org: no\u{fffd}way
";
        assert_eq!(table(&status.to_value()), expected);
    }

    #[test]
    fn what_is_missing_is_not_invented() {
        assert!(table(&Value::Null).starts_with("PHP          none\nConnections  0 open"));
    }
}
