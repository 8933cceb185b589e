//! HTTP with scripts behind it: connections that are kept, bodies both ways, output as it comes.

use std::time::Duration;

use harness::client::Response;
use harness::time::Stopwatch;
use harness::{Site, eventually, processes};
use serde_json::json;

const ECHO: &str = "echo $_SERVER['REQUEST_METHOD'], '|', $_SERVER['QUERY_STRING'], '|',
    $_SERVER['CONTENT_LENGTH'] ?? 'none', '|', file_get_contents('php://input');";

fn site() -> Site {
    Site::script("a.php", ECHO).file("a.txt", "some file")
}

// -- connections --

#[test]
fn a_connection_serves_many_requests_to_files_and_scripts() {
    let server = site().serve();
    let mut client = server.connect();
    for n in 0..50 {
        let response = client.get(&format!("/a.php?{n}"));
        assert_eq!(response.text(), format!("GET|{n}||"));
        assert_ne!(response.field("Connection"), Some("close"));
        assert_eq!(client.get("/a.txt").text(), "some file");
    }
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().field("Connection"), Some("close"));
    assert!(client.is_closed());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = site().workers(2).serve();
    let mut client = server.connect();
    let mut requests = String::new();
    for n in 0..40 {
        requests += &match n % 4 {
            0 => format!("GET /a.php?{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            2 => format!("POST /a.php?{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
            _ => format!(
                "POST /a.php?{n} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 4\r\nbody\r\n0\r\n\r\n"
            ),
        };
    }
    client.send(&requests);
    for n in 0..40 {
        let expected = match n % 4 {
            0 => format!("GET|{n}||"),
            1 => "some file".to_owned(),
            _ => format!("POST|{n}|4|body"),
        };
        assert_eq!(client.response().text(), expected);
    }
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = site().serve();
    let mut client = server.connect();
    for byte in b"POST /a.php?slow HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyGET /a.txt \
                  HTTP/1.1\r\nHost: a\r\n\r\n"
    {
        client.send([*byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.response().text(), "POST|slow|4|body");
    assert_eq!(client.response().text(), "some file");
}

#[test]
fn old_clients_are_answered_and_the_connection_ends() {
    let server = site().serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.0\r\n\r\n");
    let response = client.response();
    assert_eq!((response.text().as_str(), response.field("Transfer-Encoding")), ("GET|||", None));
    assert!(client.is_closed());
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().field("Connection"), Some("keep-alive"));
    assert_eq!(client.get("/a.txt").text(), "some file");
}

#[test]
fn head_has_the_fields_of_get_and_no_body() {
    let server = site()
        .file("stream.php", "<?php header('X-A: b'); echo 'x'; flush(); echo 'y';")
        .with(json!({}))
        .serve();
    let mut client = server.connect();
    for target in ["/a.php", "/stream.php", "/a.txt", "/none", "/a.php?x"] {
        let get = client.get(target);
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.head_response();
        assert_eq!(head.status, get.status, "{target}");
        for (name, value) in &get.fields {
            if name != "Date" {
                assert_eq!(head.field(name), Some(value.as_str()), "{target}: {name}");
            }
        }
    }
    assert_eq!(client.get("/a.txt").text(), "some file", "nothing is left on the connection");
}

// -- bodies --

#[test]
fn chunked_bodies_reach_a_script_whole_and_with_their_length() {
    let server = site().serve();
    let mut client = server.connect();
    let mut expected = String::new();
    let mut body = String::new();
    for n in 1..300 {
        let piece = format!("{n:x}").repeat(n);
        body += &format!("{:X};n={n}\r\n{piece}\r\n", piece.len());
        expected += &piece;
    }
    client.send("POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n");
    client.send(body + "0\r\nX-Trailer: y\r\n\r\n");
    assert_eq!(client.response().text(), format!("POST||{}|{expected}", expected.len()));
    assert_eq!(client.get("/a.txt").text(), "some file");
}

#[test]
fn the_length_of_output_is_told_if_the_script_has_told_it() {
    let code = "$n = (int) $_GET['n']; if (isset($_GET['told'])) header(\"Content-Length: $n\");
        echo str_repeat('x', $n);";
    let server = Site::script("a.php", code).with(json!({})).serve();
    let mut client = server.connect();
    for n in [1, 5000, 100_000] {
        let framing = |response: &Response| {
            let field = |name| response.field(name).map(str::to_owned);
            assert_eq!(response.body.len(), n);
            (field("Content-Length"), field("Transfer-Encoding"))
        };
        let (length, chunked) = (Some(n.to_string()), Some("chunked".to_owned()));
        assert_eq!(framing(&client.get(&format!("/a.php?n={n}"))), (None, chunked));
        assert_eq!(framing(&client.get(&format!("/a.php?n={n}&told"))), (length.clone(), None));
        // An old client knows no chunks; its connection stays where the length is known.
        let mut old = server.connect();
        for _ in 0..2 {
            old.send(format!("GET /a.php?n={n} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
            let (told, chunked) = framing(&old.response());
            assert_eq!((told.as_ref(), chunked), (length.as_ref(), None));
        }
    }
    assert_eq!(client.get("/a.php?n=0").field("Content-Length"), Some("0"));
}

#[test]
fn output_of_unknown_length_is_chunked() {
    let code = "for ($n = 0; $n < 200; $n++) { echo str_repeat(chr(97 + $n % 26), 997); flush(); }";
    let server = Site::script("a.php", code).with(json!({})).serve();
    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.get("/a.php");
        assert_eq!(response.field("Transfer-Encoding"), Some("chunked"));
        assert!(!response.cut && response.body.len() == 200 * 997);
        let right = |(at, byte): (usize, &u8)| *byte == b'a' + (at / 997 % 26) as u8;
        assert!(response.body.iter().enumerate().all(right));
    }
    client.send("GET /a.php HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().body.len(), 200 * 997, "an old client gets it until the end");
}

#[test]
fn methods_other_than_get_and_post_reach_scripts_with_their_bodies() {
    let server = site().serve();
    let mut client = server.connect();
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "X-OWN", "GET"] {
        client
            .send(format!("{method} /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"));
        assert_eq!(client.response().text(), format!("{method}||4|body"));
    }
}

#[test]
fn a_client_that_expects_100_is_told_to_go_on_before_it_sends() {
    let server = site().serve();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send(
            "POST /a.php HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        );
        assert_eq!(client.response().status, 100);
        client.send("body");
        assert_eq!(client.response().text(), "POST||4|body");
    }
    // Without waiting for it.
    client.send(
        "POST /a.php HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
    );
    let mut response = client.response();
    if response.status == 100 {
        response = client.response();
    }
    assert_eq!(response.text(), "POST||4|body");
    client.send("POST /a.php HTTP/1.1\r\nHost: a\r\nExpect: more\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.response().status, 417);
}

#[test]
fn what_is_beyond_the_limits_is_refused_with_the_status_that_says_so() {
    let server = site()
        .with(json!({"settings": {"http": {
            "max_body_size": 1000, "body_read_timeout": 3, "header_read_timeout": 3,
            "chunked_transform": false,
        }}}))
        .serve();
    let long = "x".repeat(9000);
    let cases = [
        ("POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n".to_owned(), 413),
        (format!("GET /a.php?{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET /a.php HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        ("POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), 411),
        ("POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nbod".to_owned(), 408),
        ("GET /a.php HTTP/1.1\r\nHost".to_owned(), 408),
        ("GET /a.php HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        ("GET /a.php HTTP/1.1\r\nHost: a\r\nno field\r\n\r\n".to_owned(), 400),
        ("nonsense\r\n\r\n".to_owned(), 400),
    ];
    for (request, status) in cases {
        let mut client = server.connect();
        client.send(&request);
        assert_eq!(client.response().status, status, "{:?}", &request[..40.min(request.len())]);
        assert!(client.is_closed(), "{status} ends the connection");
    }
    // In one piece, as its time is short.
    let head = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
    let whole = server.send(format!("{head}{}", "x".repeat(1000)));
    assert_eq!(whole.status, 200, "a body at the limit");
}

#[test]
fn a_chunked_body_beyond_the_limit_is_refused_while_it_comes() {
    let server = site().with(json!({"settings": {"http": {"max_body_size": 100_000}}})).serve();
    let mut client = server.connect();
    client.send("POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let piece = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for _ in 0..40 {
        if client.try_send(&piece).is_err() {
            break;
        }
    }
    assert_eq!(client.response().status, 413);
}

#[test]
fn a_large_upload_takes_disk_and_no_memory() {
    const SIZE: u64 = 300 << 20;
    let code =
        "$f = $_FILES['f']; echo $f['error'], ' ', $f['size'], ' ', filesize($f['tmp_name']),
        ' ', memory_get_peak_usage() < 8 << 20 ? 'little' : memory_get_peak_usage(), ' ', \
        $_POST['after'];";
    let server = Site::script("a.php", code)
        .workers(1)
        .with(json!({
            "settings": {"http": {"max_body_size": 1u64 << 30}},
            "applications": {"site": {"options": {"admin": {
                "upload_max_filesize": "1G", "post_max_size": "1G",
            }}}},
        }))
        .serve();
    let memory = || -> u64 {
        let all = server.processes();
        all.iter().map(|process| processes::private_memory(process.pid)).sum()
    };
    server.workers();
    let before = memory();
    let start = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n";
    let end = "\r\n--B\r\nContent-Disposition: form-data; name=\"after\"\r\n\r\nlast\r\n--B--\r\n";
    let length = start.len() as u64 + SIZE + end.len() as u64;
    let mut client = server.connect();
    client.send(format!(
        "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\
         Content-Type: multipart/form-data; boundary=B\r\n\r\n{start}"
    ));
    let piece = vec![0; 1 << 20];
    let mut most = 0;
    for n in 0..SIZE >> 20 {
        client.send(&piece);
        if n % 50 == 0 {
            most = most.max(memory());
        }
    }
    client.send(end);
    // The worker reads it now.
    std::thread::sleep(Duration::from_millis(100));
    most = most.max(memory());
    assert_eq!(client.response().text(), format!("0 {SIZE} {SIZE} little last"));
    most = most.max(memory());
    assert!(most < before + (24 << 20), "all processes grew from {before} to {most} bytes");
}

#[test]
fn a_large_answer_goes_through_a_slow_client_whole() {
    const SIZE: usize = 20 << 20;
    let code = format!(
        "for ($n = 0; $n < {}; $n++) echo hash('sha512', (string) $n, true);
         file_put_contents(getenv('DATA') . '/done', '1');",
        SIZE / 64
    );
    let server = Site::script("a.php", &code)
        .file("b.php", "<?php echo 'b';")
        .workers(1)
        .with(json!({}))
        .serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    // The worker is free long before the answer is read.
    eventually("the script has ended", || (server.data("done") == "1").then_some(()));
    assert_eq!(server.get("/b.php").text(), "b");
    let answer = client.response();
    let again = server.get("/a.php");
    assert!(answer.body.len() == SIZE && answer.body == again.body, "{}", answer.body.len());
}

// -- output as it comes --

#[test]
fn what_a_script_flushes_arrives_before_the_script_ends() {
    let code = "header('Content-Type: text/event-stream'); header('X-Accel-Buffering: no');
        for ($n = 0; $n < 3; $n++) {
            echo \"data: $n\\n\\n\"; flush();
            while (!file_exists(getenv('DATA') . \"/go$n\")) { usleep(2000); clearstatcache(); }
        }
        echo 'data: end';";
    let server = Site::script("a.php", code).with(json!({})).serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    for n in 0..3 {
        // The script waits for this client to have seen it.
        client.wait_for(&format!("data: {n}\n\n"));
        std::fs::write(server.site.data().join(format!("go{n}")), "").unwrap();
    }
    assert!(client.response().text().ends_with("data: end"));
}

#[test]
fn early_hints_arrive_before_the_answer() {
    let code = "header('Link: </a.css>; rel=preload'); headers_send(103);
        while (!file_exists(getenv('DATA') . '/go')) { usleep(2000); clearstatcache(); }
        header('Link: </b.css>; rel=preload'); header('X-Final: 1'); echo 'answer';";
    let server = Site::script("a.php", code).with(json!({})).serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let early = client.response();
    assert_eq!((early.status, early.field("Link")), (103, Some("</a.css>; rel=preload")));
    assert_eq!(early.field("X-Final"), None);
    std::fs::write(server.site.data().join("go"), "").unwrap();
    let answer = client.response();
    assert_eq!((answer.status, answer.text().as_str()), (200, "answer"));
    assert_eq!(answer.field("Link"), Some("</b.css>; rel=preload"));
    // HTTP/1.0 knows no interim responses.
    let old = server.connect().send("GET /a.php HTTP/1.0\r\n\r\n").response();
    assert_eq!(old.status, 200);
}

#[test]
fn an_answer_may_end_before_its_script() {
    let code = "echo 'answer'; fastcgi_finish_request();
        while (!file_exists(getenv('DATA') . '/go')) { usleep(2000); clearstatcache(); }
        echo 'nobody sees this'; file_put_contents(getenv('DATA') . '/done', '1');";
    let server = Site::script("a.php", code).workers(1).with(json!({})).serve();
    let mut client = server.connect();
    assert_eq!(client.get("/a.php").text(), "answer");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    assert_eq!(client.get("/a.php").text(), "answer", "after the first one has ended");
    assert_eq!(server.data("done"), "1");
}

#[test]
fn an_answer_to_a_body_that_is_still_coming_does_not_break_the_connection() {
    let server = site().serve();
    let mut client = server.connect();
    client.send("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n");
    let begun = Stopwatch::start();
    assert_eq!(client.response().status, 404);
    assert!(begun.elapsed() < Duration::from_secs(20), "it does not wait for the body");
    let _ = client.try_send([b'x'; 30000]);
    let _ = client.try_send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    if let Some(next) = client.next_response() {
        assert_eq!(next.text(), "some file");
    }
}

/// Scenario: a script names a protected file for the server, and names the browser's further files
/// early.
#[test]
fn an_early_hint_has_only_fields_that_the_final_response_could_have() {
    let code = "header('Link: </a.css>; rel=preload'); header('X-Accel-Redirect: /secret');
        header('X-Sendfile: /srv/secret'); header('X-Powered-By: PHP'); header('X-Own: 1');
        headers_send(103); header_remove('X-Accel-Redirect'); header_remove('X-Sendfile'); echo \
        'ok';";
    let worker = format!("while (frankenphp_handle_request(function () {{ {code} }}));");
    for (code, is_worker) in [(code, false), (&*worker, true)] {
        let action =
            json!({"pass": "applications/site", "response_headers": {"X-Powered-By": null}});
        let server = Site::script("index.php", code)
            .with(json!({"routes": null}))
            .with(json!({"routes": [{"action": action}]}))
            .with(json!({"applications": {"site": {"script": "index.php", "worker": is_worker}}}))
            .serve();
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let early = client.response();
        let names: Vec<_> = early.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((early.status, names), (103, vec!["Link", "X-Own"]));
        assert_eq!(client.response().text(), "ok");
    }
}
