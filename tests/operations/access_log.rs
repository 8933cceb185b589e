//! The access log of the whole server: every request has its line, whole, after any event of the
//! file or the server.

use std::fs;
use std::path::PathBuf;
use std::thread;

use harness::time::Stopwatch;
use harness::{Server, Site, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

fn log_path(site: &Site) -> PathBuf {
    site.data().join("access.log")
}

/// Serves a site whose requests are logged in this format.
fn serve(site: Site, format: Value) -> Server {
    let path = log_path(&site);
    site.with(json!({"access_log": {"path": path, "format": format}})).serve()
}

fn logged(server: &Server) -> String {
    fs::read_to_string(log_path(&server.site)).unwrap_or_default()
}

fn wait_for_line(server: &Server, wanted: &str) {
    eventually(&format!("there is a line {wanted:?}"), || {
        logged(server).lines().any(|line| line == wanted).then_some(())
    });
}

#[test]
fn a_line_says_what_was_sent() {
    let server = serve(
        Site::script("a.php", "header('X-A: \"b\"'); echo str_repeat('x', 5000);").file("b", "bb"),
        json!(
            "$request_line@$status@$body_bytes_sent@$header_user_agent@$response_header_x_a@\
             $response_header_content_length@$response_header_transfer_encoding@\
             $response_header_connection"
        ),
    );
    server.get("/a.php?q");
    wait_for_line(&server, "GET /a.php?q HTTP/1.1@200@5000@-@\"b\"@-@chunked@close");
    server.send("HEAD /b HTTP/1.0\r\nUser-Agent: \r\n\r\n");
    wait_for_line(&server, "HEAD /b HTTP/1.0@200@0@@-@2@-@-");
    let mut client = server.connect();
    client.send("GET /b HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\\x1b\r\n\r\n");
    assert_eq!(client.response().status, 400);
    let mut client = server.connect();
    client.send("GET /b HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\\u{e9}\r\n\r\n");
    assert_eq!(client.response().status, 200);
    wait_for_line(&server, "GET /b HTTP/1.1@200@2@a\\x22b\\x5c\\xc3\\xa9@-@2@-@-");
}

#[test]
fn a_line_says_who_answered_and_for_how_long() {
    let backend = harness::backends::Backend::python();
    let dead = harness::free_address();
    let format = json!({
        "uri": "$uri", "application": "$application", "php": "$php_time", "queue": "$queue_time",
        "script": "$script_filename",
        "servers": "$upstream_addr", "statuses": "$upstream_status",
        "times": "$upstream_response_time", "requests": "$connection_requests",
        "received": "$request_length", "sent": "$bytes_sent", "port": "$server_port",
    });
    let site = Site::script("a.php", "usleep(30000); echo str_repeat('x', 1000);").file("b", "bb");
    let share = format!("{}$uri", site.root().display());
    let path = site.root().join("a.php");
    let site = site.with(json!({
        "routes": [
            {"match": {"uri": "/echo"}, "action": {"pass": "upstreams/u"}},
            {"action": {"share": share, "scripts": "applications/site"}},
        ],
        "upstreams": {"u": {"tries": 2, "servers": {
            dead.to_string(): {"weight": 1000}, backend.address.to_string(): {},
        }}},
    }));
    let server = serve(site, format);
    let mut client = server.connect();
    for target in ["/a.php", "/b", "/echo"] {
        assert_eq!(client.get(target).status, 200, "{target}");
    }
    let lines: Vec<Value> = eventually("there are three lines", || {
        let lines: Vec<_> =
            logged(&server).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (lines.len() == 3).then_some(lines)
    });
    let line = |uri: &str| lines.iter().find(|line| line["uri"] == uri).expect("a line");
    let seconds = |value: &Value| match value {
        Value::String(text) => text.parse::<f64>().unwrap_or(-1.0),
        value => value.as_f64().unwrap_or(-1.0),
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let script = line("/a.php");
    assert_eq!(script["application"], "site");
    assert_eq!(text(&script["script"]), path.display().to_string());
    assert!(seconds(&script["php"]) >= 0.03 && seconds(&script["queue"]) >= 0.0, "{script}");
    assert!(seconds(&script["sent"]) > 1000.0 && seconds(&script["received"]) > 20.0, "{script}");
    assert_eq!(text(&script["servers"]), "-");
    let file = line("/b");
    assert_eq!((text(&file["application"]), text(&file["php"])), ("-".into(), "-".into()));
    assert_eq!((text(&file["requests"]), text(&file["script"])), ("2".into(), "-".into()));
    assert_eq!(text(&file["port"]), server.address.port().to_string());
    let proxied = line("/echo");
    assert_eq!(text(&proxied["servers"]), format!("{dead}, {}", backend.address));
    assert_eq!(text(&proxied["statuses"]), "502, 200");
    assert_eq!(text(&proxied["times"]).split(", ").count(), 2, "{proxied}");
    assert_eq!(text(&proxied["requests"]), "3");
}

#[test]
fn refused_and_unfinished_requests_have_lines_too() {
    let server = serve(Site::new(), json!("$remote_addr $request_line $status $body_bytes_sent"));
    let mut client = server.connect();
    client.send("GE");
    client.finish_sending();
    assert!(client.is_closed());
    wait_for_line(&server, "127.0.0.1 - 400 0");
    assert_eq!(server.send("GET\r\n\r\n").status, 400);
    eventually("the refusal is logged", || {
        let refused = |line: &str| line.starts_with("127.0.0.1 - 400 ") && !line.ends_with(" 0");
        logged(&server).lines().any(refused).then_some(())
    });
}

#[test]
fn each_line_of_json_is_an_object() {
    let server = serve(
        Site::new().file("a", "a"),
        json!({"uri": "$uri", "agent": "$header_user_agent", "none": "$arg_none"}),
    );
    server
        .send("GET /a%22%0a%ff HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUser-Agent: \\\r\n\r\n");
    let line = eventually("there is a line", || logged(&server).lines().next().map(str::to_owned));
    let object: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object, json!({"uri": "/a\"\n\\xff", "agent": "\\", "none": "-"}));
}

/// Checks that lines are whole and that each number has one.
fn check(lines: &str, requests: u32) {
    let mut numbers: Vec<u32> = lines
        .lines()
        .map(|line| {
            let number = line.strip_prefix("<").and_then(|line| line.strip_suffix(">"));
            number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line:?}"))
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..requests).collect::<Vec<_>>());
}

