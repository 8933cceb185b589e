//! Sites of PHP-FPM and php-cgi, the real ones, over unix sockets and TCP.

use std::io::Write;
use std::sync::mpsc;

use harness::fastcgi::{FastCgi, Socket, cgi, cgi_at, fpm};
use harness::time::patience;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// Serves the site through a FastCGI server: a script by its path, or by the file that a share
/// finds.
fn serve(site: Site, server: &FastCgi, changes: Value) -> Server {
    let root = site.root();
    let application = json!({"type": "fastcgi", "server": server.address, "root": root});
    site.with(json!({"applications": null}))
        .with(json!({"applications": {"site": application}}))
        .with(changes)
        .serve()
}

/// As [`serve`], with every path passed to the application.
fn serve_paths(site: Site, server: &FastCgi, changes: Value) -> Server {
    let routes = json!({"routes": [{"action": {"pass": "applications/site"}}]});
    serve(site.with(json!({"routes": null})).with(routes), server, changes)
}

fn servers() -> [(&'static str, FastCgi); 3] {
    [
        ("PHP-FPM, unix", fpm(&Socket::Unix(128), 2, "")),
        ("PHP-FPM, TCP", fpm(&Socket::Tcp, 2, "")),
        ("php-cgi", cgi(2)),
    ]
}

#[test]
fn a_script_sees_the_request_through_every_server_and_transport() {
    let code = "echo json_encode([$_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'],
        $_SERVER['SCRIPT_NAME'], $_SERVER['PATH_INFO'] ?? null, $_SERVER['SCRIPT_FILENAME'],
        $_SERVER['DOCUMENT_ROOT'], $_SERVER['QUERY_STRING'], $_GET, $_POST, $_COOKIE,
        $_SERVER['HTTP_X_A'] ?? null, $_SERVER['CONTENT_LENGTH'], $_SERVER['SERVER_PROTOCOL'],
        isset($_SERVER['REMOTE_ADDR'], $_SERVER['SERVER_PORT'], $_SERVER['REMOTE_PORT'])],
        JSON_UNESCAPED_SLASHES);";
    for (name, fastcgi) in servers() {
        for keepalive in [0, 2] {
            let site = Site::script("a.php", code);
            let root = site.root().display().to_string();
            let changes = json!({"applications": {"site": {"keepalive": keepalive}}});
            let server = serve(site, &fastcgi, changes);
            let mut client = server.connect();
            for _ in 0..3 {
                client.send(
                    "POST /a.php/i/x?q=1 HTTP/1.1\r\nHost: a\r\nX-A: b\r\nCookie: c=d\r\n\
                     Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \
                     3\r\n\r\nx=y",
                );
                let response = client.response();
                let seen: Value = serde_json::from_str(&response.text())
                    .unwrap_or_else(|_| panic!("{name}: {response:?}"));
                let expected = json!([
                    "POST", "/a.php/i/x?q=1", "/a.php", "/i/x", format!("{root}/a.php"), root,
                    "q=1", {"q": "1"}, {"x": "y"}, {"c": "d"}, "b", "3", "HTTP/1.1", true,
                ]);
                assert_eq!(seen, expected, "{name}");
            }
        }
    }
}

