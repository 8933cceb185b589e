//! `.htaccess` files as a user meets them: `serve DIR`, warnings, `check`, and changes while
//! clients are served.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use harness::{Site, eventually, programs, requirements};
use serde_json::{Value, json};

pub(super) const FRONT: &str = "<?php echo 'front ', $_SERVER['REQUEST_URI'];";

pub(super) fn site() -> Site {
    Site::new()
        .file("index.php", FRONT)
        .file("data/.htaccess", "Require all denied\n")
        .file("data/app.txt", "secret")
        .file("open/a.txt", "open")
        .file(".env", "SECRET=1")
        .file("open/.git/config", "[core]")
        .file(".well-known/security.txt", "contact")
        .file("open/config.php.bak", "<?php $password = 1;")
}

#[test]
fn a_directory_with_such_files_is_served_under_them() {
    let server = site().serve();
    assert_eq!(server.get("/data/app.txt").status, 403);
    assert_eq!(server.get("/open/a.txt").text(), "open");
    // Names that Apache would send.
    for hidden in ["/.env", "/open/.git/config", "/open/%2egit/config", "/open/config.php.bak"] {
        let response = server.get(hidden);
        assert!(response.status >= 400, "{hidden}: {}", response.text());
    }
    assert_eq!(server.get("/.well-known/security.txt").text(), "contact");
    // Paths that name no file still go to the script.
    assert_eq!(server.get("/no/such/page?a=1").text(), "front /no/such/page?a=1");
    assert_eq!(server.get("/").text(), "front /");
}

/// Scenario: `Alias /blog /srv/blog` with `AllowOverride All`.
#[test]
fn a_share_below_a_prefix_obeys_its_files() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond \
                 %{REQUEST_FILENAME} !-d\nRewriteRule . front.php [L]\n";
    let script = "<?php echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'], ' ', \
                  $_SERVER['PATH_INFO'] ?? '-';";
    let site = Site::new()
        .file(".htaccess", rules)
        .file("front.php", script)
        .file("a.txt", "text")
        .file("data/.htaccess", "Require all denied\n")
        .file("data/app.txt", "secret")
        .file("dir/index.html", "index")
        .file("blog/b.txt", "nested");
    let root = site.root().display().to_string();
    let server = site
        .with(json!({"routes": [
            {"match": {"uri": ["/blog", "/blog/*"]}, "action": {
                "share": format!("{root}$uri"), "prefix": "/blog", "htaccess": true,
                "scripts": "applications/site",
            }},
            {"action": {"return": 410}},
        ]}))
        .serve();
    for _ in 0..2 {
        assert_eq!(server.get("/blog/a.txt").text(), "text");
        assert_eq!(server.get("/blog/blog/b.txt").text(), "nested");
        assert_eq!(server.get("/blog/dir/").text(), "index");
        for closed in
            ["/blog/data/app.txt", "/blog/data/", "/blog/.htaccess", "/blog/./data/app.txt"]
        {
            assert_eq!(server.get(closed).status, 403, "{closed}");
        }
    }
    for (path, to) in
        [("/blog", "/blog/"), ("/blog?a=b", "/blog/?a=b"), ("/blog/dir", "/blog/dir/")]
    {
        let response = server.get(path);
        let location = response.field("location").unwrap_or_default();
        assert!(response.status == 301 && location.ends_with(to), "{path}: {location}");
    }
    assert_eq!(server.get("/blog/no/such?q").text(), "/blog/front.php /blog/no/such?q -");
    assert_eq!(server.get("/blog/front.php/x").text(), "/blog/front.php /blog/front.php/x /x");
    for other in ["/a.txt", "/blogs/a.txt", "/data/app.txt", "/blog/../data/app.txt"] {
        assert_eq!(server.get(other).status, 410, "{other}");
    }
}

