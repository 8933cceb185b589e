//! Slow requests: the log says which they are and where their scripts are.

use harness::{Server, Site, eventually};
use serde_json::json;

/// Calls through every kind of frame, and stays there for six seconds: three beyond the limit,
/// which is long enough for a busy machine to get there.
const NESTED: &str = r#"<?php
namespace Shop;
class Cart {
    public function total(array $items, ?string $code, int|float $rate = 1.5, ...$more) {
        return array_map(function ($item) {
            return self::wait($item, $nothing);
        }, $items);
    }
    private static function wait(Cart|int $item, mixed &$nothing) {
        if (isset($_GET['compute'])) {
            $end = microtime(true) + 6;
            while (microtime(true) < $end) { $x = sqrt(2); }
        } else {
            $begun = microtime(true);
            usleep(6000000);
            echo microtime(true) - $begun >= 6 ? 'slept' : 'woken';
        }
    }
}
eval('(new Shop\Cart)->total([new Shop\Cart], "x", 2.5, true, [1]);');
"#;

fn slow(limits: serde_json::Value) -> Site {
    let application = json!({"applications": {"site": {"limits": limits}}});
    Site::new().file("a.php", "<?php require 'b.php';").file("b.php", NESTED).with(application)
}

/// The record of a slow request, without the time in front.
fn record(log: &str) -> Option<Vec<String>> {
    let mut lines = log.lines().skip_while(|line| !line.contains(" is slow: "));
    let first = lines.next()?.to_owned();
    let rest = lines.take_while(|line| line.starts_with("    ")).map(|line| line.trim().to_owned());
    Some(std::iter::once(first).chain(rest).collect())
}

#[test]
fn a_slow_request_is_logged_with_its_stack_also_while_it_sleeps_and_is_not_disturbed() {
    let server = slow(json!({"slow": 3})).serve();
    let mut client = server.connect();
    client.send("GET /a.php?sleep HTTP/1.1\r\nHost: a\r\n\r\n");
    let log = server.wait_for_log("{main}");
    let lines = record(&log).unwrap();
    let root = server.site.root();
    let (a, b) = (root.join("a.php"), root.join("b.php"));
    let (a, b) = (a.display(), b.display());
    assert!(lines[0].contains("[warn]"), "{lines:?}");
    assert!(
        lines[0].contains(&format!(": GET /a.php?sleep ({a}): is slow: it waited ")),
        "{lines:?}"
    );
    assert!(lines[0].contains("s and has run "), "{lines:?}");
    let expected = [
        "#0 usleep(int)".to_owned(),
        format!("#1 Shop\\Cart::wait(Shop\\Cart, null) at {b}:15"),
        format!("#2 Shop\\Cart->Shop\\{{closure}}(Shop\\Cart) at {b}:6"),
        "#3 array_map(Closure, array)".to_owned(),
        format!("#4 Shop\\Cart->total(array, string, float, bool, array) at {b}:5"),
        format!("#5 eval() at {b}(20) : eval()'d code:1"),
        format!("#6 include() at {b}:20"),
        format!("#7 {{main}} at {a}:1"),
    ];
    // Its name in PHP 8.4.
    let calls = lines[1..].iter();
    let calls: Vec<_> = calls
        .map(|line| line.replace(r"{closure:Shop\Cart::total():5}", r"Shop\{closure}"))
        .collect();
    assert_eq!(calls, expected, "{log}");
    assert_eq!(client.response().text(), "slept");
    assert_eq!(server.log().matches("is slow").count(), 1, "it is told once");
}

#[test]
fn a_database_that_never_answers_shows_in_the_log_without_configuration() {
    let database = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = database.local_addr().unwrap().port();
    let script = format!(
        "function connect() {{ new mysqli('127.0.0.1', 'a', 'b', 'c', {port}); }} connect();"
    );
    let server = Site::script("a.php", &script).serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let lines = record(&server.wait_for_log("{main}")).unwrap();
    let script = server.site.root().join("a.php");
    assert!(lines[1].starts_with("#0 mysqli->__construct("), "{lines:?}");
    assert!(lines[2].starts_with("#1 connect() at "), "{lines:?}");
    assert!(lines[3].starts_with(&format!("#2 {{main}} at {}:", script.display())), "{lines:?}");
}

