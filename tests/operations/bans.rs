//! The filters for fail2ban in packaging/monitoring read lines of a server that runs. Whatever a
//! client sends, the address that they find is its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Server, Site, eventually, requirements};
use serde_json::json;

/// An address that hostile clients would like to have banned.
const VICTIM: &str = "1.2.3.4";

/// A name of the users' file, whose password is `y`. The owner of a site chooses it. It can have no
/// colon, so no date.
const USER: &str = "1.2.3.4 - - [] GET / 404 1.2.3.4 -";

fn site() -> Site {
    let code = "http_response_code((int) ($_GET['status'] ?? 200)); echo 1;";
    let site = Site::script("wp-login.php", code).file("xmlrpc.php", "<?php echo 2;");
    let users = site.data().join("users");
    fs::write(&users, format!("{USER}:{{SHA}}lcsL/Sl3x2EpjZYk5LTUxyo5l0o=\n")).unwrap();
    harness::open_to_all(&users, 0o644);
    let logs = [("combined", "combined"), ("common", "common"), ("vhosts", "vhost_combined")];
    let logs = logs.map(
        |(name, format)| json!({"path": site.data().join(format!("{name}.log")), "format": format}),
    );
    let auth = json!({"realm": "r", "users_file": users});
    let share = format!("{}$uri", site.root().display());
    let routes = json!([
        {"match": {"uri": "/auth/*"}, "action": {"basic_auth": auth, "share": share}},
        {"match": {"uri": "/limit"}, "action": {
            "limit": {"rate": "1/h", "key": "$header_x_key"}, "return": 200,
        }},
        {"match": {"uri": "*.php"}, "action": {"pass": "applications/site"}},
        {"action": {"share": share}},
    ]);
    site.with(json!({"routes": routes, "access_log": logs}))
}

/// Returns the addresses that a filter finds in a log or line, or `None` without fail2ban.
fn found(filter: &str, log: &Path) -> Option<Vec<String>> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/monitoring/fail2ban");
    let mut command = Command::new("fail2ban-regex");
    command.arg("-c").arg(&place).args(["-o", "ip"]).arg(log);
    let output = command.arg(place.join(format!("filter.d/{filter}.conf"))).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("Traceback") && !text.contains("ERROR"), "{text} {errors}");
    Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn ask(server: &Server, head: &str, fields: &str) -> u16 {
    let request = format!("{head} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
    server.send(request).status
}

/// Sends what the filters are for, and what tries to mislead them. Returns the number of lines.
fn requests(server: &Server) -> usize {
    let mut count = 0;
    let mut send = |head: &str, fields: &str, status: u16| {
        assert_eq!(ask(server, head, fields), status, "{head} {fields}");
        count += 1;
    };
    let host = "Host: a\r\n";
    let basic = |text: &str| {
        let text = howdah_text::base64::encode(text.as_bytes());
        format!("{host}Authorization: Basic {text}\r\n")
    };
    // Passwords: a wrong one, none, and names that look like a line.
    send("GET /auth/x", &basic("eve:y"), 401);
    send("GET /auth/x", host, 401);
    send("GET /auth/x", &basic(&format!("{VICTIM} - - [x] \"GET / HTTP/1.1\" 401 0:y")), 401);
    send("GET /auth/x", &basic(&format!("{USER}:wrong")), 401);
    // The right password, and no file.
    send("GET /auth/missing", &basic(&format!("{USER}:y")), 404);
    // Files that are not there. Pictures do not count.
    send("GET /.env", host, 404);
    send("GET /picture.png?x", host, 404);
    let forged = format!("Referer: \" 404 1 {VICTIM} - - [28/Nov/2026:00:00:00 +0000] \"\r\n");
    send("GET /.git/config", &format!("{host}{forged}"), 404);
    send(&format!("GET /?{VICTIM}%20-%20-%20[]%20%22GET"), &format!("Host: {VICTIM}\r\n"), 404);
    send("GET /x", "Host: [::1]:80\r\n", 404);
    // No HTTP.
    send(&format!("GET /\" 404 0 {VICTIM} - -"), host, 400);
    send("GET /", &format!("Host: a:80 {VICTIM} - -\r\n"), 400);
    // A limit whose key the client chooses.
    let key = format!("X-Key: {VICTIM} refuses {VICTIM} (429)\r\n");
    send("GET /limit", &format!("{host}{key}"), 200);
    send("GET /limit", &format!("{host}{key}"), 429);
    // WordPress: failures, a success, and a path that only names the file.
    let post = format!("{host}Content-Length: 0\r\n");
    send("POST /wp-login.php", &post, 200);
    send(&format!("POST http://{VICTIM}/wp-login.php?x"), &post, 200);
    send("POST /wp-login.php?status=302", &post, 302);
    send("POST /xmlrpc.php", &post, 200);
    send("GET /wp-login.php", host, 200);
    send("POST /auth/x?redirect=/wp-login.php", &post, 401);
    count
}

#[test]
fn filters_of_fail2ban_find_the_client_and_nobody_else() {
    let server = site().serve();
    let count = requests(&server);
    for log in ["combined", "common", "vhosts"] {
        let path = server.site.data().join(format!("{log}.log"));
        let text = eventually("all requests are in the log", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            (text.lines().count() == count).then_some(text)
        });
        assert!(text.contains(VICTIM), "{text}");
        for (filter, expected) in
            [("howdah-auth", 5), ("howdah-scan", 7), ("howdah-limit", 1), ("howdah-wordpress", 3)]
        {
            let Some(addresses) = found(filter, &path) else {
                return requirements::skipped("fail2ban-regex is not installed");
            };
            assert_eq!(addresses, ["127.0.0.1"].repeat(expected), "{filter}, {log}: {text}");
        }
    }
    let line =
        "2001:db8::7 - - [28/Nov/2026:00:19:28 +0000] \"GET /x HTTP/1.1\" 401 57 \"-\" \"-\"";
    let file = server.site.data().join("one.log");
    fs::write(&file, format!("{line}\nexample.org:443 {line}\n")).unwrap();
    assert_eq!(found("howdah-auth", &file).unwrap(), ["2001:db8::7"; 2]);
}
