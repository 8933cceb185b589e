//! Which file a URL means: attacks on PHP dispatch and on the document root, over sockets.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::time::patience;
use harness::{Ends, Server, Site};
use serde_json::json;

/// The content of every script and every file that looks like one; no response may have it.
const SOURCE: &str = "SECRET-SOURCE";

/// A script that says that it ran and whose source can be told from its output.
fn script() -> String {
    format!("<?php /* {SOURCE} */ echo 'RAN:', $_SERVER['SCRIPT_NAME'];")
}

/// Fails if the answer shows source, or if something ran.
fn assert_neither_run_nor_shown(server: &Server, target: &str) {
    let response = server.get(target);
    let text = response.text();
    assert!(matches!(response.status, 400 | 403 | 404), "{target}: {response:?}");
    assert!(!text.contains(SOURCE) && !text.contains("RAN:/"), "{target}: {response:?}");
}

#[test]
fn what_follows_a_picture_in_the_path_never_makes_it_run() {
    let picture = format!("GIF89a{}", script());
    let server = Site::new()
        .file("app.php", script())
        .file("upload/a.jpg", &picture)
        .file("upload/b", &picture)
        .serve();
    for target in [
        "/upload/a.jpg/x.php",
        "/upload/a.jpg%00.php",
        "/upload/a.jpg/.php",
        "/upload/a.jpg%20/x.php",
        "/upload/a.jpg/%00.php",
        "/upload/a.jpg%0a.php",
        "/upload/a.jpg;.php",
        "/upload/b/x.php",
        "/upload/a.jpg/..%2fx.php",
    ] {
        assert_neither_run_nor_shown(&server, target);
    }
    let response = server.get("/upload/a.jpg?x.php");
    assert_eq!((response.status, response.text()), (200, picture), "a picture is only sent");
}

#[test]
fn a_front_controller_gets_what_is_no_file_and_nothing_else_runs() {
    let server = Site::script("index.php", "echo 'front ', $_SERVER['SCRIPT_FILENAME'];")
        .file("upload/a.jpg", script())
        .serve();
    let front = format!("front {}", server.site.root().join("index.php").display());
    for target in ["/upload/a.jpg/x.php", "/upload/a.jpg;.php", "/upload/none.php"] {
        let response = server.get(target);
        assert!(
            response.status == 404 || response.text() == front,
            "{target}: {response:?}, expected {front}"
        );
    }
}

#[test]
fn a_space_or_nul_within_the_target_is_refused() {
    let server = Site::new().file("a.jpg ", script()).file("a.php", script()).serve();
    for target in ["/a.jpg \0.php", "/a.jpg\0.php", "/a.jpg .php", "/a.jpg \0"] {
        let response = server.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(response.status, 400, "{target:?}: {response:?}");
    }
    assert_neither_run_nor_shown(&server, "/a.jpg%20%00.php");
}

#[test]
fn path_info_is_exact_at_every_length_of_the_query() {
    let code = "echo json_encode([$_SERVER['PATH_INFO'], strlen($_SERVER['QUERY_STRING'])]);";
    let server = Site::script("i.php", code).serve();
    let workers = server.workers();
    let mut client = server.connect();
    for length in (0..64).chain(1600..1900) {
        client.send(format!("GET /i.php/%0a?{:q<length$} HTTP/1.1\r\nHost: a\r\n\r\n", ""));
        let response = client.response();
        assert_eq!(response.text(), format!("[\"\\/\\n\",{length}]"), "{response:?}");
    }
    let response = client.get("/i.php/a%0d%0aX-Evil:1/%0a");
    assert_eq!(response.text(), "[\"\\/a\\r\\nX-Evil:1\\/\\n\",0]");
    assert_eq!(response.field("X-Evil"), None);
    assert_eq!(server.workers(), workers, "no worker has died of it");
}