/// A line is the number that a request has in a field, between marks.
fn numbered() -> Value {
    json!("<$header_number>")
}

/// Sends numbered requests on several connections at once.
fn load(server: &Server, requests: u32) {
    const CLIENTS: u32 = 4;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let mut connection = server.connect();
                for number in (0..requests).filter(|number| number % CLIENTS == client) {
                    connection
                        .send(format!("GET /a HTTP/1.1\r\nHost: a\r\nNumber: {number}\r\n\r\n"));
                    assert_eq!(connection.response().status, 200);
                }
            });
        }
    });
}

#[test]
fn no_line_is_lost_or_torn_when_logs_are_rotated_under_load() {
    let server = serve(Site::new().file("a", "a"), numbered());
    let path = log_path(&server.site);
    let mut turn = 0;
    thread::scope(|scope| {
        let loading = scope.spawn(|| load(&server, 2000));
        while !loading.is_finished() {
            let kept = server.site.data().join(format!("access.log.{turn}"));
            fs::rename(&path, &kept).unwrap();
            server.signal(Signal::USR1);
            eventually("the log is opened anew", || path.exists().then_some(()));
            turn += 1;
        }
        loading.join().unwrap();
    });
    // Every thread writes its lines a moment later.
    let all = eventually("as many lines as requests", || {
        let kept = (0..turn).map(|turn| server.site.data().join(format!("access.log.{turn}")));
        let mut all: String = kept.map(|path| fs::read_to_string(path).unwrap()).collect();
        all.push_str(&logged(&server));
        (all.lines().count() >= 2000 && all.ends_with('\n')).then_some(all)
    });
    check(&all, 2000);
}

/// Rotates the access log of a server and waits until requests are logged in a new file.
fn rotate(server: &Server) {
    let path = log_path(&server.site);
    fs::rename(&path, path.with_extension("old")).unwrap();
    server.signal(Signal::USR1);
    eventually("the access log is opened again", || path.exists().then_some(()));
    eventually("requests are logged in it", || {
        server.get("/a");
        logged(server).contains("200").then_some(())
    });
}

#[test]
fn usr1_opens_the_access_log_again_where_the_server_logs_to_standard_error() {
    let server = serve(Site::new().file("a", "a").logs_to_stderr(), json!("$status"));
    for _ in 0..2 {
        rotate(&server);
    }
}