#[test]
fn uploads_of_wordpress_run_no_script_whatever_an_uploaded_file_of_rules_says() {
    let rules = "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\n\
                 RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    let uploads = "wp-content/uploads";
    let server = Site::new()
        .file("index.php", FRONT)
        .file("wp-load.php", "")
        .file(".htaccess", rules)
        .file(&format!("{uploads}/a.txt"), "picture")
        .file(&format!("{uploads}/evil.php"), "<?php echo 'run';")
        .file(&format!("{uploads}/evil.phtml"), "<?php echo 'run';")
        .file(&format!("{uploads}/x/.htaccess"), "AddType application/x-httpd-php .jpg\n")
        .file(&format!("{uploads}/x/evil.jpg"), "<?php echo 6 * 7;")
        .serve();
    assert_eq!(server.get(&format!("/{uploads}/a.txt")).text(), "picture");
    assert_ne!(server.get(&format!("/{uploads}/x/evil.jpg")).text(), "42");
    // A missing one has the page of the site, as a rule of the root says.
    let missing = format!("/{uploads}/none.jpg");
    assert_eq!(server.get(&missing).text(), format!("front {missing}"));
    for name in ["evil.php", "evil.phtml", "evil.PHP/x", "evil.phtml/x"] {
        let response = server.get(&format!("/{uploads}/{name}"));
        assert!(response.status == 403 && !response.text().contains("<?php"), "{name}");
    }
}

#[test]
fn the_source_of_scripts_is_never_sent_and_handlers_of_a_former_host_run_them() {
    const SECRET: &str = "<?php echo 'ran'; /* SECRET */";
    let rules = "<FilesMatch \"\\.(php|phtml)$\">\nSetHandler \
                 application/x-lsphp51\n</FilesMatch>\nAddHandler application/x-httpd-ea-php82 \
                 .php7\n";
    let site = Site::new()
        .file(".htaccess", rules)
        .file("index.php", SECRET)
        .file("config.php", SECRET)
        .file("old.php7", SECRET)
        .file(
            "off/.htaccess",
            "php_flag engine off\nOptions +MultiViews\nErrorDocument 404 /off/a.php\n",
        )
        .file("off/a.php", SECRET)
        .file("off/b.php5", SECRET)
        .file("off/c.pht", SECRET)
        .file("off/d.php_", SECRET)
        .file("off/E.PHP", SECRET)
        .file("off/f.inc", SECRET)
        .file("types/.htaccess", "<Files *>\nSetHandler text/plain\n</Files>\n")
        .file("types/index.php", SECRET);
    for name in ["a.php", "f.inc"] {
        symlink(name, site.root().join(format!("off/{name}.link.txt"))).unwrap();
    }
    let settings = json!({ "scripts": "\\.(ph(ar|p|tml)|inc)$" });
    let document = json!({
        "routes": [{ "action": { "pass": "applications/site" } }],
        "applications": { "site": { "htaccess": settings } },
    });
    let server = site.with(document).serve();
    for path in ["/", "/config.php", "/config.php/x", "/old.php7"] {
        assert_eq!(server.get(path).text(), "ran", "{path}: {}", server.log());
    }
    let log = server.log();
    assert_eq!(log.matches("application/x-lsphp51\" of another server").count(), 1, "{log}");
    assert!(log.contains("it means PHP 5.1: set"), "{log}");
    for path in [
        "a.php",
        "a",
        "a.php?x",
        "a.php/x",
        "%61.php",
        "b.php5",
        "c.pht",
        "d.php_",
        "E.PHP",
        "f.inc",
        "a.php.link.txt",
        "f.inc.link.txt",
        "none",
        "../types/",
        "../types/index.php",
    ] {
        for method in ["GET", "HEAD", "POST", "OPTIONS"] {
            let mut client = server.connect();
            client.send(format!(
                "{method} /off/{path} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\nContent-Length: \
                 0\r\nConnection: close\r\n\r\n"
            ));
            let answer = client.everything();
            let text = String::from_utf8_lossy(&answer);
            assert!(!text.contains("<?php") && !text.contains("SECRET"), "{method} {path}: {text}");
            assert!(!text.contains("ran"), "{method} {path}: {text}");
        }
    }
}