#[test]
fn look_alikes_of_php_never_run_and_show_nothing() {
    let names = [
        "a.\u{ff50}\u{ff48}\u{ff50}",
        "a\u{fe52}php",
        "a.\u{24df}\u{24d7}\u{24df}",
        // Its lower case has another length, which has misled servers about where ".php" is.
        "a.\u{23a}\u{23a}.php.",
        "a.phP",
        "a.PHP",
    ];
    let mut site = Site::new().file("app.php", script());
    for name in names {
        site = site.file(name, script());
    }
    let server = site.serve();
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_neither_run_nor_shown(&server, &format!("/{encoded}"));
        assert_neither_run_nor_shown(&server, &format!("/{encoded}/x.php"));
    }
    for target in ["/%C8%BA%C8%BAx.txt.php", "/app.txt%EF%BC%8Ephp", "/app.p%68p%E2%80%8B"] {
        assert_neither_run_nor_shown(&server, target);
    }
    assert_eq!(server.get("/app.p%68p").text(), "RAN:/app.php", "encoded, it is the same name");
}

/// Requests that have made servers send a script's source.
fn disclosing_targets() -> Vec<&'static str> {
    vec![
        "/app.php",
        "/app.PHP",
        "/app.php.",
        "/app.php%20",
        "/app.php~",
        "/app.phps",
        "/app.php/",
        "/app.php%00",
        "/app.php%2e",
        "/app.php::$DATA",
        "/app%2ephp",
        "/./app.php",
        "//app.php",
        "/x/../app.php",
        "/app.php?-s",
        "/app.php;x",
        "/dir/",
        "/dir",
        "/linked.txt.php",
        "/app.php.bak",
        "/app.php.gz",
    ]
}

fn disclosing_requests(target: &str) -> Vec<String> {
    let fields = [
        "",
        "Range: bytes=0-200\r\n",
        "Accept-Encoding: gzip, br, zstd\r\n",
        "If-Range: \"x\"\r\nRange: bytes=-50\r\n",
        "If-None-Match: \"x\"\r\n",
        "Translate: f\r\n",
        "Accept: application/x-httpd-php-source\r\n",
    ];
    let request = |method: &str, fields: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n")
    };
    let mut all: Vec<_> = fields.iter().map(|fields| request("GET", fields)).collect();
    all.extend(["HEAD", "PUT", "PROPFIND", "OPTIONS", "TRACE"].map(|method| request(method, "")));
    all
}

fn disclosing_site() -> Site {
    Site::new()
        .file("app.php", script())
        .file("app.php~", script())
        .file("app.phps", script())
        .file("app.php.bak", script())
        .file("dir/index.php", script())
        .workers(1)
}

#[test]
fn source_is_never_sent_whatever_is_asked_for_and_how() {
    let server = disclosing_site().serve();
    for target in disclosing_targets() {
        for request in disclosing_requests(target) {
            let answer = server.connect().send(&request).everything();
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with("HTTP/1.1 "), "{request:?}: {answer:?}");
            assert!(!answer.contains(SOURCE) && !answer.contains("<?php"), "{request:?}: {answer}");
        }
    }
}