#[test]
fn a_server_that_ends_has_written_all_lines() {
    for signal in [Signal::QUIT, Signal::TERM] {
        let server = serve(Site::new().file("a", "a"), numbered());
        load(&server, 100);
        let (status, site) = server.end(signal);
        assert!(status.success());
        check(&fs::read_to_string(log_path(&site)).unwrap(), 100);
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_said_at_the_start() {
    let site = Site::new();
    let path = site.data().join("no/such/directory/log");
    let site = site.with(json!({"access_log": path}));
    let output =
        site.command(&harness::free_address().to_string()).arg("--strict").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("/access_log: ") && error.contains("No such file"), "{error}");
}

#[test]
fn a_link_in_place_of_the_log_is_not_followed() {
    let site = Site::new();
    let target = site.data().join("target");
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, log_path(&site)).unwrap();
    let path = log_path(&site);
    let site = site.with(json!({"access_log": path}));
    let output =
        site.command(&harness::free_address().to_string()).arg("--strict").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(target).unwrap(), "precious");
}

#[test]
fn the_id_of_a_request_is_the_same_everywhere() {
    let code = "error_log('it says'); echo $_SERVER['REQUEST_ID'];";
    let site = Site::script("a.php", code);
    let access = site.data().join("access.log");
    let server = site
        .with(json!({
            "access_log": {"path": &access, "format": "$request_id $uri"},
            "routes": [{"action": {
                "pass": "applications/site",
                "response_headers": {"X-Id": "$request_id"},
            }}],
        }))
        .serve();
    let response = server.get("/a.php");
    let id = response.text();
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert_eq!(response.field("X-Id"), Some(id.as_str()));
    server.wait_for_log(&format!("\"site\" request {id}: GET /a.php "));
    let line = format!("{id} /a.php\n");
    eventually("the access log has it", || {
        fs::read_to_string(&access).ok().filter(|log| log.contains(&line))
    });
    assert_ne!(server.get("/a.php").text(), id);
    // No client chooses it.
    let forged = "GET /a.php HTTP/1.1\r\nHost: a\r\nRequest-Id: x\r\nX-Request-Id: y\r\n\r\n";
    assert_eq!(server.send(forged).text().len(), 32);
}