#[test]
fn heads_bodies_and_errors_come_as_the_script_made_them() {
    let code = "switch ($_GET['do']) {
        case 'redirect': header('Location: /there'); break;
        case 'missing': http_response_code(404); header('X-A: b', false); header('X-A: c', false);
            echo 'no'; break;
        case 'large': echo str_repeat('0123456789abcdef', 65536 * 4); break;
        case 'slow': for ($i = 0; $i < 3; $i++) { echo $i; ob_get_level() && ob_flush(); flush();
            usleep(100000); } break;
        case 'log': error_log('something to log'); echo 'logged'; break;
        case 'length': header('Content-Length: 3'); echo 'abc'; break;
        case 'short': header('Content-Length: 9'); echo 'abc'; break;
    }";
    for (name, fastcgi) in servers() {
        let server = serve(Site::script("a.php", code), &fastcgi, json!({}));
        let response = server.get("/a.php?do=redirect");
        assert_eq!((response.status, response.field("Location")), (302, Some("/there")), "{name}");
        let response = server.get("/a.php?do=missing");
        assert_eq!((response.status, response.text().as_str()), (404, "no"), "{name}");
        let large = server.get("/a.php?do=large");
        assert_eq!(large.text(), "0123456789abcdef".repeat(65536 * 4), "{name}");
        assert_eq!(server.get("/a.php?do=slow").text(), "012", "{name}");
        assert_eq!(server.get("/a.php?do=log").text(), "logged", "{name}");
        assert_eq!(server.get("/a.php?do=length").text(), "abc", "{name}");
        let mut client = server.connect();
        client.send("HEAD /a.php?do=missing HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head_response().status, 404, "{name}");
        client.send("GET /a.php?do=short HTTP/1.1\r\nHost: a\r\n\r\n");
        let cut = String::from_utf8_lossy(&client.everything()).into_owned();
        assert!(cut.contains("Content-Length: 9\r\n") && cut.ends_with("abc"), "{name}: {cut}");
        server.wait_for_log("something to log");
    }
}

#[test]
fn bodies_of_every_length_stay_one_request() {
    // Records that would begin a request of their own, if a length wrapped.
    let forged =
        b"\x01\x01\0\x01\0\x08\0\0\0\x01\0\0\0\0\0\0\x01\x04\0\x01\0\x0e\0\0\x09\x03PHP_VALUEa=b";
    let code = "$b = file_get_contents('php://input'); echo strlen($b), ' ', md5($b);";
    for (name, fastcgi) in servers() {
        let server = serve(Site::script("a.php", code), &fastcgi, json!({}));
        for len in [1, 65_534, 65_535, 65_536, 99_000, 200_000, 5_000_000] {
            let body: Vec<u8> = forged.iter().copied().cycle().take(len).collect();
            let response = server.post("/a.php", "application/octet-stream", &body);
            let text = response.text();
            assert!(text.starts_with(&format!("{len} ")), "{name}, {len}: {response:?}");
            let mut client = server.connect();
            client.send("POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in body.chunks(50_000) {
                client.send(format!("{:x}\r\n", piece.len())).send(piece).send("\r\n");
            }
            client.send("0\r\n\r\n");
            assert_eq!(client.response().text(), text, "{name}: chunked");
        }
        let long = "x".repeat(7000);
        let fields: String = (0..12).map(|n| format!("X-{n}: {long}\r\n")).collect();
        let request = format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let limits = json!({"settings": {"http": {"large_header_buffers": 64}}});
        let server =
            serve(Site::script("a.php", "echo strlen($_SERVER['HTTP_X_11']);"), &fastcgi, limits);
        assert_eq!(server.send(&request).text(), "7000", "{name}: parameters above 64 KiB");
    }
}

#[test]
fn parameters_can_be_added_replaced_and_left_out() {
    let code = "echo $_SERVER['APP'] ?? '-', ' ', $_SERVER['SERVER_SOFTWARE'], ' ',
        $_SERVER['REMOTE_PORT'] ?? '-', ' ', ini_get('memory_limit');";
    let fastcgi = fpm(&Socket::Unix(128), 1, "");
    let params = json!({"applications": {"site": {"params": {
        "APP": "for $host", "SERVER_SOFTWARE": "other", "REMOTE_PORT": "",
        "PHP_VALUE": "memory_limit=77M",
    }}}});
    let server = serve(Site::script("a.php", code), &fastcgi, params);
    let response = server.send("GET /a.php HTTP/1.1\r\nHost: example.org\r\n\r\n");
    assert_eq!(response.text(), "for example.org other - 77M");
    // No field of a request becomes one of them.
    let response = server.send(
        "GET /a.php HTTP/1.1\r\nHost: a\r\nPHP-VALUE: memory_limit=1G\r\nPHP_VALUE: \
               memory_limit=1G\r\n\r\n",
    );
    assert_eq!(response.text(), "for a other - 77M");
}