#[test]
fn closed_directories_stay_closed_for_rules_index_files_negotiation_and_error_documents() {
    // WordPress's own rules for a network in subdirectories.
    let rules = "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
                 RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} \
                 -d\nRewriteRule ^ - [L]\nRewriteRule \
                 ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]\nRewriteRule \
                 ^([_0-9a-zA-Z-]+/)?(.*\\.php)$ $2 [L]\nRewriteRule . index.php \
                 [L]\nErrorDocument 403 /wp-content/uploads/shell.php\n";
    const SHELL: &str = "<?php echo 'EXECUTED';";
    let uploads = "wp-content/uploads";
    let server = Site::new()
        .file("index.php", FRONT)
        .file("wp-load.php", "")
        .file(".htaccess", rules)
        .file(&format!("{uploads}/a.txt"), "picture")
        .file(&format!("{uploads}/shell.php"), SHELL)
        .file(&format!("{uploads}/db.sqlite"), "SQLITE")
        .file(
            &format!("{uploads}/x/.htaccess"),
            "AddType application/x-httpd-php .jpg\nOptions \
                                                  +MultiViews\nDirectoryIndex shell.jpg \
                                                  ../db.sqlite\n",
        )
        .file(&format!("{uploads}/x/shell.jpg"), SHELL)
        .file(&format!("{uploads}/x/db.sqlite"), "SQLITE")
        .file("data.sqlite", "SQLITE")
        .serve();
    for path in [
        "shell.php",
        "shell.php/x",
        "db.sqlite",
        "x/shell.jpg",
        "x/",
        "x/db.sqlite",
        "x/db",
        "x/shell",
    ] {
        for way in ["", "blog/", "blog//"] {
            let path = format!("/{way}{uploads}/{path}");
            let response = server.get(&path);
            assert_eq!(response.status, 403, "{path}: {}", response.text());
            assert!(!response.text().contains("EXECUTED") && !response.text().contains("SQLITE"));
        }
    }
    assert_eq!(server.get(&format!("/blog/{uploads}/a.txt")).text(), "picture");
    let missing = format!("/{uploads}/none.jpg");
    assert_eq!(server.get(&missing).text(), format!("front {missing}"));
}