#[test]
fn source_is_not_sent_while_php_is_out_of_order() {
    let server = disclosing_site().serve();
    let end = Instant::now() + Duration::from_secs(2);
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = Ends(&ending);
        scope.spawn(|| {
            while !ending.load(Ordering::Relaxed) {
                for process in server.processes() {
                    if process.title.ends_with("prototype") {
                        harness::processes::signal(process.pid, rustix::process::Signal::KILL);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut failed = 0;
        for target in disclosing_targets().into_iter().cycle() {
            let answer = server.get(target);
            assert!(!answer.text().contains(SOURCE), "{target}: {answer:?}");
            failed += u32::from(matches!(answer.status, 502 | 503));
            let time_is_over = Instant::now() > end;
            if time_is_over && failed > 0 || Instant::now() > end + patience() {
                break;
            }
        }
        drop(ended);
        assert!(failed > 0, "PHP was out of order");
    });
}

#[test]
fn a_query_string_is_never_an_argument_of_php() {
    let code = "echo json_encode([$_SERVER['QUERY_STRING'], $_SERVER['argv'] ?? null,
        ini_get('allow_url_include'), ini_get('auto_prepend_file')]);";
    let server = Site::script("a.php", code).serve();
    for query in [
        "-s",
        "-d+allow_url_include=1+-d+auto_prepend_file=php://input",
        "-d+allow_url_include%3d1",
        "--version",
        "%AD-s",
        "%ADd+allow_url_include%3d1+%ADd+auto_prepend_file%3dphp://input",
    ] {
        let response = server.post(&format!("/a.php?{query}"), "text/plain", "<?php die('evil');");
        let found: serde_json::Value = serde_json::from_str(&response.text()).unwrap();
        assert_eq!(found[0], query);
        assert_eq!(found[1], serde_json::Value::Null);
        assert!(matches!(found[2].as_str(), Some("" | "0")), "{found}");
        assert_eq!(found[3], "", "{found}");
    }
}

/// Prints the values that a script finds under the names that a request may try to set.
const VARIABLES: &str = "
    $names = ['REDIRECT_STATUS', 'SCRIPT_FILENAME', 'SCRIPT_NAME', 'PHP_VALUE', 'PHP_ADMIN_VALUE',
        'DOCUMENT_ROOT', 'REMOTE_USER', 'REMOTE_ADDR', 'HTTPS', 'PATH_INFO', 'AUTH_TYPE',
        'REQUEST_METHOD', 'QUERY_STRING', 'CONTENT_LENGTH', 'CONTENT_TYPE', 'SERVER_NAME',
        'HTTP_PROXY', 'http_proxy', 'PATH', 'LD_PRELOAD', 'PHPRC', 'PHP_INI_SCAN_DIR', 'TMPDIR'];
    foreach ($names as $name) {
        $found[$name] = [$_SERVER[$name] ?? null, getenv($name), getenv($name, true)];
    }
    $found['memory'] = ini_get('memory_limit');
    echo json_encode($found);";

fn hostile_fields() -> String {
    let names = [
        "REDIRECT_STATUS",
        "REDIRECT-STATUS",
        "SCRIPT_FILENAME",
        "SCRIPT-FILENAME",
        "SCRIPT-NAME",
        "PHP_VALUE",
        "PHP-VALUE",
        "PHP_ADMIN_VALUE",
        "PHP-ADMIN-VALUE",
        "DOCUMENT_ROOT",
        "DOCUMENT-ROOT",
        "REMOTE_USER",
        "REMOTE-USER",
        "Remote.User",
        "REMOTE-ADDR",
        "HTTPS",
        "PATH-INFO",
        "AUTH-TYPE",
        "REQUEST-METHOD",
        "QUERY-STRING",
        "SERVER-NAME",
        "PATH",
        "LD-PRELOAD",
        "PHPRC",
        "PHP-INI-SCAN-DIR",
        "TMPDIR",
        "X-HTTPS",
        "FRONT-END-HTTPS",
    ];
    names.iter().map(|name| format!("{name}: memory_limit=1G\r\n")).collect()
}

#[test]
fn no_header_sets_a_variable_of_the_server() {
    let server = Site::script("a.php", VARIABLES).serve();
    let ask = |fields: &str| {
        server
            .send(format!("GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"))
            .text()
    };
    assert_eq!(ask(&hostile_fields()), ask(""));
}

#[test]
fn a_proxy_header_is_not_the_environment() {
    let server = Site::script("a.php", VARIABLES).serve();
    let plain = server.get("/a.php").text();
    for name in ["Proxy", "PROXY", "proxy", "http_proxy", "HTTP-PROXY", "HTTP_PROXY"] {
        let response = server.send(format!(
            "GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{name}: evil:1\r\n\r\n"
        ));
        let found: serde_json::Value = serde_json::from_str(&response.text()).unwrap();
        assert_eq!(found["HTTP_PROXY"], json!([null, false, false]), "{name}");
        assert_eq!(found["http_proxy"], json!([null, false, false]), "{name}");
        assert_eq!(response.text(), plain, "{name}");
    }
}

#[test]
fn no_field_passes_for_another_by_folding_its_name() {
    let code = "ksort($_SERVER); foreach ($_SERVER as $name => $value)
        if (str_starts_with($name, 'HTTP_')) echo $name, '=', $value, ';';";
    let server = Site::script("a.php", code).serve();
    let response = server.send(
        "GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 1\r\n\
         X_Forwarded_For: 2\r\nX.Forwarded.For: 3\r\nRemote.User: 4\r\nRemote_User: 5\r\n\
         X-Forwarded_For: 6\r\nX'Y: 7\r\nX~Y: 8\r\n\r\n",
    );
    assert_eq!(response.text(), "HTTP_CONNECTION=close;HTTP_HOST=a;HTTP_X_FORWARDED_FOR=1;");
}

#[test]
fn no_path_leads_out_of_the_root() {
    let site = Site::new().file("img/a.txt", "inside").file("a.php", script());
    fs::write(site.root().with_file_name("secret.txt"), SOURCE).unwrap();
    fs::write(site.root().with_file_name("secret.php"), script()).unwrap();
    let server = site.serve();
    let ups = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "..%00",
        ".%00.",
        "%c0%ae%c0%ae",
        "%252e%252e",
        "%uff0e%uff0e",
        ". .",
        "..;",
        "...",
    ];
    let slashes = ["/", "%2f", "%5c", "\\", "//", "%c0%af", "%252f", "/./"];
    for up in ups {
        for slash in slashes {
            for start in ["/", "/img", "/img/"] {
                for name in ["secret.txt", "secret.php", "data/", "etc/passwd"] {
                    let path = format!("{start}{up}{slash}{up}{slash}{name}").replace(' ', "%20");
                    let response = server.get(&path);
                    let text = response.text();
                    assert!(
                        !text.contains(SOURCE)
                            && !text.contains("RAN:/")
                            && !text.contains("root:"),
                        "{path}: {response:?}"
                    );
                    let refused = matches!(response.status, 400 | 403 | 404);
                    assert!(refused, "{path}: {response:?}");
                }
            }
        }
    }
    for target in ["/img../secret.txt", "/img../www/a.php", "http://a/../secret.txt", "/.."] {
        let response = server.get(target);
        assert!(matches!(response.status, 400 | 403 | 404), "{target}: {response:?}");
    }
    assert_eq!(server.get("/img/../img/%2e/a.txt").text(), "inside", "within the root it may");
}