#[test]
fn only_scripts_that_exist_are_run() {
    for (name, fastcgi) in servers() {
        let site = Site::script("a.php", "echo 'ran';").file("picture.jpg", "<?php echo 'ran';");
        let server = serve_paths(site, &fastcgi, json!({}));
        assert_eq!(server.get("/a.php").text(), "ran", "{name}");
        for path in ["/picture.jpg", "/picture.jpg/x.php", "/picture.jpg/", "/none.php", "/a.PHP"] {
            let response = server.get(path);
            assert_eq!(response.status, 404, "{name}, {path}: {response:?}");
        }
    }
}

#[test]
fn a_burst_beyond_the_backlog_waits() {
    let fastcgi = fpm(&Socket::Unix(16), 2, "");
    let code = "usleep(2000); echo 'served';";
    let server = serve(Site::script("a.php", code), &fastcgi, json!({}));
    let mut clients: Vec<_> = (0..400).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "served"), "{response:?}");
    }
}

#[test]
fn what_the_queue_has_no_room_for_is_refused_with_a_time_to_come_back() {
    let fastcgi = fpm(&Socket::Unix(16), 1, "");
    let code = "$data = __DIR__ . '/../data'; touch(\"$data/begun\");
        while (!file_exists(\"$data/go\")) { usleep(2000); clearstatcache(); } echo 'served';";
    for (queue_timeout, others, refused, why) in [
        (600, 4, 2, "the queue is full"),
        (1, 2, 2, "no connection was free within the queue's time limit"),
    ] {
        let limits = json!({"applications": {"site": {"limits": {
            "connections": 1, "queue": 2, "queue_timeout": queue_timeout,
        }}}});
        let server = serve(Site::script("a.php", code), &fastcgi, limits);
        let mut first = server.connect();
        first.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("it runs", || server.site.data().join("begun").exists().then_some(()));
        std::thread::scope(|scope| {
            let (told, heard) = mpsc::channel();
            for _ in 0..others {
                let (server, told) = (&server, told.clone());
                scope.spawn(move || told.send(server.get("/a.php")));
            }
            let hear = || heard.recv_timeout(patience()).expect("there is an answer");
            for response in (0..refused).map(|_| hear()) {
                assert_eq!(response.status, 503, "{response:?}");
                assert!(response.field("Retry-After").is_some(), "{response:?}");
            }
            std::fs::write(server.site.data().join("go"), "").unwrap();
            for response in (refused..others).map(|_| hear()) {
                assert_eq!(response.text(), "served", "{response:?}");
            }
        });
        assert_eq!(first.response().text(), "served");
        server.wait_for_log(why);
    }
}

#[test]
fn a_server_that_is_not_there_or_says_nonsense_is_a_502() {
    let listener = harness::free_listener();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        for answer in [
            &b"HTTP/1.1 200 OK\r\n\r\n"[..],
            b"\x01\x06\0\x02\0\x01\0\0a",
            b"\x01\x06\0\x01\0\x05\0\0A: b\n\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
            b"\x01\x06\0\x01\0\x0c\0\0Status: abc\n\n",
            b"",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(answer);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let site = Site::script("a.php", "");
    let root = site.root();
    let server = site
        .with(json!({"applications": null}))
        .with(
            json!({"applications": {"site": {"type": "fastcgi", "server": address, "root": root}}}),
        )
        .serve();
    for _ in 0..5 {
        assert_eq!(server.get("/a.php").status, 502);
    }
    thread.join().unwrap();
    assert_eq!(server.get("/a.php").status, 502, "nobody listens");
    server.wait_for_log("cannot connect");
    server.wait_for_log("it does not answer with FastCGI records");
}

#[test]
fn a_slow_client_holds_no_process() {
    let code = "echo str_repeat('x', (int) ($_GET['n'] ?? 1));";
    let fastcgi = fpm(&Socket::Unix(128), 1, "");
    let server = serve(Site::script("a.php", code), &fastcgi, json!({}));
    let mut slow: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send("GET /a.php?n=20000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    assert_eq!(server.get("/a.php").text(), "x", "the only process is free");
    for client in &mut slow {
        assert_eq!(client.response().text().len(), 20_000_000);
    }
}

#[test]
fn kept_connections_starve_nobody() {
    let fastcgi = fpm(&Socket::Unix(128), 2, "");
    let keepalive = json!({"applications": {"site": {"keepalive": 2}}});
    let code = "echo $_SERVER['REQUEST_METHOD'], ' ', getmypid();";
    let server = serve(Site::script("a.php", code), &fastcgi, keepalive);
    std::thread::scope(|scope| {
        for thread in 0..20 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for n in 0..20 {
                    let method = if (thread + n) % 3 == 0 { "POST" } else { "GET" };
                    let length = if method == "POST" { "Content-Length: 1\r\n" } else { "" };
                    let body = if method == "POST" { "x" } else { "" };
                    client
                        .send(format!("{method} /a.php HTTP/1.1\r\nHost: a\r\n{length}\r\n{body}"));
                    let response = client.response();
                    assert!(response.text().starts_with(method), "{response:?}");
                }
            });
        }
    });
}

#[test]
fn php_cgi_takes_uploads_and_keeps_sessions_over_both_sockets() {
    let code = "session_save_path(__DIR__ . '/../data'); session_start();
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; $file = $_FILES['f'] ?? null;
        echo $_SESSION['n'], ' ', $file['name'] ?? '-', ' ', $file['error'] ?? '-', ' ',
            $file ? md5_file($file['tmp_name']) : '-', ' ', $_POST['a'] ?? '-';";
    let file = b"\0\x01\xff\r\n--".repeat(200_000);
    let mut form = b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx y\r\n--b\r\n\
        Content-Disposition: form-data; name=\"f\"; filename=\"f.bin\"\r\n\r\n"
        .to_vec();
    form.extend_from_slice(&file);
    form.extend_from_slice(b"\r\n--b--\r\n");
    for socket in [Socket::Unix(128), Socket::Tcp] {
        let fastcgi = cgi_at(&socket, 2, 0);
        let server = serve(Site::script("a.php", code), &fastcgi, json!({}));
        let first = server.get("/a.php");
        assert_eq!(first.text(), "1 - - - -");
        let cookie = first.field("Set-Cookie").and_then(|set| set.split(';').next()).unwrap();
        let length = form.len();
        let mut client = server.connect();
        client.send(format!(
            "POST /a.php HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nContent-Length: {length}\r\n\
             Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        ));
        let again = client.send(&form).response();
        assert_eq!(again.text(), format!("2 f.bin 0 e73b7af8efc3df77eca265930cd5e321 x y"));
    }
}

#[test]
fn processes_of_php_cgi_that_end_are_lost_with_nothing_but_their_own_request() {
    let code = "if (isset($_GET['die'])) { posix_kill(getmypid(), 9); sleep(60); }
        if (isset($_GET['fatal'])) { ini_set('display_errors', '0'); none(); }
        echo getmypid();";
    for keepalive in [0, 2] {
        // Each of them ends after three requests.
        let fastcgi = cgi_at(&Socket::Unix(128), 2, 3);
        let changes = json!({"applications": {"site": {"keepalive": keepalive}}});
        let server = serve(Site::script("a.php", code), &fastcgi, changes);
        let mut client = server.connect();
        let mut processes = std::collections::BTreeSet::new();
        for _ in 0..24 {
            let response = client.get("/a.php");
            assert_eq!(response.status, 200, "keepalive {keepalive}: {response:?}");
            processes.insert(response.text());
        }
        assert!(processes.len() >= 8, "{processes:?}");
        for _ in 0..3 {
            assert_eq!(client.get("/a.php?fatal").status, 500);
            assert_eq!(server.get("/a.php?die").status, 502);
            let response = client.get("/a.php");
            assert_eq!(response.status, 200, "keepalive {keepalive}: {response:?}");
        }
    }
}

#[test]
fn a_status_beyond_599_comes_through_every_server() {
    let code = "header('HTTP/1.1 700 Own Words'); echo 'a body';";
    for (name, fastcgi) in servers() {
        let server = serve(Site::script("a.php", code), &fastcgi, json!({}));
        let response = server.get("/a.php");
        assert_eq!((response.status, response.text().as_str()), (700, "a body"), "{name}");
    }
}