#[test]
fn redirects_and_scripts_have_the_port_that_clients_know() {
    const PORT: &str = "<?php echo $_SERVER['SERVER_PORT'], ' ', $_SERVER['HTTPS'] ?? 'off';";
    let rules = "RewriteEngine On\nRewriteRule ^old$ /new [R]\nRedirect /moved /new\n\
                 RewriteCond %{SERVER_PORT} !^443$\nRewriteRule ^secure$ /to-https [R]\n";
    let site = Site::new()
        .file(".htaccess", rules)
        .file("port.php", PORT)
        .file("admin/index.html", "admin")
        .file("secure", "secure");
    let sockets = ["a", "b"].map(|name| site.data().join(format!("{name}.sock")));
    let forwarded = json!({ "source": "unix", "protocol": "X-Forwarded-Proto" });
    let address = |index: usize| format!("unix:{}", sockets[index].display());
    let listener =
        |to: &str| json!({ "pass": format!("applications/{to}"), "forwarded": forwarded });
    let root = site.root().display().to_string();
    let plain = json!({ "type": "php", "root": root });
    let server = site
        .with(json!({
            "listeners": { address(0): listener("plain"), address(1): listener("site") },
            "routes": [{ "action": { "pass": "applications/site" } }],
            "applications": { "site": { "htaccess": true }, "plain": plain },
        }))
        .serve();
    let ask = |mut stream: Box<dyn ReadWrite>, target: &str, fields: &str| {
        let request = format!("GET {target} HTTP/1.0\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let tcp = || Box::new(TcpStream::connect(server.address).unwrap());
    let host = "Host: example.org\r\n";
    for path in ["/admin", "/old", "/moved"] {
        let answer = ask(tcp(), path, host);
        assert!(answer.contains("Location: http://example.org/"), "{path}: {answer}");
        let answer = ask(tcp(), path, "Host: example.org:8080\r\n");
        assert!(answer.contains("Location: http://example.org:8080/"), "{path}: {answer}");
    }
    assert!(ask(tcp(), "/secure", host).contains("/to-https"));
    assert!(ask(tcp(), "/port.php", host).ends_with("80 off"));
    assert!(ask(tcp(), "/port.php", "").ends_with("80 off"));
    assert!(ask(tcp(), "/port.php", "Host: example.org:8080\r\n").ends_with("8080 off"));
    for socket in &sockets {
        let connect = || Box::new(UnixStream::connect(socket).unwrap());
        assert!(ask(connect(), "/port.php", host).ends_with("80 off"));
        let https = format!("{host}X-Forwarded-Proto: https\r\n");
        assert!(ask(connect(), "/port.php", &https).ends_with("443 on"));
    }
    let https = format!("{host}X-Forwarded-Proto: https\r\n");
    let answer = ask(Box::new(UnixStream::connect(&sockets[1]).unwrap()), "/old", &https);
    assert!(answer.contains("Location: https://example.org/new"), "{answer}");
    let answer = ask(Box::new(UnixStream::connect(&sockets[1]).unwrap()), "/secure", &https);
    assert!(answer.ends_with("\r\n\r\nsecure"), "{answer}");
}

/// A connection.
trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

#[test]
fn names_with_a_dot_in_front_are_hidden_under_directives() {
    let server = site()
        .file(
            ".htaccess",
            "RewriteEngine On\nRewriteRule ^env$ /.env [L]\nErrorDocument 404 /.env\n",
        )
        .file(".well-known/.secret", "SECRET=1")
        .file(".d/run.php", "<?php echo 'SECRET=1';")
        .with(json!({
            "routes": [{ "action": { "pass": "applications/site" } }],
            "applications": { "site": { "htaccess": true } },
        }))
        .serve();
    for path in [
        "/.env",
        "/env",
        "/open/.git/config",
        "/none",
        "/.well-known/.secret",
        "/.d/run.php",
        "/.git/",
        "/%2eenv",
    ] {
        let response = server.get(path);
        assert_eq!(response.status, 404, "{path}");
        assert!(
            !response.text().contains("SECRET") && !response.text().contains("[core]"),
            "{path}"
        );
    }
    assert_eq!(server.get("/.htaccess").status, 403);
    assert_eq!(server.get("/.well-known/security.txt").text(), "contact");
}

#[test]
fn a_file_that_is_not_read_and_denies_access_is_named_at_the_start() {
    let server = site().argument("--no-htaccess").serve();
    assert_eq!(server.get("/data/app.txt").text(), "secret");
    let log = server.log();
    assert!(log.contains("data/.htaccess: line 1 (Require all denied) denies access"), "{log}");
    // A document, too.
    let server = site().with(json!({})).serve();
    let log = server.log();
    assert!(log.contains("set \"htaccess\": true"), "{log}");
}

/// WordPress's own file, which a front controller of the document replaces.
#[test]
fn a_file_that_is_not_read_and_rewrites_is_noted_where_the_document_does_not() {
    let rules = "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteRule . /index.php [L]\n";
    let site = Site::script("index.php", "echo 1;").file(".htaccess", rules);
    let root = site.root();
    let share = json!({"share": format!("{}$uri", root.display()), "scripts": "applications/a"});
    let note = format!(
        "howdah: note: {}: line 3 (RewriteRule . /index.php [L]) ",
        root.join(".htaccess").display()
    );
    let has_note = |share: &Value, application: Value| {
        let file = site.data().join("document.json");
        let document = json!({
            "listeners": {"127.0.0.1:1": {"pass": "routes"}},
            "routes": [{"action": share}],
            "applications": {"a": application},
        });
        fs::write(&file, document.to_string()).unwrap();
        let (is_valid, text) = check(&file);
        assert!(is_valid, "{text}");
        text.contains(&note)
    };
    let plain = json!({"type": "php", "root": root});
    assert!(has_note(&share, plain.clone()));
    let mut with_fallback = share.clone();
    with_fallback["fallback"] = json!({"pass": "applications/a"});
    assert!(!has_note(&with_fallback, plain));
    assert!(!has_note(&share, json!({"type": "php", "root": root, "htaccess": true})));
}

fn check(path: &Path) -> (bool, String) {
    let output = programs::run(Command::new(programs::howdah()).arg("check").arg(path));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn check_names_errors_and_what_is_not_read_with_file_and_line() {
    let site =
        site().file("a/.htaccess", "<IfModule mod_security2.c>\nSecRuleEngine Off\n</IfModule>\n");
    let (is_valid, text) = check(&site.root());
    assert!(is_valid && text.contains("2 .htaccess files are valid"), "{text}");
    assert!(text.contains("a/.htaccess: line 1: <IfModule mod_security2.c> is not read"), "{text}");
    let site =
        site.file("b/.htaccess", "# a comment\nRewriteRule\n").file("c/.htaccess", "Foo bar\n");
    let (is_valid, text) = check(&site.root());
    assert!(!is_valid, "{text}");
    assert!(text.contains("b/.htaccess: line 2: RewriteRule: bad argument line"), "{text}");
    assert!(text.contains("c/.htaccess: line 1: Invalid command 'Foo'"), "{text}");
}

#[test]
fn a_file_of_rules_that_root_has_linked_to_another_directory_is_read() {
    if !requirements::is_root() {
        return;
    }
    // As in Debian's package of WordPress.
    let site = Site::new().file("index.php", FRONT).file("a.txt", "a");
    let elsewhere = site.data().join("elsewhere/wordpress");
    fs::create_dir_all(&elsewhere).unwrap();
    let rules = "<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\nHeader set X-A b\n\
                 <FilesMatch php$>\nSetHandler application/x-lsphp84\n</FilesMatch>\n";
    fs::write(elsewhere.join("htaccess"), rules).unwrap();
    symlink(elsewhere.join("htaccess"), site.root().join(".htaccess")).unwrap();
    let (is_valid, text) = check(&site.root());
    assert!(
        is_valid && text.contains("line 6: application/x-lsphp84 is PHP of another server"),
        "{text}"
    );
    assert!(text.contains("it means PHP 8.4") && !text.contains("mod_authz_core"), "{text}");
    let server = site.serve();
    let response = server.get("/a.txt");
    assert_eq!((response.status, response.field("X-A")), (200, Some("b")), "{}", server.log());
}

/// Scenario: Debian's package of WordPress has `.htaccess` as a link of root's to
/// `/etc/wordpress/htaccess`. The router may open no file there by itself.
#[test]
fn a_link_of_root_opens_the_sandbox_for_its_own_directory_alone() {
    if !requirements::is_root() {
        return;
    }
    let etc = || {
        let made = tempfile::Builder::new().prefix("howdah-test-").tempdir_in("/etc").unwrap();
        harness::open_to_all(made.path(), 0o755);
        fs::write(made.path().join("htaccess"), "Header set X-A b\n").unwrap();
        made
    };
    let (granted, other) = (etc(), etc());
    let site = Site::new().file("a.txt", "a").file("sub/a.txt", "a");
    symlink(granted.path().join("htaccess"), site.root().join(".htaccess")).unwrap();
    // Only files of rules in the roots of shares are looked for.
    symlink(other.path().join("htaccess"), site.root().join("sub/.htaccess")).unwrap();
    let server = site.serve();
    let response = server.get("/a.txt");
    assert_eq!((response.status, response.field("X-A")), (200, Some("b")), "{}", server.log());
    // As packages replace it.
    fs::write(granted.path().join("new"), "Header set X-A c\n").unwrap();
    fs::rename(granted.path().join("new"), granted.path().join("htaccess")).unwrap();
    eventually("the new file is read", || {
        (server.get("/a.txt").field("X-A") == Some("c")).then_some(())
    });
    let response = server.get("/sub/a.txt");
    assert_eq!((response.status, response.field("X-A")), (403, None), "{}", server.log());
}

#[test]
fn explain_names_the_rule_the_line_and_the_answer() {
    let site = Site::new().file("index.php", FRONT).file("private/.htaccess", "Deny from all\n")
        .file(
        ".htaccess",
        "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteRule . /index.php [L]\nHeader set X-A b\n",
    );
    let explain = |target: &str| {
        let mut command = Command::new(programs::howdah());
        let output =
            programs::run(command.args(["htaccess", "explain"]).arg(site.root()).arg(target));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let text = explain("/a/page?b=c");
    for part in [
        "line 2: RewriteRule ^index\\.php$ does not match \"a/page\"",
        "line 4: RewriteRule . matches \"a/page\"",
        "the request goes on as /index.php?b=c",
        "QUERY_STRING \"b=c\"",
        "X-A: b",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Every directive that had an effect, and no other.
    let effects = text.split("directives with an effect:\n").nth(1).unwrap();
    let lines: Vec<_> =
        effects.lines().map(|line| line.rsplit_once("/.htaccess:").unwrap_or_default().1).collect();
    assert_eq!(
        lines,
        [
            "1: RewriteEngine On",
            "2: RewriteRule ^index\\.php$ - [L]",
            "4: RewriteRule . /index.php [L]",
            "5: Header set X-A b",
        ]
    );
    assert!(explain("/private/x").contains("private/.htaccess:1: Deny from all"));
    let text = explain("/private/x");
    assert!(text.contains("access is refused with 403"), "{text}");
    assert!(explain("page").contains("is no path"));
}
