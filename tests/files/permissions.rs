//! Files and directories that the server may not open: the answer, and the line with the command
//! that grants access.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use harness::{Server, Site};
use serde_json::json;

/// A site with a front controller, a closed file, a closed script and a closed directory.
fn site() -> Site {
    let site = Site::script("index.php", "echo 'the front page';")
        .file("closed.txt", "closed")
        .file("closed.php", "<?php echo 'closed';")
        .file("closed/file.txt", "closed")
        .file("closed/script.php", "<?php echo 'closed';")
        .file("open.txt", "open");
    for name in ["closed.txt", "closed.php", "closed"] {
        let path = site.root().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }
    site
}

fn lines(server: &Server, text: &str) -> Vec<String> {
    server.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

/// Requests everything that is closed, twice, and checks that each reason is in the log once.
fn check(server: &Server) {
    assert_eq!(server.get("/open.txt").text(), "open");
    let root = server.site.root();
    for _ in 0..2 {
        for path in
            ["/closed.txt", "/closed/file.txt", "/closed/script.php", "/closed/", "/closed.php"]
        {
            let response = server.get(path);
            assert_eq!(response.status, 403, "{path}: {response:?}");
        }
    }
    let file = root.join("closed.txt");
    server.wait_for_log(&format!("{} cannot be opened: the user \"", file.display()));
    let file_lines = lines(server, "closed.txt cannot be opened");
    assert_eq!(file_lines.len(), 1, "{file_lines:?}");
    let end = |rights: &str, path: &str| format!("+{rights} {}", root.join(path).display());
    let line = &file_lines[0];
    assert!(line.contains("\" may not read ") && line.contains(&end("r", "closed.txt")), "{line}");
    let entered = lines(server, "\" may not enter ");
    assert_eq!(entered.len(), 1, "{entered:?}");
    assert!(entered[0].contains(&end("x", "closed")), "{entered:?}");
    let script = server.wait_for_log("Access to the script denied: the user \"");
    assert!(script.contains(&format!("permit it with chmod {}", class(&script))), "{script}");
}

/// Whose permissions count: the server's user owns the files unless root has started it.
fn class(log: &str) -> &'static str {
    if log.contains("chmod u+r") { "u+r" } else { "o+r" }
}

#[test]
fn what_serve_dir_may_not_read_is_403_and_no_page_of_the_front_controller() {
    let server = site().serve();
    assert_eq!(server.get("/nothing").text(), "the front page");
    check(&server);
}

#[test]
fn what_a_site_with_directives_may_not_read_is_403() {
    let rules =
        "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";
    let server = site().file(".htaccess", rules).serve();
    assert_eq!(server.get("/nothing").text(), "the front page");
    check(&server);
}

#[test]
fn a_fallback_is_for_what_is_missing_and_under_unit_for_what_may_not_be_read() {
    for (is_unit, expected) in [(false, 403), (true, 202)] {
        let site = site();
        let share = format!("{}$uri", site.root().display());
        let action = json!({"share": share, "fallback": {"return": 202}});
        let site = site.with(json!({"routes": null})).with(json!({"routes": [{"action": action}]}));
        let server = if is_unit { site.argument("--unit").serve() } else { site.serve() };
        assert_eq!(server.get("/nothing").status, 202);
        assert_eq!(server.get("/closed.txt").status, expected);
        assert_eq!(server.get("/closed/file.txt").status, expected);
        server.wait_for_log("closed.txt cannot be opened: the user \"");
    }
}

#[test]
fn a_try_ends_at_a_file_that_may_not_be_read() {
    let site = site();
    let share = format!("{}$uri", site.root().display());
    let action = json!({"share": share, "try": ["$uri", "/open.txt"]});
    let site = site.with(json!({"routes": null})).with(json!({"routes": [{"action": action}]}));
    let server = site.serve();
    assert_eq!(server.get("/nothing").text(), "open");
    assert_eq!(server.get("/closed.txt").status, 403);
}

