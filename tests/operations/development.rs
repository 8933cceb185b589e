//! `howdah serve DIR` for development.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use harness::client::{Client, Response};
use harness::{Server, Site, eventually, free_address, open_to_all, processes, requirements};
use rustix::process::Signal;

#[test]
fn each_request_is_a_line_of_the_output_that_clients_cannot_forge() {
    let site = Site::script("index.php", "http_response_code($_GET['status'] ?? 200);");
    let site = site.workers(1).argument("--dev");
    let site_root = site.root();
    let (address, output) = (free_address(), site.data().join("output"));
    let mut command = site.command(&address.to_string());
    let file = File::create(&output).unwrap();
    let mut child = command.stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let text = || fs::read_to_string(&output).unwrap();
    eventually("it serves", || text().contains("Serving ").then_some(()));
    for (method, target) in [("GET", "/cart?a=1"), ("POST", "/?status=503"), ("GET", "/\x1b[31m")] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        Client::connect(address).send(request).response();
    }
    let lines = eventually("the requests are shown", || {
        let text = text();
        let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Serving ")).collect();
        (lines.len() >= 4).then(|| lines[1..].join("\n"))
    });
    let script = site_root.join("index.php").display().to_string();
    let shown = lines.lines().find(|line| line.starts_with("200 GET /cart?a=1 0."));
    assert!(shown.is_some_and(|line| line.ends_with(&format!(" s {script}"))), "{lines}");
    assert!(lines.contains("503 POST /?status=503 "), "{lines}");
    assert!(!lines.contains('\x1b'), "{lines}");
    processes::signal(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
}

/// Asks for a page as a browser does that shows it.
fn shown(server: &Server, target: &str) -> Response {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Dest: document\r\n\
         Connection: close\r\n\r\n"
    );
    server.send(request)
}

/// Opens the stream that a page has opened, and reads up to its first message.
fn events(server: &Server) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let request = "GET /-/reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    wait_for_line(&mut stream, "data:");
    stream
}

fn wait_for_line(stream: &mut BufReader<TcpStream>, expected: &str) {
    let mut line = String::new();
    while line.trim_end() != expected {
        line.clear();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ends before {expected:?}");
    }
}

#[test]
fn pages_are_reloaded_when_a_file_changes_and_nothing_else_is_changed() {
    let site = Site::script("index.php", "echo '<p>old</p>';").file("a.html", "<p>file</p>");
    let site = site.file("a.json", "{}").argument("--watch");
    let root = site.root();
    let server = site.serve();
    let script = "<script src=\"/-/reload.js\" async></script>";
    for target in ["/", "/a.html"] {
        let page = shown(&server, target);
        assert!(page.text().trim_end().ends_with(script), "{target}: {page:?}");
        // As a script of the page gets it.
        let part = server.connect().get(target);
        assert!(part.status == 200 && !part.text().contains("script"), "{target}: {part:?}");
    }
    assert_eq!(shown(&server, "/a.json").text(), "{}");
    let file = shown(&server, "/-/reload.js");
    assert_eq!(file.field("content-type"), Some("text/javascript"), "{file:?}");
    assert!(file.text().contains("/-/reload?"), "{file:?}");

    let mut stream = events(&server);
    fs::write(root.join("data.sqlite"), "what the application writes is no change").unwrap();
    fs::write(root.join("index.php"), "<?php echo '<p>new</p>';").unwrap();
    wait_for_line(&mut stream, "event: reload");
    // The process ends with the server.
    let (status, _site) = server.end(Signal::TERM);
    assert!(status.success());
    eventually("the stream ends", || {
        let mut line = String::new();
        (stream.read_line(&mut line).unwrap_or(0) == 0).then_some(())
    });
}