#[test]
fn a_link_that_is_swapped_all_the_time_never_leads_out() {
    // Each file is asked for once, so that no answer comes out of the cache.
    const FILES: usize = 5000;
    let site = Site::new();
    for (directory, contents) in [("www/real", "inside"), ("outside", SOURCE)] {
        let directory = site.root().with_file_name("").join(directory);
        fs::create_dir(&directory).unwrap();
        (0..FILES).for_each(|n| fs::write(directory.join(n.to_string()), contents).unwrap());
    }
    let root = site.root();
    let share = json!({
        "share": format!("{}$uri", root.display()),
        "chroot": format!("{}/", root.display()),
    });
    let server = site.with(json!({"routes": [{"action": share}], "applications": {}})).serve();
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = Ends(&ending);
        scope.spawn(|| {
            let (link, new) = (root.join("link"), root.join("new"));
            while !ending.load(Ordering::Relaxed) {
                for target in ["real", "../outside"] {
                    symlink(target, &new).unwrap();
                    fs::rename(&new, &link).unwrap();
                }
            }
        });
        let mut client = server.connect();
        let mut sent = 0;
        for n in 0..FILES {
            let response = client.get(&format!("/link/{n}"));
            assert!(!response.text().contains(SOURCE), "{response:?}");
            sent += u32::from(response.status == 200);
        }
        drop(ended);
        assert!(sent > 0, "the link was followed where it may be");
    });
}