/// A `.htaccess` that may not be read, or that may be there: the requests below it are refused.
#[test]
fn directives_that_may_not_be_read_are_in_the_log_once() {
    let site = site().file(".htaccess", "Options -Indexes\n").file("a/file.txt", "a");
    let site = site.file("a/.htaccess", "Options -Indexes\n");
    let directives = site.root().join("a/.htaccess");
    fs::set_permissions(&directives, fs::Permissions::from_mode(0o000)).unwrap();
    let server = site.serve();
    for _ in 0..5 {
        for path in ["/a/file.txt", "/a/", "/a/none", "/closed/file.txt"] {
            assert_eq!(server.get(path).status, 403, "{path}");
        }
    }
    assert_eq!(server.get("/open.txt").text(), "open");
    let log = server.wait_for_log("a/.htaccess cannot be opened: the user \"");
    let of_directives = |line: &&str| line.contains(".htaccess") && line.contains("cannot");
    let found: Vec<_> = log.lines().filter(of_directives).collect();
    assert!(found.len() <= 2, "{found:?}");
    assert_eq!(lines(&server, "a/.htaccess").len(), 1, "{:?}", lines(&server, "a/.htaccess"));
    assert_eq!(lines(&server, "\" may not enter ").len(), 1);
    assert_eq!(lines(&server, "[error]").len(), 2, "{:?}", lines(&server, "[error]"));
    // Permitted, and without a restart: the next request is served.
    fs::set_permissions(&directives, fs::Permissions::from_mode(0o644)).unwrap();
    harness::eventually("the directives are read", || {
        (server.get("/a/file.txt").status == 200).then_some(())
    });
}

/// A site's owner must not get an administrator to open a file of the system.
#[test]
fn a_link_out_of_a_site_is_named_without_a_command_that_opens_its_target() {
    if !harness::requirements::root() {
        return;
    }
    let site = Site::script("index.php", "").file("other/file.txt", "other");
    let other = site.root().join("other");
    let elsewhere = site.data().join("elsewhere");
    fs::rename(&other, &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, site.root().join("linked")).unwrap();
    symlink("/etc/shadow", site.root().join("shadow.txt")).unwrap();
    let server = site.serve();
    for (path, target) in
        [("/linked/file.txt", elsewhere.as_path()), ("/shadow.txt", Path::new("/etc/shadow"))]
    {
        assert_eq!(server.get(path).status, 403, "{path}");
        let link = server.site.root().join(path.split('/').nth(1).unwrap());
        let text = format!("{}, where the link {} leads", target.display(), link.display());
        server.wait_for_log(&text);
        let found = lines(&server, &text);
        assert!(!found[0].contains("chmod") && !found[0].contains("setfacl"), "{found:?}");
    }
}

#[test]
fn lines_about_files_name_the_request_with_its_host() {
    let server = site().serve();
    assert_eq!(server.send("GET /closed.txt?a HTTP/1.1\r\nHost: site.test\r\n\r\n").status, 403);
    let log = server.wait_for_log("closed.txt cannot be opened: the user \"");
    let line = log.lines().find(|line| line.contains("closed.txt cannot be opened")).unwrap();
    let (before, _) = line.split_once(": GET /closed.txt?a of site.test: /").expect(line);
    let id = before.rsplit_once("request ").expect(line).1;
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
}

#[test]
fn directives_that_are_no_file_and_links_in_a_circle_are_named() {
    let site = Site::script("index.php", "").file("fifo/file.txt", "").file("loop/file.txt", "");
    let root = site.root();
    let fifo = root.join("fifo/.htaccess");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    symlink("../loop/.htaccess", root.join("loop/.htaccess")).unwrap();
    symlink("circle.txt", root.join("circle.txt")).unwrap();
    let server = site.file(".htaccess", "Options -Indexes\n").serve();
    for (path, text) in [
        (
            "/fifo/file.txt",
            "fifo/.htaccess: cannot be opened: it is a named pipe (FIFO) and no regular file: \
             remove it",
        ),
        (
            "/loop/file.txt",
            "loop/.htaccess cannot be opened: its symbolic links lead to each other",
        ),
        ("/circle.txt", "circle.txt cannot be opened: its symbolic links lead to each other"),
    ] {
        assert_eq!(server.get(path).status, 403, "{path}");
        server.wait_for_log(text);
    }
}

#[test]
fn a_front_file_that_may_not_be_read_is_a_warning_at_the_start() {
    if !harness::requirements::root() {
        return;
    }
    for name in ["index.php", "index.html"] {
        let site = Site::new().file("index.php", "").file("index.html", "");
        let file = site.root().join(name);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let server = site.serve();
        let file = file.display();
        let expected = format!(
            "requests for {file} get 403: the user \"www-data\" may not read {file}; permit it"
        );
        server.wait_for_log(&expected);
        assert_eq!(lines(&server, "get 403").len(), 1, "{}", server.log());
    }
}

#[test]
fn the_start_says_where_mail_goes() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mail").display().to_string();
    for (option, expected) in [
        (None, "mail: to the server localhost:25; --mail-to page".to_owned()),
        (Some("smtp://localhost:1025"), "mail: to the server smtp://localhost:1025\n".to_owned()),
        (Some(&*file), format!("mail: to the file {file}\n")),
    ] {
        let site = Site::script("index.php", "");
        let site = match option {
            Some(option) => site.argument("--mail-to").argument(option),
            None => site,
        };
        let server = site.serve();
        assert!(server.announcement.contains(&expected), "{}", server.announcement);
    }
}