#[test]
fn a_listener_and_an_action_have_logs_of_their_own() {
    let site = Site::new().file("a", "a").file("b", "b").file("c", "c");
    let at = |name: &str| site.data().join(name);
    let log = |name: &str| json!({"path": at(name), "format": "$uri"});
    let files: Vec<_> = ["all", "api", "both"].map(at).into();
    let root = site.root().display().to_string();
    let share = |log: Value| json!({"share": format!("{root}$uri"), "access_log": log});
    let routes = json!({
        "main": [
            {"match": {"uri": "/a"}, "action": share(json!(false))},
            {"match": {"uri": "/b"}, "action": share(log("api"))},
            {"match": {"uri": "/c"}, "action": {"pass": "routes/c", "access_log": log("api")}},
            {"action": {"share": format!("{root}$uri")}},
        ],
        "c": [{"action": share(json!([log("api"), log("both")]))}],
    });
    let listener = json!({"pass": "routes/main", "access_log": log("all")});
    let address = harness::free_address().to_string();
    let changes = json!({"routes": routes, "listeners": {&address: listener}});
    let server = site.with(changes).serve_at(&address);
    for path in ["/a", "/b", "/c", "/d"] {
        server.get(path);
    }
    // The connections may be those of several threads, whose lines come in any order.
    let lines = |index: usize| {
        let text = fs::read_to_string(&files[index]).unwrap_or_default();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    eventually("all requests are logged", || {
        let all = [0, 1, 2].map(lines);
        (all == [vec!["/d"], vec!["/b", "/c"], vec!["/c"]]).then_some(())
    });
}

#[test]
fn lines_reach_a_syslog_server_and_find_it_again_after_a_restart() {
    let site = Site::new().file("a", "a");
    let socket = site.data().join("syslog");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap().to_string();
    let unix = format!("unix:{}", socket.display());
    let server = site
        .with(json!({"access_log": [
            {"syslog": {"server": address, "tag": "web"}, "format": "$uri"},
            {"syslog": {"server": unix, "protocol": "rfc3164"}, "format": "$uri"},
        ]}))
        .serve();
    server.get("/a\u{20ac}");
    let mut buffer = [0; 500];
    let length = udp.recv(&mut buffer).unwrap();
    let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(line.starts_with("<190>1 20") && line.contains(" web "), "{line}");
    assert!(line.ends_with(" access - /a\\xe2\\x82\\xac"), "{line}");
    // No reader was there at the start, and the server was started nevertheless.
    for _ in 0..2 {
        let _ = fs::remove_file(&socket);
        let syslog = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
        syslog.set_nonblocking(true).unwrap();
        eventually("a line reaches the server", || {
            server.get("/a");
            let length = syslog.recv(&mut buffer).ok()?;
            let line = String::from_utf8_lossy(&buffer[..length]);
            (line.starts_with("<190>") && line.ends_with("]: /a")).then_some(())
        });
    }
}

/// The socket of a syslog daemon holds few datagrams: with 8 clients, more than half of all lines
/// were lost, and a restart of the daemon lost those of a second.
#[test]
fn a_slow_syslog_server_and_its_restart_lose_no_line() {
    let site = Site::new().file("a", "a");
    let socket = site.data().join("syslog");
    let syslog = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    let log = json!({"syslog": format!("unix:{}", socket.display()), "format": "$header_number"});
    let server = site.with(json!({"access_log": log})).serve();
    let receive = |syslog: &std::os::unix::net::UnixDatagram, most: usize, lines: &mut Vec<u32>| {
        syslog.set_read_timeout(Some(harness::time::patience())).unwrap();
        let mut buffer = [0; 500];
        while lines.len() < most {
            let length = syslog.recv(&mut buffer).expect("a line in time");
            let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
            // The form of the C library, which daemons expect on a unix socket.
            assert!(line.starts_with("<190>") && line.contains(" howdah["), "{line}");
            lines.push(line.rsplit(' ').next().unwrap().parse().unwrap());
        }
    };
    let mut lines = Vec::new();
    load(&server, 500);
    receive(&syslog, 300, &mut lines);
    // The lines that it has not read are lost with it; the router has the rest.
    syslog.set_nonblocking(true).unwrap();
    while syslog.recv(&mut [0; 500]).is_ok() {}
    drop(syslog);
    fs::remove_file(&socket).unwrap();
    let mut connection = server.connect();
    for number in 1000..1200 {
        connection.send(format!("GET /a HTTP/1.1\r\nHost: a\r\nNumber: {number}\r\n\r\n"));
        assert_eq!(connection.response().status, 200);
    }
    let syslog = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    let mut after = Vec::new();
    while after.iter().filter(|number| **number >= 1000).count() < 200 {
        let next = after.len() + 1;
        receive(&syslog, next, &mut after);
    }
    let mut late: Vec<_> = after.into_iter().filter(|number| *number >= 1000).collect();
    late.sort_unstable();
    assert_eq!(late, (1000..1200).collect::<Vec<_>>());
}

#[test]
fn a_syslog_server_that_reads_nothing_delays_no_request() {
    let site = Site::new().file("a", "a");
    let socket = site.data().join("syslog");
    let _syslog = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    let long = "x".repeat(7000);
    let log =
        json!({"syslog": format!("unix:{}", socket.display()), "format": format!("$uri {long}")});
    let server = site.with(json!({"access_log": log})).serve();
    load(&server, 1000);
    server.wait_for_log(" lost, as it does not take them in time");
    assert_eq!(server.get("/a").status, 200);
    let started = Stopwatch::start();
    let (status, site) = server.end(Signal::QUIT);
    assert!(status.success() && started.elapsed().as_secs() < 20);
    let log = fs::read_to_string(site.root().with_file_name("log")).unwrap();
    assert!(log.lines().count() < 20, "{log}");
}

/// A container's log driver that stopped reading stopped all sites.
#[test]
fn standard_output_that_nobody_reads_delays_no_request() {
    let site = Site::new().file("a", "a");
    let long = "x".repeat(3000);
    let log = json!({"path": "/dev/stdout", "format": format!("$header_number {long}")});
    let address = harness::free_address();
    let site = site.with(json!({"access_log": log}));
    let mut command = site.command(&address.to_string());
    let (pipe, stdout) = std::io::pipe().unwrap();
    let mut child = command.stdout(stdout).spawn().unwrap();
    drop(command);
    let mut client = eventually("it listens", || std::net::TcpStream::connect(address).ok());
    client.set_read_timeout(Some(harness::time::patience())).unwrap();
    for number in 0..200 {
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\nNumber: {number}\r\n\r\n");
        std::io::Write::write_all(&mut client, request.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = std::io::Read::read(&mut client, &mut answer).expect("an answer in time");
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "request {number}");
    }
    // Its reader comes back and gets all lines.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(pipe));
    for number in 0..200 {
        let line = loop {
            let line = lines.next().unwrap().unwrap();
            if line.ends_with("xxx") {
                break line;
            }
        };
        assert!(line.starts_with(&format!("{number} ")), "{number}: {}", &line[..20]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