#[test]
fn pages_of_worker_mode_are_reloaded_when_the_new_code_runs() {
    let site = Site::new().file("composer.json", r#"{"require": {"laravel/framework": "*"}}"#);
    let code = |number: u32| format!("<?php return '<p>code {number}</p>';");
    let site = site.file("app/page.php", code(1)).file("public/index.php", "");
    let worker = "<?php $page = require __DIR__ . '/../app/page.php'; usleep(300000);
        while (frankenphp_handle_request(function () use ($page) { echo $page; }));";
    let site = site.file("public/frankenphp-worker.php", worker).file("artisan", "");
    let page = site.root().join("app/page.php");
    let server = site.argument("--worker").argument("--watch").serve();
    let text = || shown(&server, "/").text();
    eventually("the application runs", || text().contains("code 1").then_some(()));
    let mut stream = events(&server);
    fs::write(page, code(2)).unwrap();
    wait_for_line(&mut stream, "event: reload");
    assert!(text().contains("code 2"), "{}", text());
}

/// Sends a message that tries to run scripts where it is read, and notes requests that these make.
const HOSTILE_MAIL: &str = r#"
    if (str_contains($_SERVER['REQUEST_URI'], 'owned')) touch(__DIR__ . '/owned');
    if ($_SERVER['REQUEST_URI'] !== '/send') exit('of the site');
    $run = "document.title = 'owned'; parent.document.title = 'owned'; fetch('/owned'); top.location = '/owned'";
    $html = "<p>Gr=C3=BC=C3=9Fe</p><script>$run</script><img src=3D/owned onerror=3D\"$run\">"
        . '<svg onload=3D"' . $run . '"></svg><form action=3D/owned><button autofocus onfocus=3D"this.click()">x</button></form>'
        . '<meta http-equiv=3Drefresh content=3D"0;url=3D/owned"><iframe src=3D/owned></iframe><link rel=3Dstylesheet href=3D/owned>';
    $head = ['From' => '"</dd><script>' . $run . '</script>" <a@example.org>', 'MIME-Version' => '1.0',
        'Content-Type' => 'text/html; charset=utf-8', 'Content-Transfer-Encoding' => 'quoted-printable'];
    var_dump(mail('c@example.org', '=?UTF-8?Q?Gr=C3=BC=C3=9Fe?=', "First\nFrom the second line\n"));
    var_dump(mail('b@example.org', '<img src=/owned onerror="' . $run . '">', $html, $head));"#;

#[test]
fn mail_is_on_a_page_that_other_sites_and_the_messages_themselves_cannot_use() {
    let site = Site::script("index.php", HOSTILE_MAIL).argument("--mail-to").argument("page");
    let owned = site.root().join("owned");
    open_to_all(&site.root(), 0o777);
    let server = site.serve();
    assert!(server.announcement.contains("/-/mail/, in browsers"), "{}", server.announcement);
    let sent = server.connect().get("/send");
    assert_eq!(sent.text(), "bool(true)\nbool(true)\n", "{}", server.log());
    let ask = |host: &str, target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        server.send(head)
    };
    let page = ask("localhost:8080", "/-/mail/");
    let policy = page.field("content-security-policy").unwrap_or_default();
    assert!(page.status == 200 && policy.starts_with("default-src 'none'; "), "{page:?}");
    assert_eq!(ask("localhost", "/-/mail").status, 301);
    let messages = ask("shop.localhost", "/-/mail/messages");
    assert!(messages.text().contains("\n>From the second line\n"), "{messages:?}");
    // A name of another site that leads to this machine (DNS rebinding).
    for target in ["/-/mail/", "/-/mail/messages"] {
        assert_eq!(ask("evil.example", target).text(), "of the site");
    }

    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let known = Command::new(name).arg("--version").stdout(Stdio::null()).status();
        known.is_ok_and(|status| status.success())
    });
    let Some(browser) = browser else { return requirements::skipped("there is no Chromium") };
    let address = server.address;
    let profile = tempfile::tempdir().unwrap();
    let shown = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--virtual-time-budget=9000", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--host-resolver-rules=MAP mail.localhost {}", address.ip()))
        .arg(format!("http://mail.localhost:{}/-/mail/", address.port()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&shown.stdout);
    assert!(dom.contains("<title>Mail</title>") && dom.contains("Gr\u{fc}\u{df}e"), "{dom}");
    assert!(dom.contains("&lt;img src=/owned onerror="), "{dom}");
    assert!(dom.contains("<iframe sandbox=\"allow-popups"), "{dom}");
    assert!(!owned.exists(), "{dom}");
    ask("localhost", "/owned");
    assert!(owned.exists(), "the site would have noted it");
}