#[test]
fn dot_files_are_hidden_in_every_spelling() {
    let mut site = Site::new().file("a.php", script());
    let names = [".htaccess", ".htpasswd", ".user.ini", ".git/config", ".env", "dir/.env.local"];
    for name in names {
        site = site.file(name, SOURCE);
    }
    let server = site.serve();
    for name in names {
        let encoded = name.replace('.', "%2e");
        let fully: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let upper = name.to_uppercase();
        for spelling in [name, &encoded, &fully, &upper, &format!("./{name}"), &format!("/{name}")]
        {
            assert_neither_run_nor_shown(&server, &format!("/{spelling}"));
            assert_neither_run_nor_shown(&server, &format!("/{spelling}/x.php"));
            assert_neither_run_nor_shown(&server, &format!("/{spelling}?a.php"));
        }
    }
}

#[test]
fn copies_of_scripts_are_not_sent_as_text() {
    let names = [
        "a.php~",
        "a.php.bak",
        "a.phps",
        "a.PHP",
        "a.php.old",
        "a.php.orig",
        "a.php.save",
        "a.php.swp",
        ".a.php.swp",
        "#a.php#",
        "a.php.1",
        "a.php_",
        "a.php.dist",
        "a.inc.php~",
    ];
    let mut site = Site::new().file("a.php", script());
    for name in names {
        site = site.file(name, script());
    }
    let server = site.serve();
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_neither_run_nor_shown(&server, &format!("/{encoded}"));
    }
}

#[test]
fn a_site_that_is_served_without_configuration_runs_no_uploaded_script() {
    let server = Site::new()
        .file("wp-load.php", "")
        .file("index.php", "<?php echo 'front';")
        .file("wp-content/uploads/2026/evil.php", script())
        .file("wp-content/uploads/2026/index.php", script())
        .file("wp-content/uploads/2026/photo.txt", "a photo")
        .file("wp-content/plugins/x/tool.php", script())
        .serve();
    for target in [
        "/wp-content/uploads/2026/evil.php",
        "/wp-content/uploads/2026/evil.php/a.css",
        "/wp-content/uploads//2026/./evil.ph%70",
        "/wp-content/plugins/../uploads/2026/evil.php",
    ] {
        let response = server.get(target);
        assert_eq!(response.status, 403, "{target}: {response:?}");
        assert!(!response.text().contains("RAN:") && !response.text().contains(SOURCE), "{target}");
    }
    assert_eq!(server.get("/wp-content/uploads/2026/").text(), "front");
    assert_eq!(server.get("/wp-content/uploads/2026/photo.txt").text(), "a photo");
    assert_eq!(server.get("/wp-content/plugins/x/tool.php").status, 200);
    assert!(server.announcement.contains("closed: no PHP is run in wp-content/uploads"));
}

#[test]
fn a_site_with_composer_beside_its_index_keeps_its_databases_and_packages() {
    let server = Site::new()
        .file("composer.json", "{}")
        .file("index.php", "<?php echo 'front';")
        .file("data/site.sqlite", SOURCE)
        .file("vendor/autoload.php", script())
        .file("vendor/composer/installed.json", SOURCE)
        .file("vendor/acme/grid/grid.css", "p {}")
        .serve();
    for target in [
        "/data/site.sqlite",
        "/composer.json",
        "/vendor/autoload.php",
        "/vendor/composer/installed.json",
    ] {
        let response = server.get(target);
        assert_eq!(response.status, 403, "{target}: {response:?}");
        assert!(!response.text().contains(SOURCE), "{target}: {response:?}");
    }
    assert_eq!(server.get("/").text(), "front");
    assert_eq!(server.get("/vendor/acme/grid/grid.css").text(), "p {}");
}