#[test]
fn a_script_that_computes_is_found_as_well() {
    let server = slow(json!({"slow": 3})).serve();
    // The script runs on while its trace is read, so one trace may be read in the middle of a
    // change.
    let found = (0..5).any(|_| {
        assert_eq!(server.get("/a.php?compute").status, 200);
        let log = server.wait_for_log("is slow");
        log.contains("include()") && log.contains("Shop\\Cart::wait(Shop\\Cart, null) at ")
    });
    assert!(found, "{}", server.log());
}

#[test]
fn slow_requests_are_counted_and_have_a_log_of_their_own_that_can_be_rotated() {
    let site = Site::script("a.php", "usleep((int) $_GET['us']);");
    let file = site.data().join("slow.log");
    let server =
        site.with(json!({"applications": {"site": {"limits": {"slow": 3, "slow_log": file}}}}));
    let server = server
        .with(json!({"routes": [{"match": {"uri": "/status"},
            "action": {"status": "applications/site"}},
            {"action": {"pass": "applications/site"}}]}))
        .serve();
    assert_eq!(server.get("/a.php?us=6000000").status, 200);
    assert_eq!(server.get("/a.php?us=1000").status, 200);
    let status: serde_json::Value =
        serde_json::from_slice(&server.get("/status?json").body).unwrap();
    assert_eq!(status["slow requests"], 1);
    let text = server.data("slow.log");
    assert!(text.contains("us=6000000") && text.contains("#0 usleep(int)"), "{text}");
    assert!(!server.log().contains("is slow"), "{}", server.log());
    std::fs::rename(&file, file.with_extension("old")).unwrap();
    server.signal(rustix::process::Signal::USR1);
    eventually("the log is opened anew", || file.exists().then_some(()));
    assert_eq!(server.get("/a.php?us=6000001").status, 200);
    assert!(server.data("slow.log").contains("us=6000001"), "{}", server.data("slow.log"));
}

#[test]
fn a_script_whose_time_is_over_is_logged_with_its_stack_before_it_is_ended() {
    let server: Server = slow(json!({"timeout": 3})).serve();
    assert_eq!(server.get("/a.php?sleep").status, 504);
    let log = server.wait_for_log("{main}");
    let record = log
        .split("took longer than applications/site/limits/timeout allows and is ended: it waited")
        .nth(1)
        .unwrap();
    assert!(record.contains("\n    #0 usleep(int)\n    #1 Shop\\Cart::wait"), "{log}");
}

#[test]
fn slow_log_access_log_and_the_log_of_the_server_may_be_one_file() {
    let site = Site::script("a.php", "usleep((int) $_GET['us']); error_log('said');");
    let file = site.root().with_file_name("log");
    let limits = json!({"slow": 3, "slow_log": file});
    let server = site
        .with(json!({"applications": {"site": {"limits": limits}}, "access_log": file}))
        .serve();
    for turn in 1..=2 {
        let target = format!("/a.php?us=600000{turn}");
        assert_eq!(server.get(&target).status, 200);
        let log = server.wait_for_log(&format!("\"GET {target} HTTP/1.1\" 200"));
        let record = record(&log).expect("it was slow");
        assert!(record[0].contains(&target) && record[1] == "#0 usleep(int)", "{log}");
        assert!(log.contains("PHP message: said") || log.contains("): said"), "{log}");
        assert!(log.lines().all(|line| line.starts_with([' ', '1', '2'])), "{log}");
        std::fs::rename(&file, file.with_extension("old")).unwrap();
        server.signal(rustix::process::Signal::USR1);
        eventually("the log is opened anew", || file.exists().then_some(()));
        // The router and its threads follow a moment later.
        let rotated = || {
            let _ = server.get("/none.php");
            server.log().contains("/none.php").then_some(())
        };
        eventually("the access log too", rotated);
    }
}
